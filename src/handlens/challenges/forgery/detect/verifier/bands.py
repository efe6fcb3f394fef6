"""Bands of a gel or a blot that look alike without being copies: ladders, wells, lanes that are loaded alike.

A ladder is run on both sides of a gel, one comb makes all wells, and a loading control is the same in every lane: the
shape of bands proves nothing, and JPEG packs equal shapes to equal blocks. Along a band its shape is constant, so what
changes along it, away from its ends, is grain, which two honest lanes do not share and a copy does.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.canvas.bands import look_for_bands
from handlens.challenges.forgery.detect.findings import FloatArray, Match, Panel, Patch
from handlens.challenges.forgery.detect.geometry.correlation import correlation
from handlens.challenges.forgery.detect.geometry.points import FEWEST, moved, sample, shared_interior

ALONG, END = 1.5, 2.0
"""Gaussian blurs, in pixels: along the bands, whose residual is the grain, and in all directions, whose sideways slope
shows where bands end. By hand."""

LEAST_ACROSS = 1.4
"""How much stronger slopes are downwards than sideways, squared, where a panel may be a gel: less than where lanes are
sought, as smears and wide lanes have steep sides too, and a copy shares its grain anyway. By hand."""

UPRIGHT = 15.0
"""Degrees by which a lane may be turned while bands still lie on bands. By hand."""

LEAST_GRAIN = 0.33
"""Least correlation of that grain in the half of the pixels farthest from the ends of bands. Measured: of 150 pairs of
reused lanes it was 0.35 to 1, of 22 honest pairs in gels -0.14 to 0.30."""


def without_bands(canvas: Canvas, matches: Sequence[Match]) -> list[Match]:
    """The matches that are not two bands, or lanes, of which only the shape is alike."""
    if not matches:
        return []
    gels = [panel for _, panel in canvas.pictures if look_for_bands(canvas, panel, LEAST_ACROSS)]
    if not gels:
        return list(matches)
    grain = np.asarray(canvas.grey - cv2.GaussianBlur(canvas.grey, (0, 0), sigmaX=ALONG, sigmaY=1e-3), np.float32)
    soft = cv2.GaussianBlur(canvas.grey, (0, 0), END)
    ends = np.asarray(np.abs(cv2.Sobel(soft, cv2.CV_32F, 1, 0)), np.float32)
    return [
        match
        for match in matches
        if not _shows_bands(match, gels) or grain_along_bands(canvas, match, grain, ends) >= LEAST_GRAIN
    ]


def _shows_bands(match: Match, gels: Sequence[Panel]) -> bool:
    """Whether both regions lie in gels, with bands laid on bands."""
    upright = min(abs(match.turn), 180 - abs(match.turn)) <= UPRIGHT
    return upright and all(any(_within(patch, gel) for gel in gels) for patch in (match.source, match.copy))


def _within(patch: Patch, panel: Panel) -> bool:
    x, y = patch.centre
    return panel.top <= y < panel.bottom and panel.left <= x < panel.right


def grain_along_bands(canvas: Canvas, match: Match, grain: FloatArray, ends: FloatArray) -> float:
    """Correlation of the grain along the bands of source and copy, away from their ends; 0 where too little is seen."""
    points = shared_interior(match.source, match.matrix, canvas.uninformative)
    if len(points) < FEWEST:
        return 0.0
    rows, columns = points.y.astype(int), points.x.astype(int)
    x, y = moved(points, match.matrix)
    steep = np.maximum(ends[rows, columns], sample(ends, x, y, cubic=False))
    flat = steep <= np.median(steep)
    return correlation(grain[rows, columns][flat], sample(grain, x, y)[flat])
