"""Slice stacks as row bands, never whole: TIFF slices, Zarr and OME-Zarr, read alike.

A real stack has 65 slices and 5 to 18 GB. Opening one reads headers only; a band reads only the strips, tiles or
chunks that it overlaps.
"""

from __future__ import annotations

from pathlib import Path

from handlens.errors import DataError, Problem, describe
from handlens.io.volumes import pictures, tiff, zarr
from handlens.io.volumes.cache import keep
from handlens.io.volumes.stack import DTYPES, Stack

__all__ = [
    "DTYPES",
    "Stack",
    "find_volume",
    "is_coloured",
    "is_volume",
    "keep",
    "open_picture",
    "open_stack",
    "problems",
]


def open_stack(folder: Path, *, from_zero: bool = True) -> Stack:
    """The stack of a folder, headers only; DataError lists what is wrong with it.

    A folder has slices `00.tif`, `01.tif` ..., numbered from 0 without a gap, or is a Zarr array or an OME-Zarr
    group. Where it is not there, the same name with `.zarr` is looked for. Without `from_zero` the first slice may
    have any number. Where there is no TIFF, slices may be PNG or JPEG pictures.
    """
    stack, found = _survey(folder, from_zero)
    if stack is None or found:
        raise DataError(describe("not a usable stack of slices", found), file=find_volume(folder) or folder)
    return stack


def open_picture(path: Path) -> Stack:
    """One picture, PNG, JPEG or TIFF, as a stack of one slice; colours are read as grey."""
    return Stack(pictures.open_picture(path))


def is_coloured(stack: Stack) -> bool:
    """Whether a stack's slices are pictures in colours, which are read as grey; TIFF slices and arrays never are."""
    source = stack.source
    return isinstance(source, pictures.PictureSlices) and pictures.is_coloured(source.paths)


def problems(folder: Path, *, from_zero: bool = True) -> list[Problem]:
    """Everything that is wrong with a stack's folder; empty where `open_stack` would succeed.

    The `file` of a problem is the slice's or chunk's name in the folder, empty where the folder as a whole is meant.
    """
    return _survey(folder, from_zero)[1]


def find_volume(folder: Path) -> Path | None:
    """The folder that holds the stack: this one, or its name with `.zarr`; None where there is neither."""
    return next((path for path in (folder, folder.with_name(f"{folder.name}.zarr")) if path.is_dir()), None)


def is_volume(folder: Path) -> bool:
    """Whether a folder is a Zarr array or has numbered slices in it."""
    if not folder.is_dir():
        return False
    return zarr.is_zarr(folder) or bool(tiff.list_slices(folder) or tiff.list_slices(folder, tiff.PICTURE_NAME))


def _survey(folder: Path, from_zero: bool) -> tuple[Stack | None, list[Problem]]:
    """The stack as far as it can be read, and every problem."""
    place = find_volume(folder) or folder
    if not zarr.is_zarr(place):
        slices, found = tiff.survey(place, from_zero=from_zero)
        return (Stack(slices) if slices else None), found
    try:
        return Stack(zarr.open_array(place)), []
    except DataError as error:
        return None, [error.problem(place)]
