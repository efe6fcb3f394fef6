"""Damage of PNG and JPEG files that decoders pass over in silence: missing ends, wrong checksums, lost pixels."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

from handlens.errors import DataError
from handlens.io import jpeg
from handlens.io.gate import open_file, refuse_parts
from handlens.io.orientation import UPRIGHT, of_exif

PNG_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type of a PNG to samples a pixel."""

_COMMENTS = (b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"tIME", b"pHYs")
"""Chunks that have no part in the pixels as they are read here; libpng prints what it thinks of them."""

_HEADER = b"IHDR"
_LARGEST_EXIF = 1 << 20
_STEP = 1 << 20  # bytes that are unpacked at once
_PIECE = 1 << 16  # bytes that are given at once: what is not used yet is copied
_SPARE = 1 << 16  # bytes after the last row that some programs write
_START = b"\x89PNG"


def refuse_many_parts(path: Path, size: int) -> None:
    """DataError where a PNG or JPEG has more before its pixels than any program writes: readers go through it all."""
    with open_file(path) as stream:
        start = stream.read(4)
        if start == _START:
            for kind, _, _ in _list_chunks(stream, size, path):
                if kind == b"IDAT":
                    return
        elif start.startswith(jpeg.START):
            jpeg.refuse_many_segments(stream, size, path)


def refuse_truncated(path: Path, kind: str, size: int) -> int:
    """DataError where the end is missing; otherwise how a PNG asks to be turned, found on the way."""
    turned = UPRIGHT
    with open_file(path) as stream:
        if kind == "PNG":
            chunks = list(_list_chunks(stream, size, path))
            whole = bool(chunks) and chunks[-1][0] == b"IEND"
            exif = next((_read_chunk(stream, *chunk) for chunk in chunks if chunk[0] == b"eXIf"), b"")
            turned = of_exif(exif)
        else:
            whole = jpeg.has_end_marker(stream, size)
    if not whole:
        raise DataError(f"truncated {kind} of {size:,} bytes, its end is missing: copy it again", file=path)
    return turned


def _list_chunks(stream: IO[bytes], size: int, path: Path) -> Iterator[tuple[bytes, int, int]]:
    """Kind, place and length of the chunks of a PNG up to its end; none may reach past the end of the file.

    Decoders make room for what a chunk claims. DataError where there are more of them than any program writes.
    """
    place, number = 8, 0
    while place + 12 <= size:
        number += 1
        refuse_parts(number, size, "chunks", path)
        stream.seek(place)
        start = stream.read(8)
        length = int.from_bytes(start[:4], "big")
        if not start[4:].isalpha() or place + 12 + length > size:
            return
        yield start[4:], place + 8, length
        if start[4:] == b"IEND":
            return
        place += 12 + length


def _read_chunk(stream: IO[bytes], kind: bytes, place: int, length: int) -> bytes:
    """The content of a small chunk; nothing where it is large, or its checksum is wrong."""
    if length > _LARGEST_EXIF:
        return b""
    stream.seek(place)
    content = stream.read(length)
    return content if stream.read(4) == zlib.crc32(kind + content).to_bytes(4, "big") else b""


def without_comments(path: Path, content: bytes) -> bytes:
    """A PNG without the chunks that libpng has something to print about, such as profiles of other colours."""
    parts, place = [], 0
    for kind, start, length in _list_chunks(BytesIO(content), len(content), path):
        if kind in _COMMENTS:
            parts.append(content[place : start - 8])
            place = start + length + 4
    return b"".join([*parts, content[place:]]) if parts else content


def refuse_damaged_png(path: Path, content: bytes) -> None:
    """DataError for what decoders only warn of, or nothing: wrong checksums, and pixels that stand apart.

    After a chunk of another kind the pixels are over: what follows is passed over.
    """
    if content[12:16] != _HEADER:
        raise DataError("damaged: it does not begin with its header: copy it again", file=path)
    pixels: list[memoryview] = []
    before = b""
    for kind, place, length in _list_chunks(BytesIO(content), len(content), path):
        view, end = memoryview(content)[place : place + length], place + length
        needed = kind[:1].isupper()  # the format's word for what pixels depend on
        if needed and zlib.crc32(view, zlib.crc32(kind)) != int.from_bytes(content[end : end + 4], "big"):
            what = f"damaged: the checksum of its {kind.decode()} at byte {place - 8:,} is wrong: copy it again"
            raise DataError(what, file=path)
        if kind == b"IDAT":
            if pixels and before != kind:
                what = f"damaged: its pixels go on at byte {place - 8:,} after their end: copy it again"
                raise DataError(what, file=path)
            pixels.append(view)
        before = kind
    _refuse_damaged_pixels(path, content[16:29], pixels)


def _refuse_damaged_pixels(path: Path, header: bytes, pixels: Sequence[memoryview]) -> None:
    """DataError where the compressed pixels do not end as their own checksum says: decoders stop at the last row."""
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    bits = header[8] * PNG_SAMPLES.get(header[9], 1)
    room = 2 * height * (width * bits // 8 + 2) + _SPARE  # interlaced rows have a few bytes more
    stream, made = zlib.decompressobj(), 0
    try:
        pieces = (view[start : start + _PIECE] for view in pixels for start in range(0, len(view), _PIECE))
        for view in (*pieces, memoryview(b"")):  # the last for what is still to come when all was given
            waiting, unpacked = view, _STEP
            while (waiting or unpacked == _STEP) and not stream.eof and made <= room:
                unpacked = len(stream.decompress(waiting, _STEP))
                waiting, made = memoryview(stream.unconsumed_tail), made + unpacked
    except zlib.error:
        what = "damaged: its pixels cannot be unpacked, or their checksum is wrong: copy it again"
        raise DataError(what, file=path) from None
    if made > room:
        raise DataError(f"damaged: more pixels than the {width}x{height} of its header: save it again", file=path)
    if not stream.eof:
        raise DataError("damaged: its pixels have no end: copy it again", file=path)
