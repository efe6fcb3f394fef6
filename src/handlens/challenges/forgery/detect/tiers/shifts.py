"""Regions that were moved as they are, or mirrored or turned by quarters: the grain of each panel against its own.

A copy gives the correlation of a panel with itself a peak, however bare the region is: no two places share their
grain. One Fourier transform of the panel looks for all shifts at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import cv2
import numpy as np
import scipy.fft

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.canvas.canvas import GRAIN
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Match, Matrix, Panel, Patch, TierName
from handlens.challenges.forgery.detect.geometry.correlation import fisher
from handlens.challenges.forgery.detect.geometry.points import shared_interior
from handlens.challenges.forgery.detect.geometry.region_growing import RegionGrowing, clean, even, parts_holding
from handlens.challenges.forgery.detect.geometry.turns import TURNS, Turn, linear_of, turned
from handlens.challenges.forgery.detect.verifier.evidence import compare
from handlens.challenges.forgery.detect.verifier.repetition import find_second_best
from handlens.challenges.forgery.detect.verifier.tier import TIERS, Tier
from handlens.types import Shape

STRAIGHT = (0, False)

HALF = 0.5
"""Rule: at the edge of a region half of the window is copied."""

SPECK = 5
"""Side in pixels of what is too small to be a region. By hand."""

NEAR = 4
"""Pixels around a peak that belong to it. By hand."""

WHITENED = 31
"""Side, in frequencies, over which the power of grain is averaged: wider than the ripple of a copy farther away. By
hand."""

STRONGEST = 2.0
"""Most power of a frequency, in those of its neighbours, root: what is stronger repeats by nature. By hand."""


@dataclass(frozen=True, slots=True)
class Move:
    """How alike grain is where it is most alike, moved by this transform, and where, roughly, that is in the copy."""

    correlation: float
    matrix: Matrix
    copy: BoolArray
    panel: Panel

    @property
    def weight(self) -> float:
        """Large regions that are much alike count most."""
        return self.correlation**2 * float(np.sqrt(self.copy.sum()))


@dataclass(frozen=True, slots=True)
class ShiftFinder:
    """Correlates grain. Lengths are pixels of the canvas."""

    tier: ClassVar[Tier] = TIERS[TierName.SHIFTS]

    narrowest: int = 48
    """Least side of a panel. By hand."""
    displacement: int = 24
    """Nearest that a copy can be to its source: nearer, grain is alike because it is smooth. By hand."""
    pixels: int = 400_000
    """Larger panels are made smaller. By hand: bounds the time."""
    peaks: int = 6
    """Most peaks looked at, of each panel and turn. By hand: bounds the time."""
    height: float = 4.5
    """Least height of a peak. Among a million shifts chance reaches 5: what it stands for is looked at. Rule: extremes
    of a normal distribution."""
    most: int = 6
    """Most that are grown to regions in a figure, the weightiest. By hand: bounds the time."""
    weight: float = 8.0
    """Least weight of what is grown to a region: chance agreement is weak, or comes in specks. By hand."""
    window: int = 17
    """Side of the window in which grain is compared: white noise of so many pixels agrees by 0.06 by chance. Rule: 1 /
    sqrt(n)."""
    correlation: float = 0.3
    """Least correlation of grain, on average over the window. By hand."""
    stray: float = 3.0
    """Most pixels that alignment may move the region's corners by: the transform was known. By hand."""
    lead: float = 2.5
    """How many times more, in Fisher's z, grain must agree than with places around the copy. By hand."""
    growing: RegionGrowing = field(default_factory=RegionGrowing)

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Regions whose grain is there again, the weightiest first."""
        moves: list[Move] = []
        for _, panel in canvas.pictures:
            if min(panel.shape) >= self.narrowest and clock.allows(self.tier.name):
                moves += self._moves(canvas, panel)
        matches: list[Match] = []
        for move in sorted(moves, key=lambda each: -each.weight)[: self.most]:
            if not clock.allows(self.tier.name):
                break
            seed = np.zeros(canvas.shape, np.bool_)
            seed[move.panel.window] = move.copy
            found = self.growing.grow_seed(canvas, move.matrix, seed)
            if found is not None and _strays(found, move.matrix) < self.stray and self._stands_out(canvas, found):
                matches.append(Match(*found, self.tier.name, {"peak_weight": move.weight}))
        return matches

    def _stands_out(self, canvas: Canvas, found: tuple[Patch, Patch, Matrix]) -> bool:
        """Whether the grain agrees far better than with places around the copy: a mesh or a ruler repeats."""
        source, _, matrix = found
        points = shared_interior(source, matrix, canvas.blocked)
        own = compare(canvas.grain, points, matrix)
        return fisher(own) > self.lead * fisher(find_second_best(canvas.grain, source, matrix))

    def _moves(self, canvas: Canvas, panel: Panel) -> Iterator[Move]:
        """Peaks of one panel whose grain agrees somewhere."""
        step = max(1.0, float(np.sqrt(panel.shape[0] * panel.shape[1] / self.pixels)))
        grain = _grain(canvas, panel, step)
        side = scipy.fft.next_fast_len(max(grain.shape), real=True)
        square = np.zeros((side, side), np.float32)
        square[: grain.shape[0], : grain.shape[1]] = grain
        white = _whitened(square)
        own = scipy.fft.rfft2(white)
        for turn in TURNS:
            other = own if turn == STRAIGHT else scipy.fft.rfft2(turned(white, turn))
            table = scipy.fft.irfft2(own * np.conj(other), s=square.shape)
            if turn == STRAIGHT:
                _forget_near(table, int(self.displacement / step))
            table /= max(float(table.std()), 1e-9)
            for height, shift in _highest(table, self.peaks):
                found = self._agreeing(square, grain.shape, turn, shift, step) if height >= self.height else None
                if found is not None:
                    place, correlation, copy = found
                    size = panel.shape[::-1]
                    seed = cv2.resize(copy.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
                    move = Move(correlation, _matrix(turn, side, place, step, panel), np.asarray(seed > 0), panel)
                    if move.weight >= self.weight:
                        yield move

    def _agreeing(
        self, square: FloatArray, extent: Shape, turn: Turn, shift: Shape, step: float
    ) -> tuple[Shape, float, BoolArray] | None:
        """The shift (rows, columns), which came wrapped, and how much and where the square agrees with itself so."""
        posed, side = turned(square, turn), len(square)
        best, value = None, self.correlation
        for down, across in itertools.product(*((each, each - side) for each in shift)):
            rows, columns = (
                slice(max(0, move), min(end, side + move)) for move, end in zip((down, across), extent, strict=True)
            )
            if rows.stop - rows.start <= self.window or columns.stop - columns.start <= self.window:
                continue
            there = posed[rows.start - down : rows.stop - down, columns.start - across : columns.stop - across]
            correlation = self._local(square[rows, columns], there)
            if turn != STRAIGHT and correlation.max() > value:
                correlation[_apart(turn, side, (down, across), rows, columns) * step < self.displacement] = 0
            if (top := float(correlation.max())) > value:
                best, value = ((down, across), rows, columns, correlation), top
        if best is None:
            return None
        move, rows, columns, correlation = best
        agreed = np.zeros(extent, np.bool_)
        agreed[rows, columns] = correlation > max(self.correlation, HALF * value)
        row, column = np.unravel_index(int(correlation.argmax()), correlation.shape)
        middle = np.array([[column + columns.start, row + rows.start]])
        return move, value, parts_holding(clean(agreed, SPECK), middle)

    def _local(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """How alike two pieces of even grain are around each pixel."""
        return np.asarray(cv2.blur(one * other, (self.window, self.window)), np.float32)


def _strays(found: tuple[Patch, Patch, Matrix], matrix: Matrix) -> float:
    """How far apart two transforms bring the corners of a region, at most."""
    source = found[0]
    (height, width), corner = source.mask.shape, np.array([source.left, source.top])
    corners = corner + np.array([[0, 0], [width, 0], [0, height], [width, height]])
    change = found[2] - matrix
    return float(np.linalg.norm(corners @ change[:, :2].T + change[:, 2], axis=1).max())


def _grain(canvas: Canvas, panel: Panel, step: float) -> FloatArray:
    """The grain of a panel made `step` times smaller, equally strong everywhere, and none where it is blocked."""
    grey, blocked = canvas.grey[panel.window], canvas.blocked[panel.window]
    if step > 1:
        size = (round(grey.shape[1] / step), round(grey.shape[0] / step))
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)
        blocked = cv2.resize(blocked.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    grain = even(grey - cv2.GaussianBlur(grey, (0, 0), GRAIN))
    grain[blocked] = 0
    return grain


def _whitened(picture: FloatArray) -> FloatArray:
    """The picture with strong frequencies weakened: what repeats, such as blocks of JPEG, would give peaks everywhere.

    Weak ones are not made stronger: there is only what JPEG has added.
    """
    found = scipy.fft.rfft2(picture)
    magnitude = np.abs(found)
    usual = np.asarray(cv2.blur(magnitude, (WHITENED, WHITENED)), np.float32)
    found /= np.maximum(np.maximum(usual, usual.mean()), magnitude / STRONGEST) + np.float32(1e-3)
    return np.asarray(scipy.fft.irfft2(found, s=picture.shape), np.float32)


def _forget_near(table: FloatArray, reach: int) -> None:
    """No shifts that are too short, and each of the others once: backwards it is the same."""
    near = np.arange(-reach, reach + 1)
    table[np.ix_(near, near)] = 0
    table[len(table) // 2 + 1 :] = 0


def _highest(table: FloatArray, count: int) -> Iterator[tuple[float, Shape]]:
    """The highest values and where they are, each far from those before."""
    for _ in range(count):
        row, column = np.unravel_index(int(table.argmax()), table.shape)
        yield float(table[row, column]), (int(row), int(column))
        around = [np.arange(place - NEAR, place + NEAR + 1) % len(table) for place in (row, column)]
        table[np.ix_(*around)] = 0


def _matrix(turn: Turn, side: int, shift: Sequence[int], step: float, panel: Panel) -> Matrix:
    """What lays a panel's square turned and shifted on itself, in pixels of the canvas."""
    linear = linear_of(turn)
    middle = np.array([panel.left, panel.top]) + side * step / 2 - 0.5
    return np.column_stack([linear, middle - linear @ middle + np.array(shift[::-1]) * step])


def _apart(turn: Turn, side: int, shift: Sequence[int], rows: slice, columns: slice) -> FloatArray:
    """How far each pixel of a part of the square is from where it was: a round spot is its own mirror image."""
    middle, back = (side - 1) / 2, linear_of(turn).T
    y = np.arange(rows.start, rows.stop, dtype=np.float32)[:, None] - np.float32(middle)
    x = np.arange(columns.start, columns.stop, dtype=np.float32)[None, :] - np.float32(middle)
    was = [line[0] * (x - shift[1]) + line[1] * (y - shift[0]) for line in back.astype(np.float32)]
    return np.asarray(np.hypot(x - was[0], y - was[1]), np.float32)
