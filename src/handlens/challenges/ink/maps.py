"""The ink map at full size, a few rows at a time, as 16-bit TIFF or Zarr."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.tiles import STRIDE, Map
from handlens.challenges.ink.window import Mask
from handlens.io import tiff
from handlens.io.extras import need
from handlens.io.files import new_folder, replacing
from handlens.types import Shape

ROWS = 64
"""Squares down that are enlarged at a time."""

CHUNK = 256
"""Sides in pixels of the tiles and chunks of a map that is written."""

FOLDER = "probability"
"""Beside the submission, where the maps go."""


def enlarge(coarse: Map, shape: Shape) -> Iterator[tuple[int, Map]]:
    """First row and full-size rows of a map, from the top; linear between the middles of squares."""
    for first in range(0, len(coarse), ROWS):
        above, last = max(0, first - 1), min(len(coarse), first + ROWS)
        part = np.ascontiguousarray(coarse[above : min(len(coarse), last + 1)])
        size = (part.shape[1] * STRIDE, part.shape[0] * STRIDE)
        large = cv2.resize(part, size, interpolation=cv2.INTER_LINEAR)
        top = first * STRIDE
        rows = large[(first - above) * STRIDE : (last - above) * STRIDE][: shape[0] - top]
        yield top, np.asarray(rows[:, : shape[1]], np.float32)


# --- files ----------------------------------------------------------------------------------------------------------


def write_map(out: Path, name: str, form: str, coarse: Map, mask: Mask) -> Path:
    """Write the map, 0 to 65535 for 0 to 1, 0 outside the mask; gives its path."""
    writers: dict[str, tuple[str, Callable[[Path, Iterator[npt.NDArray[np.uint16]], Shape], None]]] = {
        "tiff": ("tif", _write_tiff),
        "zarr": ("zarr", _write_zarr),
    }
    suffix, write = writers[form]
    path = out / FOLDER / f"{name}.{suffix}"
    write(path, _levels(coarse, mask), (mask.shape[0], mask.shape[1]))
    return path


def _levels(coarse: Map, mask: Mask) -> Iterator[npt.NDArray[np.uint16]]:
    """Squares of CHUNK pixels, along the rows, then down; beyond the edges 0. ROWS * STRIDE is CHUNK."""
    for top, rows in enlarge(coarse, (mask.shape[0], mask.shape[1])):
        band = np.rint(rows * np.float32(65535)).astype(np.uint16) * mask[top : top + len(rows)]
        for left in range(0, mask.shape[1], CHUNK):
            part = band[:, left : left + CHUNK]
            yield np.pad(part, ((0, CHUNK - part.shape[0]), (0, CHUNK - part.shape[1])))


def _write_tiff(path: Path, chunks: Iterator[npt.NDArray[np.uint16]], shape: Shape) -> None:
    with replacing(path) as temporary:
        packed = (zlib.compress(chunk.tobytes()) for chunk in chunks)
        tiff.write_grey(temporary, packed, shape, np.dtype(np.uint16), tile=CHUNK)


def _write_zarr(path: Path, chunks: Iterator[npt.NDArray[np.uint16]], shape: Shape) -> None:
    """Format 2, one slice, chunks packed with zlib: any reader knows it."""
    zarr, numcodecs = need("zarr", "a probability map as Zarr"), need("numcodecs", "a probability map as Zarr")
    if path.exists():
        shutil.rmtree(path)
    across = -(-shape[1] // CHUNK)
    with new_folder(path) as folder:
        array = zarr.create_array(
            folder,
            shape=(1, *shape),
            chunks=(1, CHUNK, CHUNK),
            dtype="<u2",
            compressors=numcodecs.Zlib(level=1),
            fill_value=0,
            zarr_format=2,
            config={"write_empty_chunks": True},  # an array without chunks looks like one that was not copied whole
        )
        for number, chunk in enumerate(chunks):
            top, left = number // across * CHUNK, number % across * CHUNK
            height, width = min(CHUNK, shape[0] - top), min(CHUNK, shape[1] - left)
            array[0, top : top + height, left : left + width] = chunk[:height, :width]
