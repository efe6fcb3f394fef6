"""Outlines of masks as polygons along the edges of pixels: filled again, they give back the same pixels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ring = list[tuple[int, int]]
"""Corners (x, y) of a closed line, the first not repeated at the end; pixel (row 0, column 0) spans 0 to 1."""

_STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # right, down, left, up; the mask lies to the right of the way


def trace(mask: npt.NDArray[np.bool_], *, top: int = 0, left: int = 0) -> list[Ring]:
    """The rings of a mask: outer ones clockwise as seen, holes anticlockwise; pixels that touch at a corner are joined.

    `top` and `left` are where the mask's first pixel lies.

    >>> trace(np.array([[True, True], [True, False]]))
    [[(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]]
    >>> trace(np.zeros((2, 2), bool))
    []
    """
    framed = np.pad(mask, 1)
    inside = framed[1:-1, 1:-1]
    width = mask.shape[1] + 1
    ways = np.zeros((mask.shape[0] + 1, width), np.uint8)  # a bit for each direction in which a corner is left
    ways[:-1, :-1] |= (inside & ~framed[:-2, 1:-1]).view(np.uint8)  # top edges, from their left end
    ways[:-1, 1:] |= (inside & ~framed[1:-1, 2:]).view(np.uint8) << 1  # right edges, from their upper end
    ways[1:, 1:] |= (inside & ~framed[2:, 1:-1]).view(np.uint8) << 2  # bottom edges, from their right end
    ways[1:, :-1] |= (inside & ~framed[1:-1, :-2]).view(np.uint8) << 3  # left edges, from their lower end
    starts = np.flatnonzero(ways).tolist()
    return _walk(starts, ways.ravel().tolist(), width, top, left)


def _walk(starts: list[int], ways: list[int], width: int, top: int, left: int) -> list[Ring]:
    """Follow every edge once; `ways` is used up."""
    strides = tuple(down * width + right for right, down in _STEPS)
    rings = []
    for start in starts:
        while ways[start]:
            vertex, before, ring = start, -1, []
            while True:
                here = ways[vertex]
                if here & (here - 1):  # two pixels touch here: turning left joins them
                    turn = (before - 1) % 4
                    direction = turn if before >= 0 and here >> turn & 1 else here.bit_length() - 1
                    ways[vertex] = here & ~(1 << direction)
                else:
                    direction = here.bit_length() - 1
                    ways[vertex] = 0
                if direction != before:
                    ring.append((vertex % width + left, vertex // width + top))
                    before = direction
                vertex += strides[direction]
                if vertex == start:
                    break
            rings.append(_closed(ring))
    return rings


def _closed(ring: Ring) -> Ring:
    """Without its first corner where that lies on a straight line: a walk may begin in the middle of one."""
    (x0, y0), (x1, y1), (x2, y2) = ring[-1], ring[0], ring[1]
    return ring[1:] if x0 == x1 == x2 or y0 == y1 == y2 else ring


def area(ring: Ring) -> float:
    """Twice-signed area halved: positive for outer rings, negative for holes.

    >>> area([(0, 0), (2, 0), (2, 1), (0, 1)])
    2.0
    """
    points = np.array([*ring, ring[0]], np.float64)
    x, y = points[:, 0], points[:, 1]
    return float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2)
