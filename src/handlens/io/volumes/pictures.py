"""A stack as PNG or JPEG pictures, one a slice: what viewers and web pages give. A picture alone is a stack of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handlens.errors import DataError, Problem
from handlens.io.gate import warm
from handlens.io.images import read_header, read_image, shown
from handlens.io.volumes.stack import Array
from handlens.types import Shape

LUMINANCE = np.array((0.299, 0.587, 0.114), np.float32)
"""Weights of red, green and blue in grey (ITU-R BT.601)."""

COLOURED = 0.02
"""Mean difference of the channels, as a share of white, above which a picture has colours: JPEG changes grey a bit."""


@dataclass(frozen=True, slots=True)
class PictureSlices:
    """Slices in order, one picture for each; colours are read as grey. A picture is decoded as a whole."""

    paths: tuple[Path, ...]
    shape: Shape
    dtype: np.dtype[Any]

    @property
    def depth(self) -> int:
        return len(self.paths)

    @property
    def grain(self) -> int:
        return self.shape[0]

    def fill(self, band: Array, first: int, top: int, left: int) -> None:
        count, rows, columns = band.shape
        warm(self.paths[first : first + count])
        for path, plane in zip(self.paths[first : first + count], band, strict=True):
            grey = read_grey(path)
            if grey.shape != self.shape or grey.dtype != self.dtype:
                raise DataError("changed since the stack was opened: open it again", file=path)
            plane[:] = grey[top : top + rows, left : left + columns]


def read_grey(path: Path) -> Array:
    """A picture as (H, W), uint8 or uint16."""
    picture = read_image(path)
    if picture.ndim == 2:
        return picture
    return np.asarray(np.rint(picture[:, :, :3] @ LUMINANCE), picture.dtype)


def is_coloured(paths: Sequence[Path]) -> bool:
    """Whether the first of some pictures has colours, not grey stored as such."""
    if not paths or read_header(paths[0]).mode in ("L", "1", "I", "I;16", "I;16B", "LA"):
        return False
    picture = read_image(paths[0])
    if picture.ndim == 2:
        return False
    channels = picture[:, :, :3].astype(np.int32)
    return float((channels.max(axis=2) - channels.min(axis=2)).mean()) > COLOURED * np.iinfo(picture.dtype).max


def open_picture(path: Path) -> PictureSlices:
    """One picture as a stack of one slice."""
    header = read_header(path)
    dtype = np.dtype(np.uint16 if header.mode.startswith("I") else np.uint8)
    if header.mode == "F":
        raise DataError("floating-point pixels; a slice is uint8 or uint16: convert it", file=path)
    return PictureSlices((path,), header.shape, dtype)


def survey(numbered: list[tuple[int, Path]]) -> tuple[PictureSlices | None, list[Problem]]:
    """The stack of numbered pictures as far as it can be read, and every problem."""
    stack: PictureSlices | None = None
    found: list[Problem] = []
    for _, path in numbered:
        try:
            picture = open_picture(path)
        except DataError as error:
            found.append(Problem(error.what, path.name))
            continue
        if stack is None:
            stack = PictureSlices(tuple(path for _, path in numbered), picture.shape, picture.dtype)
        elif (picture.shape, picture.dtype) != (stack.shape, stack.dtype):
            what = f"{shown(picture.shape)} {picture.dtype}, but {stack.paths[0].name} is {shown(stack.shape)}"
            found.append(Problem(f"{what} {stack.dtype}: all slices of a stack are alike", path.name))
    return stack, found
