"""Training: what it leaves, what `solve` does with it, and what is refused."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import handlens
from handlens import pipeline, registry
from handlens.cli import cli
from handlens.errors import DataError, HandlensError, ModelError
from handlens.lazy import train_of
from handlens.masks.rle import EMPTY, Rle
from handlens.runstore.store import ORDER, RUN, read_order
from handlens.types import Option


@dataclass(frozen=True)
class Stripe:
    """Answers as many pixels as the model says, none without a model."""

    def prepare(self, context, /):
        length = int((context.model / "length.txt").read_text()) if context.model else 0
        return lambda case: Rle(np.array([0]), np.array([length])) if length else EMPTY


def train(folder, run, settings, progress):
    cases = handlens.challenge("cells").read_cases(folder, "train")
    for done in range(len(cases)):
        progress(done + 1, len(cases))
    run.mkdir(exist_ok=True)
    (run / "length.txt").write_text(f"{int(settings['length'])}")
    return {"cases": float(len(cases))}


LENGTH = Option("length", "Pixels to answer.", default=7, commands=("train",))
BASE = Option("base", "A folder to begin with.", kind="path", commands=("train",))


@pytest.fixture
def trained(monkeypatch):
    """Cells with a training, under its own name in the registry, and ink without one."""
    cells = registry.challenge("cells")
    changed = replace(cells, train=train, recipe=Stripe, options=(*cells.options, LENGTH, BASE))
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
    assert (numbers, told) == ({"cases": 3.0}, [(1, 3), (2, 3), (3, 3)])
    page = json.loads((tmp_path / "run" / RUN).read_text())
    assert (page["challenge"], page["numbers"]) == ("cells", {"cases": 3.0})
    assert {"order": "rows", "length": 7, "base": None}.items() <= page["settings"].items()
    order = read_order(tmp_path / "run")
    assert (order["challenge"], order["folder"], order["settings"]) == ("cells", str(data), page["settings"])
    assert first_row(pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run")) == "0,1 7"
    assert json.loads((tmp_path / "out" / "score.json").read_text())["model"] == str(tmp_path / "run")
    assert first_row(pipeline.solve(trained, data, tmp_path / "out")) == "0,"


def test_another_run_starts_anew(trained, data, tmp_path):
    for length in (7, 8):
        settings = trained.settings(length=length)
        pipeline.train(trained, data, tmp_path / f"run{length}", settings=settings)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run7", progress=stop)
    assert (tmp_path / "out" / "answers.jsonl").is_file()
    solved = pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "run8")
    assert [line.split(",")[1] for line in solved.submission.read_text().splitlines()[1:]] == ["1 8"] * 3


def test_a_model_is_refused_where_it_cannot_be_used(trained, data, tmp_path):
    with pytest.raises(ModelError, match="^ink takes no trained model: leave --model out$"):
        pipeline.solve(registry.challenge("ink"), data, tmp_path / "out", model=tmp_path)
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("unfinished", "absent", "file"):
        with pytest.raises(DataError, match=f"{name}: no run.json in it: name a folder that `handlens train` wrote"):
            pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / name)
    for content, message in (("{", "damaged"), ("[]", "damaged"), ('{"challenge": "ink"}', "about ink, not cells")):
        (tmp_path / "unfinished" / RUN).write_text(content)
        with pytest.raises(HandlensError, match=message):
            pipeline.solve(trained, data, tmp_path / "out", model=tmp_path / "unfinished")
    assert not (tmp_path / "out").exists()


def test_a_finished_run_is_not_touched_and_an_unfinished_one_goes_on(trained, data, tmp_path):
    def broken(folder, run, settings, progress):
        (run / "checkpoint").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.train(replace(trained, train=broken), data, tmp_path / "run")
    assert sorted(os.listdir(tmp_path / "run")) == ["checkpoint", ORDER]
    with pytest.raises(DataError, match="begun with other data, other settings"):
        pipeline.train(trained, data, tmp_path / "run", settings=trained.settings(length=9))
    pipeline.train(trained, data, tmp_path / "run")
    with pytest.raises(DataError, match="this run is finished: name a new folder"):
        pipeline.train(trained, data, tmp_path / "run")
    with pytest.raises(DataError, match="no such folder"):
        pipeline.train(trained, tmp_path / "none", tmp_path / "other")
    with pytest.raises(DataError, match="this is a file"):
        pipeline.train(trained, data, tmp_path / "run" / RUN)
    with pytest.raises(HandlensError, match="ink cannot be trained: its solver takes no model"):
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
        pipeline.train(replace(trained, train=refuse), data, run, settings=trained.settings() | {"length": 3})
    assert not run.exists()
    with pytest.raises(HandlensError, match="the loss"):
        pipeline.train(replace(trained, train=begin_and_fail), data, run)
    assert {path.name for path in run.iterdir()} == {ORDER, "journal"}
    with pytest.raises(DataError, match="begun with other data, other settings"):
        pipeline.train(trained, data, run, settings=trained.settings() | {"length": 3})


def test_the_command(trained, data, tmp_path):
    done = run("train", "cells", data, "-o", tmp_path / "run", "--length", 5, "--base", tmp_path)
    assert done.exit_code == 0, done.exception
    assert done.stdout == "cases  3.000000\n"
    assert f"handlens solve cells FOLDER -o OUT --model {tmp_path / 'run'}" in done.stderr
    assert json.loads((tmp_path / "run" / RUN).read_text())["settings"]["base"] == str(tmp_path)
    assert run("solve", "cells", data, "-o", tmp_path / "out", "--model", tmp_path / "run").exit_code == 0
    assert "0,1 5" in (tmp_path / "out" / "submission.csv").read_text()
    assert json.loads(run("train", "cells", data, "-o", tmp_path / "second", "--json").stdout) == {"cases": 3.0}


def test_a_stopped_run_goes_on_by_its_name_alone(trained, data, tmp_path, monkeypatch):
    def stopped(folder, run, settings, progress):
        raise KeyboardInterrupt

    broken = replace(trained, train=stopped)
    monkeypatch.setattr(registry, "challenge", lambda name: broken)
    done = run("train", "cells", data, "-o", tmp_path / "run", "--length", 5, "--set", "a=1", "--set", "b=x=y")
    assert done.exit_code == 130
    assert f"stopped; handlens train --resume {tmp_path / 'run'} goes on from here" in done.stderr
    assert read_order(tmp_path / "run")["settings"]["set"] == {"a": "1", "b": "x=y"}
    monkeypatch.setattr(registry, "challenge", lambda name: trained)
    done = run("train", "--resume", tmp_path / "run")
    assert (done.exit_code, done.stdout) == (0, "cases  3.000000\n"), done.exception
    assert (tmp_path / "run" / "length.txt").read_text() == "5"
    for name, content, message in (
        ("none", None, "no order.json in it"),
        ("odd", "[]", "damaged"),
        ("bad", "{", "damaged"),
    ):
        if content:
            (tmp_path / name).mkdir()
            (tmp_path / name / ORDER).write_text(content)
        assert message in str(run("train", "--resume", tmp_path / name).exception)


def test_a_field_has_a_name_and_a_value(trained, data, tmp_path):
    for text in ("crop", "=3", "a b=3"):
        done = run("train", "cells", data, "-o", tmp_path / "run", "--set", text)
        assert (done.exit_code, "expected FIELD=VALUE" in done.stderr) == (2, True)


def test_only_what_can_be_trained_is_offered(trained, tmp_path):
    assert "cells" in run("train", "--help").output
    assert "ink" not in run("train", "--help").output
    assert "default: 7" in run("train", "cells", "--help").output
    assert "--model" in run("solve", "cells", "--help").output
    assert "--model" not in run("solve", "ink", "--help").output
    refused = run("train", "ink", tmp_path, "-o", tmp_path / "run")
    assert "ink has no `train`; challenges that have it: " in str(refused.exception)
    assert "cells" in str(refused.exception)
    assert "ink takes no trained model" in str(run("solve", "ink", tmp_path, "-o", "x", "--model", "y").exception)


@pytest.mark.parametrize(
    ("option", "good", "bad", "expected"),
    [
        (Option("a", "", choices=("x", "y"), default="x"), ["x", "y"], "z", "one of x, y"),
        (Option("a", ""), [None, 0, 2.5], "2", "a number from 0 on"),
        (Option("a", ""), [None], -1, "a number from 0 on"),
        (Option("a", ""), [None], float("nan"), "a number from 0 on"),
        (Option("a", ""), [None], float("inf"), "a number from 0 on"),
        (Option("a", "", kind="path"), [None], 3, "a path"),
        (Option("a", "", kind="count"), [None, 1, 7], 0, "a whole number from 1 on"),
        (Option("a", "", kind="count"), [None], 1.5, "a whole number from 1 on"),
        (Option("a", "", kind="fields", default={}), [{}, {"b": "c"}], "b=c", "names and their texts"),
    ],
)
def test_options_are_read_at_the_border(option, good, bad, expected):
    challenge = replace(registry.challenge("ink"), options=(option,))
    for value in good:
        assert challenge.settings(a=value) == {"a": value}
    with pytest.raises(HandlensError, match=f"a is {bad!r}; expected {expected}"):
        challenge.settings(a=bad)


def test_a_path_is_a_path_in_settings(tmp_path):
    challenge = replace(registry.challenge("ink"), options=(BASE,))
    assert challenge.settings(base=str(tmp_path)) == challenge.settings(base=tmp_path) == {"base": tmp_path}


def test_a_sample_gets_the_settings(tmp_path):
    got = {}

    def write_sample(folder, /, *, seed, cases, size, settings):
        got.update(settings)

    base = replace(BASE, commands=("sample",))
    challenge = replace(registry.challenge("ink"), options=(base,), write_sample=write_sample)
    pipeline.sample(challenge, tmp_path / "one", seed=0, cases=1, size=64, settings=challenge.settings(base="x"))
    assert got["base"] == Path("x").absolute(), "a run that goes on from elsewhere must find it"
    pipeline.sample(challenge, tmp_path / "two", seed=0, cases=1, size=64)
    assert got["base"] is None


def test_a_training_is_loaded_when_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "somewhere").mkdir()
    (tmp_path / "somewhere" / "__init__.py").write_text("")
    (tmp_path / "somewhere" / "training.py").write_text(
        "def train(folder, run, settings, progress):\n    progress(1, 1)\n    return {'told': settings['told']}\n"
    )
    function = train_of("somewhere")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert function(tmp_path, tmp_path, {"told": 1.0}, lambda done, total: None) == {"told": 1.0}
