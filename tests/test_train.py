"""Training: what it leaves, what `solve` does with it, and what is refused."""

import json
import os
import pickle
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from click.testing import CliRunner

import handlens
from handlens import pipeline, registry
from handlens.challenges.cells.options import CellsSettings
from handlens.cli import cli
from handlens.errors import DataError, HandlensError, ModelError
from handlens.lazy import lazy
from handlens.masks.rle import EMPTY, Rle
from handlens.runstore.store import MANIFEST, UNFINISHED, read_manifest
from handlens.settings import setting
from handlens.types import Prediction


@dataclass(frozen=True)
class Stripe:
    """Answers with so many pixels."""

    length: int
    model = None

    def decode(self, case, /):
        return nullcontext(case)

    def predict(self, case, work, /):
        return Prediction(Rle(np.array([0]), np.array([self.length])) if self.length else EMPTY)


def load(context):
    """As many pixels as the model says, none without a model."""
    return Stripe(int((context.model / "length.txt").read_text()) if context.model else 0)


class StripeSettings(CellsSettings, frozen=True, kw_only=True):
    """Those of cells, and two for the training."""

    length: Annotated[int, setting("Pixels to answer.", "train", ge=1)] = 7
    base: Annotated[Path | None, setting("A folder to begin with.", "train")] = None


def train(folder, run, settings, progress):
    cases = handlens.challenge("cells").read_cases(folder, "train")
    for done in range(len(cases)):
        progress(done + 1, len(cases))
    run.mkdir(exist_ok=True)
    (run / "length.txt").write_text(f"{settings.length}")
    return {"cases": len(cases), "share": 0.25}


@pytest.fixture
def trained(monkeypatch):
    """Cells with a training, under its own name in the registry, and ink without one."""
    cells = registry.challenge("cells")
    changed = replace(cells, train=train, load=load, settings_type=StripeSettings)
    found = registry.challenge
    known = {"cells": changed, "ink": replace(found("ink"), train=None)}
    monkeypatch.setattr(registry, "challenge", lambda name: known.get(name) or found(name))
    return changed


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=3, size=96)
    return folder


def first_row(solved):
    return solved.submission.read_text().splitlines()[1]


def test_a_run_is_used_by_solve(trained, data, tmp_path):
    told = []
    numbers = pipeline.train(trained, data, tmp_path / "run", progress=lambda *now: told.append(now))
    assert (numbers, told) == ({"cases": 3, "share": 0.25}, [(1, 3), (2, 3), (3, 3)])
    page = read_manifest(tmp_path / "run")
    assert (page["challenge"], page["numbers"], page["finished"]) == ("cells", {"cases": 3, "share": 0.25}, True)
    assert {"order": "rows", "length": 7, "base": None}.items() <= page["settings"].items()
    assert pipeline.read_training(tmp_path / "run") == ("cells", data, page["settings"])
    assert first_row(pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run")) == "0,1 7"
    assert json.loads((tmp_path / "out" / "score.json").read_text())["model"] == str(tmp_path / "run")
    assert first_row(pipeline.solve(trained, data, tmp_path / "out", overwrite=True)) == "0,"


def test_another_model_is_another_run(trained, data, tmp_path):
    for length in (7, 8):
        settings = trained.settings(length=length)
        pipeline.train(trained, data, tmp_path / f"run{length}", settings=settings)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run7", progress=stop)
    assert (tmp_path / "out" / UNFINISHED / "answers.jsonl").is_file()
    with pytest.raises(DataError, match="was begun by another run"):
        pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run8")
    solved = pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run8", overwrite=True)
    assert [line.split(",")[1] for line in solved.submission.read_text().splitlines()[1:]] == ["1 8"] * 3


def test_a_model_is_refused_where_it_cannot_be_used(trained, data, tmp_path):
    with pytest.raises(ModelError, match="^ink takes no trained model: leave --model out$"):
        pipeline.solve(registry.challenge("ink"), data, tmp_path / "out", model=tmp_path)
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("unfinished", "absent", "file"):
        with pytest.raises(DataError, match=f"{name}: (no run.json in it|no such folder)"):
            pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / name)
    about = '"command": "train", "challenge": "ink", "fingerprint": "key", "finished"'
    for content, message in (
        ("{", "damaged"),
        ("[]", "damaged"),
        (f"{{{about}: true}}", "trained for ink, not cells"),
        (f"{{{about}: false}}", "no finished training in it"),
    ):
        (tmp_path / "unfinished" / MANIFEST).write_text(content)
        with pytest.raises(HandlensError, match=message):
            pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "unfinished")
    assert not (tmp_path / "out").exists()


def test_a_finished_run_is_not_touched_and_an_unfinished_one_goes_on(trained, data, tmp_path):
    def broken(folder, run, settings, progress):
        (run / "checkpoint").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.train(replace(trained, train=broken), data, tmp_path / "run")
    assert sorted(os.listdir(tmp_path / "run")) == ["checkpoint", MANIFEST]
    with pytest.raises(DataError, match="was begun by another run .*other data, settings"):
        pipeline.train(trained, data, tmp_path / "run", settings=trained.settings(length=9))
    pipeline.train(trained, data, tmp_path / "run")
    with pytest.raises(DataError, match="this run is finished: name a new folder"):
        pipeline.train(trained, data, tmp_path / "run")
    with pytest.raises(DataError, match="no such folder"):
        pipeline.train(trained, tmp_path / "none", tmp_path / "other")
    with pytest.raises(DataError, match="this is a file"):
        pipeline.train(trained, data, tmp_path / "run" / MANIFEST)
    with pytest.raises(HandlensError, match="ink cannot be trained: its predictor takes no model"):
        pipeline.train(registry.challenge("ink"), data, tmp_path / "other")


def run(*args):
    return CliRunner().invoke(cli, list(map(str, args)))


def refuse(folder, run, settings, progress):
    raise HandlensError("no such field")


def begin_and_fail(folder, run, settings, progress):
    (run / "journal").write_text("one step")
    raise HandlensError("the loss is nan")


def test_a_training_that_is_refused_leaves_nothing_and_one_that_began_stays(trained, data, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(HandlensError, match="no such field"):
        pipeline.train(replace(trained, train=refuse), data, run, settings=trained.settings(length=3))
    assert not run.exists()
    with pytest.raises(HandlensError, match="the loss"):
        pipeline.train(replace(trained, train=begin_and_fail), data, run)
    assert {path.name for path in run.iterdir()} == {MANIFEST, "journal"}
    with pytest.raises(DataError, match="was begun by another run"):
        pipeline.train(trained, data, run, settings=trained.settings(length=3))


def test_the_command(trained, data, tmp_path):
    done = run("train", "cells", data, "-o", tmp_path / "run", "--length", 5, "--base", tmp_path)
    assert done.exit_code == 0, done.exception
    assert done.stdout == "cases  3\nshare  0.250000\n"
    assert f"handlens solve cells DATA -o OUT --model {tmp_path / 'run'}" in done.stderr
    assert read_manifest(tmp_path / "run")["settings"]["base"] == str(tmp_path)
    assert run("solve", "cells", data, "-o", tmp_path / "out", "--model", tmp_path / "run").exit_code == 0
    assert "0,1 5" in (tmp_path / "out" / "submission.csv").read_text()
    assert json.loads(run("train", "cells", data, "-o", tmp_path / "second", "--json").stdout) == {
        "cases": 3,
        "share": 0.25,
    }


def test_a_stopped_run_goes_on_by_its_name_alone(trained, data, tmp_path, monkeypatch):
    def stopped(folder, run, settings, progress):
        raise KeyboardInterrupt

    broken = replace(trained, train=stopped)
    monkeypatch.setattr(registry, "challenge", lambda name: broken)
    done = run("train", "cells", data, "-o", tmp_path / "run", "--length", 5, "--set", "a=1", "--set", "b=x=y")
    assert done.exit_code == 130
    assert f"stopped; handlens train --resume {tmp_path / 'run'} resumes from here" in done.stderr
    assert read_manifest(tmp_path / "run")["settings"]["set"] == {"a": "1", "b": "x=y"}
    monkeypatch.setattr(registry, "challenge", lambda name: trained)
    done = run("train", "--resume", tmp_path / "run")
    assert (done.exit_code, done.stdout) == (0, "cases  3\nshare  0.250000\n"), done.exception
    assert (tmp_path / "run" / "length.txt").read_text() == "5"
    for name, content, message in (
        ("none", None, "no such folder"),
        ("odd", "[]", "damaged"),
        ("bad", "{", "damaged"),
        ("solved", '{"command": "solve", "fingerprint": "", "finished": true}', "no training was begun here"),
    ):
        if content:
            (tmp_path / name).mkdir()
            (tmp_path / name / MANIFEST).write_text(content)
        assert message in str(run("train", "--resume", tmp_path / name).exception)


def test_a_field_has_a_name_and_a_value(trained, data, tmp_path):
    for text in ("crop", "=3", "a b=3", ".a=3", "a.=3", "a..b=3"):
        done = run("train", "cells", data, "-o", tmp_path / "run", "--set", text)
        assert (done.exit_code, "expected FIELD=VALUE" in done.stderr) == (2, True)


def test_only_what_can_be_trained_is_offered(trained, data, tmp_path):
    assert "cells" in run("train", "--help").output
    assert "ink" not in run("train", "--help").output
    assert "default: 7" in run("train", "cells", "--help").output
    assert "--model" in run("solve", "cells", "--help").output
    assert "--model" not in run("solve", "ink", "--help").output
    refused = run("train", "ink", tmp_path, "-o", tmp_path / "run")
    assert "ink has no `train`; challenges that have it: " in str(refused.exception)
    assert "cells" in str(refused.exception)
    assert "ink takes no trained model" in str(run("solve", "ink", data, "-o", "x", "--model", "y").exception)


def test_a_nested_field_has_dots(trained, data, tmp_path):
    assert run("train", "cells", data, "-o", tmp_path / "run", "--set", "augmentation.stain_jitter=0.3").exit_code == 0
    assert read_manifest(tmp_path / "run")["settings"]["set"] == {"augmentation.stain_jitter": "0.3"}


def test_a_sample_gets_the_settings(tmp_path):
    got = []

    def write_sample(folder, /, *, seed, cases, size, settings):
        got.append(settings.letters)

    challenge = replace(registry.challenge("ink"), write_sample=write_sample)
    pipeline.sample(challenge, tmp_path / "one", seed=0, cases=1, size=64, settings=challenge.settings(letters="x"))
    pipeline.sample(challenge, tmp_path / "two", seed=0, cases=1, size=64)
    assert got == [Path("x").absolute(), None], "a run that is resumed from elsewhere must find it"


def test_a_function_is_loaded_when_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "somewhere").mkdir()
    (tmp_path / "somewhere" / "__init__.py").write_text("")
    (tmp_path / "somewhere" / "training.py").write_text(
        "def train(folder, run, settings, progress):\n    progress(1, 1)\n    return {'told': settings['told']}\n"
    )
    function = lazy("somewhere.training:train")
    assert repr(function) == "lazy('somewhere.training:train')"
    monkeypatch.syspath_prepend(str(tmp_path))
    assert function(tmp_path, tmp_path, {"told": 1.0}, lambda done, total: None) == {"told": 1.0}
    assert pickle.loads(pickle.dumps(function)).path == function.path
