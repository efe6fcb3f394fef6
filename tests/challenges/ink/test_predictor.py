"""Solving with a network: maps beside the submission, killed and resumed, shared by processes, refused models."""

import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from onnx_models import save

from handlens import pipeline, registry
from handlens.challenges.ink import data, predictor
from handlens.challenges.ink.layout import open_fragment
from handlens.challenges.ink.options import InkSettings
from handlens.challenges.ink.predictor import MAP, MASK, SHEET, THRESHOLD, InkPredictor, load
from handlens.challenges.ink.tiles import Resources
from handlens.cli import cli
from handlens.errors import DataError, ModelError
from handlens.inference.ensemble import NetworkPair
from handlens.masks.rle import decode
from handlens.runstore.store import ArrayFolder
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


def predict(model, case, resources=None):
    predictor = load(Context(InkSettings(), model=model))
    if resources:
        predictor = replace(predictor, resources=resources)
    with predictor.decode(case) as fragment:
        return predictor.predict(fragment)


def solve(folder, out, model, **how):
    return pipeline.solve(registry.challenge("ink"), folder, out, model=model, **how)


@pytest.mark.slow
def test_a_model_solves(folder, model, tmp_path):
    done = CliRunner().invoke(
        cli, list(map(str, ["predict", model, folder, "-o", tmp_path / "out", "--probability", "tiff"]))
    )
    assert done.exit_code == 0, done.exception
    assert "2 cases, valid" in done.stdout
    kinds = ("mask.png", "overlay.png", "contours.geojson")
    made = {f"{case.id}.{kind}" for case in data.read_cases(folder, "test") for kind in kinds}
    report = {"report.html", "report.json", "report_data"}
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"probability", "run.json", "score.json", "submission.csv"} | made | report
    truth = data.read_cases(folder, "test")
    for case in truth:
        levels = tifffile.imread(tmp_path / "out" / "probability" / f"{case.id}.tif")
        mask = open_fragment(case.path)[1]
        assert (levels.shape, levels.dtype) == (case.shape, np.uint16)
        assert not levels[~mask].any()
        assert levels[mask].std() > 1000
    answer = predict(model, truth[0]).answer
    assert not decode(answer, truth[0].shape, order="rows")[~open_fragment(truth[0].path)[1]].any()


def test_nothing_about_the_work_changes_the_answer(folder, model):
    case = data.read_cases(folder, "test")[0]
    expected = predict(model, case)
    assert set(expected.artefacts) == {MAP, MASK, SHEET, THRESHOLD}
    for changed in (Resources(1, 1), Resources(1, 3, 17), Resources(1, 2, 300)):
        found = predict(model, case, changed)
        assert np.array_equal(found.answer.starts, expected.answer.starts)
        assert np.array_equal(found.answer.lengths, expected.answer.lengths)
        assert np.array_equal(found.artefacts[MAP], expected.artefacts[MAP])


def test_a_predictor_travels_with_one_thread(folder, model):
    case = data.read_cases(folder, "test")[0]
    opened = replace(load(Context(InkSettings(), model=model)), resources=Resources(1, 3))
    copy = pickle.loads(pickle.dumps(opened))
    assert isinstance(copy, InkPredictor)
    assert (copy.decision, copy.window, copy.resources) == (opened.decision, opened.window, Resources(1, 1))
    with copy.decode(case) as fragment:
        assert np.array_equal(copy.predict(fragment).answer.starts, predict(model, case).answer.starts)


@pytest.mark.slow
def test_processes_do_not_change_the_answer(folder, model, tmp_path):
    one = solve(folder, tmp_path / "one", model, workers=1).submission.read_bytes()
    assert solve(folder, tmp_path / "two", model, workers=2).submission.read_bytes() == one


KILLED = """
import os, signal, sys
from pathlib import Path
from handlens import pipeline, registry
from handlens.runstore.store import ArrayFolder
save = ArrayFolder.save
def dying(self, name, array):
    save(self, name, array)
    if name == "line0001":
        os.kill(os.getpid(), signal.SIGKILL)
ArrayFolder.save = dying
folder, out, model = map(Path, sys.argv[1:])
pipeline.solve(registry.challenge("ink"), folder, out, model=model)
"""


@pytest.fixture
def saved(monkeypatch):
    """Fragments and names of what is kept from now on."""
    found, save_array = [], ArrayFolder.save

    def counted(self, name, array):
        found.append((self.folder.name.split("-")[0], name))
        save_array(self, name, array)

    monkeypatch.setattr(ArrayFolder, "save", counted)
    return found


@pytest.fixture
def killed(folder, model, tmp_path):
    """A run that was killed when its second line was done."""
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", KILLED, folder, out, model], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    (kept,) = (out / "unfinished").iterdir()
    assert kept.name.startswith("a-")
    assert sorted(path.name for path in kept.iterdir()) == [
        "line0000.npy", "line0001.npy", "sheet-clear.npy", "sheet.npy",
    ]  # fmt: skip
    return out, kept


def test_killed_it_goes_on(folder, model, tmp_path, killed, saved, monkeypatch):
    whole = solve(folder, tmp_path / "whole", model).submission.read_bytes()
    count = 1 + max(int(name[4:]) for _, name in saved if name.startswith("line"))  # both have as many rows
    sheet = [("b", "sheet"), ("b", "sheet-clear")]
    lines = [f"line{number:04d}" for number in range(count)]
    found, told, find = [], [], predictor.find_surface
    monkeypatch.setattr(predictor, "find_surface", lambda *given: found.append(1) or find(*given))
    saved.clear()
    again = solve(folder, killed[0], model, progress=lambda *now: told.append(now))
    assert again.submission.read_bytes() == whole
    assert saved == [("a", name) for name in lines[2:]] + sheet + [("b", name) for name in lines]
    assert len(found) == 1  # of the second fragment alone
    assert told[:2] == [(0, 2), (200 // count, 200, "a")]
    assert (100, 200, "finding the surface") in told
    assert told[-1] == (200, 200)
    assert [now[0] * 200 // now[1] for now in told] == sorted(now[0] * 200 // now[1] for now in told)
    assert not (killed[0] / "unfinished").exists()


@pytest.mark.parametrize("name", ["line0001.npy", "sheet.npy"])
def test_what_was_kept_and_is_damaged_is_computed_again(folder, model, tmp_path, killed, saved, name):
    whole = solve(folder, tmp_path / "whole", model).submission.read_bytes()
    (killed[1] / name).write_bytes(b"\x93NUMPY damaged")
    saved.clear()
    assert solve(folder, killed[0], model).submission.read_bytes() == whole
    assert ("a", name.removesuffix(".npy")) in saved
    assert ("a", "line0000") not in saved


def test_what_was_kept_for_another_model_is_not_used(folder, model, tmp_path, killed, saved):
    other = write_model(tmp_path / "other", smallest=0, turns=1)
    with pytest.raises(DataError, match="was begun by another run"):
        solve(folder, killed[0], other)
    expected = solve(folder, tmp_path / "whole", other).submission.read_bytes()
    every = list(saved)
    saved.clear()
    assert solve(folder, killed[0], other, overwrite=True).submission.read_bytes() == expected
    assert saved == every


@pytest.mark.slow
def test_predicting_does_not_load_torch(folder, model, tmp_path):
    code = KILLED.replace("os.kill(", "print(").replace("line0001", "line0099")
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
        ({"threshold": 2}, "decision: threshold is 2; expected a number from 0 to 1: train again"),
        ({"smallest": -1}, "decision: smallest is -1"),
        ({"turns": 9}, "decision: turns is 9"),
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
        load(Context(InkSettings(), model=tmp_path))


def test_a_model_for_other_layers_is_refused_when_asked(folder, tmp_path):
    model = write_model(tmp_path / "model", fields={**FIELDS, "above": 5})
    with pytest.raises(ModelError, match="fails on window"):
        predict(model, data.read_cases(folder, "test")[0])


@pytest.mark.slow
def test_the_baseline_answers_where_it_is_asked_for(folder, tmp_path):
    solved = solve(folder, tmp_path / "out", None, solver="baseline")
    assert solved.score is not None
    with pytest.raises(ModelError, match="the baseline makes no probability map: leave --probability out"):
        solve(
            folder, tmp_path / "map", None, solver="baseline", keep_going=True, settings=InkSettings(probability="zarr")
        )
    assert not (tmp_path / "map").exists()


def test_without_a_model_nothing_is_answered(folder, tmp_path, monkeypatch):
    """No silent fallback to the baseline."""
    monkeypatch.setattr(predictor, "INCLUDED_MODEL", tmp_path / "none")
    with pytest.raises(ModelError, match=r"no plan\.json in it"):
        solve(folder, tmp_path / "out", None)
    assert not (tmp_path / "out").exists()


def test_a_shipped_model_is_used(model, monkeypatch):
    monkeypatch.setattr(predictor, "INCLUDED_MODEL", model)
    opened = load(Context(InkSettings()))
    assert (opened.decision.smallest, opened.resources.turns, opened.window.layers) == (20, 1, 9)
    assert opened.model.folder == model
    assert load(Context(InkSettings(turns=4), threads=3)).resources == Resources(4, 3)


def test_two_networks_are_a_weighted_mean_of_log_odds():
    first, second = np.array([[0.5, 0.9, 0.0]], np.float32), np.array([[0.8, 0.9, 1.0]], np.float32)
    both = NetworkPair(lambda _: first, lambda _: second, weight=0.25)(np.zeros((1, 4, 4), np.uint8))
    odds = (0.8 / 0.2) ** 0.25  # to the quarter: the first says 1 to 1
    assert both.dtype == np.float32
    assert both[0, :2] == pytest.approx([odds / (1 + odds), 0.9], abs=1e-6)
    assert 0 < both[0, 2] < 0.02  # certainty is bounded, and three quarters of it say no
