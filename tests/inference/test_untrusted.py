"""Models of strangers: read before they are run, and with `untrusted` run in a sandbox, with the same answers."""

import gc
import pickle
import threading
from pathlib import Path

import hostile_models
import numpy as np
import onnx_models
import pytest
from click.testing import CliRunner

import handlens
from handlens.cli import cli
from handlens.errors import HandlensError, ModelError
from handlens.inference.session import open_segmenter


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return onnx_models.write_dark_is_cell(tmp_path_factory.mktemp("model"))


def test_the_same_answers_to_the_bit(folder):
    tile = np.random.default_rng(0).integers(0, 256, (96, 64, 3), np.uint8)
    here, there = (open_segmenter(folder / "model.onnx", untrusted=untrusted) for untrusted in (False, True))
    np.testing.assert_array_equal(here(tile), there(tile))
    copy = pickle.loads(pickle.dumps(there))
    assert copy.session.untrusted
    np.testing.assert_array_equal(copy(tile), here(tile))


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("cells", np.random.default_rng(1).integers(0, 256, (64, 96, 3), np.uint8)),
        ("lesions", np.random.default_rng(2).integers(0, 256, (64, 96, 3), np.uint8)),
        ("ink", np.random.default_rng(3).integers(0, 65536, (24, 64, 64), np.uint16)),
    ],
)
def test_included_models_answer_the_same_in_a_sandbox(name, image):
    results = [handlens.load(name, untrusted=untrusted)(image) for untrusted in (False, True)]
    values = [
        {"cells": lambda r: r.probability, "lesions": lambda r: r.probabilities, "ink": lambda r: r.probability_map}[
            name
        ](result)
        for result in results
    ]
    if isinstance(values[0], dict):
        assert values[0] == values[1]
    else:
        np.testing.assert_array_equal(*values)


def test_solve_takes_the_flag_and_gives_the_same_submission(folder, tmp_path):
    handlens.sample("cells", tmp_path / "data", cases=2, size=64)
    texts = []
    for flags in ([], ["--untrusted"]):
        out = tmp_path / f"out{len(flags)}"
        command = ["solve", "cells", str(tmp_path / "data"), "-o", str(out), "--model", str(folder), *flags]
        run = CliRunner().invoke(cli, command)
        assert run.exit_code == 0, run.output
        texts.append((out / "submission.csv").read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("kind", ["external", "random", "damaged"])
def test_a_stranger_s_file_is_read_before_it_is_run(kind, untrusted, folder, tmp_path):
    content = {
        "external": lambda: hostile_models.external_data("../../labels.csv").SerializeToString(),
        "random": lambda: hostile_models.random_in("branch").SerializeToString(),
        "damaged": lambda: b"no model",
    }[kind]()
    place = tmp_path / "model"
    place.mkdir()
    (place / "plan.json").write_bytes((folder / "plan.json").read_bytes())
    (place / "model.onnx").write_bytes(content)
    message = {"external": "handlens pack", "random": "random operator", "damaged": "not a readable ONNX file"}[kind]
    with pytest.raises(ModelError, match=message) as caught:
        handlens.load("cells", place, untrusted=untrusted)
    assert str(place / "model.onnx") in str(caught.value)


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("operator", [b"\x1b[2JAAA", b"\xff\xfe\xfd\xfcAAA"])
def test_what_the_runtime_says_of_a_file_steers_no_terminal(operator, untrusted, folder, tmp_path, capfd):
    """It quotes names as they are, and Python's part of it prints where they are no text."""
    model = hostile_models.honest()
    model.graph.node[0].op_type = "BBBBBBB"
    place = tmp_path / "model"
    place.mkdir()
    (place / "plan.json").write_bytes((folder / "plan.json").read_bytes())
    (place / "model.onnx").write_bytes(model.SerializeToString().replace(b"BBBBBBB", operator))
    with pytest.raises(ModelError) as caught:
        handlens.load("cells", place, untrusted=untrusted)
    assert str(caught.value).isprintable()
    assert capfd.readouterr().out == ""


def test_what_has_no_network_cannot_be_distrusted():
    with pytest.raises(HandlensError, match="forgery has no ONNX model"):
        handlens.load("forgery", untrusted=True)
    with pytest.raises(HandlensError, match="a baseline has no network"):
        handlens.load("cells", solver="baseline", untrusted=True)


def test_a_model_that_is_forgotten_while_it_is_asked_elsewhere_takes_no_lock(folder):
    """Its turn is held, as by a thread that asks: the garbage collector must not wait for it."""
    segmenter = open_segmenter(folder / "model.onnx", untrusted=True)
    engine = segmenter.session._engine
    turn, popen = engine._turn, engine._model.process.popen
    cycle = [segmenter, engine]
    cycle.append(cycle)
    del segmenter, engine, cycle
    done = threading.Event()

    def collect():
        with turn, popen._waitpid_lock:
            gc.collect()
        done.set()

    threading.Thread(target=collect, daemon=True).start()
    assert done.wait(60), "a deadlock"
    assert popen.returncode is not None
    assert not Path(f"/proc/{popen.pid}/root").exists()
