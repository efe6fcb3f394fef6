"""NumPy array files: checked against their header before anything is allocated; pickles are refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.gate import file_size, open_file
from handlens.io.images import shown

Array = npt.NDArray[Any]


def read_npy_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array file; refuses pickles and files whose size does not fit their header."""
    mapped = _map_npy(path)
    return mapped.shape, mapped.dtype


def read_npy(path: Path) -> Array:
    """The array of a file, checked against its header before anything is allocated."""
    return np.array(_map_npy(path))


def _map_npy(path: Path) -> Array:
    size = file_size(path)
    try:
        with open_file(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of old Pythons
            mapped = _map(stream)
    except DataError:
        raise
    except Exception as error:  # damaged headers are parsed as Python and raise all kinds
        raise DataError(f"not a readable .npy array ({error}): save it again with numpy.save", file=path) from None
    if mapped.offset + mapped.nbytes != size:
        raise DataError(
            f"the header says {shown(mapped.shape)} {mapped.dtype} ({mapped.offset + mapped.nbytes:,} bytes), "
            f"the file has {size:,}: save it again",
            file=path,
        )
    return mapped


def _map(stream: BinaryIO) -> np.memmap[Any, np.dtype[Any]]:
    """The array of an open file; ValueError where its header is none, or needs Python objects."""
    if stream.read(6) != b"\x93NUMPY":  # np.load would take it for a pickle or an archive
        raise ValueError("it does not start like one")
    stream.seek(0)
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the format")
    shape, fortran, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return np.memmap(stream, dtype, "r", stream.tell(), shape, "F" if fortran else "C")
