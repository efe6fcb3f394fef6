"""A volume that is in memory already, as a stack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.io.volumes.stack import Stack
from handlens.types import Shape


@dataclass(frozen=True, slots=True, eq=False)
class ArraySlices:
    """A (slices, H, W) array of uint8 or uint16."""

    array: npt.NDArray[Any]
    grain: int = 1
    paths: tuple[Path, ...] = ()

    @property
    def shape(self) -> Shape:
        return self.array.shape[1], self.array.shape[2]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def depth(self) -> int:
        return len(self.array)

    def fill(self, band: npt.NDArray[Any], first: int, top: int, left: int) -> None:
        count, rows, columns = band.shape
        band[:] = self.array[first : first + count, top : top + rows, left : left + columns]


def open_array(array: npt.NDArray[Any]) -> Stack:
    """The array as a stack; nothing is copied."""
    return Stack(ArraySlices(array))
