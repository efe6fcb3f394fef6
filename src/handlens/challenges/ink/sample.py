"""Synthetic scroll fragments as files in the contest's layout, written band by band: no volume is ever held."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.phantom import letters
from handlens.challenges.ink.phantom.fields import Mask
from handlens.challenges.ink.phantom.fragment import Fragment
from handlens.challenges.ink.phantom.ink import FLAKED
from handlens.challenges.ink.phantom.outline import draw_outline
from handlens.io import files
from handlens.io.images import write_png
from handlens.masks import rle
from handlens.types import Shape
from handlens.work import Each, one_by_one

if TYPE_CHECKING:
    from handlens.challenges.ink.options import InkSettings

SLICES = 24
"""Slices of a synthetic stack, unless asked for others; real ones have 65, and the same sheet in the middle of them."""

EASIEST = 0.05
"""The least difficulty: ink cannot be endlessly thick."""


def write_sample(
    folder: Path, /, *, seed: int, cases: int, size: int, settings: InkSettings, each: Each = one_by_one
) -> None:
    """Write `cases` test fragments, at least one training fragment, and the test's truth; `size` is the height.

    The settings are `width`, `slices`, `letters`, `difficulty`, `flaked`; what is not given has its default.
    """
    shape = (size, int(settings.width or size + size // 4))
    maps = letters.find_maps(settings.letters) if settings.letters else []
    fragments = [(0, index) for index in range(max(1, cases))] + [(1, index) for index in range(cases)]
    each(partial(_write_fragment, seed, shape, settings, maps), fragments, folder)
    rows = "".join(f"{_name(index)},1 1\n" for index in range(cases))
    files.write_text(folder / "sample_submission.csv", f"Id,Predicted\n{rows}")


def _write_fragment(
    seed: int, shape: Shape, settings: InkSettings, maps: Sequence[Path], folder: Path, which: tuple[int, int]
) -> None:
    """A fragment of a part, 0 for training, 1 for the test, by its number."""
    part, index = which
    slices, difficulty = int(settings.slices or SLICES), max(EASIEST, float(settings.difficulty))
    how: dict[str, Any] = {"slices": slices, "difficulty": difficulty, "maps": maps, "flaked": settings.flaked}
    fragment = make_fragment((seed, part, index), shape, **how)
    if part == 1:
        label, _ = write_volume(folder / "test" / _name(index), fragment)
        _write_truth(folder / "truth" / _name(index), fragment, label)
        return
    place = folder / "train" / str(index + 1)
    label, photograph = write_volume(place, fragment)
    _write_truth(place, fragment, label)
    text = rle.format_pairs(rle.encode(label, order="rows"))
    files.write_text(place / "inklabels_rle.csv", f"Id,Predicted\n{index + 1},{text}\n")
    write_png(place / "ir.png", photograph)


def make_fragment(
    seed: tuple[int, ...],
    shape: Shape,
    *,
    slices: int,
    difficulty: float,
    maps: Sequence[Path],
    flaked: float | None = None,
) -> Fragment:
    """A fragment that is ready to be computed: its outline, and what is written on it."""
    random = np.random.default_rng([*seed, 0])
    mask = draw_outline(random, shape)
    hand = letters.choose_handwriting(random, shape[0])
    written = letters.write(random, shape, hand, maps) & mask
    if not written.any():  # a fragment too small for a letter still has a spot of ink
        written[shape[0] // 2, shape[1] // 2] = mask[shape[0] // 2, shape[1] // 2] = True
    return Fragment(seed, mask, written, slices, hand.pen, difficulty, FLAKED if flaked is None else flaked)


def write_volume(folder: Path, fragment: Fragment) -> tuple[Mask, npt.NDArray[np.uint8]]:
    """Write mask and slices; gives the label and the photograph. Memory holds a band of the stack and these maps."""
    write_png(folder / "mask.png", fragment.mask)
    places = [
        _reserve(folder / "surface_volume" / f"{number:02d}.tif", fragment.shape) for number in range(fragment.slices)
    ]
    label, photograph = np.zeros(fragment.shape, bool), np.zeros(fragment.shape, np.uint8)
    for tiles in fragment.bands():
        top, bottom = tiles[0].top, tiles[0].top + len(tiles[0].label)
        label[top:bottom] = np.hstack([tile.label for tile in tiles])
        photograph[top:bottom] = np.hstack([tile.photograph for tile in tiles])
        for number, (path, offset) in enumerate(places):
            with path.open("r+b") as stream:
                stream.seek(offset + top * fragment.shape[1] * 2)
                stream.write(np.hstack([tile.grey[number] for tile in tiles]).astype("<u2").tobytes())
    if not label.any():  # all that was written has peeled off, or it was a single spot
        label |= fragment.written
    return label, photograph


def _reserve(path: Path, shape: Shape) -> tuple[Path, int]:
    """A slice without pixels yet, and where in the file they begin."""
    import tifffile

    path.parent.mkdir(exist_ok=True)
    tifffile.memmap(
        path, shape=shape, dtype=np.dtype("<u2"), byteorder="<", photometric="minisblack", metadata=None, software=False
    )
    with tifffile.TiffFile(path) as file:
        return path, int(file.pages.first.dataoffsets[0])


def _write_truth(folder: Path, fragment: Fragment, label: Mask) -> None:
    write_png(folder / "mask.png", fragment.mask)
    write_png(folder / "inklabels.png", label)


def _name(index: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    first, last = divmod(index, 26)
    return (_name(first - 1) if first else "") + chr(ord("a") + last)
