"""Why two masks differ: pieces that were missed, invented, split, merged, or whose extent is wrong; no pixels are made.

Every pixel that only one of the masks has belongs to exactly one difference, so their sizes sum to all that is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from handlens.masks.components import Components, label_components
from handlens.masks.rle import Rle
from handlens.types import Shape

Kind = Literal["missed", "extra", "merged", "split", "extent"]
KINDS: tuple[Kind, ...] = ("missed", "extra", "merged", "split", "extent")
IntArray = npt.NDArray[np.int64]

TOUCH = 0.1
"""Share of the smaller of two pieces that must lie in the other for them to be about the same thing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A piece of a mask, what is wrong with it, and how many of its pixels the other mask does not have.

    `box` is its top, left, bottom and right, ends excluded; `pieces` are those of the other mask that it is about. A
    piece of which more than half is in no other is `missed` or `extra`, whatever its rest touches: that is what it
    costs.
    """

    kind: Kind
    pixels: int
    box: tuple[int, int, int, int]
    pieces: int

    @property
    def word(self) -> str:
        """The kind, or `mostly missed` and `mostly extra` of a piece of which a part is in the other mask too."""
        return f"mostly {self.kind}" if self.pieces and self.kind in ("missed", "extra") else self.kind


def differences(predicted: Rle, true: Rle, shape: Shape) -> list[Difference]:
    """All of them, the largest first; run lengths go along rows.

    >>> from handlens.masks.rle import parse_pairs
    >>> said, there = parse_pairs("1 3", pixels=12), parse_pairs("2 3 11 1", pixels=12)
    >>> [(each.kind, each.pixels, each.box) for each in differences(said, there, (3, 4))]
    [('missed', 1, (2, 2, 3, 3)), ('extent', 1, (0, 0, 1, 3)), ('extent', 1, (0, 1, 1, 4))]
    """
    said, there = label_components(predicted, shape), label_components(true, shape)
    one, other, shared = overlapping(said, there)
    same = shared >= TOUCH * np.minimum(said.areas[one], there.areas[other])
    partners = np.bincount(one[same], minlength=said.count), np.bincount(other[same], minlength=there.count)
    merged_into = _any(other[same], partners[0][one[same]] > 1, there.count)  # its partner has others too
    split_from = _any(one[same], partners[1][other[same]] > 1, said.count)
    wrong = said.areas - _summed(one, shared, said.count), there.areas - _summed(other, shared, there.count)
    found = _named(said, wrong[0], partners[0], "extra", "merged", "split", split_from)
    found += _named(there, wrong[1], partners[1], "missed", "split", "merged", merged_into)
    order = {kind: place for place, kind in enumerate(KINDS)}
    return sorted(found, key=lambda each: (-each.pixels, order[each.kind], each.box))


def _named(
    pieces: Components, wrong: IntArray, partners: IntArray, alone: Kind, several: Kind, one_of: Kind, shared: IntArray
) -> list[Difference]:
    """The pieces of one mask that have pixels of their own, each with its kind."""
    boxes, areas = pieces.boxes, pieces.areas
    found = []
    for number in np.flatnonzero(wrong).tolist():
        count = int(partners[number])
        most = wrong[number] > areas[number] / 2
        kind: Kind = alone if not count or most else several if count > 1 else one_of if shared[number] else "extent"
        top, left, bottom, right = boxes[number].tolist()
        found.append(Difference(kind, int(wrong[number]), (top, left, bottom, right), count))
    return found


def overlapping(one: Components, other: Components) -> tuple[IntArray, IntArray, IntArray]:
    """Numbers of the pieces that share pixels, pair by pair, and how many they share."""
    first = other.runs.ends.searchsorted(one.runs.starts, side="right")
    last = other.runs.starts.searchsorted(one.runs.ends, side="left")
    meetings = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(len(meetings)), meetings)
    theirs = np.repeat(first, meetings) + np.arange(len(mine)) - np.repeat(meetings.cumsum() - meetings, meetings)
    pixels = np.minimum(one.runs.ends[mine], other.runs.ends[theirs])
    pixels -= np.maximum(one.runs.starts[mine], other.runs.starts[theirs])
    keys = one.number[mine] * max(1, other.count) + other.number[theirs]
    pairs, places = np.unique(keys, return_inverse=True)
    shared = np.bincount(places, pixels, len(pairs)).astype(np.int64)
    return pairs // max(1, other.count), pairs % max(1, other.count), shared


def _summed(numbers: IntArray, pixels: IntArray, count: int) -> IntArray:
    return np.bincount(numbers, pixels, count).astype(np.int64)


def _any(numbers: IntArray, holds: npt.NDArray[np.bool_], count: int) -> IntArray:
    return np.bincount(numbers[holds], minlength=count)
