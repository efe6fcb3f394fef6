"""Pictures as bands of rows: a tiled or striped TIFF a few strips at a time, any other picture decoded once and kept.

A slide of 20,000 x 20,000 is 1.2 GB as colours; a band of a thousand rows of it is 60 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.images import read_header, read_rgb
from handlens.types import Shape

if TYPE_CHECKING:
    import tifffile

ByteImage = npt.NDArray[np.uint8]

TALL_SEGMENT = 2048
"""Rows of a compressed strip or tile from which a picture is decoded whole, once: every band would need all of it."""

_BLACK_IS_ZERO, _RGB, _YCBCR = 1, 2, 6  # how a TIFF says what its samples mean
_JPEG = 7
_SEPARATE = 2


@dataclass(frozen=True, slots=True)
class RowReader:
    """A picture whose rows can be read: `read(top, bottom)` gives (rows, width, 3) uint8, the end excluded."""

    shape: Shape
    read: Callable[[int, int], ByteImage]


@contextmanager
def opened(path: Path) -> Iterator[RowReader]:
    """A picture file as a row reader; grey is repeated, alpha dropped, 16 bits reduced to 8."""
    header = read_header(path)
    if header.format == "TIFF":
        import tifffile

        try:
            file = tifffile.TiffFile(path)
        except Exception as error:  # damaged headers raise all kinds
            raise _damage(path, error) from None
        with file:
            page = file.pages.first
            if _is_read_by_bands(page, header.shape):
                yield RowReader(header.shape, lambda top, bottom: _read_rows(path, file, page, top, bottom))
                return
    yield in_memory(read_rgb(path))


def in_memory(picture: ByteImage) -> RowReader:
    """An (H, W, 3) picture that is there already, as a row reader."""
    return RowReader((picture.shape[0], picture.shape[1]), lambda top, bottom: picture[top:bottom])


def _is_read_by_bands(page: tifffile.TiffPage, shape: Shape) -> bool:
    """Whether the strips or tiles are of a kind that we put together ourselves; Pillow and OpenCV take the others."""
    if (page.imagelength, page.imagewidth) != shape or page.imagedepth != 1 or page.fillorder != 1:
        return False
    colours = page.photometric == _RGB or (page.photometric == _YCBCR and page.compression == _JPEG)
    grey = page.photometric == _BLACK_IS_ZERO and page.samplesperpixel == 1
    if not (grey or (colours and page.samplesperpixel in (3, 4))):
        return False
    if page.dtype not in (np.uint8, np.uint16) or page.bitspersample not in (8, 16):
        return False
    return _segment_rows(page) < TALL_SEGMENT or page.compression == 1


def _segment_rows(page: tifffile.TiffPage) -> int:
    return int(page.tilelength if page.is_tiled else min(page.rowsperstrip, page.imagelength))


def _read_rows(path: Path, file: tifffile.TiffFile, page: tifffile.TiffPage, top: int, bottom: int) -> ByteImage:
    if not 0 <= top < bottom <= page.imagelength:
        raise ValueError(f"rows {top} to {bottom}; the picture has {page.imagelength}")
    try:
        samples = page.samplesperpixel
        if page.compression == 1 and not page.is_tiled and page.planarconfig != _SEPARATE and _lies_whole(page):
            rows = _map_rows(path, file, page, top, bottom)
        else:
            rows = np.empty((bottom - top, page.imagewidth, samples), np.dtype(page.dtype))
            _decode_rows(file, page, rows, top)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # codecs raise all kinds
        raise _damage(path, error) from None
    if rows.dtype != np.uint8:
        rows = (rows >> 8).astype(np.uint8)
    return np.repeat(rows, 3, axis=2) if samples == 1 else np.ascontiguousarray(rows[:, :, :3])


def _lies_whole(page: tifffile.TiffPage) -> bool:
    """Whether strip follows strip without gaps."""
    offsets, counts = np.array(page.dataoffsets, np.int64), np.array(page.databytecounts, np.int64)
    return page.predictor == 1 and bool(np.all(offsets[1:] == (offsets + counts)[:-1]))


def _map_rows(path: Path, file: tifffile.TiffFile, page: tifffile.TiffPage, top: int, bottom: int) -> npt.NDArray[Any]:
    """Rows of an uncompressed picture, straight from the file."""
    kind = np.dtype(page.dtype or "V").newbyteorder(file.byteorder)
    shape = (page.imagelength, page.imagewidth, page.samplesperpixel)
    mapped = np.memmap(path, kind, "r", page.dataoffsets[0], shape)
    return np.array(mapped[top:bottom]).astype(kind.newbyteorder("="), copy=False)


def _decode_rows(file: tifffile.TiffFile, page: tifffile.TiffPage, rows: npt.NDArray[Any], top: int) -> None:
    """Decode the strips or tiles that overlap the rows, one after the other."""
    height = _segment_rows(page)
    width = page.tilewidth if page.is_tiled else page.imagewidth
    across, down = -(-page.imagewidth // width), -(-page.imagelength // height)
    planes = page.samplesperpixel if page.planarconfig == _SEPARATE else 1
    bottom = top + len(rows)
    for plane in range(planes):
        first = plane * across * down
        for index in range(first + top // height * across, first + -(-bottom // height) * across):
            file.filehandle.seek(page.dataoffsets[index])
            data = file.filehandle.read(page.databytecounts[index])
            segment, place, _ = page.decode(data, index, jpegtables=page.jpegtables)
            y, x = place[2], place[3]
            start, end = max(top, y), min(bottom, y + height)
            target = rows[start - top : end - top, x : x + width]
            target = target[:, :, plane : plane + 1] if planes > 1 else target
            part = None if segment is None else segment[0, start - y : end - y, : target.shape[1]]
            if part is None or part.shape != target.shape:
                raise ValueError(f"strip or tile {index} holds too few pixels")
            target[:] = part


def _damage(path: Path, error: Exception) -> DataError:
    return DataError(f"damaged, its pixels cannot be decoded ({error}): copy it again", file=path)
