"""Where in a stack the sheet's surface lies: found in every region of a slice and followed from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from handlens.io.volumes.stack import Stack

Map = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Side = Literal["first", "last"]

STIFFNESS = 0.35
"""What a departure from the neighbours by as many slices as a step is wide costs, as a share of the clearest step."""

KNOWN = 0.25
"""Share of a region that must lie inside the mask for its own grey to count."""

MOST = 256 << 20
"""Bytes of a band, beyond which strips or chunks are rather decoded twice."""


@dataclass(frozen=True, slots=True)
class Depths:
    """The surface in slices, with fractions, one number for every region of `region` pixels a side.

    Slices on the air's side of it are air. `clear` is from 0, taken from the neighbours, to 1, as clear as any.
    """

    region: int
    values: Map
    clear: Map

    def at(self, top: int, bottom: int, left: int, right: int) -> Map:
        """The surface at every pixel of a window, linear between the middles of regions."""
        (y, below, down), (x, beyond, across) = (
            _between((np.arange(low, high, dtype=np.float32) + np.float32(0.5)) / np.float32(self.region) - 0.5, side)
            for low, high, side in zip((top, left), (bottom, right), self.values.shape, strict=True)
        )
        upper = self.values[y][:, x] * (1 - across) + self.values[y][:, beyond] * across
        lower = self.values[below][:, x] * (1 - across) + self.values[below][:, beyond] * across
        return np.asarray(upper * (1 - down[:, None]) + lower * down[:, None], np.float32)


def flat_sheet(shape: tuple[int, int], place: float, *, region: int) -> Depths:
    """A surface that lies at one place everywhere, and is not clear anywhere."""
    regions = tuple(-(-side // region) for side in shape)
    return Depths(region, np.full(regions, place, np.float32), np.zeros(regions, np.float32))


def find_sheet(
    stack: Stack, *, side: Side, region: int = 64, mask: Mask | None = None, rows: int | None = None
) -> Depths:
    """The surface of the sheet that borders on air at this end of the stack.

    The stack is streamed once, as far as it is in the mask; memory holds a row of regions, and one number for every
    region and slice. With `rows` that many in the middle of each region stand for all of it, and the others are not
    read. A region's surface is where grey falls most from a few slices to the next towards the air. Where that is not
    clear, or in two places, as where a second sheet touches, the neighbours decide: the surface is followed.
    """
    grey, inside = _profile(stack, region, mask, region if rows is None else min(rows, region))
    if side == "first":
        grey = grey[::-1]
    steps, width = _find_steps(grey)
    steps *= inside
    place = _follow(steps, inside, width)
    values = _refine(steps, place)
    if side == "first":
        values = stack.depth - 1 - values
    height = np.take_along_axis(steps, place[None], axis=0)[0]
    return Depths(region, np.asarray(values, np.float32), np.asarray(np.clip(height, 0, 1), np.float32))


def _profile(stack: Stack, region: int, mask: Mask | None, read: int) -> tuple[Map, Map]:
    """Mean grey of every slice and region, (slices, rows, columns), and how much a region counts, 0 to 1."""
    height, width = stack.shape
    rows, columns = -(-height // region), -(-width // region)
    grey = np.zeros((stack.depth, rows, columns), np.float32)
    share = np.zeros((rows, columns), np.float32)
    edges = np.arange(0, width, region)
    areas = np.diff([*edges, width])
    line = stack.depth * width * stack.dtype.itemsize
    thin = read < region and stack.grain <= read  # otherwise as much is decoded for a few rows as for all
    together = 1 if thin else max(1, min(-(-stack.grain // region), MOST // (line * region)))
    for first in range(0, rows, together):
        start, end = first * region, min((first + together) * region, height)
        if thin and end - start > read:
            start, end = start + (end - start - read) // 2, start + (end - start + read) // 2
        if mask is not None and not mask[start:end].any():
            continue
        band = stack.read_band(start, end, 0, stack.depth)
        for row in range(first, min(first + together, rows)):
            top, bottom = max(row * region, start), min((row + 1) * region, end)
            kept = np.ones((bottom - top, width), np.float32) if mask is None else mask[top:bottom].astype(np.float32)
            count = np.add.reduceat(kept.sum(axis=0), edges)
            for number, plane in enumerate(band[:, top - start : bottom - start]):
                total = np.add.reduceat(np.einsum("yx,yx->x", plane, kept, dtype=np.float64), edges)
                grey[number, row] = total / np.maximum(count, 1)
            share[row] = count / ((bottom - top) * areas)
    return grey, np.asarray(np.clip(share / KNOWN, 0, 1) * (share >= KNOWN / 4), np.float32)


def _find_steps(grey: Map) -> tuple[Map, int]:
    """How far grey falls at the border before every slice, 1 where it falls as far as it mostly does, and the width.

    Twice as many slices are looked at on the air's side: a narrow gap between two sheets is no air.
    """
    depth = len(grey)
    width = max(1, depth // 8)
    total = np.concatenate([np.zeros((1, *grey.shape[1:])), np.cumsum(grey, axis=0, dtype=np.float64)])
    steps = np.full((depth + 1, *grey.shape[1:]), -1.0)
    for border in range(1, depth):
        low, high = max(0, border - width), min(depth, border + 2 * width)
        below, above = (total[border] - total[low]) / (border - low), (total[high] - total[border]) / (high - border)
        steps[border] = below - above
    usual = float(np.quantile(steps[1:-1].max(axis=0), 0.75)) if depth > 1 else 1.0
    return np.asarray(steps / max(usual, 1e-6), np.float32), width


def _follow(steps: Map, inside: Map, width: int) -> npt.NDArray[np.int64]:
    """The border of every region: the clearest step that lies near its neighbours', coarse regions first."""
    borders = np.arange(len(steps), dtype=np.float32)[:, None, None]
    rows, columns = inside.shape
    usual = float(np.argmax((steps * inside).sum(axis=(1, 2))))
    place = np.full((1, 1), usual, np.float32)
    for level in (16, 8, 4, 2, 1):
        size = (max(1, -(-columns // level)), max(1, -(-rows // level)))
        found = np.stack([cv2.resize(step, size, interpolation=cv2.INTER_AREA) for step in steps])
        weight = cv2.resize(inside, size, interpolation=cv2.INTER_AREA) + np.float32(1e-3)
        place = np.asarray(cv2.resize(place, size, interpolation=cv2.INTER_LINEAR), np.float32).reshape(size[::-1])
        for _ in range(8):
            near = _mean_around(place, weight)
            place = np.argmax(found - STIFFNESS * ((borders - near) / width) ** 2, axis=0).astype(np.float32)
            place = np.asarray(np.where(weight > 0.1, place, near), np.float32)
    return np.clip(np.rint(place), 1, max(1, len(steps) - 2)).astype(np.int64)


def _mean_around(place: Map, weight: Map) -> Map:
    total = cv2.GaussianBlur(np.asarray(place * weight, np.float32), (5, 5), 1.0, borderType=cv2.BORDER_REPLICATE)
    count = cv2.GaussianBlur(np.asarray(weight, np.float32), (5, 5), 1.0, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(total / count, np.float32)


def _refine(steps: Map, place: npt.NDArray[np.int64]) -> Map:
    """With fractions: the top of a parabola through a border and its neighbours. Border 1 lies at 0.5."""
    last = len(steps) - 1
    here, before, after = (
        np.take_along_axis(steps, np.clip(place + by, 0, last)[None], axis=0)[0] for by in (0, -1, 1)
    )
    bend = before - 2 * here + after
    shift = np.where(bend < -1e-6, 0.5 * (before - after) / np.minimum(bend, -1e-6), 0)
    return np.asarray(place - 0.5 + np.clip(shift, -0.5, 0.5), np.float32)


def _between(places: npt.NDArray[Any], side: int) -> tuple[Any, Any, Map]:
    """The regions before and after some places, and how far a place is from the first to the second."""
    places = np.clip(places, 0, side - 1)
    lower = places.astype(np.int64)
    return lower, np.minimum(lower + 1, side - 1), np.asarray(places - lower, np.float32)
