"""What pixels say for or against a copy: drawn marks, local agreement, and the regions they make."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from handlens.types import Shape

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


def find_marks(grey: FloatArray, white: float, reach: int) -> BoolArray:
    """Letters, scale bars and paper: they look alike without being copies.

    They are white on something darker, or black on something lighter, or a white sheet; `reach` is how far around
    a pixel its surroundings go.
    """
    import cv2

    around = cv2.blur(grey, (2 * reach + 1, 2 * reach + 1))
    drawn = (grey > 0.94 * white) & (around < 0.6 * white) | (grey < 0.06 * white) & (around > 0.4 * white)
    flat = cv2.dilate(grey, np.ones((7, 7))) - cv2.erode(grey, np.ones((7, 7))) < 0.02 * white
    paper = flat & (grey > 0.97 * white)
    rim = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach // 4 + 1, reach // 4 + 1))
    return np.asarray(cv2.dilate((drawn | paper).astype(np.uint8), rim) > 0)


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


def join_shared(masks: list[BoolArray]) -> list[BoolArray]:
    """Masks joined where they share a third of the smaller one: copies of one source are one instance."""
    groups: list[BoolArray] = []
    for mask in masks:
        joined, apart = mask, []
        for group in groups:
            shared = (group & joined).sum() > 0.3 * min(group.sum(), joined.sum())
            if shared:
                joined = joined | group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return groups


def resize(mask: BoolArray, shape: Shape) -> BoolArray:
    import cv2

    share = cv2.resize(mask.astype(np.float32), (shape[1], shape[0]), interpolation=cv2.INTER_AREA)
    return np.asarray(share > 0.5)
