"""Made-up figures as papers print them: panels in a grid, letters, scale bars."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.textures import PAINTERS, LabelArray, Panel
from handlens.types import Shape

ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]

KINDS = ("nuclei", "nuclei", "tissue", "granules", "blot")
"""What a figure shows: nuclei twice, because most of the contest's pictures are of nuclei."""

SHORTEST_PANEL = 48
"""A panel with a shorter side than this, in pixels, shows nothing that could be recognised."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of whole pixels: from the first row and column, up to but not with the last."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def shape(self) -> Shape:
        return self.bottom - self.top, self.right - self.left

    @property
    def window(self) -> tuple[slice, slice]:
        return slice(self.top, self.bottom), slice(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture (H, W, 3), its panels, the object number at each pixel, the pixels of letters and bars.

    `alike` panels come from one microscope, so that a piece of one passes for a piece of another.
    """

    kind: str
    alike: bool
    picture: ByteArray
    panels: tuple[Box, ...]
    objects: LabelArray
    marks: BoolArray


def draw_figure(rng: np.random.Generator, *, size: int) -> Figure:
    """One honest figure whose longer side is about `size` pixels: a single picture, or panels in a grid."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    aspect = float(rng.choice([1.0, 0.8, 0.75, 2 / 3]))
    short = max(SHORTEST_PANEL, round(size * aspect))
    shape = (size, short) if rng.uniform() < 0.2 else (short, size)
    gutter = max(2, round(size * float(rng.uniform(0.008, 0.025))))
    panels = _lay_out(rng, shape, gutter)
    paper = 255 if rng.uniform() < 0.75 else 0
    picture = np.full((*shape, 3), paper, np.uint8)
    objects, marks = np.zeros(shape, np.int32), np.zeros(shape, np.bool_)
    scenery = int(rng.integers(2**32))
    alike = bool(rng.uniform() < 0.75)
    for number, box in enumerate(panels):
        style = np.random.default_rng([scenery, 0 if alike else 1 + number])
        panel = PAINTERS[kind](box.shape, np.random.default_rng([scenery, 0, number]), style)
        _place(panel, box, picture, objects)
        letter = chr(65 + number) if len(panels) > 1 else ""
        _mark(picture, marks, box, rng, letter=letter, bar=kind != "blot" and rng.uniform() < 0.6)
    return Figure(kind, alike, picture, panels, objects, marks)


def _lay_out(rng: np.random.Generator, shape: Shape, gutter: int) -> tuple[Box, ...]:
    """Panels of a grid, in reading order; rows may differ in height and in the number of their panels."""
    grids = [(1,), (1,), (1,), (1,), (2,), (3,), (2, 2), (2, 2), (1, 2), (3, 3), (2, 3), (1, 1)]
    grid = grids[int(rng.integers(len(grids)))]
    while max(len(grid), max(grid)) > 1 and min(shape) / max(len(grid), max(grid)) < SHORTEST_PANEL:
        grid = tuple(max(1, count - 1) for count in grid[:-1]) or (max(1, grid[0] - 1),)
    margin = 0 if len(grid) == 1 and grid[0] == 1 else gutter
    rows = _cut(rng, margin, shape[0] - margin, len(grid), gutter)
    boxes = []
    for (top, bottom), count in zip(rows, grid, strict=True):
        boxes += [Box(top, left, bottom, right) for left, right in _cut(rng, margin, shape[1] - margin, count, gutter)]
    return tuple(boxes)


def _cut(rng: np.random.Generator, start: int, stop: int, count: int, gutter: int) -> list[tuple[int, int]]:
    """`count` stretches between two positions with a gutter between them: equal ones, or a little unequal."""
    weights = np.ones(count) if rng.uniform() < 0.6 else rng.uniform(0.75, 1.25, count)
    ends = np.cumsum(weights / weights.sum()) * (stop - start + gutter)
    edges = start + np.rint(np.concatenate([[0], ends])).astype(int)
    return [(int(a), int(b) - gutter) for a, b in pairwise(edges)]


def _place(panel: Panel, box: Box, picture: ByteArray, objects: LabelArray) -> None:
    picture[box.window] = np.rint(panel.picture).astype(np.uint8)
    first = int(objects.max())
    objects[box.window] = np.where(panel.objects > 0, panel.objects + first, 0)


def _mark(picture: ByteArray, marks: BoolArray, box: Box, rng: np.random.Generator, *, letter: str, bar: bool) -> None:
    """A letter in the upper left corner and a scale bar, perhaps with its length, in the lower right one."""
    import cv2

    height, width = box.shape
    dark = picture[box.window].mean() < 110
    ink = 255 if dark else 0
    layer = np.zeros(box.shape, np.uint8)
    scale = max(0.35, min(height, width) / 330)
    if letter:
        spot = (max(2, width // 40), max(2, width // 40) + round(22 * scale))
        cv2.putText(layer, letter, spot, cv2.FONT_HERSHEY_SIMPLEX, scale, 255, max(1, round(2 * scale)), cv2.LINE_AA)
    if bar:
        length, thick = round(width * float(rng.uniform(0.15, 0.25))), max(2, height // 80)
        left, top = width - length - width // 30, height - thick - height // 30
        cv2.rectangle(layer, (left, top), (left + length, top + thick - 1), 255, -1)
        if rng.uniform() < 0.5 and height > 120:
            words = f"{rng.choice([5, 10, 20, 50, 100])} um"
            cv2.putText(layer, words, (left, top - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.6 * scale, 255, 1, cv2.LINE_AA)
    share = (layer.astype(np.float32) / 255)[:, :, None]
    picture[box.window] = np.rint(picture[box.window] * (1 - share) + ink * share).astype(np.uint8)
    marks[box.window] |= layer > 0
