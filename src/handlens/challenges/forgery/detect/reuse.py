"""Panels that show the same picture again: flipped, turned, in part, brighter, inverted, smaller or larger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import FloatArray, Match, Matrix, Panel, Patch
from handlens.challenges.forgery.detect.outline import inverse, trimmed, warp_patch
from handlens.challenges.forgery.detect.turns import TURNS, Turn, lay, linear_of
from handlens.challenges.forgery.detect.verify import align, interior, measure

FEWEST = 100
"""Fewest free pixels of an overlap that can be compared."""


@dataclass(frozen=True, slots=True)
class PanelTier:
    """Lays every picture of a figure on every other, by correlation over all shifts at once."""

    side: int = 96
    """Longer side of the panels when they are compared; the best shifts are confirmed on the canvas."""
    most: int = 16
    """Most panels compared, the largest first: pairs grow with their square."""
    peaks: int = 3
    """Shifts of one pair that are confirmed."""
    smallest: float = 0.12
    """Least share of the smaller panel that must overlap."""
    likeness: float = 0.7
    """Least likeness, after alignment, of a pair that is handed on."""

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Pairs of panels that share a region, with that region in both."""
        pictures = sorted(canvas.pictures, key=lambda each: -each[1].shape[0] * each[1].shape[1])[: self.most]
        pictures = [each for each in pictures if min(each[1].shape) >= 24]
        found = []
        for (_, one), (_, other) in combinations(pictures, 2):
            if not clock.allows("panels", share=0.3):
                break
            best: Match | None = None
            for matrix in self._shifts(canvas, one, other):
                match = self._confirm(canvas, one, other, matrix)
                if match and (best is None or match.evidence["detail"] > best.evidence["detail"]):
                    best = match
            found += [best] if best else []
        return found

    # --- shifts -----------------------------------------------------------------------------------------------------

    def _shifts(self, canvas: Canvas, one: Panel, other: Panel) -> Iterator[Matrix]:
        """Transforms from one panel to the other under which they correlate best, the most promising first."""
        from scipy import fft

        factor = min(1.0, self.side / max(*one.shape, *other.shape))
        source, target = _small(canvas, one, factor), _small(canvas, other, factor)
        offers = []
        for zoom in _zooms(one, other):
            scaled = source if zoom == 1 else _zoomed(source, zoom)
            size = [fft.next_fast_len(max(scaled.shape) + side, real=True) for side in target.shape]
            spectrum = fft.rfft2(target, size)
            for turn in TURNS:
                laid = lay(scaled, turn)
                table = fft.irfft2(spectrum * np.conj(fft.rfft2(laid, size)), size)
                for value, shift in _highest(table, self.peaks):
                    reach = np.sqrt(_shared(laid.shape, target.shape, shift))
                    if reach**2 > self.smallest * min(laid.size, target.size):
                        matrix = _laid(one, other, factor, zoom, turn, shift)
                        offers.append((abs(value) / reach, matrix))
        offers.sort(key=lambda offer: -offer[0])
        for _, matrix in offers[: self.peaks]:
            yield matrix

    def _confirm(self, canvas: Canvas, one: Panel, other: Panel, matrix: Matrix) -> Match | None:
        """The shared region after alignment; None where the pictures disagree there, or agree only when bent."""
        shared = _overlap(canvas, one, other, matrix)
        points = interior(shared, canvas.blocked) if shared else None
        if points is None or len(points) < FEWEST:
            return None
        aligned, likeness = align(canvas, points, matrix)
        bent = np.abs(aligned[:, :2] - matrix[:, :2]).max() / np.sqrt(abs(np.linalg.det(matrix[:, :2])))
        if abs(likeness) < self.likeness or bent > 0.12:
            return None
        source = _overlap(canvas, one, other, aligned)
        copy = warp_patch(source, aligned, canvas.shape) if source else None
        points = interior(source, canvas.blocked) if source else points
        if source is None or copy is None or len(points) < FEWEST:
            return None
        return Match(source, copy, aligned, "panels", measure(canvas, points, aligned))


def _small(canvas: Canvas, panel: Panel, factor: float) -> FloatArray:
    """A panel made small, without its slow changes, of unit spread; blocked pixels 0."""
    import cv2

    height, width = (max(8, round(side * factor)) for side in panel.shape)
    part = cv2.resize(canvas.grey[panel.window], (width, height), interpolation=cv2.INTER_AREA)
    fine = part - cv2.GaussianBlur(part, (0, 0), 6)
    free = cv2.resize(
        (~canvas.blocked[panel.window]).astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST
    )
    fine *= free
    return np.asarray(fine / max(float(fine.std()), 1e-3), np.float32)


def _zooms(one: Panel, other: Panel) -> list[float]:
    """Same size, and the size at which one panel, upright or on its side, just covers the other."""
    found = [1.0]
    for height, width in (one.shape, one.shape[::-1]):
        down, across = other.shape[0] / height, other.shape[1] / width
        ratio = float(np.sqrt(down * across))
        if abs(down / across - 1) < 0.06 and 0.4 < ratio < 2.5 and all(abs(ratio - known) > 0.03 for known in found):
            found.append(ratio)
    return found


def _zoomed(picture: FloatArray, zoom: float) -> FloatArray:
    import cv2

    size = (max(8, round(picture.shape[1] * zoom)), max(8, round(picture.shape[0] * zoom)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR), np.float32)


def _highest(table: npt.NDArray[np.floating], count: int) -> list[tuple[float, tuple[int, int]]]:
    """The strongest shifts (rows, columns), of either sign, no two of them neighbours."""
    strength = np.abs(table)
    found = []
    for _ in range(count):
        row, column = np.unravel_index(int(strength.argmax()), strength.shape)
        shift = tuple(
            int(place) - (side if place > side // 2 else 0)
            for place, side in zip((row, column), table.shape, strict=True)
        )
        found.append((float(table[row, column]), shift))
        rows, columns = (
            np.arange(place - 4, place + 5) % side for place, side in zip((row, column), table.shape, strict=True)
        )
        strength[np.ix_(rows, columns)] = 0
    return found  # type: ignore[return-value]


def _shared(source: tuple[int, ...], target: tuple[int, ...], shift: tuple[int, int]) -> float:
    """Pixels of the target that the shifted source covers."""
    sides = [min(there, move + here) - max(0, move) for here, there, move in zip(source, target, shift, strict=True)]
    return float(max(0, sides[0]) * max(0, sides[1]))


def _laid(one: Panel, other: Panel, factor: float, zoom: float, turn: Turn, shift: tuple[int, int]) -> Matrix:
    """The transform of the canvas that a shift of small, zoomed, mirrored and turned panels means."""
    linear = zoom * linear_of(turn)
    middle = np.array(one.shape[::-1]) / 2
    move = np.abs(linear) @ middle - linear @ middle  # so that what is laid begins at 0
    corner = np.array([one.left - 0.5, one.top - 0.5])
    there = np.array([other.left - 0.5, other.top - 0.5]) + np.array([shift[1], shift[0]]) / factor
    return np.column_stack([linear, move - linear @ corner + there])


def _overlap(canvas: Canvas, one: Panel, other: Panel, matrix: Matrix) -> Patch | None:
    """The part of one panel that the transform brings into the other."""

    whole = Patch(other.top, other.left, np.ones(other.shape, np.bool_))
    back = warp_patch(whole, inverse(matrix), canvas.shape)
    if back is None:
        return None
    inside = np.zeros(canvas.shape, np.bool_)
    back.paint(inside)
    return trimmed(one.top, one.left, inside[one.window])
