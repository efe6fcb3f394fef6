"""Names for groups and regions that table, record and picture share, and where a region's border runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import Findings, Group, Match, Patch
from handlens.challenges.forgery.inspection.bundling import bundle

SAME_SHARE = 0.5
"""Two regions that share so much (intersection over union) go by one name."""


@dataclass(frozen=True, slots=True)
class Named:
    """A group with names for people: `1`, its regions `1a`, `1b`; and for each match the regions it joins."""

    name: str
    group: Group
    regions: tuple[Patch, ...]
    joined: tuple[tuple[int, int], ...]
    doubtful: bool = False
    same_field: bool = False

    @property
    def counted(self) -> bool:
        """Whether it is found to be a copy."""
        return not self.doubtful and not self.same_field

    def region_name(self, index: int) -> str:
        return f"{self.name}{_letters(index)}"

    def tree(self) -> list[Match]:
        """Matches that suffice to join all regions: where everything matches everything, fewer lines say the same."""
        root = list(range(len(self.regions)))
        kept = []
        for match, (source, copy) in zip(self.group.matches, self.joined, strict=True):
            if root[source] != root[copy]:
                old, new = root[copy], root[source]
                root = [new if each == old else each for each in root]
                kept.append(match)
        return kept


def name_groups(findings: Findings) -> list[Named]:
    """Groups numbered from 1, the surest first, then doubtful ones and fields that are shown twice; what was copied
    together is one region.
    """
    marked: list[tuple[Group, dict[str, Any]]] = [(group, {}) for group in findings.groups]
    marked += [(group, {"doubtful": True}) for group in findings.doubtful]
    marked += [(group, {"same_field": True}) for group in findings.fields]
    return [replace(_name(str(number), bundle(group)), **marks) for number, (group, marks) in enumerate(marked, 1)]


def outlines(patch: Patch) -> list[Any]:
    """Outer borders of the patch as arrays (points, 2) of x, y in the figure; holes are left out."""
    found, _ = cv2.findContours(
        patch.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(patch.left, patch.top)
    )
    return [contour[:, 0, :] for contour in found]


def _name(name: str, group: Group) -> Named:
    regions: list[Patch] = []
    joined = tuple((_index(match.source, regions), _index(match.copy, regions)) for match in group.matches)
    return Named(name, group, tuple(regions), joined)


def _index(patch: Patch, regions: list[Patch]) -> int:
    """The region that the patch is; a new one where it is none of those."""
    for index, region in enumerate(regions):
        if _iou(patch, region) >= SAME_SHARE:
            return index
    regions.append(patch)
    return len(regions) - 1


def _iou(one: Patch, other: Patch) -> float:
    """Intersection over union of two patches."""
    shared = one.overlap(other)
    return shared / max(1, one.area + other.area - shared)


def _letters(index: int) -> str:
    """a to z, then aa, ab, ...

    >>> _letters(0), _letters(25), _letters(26)
    ('a', 'z', 'aa')
    """
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(97 + rest) + text
    return text
