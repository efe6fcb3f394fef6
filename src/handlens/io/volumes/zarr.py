"""How Zarr arrays lie on the disk: chunks in files of a folder, format 2 and 3, sharded or not, and OME-Zarr groups.

Our own reader and no library: what a stack needs of the format is small, its codecs come with imagecodecs, which is
here for TIFF anyway, and the library would bring several packages more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from handlens.errors import DataError
from handlens.io.images import MAX_IMAGE_PIXELS, shown
from handlens.io.volumes.codecs import Codec, Undecodable, codec_of_v2, codecs_of_v3, decode
from handlens.io.volumes.stack import DTYPES, Array
from handlens.types import Shape

Triple = tuple[int, int, int]

MAX_CHUNK = 1 << 30
"""Bytes of the largest chunk that is decoded: it is held in memory whole."""

_NAMES = (".zarray", ".zgroup", "zarr.json")
_ABSENT = 2**64 - 1  # a shard's index says so of a chunk that is not stored


@dataclass(frozen=True, slots=True)
class Shard:
    """Many chunks in one file, with an index of their places: its size in voxels, and where the index lies."""

    shape: Triple
    at_end: bool
    checked: bool  # a checksum of 4 bytes follows the index


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """An array of (slices, rows, columns). `key` makes a chunk's file name from its numbers.

    `order` says how axes lie in a chunk; `flat` counts axes of length 1 before the three. A chunk that is not stored is
    full of `empty`: that is the format's meaning, no damage.
    """

    folder: Path
    description: Path
    size: Triple
    chunk: Triple
    stored: np.dtype[Any]
    order: tuple[int, ...]
    codecs: tuple[Codec, ...]
    shard: Shard | None
    prefix: str
    separator: str
    flat: int
    empty: int

    @property
    def shape(self) -> Shape:
        return self.size[1], self.size[2]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stored.newbyteorder("=")

    @property
    def depth(self) -> int:
        return self.size[0]

    @property
    def grain(self) -> int:
        return self.chunk[1]

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.description,)

    def fill(self, band: Array, first: int, top: int, left: int) -> None:
        """Read into `band`, one chunk after the other; a damaged one is named."""
        start = (first, top, left)
        ranges = [
            range(begin // side, -(-(begin + length) // side))
            for begin, length, side in zip(start, band.shape, self.chunk, strict=True)
        ]
        indices: dict[Path, Array | None] = {}
        for numbers in product(*ranges):
            here = [number * side for number, side in zip(numbers, self.chunk, strict=True)]
            low = [max(one, other) for one, other in zip(here, start, strict=True)]
            high = [
                min(one + side, other + length)
                for one, side, other, length in zip(here, self.chunk, start, band.shape, strict=True)
            ]
            target = band[tuple(slice(a - s, b - s) for a, b, s in zip(low, high, start, strict=True))]
            chunk = self._load(numbers, indices)
            part = tuple(slice(a - h, b - h) for a, b, h in zip(low, high, here, strict=True))
            target[:] = self.empty if chunk is None else chunk[part]

    def _load(self, numbers: tuple[int, ...], indices: dict[Path, Array | None]) -> Array | None:
        """One chunk, decoded; None where it is not stored."""
        path = self._path(numbers)
        try:
            data = self._read_whole(path) if self.shard is None else self._read_inner(path, numbers, indices)
            if data is None:
                return None
            content = decode(data, self.codecs, int(np.prod(self.chunk)) * self.stored.itemsize)
        except OSError as error:
            raise DataError(f"cannot be read ({error.strerror or error})", file=path) from None
        except Undecodable as error:
            raise DataError(f"damaged: {error}: copy it again", file=path) from None
        lying = [self.chunk[axis] for axis in self.order]
        return np.frombuffer(content, self.stored).reshape(lying).transpose(np.argsort(self.order))

    def _path(self, numbers: tuple[int, ...]) -> Path:
        if self.shard is not None:
            many = (whole // side for whole, side in zip(self.shard.shape, self.chunk, strict=True))
            numbers = tuple(number // count for number, count in zip(numbers, many, strict=True))
        words = [*([self.prefix] if self.prefix else []), *(str(number) for number in (*[0] * self.flat, *numbers))]
        return self.folder / self.separator.join(words)

    def _read_whole(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _read_inner(self, path: Path, numbers: tuple[int, ...], indices: dict[Path, Array | None]) -> bytes | None:
        """A chunk's bytes out of its shard."""
        if path not in indices:
            indices[path] = self._read_index(path)
        index = indices[path]
        if index is None or self.shard is None:
            return None
        counts = [whole // side for whole, side in zip(self.shard.shape, self.chunk, strict=True)]
        offset, length = (int(n) for n in index[tuple(n % c for n, c in zip(numbers, counts, strict=True))])
        if offset == length == _ABSENT:
            return None
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            if offset + length > stream.tell():
                raise Undecodable(
                    f"truncated; a chunk ends at byte {offset + length:,}, the file has {stream.tell():,}"
                )
            stream.seek(offset)
            return stream.read(length)

    def _read_index(self, path: Path) -> Array | None:
        """Offset and length of every chunk of a shard."""
        if self.shard is None or not path.exists():
            return None
        counts = [whole // side for whole, side in zip(self.shard.shape, self.chunk, strict=True)]
        length = 16 * int(np.prod(counts))
        with path.open("rb") as stream:
            if self.shard.at_end:
                tail = length + 4 * self.shard.checked
                if stream.seek(0, os.SEEK_END) < tail:
                    raise Undecodable("truncated; its index is not whole")
                stream.seek(-tail, os.SEEK_END)
            data = stream.read(length)
        if len(data) != length:
            raise Undecodable("truncated; its index is not whole")
        return np.frombuffer(data, "<u8").reshape(*counts, 2)


# --- descriptions -----------------------------------------------------------------------------------------------


def is_zarr(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _NAMES)


def open_array(folder: Path) -> ZarrArray:
    """The array of a folder, or the finest of an OME-Zarr group; DataError says why it cannot be used."""
    place = _find_array(folder)
    modern = place / "zarr.json"
    description = modern if modern.is_file() else place / ".zarray"
    page = _read_json(description)
    try:
        array = _read_v3(place, description, page) if description == modern else _read_v2(place, description, page)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        why = str(error) if isinstance(error, Undecodable) else f"{type(error).__name__}: {error}"
        raise DataError(f"not an array that can be read ({why}): write it again", file=description) from None
    if not any(_chunk_files(array)):
        raise DataError("no chunks beside it: copy the whole folder again", file=description)
    return array


def _chunk_files(array: ZarrArray) -> Iterator[str]:
    with os.scandir(array.folder) as entries:
        yield from (entry.name for entry in entries if not entry.name.startswith(".") and entry.name != "zarr.json")


def _find_array(folder: Path) -> Path:
    """The folder itself, or the first data set that an OME-Zarr group names."""
    if (folder / ".zarray").is_file():
        return folder
    modern = folder / "zarr.json"
    page = _read_json(modern) if modern.is_file() else {}
    if page.get("node_type") == "array":
        return folder
    attributes = page.get("attributes", {}) if page else _read_json(folder / ".zattrs", absent={})
    attributes = attributes.get("ome", attributes) if isinstance(attributes, dict) else {}
    path = "0"  # a group without words of its own: the finest level is called so by habit
    try:
        for scale in attributes.get("multiscales", [])[:1]:
            path = scale["datasets"][0]["path"]
            axes = [axis["name"] if isinstance(axis, dict) else axis for axis in scale.get("axes", "zyx")]
            if axes[-3:] != ["z", "y", "x"]:
                raise DataError(f"axes {axes}; the last three must be z, y, x: write it again", file=folder)
        parts = PurePosixPath(path).parts
    except (KeyError, TypeError, IndexError, AttributeError):
        raise DataError("its multiscales cannot be understood: write it again", file=folder) from None
    place = folder.joinpath(*parts)
    if ".." in parts or PurePosixPath(path).is_absolute() or not is_zarr(place):
        raise DataError(f"a group without an array {path!r}: give the array's folder", file=folder)
    return place


def _read_json(path: Path, absent: Any = None) -> Any:
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if absent is not None:
            return absent
        raise DataError("not there: copy the array again", file=path) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"not readable as JSON ({error}): copy it again", file=path) from None
    if not isinstance(page, dict):
        raise DataError("not a JSON object: copy it again", file=path)
    return page


def _read_v2(folder: Path, description: Path, page: dict[str, Any]) -> ZarrArray:
    if page.get("filters"):
        raise Undecodable(f"filter {page['filters'][0].get('id')!r} is not known")
    shape, chunk, flat = _check_shape(page["shape"], page["chunks"])
    order = (0, 1, 2) if page["order"] == "C" else (2, 1, 0)
    return ZarrArray(
        folder=folder,
        description=description,
        size=shape,
        chunk=chunk,
        stored=_check_type(np.dtype(page["dtype"])),
        order=order,
        codecs=codec_of_v2(page["compressor"]),
        shard=None,
        prefix="",
        separator=_check_separator(page.get("dimension_separator", ".")),
        flat=flat,
        empty=int(page.get("fill_value") or 0),
    )


def _read_v3(folder: Path, description: Path, page: dict[str, Any]) -> ZarrArray:
    grid, keys = page["chunk_grid"], page["chunk_key_encoding"]
    if grid["name"] != "regular" or keys["name"] not in ("default", "v2"):
        raise Undecodable(f"chunks laid out as {grid['name']!r} and named as {keys['name']!r}")
    shape, outer, flat = _check_shape(page["shape"], grid["configuration"]["chunk_shape"])
    codecs, shard, chunk = page["codecs"], None, outer
    if codecs[0]["name"] == "sharding_indexed" and len(codecs) == 1:
        inner = codecs[0]["configuration"]
        _, chunk, _ = _check_shape(page["shape"], inner["chunk_shape"])
        if any(whole % side for whole, side in zip(outer, chunk, strict=True)):
            raise Undecodable(f"shards of {outer} do not hold whole chunks of {chunk}")
        checked = any(codec["name"] == "crc32c" for codec in inner["index_codecs"])
        shard = Shard(outer, inner.get("index_location", "end") == "end", checked)
        codecs = inner["codecs"]
    order, endian, packed = codecs_of_v3(codecs, flat)
    modern = keys["name"] == "default"
    return ZarrArray(
        folder=folder,
        description=description,
        size=shape,
        chunk=chunk,
        stored=_check_type(np.dtype(page["data_type"])).newbyteorder(endian),
        order=order,
        codecs=packed,
        shard=shard,
        prefix="c" if modern else "",
        separator=_check_separator(keys.get("configuration", {}).get("separator", "/" if modern else ".")),
        flat=flat,
        empty=int(page.get("fill_value") or 0),
    )


def _check_shape(shape: list[int], chunk: list[int]) -> tuple[Triple, Triple, int]:
    """Both as slices, rows and columns, and how many axes of length 1 stood before them."""
    sides = [*shape, *chunk]
    if len(shape) < 3 or len(shape) != len(chunk) or not all(type(side) is int and side > 0 for side in sides):
        raise Undecodable(f"shape {shape} in chunks of {chunk}; expected slices, rows, columns")
    if any(side != 1 for side in (*shape[:-3], *chunk[:-3])):
        raise Undecodable(f"shape {shape}; axes before slices, rows and columns must have length 1")
    if shape[-2] * shape[-1] > MAX_IMAGE_PIXELS:
        raise Undecodable(f"{shown((shape[-2], shape[-1]))} pixels; a slice has 1 to {MAX_IMAGE_PIXELS:,} of them")
    if 2 * int(np.prod([int(side) for side in chunk[-3:]], dtype=object)) > MAX_CHUNK:
        raise Undecodable(f"chunks of {chunk} are too large: write it with smaller ones")
    first, second = tuple(shape[-3:]), tuple(chunk[-3:])
    return (first[0], first[1], first[2]), (second[0], second[1], second[2]), len(shape) - 3


def _check_type(stored: np.dtype[Any]) -> np.dtype[Any]:
    if stored.newbyteorder("=") not in DTYPES:
        raise Undecodable(f"{stored} voxels; expected uint8 or uint16")
    return stored


def _check_separator(separator: str) -> str:
    if separator not in (".", "/"):
        raise Undecodable(f"chunks named with {separator!r}")
    return separator
