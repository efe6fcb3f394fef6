"""What a JPEG is made of, segment by segment, and its faults that libjpeg passes over in silence or only warns of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.gate import refuse_parts

Array = npt.NDArray[Any]
Found = TypeVar("Found")

START = b"\xff\xd8"
_SCAN, _END = b"\xff\xda", b"\xff\xd9"
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # not a byte of pixels, nor a restart

_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # which way of packing the pixels
_PROGRESSIVE, _LOSSLESS, _ARITHMETIC = {0xC2, 0xC6}, {0xC3, 0xC7}, {*range(0xC9, 0xD0)}
_HUFFMAN, _AC = 0xC4, 0x10

MAX_SCANS = 100
"""Passes over the pixels of a JPEG: programs write some ten. Each takes a decoder over all pixels, even if empty."""

_COMMENT, _WORDS_OF_COLOURS = 0xFE, (0xE0, 0xEE)  # those of JFIF and of Adobe
_ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"  # a last byte says whether luma and chroma follow

_NOT_TAKEN = ("Could not determine subsampling", "Unsupported color conversion")
"""What TurboJPEG says of a sound file that it is not made for."""


def refuse_many_segments(stream: IO[bytes], size: int, path: Path) -> None:
    """DataError where more of them stand before the pixels than any program writes: readers go through them all."""
    place, number = 2, 0
    while (segment := _read_at(stream, place, 4))[:1] == b"\xff" and segment[:2] != _SCAN:
        number += 1
        refuse_parts(number, size, "segments", path)
        place += 1 if segment[1:2] == b"\xff" else 2 + int.from_bytes(segment[2:], "big")


def _read_at(stream: IO[bytes], place: int, size: int) -> bytes:
    stream.seek(place)
    return stream.read(size)


def has_end_marker(stream: IO[bytes], size: int) -> bool:
    """A JPEG ends with a marker. Telephones put a film after it, so the whole file is searched where it is not last."""
    stream.seek(max(0, size - 1024))
    tail = stream.read()
    if tail.rfind(_END) > tail.rfind(_SCAN):  # the end before a scan is a thumbnail's
        return True
    stream.seek(0)
    content = stream.read()
    return content.find(_END, _skip_segments(content)) >= 0


def _skip_segments(content: bytes) -> int:
    """Where the pixels of a JPEG begin: after the segments of its header, one of which may hold a whole thumbnail."""
    place = 2
    while content[place : place + 1] == b"\xff" and content[place : place + 2] != _SCAN:
        filler = content[place + 1 : place + 2] == b"\xff"
        place += 1 if filler else 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return place


def refuse_corrupt(path: Path, content: bytes) -> None:
    """DataError for what libjpeg only warns of: lost or misplaced markers, pixels that are made up.

    An eighth of the size does, as all of the file is read for it.
    """
    import simplejpeg

    def decode() -> None:
        space = "cmyk" if simplejpeg.decode_jpeg_header(content)[2] in ("CMYK", "YCCK") else "gray"
        simplejpeg.decode_jpeg(content, colorspace=space, min_factor=8)

    _decode_strictly(path, content, decode)


def decode(path: Path, content: bytes, space: str) -> Array | None:
    """The pixels as "GRAY" or "RGB", (rows, columns, samples); DataError for what libjpeg only warns of.

    Nothing where the colours lie in a way that TurboJPEG does not take. The pixels are those of libjpeg.
    """
    import simplejpeg

    def decode() -> Array:
        pixels: Array = simplejpeg.decode_jpeg(content, colorspace=space, fastdct=False, fastupsample=False)
        return pixels

    return _decode_strictly(path, content, decode)


def _decode_strictly(path: Path, content: bytes, decode: Callable[[], Found]) -> Found | None:
    """What a call of TurboJPEG gives, once the segments were looked at.

    Rare layouts of colours that it does not take are looked at in another way, which finds only a missing end.
    """
    _refuse_broken_segments(path, content)
    _refuse_many_scans(path, content)
    _refuse_missing_tables(path, content)
    try:
        return decode()
    except ValueError as error:
        said = str(error).rpartition("(): ")[2].strip()
        if not any(word in said for word in _NOT_TAKEN):
            raise DataError(f"damaged, the decoder says: {said}: copy it again", file=path) from None
    if _lacks_data(content):
        raise DataError("damaged: it ends before its pixels do: copy it again", file=path)
    return None


def without_tables_apart(tables: bytes, content: bytes, *, luma: bool) -> bytes:
    """A strip or tile of a TIFF, whose tables may stand apart, as a JPEG of its own.

    What its colours are, luma and chroma or red, green and blue, the TIFF says. So words of its own about that count as
    comments.
    """
    if tables and not (tables.startswith(START) and _END in tables):
        raise ValueError("JPEG: its tables cannot be read")
    if not content.startswith(START):
        raise ValueError("JPEG: a strip or tile does not begin with its mark")
    own = bytearray(content)
    for place in _list_segments(content):
        if own[place : place + 2] == _SCAN:
            break
        if own[place + 1] in _WORDS_OF_COLOURS:
            own[place + 1] = _COMMENT
    return START + _ADOBE + bytes([luma]) + tables[2 : tables.rfind(_END)] + own[2:]


def _refuse_broken_segments(path: Path, content: bytes) -> None:
    """DataError where one of the segments before the pixels does not begin where the one before it ends."""
    place, number = 2, 0
    while content[place : place + 2] != _SCAN:
        number += 1
        refuse_parts(number, len(content), "segments", path)
        length = int.from_bytes(content[place + 2 : place + 4], "big")
        filler = content[place : place + 2] == b"\xff\xff"
        if content[place : place + 1] != b"\xff" or not (filler or length >= 2):
            raise DataError(f"damaged: no segment at byte {place:,}: copy it again", file=path)
        place += 1 if filler else 2 + length


def _refuse_many_scans(path: Path, content: bytes) -> None:
    number = 0
    for found, place in enumerate(_list_markers(content)):
        refuse_parts(found, len(content), "segments", path)
        number += content[place : place + 2] == _SCAN
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
        if mark in _FRAMES:
            frame = mark
        elif mark == _HUFFMAN:
            tables.update(_list_huffman_tables(path, body, place))
        elif mark == _SCAN[1]:
            for table in _huffman_tables_of(body, frame) - tables:
                name = f"{'AC' if table & _AC else 'DC'} Huffman table {table & 15}"
                what = f"damaged: its pixels need {name}, which does not stand before them"
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
    first, second = (_decode_small(content[:end] + filler + _END) for filler in rubbish)
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
    while content[place : place + 1] == b"\xff" and content[place : place + 2] != _SCAN:
        filler = content[place + 1 : place + 2] == b"\xff"
        if not filler:
            yield place
        place += 1 if filler else 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    yield from (place for place in _list_markers(content) if content[place : place + 2] not in (_END, b""))


def _find_end(content: bytes) -> int:
    """Where the end marker of a JPEG's pixels is: tables between two scans may hold bytes that look like it."""
    *_, last = _list_markers(content)
    return last


def _list_markers(content: bytes) -> Iterator[int]:
    """Where the segments begin that follow the header, up to the end marker, or to the end of the file without one."""
    place = _skip_segments(content)
    yield place
    while content[place : place + 2] not in (_END, b""):
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
        found = _MARKER.search(content, place)
        place = found.start() if found else len(content)
        yield place
