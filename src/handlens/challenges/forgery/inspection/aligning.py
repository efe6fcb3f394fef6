"""A region and its copy on one grid of pixels: the copy turned back onto the source, and how far the two agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import BoolArray, ByteArray, FloatArray, Match, Matrix, Patch
from handlens.io.images import Array

SHOWN_SIDE = 640
"""Longest side of a crop to look at. Larger regions are reduced: a screen shows no more."""

MEASURED_SIDE = 2000
"""Longest side of a crop to measure: fine grain must not be lost, but memory has an end."""

MARGIN_SHARE, MARGIN_LEAST, MARGIN_MOST = 0.25, 4, 64
"""Surroundings shown with a region, as a share of its longer side and in pixels: they tell a copy from its place."""

GAIN_MOST = 2.0
"""Brightness and contrast are evened out up to this; more would make anything alike."""

INVERTED = -0.5
"""A correlation below this means a copy with dark and bright exchanged."""

NEUTRAL = (128, 128, 128)
"""Where the copy's frame reaches out of the figure."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """The two regions of a match on the source's grid: pixels (H, W, 3), the source's mask where both are known.

    `scale` is the size of a pixel of the figure here: 1 native, below 1 reduced.
    """

    source: ByteArray
    copy: ByteArray
    mask: BoolArray
    scale: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a comparison of the pixels in the mask gives.

    `difference` (H, W) is in grey levels, the largest over the colours, after brightness and contrast were evened
    out; `correlation` is None where the region is flat; `contrast` is the standard deviation of the source; `inverted`
    says that dark and bright had to be exchanged first.
    """

    difference: FloatArray
    correlation: float | None
    mean_difference: float
    contrast: float
    inverted: bool = False

    def as_record(self) -> dict[str, Any]:
        return {
            "correlation": None if self.correlation is None else round(self.correlation, 4),
            "mean_difference": round(self.mean_difference, 2),
            "contrast": round(self.contrast, 2),
            "inverted": self.inverted,
        }


def as_display(picture: Array) -> ByteArray:
    """A figure as (H, W, 3) of 8 bits for the eye: alpha dropped; 16 bits stretched, for few cameras use them all."""
    if picture.dtype == np.uint16:
        sampled = picture[:: max(1, picture.shape[0] // 1000), :: max(1, picture.shape[1] // 1000)]
        low, high = (float(value) for value in np.percentile(sampled[..., :3], (0.1, 99.9)))
        table = np.clip((np.arange(65536) - low) * (255 / max(high - low, 1.0)), 0, 255).astype(np.uint8)
        picture = table[picture]
    if picture.ndim == 2:
        picture = np.broadcast_to(picture[:, :, None], (*picture.shape, 3))
    return picture[:, :, :3]


def align(display: ByteArray, match: Match, *, side: int) -> Aligned:
    """Cut out the source with a margin, and lay the copy back on it; reduced to `side` pixels where it is larger."""
    top, left, height, width = _frame(match.source, display.shape)
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    crop = np.ascontiguousarray(display[top : top + height, left : left + width])
    mask: ByteArray = np.zeros((height, width), np.uint8)
    inner = match.source.mask
    mask[match.source.top - top :, match.source.left - left :][: inner.shape[0], : inner.shape[1]] = inner
    if scale < 1:
        crop = np.asarray(cv2.resize(crop, size, interpolation=cv2.INTER_AREA), np.uint8)
        mask = _shrink(mask, size)
    grid = np.array([[width / size[0], 0, left], [0, height / size[1], top], [0, 0, 1.0]])
    grid[:2, 2] += (grid[[0, 1], [0, 1]] - 1) / 2  # a pixel's middle, not its corner
    copy, known = _sample(display, np.vstack([match.matrix, [0, 0, 1]]) @ grid, size)
    return Aligned(crop, copy, (mask > 0) & known, scale)


def compare(aligned: Aligned) -> Agreement:
    """Even out brightness and contrast of the copy, then measure what is left."""
    source = aligned.source.astype(np.float32)
    copy = aligned.copy.astype(np.float32)
    if not aligned.mask.any():
        return Agreement(np.zeros(aligned.mask.shape, np.float32), None, 0.0, 0.0)
    inside, other = source[aligned.mask], copy[aligned.mask]
    spread, others = inside.std(axis=0), other.std(axis=0)
    gain = np.clip(np.where(others > 0.5, spread / np.maximum(others, 0.5), 1.0), 1 / GAIN_MOST, GAIN_MOST)
    correlation = _correlation(inside, other)
    inverted = correlation is not None and correlation < INVERTED
    evened = (copy - other.mean(axis=0)) * (-gain if inverted else gain) + inside.mean(axis=0)
    difference = np.abs(source - evened).max(axis=2)
    difference[~aligned.mask] = 0
    return Agreement(
        difference.astype(np.float32),
        correlation,
        float(difference[aligned.mask].mean()),
        float(spread.max()),
        inverted,
    )


def _frame(patch: Patch, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Top, left, height and width of the patch with its margin, within the figure."""
    height, width = patch.mask.shape
    margin = int(np.clip(MARGIN_SHARE * max(height, width), MARGIN_LEAST, MARGIN_MOST))
    top, left = max(0, patch.top - margin), max(0, patch.left - margin)
    bottom, right = min(shape[0], patch.top + height + margin), min(shape[1], patch.left + width + margin)
    return top, left, bottom - top, right - left


def _shrink(mask: ByteArray, size: tuple[int, int]) -> ByteArray:
    """The mask on a coarser grid without its border, where pixels of region and surroundings are mixed."""
    whole = np.asarray(cv2.resize(mask * 255, size, interpolation=cv2.INTER_AREA), np.uint8)
    inner = np.asarray(cv2.erode((whole == 255).astype(np.uint8), np.ones((3, 3), np.uint8)), np.uint8)
    return inner if inner.any() else whole


def _sample(display: ByteArray, matrix: Matrix, size: tuple[int, int]) -> tuple[ByteArray, BoolArray]:
    """The figure at the places (matrix, 3x3) of a grid of (width, height), and which of those lie in the figure."""
    corners = np.array([[0, 0, 1], [size[0], 0, 1], [0, size[1], 1], [size[0], size[1], 1.0]]) @ matrix.T
    low = np.clip(np.floor(corners.min(axis=0)[:2]) - 2, 0, None).astype(int)
    high = np.minimum(np.ceil(corners.max(axis=0)[:2]) + 3, display.shape[1::-1]).astype(int)
    if (high <= low).any():
        return np.full((size[1], size[0], 3), NEUTRAL, np.uint8), np.zeros((size[1], size[0]), np.bool_)
    crop = np.ascontiguousarray(display[low[1] : high[1], low[0] : high[0]])
    local = np.array([[1, 0, -low[0]], [0, 1, -low[1]], [0, 0, 1.0]]) @ matrix
    step = float(np.sqrt(abs(np.linalg.det(matrix[:2, :2]))))
    if step > 1.5:  # far fewer places than pixels: take means first, else fine grain turns into noise
        smaller = max(1, round(crop.shape[1] / step)), max(1, round(crop.shape[0] / step))
        ratio = np.array([smaller[0] / crop.shape[1], smaller[1] / crop.shape[0]])
        crop = np.asarray(cv2.resize(crop, smaller, interpolation=cv2.INTER_AREA), np.uint8)
        local = np.array([[ratio[0], 0, ratio[0] / 2 - 0.5], [0, ratio[1], ratio[1] / 2 - 0.5], [0, 0, 1]]) @ local
    back = cv2.WARP_INVERSE_MAP
    copy = cv2.warpAffine(crop, local[:2], size, flags=cv2.INTER_CUBIC | back, borderMode=cv2.BORDER_REPLICATE)
    ones = np.ones(crop.shape[:2], np.uint8)
    known = cv2.warpAffine(ones, local[:2], size, flags=cv2.INTER_NEAREST | back, borderValue=0) > 0
    copy[~known] = NEUTRAL
    return np.asarray(copy, np.uint8), known


def _correlation(one: FloatArray, other: FloatArray) -> float | None:
    """Pearson's, of all colours together, each less its mean."""
    first, second = one - one.mean(axis=0), other - other.mean(axis=0)
    weight = float(np.sqrt((first**2).sum(dtype=np.float64) * (second**2).sum(dtype=np.float64)))
    return float((first * second).sum(dtype=np.float64)) / weight if weight > 1e-6 else None
