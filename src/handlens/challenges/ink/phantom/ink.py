"""Carbon ink on papyrus: as dense as the sheet, but it fills the valleys, stands up a little, has dried into flakes.

Nothing here is brighter because it is ink. What can be seen is its shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from handlens.challenges.ink.phantom.fields import Map, Mask, Plane, PlaneWindow, blur

FLAKED = 1 - NormalDist().cdf(1.9)
"""Share of ink that has come off an ordinary fragment: 3 percent. In scroll segments it is rather a third."""


@dataclass(frozen=True, slots=True)
class Coat:
    """Ink in a window: from 0 to 1 how far it fills the fibre texture, and by how many slices it raises the surface."""

    fill: Map
    height: Map


@dataclass(frozen=True, slots=True)
class Pen:
    """How ink was laid on: `thickness` in slices, `flake` the size in pixels of what it cracks into.

    `strength` is 1 for an ordinary hand, less for ink that is hard to see. `flaked` is the share of it that has come
    off again, in spots that are the larger the more there are.
    """

    thickness: float
    flake: float
    strength: float
    flaked: float


def spread(plane: Plane, pen: Pen, label: Mask, window: PlaneWindow) -> Coat:
    """The coat over labelled pixels: uneven, flaked off in spots, cracked, the rims of some flakes curled up."""
    uneven = plane.smooth("uneven", window, down=2.2 * pen.flake, across=2.2 * pen.flake)
    spot = 1.2 * pen.flake * (1 + 4 * (pen.flaked - FLAKED))
    lost = plane.smooth("lost", window, down=spot, across=spot) > NormalDist().inv_cdf(1 - pen.flaked)
    wet = blur(label & ~lost, down=1.2, across=1.2)
    amount = wet * np.clip(1 + 0.5 * uneven, 0.1, 2.2)
    gap, rim = crackle(plane, "crackle", pen.flake, window)
    patchy = plane.smooth("patchy", window, down=3 * pen.flake, across=3 * pen.flake)
    dried = np.clip(0.95 + 0.6 * patchy, 0, 1)  # in places it did not crack
    height = 0.9 * amount * (1 - 1.3 * dried * gap) + wet * dried * rim
    fill = np.clip(0.9 * amount, 0, 1) * (1 - 0.7 * dried * gap)
    return Coat(
        np.asarray(min(pen.strength, 1.0) * fill, np.float32),
        np.asarray(pen.strength * pen.thickness * height, np.float32),
    )


def crackle(plane: Plane, name: str, size: float, window: PlaneWindow) -> tuple[Map, Map]:
    """Cracks between flakes, 1 in a crack, and rims beside them, as high as the flake has curled (0 to about 3)."""
    near, far, flake = _nearest(plane, name, size, window)
    margin = (far - near) * np.float32(0.5)  # pixels to the next flake, nearly
    gap = np.exp(-((margin / np.float32(0.06 * size + 0.4)) ** 2))
    ring = np.exp(-(((margin - np.float32(0.11 * size + 0.7)) / np.float32(0.05 * size + 0.5)) ** 2))
    curl = plane.table(f"{name} curl", 1)[0]
    some = plane.smooth(f"{name} rims", window, down=0.6 * size, across=0.6 * size) > -0.2
    high = np.where(curl > 0.35, -2.0 * np.log(1.03 - curl), 0).astype(np.float32)
    return np.asarray(gap, np.float32), np.asarray(ring * high[flake] * blur(some, down=1, across=1), np.float32)


def _nearest(
    plane: Plane, name: str, size: float, window: PlaneWindow
) -> tuple[Map, Map, np.ndarray[tuple[int, ...], np.dtype[np.int32]]]:
    """Distances to the nearest and second nearest of scattered points, and which the nearest is, as a table's place."""
    columns, rows = window.columns() / np.float32(size), window.rows() / np.float32(size)
    left, top = int(np.floor(columns[0, 0])) - 1, int(np.floor(rows[0, 0])) - 1
    cells = PlaneWindow(top, left, int(rows[-1, 0]) - top + 4, int(columns[0, -1]) - left + 4)
    shift = [np.clip(plane.white(f"{name} {axis}", cells), -1.6, 1.6) * 0.27 + 0.5 for axis in "yx"]
    number = (np.abs(plane.white(f"{name} number", cells)) * 1e4).astype(np.int32) % 8192
    near = np.full(window.shape, 9, np.float32)
    far, flake = near.copy(), np.zeros(window.shape, np.int32)
    row, column = np.floor(rows[:, 0]).astype(int) - top, np.floor(columns[0]).astype(int) - left
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            cell = np.ix_(row + down, column + across)
            y = shift[0][cell] + (row + down + top).astype(np.float32)[:, None] - rows
            x = shift[1][cell] + (column + across + left).astype(np.float32)[None, :] - columns
            distance = np.hypot(y, x)
            closer = distance < near
            far = np.where(closer, near, np.minimum(far, distance))
            flake = np.where(closer, number[cell], flake)
            near = np.where(closer, distance, near)
    return near * np.float32(size), far * np.float32(size), flake
