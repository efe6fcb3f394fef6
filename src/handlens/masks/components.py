"""Connected pieces of masks that stay runs: areas, boxes, centres, specks and holes, without making pixels.

A slide of 20,000 x 20,000 has 400 million pixels and a few million runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.masks.rle import EMPTY, Rle
from handlens.types import Shape

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Runs, none of which goes past the end of a row, and the piece that each belongs to, numbered from 0.

    Components are numbered in the order of their first pixels, along the rows.
    """

    runs: Rle
    number: IntArray
    count: int
    shape: Shape

    @property
    def areas(self) -> IntArray:
        """Pixels of each piece."""
        return np.bincount(self.number, self.runs.lengths, self.count).astype(np.int64)

    @property
    def boxes(self) -> IntArray:
        """(count, 4): top, left, bottom, right of each piece, ends excluded."""
        rows, lefts = np.divmod(self.runs.starts, max(1, self.shape[1]))
        box = np.empty((self.count, 4), np.int64)
        box[:, :2], box[:, 2:] = max(self.shape), 0
        np.minimum.at(box[:, 0], self.number, rows)
        np.minimum.at(box[:, 1], self.number, lefts)
        np.maximum.at(box[:, 2], self.number, rows + 1)
        np.maximum.at(box[:, 3], self.number, lefts + self.runs.lengths)
        return box

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """(count, 2): mean row and column of each piece's pixels, whose centres are whole numbers."""
        rows, lefts = np.divmod(self.runs.starts, max(1, self.shape[1]))
        lengths = self.runs.lengths
        down = np.bincount(self.number, rows * lengths, self.count)
        across = np.bincount(self.number, (lefts + (lengths - 1) / 2) * lengths, self.count)
        return np.stack([down, across], axis=1) / np.maximum(self.areas, 1)[:, None]

    def chosen(self, keep: npt.NDArray[np.bool_]) -> Rle:
        """Runs of the components that are kept."""
        mine = keep[self.number]
        return Rle(self.runs.starts[mine], self.runs.lengths[mine])


def split_rows(runs: Rle, width: int) -> Rle:
    """The same pixels, runs along rows cut at the end of each row."""
    if not len(runs.starts):
        return runs
    first, last = runs.starts // width, (runs.ends - 1) // width
    parts = last - first + 1
    rows = np.repeat(first, parts) + (np.arange(parts.sum()) - np.repeat(parts.cumsum() - parts, parts))
    starts = np.maximum(np.repeat(runs.starts, parts), rows * width)
    ends = np.minimum(np.repeat(runs.ends, parts), (rows + 1) * width)
    return Rle(starts, ends - starts)


def join(bands: Iterable[Rle]) -> Rle:
    """Consecutive runs as one mask; where one ends and the next begins they become one.

    >>> join([Rle(np.array([0]), np.array([4])), Rle(np.array([4, 9]), np.array([1, 1]))]).lengths
    array([5, 1])
    """
    parts = [band for band in bands if len(band.starts)]
    if not parts:
        return EMPTY
    starts = np.concatenate([band.starts for band in parts])
    ends = np.concatenate([band.ends for band in parts])
    apart = starts[1:] > ends[:-1]
    starts, ends = starts[np.concatenate([[True], apart])], ends[np.concatenate([apart, [True]])]
    return Rle(starts, ends - starts)


def label_components(runs: Rle, shape: Shape) -> Components:
    """Components of a mask whose runs go along rows; pixels belong together where they share a side."""
    width = shape[1]
    runs = split_rows(runs, width)
    count = len(runs.starts)
    if not count:
        return Components(runs, np.empty(0, np.int64), 0, shape)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # A run moved down by a row meets the runs that touch it from below, and those alone.
    first = runs.ends.searchsorted(runs.starts + width, side="right")
    last = runs.starts.searchsorted(runs.ends + width, side="left")
    meetings = np.maximum(last - first, 0)
    above = np.repeat(np.arange(count), meetings)
    below = np.repeat(first, meetings) + np.arange(len(above)) - np.repeat(meetings.cumsum() - meetings, meetings)
    links = coo_array((np.ones(len(above), np.bool_), (above, below)), shape=(count, count))
    _, labels = connected_components(links, directed=False)
    return Components(runs, *number_in_order(labels), shape)


def number_in_order(labels: npt.NDArray[np.integer[Any]]) -> tuple[IntArray, int]:
    """Labels of any kind as numbers from 0 in the order in which they occur, and how many there are.

    >>> number_in_order(np.array([7, 2, 7, 9]))
    (array([0, 1, 0, 2]), 3)
    """
    _, firsts, places = np.unique(labels, return_index=True, return_inverse=True)
    order = np.empty(len(firsts), np.int64)
    order[np.argsort(firsts)] = np.arange(len(firsts))
    return order[places], len(firsts)


def drop_small(runs: Rle, shape: Shape, *, smallest: int) -> Rle:
    """The mask without pieces of fewer than `smallest` pixels."""
    if smallest <= 1 or not len(runs.starts):
        return runs
    pieces = label_components(runs, shape)
    return join([pieces.chosen(pieces.areas >= smallest)])


def fill_holes(runs: Rle, shape: Shape, *, largest: int, at_border: bool = False) -> Rle:
    """The mask with its holes filled, up to `largest` pixels each; gaps at the picture's border count if you say so."""
    if largest < 1 or not len(runs.starts):
        return runs
    pieces = label_components(_complement(runs, shape), shape)
    boxes = pieces.boxes
    inside = (boxes[:, :2] > 0).all(axis=1) & (boxes[:, 2:] < shape).all(axis=1)
    holes = pieces.chosen((inside | at_border) & (pieces.areas <= largest))
    starts, ends = np.concatenate([runs.starts, holes.starts]), np.concatenate([runs.ends, holes.ends])
    order = np.argsort(starts)
    return join([Rle(starts[order], (ends - starts)[order])])


def _complement(runs: Rle, shape: Shape) -> Rle:
    starts = np.concatenate([[0], runs.ends])
    ends = np.concatenate([runs.starts, [shape[0] * shape[1]]])
    there = ends > starts
    return Rle(starts[there], (ends - starts)[there])
