"""The training data of ink: flattened windows of labelled fragments in files, parts of them, augmented crops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.layout import open_fragment
from handlens.challenges.ink.options import InkAugmentation
from handlens.challenges.ink.score import ORDER
from handlens.challenges.ink.tiles import STRIDE
from handlens.challenges.ink.window import FEW, Bytes, Mask, Surface, Window, copy_tall, find_surface
from handlens.errors import DataError
from handlens.io.files import replacing
from handlens.masks.rle import Rle, decode, encode
from handlens.training.sources import Pool
from handlens.types import Case, Progress

Random = np.random.Generator
Item = dict[str, npt.NDArray[Any]]
Layers = npt.NDArray[np.intp]

CELL = 32
"""Side in pixels of the cells that crops are centred in: those with enough of the mask."""

PARTS_FOR_ONE = 5
"""Into how many parts a fragment is cut for a single network: the gaps between more parts would cost too much."""

GAP = 0.06
"""Share of a fragment's length that is left out between two parts of it, so that none is seen from the other."""

ONE_SLICE = 0.5
"""Share of one slice among crops of few: a single picture is the commonest thing that people have but a whole stack."""

THINNEST = 1 / 3
"""Layers in the thinnest slice: of a scan of 65 slices, one is a 65th of the sheet's surroundings, a layer a 24th."""

MOVED = 3.0
"""Layers by which few slices may lie beside the surface: ink is to be seen that far, not farther."""

NO_CELLS = np.empty((0, 2), np.int64)

MIDDLE = 115.0
"""Grey about which contrast changes."""


@dataclass(frozen=True, slots=True, eq=False)
class FragmentPart:
    """A labelled fragment, or a part of one: its window with spare layers, (layers, H, W), mask and ink (0 or 1).

    `source` is the number of its folder, `cells` are the places that crops are centred in.
    """

    id: str
    group: str
    case: Case
    source: int
    slices: int
    window: Bytes
    mask: Mask
    ink: Bytes
    cells: npt.NDArray[np.int64]

    @property
    def label(self) -> Rle:
        return encode(self.ink > 0, order=ORDER)


# --- windows --------------------------------------------------------------------------------------------------------


def read_parts(pooled: Pool[Rle], window: Window, cache: Path, progress: Progress, *, folds: int) -> list[FragmentPart]:
    """Labelled fragments, each a part; one that is alone in its folder is cut into as many parts as there are folds.

    For a single network two parts are held out, so fragments are cut where there are only two of them, too. Between
    parts of one fragment there are gaps.
    """
    least, count = (2, folds) if folds > 1 else (3, PARTS_FOR_ONE)
    parts: list[FragmentPart] = []
    cases, counts = pooled.truth.cases, Counter(pooled.source_of)
    for number, (case, source) in enumerate(zip(cases, pooled.source_of, strict=True)):
        progress(number, len(cases), f"flattening fragment {case.id}")
        stack, mask = open_fragment(case.path)
        layers = _keep_window(find_surface(copy_tall(stack, cache), mask, window), cache / f"{number}.npy")
        ink = decode(pooled.truth.read(case), stack.shape, order=ORDER).view(np.uint8)
        whole = FragmentPart(case.id, case.group or case.id, case, source, stack.depth, layers, mask, ink, NO_CELLS)
        parts += _cut_into_parts(whole, count if counts[source] < least else 1)
    if not any(part.ink.any() for part in parts):
        raise DataError("no ink in any label: nothing can be learned from it", file=cases[0].path)
    return parts


def _cut_into_parts(whole: FragmentPart, count: int) -> list[FragmentPart]:
    """The fragment itself, or as many parts of it, without those that the mask leaves nothing of."""
    if count == 1:
        return [_with_cells(whole)]
    places = cut_apart((whole.mask.shape[0], whole.mask.shape[1]), count)
    return [
        _with_cells(
            replace(
                whole,
                id=f"{whole.id} part {number}",
                group=f"{whole.group} part {number}",
                window=whole.window[:, *place],
                mask=whole.mask[place],
                ink=whole.ink[place],
            )
        )
        for number, place in enumerate(places, 1)
        if whole.mask[place].any()
    ]


def cut_apart(shape: tuple[int, int], count: int) -> list[tuple[slice, slice]]:
    """Parts of a picture along its longer side, with gaps between them.

    >>> [rows for rows, columns in cut_apart((1000, 10), 2)]
    [slice(0, 470, None), slice(530, 1000, None)]
    """
    length, everything = max(shape), slice(None)
    gap = GAP * length
    side = (length - gap * (count - 1)) / count
    ranges = [slice(round(number * (side + gap)), round(number * (side + gap) + side)) for number in range(count)]
    return [(found, everything) if shape[0] >= shape[1] else (everything, found) for found in ranges]


def _keep_window(surface: Surface, path: Path) -> Bytes:
    """The flattened window of a whole fragment, in a file that is mapped into memory."""
    height, width = surface.shape
    if not path.is_file():
        step = max(64 // surface.grain, 1) * surface.grain
        with replacing(path) as temporary:
            shape = (surface.window.layers, height, width)
            kept = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape)
            for top in range(0, height, step):
                kept[:, top : top + step] = surface.read(top, min(top + step, height))
            kept.flush()
    mapped: Bytes = np.load(path, mmap_mode="r")
    return mapped


def _with_cells(part: FragmentPart) -> FragmentPart:
    cells = np.argwhere(_share(part.mask, CELL) > 0.5)
    if not len(cells):
        cells = np.argwhere(_share(part.mask, CELL) > 0)
    if not len(cells):
        raise DataError(f"fragment {part.id}: its mask is empty")
    return replace(part, cells=cells * CELL + CELL // 2)


def _share(mask: npt.NDArray[Any], side: int) -> npt.NDArray[np.float32]:
    """How much of each square is true; what lies beyond the edge is not."""
    height, width = mask.shape
    framed = np.pad(mask, ((0, -height % side), (0, -width % side))).astype(np.float32)
    return np.asarray(framed.reshape(framed.shape[0] // side, side, -1, side).mean(axis=(1, 3)), np.float32)


# --- crops ----------------------------------------------------------------------------------------------------------


def make_item(rng: Random, part: FragmentPart, window: Window, crop: int, how: InkAugmentation) -> Item:
    """A changed crop: `window` (layers, crop, crop), `ink` and `weight` in squares. Beyond the fragment is nothing."""
    item = _change(rng, _cut(rng, part, window, crop, how), how)
    if rng.random() < how.mix_share:
        other = _change(rng, _cut(rng, part, window, crop, how), how)
        item = _blend(rng, item, other) if rng.random() < 0.5 else _paste(rng, item, other)
    return {name: np.ascontiguousarray(values) for name, values in item.items()}


def _cut(rng: Random, part: FragmentPart, window: Window, crop: int, how: InkAugmentation) -> Item:
    """A crop of some size, at some depth, brought to the wanted size."""
    side = round(crop * float(np.exp(rng.uniform(-1, 1) * np.log(how.zoom))))
    layers = choose_layers(rng, window, how)
    middle = part.cells[int(rng.integers(len(part.cells)))] + rng.integers(-CELL // 2, CELL // 2 + 1, 2)
    place = [_range(int(at), side, length) for at, length in zip(middle, part.mask.shape, strict=True)]
    rows, columns = (slice(low, high) for low, high in place)
    first, last = int(layers.min()), int(layers.max()) + 1
    planes = _padded(np.asarray(part.window[first:last, rows, columns]), side)
    if side != crop:
        size = (crop, crop)
        planes = np.stack([cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR) for plane in planes])
    planes = planes[layers - first]
    squares = (crop // STRIDE, crop // STRIDE)
    ink, inside = (
        np.asarray(
            cv2.resize(_padded(values[rows, columns], side).astype(np.float32), squares, interpolation=cv2.INTER_AREA)
        )
        for values in (part.ink, part.mask)
    )
    return {"window": planes, "ink": ink, "weight": inside * np.float32(0.98) + np.float32(0.02)}


def choose_layers(rng: Random, window: Window, how: InkAugmentation) -> Layers:
    """Which of a part's layers, spare ones among them, a crop has: all, moved by some, or a few about the surface."""
    if rng.random() >= how.few_share:
        first = window.spare + int(rng.integers(-how.shift, how.shift + 1))
        return np.arange(first, first + window.below + window.above)
    slices = 1 if rng.random() < ONE_SLICE else int(rng.integers(2, FEW))
    thickness = float(np.exp(rng.uniform(np.log(THINNEST), 0)))
    return few_layers(window, slices, thickness=thickness, moved=float(rng.uniform(-MOVED, MOVED)))


def few_layers(window: Window, slices: int, *, thickness: float = 1.0, moved: float = 0.0) -> Layers:
    """Which layers of a part the window of a stack would have that has only this many slices.

    They are `thickness` layers thick and lie about the surface, or that many layers above it. Beyond them the first and
    the last go on, as in the window of such a stack.

    >>> few_layers(Window(below=3, above=3), 2).tolist()
    [2, 2, 2, 3, 3, 3]
    """
    middle = slices // 2
    number = np.clip(np.arange(window.below + window.above) - window.below + middle, 0, slices - 1)
    place = window.spare + window.below + moved + (number - middle) * thickness
    return np.asarray(np.clip(np.rint(place), 0, window.layers - 1), np.intp)


def _range(middle: int, side: int, length: int) -> tuple[int, int]:
    """A side about a middle, moved into the fragment; all of it where it is shorter."""
    low = int(np.clip(middle - side // 2, 0, max(0, length - side)))
    return low, min(low + side, length)


def _padded(values: npt.NDArray[Any], side: int) -> npt.NDArray[Any]:
    down, across = (side - length for length in values.shape[-2:])
    if not down and not across:
        return values
    return np.pad(values, [*[(0, 0)] * (values.ndim - 2), (0, down), (0, across)])


def _change(rng: Random, item: Item, how: InkAugmentation) -> Item:
    """Turned, mirrored, and in other greys; what is nothing stays nothing."""
    turn, mirrored = int(rng.integers(4)), bool(rng.integers(2))
    item = {name: np.rot90(values, turn, (-2, -1)) for name, values in item.items()}
    if mirrored:
        item = {name: values[..., ::-1] for name, values in item.items()}
    contrast, more = np.exp(rng.normal(0, how.contrast)), rng.normal(0, how.brightness)
    table = np.clip((np.arange(256) - MIDDLE) * contrast + MIDDLE + more, 1, 255).astype(np.uint8)
    table[0] = 0
    return {**item, "window": table[item["window"]]}


def _blend(rng: Random, item: Item, other: Item) -> Item:
    """The mean of two crops, weighted at random; the label too (mixup)."""
    share = np.float32(rng.beta(0.4, 0.4))
    return {
        name: (values * share + other[name] * (1 - share)).astype(values.dtype, copy=False)
        for name, values in item.items()
    }


def _paste(rng: Random, item: Item, other: Item) -> Item:
    """A rectangle of the other crop over this one (CutMix)."""
    squares = item["ink"].shape[0]
    sizes = rng.integers(squares // 4, 3 * squares // 4 + 1, 2)
    top, left = (int(rng.integers(squares - size + 1)) for size in sizes)
    answer = {}
    for name, values in item.items():
        scale = STRIDE if name == "window" else 1
        place = np.s_[..., top * scale : (top + sizes[0]) * scale, left * scale : (left + sizes[1]) * scale]
        answer[name] = values.copy()
        answer[name][place] = other[name][place]
    return answer


def pixels(parts: Sequence[FragmentPart]) -> tuple[float, ...]:
    """How often a part is drawn within its folder: as often as it is large."""
    return tuple(float(np.count_nonzero(part.mask)) for part in parts)
