"""What a notebook gets: arrays in, mask, labels and table out, equal to what `solve` writes."""

from __future__ import annotations

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from onnx_models import write_dark_is_cell
from PIL import Image

from handlens import pipeline, registry
from handlens.challenges.cells.instances import COLUMNS
from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.predictor import CellsPredictor, load, load_baseline
from handlens.challenges.cells.result import CellsResult
from handlens.errors import DataError
from handlens.io import images
from handlens.masks.rle import encode
from handlens.types import Context

CELLS = registry.challenge("cells")
CONTEXT = Context(CellsSettings())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dark_is_cell(tmp_path_factory.mktemp("model"), smallest=30, largest_hole=50)


@pytest.fixture(scope="module")
def predictor(model: Path) -> CellsPredictor:
    return load(Context(CellsSettings(), model=model))


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    picture = np.full((120, 160, 3), 230, np.uint8)
    for centre in ((30, 30), (52, 30), (110, 80), (40, 90)):
        cv2.circle(picture, centre, 12, (70, 50, 130), -1)
    return picture


@pytest.fixture(scope="module")
def result(predictor: CellsPredictor, picture: np.ndarray) -> CellsResult:
    return predictor(picture)


def test_it_is_what_solve_writes(model: Path, result: CellsResult, picture: np.ndarray, tmp_path: Path) -> None:
    images.write_png(tmp_path / "own" / "slide.png", picture)
    settings = CellsSettings(instances=True)
    solved = pipeline.solve(CELLS, tmp_path / "own", tmp_path / "out", model=model, settings=settings)
    (case,) = CELLS.read_cases(tmp_path / "own", "test")
    (written,) = CELLS.codec(settings).format(result.rle, case)
    assert solved.submission.read_text().splitlines()[1] == f"slide,{written}"
    assert np.array_equal(result.labels, tifffile.imread(tmp_path / "out" / "instances" / "slide.tif"))
    with (tmp_path / "out" / "instances" / "slide.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for name in COLUMNS:
        assert [float(row[name]) for row in rows] == pytest.approx(list(result.table[name]), abs=0.005)


def test_its_parts_agree(result: CellsResult, picture: np.ndarray) -> None:
    assert (result.mask.dtype, result.mask.shape) == (np.bool_, picture.shape[:2])
    assert np.array_equal(encode(result.mask, order="rows").starts, result.rle.starts)
    assert (result.labels.dtype, result.labels.max()) == (np.int32, 4)  # the touching two are split
    assert np.array_equal(result.labels > 0, result.mask)
    assert result.table["object"] == [1, 2, 3, 4]
    assert result.table["area"] == np.bincount(result.labels.ravel())[1:].tolist()
    assert (result.probability.dtype, result.probability.shape) == (np.float32, picture.shape[:2])
    assert result.probability[result.mask & (result.probability > 0)].min() > 0.49
    assert result.mask is result.mask  # made once


def test_it_is_drawn(result: CellsResult, picture: np.ndarray) -> None:
    drawn = result.overlay()
    assert (drawn.shape, drawn.dtype) == (picture.shape, np.uint8)
    changed = (drawn != picture).any(axis=2)
    inner = cv2.erode(result.mask.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)
    assert changed.any()
    assert not (changed & inner).any()
    assert not (changed & ~cv2.dilate(result.mask.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)).any()
    assert np.array_equal(result.image, picture)  # drawn on a copy
    page = result._repr_html_()
    assert page.startswith("<figure")
    assert "4 cells" in page
    assert repr(result) == f"<CellsResult 120x160: {result.mask.mean():.1%} cells>"


def test_pandas_takes_the_table(result: CellsResult) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(result.table)
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == 4


def test_a_picture_may_come_in_many_forms(predictor: CellsPredictor, picture: np.ndarray, tmp_path: Path) -> None:
    images.write_png(tmp_path / "0.png", picture)
    expected = predictor(picture).rle
    others = [
        str(tmp_path / "0.png"),
        tmp_path / "0.png",
        Image.fromarray(picture),
        Image.fromarray(picture).convert("RGBA"),
        np.dstack([picture, np.full(picture.shape[:2], 9, np.uint8)]),
        picture.astype(np.uint16) * 257,
        picture.astype(np.float32) / 255,
        np.asfortranarray(picture),
    ]
    for value in others:
        assert np.array_equal(predictor(value).rle.starts, expected.starts)
    grey = predictor(picture[:, :, 0])
    assert grey.image.shape == picture.shape
    assert grey.rle.area > 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3, np.uint8), r"shape \(3,\) is no image: expected \(H, W\) or \(H, W, 3\)"),
        (np.zeros((4, 4, 5), np.uint8), r"shape \(4, 4, 5\) is no image"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"shape \(2, 4, 4, 3\) is no image"),
        (np.zeros((0, 4, 3), np.uint8), "is no image"),
        (np.full((4, 4), 1.5), "floats outside of 0 to 1"),
        (np.full((4, 4), np.nan), "floats outside of 0 to 1"),
        (np.zeros((4, 4), np.int64), "an array of int64: pass uint8, uint16, or floats from 0 to 1"),
        (np.array([["a", "b"]]), "is no image"),
        (None, "is no image"),
        ("absent.png", "absent.png: no such file"),
    ],
)
def test_what_is_no_picture_is_refused(predictor: CellsPredictor, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predictor(value)


def test_nothing_found_is_a_result_too(predictor: CellsPredictor) -> None:
    empty = predictor(np.full((20, 30, 3), 250, np.uint8))
    assert not empty.mask.any()
    assert not empty.labels.any()
    assert empty.table == {name: [] for name in COLUMNS}
    assert np.array_equal(empty.overlay(), empty.image)
    assert "0 cells" in empty._repr_html_()


def test_the_baseline_gives_the_same_kind_of_result(picture: np.ndarray) -> None:
    found = load_baseline(CONTEXT)(picture)
    assert isinstance(found, CellsResult)
    assert found.mask[30, 30]
    assert np.array_equal(found.probability > 0.5, found.mask)
    assert found.labels.max() >= 3
