"""NumPy array files: checked against their header before anything is allocated; pickles are refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.images import file_size, shown

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
        with path.open("rb") as stream:
            if stream.read(6) != b"\x93NUMPY":  # np.load would take it for a pickle or an archive
                raise ValueError("it does not start like one")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of old Pythons
            mapped = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # damaged headers are parsed as Python and raise all kinds
        raise DataError(f"not a readable .npy array ({error}): save it again with numpy.save", file=path) from None
    if mapped.offset + mapped.nbytes != size:
        raise DataError(
            f"the header says {shown(mapped.shape)} {mapped.dtype} ({mapped.offset + mapped.nbytes:,} bytes), "
            f"the file has {size:,}: save it again",
            file=path,
        )
    return mapped
