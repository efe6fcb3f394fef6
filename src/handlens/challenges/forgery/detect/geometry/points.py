"""The pixels of a region that are looked at, where a transform brings them, and what a picture has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Matrix, Patch

MOST_POINTS = 4_000
"""Pixels of a region that are compared: more change nothing but the time. By hand."""

FEWEST = 25
"""Fewest free pixels of a region that can be scored. By hand: about a disc of 5 pixels."""

SMALL = 160
"""Pixels of a region below which one pixel of its edge is left out instead of two. By hand."""

TWO_LEVELS = 0.77
"""Share of the variance that lies between dark and bright from which a region shows an object on its ground. Rule:
above that of one bell curve (0.64) and of evenly spread values (0.75)."""

LEVELS = 64
"""Bins of the histogram in which the border between dark and bright is sought. By hand."""

REMAP_ROWS = 30_000
"""Rows of one call of OpenCV's remap, which takes fewer than 32,768. Rule."""


@dataclass(frozen=True, slots=True)
class Points:
    """Pixels inside a region: x, y, and the middle and reach that make their coordinates small numbers."""

    x: FloatArray
    y: FloatArray
    middle: tuple[float, float]
    reach: float

    def __len__(self) -> int:
        return len(self.x)

    def only(self, chosen: npt.NDArray[Any]) -> Points:
        """Some of them, by a mask or by their numbers; middle and reach stay."""
        return Points(self.x[chosen], self.y[chosen], self.middle, self.reach)


def interior(patch: Patch, blocked: BoolArray | None = None, *, most: int = MOST_POINTS) -> Points:
    """The pixels of a region without its edge, which is shape, not evidence; at most `most` of them."""
    mask = patch.mask.astype(np.uint8)
    inside = cv2.erode(mask, np.ones((3, 3)), iterations=1 if patch.area < SMALL else 2, borderValue=0) > 0
    if inside.sum() < FEWEST:
        inside = patch.mask
    if blocked is not None:
        inside = inside & ~blocked[patch.window]
    rows, columns = np.nonzero(inside)
    if len(rows) > most:
        chosen = np.linspace(0, len(rows) - 1, most).astype(int)
        rows, columns = rows[chosen], columns[chosen]
    x, y = (columns + patch.left).astype(np.float32), (rows + patch.top).astype(np.float32)
    middle = (float(x.mean()), float(y.mean())) if len(x) else (0.0, 0.0)
    return Points(x, y, middle, max(2.0, float(np.sqrt(max(1, len(rows)) / np.pi))))


def core(canvas: Canvas, patch: Patch, blocked: BoolArray) -> Points:
    """The interior without the outline of an object that stands on its ground: two honest nuclei are alike in that.

    Where a region has two levels, pixels near the border between them are left out, and of the two sides the one is
    kept that has more grain.
    """
    points = interior(patch, blocked, most=patch.area)
    rows, columns = points.y.astype(int), points.x.astype(int)
    levels = canvas.grey[rows, columns]
    limit, apart = two_levels(levels)
    if apart < TWO_LEVELS:
        return thinned(points, MOST_POINTS)
    top, left = rows.min(initial=canvas.shape[0]), columns.min(initial=canvas.shape[1])
    window = np.zeros((rows.max(initial=0) - top + 3, columns.max(initial=0) - left + 3), np.uint8)
    places = rows - top + 1, columns - left + 1
    grain = canvas.grain[rows, columns]
    best, most = np.zeros(len(points), np.bool_), -1.0
    for side in (levels > limit, levels <= limit):
        window[:] = 0
        window[places] = side
        opened = cv2.morphologyEx(window, cv2.MORPH_OPEN, np.ones((3, 3)))
        inner = cv2.erode(opened, np.ones((3, 3)), borderValue=0)[places] > 0
        strength = float((grain[inner] ** 2).sum())
        if strength > most:
            best, most = inner, strength
    return thinned(points.only(best), MOST_POINTS)


def two_levels(values: FloatArray) -> tuple[float, float]:
    """The level that parts values best in two, and the share of their variance that lies between the parts.

    Of one bell curve that is 0.64, of evenly spread values 0.75, of an object on its ground more.
    """
    counts, edges = np.histogram(values, bins=LEVELS)
    middles, total = (edges[1:] + edges[:-1]) / 2, counts.sum()
    share, sums = np.cumsum(counts) / max(1, total), np.cumsum(counts * middles) / max(1, total)
    between = (sums[-1] * share - sums) ** 2 / np.maximum(share * (1 - share), 1e-9)
    between[-1] = 0
    best = int(between.argmax())
    return float(edges[best + 1]), float(between[best] / max(float(values.var()) if total else 0.0, 1e-6))


def thinned(points: Points, most: int) -> Points:
    """Some of the points, evenly chosen: enough of them to find a transform."""
    if len(points) <= most:
        return points
    return points.only(np.linspace(0, len(points) - 1, most).astype(int))


def landing_free(points: Points, matrix: Matrix, blocked: BoolArray) -> Points:
    """Those of the points that the transform brings onto pixels of the picture that are not blocked."""
    x, y = (np.rint(each).astype(int) for each in moved(points, matrix))
    inside = (x >= 0) & (y >= 0) & (x < blocked.shape[1]) & (y < blocked.shape[0])
    inside[inside] = ~blocked[y[inside], x[inside]]
    return points.only(inside)


def shared_interior(patch: Patch, matrix: Matrix, blocked: BoolArray) -> Points:
    """The interior of a region as far as neither it nor its copy is blocked."""
    return landing_free(interior(patch, blocked), matrix, blocked)


def moved(points: Points, matrix: Matrix) -> tuple[FloatArray, FloatArray]:
    """Where the transform brings the points."""
    x = matrix[0, 0] * points.x + matrix[0, 1] * points.y + matrix[0, 2]
    y = matrix[1, 0] * points.x + matrix[1, 1] * points.y + matrix[1, 2]
    return x.astype(np.float32), y.astype(np.float32)


def sample(picture: FloatArray, x: FloatArray, y: FloatArray, *, cubic: bool = True) -> FloatArray:
    """Interpolated values at some places; outside the picture 0."""
    method = cv2.INTER_CUBIC if cubic else cv2.INTER_LINEAR
    found = cv2.remap(picture, x.reshape(-1, 1), y.reshape(-1, 1), method, borderMode=cv2.BORDER_CONSTANT)
    return np.asarray(found, np.float32).ravel()
