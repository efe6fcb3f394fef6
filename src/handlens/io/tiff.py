"""How a TIFF lies in its file: headers checked before a pixel is touched, then any rows and columns of a page.

The one place that knows tifffile. A band of rows reads only the strips or tiles that it overlaps; uncompressed rows
come straight from their place in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io import tiff_codecs
from handlens.io.gate import announce, open_file, status_of, unreadable
from handlens.io.tiff_codecs import JPEG, SEPARATE, UNCOMPRESSED, segment_samples, segment_shape
from handlens.types import Shape

if TYPE_CHECKING:
    import tifffile

Array = npt.NDArray[Any]

STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of a TIFF: either byte order, classic or BigTIFF."""

MAX_PAGES = 10_000
"""More pages than a book has: such a file is a mistake or a trap."""

MAX_SEGMENT_PIXELS = 500_000_000
"""Largest strip or tile that is decoded: as large as the largest picture."""

BATCH_BYTES = 1 << 22
"""Decoded bytes of the small strips that are decoded in one call."""

WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6
"""How a TIFF says what its samples mean."""

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # what it finds odd is said in our errors, or nowhere

_NUMBERS = (
    *("imagelength", "imagewidth", "imagedepth", "tilelength", "tilewidth", "rowsperstrip", "samplesperpixel"),
    *("bitspersample", "compression", "predictor", "fillorder", "photometric", "planarconfig"),
)

_NATIVE = "<" if np.little_endian else ">"


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Where the rows of an uncompressed page begin in its file, one after the other, and the file's size and time."""

    offset: int
    size: int
    time: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an open TIFF: `tags` as tifffile read them, pixels in this machine's byte order.

    `shift` are bytes from the page's own pixels to these: ImageJ writes large stacks with one directory for all planes.
    """

    path: Path
    file: tifffile.TiffFile
    tags: tifffile.TiffPage
    shift: int = 0

    @property
    def shape(self) -> Shape:
        return self.tags.imagelength, self.tags.imagewidth

    @property
    def samples(self) -> int:
        return int(self.tags.samplesperpixel)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.tags.dtype or "V").newbyteorder("=")

    @property
    def grain(self) -> int:
        """Rows that are decoded together."""
        return 1 if self.is_plain else segment_shape(self.tags)[0]

    @property
    def is_plain(self) -> bool:
        """Whether rows lie in the file as they are."""
        tags = self.tags
        apart = tags.planarconfig == SEPARATE and tags.samplesperpixel > 1
        whole = tags.bitspersample in (8, 16) and tags.predictor == 1 and tags.fillorder == 1
        return tags.compression == UNCOMPRESSED and whole and not tags.is_tiled and not apart

    @property
    def is_direct(self) -> bool:
        """Whether the samples are what is shown: grey from black, or colours, of 8 or 16 bits without sign."""
        tags = self.tags
        if tags.imagedepth != 1 or self.dtype not in (np.uint8, np.uint16) or tags.bitspersample not in (8, 16):
            return False
        colours = tags.photometric == RGB or (tags.photometric == YCBCR and tags.compression == JPEG)
        grey = tags.photometric == BLACK_IS_ZERO and self.samples == 1
        return tiff_codecs.is_known(tags) and (grey or (colours and self.samples in (3, 4)))

    def plain_rows(self) -> PlainRows | None:
        """Where the rows lie, of a page that can be read without its header from now on."""
        if not self.is_plain or self.file.byteorder != _NATIVE or not self._is_contiguous():
            return None
        status = self.path.stat()
        return PlainRows(int(self.tags.dataoffsets[0]) + self.shift, status.st_size, status.st_mtime_ns)

    def refuse_damaged(self) -> None:
        """Every strip or tile must be listed, hold something, and end within the file; nothing is decoded."""
        tags, size = self.tags, self.path.stat().st_size
        what = "tiles" if tags.is_tiled else "strips"
        rows, columns = segment_shape(tags)
        if not 0 < rows * columns <= MAX_SEGMENT_PIXELS:
            raise DataError(f"{what} of {rows}x{columns} pixels: save it with smaller ones", file=self.path)
        planes = self.samples if tags.planarconfig == SEPARATE else 1
        expected = planes * -(-tags.imagelength // rows) * -(-tags.imagewidth // columns)
        offsets, counts = np.array(tags.dataoffsets, np.int64), np.array(tags.databytecounts, np.int64)
        places = (tags.tags[code].count for code in (273, 279, 324, 325) if code in tags.tags)  # of strips, of tiles
        listed = {len(offsets), len(counts), *places}
        if listed != {expected} or not np.all((offsets > 0) & (counts > 0)):
            raise DataError(f"damaged: {expected} {what} expected, others are listed: copy it again", file=self.path)
        end = int((offsets + counts).max()) + self.shift
        if end > size:
            what = f"truncated; its pixels end at byte {end:,}, the file has {size:,}: copy it again"
            raise DataError(what, file=self.path)
        if tags.compression != UNCOMPRESSED or tags.photometric == YCBCR:  # the latter may leave colours out
            return
        width = tiff_codecs.row_bytes(tags)
        needed = [tiff_codecs.segment_rows(tags, index) * width for index in range(expected)]
        if np.any(counts < needed):
            raise DataError(f"damaged: its {what} hold too few bytes for the pixels: copy it again", file=self.path)

    def read(self, top: int = 0, bottom: int | None = None, left: int = 0, right: int | None = None) -> Array:
        """Rows and columns, ends excluded, as (rows, columns, samples); without ends to the page's."""
        bottom = self.shape[0] if bottom is None else bottom
        right = self.shape[1] if right is None else right
        if not (0 <= top < bottom <= self.shape[0] and 0 <= left < right <= self.shape[1]):
            raise ValueError(f"rows {top} to {bottom}; the picture has {self.shape[0]}")
        kind = np.dtype(np.bool_ if self.tags.bitspersample == 1 else self.dtype)
        pixels = np.empty((bottom - top, right - left, self.samples), kind)
        self.fill(pixels, top, left)
        return pixels

    def fill(self, pixels: Array, top: int, left: int) -> None:
        """Read what begins at this pixel and is as large as `pixels`, (rows, columns, samples), into it."""
        try:
            if self.is_plain:
                self._copy_rows(pixels, top, left)
            else:
                self._decode_rows(pixels, top, left)
        except (DataError, MemoryError):
            raise
        except OSError as error:
            raise unreadable(self.path, error) from None
        except Exception as error:  # codecs raise all kinds
            raise _damage(self.path, error) from None

    def _is_contiguous(self) -> bool:
        """Whether strip follows strip without gaps."""
        size = segment_shape(self.tags)[0] * tiff_codecs.row_bytes(self.tags)
        return bool(np.all(np.diff(np.array(self.tags.dataoffsets, np.int64)) == size))

    def _copy_rows(self, pixels: Array, top: int, left: int) -> None:
        """Rows of an uncompressed page, straight from their place in the file."""
        height = self.shape[0] if self._is_contiguous() else segment_shape(self.tags)[0]
        bottom, width = top + len(pixels), self.shape[1]
        with open_file(self.path) as stream:
            for strip in range(top // height, -(-bottom // height)):
                start, end = max(top, strip * height), min(bottom, (strip + 1) * height)
                place = int(self.tags.dataoffsets[strip]) + self.shift
                _copy(stream, pixels[start - top : end - top], place, start - strip * height, left, width)
        if self.file.byteorder != _NATIVE:
            pixels.byteswap(inplace=True)

    def _decode_rows(self, pixels: Array, top: int, left: int) -> None:
        """Decode the strips or tiles that overlap the rows, a few at a time."""
        height, width = segment_shape(self.tags)
        across, down = -(-self.shape[1] // width), -(-self.shape[0] // height)
        bottom, right = top + pixels.shape[0], left + pixels.shape[1]
        size = height * tiff_codecs.row_bytes(self.tags)
        together = 1 if self.tags.compression == JPEG else max(1, BATCH_BYTES // size)
        samples = segment_samples(self.tags)
        for plane in range(self.samples // samples):
            target = pixels[:, :, plane : plane + samples]
            wanted = [
                (line, column)
                for line in range(top // height, -(-bottom // height))
                for column in range(left // width, -(-right // width))
            ]
            for start in range(0, len(wanted), together):
                places = wanted[start : start + together]
                indices = [(plane * down + line) * across + column for line, column in places]
                decoded = tiff_codecs.decode(self.path, self.tags, indices, self._read_segments(indices))
                for number, (line, column) in enumerate(places):
                    segment = decoded[number * height : (number + 1) * height]
                    _paste(segment, line * height, column * width, target, top, left)

    def _read_segments(self, indices: Sequence[int]) -> list[bytes]:
        places = [(self.tags.dataoffsets[index], self.tags.databytecounts[index]) for index in indices]
        announce(self.path, [(start, start + count) for start, count in places])
        stream, found = self.file.filehandle, []
        for start, count in places:
            stream.seek(start)
            found.append(bytes(stream.read(count)))
        return found


@dataclass(frozen=True, slots=True)
class Channels:
    """Grey pages of one shape and type that are the colours of one picture, as ImageJ stores them."""

    pages: tuple[Page, ...]

    @property
    def shape(self) -> Shape:
        return self.pages[0].shape

    @property
    def samples(self) -> int:
        return len(self.pages)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.pages[0].dtype

    def read(self, top: int = 0, bottom: int | None = None) -> Array:
        """Rows, the end excluded, as (rows, columns, channels)."""
        return np.concatenate([page.read(top, bottom) for page in self.pages], axis=2)


# --- files ----------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[Page]:
    """The first page of a file; whatever goes wrong inside the block with the file is a DataError."""
    import tifffile

    with ExitStack() as stack:
        stream = stack.enter_context(open_file(path))
        try:
            file = stack.enter_context(tifffile.TiffFile(stream))
        except OSError as error:
            raise unreadable(path, error) from None
        except Exception as error:
            raise _unreadable(path, error) from None
        try:
            first = _checked(Page(path, file, file.pages.first))
        except Exception as error:  # damaged headers raise all kinds
            raise _unreadable(path, error) from None
        yield first


def list_pages(first: Page) -> list[Page]:
    """The pages that are pictures of their own, at most one more than MAX_PAGES; reduced copies and masks are none."""
    import tifffile

    pages = []
    try:
        for number in range(MAX_PAGES + 1):
            try:
                tags = first.file.pages[number]
            except IndexError:
                break
            if isinstance(tags, tifffile.TiffPage) and not tags.is_reduced and not tags.is_mask:
                pages.append(_checked(Page(first.path, first.file, tags)))
    except Exception as error:  # damaged headers raise all kinds
        raise _unreadable(first.path, error) from None
    return pages


def has_second_page(first: Page) -> bool:
    """Whether another page follows, of whatever kind."""
    try:
        first.file.pages[1]
    except IndexError:
        return False
    except Exception as error:  # damaged headers raise all kinds
        raise _unreadable(first.path, error) from None
    return True


def channels_of(first: Page) -> Channels | None:
    """The colours that ImageJ stored as planes of their own; None where a file's first page is a picture by itself.

    Three channels of one plane are red, green and blue. Any other number is refused: which of them were meant, nobody
    has said.
    """
    notes = first.file.imagej_metadata or {}
    count, *planes = (_whole(notes.get(name)) for name in ("channels", "slices", "frames"))
    if count < 2 or first.samples != 1:
        return None
    if count != 3 or planes != [1, 1] or not first.is_direct:
        stack = f" in {planes[0]} slices and {planes[1]} frames" if planes != [1, 1] else ""
        what = f"{count} channels of {first.dtype}{stack} (ImageJ); expected one plane of grey, or of red, green, blue"
        raise DataError(f"{what}: save it as RGB Color, or each channel by itself", file=first.path)
    pages = list_pages(first)[:3]
    if len(pages) == 1 and first.is_plain:
        size = first.shape[0] * first.shape[1] * first.dtype.itemsize
        pages = [Page(first.path, first.file, first.tags, shift=number * size) for number in range(3)]
    if len(pages) != 3 or any((page.shape, page.dtype) != (first.shape, first.dtype) for page in pages):
        raise DataError("3 channels (ImageJ), but its pages are not 3 alike: save it again", file=first.path)
    for page in pages:
        page.refuse_damaged()
    return Channels(tuple(pages))


def copy_plain(path: Path, pixels: Array, top: int, left: int, width: int, rows: PlainRows) -> bool:
    """Read (rows, columns) without looking at the header again; false where the file is another now, or unreadable."""
    try:
        with open_file(path) as stream:
            if status_of(stream) != (rows.size, rows.time):
                return False
            _copy(stream, pixels[:, :, None], rows.offset, top, left, width)
    except (DataError, OSError, ValueError):
        return False
    return True


def write_grey(
    path: Path, segments: Iterable[bytes], shape: Shape, dtype: np.dtype[Any], *, rows: int = 0, tile: int = 0
) -> None:
    """A grey TIFF of strips of `rows` rows, or of tiles of that side, each packed with zlib already: none is kept."""
    import tifffile

    layout: dict[str, Any] = {"tile": (tile, tile)} if tile else {"rowsperstrip": rows}
    tifffile.imwrite(
        path,
        iter(segments),
        shape=shape,
        dtype=dtype,
        photometric="minisblack",
        compression="zlib",
        metadata=None,
        software=False,
        **layout,
    )


def _checked(page: Page) -> Page:
    """The page whose numbers are numbers and whose lists can be lists of places; ValueError otherwise."""
    tags = page.tags
    tiff_codecs.refuse_unread_layout(tags, page.file)
    for name in _NUMBERS:
        if not isinstance(getattr(tags, name), int) or not 0 <= getattr(tags, name) < 2**32:
            raise ValueError(f"{name} is {str(getattr(tags, name))[:40]}")
    for place in (*tags.dataoffsets, *tags.databytecounts):
        if not isinstance(place, int) or not 0 <= place < 2**62:
            raise ValueError("strips or tiles at impossible places")
    if 0 in (*page.shape, *segment_shape(tags)):
        raise ValueError(f"{page.shape[0]}x{page.shape[1]} pixels")
    return page


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _copy(stream: BinaryIO, pixels: Array, offset: int, top: int, left: int, width: int) -> None:
    """Read (rows, columns, samples) of a picture whose rows lie one after the other from `offset` on."""
    size = pixels.shape[2] * pixels.itemsize
    step = len(pixels) if pixels.shape[1] == width and pixels.flags.c_contiguous else 1  # parts of rows one by one
    for row in range(0, len(pixels), step):
        stream.seek(offset + ((top + row) * width + left) * size)
        _read_into(stream, pixels[row : row + step])


def _read_into(stream: BinaryIO, pixels: Array) -> None:
    """One `read` call may give less than asked, at most 2 GB on Linux."""
    left = pixels.reshape(-1).view(np.uint8).data
    while left:
        count = stream.readinto(left)  # type: ignore[attr-defined]
        if not count:
            raise ValueError("it ends before its pixels do")
        left = left[count:]


def _paste(segment: Array, y: int, x: int, pixels: Array, top: int, left: int) -> None:
    """Lay what a strip or tile at (y, x) holds of the pixels in its place."""
    y0, y1 = max(top, y), min(top + pixels.shape[0], y + len(segment))
    x0, x1 = max(left, x), min(left + pixels.shape[1], x + segment.shape[1])
    pixels[y0 - top : y1 - top, x0 - left : x1 - left] = segment[y0 - y : y1 - y, x0 - x : x1 - x]


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"not a readable TIFF ({error}): copy it again", file=path)


def _damage(path: Path, error: Exception) -> DataError:
    return DataError(f"damaged, its pixels cannot be decoded ({error}): copy it again", file=path)
