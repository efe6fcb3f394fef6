"""How many letters can be read: a small matcher in place of a reader, as F0.5 rewards blobs.

A letter is a connected piece of the true map. It is read where the answer, looked at in the box of it, resembles
that letter more than any other of the same map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Map = npt.NDArray[np.float32]

SIDE = 32
"""Pixels of the square that letters are compared in."""

SMALLEST = 0.25
"""Share of the usual piece's area below which a piece is no letter, but a spot or a part of one.

Half of all ink lies in pieces as large as the usual one, or larger: a map may have more specks than letters.
"""

AROUND = 0.15
"""Share of a letter's larger side that is looked at around it: spilt ink must count against a match."""

ALIKE = 0.5
"""Least correlation between answer and letter for it to be read, by hand: half of a letter is not enough."""


@dataclass(frozen=True, slots=True)
class LettersRead:
    """How many letters a true map has, and how many of them an answer shows."""

    letters: int
    read: int

    def __str__(self) -> str:
        return f"{self.read} of {self.letters} letters read"


def read_letters(answer: Mask, truth: Mask) -> LettersRead:
    """Compare every letter of the true map with the answer in its place.

    >>> truth = np.zeros((40, 90), bool)
    >>> truth[5:35, 5:11] = truth[5:11, 5:30] = truth[18:24, 60:85] = truth[5:35, 70:76] = True
    >>> str(read_letters(truth, truth)), str(read_letters(np.zeros_like(truth), truth))
    ('2 of 2 letters read', '0 of 2 letters read')
    """
    boxes = find_letters(truth)
    templates = [_normalise(truth, box) for box in boxes]
    read = 0
    for number, box in enumerate(boxes):
        found = _normalise(answer, box)
        likeness = [_correlate(found, template) for template in templates]
        read += likeness[number] >= ALIKE and likeness[number] >= max(likeness)
    return LettersRead(len(boxes), read)


def find_letters(truth: Mask) -> list[tuple[int, int, int, int]]:
    """Top, left, bottom and right of every letter of a true map."""
    _, _, facts, _ = cv2.connectedComponentsWithStats(truth.astype(np.uint8), connectivity=8)
    areas: npt.NDArray[Any] = facts[1:, cv2.CC_STAT_AREA]
    if not len(areas):
        return []
    sizes = np.sort(areas)
    usual = sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)]
    kept = facts[1:][areas >= SMALLEST * usual]
    return [(int(y), int(x), int(y + height), int(x + width)) for x, y, width, height, _ in kept]


def _normalise(mask: Mask, box: tuple[int, int, int, int]) -> Map:
    """What a mask has in a square about a box, in SIDE pixels; nothing beyond its edges."""
    top, left, bottom, right = box
    side = int(np.ceil(max(bottom - top, right - left) * (1 + 2 * AROUND)))
    y, x = (top + bottom - side) // 2, (left + right - side) // 2
    square = np.zeros((side, side), np.float32)
    inner = mask[max(0, y) : y + side, max(0, x) : x + side]
    square[max(0, -y) :, max(0, -x) :][: inner.shape[0], : inner.shape[1]] = inner
    return np.asarray(cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32)


def _correlate(found: Map, template: Map) -> float:
    one, other = found - found.mean(), template - template.mean()
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / size if size else 0.0
