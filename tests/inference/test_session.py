"""ONNX files: what is refused, with which words, and what a session answers."""

import pickle

import numpy as np
import pytest
from onnx_models import save, write_dark_is_cell

from handlens.errors import ModelError
from handlens.inference.model import MODEL
from handlens.inference.session import Session, open_segmenter

TILE = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_dark_is_cell(tmp_path_factory.mktemp("model"), smallest=4)


def test_a_model_answers(folder):
    answer = open_segmenter(folder / MODEL)(TILE)
    assert (answer.shape, answer.dtype) == ((64, 96), np.float32)
    middle = 1 / (1 + np.exp(-(140 - TILE[8:13, 18:23, 0].mean()) / 20))
    assert answer[10, 20] == pytest.approx(middle, abs=1e-6)


def test_threads_do_not_change_the_answer(folder):
    one, two = (open_segmenter(folder / MODEL, threads=count)(TILE) for count in (1, 2))
    assert np.array_equal(one, two)


def test_a_pickled_model_is_opened_again_with_one_thread(folder):
    segmenter = open_segmenter(folder / MODEL, threads=2)
    copy = pickle.loads(pickle.dumps(segmenter))
    assert (segmenter.session.threads, copy.session.threads) == (2, 1)
    assert np.array_equal(copy(TILE), segmenter(TILE))


def test_a_folder_without_a_model_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(ModelError, match=r"no model\.onnx in it: name a folder that `handlens train` wrote"):
            open_segmenter(place / MODEL)


def test_a_damaged_onnx_file_is_refused(folder, tmp_path):
    content = (folder / MODEL).read_bytes()
    for damaged in (b"", b"nonsense" * 40, content[: len(content) // 2], b"\x89PNG" + content):
        (tmp_path / MODEL).write_bytes(damaged)
        with pytest.raises(ModelError, match=r"model\.onnx: .*(ONNX|MiB|graph).*: copy it again, or train again"):
            Session(tmp_path / MODEL)


GREY = "pixels = Cast<to = 1>(image) grey = ReduceMean<keepdims = {keep}>(pixels, last) {name} = Mul(grey, scale)"


def grey(folder, *, name="probability", takes="uint8[n, h, w, 3] image", axes="n, h, w", scale="1.0"):
    """A model that gives the mean of the three colours, times `scale`."""
    steps = GREY.format(keep=int(axes.endswith("1")), name=name).replace("(image)", f"({takes.split()[-1]})")
    constants = f"int64[1] last = {{3}}, float scale = {{{scale}}}"
    return save(folder, steps, takes=takes, gives=f"float[{axes}] {name}", constants=constants)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "mask"}, r"it gives mask tensor\(float\) of 3 axes; expected probability tensor\(float\) of 3 axes"),
        ({"takes": "uint8[n, h, w, 3] x"}, r"it takes x tensor\(uint8\) of 4 axes; expected image"),
        (
            {"takes": "float[n, h, w, 3] image"},
            r"it takes image tensor\(float\) of 4 axes; expected image tensor\(uint8\)",
        ),
        ({"axes": "n, h, w, 1"}, r"it gives probability tensor\(float\) of 4 axes"),
    ],
)
def test_a_foreign_model_is_refused(tmp_path, wrong, words):
    with pytest.raises(ModelError, match=f"not a model for this: {words}"):
        open_segmenter(grey(tmp_path, **wrong) / MODEL)


@pytest.mark.parametrize("scale", ["1.0", "-1.0", "nan"])
def test_answers_that_are_no_probabilities_are_refused(tmp_path, scale):
    with pytest.raises(ModelError, match="answers with numbers outside of 0 to 1"):
        open_segmenter(grey(tmp_path, scale=scale) / MODEL)(TILE)


def test_an_answer_of_another_size_is_refused(tmp_path):
    steps = (
        "pixels = Cast<to = 1>(image) colours = ReduceMean<keepdims = 0>(pixels, last) line = ReduceMean(colours, rows)"
    )
    constants = "int64[1] last = {3}, int64[1] rows = {1}, float scale = {0.003}"
    save(tmp_path, f"{steps} probability = Mul(line, scale)", constants=constants)
    with pytest.raises(ModelError, match=r"answers \(1, 96\) for \(64, 96\) pixels; expected one number a pixel"):
        open_segmenter(tmp_path / MODEL)(TILE)


def test_a_model_that_fails_says_on_what(folder):
    with pytest.raises(ModelError, match=r"model\.onnx: fails on image \(64, 96, 3\): "):
        open_segmenter(folder / MODEL).session(image=TILE)
