"""Solving with a network: maps beside the submission, killed and resumed, shared by processes, refused models."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from handlens.challenges.ink.checkpoint import Bands
from onnx_models import save

from handlens import pipeline, registry
from handlens.challenges.ink import data, predictor
from handlens.challenges.ink.baseline import InkModel
from handlens.challenges.ink.predictor import RECIPE
from handlens.cli import cli
from handlens.errors import ModelError
from handlens.masks.rle import decode
from handlens.types import Context

FIELDS = {"below": 5, "above": 4, "side": "last"}


def write_model(folder, *, fields=FIELDS, takes="uint8[n, 9, h, w] window", **decision):
    """Ink where the mean of 4x4 pixels is bright in the layers above the surface."""
    steps = """
        pixels = Cast<to = 1>(window)
        over = Slice(pixels, six, nine, one)
        plane = ReduceMean<keepdims = 1>(over, one)
        coarse = AveragePool<kernel_shape = [4, 4], strides = [4, 4]>(plane)
        grey = Squeeze(coarse, one)
        brighter = Sub(grey, middle)
        logit = Div(brighter, softness)
        probability = Sigmoid(logit)
    """
    constants = "int64[1] one = {1}, int64[1] six = {6}, int64[1] nine = {9}, "
    constants += "float middle = {110.0}, float softness = {15.0}"
    save(folder, steps, takes=takes, gives="float[n, rows, columns] probability", constants=constants)
    page = {"challenge": "ink", "fields": fields, "decision": {"threshold": 0.5, **decision}}
    (folder / "plan.json").write_text(json.dumps(page))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ink") / "data"
    settings = registry.challenge("ink").settings(slices=12, width=96)
    pipeline.sample(registry.challenge("ink"), folder, seed=3, cases=2, size=1100, settings=settings)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "run", smallest=20, turns=1)


def solve(folder, out, model, **how):
    return pipeline.solve(registry.challenge("ink"), folder, out, model=model, **how)


def test_a_model_solves(folder, model, tmp_path):
    done = CliRunner().invoke(
        cli, list(map(str, ["predict", model, folder, "-o", tmp_path / "out", "--probability", "tiff"]))
    )
    assert done.exit_code == 0, done.exception
    assert "2 cases, valid" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["probability", "score.json", "submission.csv"]
    truth = data.read_cases(folder, "test")
    for case in truth:
        levels = tifffile.imread(tmp_path / "out" / "probability" / f"{case.id}.tif")
        mask = predictor.open_fragment(case.path)[1]
        assert (levels.shape, levels.dtype) == (case.shape, np.uint16)
        assert not levels[~mask].any()
        assert levels[mask].std() > 1000
    answer = RECIPE.prepare(Context(model=model))(truth[0])
    assert not decode(answer, truth[0].shape, order="rows")[~predictor.open_fragment(truth[0].path)[1]].any()


def test_nothing_about_the_work_changes_the_answer(folder, model):
    case = data.read_cases(folder, "test")[0]
    expected = RECIPE.prepare(Context(model=model))(case)
    for changed in (replace(RECIPE, threads=1), replace(RECIPE, threads=3, rows=17), replace(RECIPE, rows=300)):
        answer = changed.prepare(Context(model=model))(case)
        assert np.array_equal(answer.starts, expected.starts)
        assert np.array_equal(answer.lengths, expected.lengths)


def test_processes_do_not_change_the_answer(folder, model, tmp_path):
    one = solve(folder, tmp_path / "one", model, workers=1).submission.read_bytes()
    assert solve(folder, tmp_path / "two", model, workers=2).submission.read_bytes() == one


KILLED = """
import os, signal, sys
from pathlib import Path
from handlens import pipeline, registry
from handlens.challenges.ink.checkpoint import Bands
save = Bands.save
def dying(self, line, answer):
    save(self, line, answer)
    if line == 1:
        os.kill(os.getpid(), signal.SIGKILL)
Bands.save = dying
folder, out, model = map(Path, sys.argv[1:])
pipeline.solve(registry.challenge("ink"), folder, out, model=model)
"""


def test_killed_it_goes_on(folder, model, tmp_path, monkeypatch):
    whole = solve(folder, tmp_path / "whole", model).submission.read_bytes()
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", KILLED, folder, out, model], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    left = sorted(path.name for path in (out / "unfinished" / "a").iterdir())
    assert left == ["key.txt", "line0000.npy", "line0001.npy", "sheet.npz"]
    saved, told = [], []
    save_line = Bands.save

    def counted(self, line, answer):
        saved.append((self.folder.name, line))
        save_line(self, line, answer)

    monkeypatch.setattr(Bands, "save", counted)
    again = solve(folder, out, model, progress=lambda *now: told.append(now))
    assert again.submission.read_bytes() == whole
    count = 1 + max(line for _, line in saved)  # both fragments have as many rows
    assert saved == [("a", line) for line in range(2, count)] + [("b", line) for line in range(count)]
    assert told[:2] == [(0, 2), (200 // count, 200, "fragment a")]
    assert told[-1] == (200, 200)
    assert not (out / "unfinished").exists()


def test_what_was_kept_for_another_model_is_not_used(folder, model, tmp_path):
    bands = Bands(tmp_path / "a", "one").open()
    bands.save(0, np.zeros((3, 4), np.float32))
    assert np.array_equal(Bands(tmp_path / "a", "one").open().load(0), np.zeros((3, 4)))
    (tmp_path / "a" / "line0001.npy").write_bytes(b"\x93NUMPY damaged")
    assert bands.load(1) is None
    assert bands.load_sheet() is None
    assert Bands(tmp_path / "a", "two").open().load(0) is None
    bands.remove()
    assert not (tmp_path / "a").exists()


def test_predicting_does_not_load_torch(folder, model, tmp_path):
    code = KILLED.replace("os.kill(", "print(").replace("if line == 1", "if line == 99")
    code += "print('torch' in sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-c", code, folder, tmp_path / "out", model], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fields": {}}, "plan.json: it does not say which layers the model looks at: train again"),
        ({"takes": "uint8[n, 9, h, w] picture"}, "it takes picture"),
        ({"threshold": 2}, "decision.threshold is 2; expected a number from 0 to 1"),
        ({"smallest": -1}, "decision.smallest is -1"),
        ({"turns": 9}, "decision.turns is 9"),
    ],
)
def test_models_that_do_not_fit_are_refused(tmp_path, change, words):
    if "takes" in change:
        write_model(tmp_path)
        save(
            tmp_path,
            "probability = Cast<to = 1>(picture)",
            takes="uint8[n, h, w] picture",
            gives="float[n, h, w] probability",
        )
    else:
        write_model(tmp_path, **change)
    with pytest.raises(ModelError, match=words):
        RECIPE.prepare(Context(model=tmp_path))


def test_a_model_for_other_layers_is_refused_when_asked(folder, tmp_path):
    model = write_model(tmp_path / "model", fields={**FIELDS, "above": 5})
    with pytest.raises(ModelError, match="fails on window"):
        RECIPE.prepare(Context(model=model))(data.read_cases(folder, "test")[0])


def test_without_a_model_the_plain_solver_answers(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(predictor, "SHIPPED", tmp_path)
    assert not RECIPE.learned
    assert isinstance(RECIPE.prepare(Context()), InkModel)
    with pytest.raises(ModelError, match="the plain solver makes no map: leave --probability out"):
        RECIPE.prepare(Context(settings={"probability": "zarr"}))


def test_a_shipped_model_is_used(model, monkeypatch):
    monkeypatch.setattr(predictor, "SHIPPED", model)
    assert RECIPE.learned
    prepared = RECIPE.prepare(Context())
    assert (prepared.decision.smallest, prepared.effort.turns, prepared.window.layers) == (20, 1, 9)
    assert RECIPE.prepare(Context(settings={"turns": "4"})).effort.turns == 4
