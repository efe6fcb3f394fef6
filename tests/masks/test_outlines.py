"""Outlines along the edges of pixels: filled again they give the mask, whatever its shape."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from handlens.masks.outlines import area, trace

MASKS = arrays(bool, st.tuples(st.integers(1, 10), st.integers(1, 10)))


def fill(rings, shape, top=0, left=0):
    """How often each pixel lies inside, by the vertical edges left of it."""
    count = np.zeros(shape, int)
    for ring in rings:
        for (x0, y0), (_, y1) in zip(ring, [*ring[1:], ring[0]], strict=True):
            for y in range(min(y0, y1), max(y0, y1)):
                count[y - top, x0 - left :] += 1 if y1 < y0 else -1
    return count


@given(MASKS, st.integers(0, 50), st.integers(0, 50))
def test_filled_again_an_outline_is_the_mask(mask, top, left):
    rings = trace(mask, top=top, left=left)
    assert np.array_equal(fill(rings, mask.shape, top, left), mask.astype(int))
    assert sum(area(ring) for ring in rings) == mask.sum()


@given(MASKS)
def test_rings_have_corners_only_and_no_edge_twice(mask):
    edges = set()
    for ring in trace(mask):
        assert len(ring) >= 4
        for (x0, y0), (x1, y1), (x2, y2) in zip(ring, [*ring[1:], *ring[:1]], [*ring[2:], *ring[:2]], strict=True):
            assert (x0 == x1) != (y0 == y1)
            assert (x0 == x1) != (x1 == x2) or (y0 == y1) != (y1 == y2)
            assert (x0, y0, x1, y1) not in edges
            edges.add((x0, y0, x1, y1))


def test_a_hole_is_a_ring_of_its_own_with_a_negative_area():
    mask = np.ones((5, 5), bool)
    mask[2, 2] = False
    outer, hole = trace(mask)
    assert (area(outer), area(hole)) == (25, -1)
