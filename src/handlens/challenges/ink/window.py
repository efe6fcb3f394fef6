"""What a network sees of a stack: a few layers about the sheet's surface, the sheet made flat, as bytes.

Layers are a 24th of the stack thick, as the sheet is in the same place of thin and thick scans; a layer is the mean of
the slices that it covers. Every pixel follows from its own column of voxels, so the height of bands changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.sheet import Depths, Side, find_sheet, flat_sheet
from handlens.errors import HandlensError
from handlens.io import volumes
from handlens.types import Shape

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

USUAL_SLICES = 24
"""Slices of a stack whose layers are one slice thick; thicker stacks are finer scans of the same sheet."""

FEW = 8
"""Slices below which no sheet is looked for: the middle of so thin a stack is taken for the surface.

Eight slices, a third of the usual stack, are about as thick as a sheet: fewer do not reach from papyrus to air.
"""

REGION = 64
"""Side in pixels of the regions in which the surface is found; between their middles it is followed."""

ROWS = 16
"""Rows of a region that are read to find its surface."""

TALL = 1024
"""Rows of a compressed strip or tile from which a stack is copied before it is read in bands."""

STEPS = 16
"""Steps in a slice: how exactly the window follows the surface."""

AT_ONCE = 16384
"""Pixels that are made flat together."""


@dataclass(frozen=True, slots=True)
class Window:
    """Layers that are looked at: `below` the surface, in the sheet, and `above` it; `side` is where the air is.

    `spare` layers more are kept at both ends in training, to move the window by.
    """

    below: int = 11
    above: int = 8
    side: str = "last"
    spare: int = 0

    def __post_init__(self) -> None:
        if self.side not in ("first", "last"):
            raise HandlensError(f"side is {self.side!r}; expected first or last")
        for name in ("below", "above"):
            if not 1 <= getattr(self, name) <= 64:
                raise HandlensError(f"{name} is {getattr(self, name)}; expected 1 to 64")

    @property
    def layers(self) -> int:
        return self.below + self.above + 2 * self.spare

    @classmethod
    def of(cls, fields: object) -> Window | None:
        """The window that a model's plan names among its fields; None where it is no window."""
        given = fields if isinstance(fields, Mapping) else {}
        try:
            return cls(int(given["below"]), int(given["above"]), str(given["side"]))
        except (KeyError, TypeError, ValueError, HandlensError):
            return None


@dataclass(frozen=True, slots=True)
class Surface:
    """A fragment whose sheet has been found: bands of the flattened window can be read from it."""

    stack: volumes.Stack
    mask: Mask
    depths: Depths
    window: Window

    @property
    def shape(self) -> Shape:
        return self.stack.shape

    @property
    def grain(self) -> int:
        return self.stack.grain

    def read(self, top: int, bottom: int) -> Bytes:
        """Rows of the window, (layers, rows, width); 0 outside the mask. Only slices that are needed are read."""
        inside = self.mask[top:bottom]
        answer = np.zeros((self.window.layers, *inside.shape), np.uint8)
        if not inside.any():
            return answer
        thick = round(STEPS * max(1.0, self.stack.depth / USUAL_SLICES))
        lowest = self._lowest(top, bottom, thick)
        ends = int(lowest[inside].min()), int(lowest[inside].max()) + thick * self.window.layers
        first, last = (int(np.clip(end // STEPS, 0, self.stack.depth - 1)) for end in ends)
        band = self.stack.read_band(top, bottom, first, last + 1)
        _average(band, lowest - first * STEPS, thick, answer)
        if self.window.side == "first":
            answer = answer[::-1]
        answer *= inside
        return answer

    def _lowest(self, top: int, bottom: int, thick: int) -> npt.NDArray[np.int32]:
        """Where the window begins at every pixel, in steps; slice 3 reaches from 3 to 4 times STEPS."""
        surface = (self.depths.at(top, bottom, 0, self.shape[1]) + np.float32(0.5)) * np.float32(STEPS)
        under = self.window.above if self.window.side == "first" else self.window.below
        lowest = np.rint(surface).astype(np.int32) - np.int32((under + self.window.spare) * thick)
        return np.asarray(lowest, np.int32)


def _average(band: npt.NDArray[Any], lowest: npt.NDArray[np.int32], thick: int, answer: Bytes) -> None:
    """Means over layers of `thick` steps, from `lowest` on, in bytes; beyond the band its end slices go on.

    All in whole numbers: a sum's rounding would depend on where the band begins. A few rows at a time, so that what
    is computed on the way stays in the processor's cache.
    """
    count, rows, width = band.shape
    room = (count + 2 * len(answer) * (thick // STEPS + 1)) * STEPS * np.iinfo(band.dtype).max
    kind = np.int32 if room < 2**31 else np.int64
    height = max(1, AT_ONCE // width)
    for top in range(0, rows, height):
        some = slice(top, top + height)
        _average_rows(np.ascontiguousarray(band[:, some]), lowest[some], thick, answer[:, some], kind)


def _average_rows(
    band: npt.NDArray[Any], lowest: npt.NDArray[np.int32], thick: int, answer: Bytes, kind: type[np.signedinteger[Any]]
) -> None:
    """`_average` of a band, computed in integers of this kind."""
    total = np.cumsum(band, axis=0, dtype=kind).reshape(-1)
    flat, pixels, top = band.reshape(-1), lowest.size, len(band) - 1
    columns = np.arange(pixels, dtype=np.intp).reshape(lowest.shape)
    unit = kind(thick << 8 if band.dtype == np.uint16 else thick)
    before = None
    for layer in range(len(answer) + 1):
        place = lowest + np.int32(layer * thick)
        number = np.clip(place // STEPS, 0, top)
        index = number * np.intp(pixels) + columns
        here = total.take(index) * kind(STEPS) + (place - number * STEPS - STEPS) * flat.take(index).astype(kind)
        if before is not None:
            answer[layer - 1] = (here - before) // unit
        before = here


def copy_tall(stack: volumes.Stack, folder: Path | None) -> volumes.Stack:
    """The same stack, copied to a folder first where its slices can only be decoded whole."""
    if folder is None or stack.grain <= TALL:
        return stack
    return volumes.keep(stack, folder, 0, stack.depth, bits=16)


def find_surface(stack: volumes.Stack, mask: Mask, window: Window) -> Surface:
    """The sheet of a fragment, found in regions of all of it; its slices are read in part.

    A stack of few slices has its surface in the middle. Beyond its first and last slice these go on.
    """
    if stack.depth < FEW:
        return Surface(stack, mask, flat_sheet(stack.shape, stack.depth // 2 - 0.5, region=REGION), window)
    side: Side = "first" if window.side == "first" else "last"
    depths = find_sheet(stack, side=side, region=REGION, mask=mask, rows=ROWS)
    return Surface(stack, mask, depths, window)
