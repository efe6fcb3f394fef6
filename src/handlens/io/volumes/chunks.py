"""The bytes of a Zarr chunk before they are unpacked: which packings are trusted, and that none makes too much.

The library would call any codec that a description names, one of which runs code from the file (pickle), and would
unpack whatever comes out. So names are checked against a list, and sizes before the library sees the bytes.
"""

from __future__ import annotations

import asyncio
import bz2
import lzma
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlens.errors import DataError
from handlens.io import gate
from handlens.io.gate import RemotePath, unreadable

if TYPE_CHECKING:
    from zarr.storage import LocalStore

MAX_CHUNK = 1 << 30
"""Bytes of the largest chunk that is decoded: it is held in memory whole."""

_OF_V2 = ("blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma")
_OF_V3 = ("blosc", "zstd", "gzip", "crc32c")
_DEFLATE_RATIO = 1_032  # deflate cannot pack better
_STEP = 1 << 20  # bytes that are unpacked at a time to count them
_ZSTD_BLOCK = 1 << 17  # bytes that a block of Zstandard becomes at the most
_ZSTD_REPEATED, _ZSTD_PACKED = 1, 2  # kinds of its blocks; 0 is stored as it is
_SLACK = 1 << 16  # what a packing may add to bytes that do not pack


class Undecodable(ValueError):  # noqa: N818 - it is told as the end of a sentence
    """What is wrong with an array or a chunk, for a person."""


MAX_CODECS = 16
"""Programs list three or four. Each works on every chunk."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Codecs from bytes to the file, in order of writing; `size` are the bytes of a chunk before them.

    `sharded` counts the chunks that lie in one file, 0 where each is a file of its own.
    """

    codecs: tuple[str, ...]
    size: int
    sharded: int = 0


def packing_of_v2(compressor: Any, size: int) -> Packing:
    """The packing that format 2 names; none for null."""
    if compressor is None:
        return Packing((), size)
    if compressor["id"] not in _OF_V2:
        raise Undecodable(f"compressor {compressor['id']!r} is not known; use one of {', '.join(_OF_V2)}")
    return Packing((compressor["id"],), size)


def packing_of_v3(codecs: Sequence[Any], size: int, sharded: int = 0) -> Packing:
    """The packings that format 3 lists after those that lay out the voxels."""
    if len(codecs) > MAX_CODECS:
        raise Undecodable(f"{len(codecs):,} codecs, one after the other; at most {MAX_CODECS} are undone")
    left = [codec["name"] for codec in codecs]
    while left and left[0] == "transpose":
        left.pop(0)
    if not left or left[0] != "bytes":
        raise Undecodable(f"codec {left[0] if left else ''!r} is not known")
    endian = (
        next(codec for codec in codecs if codec["name"] == "bytes").get("configuration", {}).get("endian", "little")
    )
    if endian not in ("little", "big"):
        raise Undecodable(f"endian {endian!r}; expected 'little' or 'big'")
    for name in left[1:]:
        if name not in _OF_V3:
            raise Undecodable(f"codec {name!r} is not known; use one of {', '.join(_OF_V3)}")
    return Packing(tuple(left[1:]), size, sharded)


def refuse_too_much(data: bytes, packing: Packing) -> None:
    """Undecodable where a chunk's bytes, unpacked, are known to be more or fewer than they must be."""
    if "crc32c" in packing.codecs[-1:]:
        data = data[:-4]
    name = next((name for name in reversed(packing.codecs) if name != "crc32c"), None)
    if name in _ANNOUNCED:
        given = _ANNOUNCED[name](data)
        if given is not None and given != packing.size:
            raise Undecodable(f"it announces {given:,} bytes where a chunk has {packing.size:,}")
        if given is None and name == "zstd" and _zstd_most(data) > 4 * packing.size + 2 * _ZSTD_BLOCK:
            raise Undecodable(f"it can hold more than the {packing.size:,} bytes of a chunk")
    elif name in _STREAMS and (name in ("bz2", "lzma") or len(data) * _DEFLATE_RATIO > MAX_CHUNK):
        _count(name, data, packing.size)


def chunk_store(folder: Path, packing: Packing) -> LocalStore:
    """The folder for the library: regular files only, and every chunk looked at before it is unpacked."""
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    class ChunkStore(LocalStore):
        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            path = folder / key
            asked = None
            if isinstance(byte_range, RangeByteRequest):
                asked = (byte_range.start, byte_range.end)
            elif isinstance(byte_range, SuffixByteRequest):
                asked = (-byte_range.suffix, 0)
            elif isinstance(byte_range, OffsetByteRequest):
                raise NotImplementedError("no codec here asks for the rest of a file")
            threads = gate.threads_for(folder)
            if threads is None:
                data = _read(path, packing, asked)
            else:  # several chunks are asked for at the same time
                data = await asyncio.get_running_loop().run_in_executor(threads, _read, path, packing, asked)
            return None if data is None else (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    return ChunkStore(folder, read_only=True)


def _read(path: Path, packing: Packing, asked: tuple[int, int] | None) -> bytes | None:
    """A chunk, a shard or a part of it; None where it is not stored."""
    try:
        if asked is None and isinstance(path, RemotePath):  # in one request, without asking first whether it is there
            gate.read_if_there(path, most=_largest(packing))
        if not gate.is_there(path) and not path.is_dir():
            return None
        with gate.open_file(path) as stream:
            data = _read_part(path, stream, packing, asked)
        is_index = packing.sharded and asked is not None and (asked[1] == 0 or len(data) == _index_size(packing, asked))
        if not is_index and not (packing.sharded and asked is None):
            refuse_too_much(data, packing)
    except OSError as error:
        raise unreadable(path, error) from None
    except Undecodable as error:
        raise DataError(f"damaged: {error}: copy it again", file=path) from None
    return data


def _read_part(path: Path, stream: Any, packing: Packing, asked: tuple[int, int] | None) -> bytes:
    length, largest = gate.status_of(stream)[0], _largest(packing)
    start, end = asked or (0, length)
    if start < 0:  # counted from the end
        start, end = length + start, length
    if length < 16 * packing.sharded:
        raise Undecodable("truncated; its index is not whole")
    if not 0 <= start <= end <= length:
        raise Undecodable(f"truncated; a part of it ends at byte {end:,}, the file has {length:,}")
    if end - start > largest:
        raise Undecodable(f"{end - start:,} bytes, packed, where a chunk has {packing.size:,}")
    gate.announce(path, [(start, end)])
    stream.seek(start)
    parts = []
    while start < end:  # one call gives 2 GB at most
        part = stream.read(end - start)
        if not part:
            raise Undecodable("truncated while it was read")
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _largest(packing: Packing) -> int:
    """Bytes of a chunk's or shard's file at the most."""
    return (2 * packing.size + _SLACK) * max(1, packing.sharded)


def _index_size(packing: Packing, asked: tuple[int, int]) -> int:
    """Bytes of a shard's index where it lies at the start; its checksum follows."""
    return 16 * packing.sharded + (asked[1] - asked[0] - 16 * packing.sharded == 4) * 4 if asked[0] == 0 else -1


def _zstd_size(data: bytes) -> int | None:
    """What the header of a frame says; None where it does not."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd":
        return None
    flags = data[4]
    single, width = flags >> 5 & 1, (0, 2, 4, 8)[flags >> 6]
    width = width or single
    place = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
    if not width:
        return None
    return int.from_bytes(data[place : place + width], "little") + (256 if width == 2 else 0)


def _zstd_most(data: bytes) -> int:
    """The most bytes that the blocks of a frame can become: those that say how many, and 128 KiB for each other."""
    flags = data[4] if len(data) > 5 else 0
    place, most, last = 5 + (1 - (flags >> 5 & 1)) + (0, 1, 2, 4)[flags & 3], 0, False
    while not last and place + 3 <= len(data):
        header = int.from_bytes(data[place : place + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        most += size if kind < _ZSTD_PACKED else _ZSTD_BLOCK
        place += 3 + (1 if kind == _ZSTD_REPEATED else size)
    return most


def _number(place: int) -> Callable[[bytes], int]:
    return lambda data: int.from_bytes(data[place : place + 4], "little")


_ANNOUNCED: dict[str | None, Callable[[bytes], int | None]] = {
    "blosc": _number(4),
    "lz4": _number(0),
    "zstd": _zstd_size,
}
_STREAMS: dict[str | None, Callable[[], Any]] = {
    "zlib": zlib.decompressobj,
    "gzip": lambda: zlib.decompressobj(31),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}


def _count(name: str | None, data: bytes, size: int) -> None:
    """Unpack in steps and keep nothing; Undecodable as soon as there is too much."""
    stream, made = _STREAMS[name](), 0
    try:
        while not stream.eof and made <= size:
            part = stream.decompress(data, _STEP)
            data = getattr(stream, "unconsumed_tail", b"")
            if not part and not data:
                break
            made += len(part)
    except (zlib.error, OSError, lzma.LZMAError, EOFError) as error:
        raise Undecodable(f"{name} cannot unpack it ({error})") from None
    if made > size:
        raise Undecodable(f"more than the {size:,} bytes of a chunk")
