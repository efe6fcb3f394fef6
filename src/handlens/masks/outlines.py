"""Outlines of objects as polygons along the edges of pixels: filled again, they give back the same pixels.

Made from runs, without pixels, and for many objects together: a slide has tens of thousands of nuclei.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from handlens.masks.components import Components

Ring = list[tuple[int, int]]
"""Corners (x, y) of a closed line, the first not repeated at the end; pixel (row 0, column 0) spans 0 to 1."""

SmoothRing = list[tuple[float, float]]
"""The same with corners anywhere."""

SMOOTHED = 0.75
"""Pixels that a smooth outline may lie from the middles of the edges that it stands for. By hand: outlines of the 1,183
nuclei of three slides have 16 corners for 71 with it, and areas that differ by 0.8 %, as a mean."""

OBJECTS_AT_ONCE = 1000

RUNS_AT_ONCE = 200_000
"""Runs whose corners are made together: some 50 MB of arrays."""

IntArray = npt.NDArray[np.int64]


def trace(objects: Components) -> Iterator[list[Ring]]:
    """The rings of every object, in the order of their numbers: outer ones clockwise as seen, holes anticlockwise.

    Where two pixels of an object touch at a corner, its ring goes through between them, so that they are joined.

    >>> from handlens.masks.components import label_components
    >>> from handlens.masks.rle import encode
    >>> list(trace(label_components(encode(np.array([[True, True], [True, False]]), order="rows"), (2, 2))))
    [[[(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]]]
    """
    order = np.argsort(objects.number, kind="stable")
    number = objects.number[order]
    last = 0
    while last < len(order):
        first = last
        last = int(number.searchsorted(number[min(first + RUNS_AT_ONCE, len(order)) - 1], "right"))
        rows, lefts = np.divmod(objects.runs.starts[order[first:last]], objects.shape[1])
        rights = lefts + objects.runs.lengths[order[first:last]]
        yield from _rings(number[first:last] - number[first], rows, lefts, rights)


class _Corners(NamedTuple):
    """Corners of some objects in the order of objects, rows and columns; two at a place where two pixels touch."""

    owner: IntArray
    x: IntArray
    y: IntArray
    is_end: IntArray
    """1 where a run ends, 0 where it starts."""
    upper_row: IntArray
    """1 where that run lies above the corner."""


def _rings(number: IntArray, rows: IntArray, lefts: IntArray, rights: IntArray) -> Iterator[list[Ring]]:
    """The rings of some objects, numbered from 0, from their runs."""
    corners = _corners(number, rows, lefts, rights)
    left = np.arange(0, len(corners.x), 2)  # on a line, an edge goes from the first to the second, third to fourth ...
    rightwards = corners.is_end[left] == corners.upper_row[left]  # the mask is below: its start, or what is above ends
    tails, heads = np.where(rightwards, left, left + 1), np.where(rightwards, left + 1, left)
    edge_from = np.empty_like(corners.x)
    edge_from[tails] = np.arange(len(tails))
    edges, firsts = _cycles(edge_from[_vertical_partners(corners)[heads]].tolist())
    walk = np.stack([tails[edges], heads[edges]], axis=1).ravel()
    points = list(zip(corners.x[walk].tolist(), corners.y[walk].tolist(), strict=True))
    rings = [points[2 * first : 2 * last] for first, last in pairwise(firsts)]
    owners = corners.owner[walk[2 * np.array(firsts[:-1])]]
    cuts = owners.searchsorted(np.arange(int(number[-1]) + 2)).tolist()
    for begin, end in pairwise(cuts):
        yield rings[begin:end]


def _corners(number: IntArray, rows: IntArray, lefts: IntArray, rights: IntArray) -> _Corners:
    """Both ends of a run make a mark on the lines above and below it.

    Two starts or two ends at one place are a straight edge; all other marks are corners. Where an end and a start of
    different rows meet, two pixels touch; the corner of the upper row comes first, at the end of the edge to the left.
    """
    count = len(number)
    owner = np.tile(number, 4)
    x, y = np.concatenate([lefts, rights] * 2), np.concatenate([rows, rows, rows + 1, rows + 1])
    is_end, upper_row = np.tile(np.repeat([0, 1], count), 2), np.repeat([0, 1], 2 * count)
    place = (owner * (int(y.max()) + 1) + y) * (int(x.max()) + 1) + x
    order = np.argsort(place * 2 + 1 - upper_row)
    place, kind = place[order], is_end[order]
    same = (place[1:] == place[:-1]) & (kind[1:] == kind[:-1])
    turning = ~(np.append(same, False) | np.append(False, same))
    order = order[turning]
    return _Corners(owner[order], x[order], y[order], is_end[order], upper_row[order])


def _vertical_partners(corners: _Corners) -> IntArray:
    """The other end of the vertical edge at every corner.

    In a column, of two at one place the first belongs to the edge above. That is the start of a run, so that a ring
    turns left where two pixels touch, which joins them.
    """
    owner, x, y = corners.owner, corners.x, corners.y
    order = np.argsort(((owner * (int(x.max()) + 1) + x) * (int(y.max()) + 1) + y) * 2 + corners.is_end)
    partners = np.empty_like(order)
    partners[order[0::2]], partners[order[1::2]] = order[1::2], order[0::2]
    return partners


def _cycles(following: list[int]) -> tuple[list[int], list[int]]:
    """The members of every cycle of a permutation, one after another, and where each cycle begins; at last the end.

    >>> _cycles([2, 1, 0])
    ([0, 2, 1], [0, 2, 3])
    """
    seen = bytearray(len(following))
    members: list[int] = []
    firsts = [0]
    for start in range(len(following)):
        if seen[start]:
            continue
        here = start
        while not seen[here]:
            seen[here] = 1
            members.append(here)
            here = following[here]
        firsts.append(len(members))
    return members, firsts


def smooth(outlines: Iterable[Sequence[Ring]]) -> Iterator[list[SmoothRing]]:
    """The same outlines without their stairs: within a pixel of the edges, with few corners.

    They go through the middles of the edges of pixels. An outline that would lose its area stays as it is.

    >>> stairs = [(0, 0), (6, 0), (6, 1), (5, 1), (5, 2), (4, 2), (4, 3), (3, 3), (3, 4), (2, 4), (2, 5), (1, 5)]
    >>> [len(ring) for ring in next(smooth([[[*stairs, (1, 6), (0, 6)]]]))]
    [3]
    """
    objects = iter(outlines)
    while some := list(islice(objects, OBJECTS_AT_ONCE)):
        rings = iter(_smooth_rings([ring for rings in some for ring in rings]))
        for each in some:
            yield list(islice(rings, len(each)))


def _smooth_rings(rings: Sequence[Ring]) -> Iterator[SmoothRing]:
    import cv2

    counts = np.array([len(ring) for ring in rings])
    corners = np.array([corner for ring in rings for corner in ring], np.float32)
    last = counts.cumsum()
    following = np.arange(1, len(corners) + 1)
    following[last - 1] = last - counts
    edges = corners[following] - corners
    share = np.minimum(0.5, 0.5 / np.maximum(np.abs(edges).sum(axis=1), 0.5))[:, None]  # of an edge: half a pixel
    points = np.stack([corners + share * edges, corners + (1 - share) * edges], axis=1)
    for ring, end, count in zip(rings, last.tolist(), counts.tolist(), strict=True):
        found = cv2.approxPolyDP(points[end - count : end].reshape(-1, 1, 2), SMOOTHED, True)[:, 0]
        line = [(_short(x), _short(y)) for x, y in found.tolist()]
        yield line if 2 * area(line) / area(ring) > 1 else [(x, y) for x, y in ring]


def _short(value: float) -> float:
    """A whole number without its `.0`."""
    return int(value) if value == int(value) else value


def area(ring: Sequence[tuple[float, float]]) -> float:
    """Pixels inside: positive for outer rings, negative for holes.

    >>> area([(0, 0), (2, 0), (2, 1), (0, 1)])
    2.0
    """
    corners = zip(ring, [*ring[1:], ring[0]], strict=True)
    return sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in corners) / 2
