"""What every stack can do, wherever its voxels lie: be read in bands of rows and parts of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from handlens.types import Shape

Array = npt.NDArray[Any]

DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
"""Contest scans have 16 bits, later ones 8; nothing else occurs."""


class VoxelSource(Protocol):
    """Voxels on the disk."""

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def depth(self) -> int: ...
    @property
    def grain(self) -> int:
        """Rows that are decoded together: bands that begin and end at multiples of it decode nothing twice."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that tell whether the stack has changed."""

    def fill(self, band: Array, first: int, top: int, left: int) -> None:
        """Read what begins at this voxel and is as large as `band`, (slices, rows, columns), into it."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Slices of one shape (height, width) and type, uint8 or uint16, in order."""

    source: VoxelSource

    @property
    def shape(self) -> Shape:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def depth(self) -> int:
        return self.source.depth

    @property
    def grain(self) -> int:
        """Rows that are decoded together: bands that begin and end at multiples of it decode nothing twice."""
        return self.source.grain

    @property
    def paths(self) -> tuple[Path, ...]:
        """The slices' files, or what describes the array."""
        return self.source.paths

    def read_band(
        self, top: int, bottom: int, first: int, last: int, *, left: int = 0, right: int | None = None
    ) -> Array:
        """Rows `top` to `bottom` of slices `first` to `last`, ends excluded, as (slices, rows, columns).

        Slices are counted from 0 in the stack, whatever their names say. `left` and `right` are columns; without
        them a band is as wide as the stack. An empty range gives an empty array. Beside the answer, memory holds one
        strip, tile or chunk.
        """
        height, width = self.shape
        right = width if right is None else right
        if not (0 <= top <= bottom <= height and 0 <= first <= last <= self.depth):
            raise ValueError(
                f"rows {top} to {bottom} of slices {first} to {last}; "
                f"the stack has {height} rows and {self.depth} slices"
            )
        if not 0 <= left <= right <= width:
            raise ValueError(f"columns {left} to {right}; the stack has {width}")
        band = np.empty((last - first, bottom - top, right - left), self.dtype)
        if band.size:
            self.source.fill(band, first, top, left)
        return band
