"""Panels that show a part of another larger or smaller: correlated at many zooms, turns and shifts, made small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import cv2
import numpy as np
import numpy.typing as npt
from scipy import fft

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, Matrix
from handlens.challenges.forgery.detect.geometry.alignment import align
from handlens.challenges.forgery.detect.geometry.correlation import cosine, dot, fisher
from handlens.challenges.forgery.detect.geometry.panel_transform import covering, overlap_of, transform_of, zoomed
from handlens.challenges.forgery.detect.geometry.points import shared_interior, thinned
from handlens.challenges.forgery.detect.geometry.turns import TURNS, Turn, turned

Overlaps = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]

SAME = 0.5
"""Most that the numbers of two transforms differ, in pixels of the small canvas, that are the same. By hand."""

MAX_OFFSET = 2.5
"""Largest zoom, either way, at which a panel that just covers another is looked at. By hand."""

SMALLEST = 8
"""Pixels of the shortest side of a panel, made small, that can be compared. By hand."""


@dataclass(frozen=True, slots=True)
class PanelSearch:
    """How the zooms, turns and shifts of a pair of panels are sought."""

    side: int = 72
    """Longest side of a panel when it is correlated with others, in pixels. By hand."""
    step: float = 1.09
    """Ratio of two neighbouring zooms: the alignment finds the exact one. By hand."""
    steps: int = 4
    """Zooms to either side of 1. By hand."""
    high_pass: float = 8.0
    """Blur, in pixels, whose residual is compared; slower changes are uneven light. By hand."""
    clipped: float = 2.0
    """Standard deviations at which a pixel is clipped: one bright speck must not outshout a panel. By hand."""
    smallest: float = 0.2
    """Least share of the smaller panel that must overlap. By hand."""
    tries: int = 3
    """Zooms and turns of a pair that are aligned. By hand: bounds the time."""
    points: int = 600
    """Pixels that are aligned. By hand: bounds the time."""
    fewest: int = 60
    """Fewest of them. By hand."""
    correlation: float = 0.8
    """Least correlation after alignment. By hand."""
    shortlist: int = 4
    """How many times as many zooms and turns are compared pixel by pixel first. By hand: bounds the time."""
    room: float = 1.3
    """Side of the squares that are transformed, relative to that of the largest zoom. By hand."""

    def ways(self) -> list[tuple[float, Turn]]:
        """Every zoom, in all turns."""
        return [(self.step**power, turn) for power in range(-self.steps, self.steps + 1) for turn in TURNS]

    @property
    def square(self) -> int:
        """Side of the squares that are transformed: shifts beyond half of what is left of them come back in."""
        return int(fft.next_fast_len(int(self.room * self.side * self.step**self.steps), real=True))


@dataclass(slots=True)
class PanelPairs:
    """Looks for zooms between the panels of one canvas; what was made of a panel is kept for its next pair."""

    canvas: Canvas
    search: PanelSearch
    levels: dict[float, Level] = field(default_factory=dict)

    def candidates(self, one: int, other: int) -> Iterator[Matrix]:
        """Transforms from a panel to another (by their numbers from 0) under which they are alike when made small."""
        level = self._level(max(*self.canvas.panels[one].shape, *self.canvas.panels[other].shape))
        known: list[Matrix] = []
        for matrix in [*level.search_shifts(one, other), *level.search_covering(one, other)]:
            found = level.align(one, other, matrix)
            if found is not None and not any(np.abs(found - same).max() < SAME for same in known):
                known.append(found)
                yield level.canvas.scaling.matrix_to_figure(found)

    def _level(self, longest: int) -> Level:
        """The canvas so small that no side is too long; sizes are rounded, so that pairs can share it."""
        powers = max(0, int(np.ceil(2 * np.log2(longest / self.search.side))))
        factor = float(2 ** (-powers / 2))
        if factor not in self.levels:
            self.levels[factor] = Level(self.canvas.shrunk(factor), self.search)
        return self.levels[factor]


@dataclass(slots=True)
class Level:
    """A canvas made small, and its panels ready to be correlated with each other."""

    canvas: Canvas
    search: PanelSearch
    pictures: dict[int, FloatArray] = field(default_factory=dict)
    posed: dict[int, list[FloatArray]] = field(default_factory=dict)
    spectra: dict[int, npt.NDArray[np.complex64]] = field(default_factory=dict)

    def search_shifts(self, one: int, other: int) -> list[Matrix]:
        """The transforms that say most: a correlation counts by the pixels that share it."""
        target = self._picture(other)
        if min(*self._picture(one).shape, *target.shape) < SMALLEST:
            return []
        square, spectra = self.search.square, self._spectra(one)
        spectrum = fft.rfft2(target, (square, square)).conj()
        tables = fft.irfft2(spectra * spectrum, (square, square), axes=(1, 2), overwrite_x=True)
        np.abs(tables, out=tables)
        weights: dict[tuple[int, ...], Overlaps] = {}
        found = []
        for number, (posed, table) in enumerate(zip(self.posed[one], tables, strict=True)):
            if posed.shape not in weights:
                weights[posed.shape] = _overlaps(posed.shape, target.shape, square, self.search.smallest)
            rows, columns, weight = weights[posed.shape]
            table *= weight
            row, column = divmod(int(table.argmax()), square)
            found.append((float(table[row, column]), number, (int(rows[row]), int(columns[column]))))
        found.sort(reverse=True)
        candidates, ways, panels = [], self.search.ways(), (self.canvas.panels[one], self.canvas.panels[other])
        for _, number, shift in found[: self.search.shortlist * self.search.tries]:
            alike, pixels = _overlap_correlation(self.posed[one][number], target, shift)
            candidates.append((fisher(alike) * np.sqrt(pixels), transform_of(*panels, *ways[number], shift)))
        candidates.sort(key=lambda candidate: -candidate[0])
        return [matrix for _, matrix in candidates[: self.search.tries]]

    def search_covering(self, one: int, other: int) -> list[Matrix]:
        """The transforms under which one panel just covers the other, at zooms that are not tried anyway."""
        panels, largest = (self.canvas.panels[one], self.canvas.panels[other]), self.search.step**self.search.steps
        if min(*panels[0].shape, *panels[1].shape) < SMALLEST:
            return []
        return [
            transform_of(*panels, zoom, turn, (0, 0))
            for zoom, turn in covering(*panels)
            if largest < max(zoom, 1 / zoom) < MAX_OFFSET
        ]

    def align(self, one: int, other: int, matrix: Matrix) -> Matrix | None:
        """The exact transform; None where the panels are not alike under it."""
        panels, blocked = self.canvas.panels, self.canvas.blocked
        region = overlap_of(self.canvas.shape, panels[one], panels[other], matrix)
        if region is None:
            return None
        points = thinned(shared_interior(region, matrix, blocked), self.search.points)
        if len(points) < self.search.fewest:
            return None
        matrix, found = align(self.canvas, points, matrix)
        return matrix if abs(found) >= self.search.correlation else None

    def _picture(self, number: int) -> FloatArray:
        """A panel high-passed and clipped, blocked pixels 0."""
        if number not in self.pictures:
            window = self.canvas.panels[number].window
            part = self.canvas.grey[window]
            fine = part - cv2.GaussianBlur(part, (0, 0), self.search.high_pass) if part.size else part
            fine = np.where(self.canvas.blocked[window], 0, fine)
            most = self.search.clipped * max(float(np.sqrt(np.mean(fine**2))) if fine.size else 0.0, 1e-3)
            self.pictures[number] = np.clip(fine, -most, most).astype(np.float32)
        return self.pictures[number]

    def _spectra(self, number: int) -> npt.NDArray[np.complex64]:
        """Of a panel, zoomed and turned in all ways."""
        if number not in self.spectra:
            ways, square = self.search.ways(), self.search.square
            self.posed[number] = [turned(zoomed(self._picture(number), zoom), turn) for zoom, turn in ways]
            stack = np.zeros((len(ways), square, square), np.float32)
            for picture, posed in zip(stack, self.posed[number], strict=True):
                picture[: posed.shape[0], : posed.shape[1]] = posed
            self.spectra[number] = fft.rfft2(stack, axes=(1, 2))
        return self.spectra[number]


def _overlaps(posed: tuple[int, ...], target: tuple[int, ...], square: int, smallest: float) -> Overlaps:
    """For every row and column of a table of correlations its shift, and for every place how much a value weighs.

    A chance value grows with the root of the overlap; shifts that overlap too little weigh nothing.
    """
    places = np.arange(square)
    rows, columns = (
        np.where(2 * places < square + here - there, -places, square - places)
        for here, there in zip(posed, target, strict=True)
    )
    down, across = (
        np.clip(np.minimum(there, shifts + here) - np.maximum(0, shifts), 0, None)
        for shifts, here, there in zip((rows, columns), posed, target, strict=True)
    )
    pixels = np.outer(down, across)
    least = smallest * min(posed[0] * posed[1], target[0] * target[1])
    return rows, columns, np.where(pixels > least, 1 / np.sqrt(np.maximum(pixels, 1)), 0).astype(np.float32)


def _overlap_correlation(posed: FloatArray, target: FloatArray, shift: tuple[int, int]) -> tuple[float, int]:
    """Correlation of what overlaps, of either sign, and its pixels."""
    parts = []
    for picture, moved in ((posed, shift), (target, (0, 0))):
        rows, columns = (
            slice(max(0, way) - own, min(there, way + here) - own)
            for way, here, there, own in zip(shift, posed.shape, target.shape, moved, strict=True)
        )
        parts.append(picture[rows, columns].ravel())
    one, other = parts
    return abs(float(cosine(one, other, inner=dot, flat=0.0))), one.size
