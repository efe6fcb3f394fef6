"""Copies of single objects: a nucleus, a cell or a band that stands in the picture twice, turned, mirrored or scaled.

Key points miss what is small and smooth. Here every object is compared with every other of similar size: first by its
polar picture, where a turn is a shift, then pixel by pixel under the best transform. The shape of an object proves
nothing, all nuclei are alike in it; the fine grain inside does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

ANGLES, RINGS = 72, 12
"""Size of an object's polar picture: steps of five degrees are near enough for the refinement to find the rest."""


@dataclass(frozen=True, slots=True)
class Blob:
    """An object: its centre (x, y), its area, and its mask with the place of the mask's corner (top, left)."""

    x: float
    y: float
    area: int
    corner: tuple[int, int]
    mask: BoolArray

    @property
    def radius(self) -> float:
        """Of the circle with the same area."""
        return float(np.sqrt(self.area / np.pi))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two objects and the transform from the first to the second: turn, size, and the second's centre."""

    source: Blob
    turn: float
    scale: float
    x: float
    y: float
    mirrored: bool

    def matrix(self) -> npt.NDArray[np.float64]:
        """As an affine transform of (x, y)."""
        cosine, sine = np.cos(self.turn) * self.scale, np.sin(self.turn) * self.scale
        flip = -1.0 if self.mirrored else 1.0
        linear = np.array([[cosine, -sine * flip], [sine, cosine * flip]])
        return np.column_stack([linear, np.array([self.x, self.y]) - linear @ [self.source.x, self.source.y]])


@dataclass(frozen=True, slots=True)
class ObjectMatching:
    """Finds copied objects. The thresholds were chosen on clones made of clean pictures, on no real forgery."""

    smallest: int = 60
    """Fewest pixels of an object: below, chance alone makes two of them alike."""
    largest: float = 0.05
    """Most of the picture that an object can be: larger copies have key points enough."""
    most: int = 300
    """Most objects compared: the table of pairs grows with their square."""
    unlike: float = 1.7
    """Largest ratio of the areas of two objects that are compared: copies are scaled by a quarter at most."""
    candidates: int = 60
    """Pairs with the most similar polar pictures that are refined."""
    grain: float = 1.5
    """Blur, in pixels, whose residue is the fine grain."""
    likeness: float = 0.975
    """Correlation of the pixels inside from which a pair can be a copy."""
    grain_likeness: float = 0.93
    """Correlation of the grain inside from which it is one: honest pairs reach 0.92."""

    def find(self, grey: FloatArray, marks: BoolArray) -> list[BoolArray]:
        """Masks of copied objects, each with its source; what was copied in one go is in one mask. No `marks`."""
        blobs = [blob for blob in self.find_blobs(grey) if not marks[int(blob.y), int(blob.x)]]
        pairs = [pair for pair in self._candidates(grey, blobs) if self._is_copy(grey, pair)]
        return [np.any([_paint(pair, grey.shape) for pair in group], axis=0) for group in _group(pairs)]

    # --- objects ----------------------------------------------------------------------------------------------------

    def find_blobs(self, grey: FloatArray) -> list[Blob]:
        """Objects brighter than their surroundings at several thresholds, or darker where the picture is bright."""
        import cv2

        low, high = np.percentile(grey, [0.5, 99.8])
        if high - low < 2:
            return []
        stretched = np.clip((grey - low) * (255 / (high - low)), 0, 255)
        if np.median(stretched) > 127:
            stretched = 255 - stretched
        smooth = cv2.GaussianBlur(stretched, (0, 0), 1).astype(np.uint8)
        found: list[Blob] = []
        for foreground in self._thresholds(smooth):
            for blob in _parts(foreground, self.smallest, int(self.largest * grey.size)):
                if not any(_same(blob, other) for other in found):
                    found.append(blob)
        return sorted(found, key=lambda blob: -blob.area)[: self.most]

    def _thresholds(self, smooth: npt.NDArray[np.uint8]) -> Iterator[npt.NDArray[Any]]:
        import cv2

        level, _ = cv2.threshold(smooth, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
        cross = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3))
        wide = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7))
        for share in (1.0, 0.75, 0.5, 1.3):
            bright = (smooth > share * level).astype(np.uint8)
            yield cv2.morphologyEx(bright, cv2.MORPH_OPEN, cross)
            yield cv2.morphologyEx(bright, cv2.MORPH_OPEN, wide)  # parts what touches at a narrow place
        for block in (31, 61):
            local = cv2.adaptiveThreshold(smooth, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, block, -4)
            yield cv2.morphologyEx(local, cv2.MORPH_OPEN, cross)

    # --- pairs ------------------------------------------------------------------------------------------------------

    def _candidates(self, grey: FloatArray, blobs: list[Blob]) -> Iterator[Pair]:
        """Refined pairs of objects that do not share pixels, those with the most similar polar pictures."""
        if len(blobs) < 2:
            return
        polar = np.stack([_polar(grey, blob) for blob in blobs])
        mirrored = polar[:, -np.arange(ANGLES) % ANGLES]
        first = np.fft.rfft(polar, axis=1)
        rows, columns, turns, flips, values = [], [], [], [], []
        areas = np.array([blob.area for blob in blobs])
        for flip, other in enumerate((first, np.fft.rfft(mirrored, axis=1))):
            for row in range(len(blobs) - 1):
                near = row + 1 + np.flatnonzero(areas[row + 1 :] * self.unlike > areas[row])  # sorted: largest first
                if len(near):
                    table = np.fft.irfft((np.conj(first[row]) * other[near]).sum(axis=2), ANGLES, axis=1)
                    rows += [row] * len(near)
                    columns += near.tolist()
                    turns += table.argmax(axis=1).tolist()
                    values += table.max(axis=1).tolist()
                    flips += [flip] * len(near)
        taken = 0
        for number in np.argsort(values)[::-1]:
            source, target = blobs[rows[number]], blobs[columns[number]]
            if np.hypot(source.x - target.x, source.y - target.y) < source.radius + 0.5 * target.radius:
                continue  # the same object at another threshold
            scale = float(np.sqrt(target.area / source.area))
            turn = turns[number] * (2 * np.pi / ANGLES) * (-1 if flips[number] else 1)  # a mirror turns turns round
            pair = Pair(source, turn, scale, target.x, target.y, bool(flips[number]))
            yield _refine(grey, pair)
            taken += 1
            if taken == self.candidates:
                return

    def _is_copy(self, grey: FloatArray, pair: Pair) -> bool:
        """Whether pixels and grain inside agree, beyond what two honest objects do."""
        import cv2

        if np.hypot(pair.x - pair.source.x, pair.y - pair.source.y) < 1.2 * pair.source.radius:
            return False
        if _likeness(grey, pair) < self.likeness:
            return False
        grain = grey - cv2.GaussianBlur(grey, (0, 0), self.grain)
        return _likeness(np.asarray(grain, np.float32), pair) >= self.grain_likeness


def _parts(foreground: npt.NDArray[Any], smallest: int, largest: int) -> Iterator[Blob]:
    """Connected parts of the right size that do not touch the picture's border, holes filled."""
    import cv2

    outlines, _ = cv2.findContours(foreground, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    height, width = foreground.shape
    for outline in outlines:
        left, top, across, down = cv2.boundingRect(outline)
        if left == 0 or top == 0 or left + across == width or top + down == height:
            continue
        if across * down < smallest or across * down > 4 * largest:
            continue
        mask = np.zeros((down, across), np.uint8)
        cv2.drawContours(mask, [outline - (left, top)], -1, 1, cv2.FILLED)
        area = int(mask.sum())
        if smallest <= area <= largest and area > 0.35 * across * down:
            y, x = (places.mean() for places in np.nonzero(mask))
            yield Blob(left + float(x), top + float(y), area, (top, left), mask > 0)


def _same(one: Blob, other: Blob) -> bool:
    near = abs(one.x - other.x) < 2 and abs(one.y - other.y) < 2
    return near and 0.8 < one.area / other.area < 1.25


def _polar(grey: FloatArray, blob: Blob) -> FloatArray:
    """(angles, rings) around the centre without the mean of each ring's share: of unit length."""
    import cv2

    angles = np.arange(ANGLES) * (2 * np.pi / ANGLES)
    rings = (np.arange(RINGS) + 0.5) / RINGS * blob.radius * 1.1
    x = (blob.x + np.outer(np.cos(angles), rings)).astype(np.float32)
    y = (blob.y + np.outer(np.sin(angles), rings)).astype(np.float32)
    picture = cv2.remap(grey, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    picture = (picture - picture.mean(axis=0)) * np.sqrt(rings)  # what is alike all around says nothing of the turn
    length = float(np.linalg.norm(picture))
    return np.asarray(picture / max(length, 1e-6), np.float32)


def _refine(grey: FloatArray, pair: Pair) -> Pair:
    """Climb to the turn, size and place of the highest likeness, with ever smaller steps."""
    best, value = pair, _likeness(grey, pair)
    step = np.array([0.08, 0.05, 1.0, 1.0])
    while step[2] > 0.02:
        improved = False
        for number in range(4):
            for sign in (-1, 1):
                turn, scale, x, y = np.array([best.turn, best.scale, best.x, best.y]) + sign * step * (
                    np.arange(4) == number
                )
                tried = Pair(best.source, float(turn), float(scale), float(x), float(y), best.mirrored)
                if 0.75 < scale < 1.35 and (found := _likeness(grey, tried)) > value + 1e-4:
                    best, value, improved = tried, found, True
        step = step if improved else step / 2
    return best


def _likeness(picture: FloatArray, pair: Pair) -> float:
    """Correlation of source and copy inside the object; its rim is shape and left out."""
    import cv2

    source = pair.source
    top, left = source.corner
    inside = cv2.erode(source.mask.astype(np.uint8), np.ones((3, 3)), iterations=2, borderValue=0) > 0
    if inside.sum() < 25:
        inside = source.mask
    rows, columns = np.nonzero(inside)
    x, y = columns + left, rows + top
    matrix = pair.matrix()
    there = matrix[:, :2] @ np.stack([x, y]) + matrix[:, 2:]
    one = picture[y, x]
    there = there.astype(np.float32)
    other = cv2.remap(picture, there[0], there[1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT).ravel()
    one, other = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / spread if spread > 1e-3 else 0.0


def _group(pairs: list[Pair]) -> list[list[Pair]]:
    """Pairs that one transform explains, either way round: a region was copied with all its objects."""
    groups: list[list[Pair]] = []
    for pair in pairs:
        fitting = next((group for group in groups if any(_explains(other, pair) for other in group)), None)
        if fitting is None:
            groups.append([pair])
        else:
            fitting.append(pair)
    return groups


def _explains(one: Pair, other: Pair) -> bool:
    if one.mirrored != other.mirrored:
        return False
    place, target = np.array([other.source.x, other.source.y, 1.0]), np.array([other.x, other.y])
    near = max(3.0, 0.2 * one.source.radius)
    forward = one.matrix() @ place
    back = np.linalg.inv(np.vstack([one.matrix(), [0, 0, 1]]))[:2] @ place
    return bool(min(np.linalg.norm(forward - target), np.linalg.norm(back - target)) < near)


def _paint(pair: Pair, shape: tuple[int, ...]) -> BoolArray:
    """The source and its copy in one mask."""
    import cv2

    source = np.zeros(shape, np.uint8)
    (top, left), (height, width) = pair.source.corner, pair.source.mask.shape
    source[top : top + height, left : left + width] = pair.source.mask
    copy = cv2.warpAffine(source, pair.matrix(), (shape[1], shape[0]), flags=cv2.INTER_NEAREST)
    return np.asarray((source > 0) | (copy > 0), np.bool_)
