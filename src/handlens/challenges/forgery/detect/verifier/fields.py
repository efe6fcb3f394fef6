"""One field shown twice: channels beside their merge, and frames of one place, are alike and no copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, Match, Panel, Patch
from handlens.challenges.forgery.detect.geometry.correlation import correlation, correlations
from handlens.challenges.forgery.detect.geometry.points import interior, moved, sample

OTHER_COLOUR = 0.3
"""How different colours are from which one region is no copy of the other. By hand: contrast changes them by 0.1."""

COLOURLESS = 8.0
"""Levels of chroma below which a region has no colour. By hand."""

SOFT = 2.5
"""Gaussian blur, in pixels, of the colours that are compared: noise has a colour in each pixel. By hand."""

ONE_CHANNEL = 0.5
"""Correlation of two views, at least, in the colour that they share where one shows another besides, or in grey. By
hand."""

SAME_GRAIN = 0.9
"""Correlation of the grain of two regions of like colours from which they are one picture. By hand: honest views of one
field reach 0.87; a copy has 1, and 0.9 in a JPEG of quality 90."""

UPRIGHT, AS_LARGE, IN_LINE = 3.0, 0.03, 3.0
"""Degrees, share of size, and pixels off a row or column by which two views of one field differ. By hand."""


@dataclass(frozen=True, slots=True)
class _Views:
    """Two panels of one row or column, and the match of all that they share."""

    panels: frozenset[Panel]
    whole: Match


def split_fields(canvas: Canvas, matches: Sequence[Match]) -> tuple[list[Match], list[Match]]:
    """The matches that may be copies, and those that show one field twice, as a channel beside its merge does.

    What has other colours is no copy, and the same field where it has the same place in two panels of a row or column.
    What has the same place in one of these panels and in a panel like it is another channel of that field, or the same
    at another time, even where both are grey; but not with the same grain. No field lies within one panel.
    """
    chroma = soft_chroma(canvas)
    joined = [_views_of(canvas, match) for match in matches]
    changed = [
        recoloured(chroma, match) > OTHER_COLOUR or _differ(chroma, views)
        for match, views in zip(matches, joined, strict=True)
    ]
    fields = [(match, views) for match, views, other in zip(matches, joined, changed, strict=True) if other and views]

    def shows_field(match: Match, views: _Views | None) -> bool:
        if views:
            found = _belongs(canvas, views, [field.panels for _, field in fields])
        else:
            found = not _in_line(match) and any(_joins_the_same(match, field) for field, _ in fields)
        return found and not _shares_grain(canvas, match)

    copies, shown = [], []
    for match, views, other in zip(matches, joined, changed, strict=True):
        if views if other else shows_field(match, views):
            shown.append(match)
        elif not other:
            copies.append(match)
    return copies, shown


def soft_chroma(canvas: Canvas) -> FloatArray | None:
    """The colours of a picture without their noise; None where it is grey."""
    return np.asarray(cv2.GaussianBlur(canvas.chroma, (0, 0), SOFT), np.float32) if canvas.chroma.any() else None


def recoloured(chroma: FloatArray | None, match: Match) -> float:
    """How different the colours of source and copy are on average, from 0 to 1."""
    if chroma is None:
        return 0.0
    means = [values.mean(axis=1) for values in _colours(chroma, match)]
    return float(np.linalg.norm(means[0] - means[1])) / float(sum(map(np.linalg.norm, means)) + COLOURLESS)


def _shows_more(chroma: FloatArray, match: Match) -> float:
    """How much the copy shows in colours in which the source does not show it, or the other way, from 0 to 1."""
    one, other = (values - values.mean(axis=1)[:, None] for values in _colours(chroma, match))
    gain = np.maximum(0, (one * other).sum(axis=1)) / np.maximum((one**2).sum(axis=1), COLOURLESS)
    one *= gain[:, None]
    left, spread, spread_there = (np.sqrt((each**2).mean(axis=1)) for each in (other - one, one, other))
    return float((left / (spread + spread_there + COLOURLESS)).max())


def _colours(chroma: FloatArray, match: Match) -> tuple[FloatArray, FloatArray]:
    """(2, points): red and blue less green, in the source and where it lies in the copy."""
    points = interior(match.source)
    places = (points.x, points.y), moved(points, match.matrix)
    layers = [np.ascontiguousarray(chroma[:, :, each]) for each in (0, 1)]
    one, other = (np.stack([sample(layer, *place, cubic=False) for layer in layers]) for place in places)
    return one, other


def _views_of(canvas: Canvas, match: Match) -> _Views | None:
    """The two panels in which the regions of a match have the same place, measured from one of their corners:
    a label may widen a panel at its other sides. None where there are none.
    """
    if not _in_line(match):
        return None
    one, other = (canvas.panel_at(*patch.centre) for patch in (match.source, match.copy))
    if one is None or other is None or one is other:
        return None
    across, down = np.subtract(match.copy.centre, match.source.centre)
    if min(abs(across - other.left + one.left), abs(across - other.right + one.right)) > IN_LINE:
        return None
    if min(abs(down - other.top + one.top), abs(down - other.bottom + one.bottom)) > IN_LINE:
        return None
    top, bottom = max(one.top, other.top - round(down)), min(one.bottom, other.bottom - round(down))
    left, right = max(one.left, other.left - round(across)), min(one.right, other.right - round(across))
    shared = np.ones((bottom - top, right - left), np.bool_)
    ends = Patch(top, left, shared), Patch(top + round(down), left + round(across), shared)
    return _Views(frozenset((one, other)), Match(*ends, np.array([[1, 0, across], [0, 1, down]]), match.tier))


def _differ(chroma: FloatArray | None, views: _Views | None) -> bool:
    """Whether two panels share a colour and differ in another: what only one channel shows looks the same in the merge,
    and its own colours do not differ.
    """
    if chroma is None or views is None:
        return False
    if correlations(*_colours(chroma, views.whole)).max() < ONE_CHANNEL:  # two fields, and a region copied between them
        return False
    return max(recoloured(chroma, views.whole), _shows_more(chroma, views.whole)) > OTHER_COLOUR


def _belongs(canvas: Canvas, views: _Views, fields: Sequence[frozenset[Panel]]) -> bool:
    """Whether two panels are views of a field that others show: both beside one further view of it, or one of them and
    the other much like it.
    """
    first, second = ({panel for field in fields if own in field for panel in field} for own in views.panels)
    if first & second:
        return True
    return bool(first | second) and correlation(*_values(canvas.grey, views.whole)) > ONE_CHANNEL


def _shares_grain(canvas: Canvas, match: Match) -> bool:
    """Whether the copy is the source to the last detail."""
    return correlation(*_values(canvas.grain, match)) > SAME_GRAIN


def _values(layer: FloatArray, match: Match) -> tuple[FloatArray, FloatArray]:
    """A layer in the source and where it lies in the copy."""
    points = interior(match.source)
    one, other = (sample(layer, *place, cubic=False) for place in ((points.x, points.y), moved(points, match.matrix)))
    return one, other


def _in_line(match: Match) -> bool:
    """Whether both regions stand upright, as large, in one row or one column."""
    if match.mirrored or abs(match.turn) > UPRIGHT or abs(match.scale - 1) > AS_LARGE:
        return False
    (x, y), (across, down) = match.source.centre, match.copy.centre
    return min(abs(across - x), abs(down - y)) <= IN_LINE


def _joins_the_same(one: Match, other: Match) -> bool:
    """Whether two matches are between the same two places, if not quite aligned alike."""
    straight = _overlap(one.source, other.source) and _overlap(one.copy, other.copy)
    return straight or (_overlap(one.source, other.copy) and _overlap(one.copy, other.source))


def _overlap(one: Patch, other: Patch) -> bool:
    """Whether the middle of one lies in the box of the other."""
    return any(
        first.top <= y < first.top + first.mask.shape[0] and first.left <= x < first.left + first.mask.shape[1]
        for first, (x, y) in ((one, other.centre), (other, one.centre))
    )
