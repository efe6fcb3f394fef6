"""Lanes of a blot or a gel that stand there twice. Two bands look alike in every honest blot: the noise is the proof.

Small squares of the blots' finest texture, a grid of them, are compared with every square of it, in the four ways a
lane can be turned over; squares beside each other that were moved alike are a copied lane, or bare membrane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import cv2
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.canvas.bands import ACROSS, look_for_bands
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, IntArray, Match, Matrix, TierName
from handlens.challenges.forgery.detect.geometry.correlation import template_correlation
from handlens.challenges.forgery.detect.geometry.region_growing import RegionGrowing
from handlens.challenges.forgery.detect.geometry.turns import Turn, linear_of, turned
from handlens.challenges.forgery.detect.verifier.tier import TIERS, Tier

UPRIGHT: tuple[Turn, ...] = ((0, False), (2, False), (0, True), (2, True))
"""The turns under which lanes stay upright."""

ROWS_AT_ONCE, AT_ONCE = 256, 8_192
"""Squares compared with all others at a time, and described at a time: a table of so many rows is held. By hand: bounds
the memory."""

BAND_LEVEL = 0.7
"""Share of Otsu's threshold from which a pixel is band. By hand."""

NARROWEST = 3
"""Squares that fit into a blot at least, along a side. By hand."""

SOFT, MEDIAN = 0.5, 5
"""Blur against single pixels, and side of the median, which keeps the edges of bands, so that they are not in the
residual. By hand."""

EVEN_BLUR, LEAST_STRENGTH = 3.0, 0.3
"""Blur over which the strength of texture is averaged, and the least strength: below, there is only rounding. By
hand."""

FREE, HARDLY_BLOCKED = 0.95, 0.1
"""Share of a small pixel that must be free, and of a square that may be blocked. By hand."""

SAMPLED = 6_000
"""Squares of which the principal components are computed. By hand: bounds the time."""

SAME_SHIFT, SLACK = 1.5, 1.5
"""Small pixels that the shifts of two neighbours may differ by, and by which the shift of a group may be wrong. By
hand."""

SHARPENED = (12, 40)
"""Fewest and most pixels from the middle of a group to the edge of what its shift is sharpened with. By hand."""


@dataclass(frozen=True, slots=True)
class BlotFinder:
    """Compares squares of texture. Lengths are pixels of a picture made smaller."""

    tier: ClassVar[Tier] = TIERS[TierName.BLOTS]

    across: float = ACROSS
    """How much stronger slopes are downwards than sideways, squared, where a panel is a blot."""
    around: int = 12
    """Pixels of the canvas around a band that are compared: all of a blot would take ten times as long. By hand: bounds
    the time."""
    pixels: int = 60_000
    """Free pixels of the small picture: the time grows with their square. By hand: bounds the time."""
    finest: float = 1.5
    """Least pixels of the canvas for one of the small picture. By hand."""
    side: int = 12
    """Side of a square. By hand."""
    stride: int = 6
    """Steps between the squares that are looked for; they are looked for everywhere. By hand: bounds the time."""
    features: int = 64
    """Numbers that describe a square: its strongest principal components. By hand: bounds the time."""
    apart: float = 1.5
    """Sides of a square between it and its copy: nearer, texture is alike because it is smooth. By hand."""
    nearest: int = 2
    """Most alike places kept of each square."""
    correlation: float = 0.5
    """Least correlation of two squares. By hand."""
    neighbours: int = 3
    """How many of the 24 squares around a square must have moved with it. By hand."""
    residual: float = 0.25
    """Least correlation of the residual noise. By hand."""
    groups: int = 12
    """Most regions grown, those that prove most. By hand: bounds the time."""
    growing: RegionGrowing = field(default_factory=RegionGrowing)

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Regions of the blots whose texture is there again, the largest first."""
        free = self._blots(canvas)
        if not free.any():
            return []
        step = max(self.finest, float(np.sqrt(free.sum() / self.pixels)))
        texture, small = _texture(canvas, free, step)
        if min(texture.shape) < NARROWEST * self.side:
            return []
        residual = _residual_noise(canvas.grey)
        moves: list[tuple[float, Matrix, IntArray]] = []
        for sources, places, turn in self._alike(texture, small, clock):
            for some, there in self._together(sources, places, turn):
                middles = self._middles(there, step)
                matrix = _matrix(self._middles(some, step), middles, turn)
                moves.append(_sharpened(residual, matrix, np.rint(middles).astype(np.int64), int(SLACK * step) + 2))
        matches: list[Match] = []
        for value, matrix, seeds in sorted(moves, key=lambda move: -move[0] * np.sqrt(len(move[2])))[: self.groups]:
            if not clock.allows(self.tier.name, share=self.tier.confirm):
                break
            found = self.growing.grow(canvas, matrix, seeds) if value > self.residual else None
            if found is not None:
                matches.append(Match(*found, self.tier.name, {"inliers": float(len(seeds))}))
        return matches

    def _middles(self, corners: IntArray, step: float) -> Matrix:
        """Middles of squares as x, y of the canvas."""
        return np.asarray((corners[:, ::-1] + self.side / 2) * step - 0.5, np.float64)

    def _blots(self, canvas: Canvas) -> BoolArray:
        """The free pixels in and around the bands of panels that show bands."""
        free = np.zeros(canvas.shape, np.bool_)
        for _, panel in canvas.pictures:
            seen = look_for_bands(canvas, panel, self.across)
            if seen is not None:
                free[panel.window] = ~canvas.blocked[panel.window] & _near_bands(*seen, self.around)
        return free

    # --- squares that are alike ---------------------------------------------------------------------------------

    def _alike(self, texture: FloatArray, free: BoolArray, clock: Clock) -> Iterator[tuple[IntArray, IntArray, Turn]]:
        """For each turn: squares (N, 2) as row, column, and (N, nearest, 2) where each is again, -1 where nowhere."""
        all_of_them = np.lib.stride_tricks.sliding_window_view(texture, (self.side, self.side))
        usable = _usable(free, self.side)
        rows, columns = np.nonzero(usable)
        chosen = (rows % self.stride == 0) & (columns % self.stride == 0)
        if not chosen.any():
            return
        basis = _components(all_of_them[rows, columns], self.features)
        everywhere = _described(all_of_them, rows, columns, basis)
        grid = np.stack([rows[chosen], columns[chosen]], axis=1)
        squares = all_of_them[grid[:, 0], grid[:, 1]]
        for turn in UPRIGHT:
            if not clock.allows(self.tier.name, share=self.tier.search):
                return
            posed = turned(squares, turn)
            wanted = _unit(posed.reshape(len(posed), -1) @ basis)
            yield grid, self._nearest(wanted, grid, everywhere, np.stack([rows, columns], axis=1)), turn

    def _nearest(self, wanted: FloatArray, grid: IntArray, everywhere: FloatArray, places: IntArray) -> IntArray:
        found = np.full((len(grid), self.nearest, 2), -1, np.int64)
        apart = self.apart * self.side
        for start in range(0, len(grid), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            table = wanted[part] @ everywhere.T
            own = np.arange(len(table))
            for (row, column), values in zip(grid[part], table, strict=True):
                values[np.maximum(np.abs(places[:, 0] - row), np.abs(places[:, 1] - column)) < apart] = -1
            for rank in range(self.nearest):
                best = table.argmax(axis=1)
                good = table[own, best] > self.correlation
                found[start + own[good], rank] = places[best[good]]
                table[own, best] = -1
        return found

    # --- squares that moved together ----------------------------------------------------------------------------

    def _together(self, sources: IntArray, places: IntArray, turn: Turn) -> Iterator[tuple[IntArray, IntArray]]:
        """Squares and where they are again, in groups that lie side by side and were moved alike."""
        linear = linear_of(turn)[::-1, ::-1]  # of rows and columns
        number, rank = np.nonzero(places[:, :, 0] >= 0)
        here, there = sources[number], places[number, rank]
        shift = there - here @ linear.T
        first, second = self._neighbours(here, shift)
        count = np.bincount(first, minlength=len(here))
        good = count >= self.neighbours
        kept = good[first] & good[second]
        graph = coo_array((np.ones(int(kept.sum())), (first[kept], second[kept])), shape=(len(here), len(here)))
        _, labels = connected_components(graph, directed=False)
        for label in np.unique(labels[good]):
            some = good & (labels == label)
            yield here[some], there[some]

    def _neighbours(self, here: IntArray, shift: Matrix) -> tuple[IntArray, IntArray]:
        """Pairs of squares at most two steps apart whose shifts differ by at most a pixel."""
        if not len(here):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        reach = 2 * self.stride + 0.5
        places = np.concatenate([here / reach, shift / SAME_SHIFT], axis=1)  # neighbours differ by less than 1 in each
        pairs = cKDTree(places).query_pairs(1.0, p=np.inf, output_type="ndarray")
        return np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])


def _near_bands(soft: FloatArray, inner: BoolArray, reach: int) -> BoolArray:
    """Bands, which differ from most of the membrane, and what lies around them."""
    unlike = np.abs(soft - np.median(soft[inner]))
    levels = np.clip(unlike * (255 / max(1.0, float(unlike[inner].max()))), 0, 255).astype(np.uint8)
    threshold, _ = cv2.threshold(levels[inner], 0, 255, cv2.THRESH_OTSU)
    bands = (levels > BAND_LEVEL * threshold) & inner
    return np.asarray(cv2.dilate(bands.astype(np.uint8), np.ones((2 * reach + 1, 2 * reach + 1))) > 0)


def _texture(canvas: Canvas, free: BoolArray, step: float) -> tuple[FloatArray, BoolArray]:
    """The small picture: fine texture alone, equally strong everywhere; and where it is free."""
    size = (max(1, round(canvas.shape[1] / step)), max(1, round(canvas.shape[0] / step)))
    small = np.asarray(cv2.resize(canvas.grey, size, interpolation=cv2.INTER_AREA), np.float32)
    fine = _residual_noise(small)
    strength = np.sqrt(cv2.GaussianBlur(fine * fine, (0, 0), EVEN_BLUR))
    small_free = cv2.resize(free.astype(np.float32), size, interpolation=cv2.INTER_AREA) > FREE
    return np.asarray(fine / np.maximum(strength, LEAST_STRENGTH), np.float32), np.asarray(small_free)


def _residual_noise(picture: FloatArray) -> FloatArray:
    """What a median takes away: noise. It keeps the edges of bands, so that they are not in it."""
    soft = np.asarray(cv2.GaussianBlur(picture, (0, 0), SOFT), np.float32)
    return np.asarray(soft - cv2.medianBlur(soft, MEDIAN), np.float32)


def _usable(free: BoolArray, side: int) -> BoolArray:
    """Upper left corners of squares that hold hardly any blocked pixel."""
    sums = cv2.integral((~free).astype(np.uint8))
    blocked = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    return np.asarray(blocked < HARDLY_BLOCKED * side * side)


def _components(squares: FloatArray, count: int) -> FloatArray:
    """The directions (pixels, count) in which the squares differ most."""
    some = squares[np.linspace(0, len(squares) - 1, min(len(squares), SAMPLED)).astype(int)]
    flat = some.reshape(len(some), -1).astype(np.float64)
    _, vectors = np.linalg.eigh(flat.T @ flat)
    return np.ascontiguousarray(vectors[:, ::-1][:, :count], np.float32)


def _described(squares: FloatArray, rows: IntArray, columns: IntArray, basis: FloatArray) -> FloatArray:
    parts = []
    for start in range(0, len(rows), AT_ONCE):
        part = squares[rows[start : start + AT_ONCE], columns[start : start + AT_ONCE]]
        parts.append(_unit(part.reshape(len(part), -1) @ basis))
    return np.concatenate(parts) if parts else np.zeros((0, basis.shape[1]), np.float32)


def _unit(features: FloatArray) -> FloatArray:
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-3), np.float32)


def _matrix(sources: Matrix, places: Matrix, turn: Turn) -> Matrix:
    """The transform that brings places of the canvas (N, 2) as x, y to others, for a known turn."""
    linear = linear_of(turn)
    return np.column_stack([linear, np.median(places - sources @ linear.T, axis=0)])


def _sharpened(residual: FloatArray, matrix: Matrix, places: IntArray, slack: int) -> tuple[float, Matrix, IntArray]:
    """The transform with the shift, at most `slack` pixels other, under which the residual agrees best; how well."""
    x, y = np.median(places, axis=0).astype(int)
    half = int(np.clip(np.ptp(places, axis=0).max() / 2 + slack, *SHARPENED))
    height, width = residual.shape
    top, bottom, left, right = max(0, y - half), min(height, y + half), max(0, x - half), min(width, x + half)
    moved = np.array(matrix)
    moved[:, 2] -= [left, top]
    template = cv2.warpAffine(residual, moved, (right - left, bottom - top), flags=cv2.INTER_LINEAR)
    before, above = min(slack, left), min(slack, top)
    around = np.ascontiguousarray(residual[top - above : bottom + slack, left - before : right + slack])
    table = template_correlation(around, np.asarray(template, np.float32))
    if table is None:
        return 0.0, matrix, places
    row, column = np.unravel_index(int(table.argmax()), table.shape)
    better = np.array(matrix)
    better[:, 2] += [column - before, row - above]
    return float(table[row, column]), better, places
