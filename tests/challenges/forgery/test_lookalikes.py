"""Honest look-alikes: no masks, no forgery, and no two places with the same pixels."""

import numpy as np
import pytest

from handlens.challenges.forgery.forger.lookalikes import LOOKALIKES, NEED_PANELS, draw_lookalike
from handlens.challenges.forgery.forger.made import LOOKALIKE_SHARES, FigureRequest, make_lookalike

SIDE = 10
WITH_SAME_PIXELS = ("text and charts", "flat and saturated")
"""Type is the same wherever it is printed, and white is white."""


def same_places(picture):
    """How many windows of 10 by 10 pixels that show something occur twice."""
    import cv2

    colours = picture.astype(np.uint64) @ np.array([65536, 256, 1], np.uint64)
    height, width = colours.shape[0] - SIDE + 1, colours.shape[1] - SIDE + 1
    sums = np.zeros((height, width), np.uint64)
    weights = np.random.default_rng(0).integers(1, 2**62, (SIDE, SIDE), dtype=np.uint64) | np.uint64(1)
    for row in range(SIDE):
        for column in range(SIDE):
            sums += weights[row, column] * colours[row : row + height, column : column + width]
    grey = picture.mean(axis=2).astype(np.float32)
    mean, square = (cv2.boxFilter(each, -1, (SIDE, SIDE), anchor=(0, 0))[:height, :width] for each in (grey, grey**2))
    _values, counts = np.unique(sums[square - mean**2 > 4], return_counts=True)
    return int((counts > 1).sum())


def test_the_measure_finds_a_copy():
    picture = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    assert same_places(picture) == 0
    picture[30:50, 40:60] = picture[5:25, 5:25]
    assert same_places(picture) == 121


@pytest.mark.parametrize("name", [name for name in LOOKALIKES if name not in WITH_SAME_PIXELS])
def test_no_two_places_are_the_same(name):
    for number in range(8):
        rng = np.random.default_rng([1, number])
        figure = draw_lookalike(rng, name, size=200, sources=None, compound=None)
        assert sum(same_places(figure.picture[panel.box.window]) for panel in figure.panels) == 0
        assert len(figure.panels) > 1 or name not in NEED_PANELS


@pytest.mark.parametrize("name", LOOKALIKES)
@pytest.mark.parametrize("compound", [True, False, None])
def test_there_is_nothing_to_find(name, compound):
    if compound is False and name in NEED_PANELS:
        with pytest.raises(ValueError, match="look-alike"):
            make_lookalike(2, 0, FigureRequest(size=160, plan=name, compound=compound))
        return
    made = make_lookalike(2, 0, FigureRequest(size=160, plan=name, compound=compound))
    assert made.kind == name
    assert made.masks == ()
    assert np.array_equal(made.honest, made.forged)
    assert made.forged.std() > 3
    assert np.array_equal(
        made.forged, make_lookalike(2, 0, FigureRequest(size=160, plan=name, compound=compound)).forged
    )


def test_the_next_section_has_another_grain():
    """Coarsely it resembles the one before; its fine grain does not."""
    import cv2

    coarse, fine = [], []
    for number in range(12):
        figure = draw_lookalike(
            np.random.default_rng([2, number]), "serial sections", size=300, sources=None, compound=True
        )
        first, second = (
            figure.picture[panel.box.window].mean(axis=2).astype(np.float32) for panel in figure.panels[:2]
        )
        shape = min(first.shape[0], second.shape[0]), min(first.shape[1], second.shape[1])
        first, second = first[: shape[0], : shape[1]], second[: shape[0], : shape[1]]
        low = [cv2.GaussianBlur(each, (0, 0), 6) for each in (first, second)]
        coarse.append(np.corrcoef(low[0].ravel(), low[1].ravel())[0, 1])
        high = [each - cv2.GaussianBlur(each, (0, 0), 1.5) for each in (first, second)]
        fine.append(abs(np.corrcoef(high[0].ravel(), high[1].ravel())[0, 1]))
    assert np.median(coarse) > 0.3
    assert max(fine) < 0.3


def test_all_kinds_have_a_share():
    assert set(LOOKALIKE_SHARES) == set(LOOKALIKES)
    kinds = {make_lookalike(3, number, FigureRequest(size=120)).kind for number in range(80)}
    assert kinds == {name for name, share in LOOKALIKE_SHARES.items() if share > 0}
