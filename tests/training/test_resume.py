"""Killed at any moment and resumed, the weights are those of an undisturbed run, to the last bit."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tiny_training
import torch

from handlens.inference.model import MODEL
from handlens.inference.session import open_segmenter
from handlens.training.loop import LOG, read_log

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def train_elsewhere(slides):
    """Train in another process, until a point where it dies; its status, and what it wrote to stderr."""
    command = [sys.executable, tiny_training.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:

        def train(run, point=""):
            print(json.dumps([str(slides), str(run), point]), file=program.stdin, flush=True)
            return json.loads(program.stdout.readline())

        yield train


@pytest.fixture(scope="module")
def undisturbed(slides, tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    numbers = tiny_training.train(slides, run)
    assert 0 <= numbers["Dice, out of fold"] <= 1
    return run


def assert_same_run(run, other):
    ours, theirs = torch.load(run / "weights.pt"), torch.load(other / "weights.pt")
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    pages = [json.loads((each / "plan.json").read_text()) for each in (run, other)]
    assert pages[0]["scores"] == pages[1]["scores"]
    assert pages[0]["decision"] == pages[1]["decision"]
    steps = [
        [(line["stage"], line["step"], line["loss"], line["metric"]) for line in read_log(each / LOG)]
        for each in (run, other)
    ]
    assert steps[0] == steps[1]


def test_killed_again_and_again(train_elsewhere, undisturbed, tmp_path):
    run = tmp_path / "run"
    for point in ("planned", "batch", "saving", "predicting", "exported", "left"):
        status, words = train_elsewhere(run, point)
        assert status == -9, (point, words)
    status, words = train_elsewhere(run)
    assert status == 0, words
    assert_same_run(run, undisturbed)
    assert not (run / "stages").exists()


def test_stopped_by_a_signal_it_leaves_a_usable_model_and_goes_on(slides, train_elsewhere, undisturbed, tmp_path):
    run = tmp_path / "run"
    status, words = train_elsewhere(run, "stop")
    assert (status, "TrainingStopped" in words) == (1, True), words
    page = json.loads((run / "plan.json").read_text())
    assert (page["finished"], page["score"], page["trained_steps"]) == (False, None, 6)
    said = open_segmenter(run / MODEL, threads=1)(np.zeros((64, 32, 3), np.uint8))
    assert said.shape == (64, 32)
    assert "stopped before its end" in (run / "card.md").read_text()
    tiny_training.train(slides, run)
    assert_same_run(run, undisturbed)


def test_a_finished_run_is_left_alone(slides, undisturbed):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    assert tiny_training.train(slides, undisturbed)["steps of a fold"] == 6.0
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")} == before


def test_the_seed_matters(slides, undisturbed, tmp_path):
    tiny_training.train(slides, tmp_path / "run", schedule=tiny_training.SCHEDULE.replace(seed=1))
    with pytest.raises(AssertionError):
        assert_same_run(tmp_path / "run", undisturbed)
