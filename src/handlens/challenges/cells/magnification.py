"""Images of another magnification, brought to the one that the network was trained at and back, in bands of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.decision import Rows
from handlens.io.row_reader import RowReader
from handlens.types import Shape

MPP = 0.25
"""Micrometres per pixel of a slide at 40x, as in training."""

NEAR = 1.1
"""Factor up to which nothing is resized: training drew scales from 0.8 to 1.25."""

Array = npt.NDArray[np.float32]


def factor_of(mpp: float | None) -> float:
    """By how much the sides of an image grow to be at 40x; 1 where it is near enough, or nothing is known.

    >>> factor_of(None), factor_of(0.26), factor_of(0.5)
    (1.0, 1.0, 2.0)
    """
    factor = (mpp or MPP) / MPP
    return 1.0 if 1 / NEAR < factor < NEAR else factor


def resized(image: RowReader, factor: float) -> RowReader:
    """The same picture with sides that are `factor` times as long; blurred first where that is shorter."""
    height, width = image.shape
    shape = max(1, round(height * factor)), max(1, round(width * factor))
    blur = 0.3 / factor if factor < 1 else 0.0
    margin = math.ceil(4 * blur) + 2

    def read(top: int, bottom: int) -> npt.NDArray[np.uint8]:
        low, part = _places(np.arange(top, bottom), shape[0], height)
        first, last = max(0, int(low[0]) - margin), min(height, int(low[-1]) + 2 + margin)
        rows = image.read(first, last)
        if blur:
            rows = np.asarray(cv2.GaussianBlur(rows, (0, 0), blur), np.uint8)
        lines = _between(rows, low - first, part, axis=0)
        found = _between(lines, *_places(np.arange(shape[1]), shape[1], width), axis=1)
        return np.rint(found).astype(np.uint8)

    return RowReader(shape, read)


def resize_back(bands: Iterable[Rows], shape: Shape, target: Shape) -> Iterator[Rows]:
    """Probabilities of a picture of this shape, as bands of one of the target's; how high they are changes nothing."""
    columns = _places(np.arange(target[1]), target[1], shape[1])
    low, part = _places(np.arange(target[0]), target[0], shape[0])
    held, first, given = np.empty((0, target[1]), np.float32), 0, 0
    for _, band in bands:
        held = np.concatenate([held, _between(band, *columns, axis=1)])
        known = first + len(held)
        ready = target[0] if known >= shape[0] else int(np.searchsorted(low, known - 1))
        if ready > given:
            yield given, _between(held, low[given:ready] - first, part[given:ready], axis=0)
            given = ready
            unused = min(int(low[given]) - first, len(held)) if given < target[0] else len(held)
            held, first = held[unused:], first + unused


def _places(positions: npt.NDArray[np.int64], size: int, of: int) -> tuple[npt.NDArray[np.int64], Array]:
    """Where pixels of a side of this size lie on one `of` another: the pixel before, and the way to the next."""
    places = np.clip((positions + 0.5) * (of / size) - 0.5, 0, of - 1)
    low = np.minimum(np.floor(places).astype(np.int64), max(0, of - 2))
    return low, (places - low).astype(np.float32)


def _between(values: npt.NDArray[np.generic], low: npt.NDArray[np.int64], part: Array, *, axis: int) -> Array:
    """Values between places of an axis, by straight lines."""
    last = values.shape[axis] - 1
    shape = [1] * values.ndim
    shape[axis] = -1
    weight = part.reshape(shape)
    near = np.take(values, low, axis=axis).astype(np.float32)
    near *= 1 - weight
    near += np.take(values, np.minimum(low + 1, last), axis=axis).astype(np.float32) * weight
    return near
