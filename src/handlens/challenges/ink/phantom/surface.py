"""How the sheet lies in the stack: a wavy level, strips that stand up or are gone, holes, cracks, gaps, a second sheet.

Heights are in slices and grow towards the air above the written side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handlens.challenges.ink.phantom.fields import Map, Plane, PlaneWindow, blur
from handlens.types import Shape


@dataclass(frozen=True, slots=True)
class SheetGeometry:
    """What sets a sheet's shape: the picture's size, `unit` slices a 24th of the stack, `scale` of things in the plane.

    `damage` is 1 for an ordinary fragment.
    """

    shape: Shape
    unit: float
    scale: float
    damage: float

    @property
    def steepness(self) -> float:
        """Where everything is drawn small, strips stand up less: slopes must not outgrow the scan."""
        return min(1.0, float((self.scale / 0.55) ** 1.4))


@dataclass(frozen=True, slots=True)
class Sheet:
    """The sheet in a window. `level` is the surface without relief, from which depth in the papyrus is counted.

    `relief` is added to it; `peeled` is 1 where the upper strips are gone. At the depth `delamination` the sheet has
    a `gap`; `second` is the top of the sheet under it. `presence` is 0 in cracks and holes.
    """

    level: Map
    relief: Map
    peeled: Map
    bottom: Map
    delamination: Map
    gap: Map
    second: Map
    presence: Map


MIDDLE = 14.5
"""Where the written surface lies on average, in 24ths of the stack."""

THICKNESS = 8.0
"""Of a sheet, in 24ths of the stack."""


def find_level(plane: Plane, geometry: SheetGeometry, window: PlaneWindow) -> Map:
    """The height of the written surface, smooth: it drifts by more than ink is thick."""
    height, width = geometry.shape
    slow = plane.smooth("drift", window, down=min(height / 3, 1500), across=min(width / 3, 1500))
    waves = plane.smooth("waves", window, down=170 * geometry.scale, across=230 * geometry.scale)
    ripples = plane.smooth("ripples", window, down=50 * geometry.scale, across=60 * geometry.scale)
    drift = 2.0 * slow + geometry.steepness * (1.3 * waves + 0.5 * ripples)
    return np.asarray(geometry.unit * (MIDDLE + 5.5 * np.tanh(drift / 5.5)), np.float32)


def make_sheet(plane: Plane, geometry: SheetGeometry, window: PlaneWindow) -> Sheet:
    """The sheet without ink."""
    level = find_level(plane, geometry, window)
    relief, peeled = _break_strips(plane, geometry, window)
    uneven = plane.smooth("thickness", window, down=60 * geometry.scale, across=60 * geometry.scale)
    bottom = level - geometry.unit * THICKNESS * np.clip(1 + 0.15 * uneven, 0.6, 1.5)
    apart = plane.smooth("apart", window, down=70 * geometry.scale, across=90 * geometry.scale)
    # where the sheet delaminates; the names of fields are part of their seed, so they stay as they are
    loosened = plane.smooth("parted", window, down=22 * geometry.scale, across=50 * geometry.scale)
    gap = geometry.unit * 2.2 * np.clip(loosened - 1.6 + 0.3 * geometry.damage, 0, 1)
    return Sheet(
        level=level,
        relief=relief,
        peeled=peeled,
        bottom=np.asarray(bottom, np.float32),
        delamination=np.asarray((level - bottom) * (0.5 + 0.06 * uneven), np.float32),
        gap=np.asarray(gap, np.float32),
        second=np.asarray(bottom - geometry.unit * np.clip(1 + 2.2 * apart, 0, 6), np.float32),
        presence=_presence(plane, geometry, window),
    )


def _break_strips(plane: Plane, geometry: SheetGeometry, window: PlaneWindow) -> tuple[Map, Map]:
    """Relief, and where the upper strips are gone: strips of either layer stand at their own height and break off."""
    upper = _strips(plane, "upper strips", window, breadth=34 * geometry.scale, length=55 * geometry.scale)
    lower = _strips(plane, "lower strips", window.turned(), breadth=40 * geometry.scale, length=60 * geometry.scale).T
    ragged = plane.smooth("ragged", window, down=14 * geometry.scale, across=17 * geometry.scale)
    rough = plane.smooth("rough", window, down=32 * geometry.scale, across=32 * geometry.scale)
    gone = np.asarray(upper + 0.5 * ragged > 1.9 - 0.35 * geometry.damage, np.float32)
    deep = gone * (lower + 0.5 * ragged > 0.3)
    stands = np.tanh(1.5 * upper + 0.6 * ragged) + 0.9 * np.tanh(1.5 * lower - 0.6 * ragged)
    relief = 1.8 * stands + 1.9 * rough - 3 * gone - 4.5 * deep
    edge = max(1.0, 2.2 * geometry.scale)
    height = geometry.unit * geometry.steepness * blur(relief, down=edge, across=edge)
    return np.asarray(height, np.float32), blur(gone, down=1, across=1)


def _strips(plane: Plane, name: str, window: PlaneWindow, *, breadth: float, length: float) -> Map:
    """Noise that is the same across a strip and changes along it; strips run across, and wave a little."""
    wander = 0.5 * breadth * plane.smooth(f"{name} wander", window, down=3 * breadth, across=4 * length)
    strip = np.floor((window.rows() + wander) / breadth).astype(np.int32)
    first, count = int(strip.min()), int(strip.max() - strip.min()) + 1
    along = plane.smooth(name, PlaneWindow(first, window.left, count, window.width), down=0.2, across=length)
    columns = np.broadcast_to(np.arange(window.width), window.shape)
    return np.asarray(along[strip - first, columns], np.float32)


def _presence(plane: Plane, geometry: SheetGeometry, window: PlaneWindow) -> Map:
    """1 where there is papyrus: without holes, winding cracks, and cracks along the strands of the upper layer."""
    scale = geometry.scale
    winding = np.abs(plane.smooth("winding", window, down=60 * scale, across=60 * scale)) < 0.022 / scale**0.5
    broken = plane.smooth("broken", window, down=14 * scale, across=14 * scale) > 0.9 - 0.3 * geometry.damage
    straight = np.abs(plane.smooth("straight", window, down=14 * scale, across=180 * scale)) < 0.05
    some = plane.smooth("some", window, down=6 * scale, across=25 * scale) > 1.5 - 0.3 * geometry.damage
    holes = plane.smooth("holes", window, down=8 * scale, across=8 * scale) > 3.0 - 0.3 * geometry.damage
    absent = (winding & broken) | (straight & some) | holes
    return 1 - blur(absent, down=0.6, across=0.6)
