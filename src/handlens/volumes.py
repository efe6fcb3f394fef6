"""Slice stacks as row bands, never whole: the one place that knows how TIFF slices lie on the disk.

A real stack has 65 slices and 5 to 18 GB. Opening one reads headers only; a band reads only the strips or
tiles that it overlaps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError, Problem, describe
from handlens.images import MAX_IMAGE_PIXELS, shown
from handlens.types import Shape

if TYPE_CHECKING:
    import tifffile

Array = npt.NDArray[Any]

DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
"""Contest scans have 16 bits, later ones 8; nothing else occurs."""

_SLICE_NAME = re.compile(r"([0-9]{1,6})\.tiff?", re.IGNORECASE)
_UNCOMPRESSED = 1
_BLACK_IS_ZERO = 1


@dataclass(frozen=True, slots=True)
class Stack:
    """Slices in order of their numbers, all of one shape (height, width) and type, uint8 or uint16."""

    paths: tuple[Path, ...]
    shape: Shape
    dtype: np.dtype[Any]

    @property
    def depth(self) -> int:
        return len(self.paths)

    def read_band(self, top: int, bottom: int, first: int, last: int) -> Array:
        """Rows `top` to `bottom` of slices `first` to `last`, ends excluded, as (slices, rows, width).

        Slices are counted from 0 in the stack, whatever their names say. An empty range gives an empty array.
        Beside the answer, memory holds one strip or tile.
        """
        if not (0 <= top <= bottom <= self.shape[0] and 0 <= first <= last <= self.depth):
            raise ValueError(
                f"rows {top} to {bottom} of slices {first} to {last}; "
                f"the stack has {self.shape[0]} rows and {self.depth} slices"
            )
        band = np.empty((last - first, bottom - top, self.shape[1]), self.dtype)
        if band.size:
            for path, rows in zip(self.paths[first:last], band, strict=True):
                _fill(path, rows, top, self.shape)
        return band


def open_stack(folder: Path) -> Stack:
    """The slices `00.tif`, `01.tif` ... of a folder, headers only; DataError lists what is wrong with them.

    Numbers start at 0 and none may be missing.
    """
    stack, found = _survey(folder)
    if stack is None or found:
        raise DataError(describe("not a usable stack of slices", found), file=folder)
    return stack


def problems(folder: Path) -> list[Problem]:
    """Everything that is wrong with a stack's folder; empty where `open_stack` would succeed.

    The `file` of a problem is the slice's name in the folder, empty where the folder as a whole is meant.
    """
    return _survey(folder)[1]


# --- headers ------------------------------------------------------------------------------------------------


def _survey(folder: Path) -> tuple[Stack | None, list[Problem]]:
    """The stack as far as it can be read, and every problem."""
    try:
        numbered = _list_slices(folder)
    except OSError as error:
        return None, [Problem(f"cannot be listed ({error.strerror}): give a surface_volume folder")]
    if not numbered:
        what = "no slices; expected TIFF files named by number, 00.tif, 01.tif and on: copy the stack again"
        return None, [Problem(what)]
    found = [*_find_gaps(numbered), *_find_twins(numbered)]
    stack: Stack | None = None
    for _, path in numbered:
        try:
            shape, dtype = _read_facts(path)
        except ValueError as error:
            found.append(Problem(str(error), path.name))
            continue
        if stack is None:
            stack = Stack(tuple(path for _, path in numbered), shape, dtype)
            model = path.name
        elif (shape, dtype) != (stack.shape, stack.dtype):
            what = (
                f"{shown(shape)} {dtype}, but {model} is {shown(stack.shape)} {stack.dtype}: "
                "all slices of a stack are alike; copy it again from the same scan"
            )
            found.append(Problem(what, path.name))
    return stack, found


def _list_slices(folder: Path) -> list[tuple[int, Path]]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if os.path.isfile(entry)]
    matches = [match for name in names if (match := _SLICE_NAME.fullmatch(name))]
    return sorted((int(match.group(1)), folder / match.group()) for match in matches)


def _find_gaps(numbered: list[tuple[int, Path]]) -> Iterator[Problem]:
    """A gap is one problem, however wide: a file `999999.tif` must not make a million of them."""
    digits = len(numbered[0][1].stem)
    numbers = [-1, *(number for number, _ in numbered)]  # so that a missing slice 0 is a gap too
    for before, after in pairwise(numbers):
        first, last = f"{before + 1:0{digits}d}", f"{after - 1:0{digits}d}"
        if after - before == 2:
            yield Problem(f"slice {first} is missing: copy it again")
        elif after - before > 2:
            yield Problem(f"slices {first} to {last} are missing: copy them again")


def _find_twins(numbered: list[tuple[int, Path]]) -> Iterator[Problem]:
    for (before, kept), (after, twin) in pairwise(numbered):
        if before == after:
            yield Problem(f"slice {after} is there twice, as {kept.name} too: remove one of them", twin.name)


def _read_facts(path: Path) -> tuple[Shape, np.dtype[Any]]:
    """Shape and type from the header; ValueError says why the slice cannot be used."""
    with _opened(path) as (file, page):
        _refuse_kind(file, page)
        _refuse_truncated(page, path.stat().st_size)
        return (page.imagelength, page.imagewidth), _dtype_of(page)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[tifffile.TiffFile, tifffile.TiffPage]]:
    """A file and its first page; whatever goes wrong inside the block is a ValueError with a sentence."""
    import tifffile

    try:
        with tifffile.TiffFile(path) as file:
            yield file, file.pages.first
    except _UnusableError:
        raise
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from None
    except MemoryError:
        raise ValueError("too large to be decoded in this memory") from None
    except Exception as error:  # damaged headers and codecs raise all kinds
        raise ValueError(f"not a readable TIFF ({error}): copy it again") from None


class _UnusableError(ValueError):
    """A sentence of ours about a slice, in contrast to a library's."""


def _refuse_kind(file: tifffile.TiffFile, page: tifffile.TiffPage) -> None:
    import tifffile

    if page.samplesperpixel != 1 or page.imagedepth != 1 or page.photometric != _BLACK_IS_ZERO:
        kind = getattr(page.photometric, "name", page.photometric)
        raise _UnusableError(
            f"{page.samplesperpixel} samples a pixel ({kind}); a slice is grey, black is 0: convert it"
        )
    if _dtype_of(page) not in DTYPES or page.bitspersample not in (8, 16):
        raise _UnusableError(f"{page.bitspersample}-bit {page.dtype} pixels; a slice is uint8 or uint16: convert it")
    if not 0 < page.imagelength * page.imagewidth <= MAX_IMAGE_PIXELS:
        size = shown((page.imagelength, page.imagewidth))
        raise _UnusableError(f"{size} pixels; a slice has 1 to {MAX_IMAGE_PIXELS:,} of them")
    if page.compression != _UNCOMPRESSED and page.compression not in tifffile.TIFF.DECOMPRESSORS:
        raise _UnusableError(f"compression {page.compression} is not known: save it uncompressed or as deflate")
    if _has_second_page(file):
        raise _UnusableError("more than one page; a slice is one: save every page as a file of its own")


def _has_second_page(file: tifffile.TiffFile) -> bool:
    try:
        file.pages[1]
    except IndexError:
        return False
    return True


def _refuse_truncated(page: tifffile.TiffPage, size: int) -> None:
    """Every strip or tile must be listed, hold something, and end within the file."""
    what = "tiles" if page.is_tiled else "strips"
    rows, columns = _segment_shape(page)
    expected = -(-page.imagelength // rows) * -(-page.imagewidth // columns)
    if rows * columns > MAX_IMAGE_PIXELS:
        raise _UnusableError(f"{what} of {rows}x{columns} pixels are too large: save it with smaller ones")
    offsets, counts = np.array(page.dataoffsets, np.int64), np.array(page.databytecounts, np.int64)
    if len(offsets) != expected or len(counts) != expected or not np.all((offsets > 0) & (counts > 0)):
        raise _UnusableError(f"damaged: {expected} {what} expected, some are not there: copy it again")
    end = int((offsets + counts).max())
    if end > size:
        raise _UnusableError(f"truncated; its pixels end at byte {end:,}, the file has {size:,}: copy it again")
    needed = np.full(expected, rows * columns)
    if not page.is_tiled:
        needed[-1] -= (expected * rows - page.imagelength) * columns  # the last strip is shorter, a tile is not
    if page.compression == _UNCOMPRESSED and np.any(counts < needed * _dtype_of(page).itemsize):
        raise _UnusableError(f"damaged: its {what} hold too few bytes for the pixels: copy it again")


def _segment_shape(page: tifffile.TiffPage) -> Shape:
    """Height and width of a tile, or of a strip, which is as wide as the page."""
    if page.is_tiled:
        return page.tilelength, page.tilewidth
    return min(page.rowsperstrip, page.imagelength), page.imagewidth


def _dtype_of(page: tifffile.TiffPage) -> np.dtype[Any]:
    return np.dtype(page.dtype or "V").newbyteorder("=")


# --- pixels -------------------------------------------------------------------------------------------------


def _fill(path: Path, rows: Array, top: int, shape: Shape) -> None:
    """Read the rows of a slice from `top` on. The file is opened anew: 65 open files a stack are too many."""
    try:
        with _opened(path) as (file, page):
            if (page.imagelength, page.imagewidth) != shape or _dtype_of(page) != rows.dtype:
                raise _UnusableError("changed since the stack was opened: open it again")
            plain = page.compression == _UNCOMPRESSED and page.predictor == 1 and page.fillorder == 1
            if plain and not page.is_tiled:
                _copy_rows(path, page, rows, top)
                if file.byteorder != ("<" if np.little_endian else ">"):
                    rows.byteswap(inplace=True)
            else:
                _decode_rows(file, page, rows, top)
    except ValueError as error:
        raise DataError(str(error), file=path) from None


def _copy_rows(path: Path, page: tifffile.TiffPage, rows: Array, top: int) -> None:
    """Rows of an uncompressed slice, straight from their place in the file."""
    height, bottom = _segment_shape(page)[0], top + len(rows)
    offsets = page.dataoffsets
    width = rows.shape[1] * rows.itemsize
    if np.all(np.diff(np.array(offsets, np.int64)) == height * width):  # strip follows strip: one read for all
        height = page.imagelength
    with path.open("rb", buffering=0) as stream:
        for strip in range(top // height, -(-bottom // height)):
            start, end = max(top, strip * height), min(bottom, (strip + 1) * height)
            stream.seek(offsets[strip] + (start - strip * height) * width)
            _read_into(stream, rows[start - top : end - top])


def _read_into(stream: BinaryIO, rows: Array) -> None:
    """One `read` call may give less than asked, at most 2 GB on Linux."""
    left = rows.view(np.uint8).ravel().data
    while left:
        count = stream.readinto(left)  # type: ignore[attr-defined]
        if not count:
            raise _UnusableError("truncated since the stack was opened: copy it again")
        left = left[count:]


def _decode_rows(file: tifffile.TiffFile, page: tifffile.TiffPage, rows: Array, top: int) -> None:
    """Decode the strips or tiles that overlap the rows, one after the other."""
    height, width = _segment_shape(page)
    across, bottom = -(-page.imagewidth // width), top + len(rows)
    for index in range(top // height * across, -(-bottom // height) * across):
        file.filehandle.seek(page.dataoffsets[index])
        data = file.filehandle.read(page.databytecounts[index])
        segment, place, _ = page.decode(data, index, jpegtables=page.jpegtables)
        y, x = place[2], place[3]
        start, end = max(top, y), min(bottom, y + height)
        target = rows[start - top : end - top, x : x + width]
        part = None if segment is None else segment[0, start - y : end - y, : target.shape[1], 0]
        if part is None or part.shape != target.shape:
            raise _UnusableError(f"damaged: strip or tile {index} holds too few pixels: copy it again")
        target[:] = part
