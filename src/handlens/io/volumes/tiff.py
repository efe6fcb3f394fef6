"""How TIFF slices lie on the disk: strips or tiles, plain or compressed, classic or BigTIFF, one file a slice."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from handlens.errors import DataError, Problem
from handlens.io.images import MAX_IMAGE_PIXELS, shown
from handlens.io.volumes.stack import DTYPES, Array
from handlens.types import Shape

if TYPE_CHECKING:
    import tifffile

_SLICE_NAME = re.compile(r"([0-9]{1,6})\.tiff?", re.IGNORECASE)
_UNCOMPRESSED = 1
_BLACK_IS_ZERO = 1


@dataclass(frozen=True, slots=True)
class Lie:
    """Where the rows of an uncompressed slice begin in its file, one after the other, and the file's size and time."""

    offset: int
    size: int
    time: int


@dataclass(frozen=True, slots=True)
class TiffSlices:
    """Slices in order of their numbers, one file for each. `lies` are known of slices whose rows lie as they are."""

    paths: tuple[Path, ...]
    shape: Shape
    dtype: np.dtype[Any]
    grain: int
    lies: tuple[Lie | None, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.paths)

    def fill(self, band: Array, first: int, top: int, left: int) -> None:
        """Read into `band`; every file is opened anew, as 65 open files a stack are too many."""
        last = first + len(band)
        for path, rows, lie in zip(self.paths[first:last], band, self.lies[first:last], strict=True):
            if lie is None or not _copy_known(path, rows, top, left, self.shape[1], lie):
                _fill(path, rows, top, left, self.shape)


# --- headers ------------------------------------------------------------------------------------------------


def survey(folder: Path) -> tuple[TiffSlices | None, list[Problem]]:
    """The stack as far as it can be read, and every problem."""
    try:
        numbered = _list_slices(folder)
    except OSError as error:
        return None, [Problem(f"cannot be listed ({error.strerror}): give a surface_volume folder")]
    if not numbered:
        what = "no slices; expected TIFF files named by number, 00.tif, 01.tif and on: copy the stack again"
        return None, [Problem(what)]
    found = [*_find_gaps(numbered), *_find_twins(numbered)]
    stack: TiffSlices | None = None
    lies = []
    for _, path in numbered:
        try:
            shape, dtype, grain, lie = _read_facts(path)
        except ValueError as error:
            found.append(Problem(str(error), path.name))
            continue
        lies.append(lie)
        if stack is None:
            stack = TiffSlices(tuple(path for _, path in numbered), shape, dtype, grain)
            model = path.name
        elif (shape, dtype) != (stack.shape, stack.dtype):
            what = (
                f"{shown(shape)} {dtype}, but {model} is {shown(stack.shape)} {stack.dtype}: "
                "all slices of a stack are alike; copy it again from the same scan"
            )
            found.append(Problem(what, path.name))
    return (replace(stack, lies=tuple(lies)) if stack else None), found


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


def _read_facts(path: Path) -> tuple[Shape, np.dtype[Any], int, Lie | None]:
    """Shape, type, grain and lie from the header; ValueError says why the slice cannot be used."""
    with _opened(path) as (file, page):
        _refuse_kind(file, page)
        status = path.stat()
        _refuse_truncated(page, status.st_size)
        plain = _is_plain(page)
        known = plain and _is_native(file) and _lies_whole(page)
        lie = Lie(int(page.dataoffsets[0]), status.st_size, status.st_mtime_ns) if known else None
        return (page.imagelength, page.imagewidth), _dtype_of(page), 1 if plain else _segment_shape(page)[0], lie


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


def _is_plain(page: tifffile.TiffPage) -> bool:
    """Whether rows lie in the file as they are."""
    return page.compression == _UNCOMPRESSED and page.predictor == 1 and page.fillorder == 1 and not page.is_tiled


def _is_native(file: tifffile.TiffFile) -> bool:
    return file.byteorder == ("<" if np.little_endian else ">")


def _lies_whole(page: tifffile.TiffPage) -> bool:
    """Whether strip follows strip without gaps."""
    size = _segment_shape(page)[0] * page.imagewidth * _dtype_of(page).itemsize
    return bool(np.all(np.diff(np.array(page.dataoffsets, np.int64)) == size))


def _copy_known(path: Path, rows: Array, top: int, left: int, width: int, lie: Lie) -> bool:
    """Read without looking at the header again; false where the file is another now, or cannot be read."""
    try:
        with path.open("rb", buffering=0) as stream:
            status = os.fstat(stream.fileno())
            if (status.st_size, status.st_mtime_ns) != (lie.size, lie.time):
                return False
            place = lie.offset + (top * width + left) * rows.itemsize
            step = len(rows) if rows.shape[1] == width else 1
            for row in range(0, len(rows), step):
                stream.seek(place + row * width * rows.itemsize)
                _read_into(stream, rows[row : row + step])
    except (OSError, ValueError):
        return False
    return True


def _fill(path: Path, rows: Array, top: int, left: int, shape: Shape) -> None:
    """Read the part of a slice that begins at this pixel."""
    try:
        with _opened(path) as (file, page):
            if (page.imagelength, page.imagewidth) != shape or _dtype_of(page) != rows.dtype:
                raise _UnusableError("changed since the stack was opened: open it again")
            if _is_plain(page):
                _copy_rows(path, page, rows, top, left)
                if not _is_native(file):
                    rows.byteswap(inplace=True)
            else:
                _decode_rows(file, page, rows, top, left)
    except ValueError as error:
        raise DataError(str(error), file=path) from None


def _copy_rows(path: Path, page: tifffile.TiffPage, rows: Array, top: int, left: int) -> None:
    """Rows of an uncompressed slice, straight from their place in the file."""
    height, bottom = _segment_shape(page)[0], top + len(rows)
    offsets = page.dataoffsets
    width = page.imagewidth * rows.itemsize
    if _lies_whole(page):  # one read for all
        height = page.imagelength
    whole = rows.shape[1] == page.imagewidth
    with path.open("rb", buffering=0) as stream:
        for strip in range(top // height, -(-bottom // height)):
            start, end = max(top, strip * height), min(bottom, (strip + 1) * height)
            place = offsets[strip] + (start - strip * height) * width + left * rows.itemsize
            step = end - start if whole else 1  # parts of rows are read one by one
            for row in range(start, end, step):
                stream.seek(place + (row - start) * width)
                _read_into(stream, rows[row - top : row - top + step])


def _read_into(stream: BinaryIO, rows: Array) -> None:
    """One `read` call may give less than asked, at most 2 GB on Linux."""
    left = rows.view(np.uint8).ravel().data
    while left:
        count = stream.readinto(left)  # type: ignore[attr-defined]
        if not count:
            raise _UnusableError("truncated since the stack was opened: copy it again")
        left = left[count:]


def _decode_rows(file: tifffile.TiffFile, page: tifffile.TiffPage, rows: Array, top: int, left: int) -> None:
    """Decode the strips or tiles that overlap the rows, one after the other."""
    height, width = _segment_shape(page)
    across, bottom, right = -(-page.imagewidth // width), top + len(rows), left + rows.shape[1]
    for line in range(top // height, -(-bottom // height)):
        for index in range(line * across + left // width, line * across + -(-right // width)):
            file.filehandle.seek(page.dataoffsets[index])
            data = file.filehandle.read(page.databytecounts[index])
            segment, place, _ = page.decode(data, index, jpegtables=page.jpegtables)
            y, x = place[2], place[3]
            y0, y1, x0, x1 = max(top, y), min(bottom, y + height), max(left, x), min(right, x + width)
            target = rows[y0 - top : y1 - top, x0 - left : x1 - left]
            part = None if segment is None else segment[0, y0 - y : y1 - y, x0 - x : x1 - x, 0]
            if part is None or part.shape != target.shape:
                raise _UnusableError(f"damaged: strip or tile {index} holds too few pixels: copy it again")
            target[:] = part
