"""A whole synthetic fragment, seen through tiles: matter in every voxel from the maps of sheet, fibres and ink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.phantom.dirt import scatter
from handlens.challenges.ink.phantom.fibres import StrandLayer, plan_layers, weave
from handlens.challenges.ink.phantom.fields import Map, Mask, Plane, PlaneWindow, blur, ramp
from handlens.challenges.ink.phantom.ink import FLAKED, Coat, Pen, spread
from handlens.challenges.ink.phantom.scanner import HALO, Scanner, Volume, add_fringes
from handlens.challenges.ink.phantom.surface import MIDDLE, THICKNESS, Sheet, SheetGeometry, find_level, make_sheet
from handlens.types import Shape

TILE = (256, 768)
"""Rows and columns computed at a time; part of what a fragment is, because its bytes may depend on it."""

MARGIN = 28
"""Pixels around a tile that its fringes and blur reach: a multiple of 4, the step of the fringes."""

AIR, PAPYRUS, TEXTURE = 0.335, 0.655, 0.105
"""Grey of air and of papyrus, and how far its texture departs from that, as shares of the full range."""

PITCH = 3.0
"""Slices from one layer of strands to the next."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of a fragment: grey values as (slices, rows, columns), where ink is, and the surface as light shows it."""

    top: int
    left: int
    grey: npt.NDArray[np.uint16]
    label: Mask
    photograph: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment: where papyrus is, where it was written on, and the numbers that everything else follows from.

    `pen` is the width of a stroke in pixels. `difficulty` is 1 for an ordinary fragment; above it ink is weaker and
    the scan worse, below it the contrary. `flaked` is the share of ink that has come off.
    The air is at the end of the stack.
    """

    seed: tuple[int, ...]
    mask: Mask
    written: Mask
    slices: int
    pen: float
    difficulty: float
    flaked: float = FLAKED

    @property
    def shape(self) -> Shape:
        return self.mask.shape[0], self.mask.shape[1]

    @property
    def unit(self) -> float:
        """Slices in a 24th of the stack."""
        return self.slices / 24

    @property
    def geometry(self) -> SheetGeometry:
        return SheetGeometry(self.shape, self.unit, float(np.clip(self.pen / 50, 0.35, 1)), self.difficulty)

    def bands(self) -> Iterator[tuple[Tile, ...]]:
        """Tiles from the top down; those of a band lie beside each other."""
        for top in range(0, self.shape[0], TILE[0]):
            yield tuple(self.tile(top, left) for left in range(0, self.shape[1], TILE[1]))

    def level(self, top: int, bottom: int) -> Map:
        """The true height of the written surface in rows of the picture, in slices; without strips and fibres."""
        return find_level(Plane(self.seed), self.geometry, PlaneWindow(top, 0, bottom - top, self.shape[1]))

    def tile(self, top: int, left: int) -> Tile:
        """The tile that begins at this pixel."""
        inner = PlaneWindow(top, left, min(TILE[0], self.shape[0] - top), min(TILE[1], self.shape[1] - left))
        here = np.s_[top : top + inner.height, left : left + inner.width]
        window = PlaneWindow(top - MARGIN, left - MARGIN, inner.height + 2 * MARGIN, inner.width + 2 * MARGIN)
        kept = np.s_[MARGIN:-MARGIN, MARGIN:-MARGIN]
        plane, mask = Plane(self.seed), self.mask[here]
        if not mask.any():
            nothing = np.zeros((self.slices, *inner.shape), np.uint16)
            return Tile(top, left, nothing, mask.copy(), np.zeros(inner.shape, np.uint8))
        matter, label, light = self._fill(plane, window)
        reach = MARGIN - HALO
        scanner = Scanner(self.shape, self.slices, noise=self.difficulty**0.5)
        grey = scanner.expose(plane, np.ascontiguousarray(matter[:, reach:-reach, reach:-reach]), inner)
        grey *= mask  # the scan was cut out along the mask
        photograph = np.asarray(np.clip(light[kept] * mask, 0, 1) * 255, np.uint8)
        return Tile(top, left, grey, label[kept] & mask, photograph)

    def _fill(self, plane: Plane, window: PlaneWindow) -> tuple[Volume, Mask, Map]:
        """Matter in a window, the label there, and how bright the surface is."""
        sheet = make_sheet(plane, self.geometry, window)
        label = cut_out(self.written, window) & (sheet.peeled < 0.5)
        pen = Pen(
            thickness=1.4 * self.unit,
            flake=float(np.clip(0.25 * self.pen, 8, 18)),
            strength=1 / self.difficulty**0.5,
            flaked=self.flaked,
        )
        coat = spread(plane, pen, label, window)
        weaves = self._weave(plane, window)
        top, filled = self._raise(plane, window, sheet, coat, weaves[0])
        grain = plane.smooth("ink grain", window, down=1.4, across=1.4)
        matter = np.empty((self.slices, *window.shape), np.float32)
        for number in range(self.slices):
            matter[number] = self._slice(number, sheet, top, weaves, filled, grain)
        light = 0.6 + 0.05 * np.clip(weaves[0], -3, 3) + 0.05 * sheet.relief / self.unit
        light = (light - 0.3 * blur(label, down=1, across=1)) * sheet.presence
        return add_fringes(matter, strength=0.5), label, np.asarray(light, np.float32)

    def _weave(self, plane: Plane, window: PlaneWindow) -> Volume:
        return np.stack([weave(plane, layer, window) for layer in self._layers(plane)])

    def _layers(self, plane: Plane) -> tuple[StrandLayer, ...]:
        """Of the written sheet, then of the one under it."""
        return tuple(
            layer
            for sheet, count in zip(("first", "second"), self._counts(), strict=True)
            for layer in plan_layers(plane, sheet, count, scale=self.geometry.scale)
        )

    def _counts(self) -> tuple[int, int]:
        """Layers of the two sheets."""
        first, second = (
            max(2, round(self.unit * depth / PITCH) + 1) for depth in (1.2 * THICKNESS, MIDDLE - THICKNESS + 2)
        )
        return first, second

    def _raise(self, plane: Plane, window: PlaneWindow, sheet: Sheet, coat: Coat, fibres: Map) -> tuple[Map, Map]:
        """The final height of the surface; and where something else than ink lies over the fibres."""
        scale, unit = self.geometry.scale, self.unit
        dirt = scatter(plane, window, pen=self.pen, scale=scale)
        filled = np.maximum(coat.fill, dirt.fill)
        fine = 0.3 * unit**0.5 * np.clip(fibres, -2.5, 2.5)
        valley = blur(fine, down=4 * scale, across=4 * scale) + 0.25 * unit**0.5
        fine = fine + 0.85 * filled * np.maximum(valley - fine, 0)
        height = fine + coat.height + unit * self.geometry.steepness * dirt.height
        return np.asarray(sheet.level + sheet.relief + height, np.float32), filled

    def _slice(self, number: int, sheet: Sheet, top: Map, weaves: Volume, filled: Map, grain: Map) -> Map:
        """Matter in one slice, between air and the densest grain."""
        depth = sheet.level - number
        separation = np.clip(depth - sheet.delamination, 0, sheet.gap)
        gap = ramp(depth - sheet.delamination) * ramp(sheet.delamination + sheet.gap - depth) * (sheet.gap > 0.3)
        under = sheet.second - number
        upper = ramp(top - number) * ramp(number - sheet.bottom) * (1 - gap) * sheet.presence
        solid = np.maximum(upper, ramp(under))
        first = self._counts()[0]
        place = np.where(under > -0.5, first + under / PITCH, np.minimum((depth - separation) / PITCH, first - 1))
        texture = _between(weaves, place)
        coated = filled * np.clip(1 - (top - number) / np.float32(2.6 * self.unit), 0, 1)
        texture += coated * (0.8 * grain - 0.75 * texture)
        return np.asarray(AIR + solid * (PAPYRUS - AIR + TEXTURE * texture), np.float32)


def cut_out(mask: Mask, window: PlaneWindow) -> Mask:
    """A window of a mask; False beyond its edges."""
    answer = np.zeros(window.shape, bool)
    height, width = mask.shape
    top, left = max(window.top, 0), max(window.left, 0)
    bottom, right = min(window.top + window.height, height), min(window.left + window.width, width)
    if top < bottom and left < right:
        answer[top - window.top : bottom - window.top, left - window.left : right - window.left] = mask[
            top:bottom, left:right
        ]
    return answer


def _between(layers: Volume, place: Map) -> Map:
    """Layers at a fractional place in their order, nearest beyond the ends."""
    place = np.clip(place, 0, len(layers) - 1.001)
    lower = place.astype(np.int64)
    share = np.asarray(place - lower, np.float32)
    pixels = lower[0].size * len(lower)
    index = lower * pixels + np.arange(pixels).reshape(lower.shape)
    flat = layers.reshape(-1)
    below = flat[index]
    return np.asarray(below + share * (flat[index + pixels] - below), np.float32)
