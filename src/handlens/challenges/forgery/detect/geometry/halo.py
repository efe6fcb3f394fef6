"""How far a copy reaches beyond its object: the halo of background that was copied with it agrees to its grain."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import BoolArray, Match, Patch
from handlens.challenges.forgery.detect.geometry.correlation import correlation, fit_tone
from handlens.challenges.forgery.detect.geometry.outline import trimmed, warp_patch
from handlens.challenges.forgery.detect.geometry.points import FEWEST, Points, interior, moved, sample

WIDEST = 6
"""Most pixels that are added around an object. By hand."""

FEWEST_IN_RING = 12
"""Fewest free pixels of a ring that can be compared. By hand."""

AGREEING = 0.45
"""Least correlation of a ring's grain: two honest backgrounds have none. By hand."""

FITTING, ROUNDING = 2.0, 1.0
"""Most error of a ring, relative to that inside the object, after the same change of gain and bias; and the grey level
that rounding costs. By hand."""


def with_halo(canvas: Canvas, match: Match) -> Match:
    """The match with the halo, pixel by pixel outwards, that was copied with it."""
    inside = interior(match.source, canvas.blocked)
    if len(inside) < FEWEST:
        return match
    gain, bias, error = _fit(canvas, inside, match)
    grown, best = _padded(match.source, canvas), match.source
    for _ in range(WIDEST):
        wider = _dilated(grown)
        ring = _points(canvas, Patch(wider.top, wider.left, wider.mask & ~grown.mask))
        if len(ring) < FEWEST_IN_RING or not _agrees(canvas, ring, match, (gain, bias, error)):
            break
        grown = wider
        best = trimmed(grown.top, grown.left, grown.mask) or best
    copy = warp_patch(best, match.matrix, canvas.shape) if best is not match.source else None
    return replace(match, source=best, copy=copy) if copy else match


def _fit(canvas: Canvas, points: Points, match: Match) -> tuple[float, float, float]:
    """Gain and bias that make the copy like its source, and the error that is left."""
    one = canvas.grey[points.y.astype(int), points.x.astype(int)]
    other = sample(canvas.grey, *moved(points, match.matrix))
    gain, bias = fit_tone(one, other)
    return gain, bias, float(np.sqrt(np.mean((one - gain * other - bias) ** 2)))


def _agrees(canvas: Canvas, ring: Points, match: Match, fitted: tuple[float, float, float]) -> bool:
    gain, bias, error = fitted
    rows, columns = ring.y.astype(int), ring.x.astype(int)
    x, y = moved(ring, match.matrix)
    left = canvas.grey[rows, columns] - gain * sample(canvas.grey, x, y) - bias
    if np.sqrt(np.mean(left**2)) > FITTING * error + ROUNDING:
        return False
    return correlation(canvas.grain[rows, columns], sample(canvas.grain, x, y)) > AGREEING


def _points(canvas: Canvas, patch: Patch) -> Points:
    """All pixels of a region that are not blocked."""
    rows, columns = np.nonzero(patch.mask & ~canvas.blocked[patch.window])
    x, y = (columns + patch.left).astype(np.float32), (rows + patch.top).astype(np.float32)
    return Points(x, y, (0.0, 0.0), 1.0)


def _padded(patch: Patch, canvas: Canvas) -> Patch:
    """The same region in a rectangle with room for the halo, cut at the border of the canvas."""
    room = WIDEST + 1
    above, before = min(room, patch.top), min(room, patch.left)
    below = min(room, canvas.shape[0] - patch.top - patch.mask.shape[0])
    behind = min(room, canvas.shape[1] - patch.left - patch.mask.shape[1])
    return Patch(patch.top - above, patch.left - before, np.pad(patch.mask, ((above, below), (before, behind))))


def _dilated(patch: Patch) -> Patch:
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    mask: BoolArray = np.asarray(cv2.dilate(patch.mask.astype(np.uint8), cross) > 0)
    return Patch(patch.top, patch.left, mask)
