"""Synthetic figures as papers print them: one picture, or panels in a grid with letters, scale bars and charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from handlens.challenges.forgery.forger.marks import Overlay, blank, draw_arrow, draw_bar, draw_letter, stamp
from handlens.challenges.forgery.forger.plots import paint_plot, paint_text
from handlens.challenges.forgery.forger.sources import SourceBrush, Sources
from handlens.challenges.forgery.forger.textures import PAINTERS, BoolArray, ByteArray, LabelArray, PaintedPanel
from handlens.types import Shape

KINDS = ("nuclei", "nuclei", "nuclei", "tissue", "granules", "specimens", "blot")
"""What a figure shows: nuclei most of all, because most of the contest's pictures are of nuclei."""

SOURCE_SHARE = 0.8
"""Share of pictures that come from the sources, where there are any; the others are textures."""

SHORTEST_PANEL = 48
"""A panel with a shorter side than this, in pixels, shows nothing that could be recognised."""

GRIDS = (
    *((2,), (3,), (4,), (1, 1), (2, 2), (2, 2), (1, 2), (3, 3), (2, 3), (3, 2)),
    *((4, 4), (3, 3, 3), (4, 4, 4), (2, 2, 2), (5, 5, 5), (4, 4, 4, 4)),
)

Brush = Callable[[Shape, int], PaintedPanel | None]
"""Paints panels of one experiment: the shape, and a number that is another content each time.

None where the sources have no picture left that is large enough.
"""


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

    def meets(self, other: Box) -> bool:
        """Whether the two share a pixel."""
        rows = self.top < other.bottom and other.top < self.bottom
        return rows and self.left < other.right and other.left < self.right


@dataclass(frozen=True, slots=True)
class Placed:
    """A panel in its place: its box, and the brush that painted it; no brush for charts and text.

    Panels of one brush come from one microscope, so that a piece of one passes for a piece of another.
    """

    box: Box
    brush: Brush | None
    lanes: int


@dataclass(frozen=True, slots=True)
class ComposedFigure:
    """A picture (H, W, 3) without print, its panels, the object number at each pixel, and the print."""

    picture: ByteArray
    panels: tuple[Placed, ...]
    objects: LabelArray
    overlay: Overlay

    @property
    def pictures(self) -> tuple[Placed, ...]:
        """The panels that are pictures."""
        return tuple(panel for panel in self.panels if panel.brush)


def make_brush(
    kind: str, rng: np.random.Generator, *, sources: Sources | None, alike: bool = True, used: set[int] | None = None
) -> Brush:
    """The brush of one kind: a texture's name, or "source" for the pictures of a folder."""
    scenery = int(rng.integers(2**32))
    if kind != "source" or sources is None:
        kind = "nuclei" if kind == "source" else kind
        return lambda shape, serial: PAINTERS[kind](
            shape, np.random.default_rng([scenery, 0, serial]), np.random.default_rng([scenery, 1])
        )
    first = int(rng.integers(len(sources.pictures)))
    return SourceBrush(sources, first, scenery, alike, set() if used is None else used)


def draw_kind(rng: np.random.Generator, sources: Sources | None) -> str:
    """What a panel shows."""
    return "source" if sources and rng.uniform() < SOURCE_SHARE else str(rng.choice(KINDS))


def draw_figure(
    rng: np.random.Generator,
    *,
    size: int,
    sources: Sources | None,
    compound: bool,
    kind: str | None = None,
    crowded: bool = False,
) -> ComposedFigure:
    """One honest figure whose longer side is `size` pixels or less; `kind` is what it shows, drawn where None.

    A `crowded` figure has four panels at least, where there is room for them.
    """
    kind = kind or draw_kind(rng, sources)
    shape = draw_shape(rng, size)
    if compound:
        grids = [grid for grid in GRIDS if not crowded or sum(grid) >= 4]
        boxes = panel_grid(rng, shape, grid=grids[int(rng.integers(len(grids)))])
        return compose(shape, boxes, _brushes(rng, kind, sources), rng)
    brush = make_brush(kind, rng, sources=sources)
    if isinstance(brush, SourceBrush):
        shape = brush.native(size)
    return compose(shape, (Box(0, 0, *shape),), lambda _number: brush, rng)


def _brushes(rng: np.random.Generator, kind: str, sources: Sources | None) -> Callable[[int], Brush | None]:
    """Which brush paints which panel: mostly one for all, sometimes a chart or another kind between them."""
    used: set[int] = set()
    main = make_brush(kind, rng, sources=sources, alike=bool(rng.uniform() < 0.8), used=used)
    mixed, charts = rng.uniform() < 0.25, rng.uniform() < 0.3

    def choose(number: int) -> Brush | None:
        if charts and number > 1 and rng.uniform() < 0.35:
            return None
        if mixed and number > 1 and rng.uniform() < 0.5:
            return make_brush(draw_kind(rng, sources), rng, sources=sources, used=used)
        return main

    return choose


def draw_shape(rng: np.random.Generator, size: int) -> Shape:
    """Height and width, the longer side mostly `size`."""
    if rng.uniform() < 0.3:
        size = max(min(size, 2 * SHORTEST_PANEL), round(size * float(rng.uniform(0.6, 1))))
    short = max(SHORTEST_PANEL, round(size * float(rng.choice([1.0, 0.8, 0.75, 2 / 3]))))
    return (size, short) if rng.uniform() < 0.2 else (short, size)


# --- layout -------------------------------------------------------------------------------------------------


def panel_grid(rng: np.random.Generator, shape: Shape, *, grid: tuple[int, ...] | None = None) -> tuple[Box, ...]:
    """Panels of a grid, in reading order; rows may differ in height and in the number of their panels.

    Some touch each other; others have gutters of up to 3 percent of the longer side.
    """
    grid = grid or GRIDS[int(rng.integers(len(GRIDS)))]
    while min(shape[0] / len(grid), shape[1] / max(grid)) < 1.3 * SHORTEST_PANEL and sum(grid) > 2:
        grid = grid[:-1] if shape[0] / len(grid) < shape[1] / max(grid) else tuple(max(1, n - 1) for n in grid)
    grid = grid if sum(grid) > 1 else (2,)
    gutter = 0 if rng.uniform() < 0.12 else max(1, round(max(shape) * float(rng.uniform(0.003, 0.03))))
    margin = gutter if rng.uniform() < 0.6 else 0
    rows = _cut(rng, margin, shape[0] - margin, len(grid), gutter)
    boxes = []
    for (top, bottom), count in zip(rows, grid, strict=True):
        boxes += [Box(top, left, bottom, right) for left, right in _cut(rng, margin, shape[1] - margin, count, gutter)]
    return tuple(boxes)


def _cut(rng: np.random.Generator, start: int, stop: int, count: int, gutter: int) -> list[tuple[int, int]]:
    """`count` stretches between two positions with a gutter between them: equal ones, or unequal."""
    weights = np.ones(count) if rng.uniform() < 0.6 else rng.uniform(0.7, 1.3, count)
    ends = np.cumsum(weights / weights.sum()) * (stop - start + gutter)
    edges = start + np.rint(np.concatenate([[0], ends])).astype(int)
    return [(int(a), int(b) - gutter) for a, b in pairwise(edges)]


# --- painting -----------------------------------------------------------------------------------------------


def compose(
    shape: Shape, boxes: tuple[Box, ...], choose: Callable[[int], Brush | None], rng: np.random.Generator
) -> ComposedFigure:
    """The figure with every box painted by the brush that `choose` names for it, and its print over it."""
    paper = 255 if rng.uniform() < 0.7 else int(rng.choice([0, 0, 20, 128]))
    picture = np.full((*shape, 3), paper, np.uint8)
    objects = np.zeros(shape, np.int32)
    panels = []
    for number, box in enumerate(boxes):
        brush = choose(number)
        panel = brush(box.shape, number) if brush else _chart(box.shape, rng)
        if panel is None:
            brush = spare = make_brush("nuclei", rng, sources=None)
            panel = spare(box.shape, number)
        assert panel is not None  # a texture has any shape
        place(panel, box, picture, objects)
        panels.append(Placed(box, brush, panel.lanes))
    overlay = blank(shape)
    _print(overlay, picture, panels, rng)
    return ComposedFigure(picture, tuple(panels), objects, overlay)


def place(panel: PaintedPanel, box: Box, picture: ByteArray, objects: LabelArray) -> None:
    """Put a panel into its box; its objects get numbers of their own."""
    picture[box.window] = np.rint(panel.picture).astype(np.uint8)
    first = int(objects.max())
    objects[box.window] = np.where(panel.objects > 0, panel.objects + first, 0)


def _chart(shape: Shape, rng: np.random.Generator) -> PaintedPanel:
    paint = paint_plot if rng.uniform() < 0.65 else paint_text
    return paint(shape, rng, rng)


def _print(overlay: Overlay, picture: ByteArray, panels: list[Placed], rng: np.random.Generator) -> None:
    """Letters, scale bars, arrows and frames, the same way in every panel."""
    several = len(panels) > 1
    letters = "abcdefghijklmnopqrstuvwxyz" if rng.uniform() < 0.4 else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    lettered, framed = several and rng.uniform() < 0.75, several and rng.uniform() < 0.2
    barred, arrows = rng.uniform() < (0.5 if several else 0.25), rng.uniform() < 0.2
    text = f"{rng.choice([5, 10, 20, 50, 100])} um" if rng.uniform() < 0.6 else ""
    for number, panel in enumerate(panels):
        window = panel.box.window
        ink = (255, 255, 255) if picture[window].mean() < 110 else (0, 0, 0)
        if lettered and panel.brush:
            draw_letter(overlay, window, letters[number % 26], ink)
        if panel.brush and not panel.lanes and barred and (rng.uniform() < 0.8 or not several):
            draw_bar(overlay, window, rng, text, ink)
        if panel.brush and not panel.lanes and arrows:
            for _arrow in range(int(rng.integers(1, 4))):
                draw_arrow(overlay, window, rng, (255, 255, 0) if rng.uniform() < 0.3 else ink)
        if framed:
            edge = np.full(panel.box.shape, 255, np.uint8)
            edge[1:-1, 1:-1] = 0
            stamp(overlay, edge, (panel.box.top, panel.box.left), (0, 0, 0))


def widen(mask: BoolArray, by: int) -> BoolArray:
    """The mask grown by `by` pixels on every side."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * by + 1, 2 * by + 1))
    return np.asarray(cv2.dilate(mask.astype(np.uint8), kernel) > 0)
