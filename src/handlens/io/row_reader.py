"""Pictures as bands of rows: a tiled or striped TIFF a few strips at a time, any other picture decoded once and kept.

A slide of 20,000 x 20,000 is 1.2 GB as colours; a band of a thousand rows of it is 60 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from handlens.io import orientation, tiff, tiff_pixels
from handlens.io.images import read_header, read_rgb
from handlens.types import Shape

ByteImage = npt.NDArray[np.uint8]

TALL_SEGMENT = 2048
"""Rows of a compressed strip or tile from which a picture is decoded whole, once: every band would need all of it."""


@dataclass(frozen=True, slots=True)
class RowReader:
    """A picture whose rows can be read: `read(top, bottom)` gives (rows, width, 3) uint8, the end excluded.

    One that is `held` in memory can be read at any time, others while their file is open.
    """

    shape: Shape
    read: Callable[[int, int], ByteImage]
    held: bool = False


@contextmanager
def opened(path: Path) -> Iterator[RowReader]:
    """A picture file as a row reader; grey is repeated, alpha dropped, 16 bits reduced to 8."""
    header = read_header(path)
    if header.format == "TIFF":
        with tiff.opened(path) as first:
            channels = tiff.channels_of(first)
            page = channels or first
            upright = tiff_pixels.orientation_of(page) == orientation.UPRIGHT
            direct = first.is_direct and first.grain < TALL_SEGMENT and not tiff_pixels.is_multiplied(first)
            if upright and (channels or direct):
                yield RowReader(page.shape, lambda top, bottom: _as_rgb(page.read(top, bottom)))
                return
    yield in_memory(read_rgb(path))


def in_memory(picture: ByteImage) -> RowReader:
    """An (H, W, 3) picture that is there already, as a row reader."""
    return RowReader((picture.shape[0], picture.shape[1]), lambda top, bottom: picture[top:bottom], held=True)


def lasting(path: Path) -> RowReader:
    """A picture file that can be read at any time: held, or opened anew for every band."""
    with opened(path) as reader:
        if reader.held:
            return reader
        shape = reader.shape

    def read(top: int, bottom: int) -> ByteImage:
        with opened(path) as again:
            return again.read(top, bottom)

    return RowReader(shape, read)


def _as_rgb(rows: tiff.Array) -> ByteImage:
    if rows.dtype != np.uint8:
        rows = (rows >> 8).astype(np.uint8)
    return np.repeat(rows, 3, axis=2) if rows.shape[2] == 1 else np.ascontiguousarray(rows[:, :, :3])
