"""Objects of a picture: nuclei, cells, grains and bands, cut out at several thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import ByteArray, FloatArray, Patch
from handlens.challenges.forgery.detect.geometry.points import REMAP_ROWS

ANGLES, RINGS = 24, 7
"""Size of a polar picture. By hand."""

BRIGHT = 127
"""Median from which a panel is bright, and its objects dark. Rule: the middle of the range."""

SHARES = (1.0, 0.75, 0.5, 1.3)
"""Global thresholds, as shares of Otsu's. By hand."""

BLOCKS, LOCAL_STEP = (15, 31, 61, 121), 4
"""Sides of the windows of local thresholds, and the levels above their mean. By hand."""

COARSE, COARSE_BLOCK = 2.5, (61, 6)
"""Blur, in pixels, against texture, and the window and the levels of the local threshold after it. By hand."""

LARGEST_BOX, LEAST_FILLED = 4, 0.35
"""Pixels of the rectangle around an object, relative to the largest area, and the share of it that an object fills. By
hand."""

CELL, SAME_AREA = 4, 0.8
"""Pixels of a cell of the table in which objects are looked up, and the ratio of areas from which two are the same. By
hand."""


SEAM, SEAM_LENGTH, SEAM_STEP, SEAM_SHARE = 2, 7, 0.45, 0.65
"""Pixels around an object in which the edge of a panel is sought, fewest of its rows or columns, the step there as a
share of all levels, and the share of its rows or columns that have it at one place. By hand."""

SEAM_RANGE = (5, 95)
"""Percentiles between which all levels lie. By hand."""

BRIDGE = 7
"""Pixels across the places at which touching objects are split, at one of the thresholds. By hand."""


@dataclass(frozen=True, slots=True)
class Blob:
    """An object: its region, the middle of it (x, y), and its area in pixels of the canvas."""

    patch: Patch
    x: float
    y: float
    area: int

    @property
    def radius(self) -> float:
        """Of the circle with the same area."""
        return float(np.sqrt(self.area / np.pi))


@dataclass(frozen=True, slots=True)
class BlobDetection:
    """Which objects are found."""

    smallest: int = 45
    """Fewest pixels of an object: below, chance alone makes two of them alike. By hand."""
    largest: float = 0.05
    """Most of a panel that an object can be: larger copies have keypoints enough. By hand."""
    modest: int = 2_500
    """Pixels up to which an object may be more of a panel than that: they are too few for keypoints. By hand."""
    share: float = 0.2
    """Most of a panel that such an object can be. By hand."""
    widest: float = 90.0
    """Largest radius in pixels; larger copies have keypoints enough. By hand."""
    most: int = 800
    """Most objects kept, the largest first: the table of pairs grows with their square. By hand: bounds the time."""
    fewest: int = 80
    """So many objects of a panel are kept at least, however many panels there are. By hand."""

    def find(self, canvas: Canvas) -> list[Blob]:
        """Objects brighter than their surroundings at several thresholds, or darker where the panel is bright."""
        pictures = canvas.pictures
        share = max(self.fewest, self.most // max(1, len(pictures)))
        found: list[Blob] = []
        for number, panel in pictures:
            known: dict[tuple[int, int], list[Blob]] = {}
            kept: list[Blob] = []
            grey = raised(canvas, number)[panel.window]
            modest = min(self.modest, self.share * grey.size)
            largest = int(min(max(self.largest * grey.size, modest), np.pi * self.widest**2))
            for foreground in _foregrounds(grey):
                for blob in _parts(foreground, (panel.top, panel.left), self.smallest, largest):
                    if canvas.is_free(blob.patch) and not _known(blob, known) and not is_cut(canvas.grey, blob.patch):
                        known.setdefault(_cell(blob), []).append(blob)
                        kept.append(blob)
            found += sorted(kept, key=lambda blob: -blob.area)[:share]
        return sorted(found, key=lambda blob: -blob.area)[: self.most]


def raised(canvas: Canvas, number: int) -> ByteArray:
    """The canvas with one panel's objects bright on dark, smoothed; the rest of it 0."""
    panel = canvas.panels[number - 1]
    part = np.clip(canvas.grey[panel.window], 0, 255)
    free = part[~canvas.blocked[panel.window]]
    if free.size and np.median(free) > BRIGHT:
        part = 255 - part
    picture = np.zeros(canvas.shape, np.uint8)
    picture[panel.window] = cv2.GaussianBlur(part, (0, 0), 1).astype(np.uint8)
    return picture


def _foregrounds(grey: ByteArray) -> Iterator[npt.NDArray[Any]]:
    level, _ = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    cross = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3))
    wide = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (BRIDGE, BRIDGE))
    for share in SHARES:
        bright = (grey > share * level).astype(np.uint8)
        yield cv2.morphologyEx(bright, cv2.MORPH_OPEN, cross)
        yield cv2.morphologyEx(bright, cv2.MORPH_OPEN, wide)  # parts what touches at a narrow place
    coarse = cv2.GaussianBlur(grey, (0, 0), COARSE)  # what is full of texture holds together only when that is gone
    for picture, block, step in (*((grey, block, LOCAL_STEP) for block in BLOCKS), (coarse, *COARSE_BLOCK)):
        if block < min(grey.shape):
            local = cv2.adaptiveThreshold(picture, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, block, -step)
            yield cv2.morphologyEx(local, cv2.MORPH_OPEN, cross)


def _parts(foreground: npt.NDArray[Any], corner: tuple[int, int], smallest: int, largest: int) -> Iterator[Blob]:
    """Connected parts of the right size that the border does not cut, holes filled."""
    outlines, _ = cv2.findContours(foreground, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    for outline in outlines:
        left, top, across, down = cv2.boundingRect(outline)
        if across * down < smallest or across * down > LARGEST_BOX * largest:
            continue
        mask = np.zeros((down, across), np.uint8)
        cv2.drawContours(mask, [outline - (left, top)], -1, 1, cv2.FILLED)
        area = int(mask.sum())
        cut = left == 0 or top == 0 or left + across == foreground.shape[1] or top + down == foreground.shape[0]
        if (
            smallest <= area <= largest and area > LEAST_FILLED * across * down and not cut
        ):  # half an object is like many
            patch = Patch(top + corner[0], left + corner[1], mask > 0)
            x, y = patch.centre
            yield Blob(patch, x, y, area)


def is_cut(grey: FloatArray, patch: Patch) -> bool:
    """Whether one straight hard edge, along a row or a column, ends the object: of a panel that touches the next.

    Half an object is like many others. What has grown ends at another column in each row.
    """
    inside = np.pad(patch.mask, SEAM)
    top, left = patch.top - SEAM, patch.left - SEAM
    rows, columns = (
        np.clip(np.arange(start, start + length), 0, side - 1)
        for start, length, side in zip((top, left), inside.shape, grey.shape, strict=True)
    )
    window = grey[np.ix_(rows, columns)]
    low, high = np.percentile(window, SEAM_RANGE)
    step = SEAM_STEP * float(high - low)
    for picture, mask in ((window, inside), (window.T, inside.T)):
        lines = picture[mask.any(axis=1)]
        if len(lines) < SEAM_LENGTH:
            continue
        steps = np.diff(lines, axis=1)
        if max((steps > step).mean(axis=0).max(initial=0), (steps < -step).mean(axis=0).max(initial=0)) > SEAM_SHARE:
            return True
    return False


def _cell(blob: Blob) -> tuple[int, int]:
    return int(blob.x) // CELL, int(blob.y) // CELL


def _known(blob: Blob, found: dict[tuple[int, int], list[Blob]]) -> bool:
    """Whether nearly the same object was cut out before."""
    column, row = _cell(blob)
    near = (other for x in (-1, 0, 1) for y in (-1, 0, 1) for other in found.get((column + x, row + y), ()))
    return any(
        abs(blob.x - other.x) < 2 and abs(blob.y - other.y) < 2 and SAME_AREA < blob.area / other.area < 1 / SAME_AREA
        for other in near
    )


def polar(grey: FloatArray, x: FloatArray, y: FloatArray, radius: FloatArray) -> FloatArray:
    """(places, angles, rings) pictures around some places, each without the mean of its rings."""
    turns = np.arange(ANGLES, dtype=np.float32) * np.float32(2 * np.pi / ANGLES)
    shares = (np.arange(RINGS, dtype=np.float32) + np.float32(0.5)) / RINGS
    reach = shares[None, None, :] * radius[:, None, None]
    across = x[:, None, None] + np.cos(turns)[None, :, None] * reach
    down = y[:, None, None] + np.sin(turns)[None, :, None] * reach
    found = np.empty((len(x), ANGLES, RINGS), np.float32)
    step = REMAP_ROWS // ANGLES
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        size = (-1, RINGS)
        picture = cv2.remap(
            grey, across[part].reshape(size), down[part].reshape(size), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
        )
        found[part] = np.asarray(picture).reshape(-1, ANGLES, RINGS)
    found -= found.mean(axis=1, keepdims=True)  # what is alike all around says nothing of the turn
    return found * np.sqrt(shares)
