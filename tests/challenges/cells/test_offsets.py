"""Labels beside what they show: how far is found, answers are moved as far, whatever the bands."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from handlens.challenges.cells.offsets import Offset, fade_margin, measure_offset, median_offset, move, move_bands
from handlens.challenges.cells.sample import make_slide
from handlens.io.images import read_mask, read_rgb


@pytest.fixture(scope="module")
def painted():
    slide, mask = make_slide(np.random.default_rng(4), 256)
    return slide, mask.astype(np.uint8) * 255


def moved_mask(mask, down, right):
    """The mask as someone draws it who is so far beside."""
    return (ndimage.shift(mask.astype(float), (down, right), order=1, mode="nearest") > 0.5).astype(np.uint8) * 255


@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 0), (0, 2), (-1, 1), (0.5, 0.5), (-2, -0.5)])
def test_the_offset_is_found(painted, down, right):
    slide, mask = painted
    here, there = measure_offset(slide, mask), measure_offset(slide, moved_mask(mask, down, right))
    assert there.down - here.down == pytest.approx(down, abs=0.15)
    assert there.right - here.right == pytest.approx(right, abs=0.15)


def test_painted_labels_lie_in_their_places(painted):
    found = measure_offset(*painted)
    assert (found.down, found.right) == (pytest.approx(0, abs=0.1), pytest.approx(0, abs=0.1))


def test_where_nothing_can_be_said_the_offset_is_0(painted):
    slide, mask = painted
    noise = np.random.default_rng(0).integers(0, 256, slide.shape, dtype=np.uint8)
    for some in [(slide, mask * 0), (slide * 0, mask), (noise, mask), (slide[:20, :20], mask[:20, :20])]:
        assert measure_offset(*some) == Offset()
    assert measure_offset(slide, moved_mask(mask, 0, 9)) == Offset()  # farther than is searched
    assert median_offset([]) == Offset()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 9),
    st.floats(-3, 3, width=16),
    st.floats(-3, 3, width=16),
    st.lists(st.integers(1, 5), min_size=1, max_size=12),
)
def test_bands_are_moved_as_the_whole(height, width, down, right, sizes):
    picture = np.random.default_rng(height).random((height, width), dtype=np.float32)
    offset = Offset(down, right)
    whole = move(picture, offset)
    expected = ndimage.shift(picture.astype(np.float64), (down, right), order=1, mode="nearest")
    assert np.allclose(whole, expected, atol=1e-5)
    cuts = np.unique(np.clip(np.cumsum([0, *sizes, height]), 0, height)).tolist()
    bands = ((top, picture[top:end]) for top, end in pairwise(cuts))
    reached = 0
    for top, band in move_bands(bands, picture.shape, offset):
        assert top == reached
        assert np.array_equal(band, whole[top : top + len(band)])
        reached += len(band)
    assert reached == height


@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 7), st.integers(1, 5))
def test_the_margin_is_that_of_the_picture_not_of_its_bands(height, width, margin, step):
    picture = np.ones((height, width), np.float32)
    for top in range(0, height, step):
        fade_margin(picture[top : top + step], picture.shape, top=top, margin=margin)
    rows, columns = np.indices(picture.shape)
    distance = np.minimum(np.minimum(rows, height - 1 - rows), np.minimum(columns, width - 1 - columns)) + 0.5
    assert np.allclose(picture, np.minimum(1, distance / margin) if margin else 1)


@pytest.mark.slow
def test_the_labels_of_real_slides_lie_lower_and_farther_right(real_data):
    """Half a pixel, as an outline drawn between pixels has it, and a little more to the right."""
    folder = real_data / "cells" / "train"
    names = sorted(path.name for path in (folder / "im").iterdir())[::2]
    found = [
        measure_offset(read_rgb(folder / "im" / name), read_mask(folder / "mask" / name).astype(np.uint8))
        for name in names
    ]
    usual = median_offset(found)
    assert 0.1 < usual.down < 0.6
    assert 0.3 < usual.right < 0.9
