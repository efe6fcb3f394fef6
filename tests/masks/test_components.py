"""Components of masks as runs: the same as OpenCV finds among pixels."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from handlens.masks.components import Components, drop_small, fill_holes, join, label_components, split_rows
from handlens.masks.rle import EMPTY, Rle, decode, encode

masks = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


def rows_of(mask):
    return encode(mask, order="rows")


def pixels_of(runs, shape):
    return decode(runs, shape, order="rows")


@given(masks)
def test_pieces_are_those_of_opencv(mask):
    found = label_components(rows_of(mask), mask.shape)
    count, labels, facts, centres = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    first = [int(np.flatnonzero(labels.ravel() == number)[0]) for number in range(1, count)]
    order = 1 + np.argsort(first).astype(int)
    x, y, width, height, area = facts[order].T
    assert found.count == count - 1
    assert np.array_equal(found.areas, area)
    assert np.array_equal(found.boxes, np.stack([y, x, y + height, x + width], axis=1))
    assert np.allclose(found.centres, centres[order][:, ::-1])
    for number in range(found.count):
        alone = found.chosen(np.arange(found.count) == number)
        assert np.array_equal(pixels_of(join([alone]), mask.shape), labels == order[number])


@given(masks)
def test_runs_are_cut_at_row_ends_and_joined_again(mask):
    runs = rows_of(mask)
    parts = split_rows(runs, mask.shape[1])
    assert np.array_equal(parts.starts // mask.shape[1], (parts.ends - 1) // mask.shape[1])
    again = join([parts])
    assert np.array_equal(again.starts, runs.starts)
    assert np.array_equal(again.lengths, runs.lengths)


@given(masks, st.integers(1, 5))
def test_bands_joined_are_the_whole(mask, height):
    width = mask.shape[1]
    bands = []
    for top in range(0, len(mask), height):
        band = rows_of(mask[top : top + height])
        bands.append(Rle(band.starts + top * width, band.lengths))
    runs, whole = join(bands), rows_of(mask)
    assert np.array_equal(runs.starts, whole.starts)
    assert np.array_equal(runs.lengths, whole.lengths)


@given(masks, st.integers(0, 8))
def test_specks_and_holes(mask, size):
    runs = rows_of(mask)
    _, labels, facts, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    keep = facts[:, cv2.CC_STAT_AREA] >= size
    assert np.array_equal(pixels_of(drop_small(runs, mask.shape, smallest=size), mask.shape), mask & keep[labels])
    _, labels, facts, _ = cv2.connectedComponentsWithStats((~mask).astype(np.uint8), connectivity=4)
    x, y, width, height, area = facts.T
    hole = (area <= size) & (x > 0) & (y > 0) & (x + width < mask.shape[1]) & (y + height < mask.shape[0])
    filled = pixels_of(fill_holes(runs, mask.shape, largest=size), mask.shape)
    assert np.array_equal(filled, mask | (hole[labels] & ~mask))


@pytest.mark.parametrize("shape", [(0, 0), (3, 4)])
def test_an_empty_mask_has_no_pieces(shape):
    found = label_components(EMPTY, shape)
    assert isinstance(found, Components)
    assert (found.count, len(found.areas), found.boxes.shape, found.centres.shape) == (0, 0, (0, 4), (0, 2))
    assert drop_small(EMPTY, shape, smallest=9) is EMPTY
    assert fill_holes(EMPTY, shape, largest=9) is EMPTY
