"""Thresholds alone: good on real and synthetic slides, and never at a loss for an answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from handlens.challenges.cells.baseline import Otsu
from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.predictor import load_baseline
from handlens.challenges.cells.sample import write_sample
from handlens.io import images
from handlens.io.row_reader import RowReader
from handlens.masks import metrics, rle
from handlens.types import Case, Context

REAL = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "cells" / "train"

OTSU = Otsu()
BASELINE = load_baseline(Context(CellsSettings()))
BYTE = npt.NDArray[np.uint8]


def solve(path: Path) -> rle.Rle:
    with BASELINE.decode(Case("0", path)) as image:
        return BASELINE.predict(image).answer


def dice(picture: Path, mask: Path, *, empty_answer: bool = False) -> float:
    answer = rle.EMPTY if empty_answer else solve(picture)
    truth = rle.encode(images.read_mask(mask), order="rows")
    return metrics.dice(metrics.compare(answer, truth), empty=1.0)


def noise(*shape: int) -> BYTE:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_it_finds_made_up_nuclei(tmp_path: Path) -> None:
    write_sample(tmp_path, seed=0, cases=3, size=300, settings=CellsSettings())
    masks = tmp_path / "truth" / "mask"
    pictures = images.list_images(tmp_path / "test" / "im")
    scores = [dice(path, masks / path.name) for path in pictures]
    nothing = [dice(path, masks / path.name, empty_answer=True) for path in pictures]
    assert np.mean(scores) > 0.6
    assert all(score > empty for score, empty in zip(scores, nothing, strict=True))


def test_made_up_nuclei_are_not_too_easy(tmp_path: Path) -> None:
    write_sample(tmp_path, seed=1, cases=3, size=300, settings=CellsSettings())
    masks = tmp_path / "truth" / "mask"
    scores = [dice(path, masks / path.name) for path in images.list_images(tmp_path / "test" / "im")]
    assert np.mean(scores) < 0.92


@pytest.mark.skipif(not REAL.is_dir(), reason="the real slides are not beside this repository")
def test_it_finds_real_nuclei() -> None:
    pictures = images.list_images(REAL / "im")[::6][:6]
    scores = [dice(path, REAL / "mask" / path.name) for path in pictures]
    assert len(scores) == 6
    assert np.mean(scores) >= 0.75


@pytest.mark.parametrize(
    "picture",
    [
        pytest.param(np.zeros((1, 1), np.uint8), id="one pixel"),
        pytest.param(noise(1, 9, 3), id="one row"),
        pytest.param(noise(9, 1, 3), id="one column"),
        pytest.param(noise(40, 30), id="grey"),
        pytest.param(noise(40, 30, 4), id="alpha"),
        pytest.param(noise(40, 30).astype(np.uint16) * 257, id="16 bits"),
        pytest.param(noise(600, 8, 3), id="tall"),
    ],
)
def test_odd_pictures_get_an_answer_within_them(tmp_path: Path, picture: npt.NDArray[np.uint8]) -> None:
    path = tmp_path / "00.png"
    images.write_png(path, picture)
    answer = solve(path)
    assert rle.decode(answer, picture.shape[:2], order="rows").shape == picture.shape[:2]


@pytest.mark.parametrize("level", [0, 128, 255])
def test_a_flat_picture_has_no_cells(level: int) -> None:
    assert not OTSU.segment(np.full((64, 48, 3), level, np.uint8)).any()


def test_the_noise_of_an_empty_slide_is_no_cell() -> None:
    slide = np.random.default_rng(0).normal(240, 3, (200, 200, 3)).clip(0, 255).astype(np.uint8)
    assert not OTSU.segment(slide).any()


def test_the_answer_is_numbered_along_rows(tmp_path: Path) -> None:
    picture = np.full((40, 80, 3), 230, np.uint8)
    picture[10:20, 50:70] = (80, 50, 130)
    path = tmp_path / "00.png"
    images.write_png(path, picture)
    answer = rle.decode(solve(path), (40, 80), order="rows")
    assert answer[15, 60]
    assert not answer[30:].any()
    assert not answer[:, :40].any()


def test_the_answer_to_a_picture_does_not_depend_on_when_it_is_asked() -> None:
    picture = noise(60, 60, 3)
    assert np.array_equal(OTSU.segment(picture), OTSU.segment(picture.copy()))


@pytest.mark.parametrize("shape", [(203, 161), (96, 200), (47, 1)])
def test_where_bands_end_changes_nothing(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = np.random.default_rng(1).integers(60, 250, (shape[0] // 12 + 1, shape[1] // 12 + 1, 3), np.uint8)
    picture = np.repeat(np.repeat(coarse, 12, axis=0), 12, axis=1)[: shape[0], : shape[1]]
    whole = OTSU.segment(picture)
    assert whole.any() or shape[1] == 1
    read = []

    def rows(top: int, bottom: int) -> BYTE:
        read.append(bottom - top)
        return picture[top:bottom]

    monkeypatch.setattr("handlens.challenges.cells.baseline.BAND_PIXELS", 8 * shape[1])
    found = OTSU.find(RowReader(shape, rows))
    assert np.array_equal(rle.decode(found, shape, order="rows"), whole)
    assert max(read) <= 24  # no more than a band and what lies around it
