"""What is written on a fragment: Greek capitals drawn with strokes, or letters cut out of real label maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.phantom.fields import Mask, Plane, PlaneWindow
from handlens.errors import DataError
from handlens.io.images import read_mask
from handlens.types import Shape

Random = np.random.Generator

# Letter shapes on a unit square, x to the right and y down: chains of points, and arcs.
_LINES: dict[str, list[list[tuple[float, float]]]] = {
    "alpha": [[(0.0, 1.0), (0.5, 0.0), (1.0, 1.0)], [(0.2, 0.65), (0.8, 0.65)]],
    "gamma": [[(0.1, 1.0), (0.1, 0.0), (0.9, 0.0)]],
    "delta": [[(0.0, 1.0), (0.5, 0.0), (1.0, 1.0), (0.0, 1.0)]],
    "epsilon": [[(0.1, 0.5), (0.75, 0.5)]],
    "eta": [[(0.1, 0.0), (0.1, 1.0)], [(0.9, 0.0), (0.9, 1.0)], [(0.1, 0.5), (0.9, 0.5)]],
    "theta": [[(0.1, 0.5), (0.9, 0.5)]],
    "iota": [[(0.5, 0.0), (0.5, 1.0)]],
    "kappa": [[(0.1, 0.0), (0.1, 1.0)], [(0.9, 0.0), (0.1, 0.5), (0.9, 1.0)]],
    "lambda": [[(0.0, 1.0), (0.45, 0.1)], [(0.3, 0.0), (1.0, 1.0)]],
    "mu": [[(0.0, 1.0), (0.2, 0.0), (0.5, 0.7), (0.8, 0.0), (1.0, 1.0)]],
    "nu": [[(0.1, 1.0), (0.1, 0.0), (0.9, 1.0), (0.9, 0.0)]],
    "pi": [[(0.2, 1.0), (0.2, 0.0)], [(0.8, 0.0), (0.8, 1.0)], [(0.0, 0.0), (1.0, 0.0)]],
    "rho": [[(0.2, 1.0), (0.2, 0.0)]],
    "tau": [[(0.0, 0.0), (1.0, 0.0)], [(0.5, 0.0), (0.5, 1.0)]],
    "upsilon": [[(0.0, 0.0), (0.5, 0.5), (1.0, 0.0)], [(0.5, 0.5), (0.5, 1.0)]],
    "phi": [[(0.5, -0.2), (0.5, 1.2)]],
    "chi": [[(0.0, 0.0), (1.0, 1.0)], [(1.0, 0.0), (0.0, 1.0)]],
}
_ARCS: dict[str, list[tuple[float, float, float, float, float, float]]] = {  # centre, radii, first and last degree
    "epsilon": [(0.55, 0.5, 0.45, 0.5, 40, 320)],
    "theta": [(0.5, 0.5, 0.45, 0.5, 0, 360)],
    "omicron": [(0.5, 0.5, 0.4, 0.4, 0, 360)],
    "rho": [(0.45, 0.25, 0.35, 0.25, -120, 120)],
    "sigma": [(0.55, 0.5, 0.45, 0.5, 50, 310)],
    "phi": [(0.5, 0.5, 0.45, 0.35, 0, 360)],
    "omega": [(0.27, 0.55, 0.27, 0.45, -10, 240), (0.73, 0.55, 0.27, 0.45, -60, 190)],
}
LETTERS = tuple(sorted({*_LINES, *_ARCS}))

MAPS = 3
"""Label maps that a fragment takes its letters from: reading all of them would take longer than making it."""


@dataclass(frozen=True, slots=True)
class Handwriting:
    """One scribe: the height of a letter, the width of a stroke, both in pixels, and how far letters lean."""

    height: float
    pen: float
    slant: float


def choose_handwriting(random: Random, rows: int) -> Handwriting:
    """Letters as large as the contest's where they fit, smaller on a small fragment, but not finer than the scan."""
    height = float(np.clip(0.24 * rows, min(0.55 * rows, 110), 500))
    return Handwriting(height, max(2.0, height * random.uniform(0.14, 0.18)), random.uniform(-0.12, 0.12))


def write(random: Random, shape: Shape, hand: Handwriting, maps: Sequence[Path]) -> Mask:
    """Lines of letters over the whole picture; drawn ones where there are no maps."""
    canvas = np.zeros(shape, np.uint8)
    if maps:
        chosen = random.choice(len(maps), min(MAPS, len(maps)), replace=False)
        glyphs = [glyph for index in sorted(chosen) for glyph in read_glyphs(maps[int(index)], hand.pen)]
        if not glyphs:
            raise DataError("no letters in these maps: give label maps with ink in them", file=maps[0].parent)
        _paste_lines(random, canvas, glyphs)
        return canvas > 0
    _draw_lines(random, canvas, hand)
    plane, tremor = Plane((int(random.integers(1 << 31)),)), max(4, 0.15 * hand.pen)
    cv2.GaussianBlur(canvas, (0, 0), max(1.5, 0.08 * hand.pen), dst=canvas)
    for top in range(0, shape[0], 1024):  # a band at a time: a whole fragment of floating-point numbers is large
        band = canvas[top : top + 1024]
        window = PlaneWindow(top, 0, len(band), shape[1])
        band[:] = band + 25 * plane.smooth("tremor", window, down=tremor, across=tremor) > 127
    return canvas > 0


# --- strokes -----------------------------------------------------------------------------------------------------


def _draw_lines(random: Random, canvas: npt.NDArray[np.uint8], hand: Handwriting) -> None:
    height, pen = hand.height, max(2, round(hand.pen))
    top = -random.uniform(0, 0.5) * height
    while top < canvas.shape[0]:
        left = -random.uniform(0, 1) * height
        while left < canvas.shape[1]:
            letter = LETTERS[random.integers(len(LETTERS))]
            wide, tall = height * random.uniform(0.65, 0.9), height * random.uniform(0.85, 1.1)
            for stroke in _strokes(letter):
                y = top + tall * stroke[:, 1] + random.normal(0, 0.02) * height
                x = left + wide * stroke[:, 0] - hand.slant * tall * stroke[:, 1]
                chain = np.rint(np.stack([x, y], axis=1) * 8).astype(np.int32)
                cv2.polylines(canvas, [chain], False, 255, pen, cv2.LINE_8, 3)
            left += wide + height * random.uniform(0.35, 0.9)
        top += height * random.uniform(1.6, 1.9)


def _strokes(letter: str) -> Iterator[npt.NDArray[np.float64]]:
    for line in _LINES.get(letter, []):
        yield np.array(line)
    for x, y, across, down, first, last in _ARCS.get(letter, []):
        angles = np.radians(np.linspace(first, last, 24))
        yield np.stack([x + across * np.cos(angles), y + down * np.sin(angles)], axis=1)


# --- label maps --------------------------------------------------------------------------------------------------


def find_maps(folder: Path) -> list[Path]:
    """The label maps in a folder and those below it: `*inklabels.png`, or where there are none every other PNG."""
    if not folder.is_dir():
        raise DataError("no such folder: give one with label maps, *inklabels.png", file=folder)
    pictures = sorted(path for path in folder.rglob("*.png") if path.name not in ("mask.png", "ir.png"))
    maps = [path for path in pictures if path.stem.endswith("inklabels")] or pictures
    if not maps:
        raise DataError("no PNG files: give a folder with label maps, *inklabels.png", file=folder)
    return maps


def read_glyphs(path: Path, pen: float) -> list[Mask]:
    """The letters of a map, or what hangs together of them, scaled so that a stroke is `pen` wide."""
    ink = read_mask(path).view(np.uint8)
    if not ink.any():
        return []
    scale = pen / _stroke_width(ink)
    size = tuple(max(1, round(side * scale)) for side in (ink.shape[1], ink.shape[0]))
    small = cv2.resize(ink * np.uint8(255), size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    near = max(1, int(pen / 3))
    joined = cv2.dilate(small, np.ones((2 * near + 1, 2 * near + 1), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats((joined > 127).astype(np.uint8))
    glyphs = []
    for number in range(1, count):
        x, y, wide, tall = (int(value) for value in stats[number, :4])
        part = np.s_[y : y + tall, x : x + wide]
        glyph = (labels[part] == number) & (small[part] > 127)
        if glyph.sum() >= 3 * pen * pen:
            glyphs.append(glyph[near : tall - near, near : wide - near])
    return glyphs


def _stroke_width(ink: npt.NDArray[np.uint8]) -> float:
    """Pixels from one side of a stroke to the other, where it is about as wide as it gets."""
    small = cv2.resize(ink, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_NEAREST) if min(ink.shape) > 512 else ink
    distance = cv2.distanceTransform(cv2.copyMakeBorder(small, 1, 1, 1, 1, cv2.BORDER_CONSTANT), cv2.DIST_L2, 5)
    inside = distance[distance > 0]
    if not len(inside):
        return 8.0
    return float(max(2.0, 2.2 * np.quantile(inside, 0.85)) * (ink.shape[0] / small.shape[0]))


def _paste_lines(random: Random, canvas: npt.NDArray[np.uint8], glyphs: Sequence[Mask]) -> None:
    """Glyphs in lines; a glyph that is higher than the picture shows its upper part."""
    height, width = canvas.shape
    row = float(np.median([glyph.shape[0] for glyph in glyphs]))
    top = -random.uniform(0, 0.4) * row
    while top < height:
        left = -random.uniform(0, 0.6) * row
        while left < width:
            glyph = glyphs[int(random.integers(len(glyphs)))]
            y, x = round(top + random.normal(0, 0.06) * row), round(left)
            _paste(canvas, glyph, y, x)
            left += glyph.shape[1] + row * random.uniform(0.15, 0.5)
        top += row * random.uniform(1.25, 1.6)


def _paste(canvas: npt.NDArray[np.uint8], glyph: Mask, top: int, left: int) -> None:
    bottom, right = min(top + glyph.shape[0], canvas.shape[0]), min(left + glyph.shape[1], canvas.shape[1])
    y, x = max(top, 0), max(left, 0)
    if y < bottom and x < right:
        canvas[y:bottom, x:right] |= glyph[y - top : bottom - top, x - left : right - left].astype(np.uint8)
