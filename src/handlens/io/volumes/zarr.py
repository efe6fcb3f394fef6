"""A stack as a Zarr array, format 2 or 3, sharded or not, or as the finest level of an OME-Zarr group.

Chunks are found, checked and unpacked by the zarr library; this file says which arrays are a stack, keeps a chunk that
claims too much from filling the memory, and names the file that is damaged.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from handlens.errors import DataError, HandlensError
from handlens.io import gate
from handlens.io.extras import need
from handlens.io.images import MAX_IMAGE_PIXELS, shown
from handlens.io.volumes.chunks import MAX_CHUNK, Packing, Undecodable, chunk_store, packing_of_v2, packing_of_v3
from handlens.io.volumes.stack import DTYPES, Array
from handlens.types import Shape

if TYPE_CHECKING:
    import zarr

Triple = tuple[int, int, int]

MAX_SLICES = 1_000_000
"""Deeper than any scan: a larger number is damage."""

_NAMES = (".zarray", ".zgroup", "zarr.json")
_LARGEST_DESCRIPTION = 1 << 22
_LONGEST_REASON = 300  # letters


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """An array of (slices, rows, columns) in a folder; `text` is its description, as it was read and checked.

    `flat` counts axes of length 1 before the three. A chunk that is not stored is full of the array's fill value: that
    is the format's meaning, no damage. Of a sharded array, `outer` is the shard, otherwise the chunk.
    """

    folder: Path
    description: Path
    text: str
    size: Triple
    chunk: Triple
    outer: Triple
    dtype: np.dtype[Any]
    packing: Packing
    flat: int

    @property
    def shape(self) -> Shape:
        return self.size[1], self.size[2]

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
        """Read into `band`; a damaged chunk is named."""
        start = (first, top, left)
        array = _opened(self.folder, self.text, self.packing)
        if np.prod(self.outer) * self.dtype.itemsize <= MAX_CHUNK // 16:  # the library holds up to ten at once
            try:
                self._read(array, band, start)
                return
            except Exception:  # codecs raise all kinds; which chunk it was, is found below
                pass
        for place, size in self._chunks(start, band.shape):
            target = band[tuple(slice(low - s, low - s + n) for low, s, n in zip(place, start, size, strict=True))]
            try:
                self._read(array, target, place)
            except (DataError, MemoryError):
                raise
            except Exception as error:
                why = " ".join(str(error).split()) or type(error).__name__
                raise DataError(f"damaged: {why}: copy it again", file=self._file(place)) from None

    def _read(self, array: zarr.Array[Any], target: Array, start: tuple[int, ...]) -> None:
        ends = (slice(low, low + n) for low, n in zip(start, target.shape, strict=True))
        where = (*[slice(0, 1)] * self.flat, *ends)
        if array.dtype != target.dtype:  # of the other byte order
            target[:] = np.asarray(array[where]).reshape(target.shape)
            return
        from zarr.core.buffer import default_buffer_prototype

        room: Any = target[(None,) * self.flat]
        array.get_basic_selection(where, out=default_buffer_prototype().nd_buffer.from_ndarray_like(room))

    def _chunks(self, start: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[tuple[Triple, Triple]]:
        """Start and size of what the band has of each chunk or shard."""
        ranges = [
            [
                (max(low, number * side), min(low + n, (number + 1) * side))
                for number in range(low // side, -(-(low + n) // side))
            ]
            for low, n, side in zip(start, shape, self.outer, strict=True)
        ]
        for (z, z1), (y, y1), (x, x1) in product(*ranges):
            yield (z, y, x), (z1 - z, y1 - y, x1 - x)

    def _file(self, place: Triple) -> Path:
        """The file of the chunk or shard that holds this voxel."""
        array = _opened(self.folder, self.text, self.packing)
        numbers = (low // side for low, side in zip(place, self.outer, strict=True))
        return self.folder / array.metadata.encode_chunk_key((*[0] * self.flat, *numbers))


@lru_cache(maxsize=16)
def _opened(folder: Path, text: str, packing: Packing) -> zarr.Array[Any]:
    """The library's array of a description that was checked; cheap to make again in another process."""
    import zarr.storage

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about formats that may change
        return zarr.Array.from_dict(zarr.storage.StorePath(chunk_store(folder, packing)), json.loads(text))


# --- descriptions -----------------------------------------------------------------------------------------------


def is_zarr(folder: Path) -> bool:
    """Whether a folder describes itself as an array or a group of arrays."""
    return any(gate.is_there(folder / name) for name in _NAMES)


def open_array(folder: Path) -> ZarrArray:
    """The array of a folder, or the finest of an OME-Zarr group; DataError says why it cannot be used."""
    place = _find_array(folder)
    modern = place / "zarr.json"
    description = modern if gate.is_there(modern) else place / ".zarray"
    page = _read_json(description)
    try:
        need("zarr", "a Zarr array")
        array = _read_v3(place, description, page) if description == modern else _read_v2(place, description, page)
        _refuse_other(array, _opened(place, array.text, array.packing))
    except HandlensError as error:
        raise DataError(str(error), file=description) from None
    except Exception as error:  # the library raises all kinds
        why = str(error) if isinstance(error, Undecodable) else f"{type(error).__name__}: {error}"
        why = why if len(why) <= _LONGEST_REASON else f"{why[:_LONGEST_REASON]}..."  # it quotes the file
        raise DataError(f"not an array that can be read ({why}): write it again", file=description) from None
    if not isinstance(folder, gate.RemotePath):  # a server may list none, or millions
        _refuse_no_chunks(array)
    return array


def _refuse_other(array: ZarrArray, opened: zarr.Array[Any]) -> None:
    """The library must have understood what we did."""
    if opened.shape[-3:] != array.size or opened.dtype.newbyteorder("=") != array.dtype:
        raise Undecodable(f"{opened.shape} {opened.dtype} after reading")


def _refuse_no_chunks(array: ZarrArray) -> None:
    """DataError where nothing in the folder has the name of a chunk, as the description says that they are called."""
    key = _opened(array.folder, array.text, array.packing).metadata.encode_chunk_key((0,) * (array.flat + 3))
    name = key.partition("/")[0]
    called = re.compile(re.escape(name).replace("0", r"\d+"))
    if not any(called.fullmatch(each) for each, _ in gate.list_folder(array.folder)):
        what = f"no chunks beside it that are called like {key}: copy the whole folder again"
        raise DataError(what, file=array.description)


def _find_array(folder: Path) -> Path:
    """The folder itself, or the first data set that an OME-Zarr group names."""
    if gate.is_there(folder / ".zarray"):
        return folder
    modern = folder / "zarr.json"
    page = _read_json(modern) if gate.is_there(modern) else {}
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
    if not gate.is_there(path):
        if absent is not None:
            return absent
        raise DataError("not there: copy the array again", file=path)
    try:
        page = json.loads(gate.read_bytes(path, most=_LARGEST_DESCRIPTION).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not readable as JSON ({error}): copy it again", file=path) from None
    if not isinstance(page, dict):
        raise DataError("not a JSON object: copy it again", file=path)
    return page


def _check_format(page: dict[str, Any], expected: int) -> None:
    """A file name says which format it is; what stands in it must not say another."""
    if page.get("zarr_format", expected) != expected:
        raise Undecodable(f"zarr_format {page['zarr_format']!r}; expected {expected}")


def _read_v2(folder: Path, description: Path, page: dict[str, Any]) -> ZarrArray:
    _check_format(page, 2)
    if page.get("filters"):
        raise Undecodable(f"filter {page['filters'][0].get('id')!r} is not known")
    shape, chunk, flat = _check_shape(page["shape"], page["chunks"])
    if page["order"] not in ("C", "F"):
        raise Undecodable(f"order {page['order']!r}; expected 'C' or 'F'")
    _check_separator(page.get("dimension_separator", "."))
    if type(page["dtype"]) is not str:
        raise Undecodable(f"dtype {page['dtype']!r}")
    stored = _check_type(np.dtype(page["dtype"]))
    _check_fill(page.get("fill_value"), stored)
    packing = packing_of_v2(page["compressor"], int(np.prod(chunk)) * stored.itemsize)
    page = {"filters": None, "fill_value": 0, "dimension_separator": "."} | page | {"zarr_format": 2}
    page["fill_value"] = page["fill_value"] or 0
    return ZarrArray(folder, description, json.dumps(page), shape, chunk, chunk, stored, packing, flat)


def _read_v3(folder: Path, description: Path, page: dict[str, Any]) -> ZarrArray:
    _check_format(page, 3)
    grid, keys = page["chunk_grid"], page["chunk_key_encoding"]
    if grid["name"] != "regular" or keys["name"] not in ("default", "v2"):
        raise Undecodable(f"chunks laid out as {grid['name']!r} and named as {keys['name']!r}")
    _check_separator(keys.get("configuration", {}).get("separator", "/" if keys["name"] == "default" else "."))
    shape, outer, flat = _check_shape(page["shape"], grid["configuration"]["chunk_shape"])
    codecs, chunk, sharded = page["codecs"], outer, 0
    if codecs[0]["name"] == "sharding_indexed" and len(codecs) == 1:
        inner = codecs[0]["configuration"]
        _, chunk, _ = _check_shape(page["shape"], inner["chunk_shape"])
        if any(whole % side for whole, side in zip(outer, chunk, strict=True)):
            raise Undecodable(f"shards of {outer} do not hold whole chunks of {chunk}")
        packing_of_v3(inner["index_codecs"], 0)
        codecs, sharded = inner["codecs"], int(np.prod(outer)) // int(np.prod(chunk))
    stored = _check_type(np.dtype(str(page["data_type"])))
    _check_fill(page.get("fill_value"), stored)
    packing = packing_of_v3(codecs, int(np.prod(chunk)) * stored.itemsize, sharded)
    page = page | {"zarr_format": 3, "node_type": "array", "attributes": {}, "fill_value": page.get("fill_value") or 0}
    return ZarrArray(folder, description, json.dumps(page), shape, chunk, outer, stored, packing, flat)


def _check_shape(shape: list[int], chunk: list[int]) -> tuple[Triple, Triple, int]:
    """Both as slices, rows and columns, and how many axes of length 1 stood before them."""
    sides = [*shape, *chunk]
    if len(shape) < 3 or len(shape) != len(chunk) or not all(type(side) is int and side > 0 for side in sides):
        raise Undecodable(f"shape {shape} in chunks of {chunk}; expected slices, rows, columns")
    if any(side != 1 for side in (*shape[:-3], *chunk[:-3])):
        raise Undecodable(f"shape {shape}; axes before slices, rows and columns must have length 1")
    if shape[-2] * shape[-1] > MAX_IMAGE_PIXELS:
        raise Undecodable(f"{shown((shape[-2], shape[-1]))} pixels; a slice has 1 to {MAX_IMAGE_PIXELS:,} of them")
    if shape[-3] > MAX_SLICES:
        raise Undecodable(f"{shape[-3]:,} slices; a stack has 1 to {MAX_SLICES:,}")
    if 2 * int(np.prod([int(side) for side in chunk[-3:]], dtype=object)) > MAX_CHUNK:
        raise Undecodable(f"chunks of {chunk} are too large: write it with smaller ones")
    first, second = tuple(shape[-3:]), tuple(chunk[-3:])
    return (first[0], first[1], first[2]), (second[0], second[1], second[2]), len(shape) - 3


def _check_type(stored: np.dtype[Any]) -> np.dtype[Any]:
    if stored.newbyteorder("=") not in DTYPES:
        raise Undecodable(f"{stored} voxels; expected uint8 or uint16")
    return stored.newbyteorder("=")


def _check_fill(value: Any, stored: np.dtype[Any]) -> None:
    if value is None:
        return
    if type(value) not in (int, float) or not 0 <= value <= np.iinfo(stored).max or value != int(value):
        raise Undecodable(f"fill value {value!r}; expected a whole number that {stored} holds")


def _check_separator(separator: str) -> str:
    if separator not in (".", "/"):
        raise Undecodable(f"chunks named with {separator!r}")
    return separator
