"""One field shown twice: channels beside their merge, and frames of one place, are alike and no copies."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, Match, Patch
from handlens.challenges.forgery.detect.geometry.correlation import correlations
from handlens.challenges.forgery.detect.geometry.points import interior, moved, sample

OTHER_COLOUR = 0.3
"""How different colours are from which one region is no copy of the other. By hand: contrast changes them by 0.1."""

COLOURLESS = 8.0
"""Levels of chroma below which a region has no colour. By hand."""

SOFT = 2.5
"""Gaussian blur, in pixels, of the colours that are compared: noise has a colour in each pixel. By hand."""

ONE_CHANNEL = 0.5
"""Correlation of two views in the colour that they share, at least, where one shows another besides. By hand."""

UPRIGHT, AS_LARGE, IN_LINE = 3.0, 0.03, 3.0
"""Degrees, share of size, and pixels off a row or column by which two views of one field differ. By hand."""


def split_fields(canvas: Canvas, matches: Sequence[Match]) -> tuple[list[Match], list[Match]]:
    """The matches that may be copies, and those that show one field twice, as a channel beside its merge does.

    What has other colours is no copy, and the same field where it stands in one row or column. What stands in the same
    row or column as one of its regions with other colours, or as far from its copy as a field from its next view, is
    another part or channel of that field, or the same at another time, even where both are grey.
    """
    chroma = soft_chroma(canvas)
    changed = [recoloured(chroma, match) > OTHER_COLOUR or _joins_views(canvas, chroma, match) for match in matches]
    pairs = list(zip(matches, changed, strict=True))
    fields = [match for match, other in pairs if other and _in_line(match)]

    def shows_field(match: Match) -> bool:
        if _in_line(match):
            return any(_shares_place(match, field) or _moves_as(match, field) for field in fields)
        return any(_joins_the_same(match, field) for field in fields)

    shown = [match for match, other in pairs if (other and _in_line(match)) or shows_field(match)]
    return [match for match, other in pairs if not other and not shows_field(match)], shown


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


def _joins_views(canvas: Canvas, chroma: FloatArray | None, match: Match) -> bool:
    """Whether the regions have the same place in two panels that differ in colour, though they do not: what only one
    channel shows looks the same in the merge.
    """
    if chroma is None or not _in_line(match):
        return False
    panels = [
        next((each for _, each in canvas.pictures if each.top <= y < each.bottom and each.left <= x < each.right), None)
        for x, y in (match.source.centre, match.copy.centre)
    ]
    one, other = panels
    if one is None or other is None or one is other:
        return False
    if np.abs(np.subtract(one.shape, other.shape)).max() > IN_LINE:  # views of one field are cut alike
        return False
    step = np.subtract(match.copy.centre, match.source.centre)
    between = np.array([other.left - one.left, other.top - one.top])
    if np.abs(step - between).max() > IN_LINE:
        return False
    whole = Patch(one.top, one.left, np.ones(one.shape, np.bool_))
    matrix = np.column_stack([np.eye(2), step])
    views = Match(whole, whole, matrix, match.tier, {})
    if correlations(*_colours(chroma, views)).max() < ONE_CHANNEL:  # two fields, and a region copied between them
        return False
    return max(recoloured(chroma, views), _shows_more(chroma, views)) > OTHER_COLOUR


def _in_line(match: Match) -> bool:
    """Whether both regions stand upright, as large, in one row or one column."""
    if match.mirrored or abs(match.turn) > UPRIGHT or abs(match.scale - 1) > AS_LARGE:
        return False
    (x, y), (across, down) = match.source.centre, match.copy.centre
    return min(abs(across - x), abs(down - y)) <= IN_LINE


def _shares_place(one: Match, other: Match) -> bool:
    """Whether the middle of a region of one lies in the box of a region of the other."""
    return any(_overlap(mine, theirs) for mine in (one.source, one.copy) for theirs in (other.source, other.copy))


def _joins_the_same(one: Match, other: Match) -> bool:
    """Whether two matches are between the same two places, if not quite aligned alike."""
    straight = _overlap(one.source, other.source) and _overlap(one.copy, other.copy)
    return straight or (_overlap(one.source, other.copy) and _overlap(one.copy, other.source))


def _moves_as(one: Match, other: Match) -> bool:
    """Whether two matches move their regions alike, either way."""
    steps = [np.subtract(each.copy.centre, each.source.centre) for each in (one, other)]
    return bool(min(np.abs(steps[0] - steps[1]).max(), np.abs(steps[0] + steps[1]).max()) <= IN_LINE)


def _overlap(one: Patch, other: Patch) -> bool:
    """Whether the middle of one lies in the box of the other."""
    return any(
        first.top <= y < first.top + first.mask.shape[0] and first.left <= x < first.left + first.mask.shape[1]
        for first, (x, y) in ((one, other.centre), (other, one.centre))
    )
