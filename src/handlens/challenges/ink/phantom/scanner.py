"""What the scanner does to the matter it sees: fringes, blur, grain, rings, beam hardening, and 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.phantom.fields import Map, Plane, PlaneWindow
from handlens.types import Shape

Volume = npt.NDArray[np.float32]

HALO = 6
"""Pixels beyond a tile that its blur reaches."""

BLUR = (1.4, 0.75, 1.3)
"""Deviations of the scanner's blur along depth, rows and columns, as in the real crop; rows lie along its axis."""

FULL = 65535


@dataclass(frozen=True, slots=True)
class Scanner:
    """How strongly it errs, as shares of the full grey range; 1 is an ordinary scan."""

    shape: Shape
    slices: int
    noise: float = 1.0

    def expose(self, plane: Plane, matter: Volume, window: PlaneWindow) -> npt.NDArray[np.uint16]:
        """Grey values of a tile; `matter`, (slices, rows, columns), has HALO pixels more than it on every side.

        It is changed: stacks are large, and copies cost more than the sums.
        """
        framed = PlaneWindow(window.top - HALO, window.left - HALO, window.height + 2 * HALO, window.width + 2 * HALO)
        _add_grain(plane, matter, framed, 0.22 * self.noise)
        seen = np.empty((self.slices, *window.shape), np.float32)
        for target, layer in zip(seen, matter, strict=True):
            soft = cv2.GaussianBlur(layer, (9, 7), sigmaX=BLUR[2], sigmaY=BLUR[1])
            target[:] = soft[HALO:-HALO, HALO:-HALO]
        flat = seen.reshape(self.slices, -1)
        cv2.GaussianBlur(flat, (1, 9), dst=flat, sigmaX=1, sigmaY=BLUR[0], borderType=cv2.BORDER_REFLECT_101)
        cup = self._cup(window)
        grey = np.empty(seen.shape, np.uint16)
        for number, rings in enumerate(self._rings(plane, window)):
            layer = seen[number]
            layer *= cup
            layer += rings
            np.clip(layer, 0, 1, out=layer)
            layer *= FULL
            layer += 0.5
            grey[number] = layer
        return grey

    def _cup(self, window: PlaneWindow) -> Map:
        """Beam hardening: the middle of the fragment looks thinner than its rim."""
        across = 2 * window.columns() / self.shape[1] - 1
        return np.asarray(0.97 + 0.05 * across**2, np.float32)

    def _rings(self, plane: Plane, window: PlaneWindow) -> Iterator[Map]:
        """Rings about the scanner's axis, slice by slice; it runs along the rows' numbers.

        A detector pixel that errs does so at one distance from the axis: an arc in a cross-section, a line in a slice.
        """
        random = plane.generator("axis")
        centre = (random.uniform(-0.3, 1.3) * self.shape[1], -random.uniform(0.3, 1.5) * self.shape[1])
        across = window.columns()[0] - centre[0]
        radii = np.hypot(across[None, :], np.arange(self.slices)[:, None] - centre[1])
        first = int(radii.min()) - 1
        strip = PlaneWindow(window.top, first, window.height, int(radii.max()) - first + 3)
        errors = 0.011 * plane.smooth("rings", strip, down=6, across=0.7)
        errors += 0.008 * plane.smooth("lasting rings", strip, down=60, across=0.9)
        errors *= np.float32(self.noise)
        for place in radii - first:
            lower = place.astype(np.int32)
            share = np.asarray(place - lower, np.float32)
            yield errors[:, lower] * (1 - share) + errors[:, lower + 1] * share


def add_fringes(matter: Volume, *, strength: float) -> Volume:
    """Phase contrast: beside dense things it looks darker than air, and their rims are brighter."""
    slices, height, width = matter.shape
    size = (-(-width // 4), -(-height // 4))
    small = np.stack([cv2.resize(plane, size, interpolation=cv2.INTER_AREA) for plane in matter])
    for layer in small:
        cv2.GaussianBlur(layer, (13, 13), 2.2, dst=layer, borderType=cv2.BORDER_REPLICATE)
    flat = small.reshape(slices, -1)
    flat = cv2.GaussianBlur(flat, (1, 15), sigmaX=1, sigmaY=3.5, borderType=cv2.BORDER_REPLICATE)
    for layer, around in zip(matter, flat.reshape(small.shape), strict=True):
        wide: Any = cv2.resize(around, (width, height), interpolation=cv2.INTER_LINEAR)
        cv2.addWeighted(layer, 1 + strength, wide, -strength, 0, dst=layer)
    return matter


_ROWS, _COLUMNS = 32, 256  # of a block of grain


def _add_grain(plane: Plane, matter: Volume, window: PlaneWindow, strength: float) -> None:
    """Add white noise to a window of the whole stack, block by block."""
    bottom, right = window.top + window.height, window.left + window.width
    for down in range(window.top // _ROWS, -(-bottom // _ROWS)):
        for across in range(window.left // _COLUMNS, -(-right // _COLUMNS)):
            random = plane.generator("grain", down + 1024, across + 1024)
            block = random.standard_normal((len(matter), _ROWS, _COLUMNS), np.float32)
            block *= np.float32(strength)
            y, x = down * _ROWS, across * _COLUMNS
            y0, y1 = max(y, window.top), min(y + _ROWS, bottom)
            x0, x1 = max(x, window.left), min(x + _COLUMNS, right)
            here = np.s_[:, y0 - window.top : y1 - window.top, x0 - window.left : x1 - window.left]
            matter[here] += block[:, y0 - y : y1 - y, x0 - x : x1 - x]
