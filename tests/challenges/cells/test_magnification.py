"""Other magnifications: resized for the network and back, the same however rows are read."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx_models import write_dark_is_cell

from handlens.challenges.cells.magnification import factor_of, resize_back, resized
from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.predictor import load
from handlens.errors import HandlensError
from handlens.io.row_reader import in_memory
from handlens.types import Context

FACTORS = [0.25, 0.4, 0.5, 1.3, 2.0, 3.1]


def smooth(height: int, width: int) -> np.ndarray:
    noise = np.random.default_rng(0).random((height, width, 3), np.float32)
    blurred = cv2.GaussianBlur(noise, (0, 0), 6)
    return (255 * (blurred - blurred.min()) / (blurred.max() - blurred.min())).astype(np.uint8)


@pytest.mark.parametrize("factor", FACTORS)
def test_how_rows_are_read_changes_nothing(factor: float) -> None:
    image = resized(in_memory(smooth(90, 70)), factor)
    height, width = image.shape
    assert (height, width) == (round(90 * factor), round(70 * factor))
    whole = image.read(0, height)
    assert whole.shape == (height, width, 3)
    assert np.array_equal(whole, np.concatenate([image.read(top, min(height, top + 7)) for top in range(0, height, 7)]))
    expected = cv2.resize(
        smooth(90, 70), (width, height), interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    )
    assert np.abs(whole.astype(int) - expected).mean() < 2


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("rows", [1, 5, 64, 1000])
def test_probabilities_come_back_in_their_places(factor: float, rows: int) -> None:
    probability = smooth(90, 70)[:, :, 0].astype(np.float32) / 255
    shape = (round(90 * factor), round(70 * factor))
    large = cv2.resize(probability, shape[::-1], interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR)
    bands = [(top, large[top : top + rows]) for top in range(0, shape[0], rows)]
    found = list(resize_back(bands, shape, (90, 70)))
    assert [top for top, _ in found] == np.cumsum([0, *(len(band) for _, band in found)])[:-1].tolist()
    back = np.concatenate([band for _, band in found])
    assert back.shape == (90, 70)
    assert np.abs(back - probability).mean() < 0.02
    assert np.array_equal(back, np.concatenate([band for _, band in resize_back([(0, large)], shape, (90, 70))]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_tiny_pictures(shape: tuple[int, int], factor: float) -> None:
    image = resized(in_memory(smooth(*shape)), factor)
    assert image.read(0, image.shape[0]).shape[:2] == image.shape
    bands = [(0, np.full(image.shape, 0.5, np.float32))]
    ((_, back),) = resize_back(bands, image.shape, shape)
    assert np.allclose(back, np.full(shape, 0.5))


def test_a_slide_at_half_the_magnification_is_answered_at_its_own_size(tmp_path: Path) -> None:
    """A model that blurs by five pixels loses small nuclei of a small picture, unless it knows the magnification."""
    model = write_dark_is_cell(tmp_path / "model", smallest=120)
    picture = np.full((120, 160, 3), 230, np.uint8)
    true = np.zeros((120, 160), np.uint8)
    for x in range(12, 150, 22):
        for y in range(12, 110, 22):
            cv2.circle(true, (x, y), 5, 1, -1)
    picture[true > 0] = (70, 50, 130)
    masks = {mpp: load(Context(CellsSettings(mpp=mpp), model=model))(picture).mask for mpp in (None, 0.25, 0.5)}
    assert np.array_equal(masks[None], masks[0.25])
    assert not masks[None].any()  # every nucleus is below the smallest of 40x
    assert masks[0.5].shape == true.shape
    assert 2 * (masks[0.5] & (true > 0)).sum() / (masks[0.5].sum() + true.sum()) > 0.9


def test_only_magnifications_at_which_nuclei_can_be_seen() -> None:
    assert [factor_of(mpp) for mpp in (0.25, 0.27, 0.23, 1.0)] == [1, 1, 1, 4]
    with pytest.raises(HandlensError, match=r"mpp is 10.* from 0\.03 to 2"):
        CellsSettings.parse({"mpp": 10.0})
