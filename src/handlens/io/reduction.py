"""Pictures made smaller while their rows come: an overlay of a large scan stays a file that a mail program takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.types import Shape

OVERLAY_PIXELS = 10_000_000
"""Pixels of the largest overlay. The page has the picture at full size as tiles; outlines are in files of their own."""


def overlay_factor(shape: Shape) -> int:
    """How many pixels of a side become one in an overlay: 1 for all but large images.

    >>> overlay_factor((3000, 3000)), overlay_factor((8181, 6330)), overlay_factor((20_000, 20_000))
    (1, 3, 7)
    """
    factor = 1
    while np.prod(reduced_shape(shape, factor)) > OVERLAY_PIXELS:
        factor += 1
    return factor


def reduced_shape(shape: Shape, factor: int) -> Shape:
    """Sides rounded up: what is left at the right and at the bottom is a pixel too."""
    return -(-shape[0] // factor), -(-shape[1] // factor)


def reduce_bands(bands: Iterable[npt.NDArray[Any]], factor: int) -> Iterator[npt.NDArray[Any]]:
    """Bands of rows from the top, of any heights, with squares of `factor` pixels as one.

    Bytes, (rows, width) or (rows, width, 3), become their mean; of bool any true pixel makes a true one, so that thin
    lines stay. The last row and column may stand for fewer pixels.
    """
    if factor == 1:
        yield from bands
        return
    left: npt.NDArray[Any] | None = None
    for band in bands:
        rows = band if left is None else np.concatenate([left, band])
        whole = len(rows) // factor * factor
        if whole:
            yield _reduce(rows[:whole], factor)
        left = rows[whole:]
    if left is not None and len(left):
        yield _reduce(left, factor)


def _reduce(rows: npt.NDArray[Any], factor: int) -> npt.NDArray[Any]:
    """Squares of what is there; at the end of a side the last pixel is repeated."""
    missing = [(0, -len(rows) % factor), (0, -rows.shape[1] % factor), *[(0, 0)] * (rows.ndim - 2)]
    padded = np.pad(rows, missing, mode="edge")
    height, width = padded.shape[0] // factor, padded.shape[1] // factor
    squares = padded.reshape(height, factor, width, factor, *padded.shape[2:])
    if rows.dtype == np.bool_:
        return np.asarray(squares.any(axis=(1, 3)))
    sums = squares.sum(axis=1, dtype=np.uint32).sum(axis=2)
    return np.asarray((sums + factor * factor // 2) // (factor * factor), np.uint8)
