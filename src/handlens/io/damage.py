"""Damage of PNG and JPEG files that decoders pass over in silence: missing ends, wrong checksums, lost pixels."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.gate import open_file
from handlens.io.orientation import UPRIGHT, of_exif

Array = npt.NDArray[Any]

PNG_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type of a PNG to samples a pixel."""

MAX_SCANS = 100
"""Passes over the pixels of a JPEG: programs write some ten. Each takes a decoder over all pixels, even if empty."""

_SPARE_PARTS, _BYTES_A_PART = 100_000, 1024
"""Chunks or segments that a file may have at any size, and one more for so many bytes: each costs time and memory, even
an empty one. Programs write pixels in chunks of 4 kB and more."""

_COMMENTS = (b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"tIME", b"pHYs")
"""Chunks that have no part in the pixels as they are read here; libpng prints what it thinks of them."""

_HEADER = b"IHDR"
_LARGEST_EXIF = 1 << 20
_STEP = 1 << 20  # bytes that are unpacked at once
_PIECE = 1 << 16  # bytes that are given at once: what is not used yet is copied
_SPARE = 1 << 16  # bytes after the last row that some programs write
_PNG_START, _JPEG_START = b"\x89PNG", b"\xff\xd8"
_JPEG_SCAN, _JPEG_END = b"\xff\xda", b"\xff\xd9"
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # not a byte of pixels, nor a restart

_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # which way of packing the pixels
_PROGRESSIVE, _LOSSLESS, _ARITHMETIC = {0xC2, 0xC6}, {0xC3, 0xC7}, {*range(0xC9, 0xD0)}
_JPEG_TABLES, _AC = 0xC4, 0x10

_NOT_TAKEN = ("Could not determine subsampling", "Unsupported color conversion")
"""What TurboJPEG says of a sound file that it is not made for."""


def refuse_many_parts(path: Path, size: int) -> None:
    """DataError where a PNG or JPEG has more before its pixels than any program writes: readers go through it all."""
    with open_file(path) as stream:
        start = stream.read(4)
        if start == _PNG_START:
            for kind, _, _ in _list_chunks(stream, size, path):
                if kind == b"IDAT":
                    return
        elif start.startswith(_JPEG_START):
            place, number = 2, 0
            while (segment := _read_at(stream, place, 4))[:1] == b"\xff" and segment[:2] != _JPEG_SCAN:
                number += 1
                _refuse_parts(number, size, "segments", path)
                place += 1 if segment[1:2] == b"\xff" else 2 + int.from_bytes(segment[2:], "big")


def _read_at(stream: IO[bytes], place: int, size: int) -> bytes:
    stream.seek(place)
    return stream.read(size)


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
            whole = _has_end_marker(stream, size)
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
        _refuse_parts(number, size, "chunks", path)
        stream.seek(place)
        start = stream.read(8)
        length = int.from_bytes(start[:4], "big")
        if not start[4:].isalpha() or place + 12 + length > size:
            return
        yield start[4:], place + 8, length
        if start[4:] == b"IEND":
            return
        place += 12 + length


def _refuse_parts(number: int, size: int, what: str, path: Path) -> None:
    if number > _SPARE_PARTS + size // _BYTES_A_PART:
        raise DataError(f"more than {number - 1:,} {what} in {size:,} bytes: save it again", file=path)


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


def _has_end_marker(stream: IO[bytes], size: int) -> bool:
    """A JPEG ends with a marker. Telephones put a film after it, so the whole file is searched where it is not last."""
    stream.seek(max(0, size - 1024))
    tail = stream.read()
    if tail.rfind(_JPEG_END) > tail.rfind(_JPEG_SCAN):  # the end before a scan is a thumbnail's
        return True
    stream.seek(0)
    content = stream.read()
    return content.find(_JPEG_END, _skip_segments(content)) >= 0


def _skip_segments(content: bytes) -> int:
    """Where the pixels of a JPEG begin: after the segments of its header, one of which may hold a whole thumbnail."""
    place = 2
    while content[place : place + 1] == b"\xff" and content[place : place + 2] != _JPEG_SCAN:
        filler = content[place + 1 : place + 2] == b"\xff"
        place += 1 if filler else 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return place


def refuse_corrupt_jpeg(path: Path, content: bytes) -> None:
    """DataError for what libjpeg only warns of: lost or misplaced markers, pixels that are made up.

    An eighth of the size does, as all of the file is read for it. Rare layouts of colours that TurboJPEG does not take
    are looked at in another way, which finds only a missing end.
    """
    import simplejpeg

    _refuse_broken_segments(path, content)
    _refuse_many_scans(path, content)
    _refuse_missing_tables(path, content)
    try:
        space = "cmyk" if simplejpeg.decode_jpeg_header(content)[2] in ("CMYK", "YCCK") else "gray"
        simplejpeg.decode_jpeg(content, colorspace=space, min_factor=8)
    except ValueError as error:
        said = str(error).rpartition("(): ")[2].strip()
        if not any(word in said for word in _NOT_TAKEN):
            raise DataError(f"damaged, the decoder says: {said}: copy it again", file=path) from None
        if _lacks_data(content):
            raise DataError("damaged: it ends before its pixels do: copy it again", file=path) from None


def _refuse_broken_segments(path: Path, content: bytes) -> None:
    """DataError where one of the segments before the pixels does not begin where the one before it ends."""
    place, number = 2, 0
    while content[place : place + 2] != _JPEG_SCAN:
        number += 1
        _refuse_parts(number, len(content), "segments", path)
        length = int.from_bytes(content[place + 2 : place + 4], "big")
        filler = content[place : place + 2] == b"\xff\xff"
        if content[place : place + 1] != b"\xff" or not (filler or length >= 2):
            raise DataError(f"damaged: no segment at byte {place:,}: copy it again", file=path)
        place += 1 if filler else 2 + length


def _refuse_many_scans(path: Path, content: bytes) -> None:
    number = 0
    for found, place in enumerate(_list_markers(content)):
        _refuse_parts(found, len(content), "segments", path)
        number += content[place : place + 2] == _JPEG_SCAN
        if number > MAX_SCANS:
            raise DataError(f"more than {MAX_SCANS} passes over its pixels: save it again", file=path)


def _refuse_missing_tables(path: Path, content: bytes) -> None:
    """DataError where a pass uses a Huffman table that no segment before it has: decoders take one they know by heart.

    Frames of a Motion JPEG film leave their tables out. They cannot be told from a photograph that lost its own.
    """
    frame, tables = 0, set[int]()
    for place in _list_segments(content):
        mark = content[place + 1]
        body = content[place + 4 : place + 2 + int.from_bytes(content[place + 2 : place + 4], "big")]
        if mark in _JPEG_FRAMES:
            frame = mark
        elif mark == _JPEG_TABLES:
            tables.update(_list_huffman_tables(path, body, place))
        elif mark == _JPEG_SCAN[1]:
            for table in _huffman_tables_of(body, frame) - tables:
                name = f"{'AC' if table & _AC else 'DC'} Huffman table {table & 15}"
                what = f"damaged: its pixels at byte {place:,} need {name}, which is not in the file"
                raise DataError(f"{what}: copy it again, or save it again with a program that shows it", file=path)


def _list_huffman_tables(path: Path, body: bytes, place: int) -> Iterator[int]:
    """Class and number of the tables in a segment, whose lengths must add up to its own."""
    start = 0
    while start < len(body):
        end = start + 17 + sum(body[start + 1 : start + 17])
        if end > len(body):
            raise DataError(f"damaged: the Huffman table at byte {place:,} is cut: copy it again", file=path)
        yield body[start]
        start = end


def _huffman_tables_of(body: bytes, frame: int) -> set[int]:
    """Class and number of the tables that a pass uses."""
    chosen = body[2 : 1 + 2 * body[0] : 2] if len(body) > 3 else b""
    dc, ac = {each >> 4 for each in chosen}, {_AC | each & 15 for each in chosen}
    if frame in _ARITHMETIC or not chosen:
        return set()
    if frame in _LOSSLESS:
        return dc
    if frame not in _PROGRESSIVE:
        return dc | ac
    if body[-3]:  # where its coefficients begin
        return ac
    return set() if body[-1] >> 4 else dc  # further bits of DC are stored as they are


def _lacks_data(content: bytes) -> bool:
    """Whether a decoder runs out of data before the last pixel of a JPEG, though its end marker is there.

    So two kinds of rubbish are put before the end marker: where all pixels are there it is never looked at, otherwise
    the two pictures differ.
    """
    end = _find_end(content)
    rubbish = (b"\x5a\xa5\x33\xcc" * 16, b"\x12\xef\x77\x08" * 16)
    first, second = (_decode_small(content[:end] + filler + _JPEG_END) for filler in rubbish)
    return first is None or second is None or not np.array_equal(first, second)


def _decode_small(content: bytes) -> Array | None:
    from PIL import JpegImagePlugin

    try:
        with JpegImagePlugin.JpegImageFile(BytesIO(content)) as picture:  # no limit of pixels, as in open
            if not picture.info.get("progressive"):
                picture.draft("L", (1, 1))
            return np.asarray(picture)
    except (OSError, SyntaxError, ValueError):
        return None


def _list_segments(content: bytes) -> Iterator[int]:
    """Where the segments of a JPEG begin, those before its pixels and those among them, up to its end."""
    place = 2
    while content[place : place + 1] == b"\xff" and content[place : place + 2] != _JPEG_SCAN:
        filler = content[place + 1 : place + 2] == b"\xff"
        if not filler:
            yield place
        place += 1 if filler else 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    yield from (place for place in _list_markers(content) if content[place : place + 2] not in (_JPEG_END, b""))


def _find_end(content: bytes) -> int:
    """Where the end marker of a JPEG's pixels is: tables between two scans may hold bytes that look like it."""
    *_, last = _list_markers(content)
    return last


def _list_markers(content: bytes) -> Iterator[int]:
    """Where the segments begin that follow the header, up to the end marker, or to the end of the file without one."""
    place = _skip_segments(content)
    yield place
    while content[place : place + 2] not in (_JPEG_END, b""):
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
        found = _JPEG_MARKER.search(content, place)
        place = found.start() if found else len(content)
        yield place
