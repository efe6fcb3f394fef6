"""How the strips and tiles of a TIFF are packed: undone by the libtiff that comes with Pillow, a few at a time.

Packed bytes are packed alike whatever the pixels mean. So a few strips or tiles, laid one below the other, make a
small TIFF of grey bytes around them, which Pillow decodes in one call: LZW, PackBits, LZMA and Zstandard without a
second copy of every codec. Deflate is undone by zlib itself and JPEG by TurboJPEG, which are stricter. The rarer
compressions need imagecodecs, the extra `codecs`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io import jpeg

if TYPE_CHECKING:
    import tifffile

Array = npt.NDArray[Any]

UNCOMPRESSED = 1
FAX = (2, 3, 4)  # CCITT: one bit a pixel
OLD_JPEG, JPEG = 6, 7
GENERAL = (5, 8, 32773, 32946, 34925, 50000)  # LZW, deflate, PackBits, deflate by its first number, LZMA, Zstandard

DEFLATE = (8, 32946)
_FILLING = 1 << 20

SEPARATE = 2
"""A TIFF's word for one plane after another; otherwise the samples of a pixel lie together."""

_RGB, _YCBCR = 2, 6
_SHORT, _LONG, _BYTES = 3, 4, 7  # how a TIFF calls the types of its tags
_WHOLE = {1, _SHORT, _LONG, 16}  # numbers from 0 on, of 1, 2, 4 and 8 bytes
_LAYOUT = {256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 322, 323, 324, 325, 338, 339}
_MOST_TAGS = 4096
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def is_known(page: tifffile.TiffPage) -> bool:
    """Whether the strips or tiles of a page can be decoded here: by Pillow, or by imagecodecs where it is installed."""
    return _is_ours(page) or page.compression in _others()


def refuse_unknown(page: tifffile.TiffPage, path: Path) -> None:
    """DataError with what to install, for a compression that cannot be decoded here."""
    if not is_known(page):
        kind = getattr(page.compression, "name", page.compression)
        what = f"its compression ({kind}) is not read here: save it uncompressed or as deflate"
        raise DataError(f"{what}, or pip install 'handlens[codecs]'", file=path)


def decode(path: Path, page: tifffile.TiffPage, indices: Sequence[int], packed: Sequence[bytes]) -> Array:
    """Neighbouring strips or tiles, one below the other, as (rows, width, samples).

    DataError or ValueError where they are damaged.

    All but the last have the same number of rows. Planes that lie apart have one sample.
    """
    rows = [segment_rows(page, index) for index in indices]
    if not _is_ours(page):
        return _decode_others(page, indices, packed, rows)
    if page.fillorder == 2:
        packed = [data.translate(_MIRRORED) for data in packed]
    if page.compression == JPEG:
        return np.concatenate([_decode_jpeg(path, page, *each) for each in zip(packed, rows, strict=True)])
    return _as_samples(page, page.parent.byteorder, _unpack(page, packed, rows), sum(rows))


def refuse_unread_layout(page: tifffile.TiffPage, file: tifffile.TiffFile) -> None:
    """ValueError where the directory has a tag of the layout twice, or one that could not be read: tifffile guesses."""
    layout, stream = file.tiff, file.filehandle
    stream.seek(page.offset)
    (count,) = struct.unpack(layout.tagnoformat, stream.read(layout.tagnosize))
    content = stream.read(min(count, _MOST_TAGS) * layout.tagsize)
    seen = set()
    for place in range(0, len(content) - layout.tagsize + 1, layout.tagsize):
        code, kind = struct.unpack_from(layout.byteorder + "HH", content, place)
        if code not in _LAYOUT:
            continue
        if code not in page.tags or kind not in _WHOLE or not isinstance(page.tags[code].value, int | tuple):
            raise ValueError(f"tag {code}, which says how the pixels lie, cannot be read")
        if code in seen:
            raise ValueError(f"tag {code}, which says how the pixels lie, is there twice")
        seen.add(code)


def segment_shape(page: tifffile.TiffPage) -> tuple[int, int]:
    """Height and width of a tile, or of a strip, which is as wide as the page."""
    if page.is_tiled:
        return page.tilelength, page.tilewidth
    return min(page.rowsperstrip, page.imagelength), page.imagewidth


def segment_rows(page: tifffile.TiffPage, index: int) -> int:
    """Rows of one strip or tile: the last strip of a plane may have fewer than the others."""
    height = segment_shape(page)[0]
    if page.is_tiled:
        return height
    strips = -(-page.imagelength // height)
    return min(height, page.imagelength - index % strips * height)


def segment_samples(page: tifffile.TiffPage) -> int:
    return 1 if page.planarconfig == SEPARATE else int(page.samplesperpixel)


def row_bytes(page: tifffile.TiffPage) -> int:
    """Bytes in a row of a strip or tile; a row begins with a new byte."""
    return -(-segment_shape(page)[1] * segment_samples(page) * int(page.bitspersample) // 8)


def _is_ours(page: tifffile.TiffPage) -> bool:
    if page.compression == JPEG:
        return page.bitspersample == 8 and (
            segment_samples(page) == 1 or (segment_samples(page) == 3 and page.photometric in (_RGB, _YCBCR))
        )
    if page.compression in FAX:
        return page.bitspersample == 1 and segment_samples(page) == 1
    return page.compression in (UNCOMPRESSED, *GENERAL) and page.bitspersample in (1, 2, 4, 8, 16)


def _others() -> Sequence[int]:
    """What tifffile decodes with imagecodecs, where that is installed."""
    import tifffile

    try:
        import imagecodecs  # noqa: F401
    except ImportError:
        return ()
    return tifffile.TIFF.DECOMPRESSORS  # type: ignore[return-value]


def _decode_others(page: Any, indices: Sequence[int], packed: Sequence[bytes], rows: Sequence[int]) -> Array:
    parts = []
    for index, data, height in zip(indices, packed, rows, strict=True):
        segment, _, _ = page.decode(data, index, jpegtables=page.jpegtables)
        if segment is None or segment.shape[1] < height:
            raise ValueError(f"strip or tile {index} holds too few pixels")
        parts.append(segment[0, :height])
    return np.concatenate(parts)


def _as_samples(page: tifffile.TiffPage, byteorder: str, unpacked: bytes, rows: int) -> Array:
    """Bytes to samples in this machine's byte order, differences added up."""
    bits, width, samples = int(page.bitspersample), segment_shape(page)[1], segment_samples(page)
    if bits < 8:
        packed = np.frombuffer(unpacked, np.uint8).reshape(rows, -1)
        shifts = np.array(range(8 - bits, -1, -bits), np.uint8)
        values = (packed[:, :, None] >> shifts & np.uint8(2**bits - 1)).reshape(rows, -1)
        few: Array = values[:, : width * samples].reshape(rows, width, samples)
        return few.astype(np.bool_) if bits == 1 else few
    stored = np.dtype(page.dtype or "V").newbyteorder(byteorder)  # type: ignore[arg-type]
    pixels = np.frombuffer(unpacked, stored).reshape(rows, width, samples)
    pixels = pixels.astype(stored.newbyteorder("="), copy=False)
    return pixels.cumsum(axis=1, dtype=pixels.dtype) if page.predictor == 2 else pixels


def _unpack(page: tifffile.TiffPage, packed: Sequence[bytes], rows: Sequence[int]) -> bytes:
    width = row_bytes(page)
    if page.compression == UNCOMPRESSED:
        for data, height in zip(packed, rows, strict=True):
            if len(data) < height * width:
                raise ValueError("a strip or tile holds too few pixels")
        return b"".join(data[: height * width] for data, height in zip(packed, rows, strict=True))
    if page.compression in DEFLATE:
        return b"".join(_inflate(data, height * width) for data, height in zip(packed, rows, strict=True))
    if page.compression not in FAX:
        return _decode_with_pillow(page, packed, rows, [(256, _LONG, width), (258, _SHORT, 8), (277, _SHORT, 1)])
    options = [(code, _LONG, int(page.tags[code].value)) for code in (292, 293) if code in page.tags]
    return _decode_with_pillow(
        page, packed, rows, [(256, _LONG, page.imagewidth), (258, _SHORT, 1), (277, _SHORT, 1), *options]
    )


def _inflate(data: bytes, size: int) -> bytes:
    """What a deflated strip or tile holds, to the end of its stream and with its checksum, which libtiff leaves out."""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, size)
        while not stream.eof and stream.unconsumed_tail:  # a last strip may be filled up to the others' height
            stream.decompress(stream.unconsumed_tail, _FILLING)
    except zlib.error as error:
        raise ValueError(f"deflate: {error}") from None
    if len(content) < size or not stream.eof:
        raise ValueError("deflate: a strip or tile ends before its pixels do")
    return content


def _decode_jpeg(path: Path, page: tifffile.TiffPage, packed: bytes, rows: int) -> Array:
    samples, width = segment_samples(page), segment_shape(page)[1]
    luma = samples == 3 and page.photometric == _YCBCR
    content = jpeg.without_tables_apart(bytes(page.jpegtables or b""), packed, luma=luma)
    pixels = jpeg.decode(path, content, "RGB" if samples == 3 else "GRAY")
    if pixels is None:
        pixels = _decode_rare_jpeg(page, packed, rows)
    if pixels.shape[0] < rows or pixels.shape[1:] != (width, samples):
        found = "x".join(map(str, pixels.shape))
        raise ValueError(f"JPEG: a strip or tile is {found}, expected {rows}x{width}x{samples}")
    return pixels[:rows]


def _decode_rare_jpeg(page: tifffile.TiffPage, packed: bytes, rows: int) -> Array:
    samples, width = segment_samples(page), segment_shape(page)[1]
    tags: list[tuple[int, int, Any]] = [(256, _LONG, width), (258, _SHORT, (8,) * samples), (277, _SHORT, samples)]
    if page.jpegtables:
        tags.append((347, _BYTES, bytes(page.jpegtables)))
    if samples == 3:
        tags.append((262, _SHORT, int(page.photometric)))
        if 530 in page.tags:
            tags.append((530, _SHORT, tuple(page.tags[530].value)))
    content = _decode_with_pillow(page, [packed], [rows], tags)
    return np.frombuffer(content, np.uint8).reshape(rows, width, samples)


def _decode_with_pillow(
    page: tifffile.TiffPage, packed: Sequence[bytes], rows: Sequence[int], tags: list[tuple[int, int, Any]]
) -> bytes:
    """Pixels of a small TIFF made of these strips, row by row."""
    from PIL import TiffImagePlugin

    height = sum(rows)
    tags = [(257, _LONG, height), (259, _SHORT, int(page.compression)), (278, _LONG, rows[0]), *tags]
    if not any(code == 262 for code, _, _ in tags):
        tags.append((262, _SHORT, 1))
    with TiffImagePlugin.TiffImageFile(BytesIO(_small_tiff(tags, packed))) as picture:  # no limit of pixels, as in open
        try:
            return picture.tobytes("raw", "1" if picture.mode == "1" else picture.mode)
        except OSError as error:
            raise ValueError(f"{getattr(page.compression, 'name', page.compression)}: {error}") from None


def _small_tiff(tags: list[tuple[int, int, Any]], strips: Sequence[bytes]) -> bytes:
    """Header, directory, long values, strips: all that a TIFF needs."""
    tags = sorted([*tags, (273, _LONG, (0,) * len(strips)), (279, _LONG, tuple(map(len, strips)))])
    start = 8 + 2 + 12 * len(tags) + 4
    sizes = {_SHORT: "H", _LONG: "I"}
    values = {}
    for code, kind, value in tags:
        numbers = value if isinstance(value, tuple | bytes) else (value,)
        values[code] = (
            numbers,
            bytes(numbers) if kind == _BYTES else struct.pack(f"<{len(numbers)}{sizes[kind]}", *numbers),
        )
    long_values = sum(len(packed) for _, packed in values.values() if len(packed) > 4)
    places = np.cumsum([start + long_values, *map(len, strips)])[:-1].tolist()
    values[273] = (values[273][0], struct.pack(f"<{len(strips)}I", *places))
    directory, tail = struct.pack("<H", len(tags)), b""
    for code, kind, _ in tags:
        numbers, content = values[code]
        inline = content.ljust(4, b"\0") if len(content) <= 4 else struct.pack("<I", start + len(tail))
        tail += content if len(content) > 4 else b""
        directory += struct.pack("<HHI", code, kind, len(numbers)) + inline
    return b"".join([b"II*\0\x08\0\0\0", directory, b"\0\0\0\0", tail, *strips])
