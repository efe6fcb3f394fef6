"""Outlines along the edges of pixels: filled again they give the mask, whatever its shape."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from handlens.masks.components import Components, number_in_order
from handlens.masks.outlines import area, smooth, trace
from handlens.masks.rle import Rle

MASKS = arrays(bool, st.tuples(st.integers(1, 10), st.integers(1, 10)))


def fill(rings, shape, top=0, left=0):
    """How often each pixel lies inside, by the vertical edges left of it."""
    count = np.zeros(shape, int)
    for ring in rings:
        for (x0, y0), (_, y1) in zip(ring, [*ring[1:], ring[0]], strict=True):
            for y in range(min(y0, y1), max(y0, y1)):
                count[y - top, x0 - left :] += 1 if y1 < y0 else -1
    return count


LABELS = arrays(np.int64, st.tuples(st.integers(1, 10), st.integers(1, 10)), elements=st.integers(0, 3))


def objects_of(labels):
    """Objects from a label image."""
    padded = np.pad(labels, ((0, 0), (1, 1)))
    rows, columns = np.nonzero(padded[:, 1:] != padded[:, :-1])
    values = padded[rows, columns + 1]
    begins = np.flatnonzero(values)
    starts = rows[begins] * labels.shape[1] + columns[begins]
    runs = Rle(starts, columns[begins + 1] - columns[begins])
    return Components(runs, *number_in_order(values[begins]), labels.shape)


def trace_mask(mask):
    return next(iter(trace(objects_of(mask.astype(int)))), [])


@given(LABELS, st.sampled_from([1, 3, 1000]))
def test_filled_again_outlines_are_the_objects(labels, at_once):
    with mock.patch("handlens.masks.outlines.RUNS_AT_ONCE", at_once):
        found = list(trace(objects_of(labels)))
    numbers = list(dict.fromkeys(labels[labels > 0].tolist()))
    for number, rings in zip(numbers, found, strict=True):
        assert np.array_equal(fill(rings, labels.shape), (labels == number).astype(int))
        assert sum(area(ring) for ring in rings) == (labels == number).sum()


@given(MASKS)
def test_rings_have_corners_only_and_no_edge_twice(mask):
    edges = set()
    for ring in trace_mask(mask):
        assert len(ring) >= 4
        for (x0, y0), (x1, y1), (x2, y2) in zip(ring, [*ring[1:], *ring[:1]], [*ring[2:], *ring[:2]], strict=True):
            assert (x0 == x1) != (y0 == y1)
            assert (x0 == x1) != (x1 == x2) or (y0 == y1) != (y1 == y2)
            assert (x0, y0, x1, y1) not in edges
            edges.add((x0, y0, x1, y1))


@pytest.mark.parametrize("mask", [np.eye(2, dtype=bool), ~np.eye(2, dtype=bool)])
def test_pixels_that_touch_at_a_corner_are_in_one_ring(mask):
    assert [area(ring) for ring in trace_mask(mask)] == [2]


def test_a_hole_is_a_ring_of_its_own_with_a_negative_area():
    mask = np.ones((5, 5), bool)
    mask[2, 2] = False
    outer, hole = trace_mask(mask)
    assert (area(outer), area(hole)) == (25, -1)


@given(LABELS)
def test_smooth_outlines_stay_within_a_pixel_and_keep_their_objects(labels):
    exact = list(trace(objects_of(labels)))
    for rings, smoothed in zip(exact, smooth(exact), strict=True):
        assert len(rings) == len(smoothed)
        for ring, found in zip(rings, smoothed, strict=True):
            assert area(found) / area(ring) > 0.5
            corners = np.array([np.linspace(a, b, 9) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)])
            away = np.linalg.norm(np.array(found)[:, None] - corners.reshape(1, -1, 2), axis=2).min(axis=1)
            assert away.max() <= 1


def test_smooth_outlines_of_a_disk_have_few_corners():
    y, x = np.mgrid[-12:13, -12:13]
    ((ring,),) = trace(objects_of((x**2 + y**2 <= 100).astype(int)))
    (((found,)),) = smooth([[ring]])
    assert len(found) < len(ring) / 2
    assert area(found) == pytest.approx(area(ring), rel=0.05)
