"""Noise as a function of place: any window of an endless seeded plane, the same whatever window it is seen through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import cv2
import numpy as np
import numpy.typing as npt

Map = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

BLOCK = 64
"""Side of the squares of white noise that have a generator of their own."""

_ORIGIN = 1 << 20  # seeds are not negative, places may be


@dataclass(frozen=True, slots=True)
class PlaneWindow:
    """A part of the plane in pixels; `top` and `left` may be negative."""

    top: int
    left: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.height, self.width

    def rows(self) -> Map:
        """The row of every pixel, as a column."""
        return np.arange(self.top, self.top + self.height, dtype=np.float32)[:, None]

    def columns(self) -> Map:
        """The column of every pixel, as a row."""
        return np.arange(self.left, self.left + self.width, dtype=np.float32)[None, :]

    def turned(self) -> PlaneWindow:
        return PlaneWindow(self.left, self.top, self.width, self.height)


@dataclass(frozen=True, slots=True)
class Plane:
    """A seed; every name is an independent field over it."""

    seed: tuple[int, ...]

    def generator(self, name: str, *place: int) -> np.random.Generator:
        return np.random.default_rng([*self.seed, crc32(name.encode()), *place])

    def white(self, name: str, window: PlaneWindow) -> Map:
        """Independent normal numbers, one for each point."""
        answer = np.empty(window.shape, np.float32)
        bottom, right = window.top + window.height, window.left + window.width
        for down in range(window.top // BLOCK, -(-bottom // BLOCK)):
            for across in range(window.left // BLOCK, -(-right // BLOCK)):
                random = self.generator(name, down + _ORIGIN, across + _ORIGIN)
                block = random.standard_normal((BLOCK, BLOCK), np.float32)
                y, x = down * BLOCK, across * BLOCK
                y0, y1 = max(y, window.top), min(y + BLOCK, bottom)
                x0, x1 = max(x, window.left), min(x + BLOCK, right)
                answer[y0 - window.top : y1 - window.top, x0 - window.left : x1 - window.left] = block[
                    y0 - y : y1 - y, x0 - x : x1 - x
                ]
        return answer

    def smooth(self, name: str, window: PlaneWindow, *, down: float, across: float) -> Map:
        """Noise of mean 0 and deviation 1, smooth as a Gaussian of these deviations in pixels.

        Very smooth noise is made on a coarser grid and stretched: how smooth it is must not set its cost.
        """
        steps = [max(1, int(deviation / 2.5)) for deviation in (down, across)]
        sides = [deviation / step for deviation, step in zip((down, across), steps, strict=True)]
        kernels = [cv2.getGaussianKernel(2 * int(np.ceil(3.5 * side)) + 1, side, cv2.CV_32F) for side in sides]
        margins = [len(kernel) // 2 for kernel in kernels]
        first = [start // step - 3 for start, step in zip((window.top, window.left), steps, strict=True)]
        last = [
            -(-(start + size) // step) + 3
            for start, size, step in zip((window.top, window.left), window.shape, steps, strict=True)
        ]
        coarse = PlaneWindow(
            first[0] - margins[0],
            first[1] - margins[1],
            last[0] - first[0] + 2 * margins[0],
            last[1] - first[1] + 2 * margins[1],
        )
        field = cv2.sepFilter2D(self.white(name, coarse), cv2.CV_32F, kernels[1], kernels[0])
        field = field[margins[0] : len(field) - margins[0], margins[1] : field.shape[1] - margins[1]]
        field *= 1 / np.sqrt(np.prod([float((kernel**2).sum()) for kernel in kernels]))
        size = (field.shape[1] * steps[1], field.shape[0] * steps[0])
        if max(steps) > 1:
            field = cv2.resize(field, size, interpolation=cv2.INTER_CUBIC)
        top, left = window.top - first[0] * steps[0], window.left - first[1] * steps[1]
        return np.ascontiguousarray(field[top : top + window.height, left : left + window.width], np.float32)

    def table(self, name: str, count: int) -> Map:
        """Numbers from 0 to 1 for things that are counted, such as strands; the count is taken round the end."""
        return self.generator(name).random((count, TABLE), np.float32)


TABLE = 8192
"""Strands before a table of their properties starts again: more than the largest fragment has."""


def blur(plane: Any, *, down: float, across: float) -> Map:
    """A Gaussian blur; the edge is repeated outwards."""
    ksize = tuple(2 * int(np.ceil(3.5 * side)) + 1 for side in (across, down))
    field = cv2.GaussianBlur(
        np.asarray(plane, np.float32), ksize, sigmaX=across, sigmaY=down, borderType=cv2.BORDER_REPLICATE
    )
    return np.asarray(field, np.float32)


def ramp(distance: Any) -> Map:
    """From 0 to 1 around distance 0, one voxel wide: the share of a voxel that a flat face leaves filled."""
    return np.asarray(np.clip(np.asarray(distance, np.float32) + np.float32(0.5), 0, 1), np.float32)
