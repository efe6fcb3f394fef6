"""Where a transform holds: the region around some places in which the warped picture agrees with the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Matrix, Patch
from handlens.challenges.forgery.detect.outline import inverse, trimmed, warp_patch


@dataclass(frozen=True, slots=True)
class Agreement:
    """How alike pixels must be to belong to a copied region."""

    window: int = 9
    """Side of the window in which pixels are correlated on a canvas of 1000 pixels; smaller on smaller ones."""
    pixel: float = 0.6
    """Correlation from which a pixel counts as copied: JPEG and resampling lower it, chance stays under 0.5."""
    overall: float = 0.65
    """Mean correlation a whole region must reach."""
    smallest: int = 60
    """Fewest pixels of a region."""

    def grow(self, canvas: Canvas, matrix: Matrix, places: npt.NDArray[np.int64]) -> tuple[Patch, Patch] | None:
        """Source and copy where warped pixels agree around the places (x, y of the copy); None where they do not."""
        import cv2

        size = (canvas.shape[1], canvas.shape[0])
        window = int(np.clip(round(self.window * max(size) / 1000), 5, 11)) | 1
        warped = np.asarray(cv2.warpAffine(canvas.grey, matrix, size, flags=cv2.INTER_LINEAR), np.float32)
        free = cv2.warpAffine((~canvas.blocked).astype(np.uint8), matrix, size, flags=cv2.INTER_NEAREST) > 0
        likeness = correlate(canvas.grey, warped, window)
        likeness[~free | canvas.blocked] = 0
        agreed = clean(likeness > self.pixel, window)
        copy = parts_holding(agreed, places)
        if copy.sum() < self.smallest or likeness[copy].mean() < self.overall:
            return None
        copy = round_out(copy, likeness > self.pixel, canvas.grey, warped, window)
        patch = trimmed(0, 0, copy)
        source = warp_patch(patch, inverse(matrix), canvas.shape) if patch else None
        if patch is None or source is None or overlap(patch, source) > 0.1 * patch.area:
            return None  # a texture that repeats, not a copy
        return source, patch


def overlap(one: Patch, other: Patch) -> int:
    """Pixels that two regions share."""
    top, left = max(one.top, other.top), max(one.left, other.left)
    bottom = min(one.top + one.mask.shape[0], other.top + other.mask.shape[0])
    right = min(one.left + one.mask.shape[1], other.left + other.mask.shape[1])
    if bottom <= top or right <= left:
        return 0
    first = one.mask[top - one.top : bottom - one.top, left - one.left : right - one.left]
    second = other.mask[top - other.top : bottom - other.top, left - other.left : right - other.left]
    return int((first & second).sum())


def correlate(one: FloatArray, other: FloatArray, window: int) -> FloatArray:
    """Normalised correlation of two pictures around each pixel; 0 where one of them is flat."""
    import cv2

    def mean(picture: FloatArray) -> FloatArray:
        return np.asarray(cv2.blur(picture, (window, window)), np.float32)

    first, second = mean(one), mean(other)
    spread = (mean(one * one) - first * first) * (mean(other * other) - second * second)
    both = mean(one * other) - first * second
    return np.where(spread > 2.0**4, both / np.sqrt(np.maximum(spread, 1e-3)), 0).astype(np.float32)


def clean(agreed: BoolArray, window: int) -> BoolArray:
    """Specks removed and gaps closed; chance agreement comes in specks smaller than the window."""
    import cv2

    small = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (window // 2, window // 2))
    large = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (window, window))
    opened = cv2.morphologyEx(agreed.astype(np.uint8), cv2.MORPH_OPEN, small)
    return np.asarray(cv2.morphologyEx(opened, cv2.MORPH_CLOSE, large) > 0)


def parts_holding(agreed: BoolArray, places: npt.NDArray[np.int64]) -> BoolArray:
    """The connected parts that hold one of the places, without their holes."""
    import cv2

    _count, parts = cv2.connectedComponents(agreed.astype(np.uint8))
    height, width = agreed.shape
    inside = (places[:, 0] >= 0) & (places[:, 0] < width) & (places[:, 1] >= 0) & (places[:, 1] < height)
    numbers = np.unique(parts[places[inside, 1], places[inside, 0]])
    chosen = np.isin(parts, numbers[numbers > 0]).astype(np.uint8)
    outlines, _tree = cv2.findContours(chosen, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(chosen, outlines, -1, 1, cv2.FILLED)
    return np.asarray(chosen > 0)


def round_out(copy: BoolArray, agreed: BoolArray, one: FloatArray, other: FloatArray, window: int) -> BoolArray:
    """The convex hull of a copy, unless pixels in it speak against it; flat background says nothing either way."""
    import cv2

    outlines, _tree = cv2.findContours(copy.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    hull = np.zeros(copy.shape, np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(np.concatenate(outlines)), 1)
    inside = hull > 0
    liveliness = np.maximum(_spread(one, window), _spread(other, window))
    lively = liveliness > 0.5 * liveliness[copy].mean()
    against = (inside & lively & ~agreed).sum()
    return inside if against < 0.2 * copy.sum() else copy


def _spread(picture: FloatArray, window: int) -> FloatArray:
    """Deviation of the pixels around each pixel."""
    import cv2

    mean = cv2.blur(picture, (window, window))
    return np.sqrt(np.maximum(cv2.blur(picture * picture, (window, window)) - mean * mean, 0)).astype(np.float32)
