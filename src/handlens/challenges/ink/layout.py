"""Where the files of one fragment lie: as in the contest, as scroll segments are published, bare slices, a picture.

A fragment is named by a folder or a picture:

    ID/surface_volume/00.tif ...  ID/mask.png       ID/inklabels.png      the contest
    ID/layers/00.tif ...          ID/ID_mask.png    ID/ID_inklabels.png   a segment; mask and label also beside ID/
    ID/00.tif ...                 the same, or no mask                    slices alone
    ID.jpg                        ID_mask.png, or no mask                 one slice
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io import volumes
from handlens.io.gate import is_there, whole_path
from handlens.io.images import SUFFIXES, read_header, read_mask, shown
from handlens.types import Shape

VOLUME, LAYERS = "surface_volume", "layers"
LABEL = "inklabels.png"
MASK = "mask.png"

ROWS = 256
"""Rows of a slice that are read at a time to see where it is not 0."""


@dataclass(frozen=True, slots=True)
class FragmentFiles:
    """The files of a fragment; None for what is not there. `volume` is a folder of slices, a Zarr array or a picture.

    `contest` says that the slices lie as in the contest, where they are numbered from 0.
    """

    name: str
    folder: Path
    volume: Path | None
    mask: Path | None
    label: Path | None
    contest: bool

    def open_stack(self) -> volumes.Stack:
        if self.volume is None:
            raise DataError(f"no {VOLUME}/ or {LAYERS}/ with slices in it: add them", file=self.folder)
        if is_there(self.volume):
            return volumes.open_picture(self.volume)
        return volumes.open_stack(self.volume, from_zero=self.contest)

    def read_shape(self) -> Shape:
        """From the mask's header, else the label's, else the first slice's."""
        for path in (self.mask, self.label):
            if path is not None:
                return read_header(path).shape
        return self.open_stack().shape

    def read_mask(self, stack: volumes.Stack) -> npt.NDArray[np.bool_]:
        """Where papyrus is: as the mask says, or where the scan is not 0; everywhere, where that is nowhere."""
        if self.mask is None:
            mask = find_inside(stack)
        else:
            mask = read_mask(self.mask)
            if mask.shape != stack.shape:
                what = f"{shown(mask.shape)}, but the slices are {shown(stack.shape)}: they must be equal"
                raise DataError(what, file=self.mask)
        return mask if mask.any() else np.ones(stack.shape, bool)


def find_files(place: Path) -> FragmentFiles:
    """The files of the fragment that a folder or a picture stands for; its slices' folder stands for it too."""
    if is_there(place):
        return FragmentFiles(place.stem, place.parent, place, *_beside(place.parent, place.stem), contest=False)
    folder = place.parent if place.name in (VOLUME, LAYERS) and volumes.is_volume(place) else place
    whole = whole_path(folder)  # `.` has a name too
    contest, layers = volumes.find_volume(folder / VOLUME), volumes.find_volume(folder / LAYERS)
    volume = contest or layers or (folder if volumes.is_volume(folder) else None)
    mask, label = _existing(folder / MASK), _existing(folder / LABEL)
    for near in (folder, whole.parent) if contest is None else ():
        other_mask, other_label = _beside(near, whole.name)
        mask, label = mask or other_mask, label or other_label
    return FragmentFiles(whole.name, folder, volume, mask, label, contest=contest is not None)


def _beside(folder: Path, name: str) -> tuple[Path | None, Path | None]:
    """Mask and label that have the fragment's name in theirs."""
    return _existing(folder / f"{name}_{MASK}"), _existing(folder / f"{name}_{LABEL}")


def _existing(path: Path) -> Path | None:
    return path if is_there(path) else None


def is_picture(path: Path) -> bool:
    return is_there(path) and path.name.lower().endswith(SUFFIXES)


def find_inside(stack: volumes.Stack) -> npt.NDArray[np.bool_]:
    """Where the first, the middle or the last slice is not 0: scans are 0 outside what was cut out of them."""
    inside = np.zeros(stack.shape, bool)
    step = max(1, ROWS // stack.grain) * stack.grain
    for number in sorted({0, stack.depth // 2, stack.depth - 1}):
        for top in range(0, stack.shape[0], step):
            bottom = min(top + step, stack.shape[0])
            inside[top:bottom] |= stack.read_band(top, bottom, number, number + 1)[0] > 0
    return inside


def open_fragment(place: Path) -> tuple[volumes.Stack, npt.NDArray[np.bool_]]:
    """The slices and the mask of a fragment."""
    files = find_files(place)
    stack = files.open_stack()
    return stack, files.read_mask(stack)
