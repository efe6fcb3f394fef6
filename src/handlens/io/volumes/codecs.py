"""How the bytes of a Zarr chunk are packed: the codecs that occur, undone with imagecodecs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Codec = str
"""The name of a packing: blosc, zstd, gzip, zlib, lz4, bz2, lzma, crc32c."""

_OF_V2 = ("blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma")
_OF_V3 = ("blosc", "zstd", "gzip", "crc32c")


class Undecodable(ValueError):  # noqa: N818 - it is told as the end of a sentence
    """What is wrong with an array or a chunk, for a person."""


def codec_of_v2(compressor: Any) -> tuple[Codec, ...]:
    """The packing that format 2 names; none for null."""
    if compressor is None:
        return ()
    if compressor["id"] not in _OF_V2:
        raise Undecodable(f"compressor {compressor['id']!r} is not known; use one of {', '.join(_OF_V2)}")
    return (compressor["id"],)


def codecs_of_v3(codecs: Sequence[Any], flat: int) -> tuple[tuple[int, ...], Literal["<", ">"], tuple[Codec, ...]]:
    """How axes lie in a chunk of format 3, its byte order, and its packings in order of writing.

    `flat` axes of length 1 stand before the three.
    """
    order: tuple[int, ...] = (0, 1, 2)
    left = list(codecs)
    while left and left[0]["name"] == "transpose":
        axes = [axis - flat for axis in left.pop(0)["configuration"]["order"] if axis >= flat]
        if sorted(axes) != [0, 1, 2]:
            raise Undecodable(f"axes transposed as {axes}")
        order = tuple(order[axis] for axis in axes)
    if not left or left[0]["name"] != "bytes":
        raise Undecodable(f"codec {left[0]['name'] if left else ''!r} is not known")
    endian = left.pop(0).get("configuration", {}).get("endian", "little")
    names = tuple(codec["name"] for codec in left)
    for name in names:
        if name not in _OF_V3:
            raise Undecodable(f"codec {name!r} is not known; use one of {', '.join(_OF_V3)}")
    return order, "<" if endian == "little" else ">", names


def decode(data: bytes, codecs: Sequence[Codec], size: int) -> bytes:
    """The `size` bytes of a chunk; Undecodable where there are more or fewer, or they cannot be read."""
    for name in reversed(codecs):
        if name == "crc32c":
            data = data[:-4]  # the packings inside have checks of their own
            continue
        data = _unpack(name, data, size)
    if len(data) != size:
        raise Undecodable(f"{len(data):,} bytes where a chunk has {size:,}")
    return data


def _unpack(name: Codec, data: bytes, size: int) -> bytes:
    """No more than `size` bytes are made, whatever the data says: a small file must not fill the memory."""
    import imagecodecs

    try:
        if name == "blosc":
            return bytes(imagecodecs.blosc_decode(data, out=_announced(data, 4, size), numthreads=1))
        if name == "lz4":
            return bytes(imagecodecs.lz4_decode(data, header=True, out=_announced(data, 0, size)))
        if name in ("bz2", "lzma"):  # these two stop in silence where the room ends
            return bytes(getattr(imagecodecs, f"{name}_decode")(data, out=size + 1))
        return bytes(getattr(imagecodecs, f"{name}_decode")(data, out=size))
    except (RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, Undecodable):
            raise
        raise Undecodable(f"{name} cannot unpack it ({error})") from None


def _announced(data: bytes, place: int, size: int) -> int:
    """The size that a header gives for what it packs."""
    given = int.from_bytes(data[place : place + 4], "little")
    if len(data) < place + 4 or given != size:
        raise Undecodable(f"it announces {given:,} bytes where a chunk has {size:,}")
    return size
