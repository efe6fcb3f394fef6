"""One field shown twice: channels beside their merge, and frames of one place, are alike and no copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import Match, Patch

OTHER_COLOUR = 0.3
"""How different colours are from which one region is no copy of the other. By hand: contrast changes them by 0.1."""

COLOURLESS = 8.0
"""Levels of chroma below which a region has no colour. By hand."""

UPRIGHT, AS_LARGE, IN_LINE = 3.0, 0.03, 3.0
"""Degrees, share of size, and pixels off a row or column by which two views of one field differ. By hand."""


def without_fields(canvas: Canvas, matches: Sequence[Match]) -> list[Match]:
    """The matches that do not show one field twice, as a channel beside its merge does.

    What has other colours is no copy. What stands in the same row or column as one of its regions with other colours is
    another channel of that field, or the same at another time, even where both are grey.
    """
    changed = [recoloured(canvas, match) > OTHER_COLOUR for match in matches]
    pairs = list(zip(matches, changed, strict=True))
    fields = [patch for match, other in pairs if other and _in_line(match) for patch in (match.source, match.copy)]

    def shows_field(match: Match) -> bool:
        return _in_line(match) and any(_overlap(own, field) for own in (match.source, match.copy) for field in fields)

    return [match for match, other in pairs if not other and not shows_field(match)]


def recoloured(canvas: Canvas, match: Match) -> float:
    """How different the colours of source and copy are, from 0 to 1."""
    one, other = (canvas.chroma[patch.window][patch.mask].mean(axis=0) for patch in (match.source, match.copy))
    strength = float(np.linalg.norm(one) + np.linalg.norm(other))
    return float(np.linalg.norm(one - other)) / (strength + COLOURLESS)


def _in_line(match: Match) -> bool:
    """Whether both regions stand upright, as large, in one row or one column."""
    if match.mirrored or abs(match.turn) > UPRIGHT or abs(match.scale - 1) > AS_LARGE:
        return False
    (x, y), (across, down) = match.source.centre, match.copy.centre
    return min(abs(across - x), abs(down - y)) <= IN_LINE


def _overlap(one: Patch, other: Patch) -> bool:
    """Whether the middle of one lies in the box of the other."""
    return any(
        first.top <= y < first.top + first.mask.shape[0] and first.left <= x < first.left + first.mask.shape[1]
        for first, (x, y) in ((one, other.centre), (other, one.centre))
    )
