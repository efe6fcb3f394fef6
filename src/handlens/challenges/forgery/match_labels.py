"""Which match shows which true forgery: by where its regions lie, as masks alone do not say what was copied where."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import BoolArray, Match, Patch

FALSE = -1
"""Label of a match that shows no forgery."""

UNCLEAR = -2
"""Label of a match inside a forgery of which nobody can say whether it is the copy or two of its honest objects."""

INSIDE = 0.5
"""Share of a region that must lie in a part of the forgery."""

COVERED = 0.15
"""Share of that part that the region must cover."""

TOGETHER = 0.6
"""Overlap of both regions with one part, intersection over union, from which that part is a source and a copy that
touch."""


def label_matches(matches: Sequence[Match], masks: Sequence[BoolArray]) -> tuple[int, ...]:
    """For each match the number of the instance that it shows, or FALSE, or UNCLEAR."""
    parts = [list(_parts(mask)) for mask in masks]
    return tuple(_label(match, parts) for match in matches)


def _label(match: Match, parts: Sequence[Sequence[BoolArray]]) -> int:
    unclear = False
    for number, some in enumerate(parts):
        places = [_place(patch, some) for patch in (match.source, match.copy)]
        if all(inside > INSIDE for inside, _, _ in places):
            apart = places[0][2] != places[1][2]
            if apart and all(covered > COVERED for _, covered, _ in places):
                return number
            if not apart and _fill_together(match, some[places[0][2]]):
                return number
            unclear = True
    return UNCLEAR if unclear else FALSE


def _place(patch: Patch, parts: Sequence[BoolArray]) -> tuple[float, float, int]:
    """How much of a region lies in the part it lies in most, how much of that it covers, and which part that is."""
    best = (0.0, 0.0, -1)
    for number, part in enumerate(parts):
        shared = int((part[patch.window] & patch.mask).sum())
        best = max(best, (shared / max(1, patch.area), shared / max(1, int(part.sum())), number))
    return best


def _fill_together(match: Match, part: BoolArray) -> bool:
    """Whether source and copy, side by side, are the whole of a part."""
    said = np.zeros(part.shape, np.bool_)
    match.source.paint(said)
    match.copy.paint(said)
    shared = match.source.overlap(match.copy)
    if shared > COVERED * min(match.source.area, match.copy.area):
        return False
    return bool((said & part).sum() > TOGETHER * (said | part).sum())


def _parts(mask: BoolArray) -> list[BoolArray]:
    """Connected parts of a mask."""
    count, numbers = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    return [np.asarray(numbers == number) for number in range(1, count)]
