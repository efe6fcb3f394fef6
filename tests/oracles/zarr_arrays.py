"""Small Zarr arrays, read plainly: format 2 and 3, as they are or packed with zlib, gzip, checked by crc32c."""

import itertools
import json
import zlib

import google_crc32c
import numpy as np
from oracles.strict import UnsureError, demand, know

KINDS = {"uint8": "|u1", "uint16": "<u2", "|u1": "|u1", "<u2": "<u2", ">u2": ">u2"}


def decode(files):
    """(slices, rows, columns) of `files`, name to bytes."""
    for name, read in ((".zarray", _read_v2), ("zarr.json", _read_v3)):
        if name in files:
            try:
                page = json.loads(files[name])
            except (ValueError, RecursionError):
                demand(False, "JSON")
            demand(isinstance(page, dict), "JSON")
            try:
                return read(page, files)
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise UnsureError(f"description: {error!r}") from None
    raise UnsureError("no description")


def _read_v2(page, files):
    demand(page["zarr_format"] == 2, "format")
    know(page.get("filters") is None and page.get("dimension_separator", ".") == ".", "filters")
    packing = page["compressor"]
    know(packing is None or packing["id"] in ("zlib", "gzip"), "packing")
    demand(page["order"] in ("C", "F"), "order")
    unpack = {None: lambda data: data, "zlib": _zlib, "gzip": _gzip}[packing and packing["id"]]
    return _read(page, page["dtype"], page["chunks"], files, ".".join, unpack, page["order"])


def _read_v3(page, files):
    demand(page["zarr_format"] == 3 and page["node_type"] == "array", "format")
    keys = page["chunk_key_encoding"]
    know(keys["name"] == "default" and keys["configuration"]["separator"] == "/", "names")
    know(page["chunk_grid"]["name"] == "regular" and not page.get("storage_transformers"), "grid")
    first, *packings = page["codecs"]
    know(first["name"] == "bytes", "codecs")
    kind = page["data_type"]
    demand(kind in ("uint8", "uint16"), "type")
    endian = first.get("configuration", {}).get("endian", "little")
    demand(endian in ("little", "big"), "endian")
    stored = "|u1" if kind == "uint8" else ("<u2" if endian == "little" else ">u2")
    unpackers = [{"gzip": _gzip, "crc32c": _checked}.get(codec["name"]) for codec in reversed(packings)]
    know(None not in unpackers, "codecs")

    def unpack(data):
        for step in unpackers:
            data = step(data)
        return data

    chunk = page["chunk_grid"]["configuration"]["chunk_shape"]
    return _read(page, stored, chunk, files, lambda parts: "/".join(["c", *parts]), unpack, "C")


def _read(page, stored, chunk, files, name, unpack, order):
    know(isinstance(stored, str) and stored in KINDS, "type")
    dtype, shape, fill = np.dtype(KINDS[stored]), page["shape"], page["fill_value"]
    know(len(shape) == len(chunk) == 3, "axes")
    demand(all(type(side) is int and side > 0 for side in (*shape, *chunk)), "shape")
    know(max(shape) <= 64 and max(chunk) <= 64, "size")
    demand(fill is None or (type(fill) in (int, float) and 0 <= fill <= np.iinfo(dtype).max), "fill")
    counts = [-(-side // step) for side, step in zip(shape, chunk, strict=True)]
    whole = np.full(
        [count * step for count, step in zip(counts, chunk, strict=True)], fill or 0, dtype.newbyteorder("=")
    )
    for numbers in itertools.product(*map(range, counts)):
        data = files.get(name(list(map(str, numbers))))
        know(data is not None or fill is not None, "an absent chunk without a fill value")
        if data is None:
            continue
        data = unpack(data)
        demand(len(data) == int(np.prod(chunk)) * dtype.itemsize, "chunk")
        place = tuple(slice(number * step, (number + 1) * step) for number, step in zip(numbers, chunk, strict=True))
        whole[place] = np.frombuffer(data, dtype).reshape(chunk, order=order)
    return whole[tuple(slice(side) for side in shape)]


def _zlib(data):
    return _inflate(data, zlib.MAX_WBITS)


def _gzip(data):
    return _inflate(data, 31)


def _inflate(data, bits):
    stream = zlib.decompressobj(bits)
    try:
        content = stream.decompress(data, 10**6)
    except zlib.error:
        demand(False, "packing")
    demand(stream.eof, "packed stream is not whole")
    know(not stream.unused_data, "something follows")
    return content


def _checked(data):
    demand(len(data) >= 4 and google_crc32c.value(data[:-4]) == int.from_bytes(data[-4:], "little"), "checksum")
    return data[:-4]
