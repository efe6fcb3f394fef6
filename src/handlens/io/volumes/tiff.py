"""A stack as TIFF slices in a folder, one file a slice, numbered from 0. How one lies on the disk, `io.tiff` knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from handlens.errors import DataError, Problem
from handlens.io import orientation, tiff, tiff_codecs, tiff_pixels
from handlens.io.gate import list_folder, side_by_side, warm
from handlens.io.images import MAX_IMAGE_PIXELS, shown
from handlens.io.volumes import pictures
from handlens.io.volumes.stack import DTYPES, Array
from handlens.types import Shape

_SLICE_NAME = re.compile(r"([0-9]{1,6})\.tiff?", re.IGNORECASE)
PICTURE_NAME = re.compile(r"([0-9]{1,6})\.(?:png|jpe?g)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TiffSlices:
    """Slices in order of their numbers, one file for each; `plain` says where rows lie as they are, where they do."""

    paths: tuple[Path, ...]
    shape: Shape
    dtype: np.dtype[Any]
    grain: int
    plain: tuple[tiff.PlainRows | None, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.paths)

    def fill(self, band: Array, first: int, top: int, left: int) -> None:
        """Read into `band`; every file is opened anew, as 65 open files a stack are too many."""

        def fill(number: int) -> None:
            path, rows, plain = self.paths[first + number], band[number], self.plain[first + number]
            if plain is None or not tiff.copy_plain(path, rows, top, left, self.shape[1], plain):
                _fill(path, rows, top, left, self.shape)

        side_by_side(fill, range(len(band)), self.paths[:1])


# --- headers ------------------------------------------------------------------------------------------------


def survey(folder: Path, *, from_zero: bool = True) -> tuple[TiffSlices | pictures.PictureSlices | None, list[Problem]]:
    """The stack as far as it can be read, and every problem; without `from_zero` its first number may be any.

    Where there are no TIFF slices, PNG or JPEG ones are taken.
    """
    try:
        numbered = list_slices(folder)
        drawn = [] if numbered else list_slices(folder, PICTURE_NAME)
    except OSError as error:
        return None, [Problem(f"cannot be listed ({error.strerror}): give a surface_volume folder")]
    if drawn:
        slices, problems = pictures.survey(drawn)
        return slices, [*_find_gaps(drawn, from_zero), *_find_twins(drawn), *problems]
    if not numbered:
        what = "no slices; expected TIFF files named by number, 00.tif, 01.tif and on: copy the stack again"
        return None, [Problem(what)]
    found = [*_find_gaps(numbered, from_zero), *_find_twins(numbered)]
    stack: TiffSlices | None = None
    plain = []
    warm([path for _, path in numbered])
    for _, path in numbered:
        try:
            shape, dtype, grain, rows = _read_facts(path)
        except DataError as error:
            found.append(Problem(error.what, path.name))
            continue
        plain.append(rows)
        if stack is None:
            stack = TiffSlices(tuple(path for _, path in numbered), shape, dtype, grain)
            model = path.name
        elif (shape, dtype) != (stack.shape, stack.dtype):
            what = (
                f"{shown(shape)} {dtype}, but {model} is {shown(stack.shape)} {stack.dtype}: "
                "all slices of a stack are alike; copy it again from the same scan"
            )
            found.append(Problem(what, path.name))
    return (replace(stack, plain=tuple(plain)) if stack else None), found


def list_slices(folder: Path, pattern: re.Pattern[str] = _SLICE_NAME) -> list[tuple[int, Path]]:
    """Numbers and files of the slices of a folder."""
    names = [name for name, is_folder in list_folder(folder) if not is_folder]
    matches = [match for name in names if (match := pattern.fullmatch(name))]
    return sorted((int(match.group(1)), folder / match.group()) for match in matches)


def _find_gaps(numbered: list[tuple[int, Path]], from_zero: bool) -> Iterator[Problem]:
    """A gap is one problem, however wide: a file `999999.tif` must not make a million of them."""
    digits = len(numbered[0][1].stem)
    numbers = [number for number, _ in numbered]
    if from_zero:
        numbers.insert(0, -1)  # so that a missing slice 0 is a gap too
    for before, after in pairwise(numbers):
        first, last = f"{before + 1:0{digits}d}", f"{after - 1:0{digits}d}"
        if after - before == 2:
            yield Problem(f"slice {first} is missing: copy it again")
        elif after - before > 2:
            yield Problem(f"slices {first} to {last} are missing: copy them again")


def _find_twins(numbered: list[tuple[int, Path]]) -> Iterator[Problem]:
    for (before, kept), (after, twin) in pairwise(numbered):
        if before == after:
            yield Problem(f"slice {after} is duplicated, as {kept.name} too: remove one of them", twin.name)


def _read_facts(path: Path) -> tuple[Shape, np.dtype[Any], int, tiff.PlainRows | None]:
    """Shape, type, grain and where rows lie, from the header; DataError says why the slice cannot be used."""
    with tiff.opened(path) as page:
        _refuse_kind(page)
        page.refuse_damaged()
        return page.shape, page.dtype, page.grain, page.plain_rows()


def _refuse_kind(page: tiff.Page) -> None:
    tags = page.tags
    if page.samples != 1 or tags.imagedepth != 1 or tags.photometric != tiff.BLACK_IS_ZERO:
        kind = getattr(tags.photometric, "name", tags.photometric)
        what = f"{page.samples} samples a pixel ({kind}); a slice is grey, black is 0: convert it"
        raise DataError(what, file=page.path)
    if page.dtype not in DTYPES or tags.bitspersample not in (8, 16):
        what = f"{tags.bitspersample}-bit {tags.dtype} pixels; a slice is uint8 or uint16: convert it"
        raise DataError(what, file=page.path)
    if not 0 < page.shape[0] * page.shape[1] <= MAX_IMAGE_PIXELS:
        what = f"{shown(page.shape)} pixels; a slice has 1 to {MAX_IMAGE_PIXELS:,} of them"
        raise DataError(what, file=page.path)
    tiff_codecs.refuse_unknown(tags, page.path)
    if tiff_pixels.orientation_of(page) != orientation.UPRIGHT:
        raise DataError("its orientation tag asks viewers to turn it; a slice is upright: save it so", file=page.path)
    if tiff.has_second_page(page):
        raise DataError("more than one page; a slice is one: save every page as a file of its own", file=page.path)


def _fill(path: Path, rows: Array, top: int, left: int, shape: Shape) -> None:
    """Read the part of a slice that begins at this pixel."""
    with tiff.opened(path) as page:
        if page.shape != shape or page.dtype != rows.dtype or page.samples != 1:
            raise DataError("changed since the stack was opened: open it again", file=path)
        page.fill(rows[:, :, None], top, left)
