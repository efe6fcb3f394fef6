"""Slices of a stack copied once to a plain file in which a band lies in one piece: for stacks read again and again.

The file is named after what it was made from. It may be deleted at any time: the stack itself is read instead.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handlens.io.files import replacing
from handlens.io.volumes.stack import Array, Stack
from handlens.types import Shape

STEP = 64 << 20
"""Bytes that are copied at a time."""


@dataclass(frozen=True, slots=True)
class CachedSlices:
    """Slices `first` to `first + depth` of a stack, in a file by (row, slice, column)."""

    stack: Stack
    file: Path
    first: int
    depth: int
    dtype: np.dtype[Any]

    @property
    def shape(self) -> Shape:
        return self.stack.shape

    @property
    def grain(self) -> int:
        return 1

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.stack.paths

    def fill(self, band: Array, first: int, top: int, left: int) -> None:
        """Read from the file, or from the stack where it was deleted."""
        count, rows, columns = band.shape
        height, width = self.shape
        try:
            kept = np.memmap(self.file, self.dtype, "r", shape=(height, self.depth, width))
        except (OSError, ValueError):  # not there, or of another size
            start = self.first + first
            fresh = self.stack.read_band(top, top + rows, start, start + count, left=left, right=left + columns)
            band[:] = _reduce(fresh, self.dtype)
            return
        part = kept[top : top + rows, first : first + count, left : left + columns]
        band[:] = part.transpose(1, 0, 2)


def keep(stack: Stack, folder: Path, first: int, last: int, *, bits: int) -> Stack:
    """The slices `first` to `last`, the end excluded, as a stack that is read from a file in `folder`.

    `bits` is 8 or 16; 8 keeps the upper half of 16. The file is written where it is not there yet, whole or not at
    all. Its name changes with the stack's files, so an old one is never taken for a new one.
    """
    if bits not in (8, 16) or not 0 <= first < last <= stack.depth:
        raise ValueError(f"slices {first} to {last} with {bits} bits; the stack has {stack.depth} slices")
    dtype = np.dtype(np.uint8) if bits == 8 or stack.dtype == np.uint8 else stack.dtype
    source = CachedSlices(stack, folder / f"{_fingerprint(stack, first, last, dtype)}.rows", first, last - first, dtype)
    height, width = stack.shape
    size = height * (last - first) * width * dtype.itemsize
    if not source.file.is_file() or source.file.stat().st_size != size:
        _copy(source, first, last)
    return Stack(source)


def _copy(source: CachedSlices, first: int, last: int) -> None:
    height, width = source.shape
    line = (last - first) * width * source.stack.dtype.itemsize
    grain = source.stack.grain
    step = max(1, STEP // line // grain) * grain
    with replacing(source.file) as temporary, temporary.open("wb") as stream:
        for top in range(0, height, step):
            band = source.stack.read_band(top, min(top + step, height), first, last)
            stream.write(np.ascontiguousarray(_reduce(band, source.dtype).transpose(1, 0, 2)).data)


def _reduce(band: Array, dtype: np.dtype[Any]) -> Array:
    if band.dtype == dtype:
        return band
    return np.asarray(band >> 8, dtype)


def _fingerprint(stack: Stack, first: int, last: int, dtype: np.dtype[Any]) -> str:
    """Changes when a file of the stack does: its place, size or time."""
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in stack.paths]
    text = json.dumps([facts, stack.shape, str(stack.dtype), first, last, str(dtype)])
    return hashlib.sha256(text.encode()).hexdigest()[:24]
