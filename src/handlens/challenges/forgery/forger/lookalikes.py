"""Honest figures that look like forged ones: replicates, serial sections, grids, loading controls, lattices, text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import cv2
import numpy as np

from handlens.challenges.forgery.forger.figures import (
    Box,
    Brush,
    ComposedFigure,
    compose,
    draw_kind,
    draw_shape,
    make_brush,
    panel_grid,
)
from handlens.challenges.forgery.forger.gels import paint_gel
from handlens.challenges.forgery.forger.patterns import paint_grid, paint_loading, paint_periodic
from handlens.challenges.forgery.forger.sources import Sources
from handlens.challenges.forgery.forger.textures import FloatArray, PaintedPanel, Painter, blur, clouds
from handlens.types import Shape


def draw_lookalike(
    rng: np.random.Generator, name: str, *, size: int, sources: Sources | None, compound: bool | None
) -> ComposedFigure:
    """An honest figure of the kind `name`; a key of `LOOKALIKES`."""
    make = LOOKALIKES[name]
    several = name in NEED_PANELS or (compound if compound is not None else bool(rng.uniform() < 0.4))
    shape = draw_shape(rng, size)
    boxes = panel_grid(rng, shape) if several else (Box(0, 0, *shape),)
    return compose(shape, boxes, make(rng, sources), rng)


Chooser = Callable[[np.random.Generator, Sources | None], Callable[[int], Brush | None]]


def _replicates(rng: np.random.Generator, sources: Sources | None) -> Callable[[int], Brush | None]:
    """Other cells of the same experiment in every panel."""
    brush = make_brush(draw_kind(rng, sources), rng, sources=sources)
    return lambda _number: brush


def _sections(rng: np.random.Generator, sources: Sources | None) -> Callable[[int], Brush | None]:
    """Panels two by two: a section, and the next one of the same tissue."""
    kind = "source" if sources and rng.uniform() < 0.4 else str(rng.choice(["nuclei", "tissue", "tissue", "granules"]))
    brush, spare = make_brush(kind, rng, sources=sources), make_brush("nuclei", rng, sources=None)
    scenery = int(rng.integers(2**32))
    remembered: dict[int, PaintedPanel] = {}

    def paint(shape: Shape, serial: int) -> PaintedPanel:
        panel = brush(shape, serial) or spare(shape, serial)
        assert panel is not None  # a texture has any shape
        if serial % 2 == 0:
            remembered[serial] = panel
            return panel
        return _next_section(remembered[serial - 1], panel, np.random.default_rng([scenery, serial]))

    return lambda _number: paint


def _next_section(before: PaintedPanel, other: PaintedPanel, rng: np.random.Generator) -> PaintedPanel:
    """The tissue a few micrometres deeper: bent, its coarse forms kept, its grain and some of its cells others.

    Where the panel before was smaller, everything is of the `other` picture.
    """
    shape = other.objects.shape
    short = min(shape)
    rows, columns = np.indices(shape, np.float32)
    strength = max(2.0, short / 70)
    bent_x = columns + strength * clouds(shape, rng, grain=short / 4) + float(rng.uniform(-4, 4))
    bent_y = rows + strength * clouds(shape, rng, grain=short / 4) + float(rng.uniform(-4, 4))
    how, border = cv2.INTER_LINEAR, cv2.BORDER_REFLECT
    bent = np.asarray(cv2.remap(before.picture, bent_x, bent_y, how, borderMode=border), np.float32)
    picture = _other_grain(bent, rng)
    gone = np.clip(3 * (clouds(shape, rng, grain=short / 9) - 0.3), 0, 1)
    height, width = before.objects.shape
    beyond = (bent_y < 0) | (bent_y > height - 1) | (bent_x < 0) | (bent_x > width - 1)
    gone = np.maximum(gone, np.clip(2 * blur(beyond.astype(np.float32), 2.0), 0, 1))[:, :, None]
    mixed = np.clip(picture * (1 - gone) + other.picture * gone, 0, 255)
    return PaintedPanel(np.asarray(mixed, np.float32), np.zeros(shape, np.int32))


def _other_grain(picture: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same outlines with another grain inside, as strong as the old one at every place."""
    shape = (picture.shape[0], picture.shape[1])
    size = 2 * int(np.clip(min(shape) / 80, 3, 7)) + 1
    smooth = np.asarray(cv2.medianBlur(np.rint(picture).astype(np.uint8), size), np.float32)
    strength = np.sqrt(blur(((picture - smooth) ** 2).mean(axis=2), size / 1.5))
    grain = 0.7 * clouds(shape, rng, grain=1.0) + 0.7 * clouds(shape, rng, grain=size / 4)
    tint = smooth / np.maximum(smooth.max(axis=2, keepdims=True), 1)
    return np.asarray(smooth + (strength * grain)[:, :, None] * tint, np.float32)


def _of(paint: Painter) -> Chooser:
    """Every panel by one painter, in one style, its content another each time."""

    def choose(rng: np.random.Generator, sources: Sources | None) -> Callable[[int], Brush | None]:
        scenery = int(rng.integers(2**32))

        def brush(shape: Shape, serial: int) -> PaintedPanel:
            return paint(shape, np.random.default_rng([scenery, 0, serial]), np.random.default_rng([scenery, 1]))

        return lambda _number: brush

    return choose


def _print_only(rng: np.random.Generator, sources: Sources | None) -> Callable[[int], Brush | None]:
    """Text, tables and charts."""
    return lambda _number: None


def _saturated(rng: np.random.Generator, sources: Sources | None) -> Callable[[int], Brush | None]:
    """Pictures with clipped white objects and a black ground, or empty but for a few."""
    kind = "source" if sources and rng.uniform() < 0.6 else "nuclei"
    brush = make_brush(kind, rng, sources=sources)
    gain, empty = float(rng.uniform(1.2, 4)), rng.uniform() < 0.3

    def paint(shape: Shape, serial: int) -> PaintedPanel | None:
        panel = brush(shape, serial)
        if panel is None:
            return None
        picture = _clipped(panel.picture, gain)
        if empty:
            few = blur((panel.objects % 3 == 1).astype(np.float32), 3.0)
            picture = np.asarray(picture * np.clip(3 * few, 0, 1)[:, :, None], np.float32)
        return PaintedPanel(picture, panel.objects)

    return lambda _number: paint


def _clipped(picture: FloatArray, gain: float) -> FloatArray:
    grey = picture.mean(axis=2)
    low, high = np.percentile(grey, [50, 99])
    return np.asarray(np.clip((picture - low) * gain * 255 / max(8.0, float(high - low)), 0, 255), np.float32)


LOOKALIKES: Mapping[str, Chooser] = {
    "replicates": _replicates,
    "serial sections": _sections,
    "repeated grid": _of(paint_grid),
    "loading control": _of(paint_loading),
    "periodic texture": _of(paint_periodic),
    "text and charts": _print_only,
    "flat and saturated": _saturated,
    "gel": _of(paint_gel),
}

NEED_PANELS = ("replicates", "serial sections")
"""These are made of two panels at least."""
