"""Papyrus from the inside: layers of strands, each with its direction, spacing, thickness and density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from handlens.challenges.ink.phantom.fields import TABLE, Map, Plane, PlaneWindow, blur

Direction = Literal["across", "along"]


@dataclass(frozen=True, slots=True)
class StrandLayer:
    """One layer of strands: the way they run, how far they are apart and how much each differs from the next."""

    name: str
    direction: Direction
    spacing: float
    tilt: float
    contrast: float


def plan_layers(plane: Plane, sheet: str, count: int, *, scale: float) -> tuple[StrandLayer, ...]:
    """The layers of a sheet from its written side down: the upper half runs across, the lower along."""
    random = plane.generator(f"{sheet} layers")
    return tuple(
        StrandLayer(
            name=f"{sheet} layer {number}",
            direction="across" if number < (count + 1) // 2 else "along",
            spacing=float(random.uniform(6, 11) * max(scale, 0.6)),
            tilt=float(random.normal(0, 0.03)),
            contrast=float(random.uniform(0.5, 0.95)),
        )
        for number in range(count)
    )


def weave(plane: Plane, layer: StrandLayer, window: PlaneWindow) -> Map:
    """The density of a layer, around 0: strands that wave and fade, fine striae, pith between them, mineral grains."""
    seen = window if layer.direction == "across" else window.turned()
    spacing, name = layer.spacing, layer.name
    wander = 1.2 * spacing * plane.smooth(f"{name} wander", seen, down=40 * spacing / 8, across=16 * spacing)
    place = (seen.rows() + layer.tilt * seen.columns() + wander) / np.float32(spacing)
    number = np.floor(place)
    strands = _profile(plane, name, number.astype(np.int32) % TABLE, place - number)
    fading = plane.smooth(f"{name} fading", seen, down=0.7 * spacing, across=5 * spacing)
    field = layer.contrast * strands * (1 + 0.45 * fading)
    field += 0.4 * plane.smooth(f"{name} striae", seen, down=1.1, across=14)
    field += 0.95 * plane.smooth(f"{name} pith", seen, down=2.2, across=3.0)
    field += 0.5 * plane.smooth(f"{name} clouds", seen, down=10, across=16)
    field += _grains(plane, name, seen)
    return np.ascontiguousarray(field if layer.direction == "across" else field.T, np.float32)


def _profile(plane: Plane, name: str, strand: np.ndarray[tuple[int, ...], np.dtype[np.int32]], place: Map) -> Map:
    """Density across a strand: a ridge of its own width; some are hollow, dark in the middle."""
    density, width, centre, hollow = plane.table(name, 4)
    breadth = (0.16 + 0.2 * width)[strand]
    distance = (place - (0.35 + 0.3 * centre)[strand]) / breadth
    ridge = np.exp(-0.5 * distance**2)
    ridge *= (2.6 * density - 0.9)[strand]
    vessel = np.where(hollow > 0.85, np.float32(2.6), np.float32(0))[strand]
    walls = np.exp(-0.5 * ((np.abs(distance) - 1.3) / 0.45) ** 2) - 0.8 * np.exp(-0.5 * (distance / 0.7) ** 2)
    return np.asarray(ridge + vessel * walls, np.float32)


def _grains(plane: Plane, name: str, window: PlaneWindow) -> Map:
    """Rare bright specks of mineral, a pixel or two wide."""
    spots = np.clip(plane.white(f"{name} grains", window) - 3.2, 0, 0.6)
    return blur(spots, down=0.8, across=0.8) * np.float32(55)
