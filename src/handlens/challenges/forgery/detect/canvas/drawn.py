"""Where a figure is drawn rather than photographed: letters, tables, charts and diagrams repeat, and prove nothing.

What a program renders has few levels, hard edges between them, and no noise: where there is contrast at all, nearly
every pixel is as dark or as bright as its neighbourhood goes, and the ground beside it is constant to the last level,
even after JPEG. What a lens and a sensor make has levels in between everywhere, and noise on its ground. This is asked
of small squares with what is around them, so that a chart beside a photograph, or a table printed into one, is told
from it wherever it stands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import BoolArray, ByteArray, FloatArray, Panel
from handlens.io.gate import read_text

BLOCK = 8
"""Side, in pixels, of the squares that are counted. Rule: the block of JPEG."""

WINDOWS = (5, 13)
"""Squares across what is looked at around each: a word, and a part of a panel. By hand."""

NEIGHBOURHOOD, CONTRAST = 9, 24
"""Pixels across the neighbourhood of a pixel, and grey levels between its ends from which there is contrast. By hand:
wider than a stroke, more than noise."""

AT_END, LEVELS = 0.1, 2
"""Share of that contrast, or grey levels, within which a pixel is at one of its ends. By hand."""

HARD, SHARP = 0.6, 110
"""Share of that contrast, and grey levels, between neighbours of a neighbour: pens do not blur. By hand."""

CONSTANT, GROUND = 1, 3
"""Grey levels among the neighbours of a pixel on constant ground, and about the median where a pixel is ground. By
hand."""

HARDLY = 0.02
"""Share of contrast below which nothing was drawn in a window; also what keeps the shares finite. By hand."""

NARROWEST = 3
"""Squares across the narrowest picture beside what is drawn. By hand: a panel of 24 pixels shows nothing."""

SURE_SHARE = 0.25
"""Share of sure squares in a connected area of possible ones from which all of it is drawn. By hand."""

FILE = "drawn.json"
"""The fitted layers; `bench/fit_drawn.py` writes them."""

NAMES = tuple(
    f"{name}_{window}"
    for window in WINDOWS
    for name in ("two_levels", "hard", "sharp", "constant", "ground", "contrast")
)
"""What is known of a square. Of the pixels with contrast, the share at either end, with hard and with sharp steps; of
the others, the share on constant ground; the share near the median; the share with contrast."""

MEDIAN_SIDE = 15
"""Pixels of half the size over which the ground's grey is the median. By hand: wider than letters and lines."""


@dataclass(frozen=True, slots=True)
class SquareClassifier:
    """A small network, from what is known of a square to the log-odds that it was drawn.

    `possible` and `sure` are the log-odds that two in a hundred, and two in a thousand, of photographed squares exceed.
    """

    layers: tuple[tuple[FloatArray, FloatArray], ...]
    possible: float
    sure: float

    def log_odds(self, squares: FloatArray) -> FloatArray:
        values = squares
        for number, (weights, bias) in enumerate(self.layers):
            values = (np.tanh(values) if number else values) @ weights + bias
        return np.asarray(values[..., 0], np.float32)


@cache
def included() -> SquareClassifier:
    """The network that comes with the program."""
    page = json.loads(read_text(Path(__file__).parents[1] / FILE))
    layers = tuple((np.array(weights, np.float32), np.array(bias, np.float32)) for weights, bias in page["layers"])
    return SquareClassifier(layers, page["possible"], page["sure"])


def find_drawn(grey: FloatArray, colour: npt.NDArray[Any], panels: tuple[Panel, ...]) -> BoolArray:
    """Pixels of drawn content in a grey picture of 0 to 255; `colour` is the same picture as it is stored.

    Panels are looked at one by one, so that a gutter, or the chart beyond it, says nothing of a picture. Constant areas
    count with what is drawn beside them.
    """
    drawn = np.zeros(grey.shape, np.bool_)
    levels = np.clip(np.rint(grey), 0, 255).astype(np.uint8)
    for panel in panels:
        if panel.kind == "picture" and min(panel.shape) >= NARROWEST * BLOCK:
            drawn[panel.window] = _drawn_in(levels[panel.window], colour[panel.window])
    return drawn


def _drawn_in(grey: ByteArray, colour: npt.NDArray[Any]) -> BoolArray:
    """The same of one panel."""
    squares = measure_squares(np.ascontiguousarray(grey), colour)
    classifier = included()
    odds = classifier.log_odds(squares)
    contrast = squares[..., NAMES.index(f"contrast_{WINDOWS[0]}")] > HARDLY
    drawn = _connected((odds > classifier.possible) & contrast, odds > classifier.sure)
    if not drawn.any():
        return np.zeros(grey.shape, np.bool_)
    free = np.pad((~drawn).astype(np.uint8), NARROWEST, mode="edge")
    wide = cv2.morphologyEx(free, cv2.MORPH_OPEN, np.ones((NARROWEST, NARROWEST), np.uint8))
    narrow = wide[NARROWEST:-NARROWEST, NARROWEST:-NARROWEST] == 0
    height, width = grey.shape
    return np.asarray(np.kron(narrow, np.ones((BLOCK, BLOCK), np.bool_))[:height, :width])


def _connected(possible: BoolArray, sure: BoolArray) -> BoolArray:
    """Areas of squares that may be drawn, of which enough are for sure."""
    _, labels = cv2.connectedComponents(possible.astype(np.uint8), connectivity=8)
    share = np.bincount(labels.ravel(), weights=sure.ravel()) / np.maximum(1, np.bincount(labels.ravel()))
    share[0] = 0
    return np.asarray(share[labels] > SURE_SHARE)


def measure_squares(grey: ByteArray, colour: npt.NDArray[Any]) -> FloatArray:
    """What is seen around each square: (rows, columns, features), in the order of `NAMES`."""
    steps = _steps(grey, colour)
    window = np.ones((NEIGHBOURHOOD, NEIGHBOURHOOD), np.uint8)
    low, high = cv2.erode(grey, window), cv2.dilate(grey, window)
    span = high - low
    contrast = span >= CONTRAST
    slack = np.maximum(LEVELS, (AT_END * span.astype(np.float32))).astype(np.uint8)
    median = cv2.medianBlur(cv2.resize(grey, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_NEAREST), MEDIAN_SIDE)
    around = cv2.resize(median, (grey.shape[1], grey.shape[0]), interpolation=cv2.INTER_NEAREST)
    maps = (
        contrast & ((grey - low <= slack) | (high - grey <= slack)),
        contrast & (steps > HARD * span.astype(np.float32)),
        contrast & (steps > SHARP),
        ~contrast & (steps <= CONSTANT),
        cv2.absdiff(grey, around) <= GROUND,
        contrast,
    )
    counts = np.stack([_count(each) for each in maps], axis=-1)
    features = []
    for window_side in WINDOWS:
        mean = cv2.blur(counts, (window_side, window_side), borderType=cv2.BORDER_REFLECT)
        steep, flat = mean[..., 5:] + HARDLY / 2, 1 - mean[..., 5] + HARDLY / 2
        features += [mean[..., :3] / steep, (mean[..., 3] / flat)[..., None], mean[..., 4:]]
    return np.concatenate(features, axis=-1)


def _steps(grey: ByteArray, colour: npt.NDArray[Any]) -> ByteArray:
    """Levels between neighbours of a pixel, in the channel where they are most."""
    near = np.ones((3, 3), np.uint8)
    coloured = colour.ndim == 3 and colour.dtype == np.uint8
    picture = np.ascontiguousarray(colour[:, :, :3]) if coloured else grey
    steps = cv2.dilate(picture, near) - cv2.erode(picture, near)
    return np.asarray(steps.max(axis=2) if coloured else steps, np.uint8)


def _count(flags: BoolArray) -> FloatArray:
    """The share of each square, the last ones filled up with what is at the border."""
    height, width = flags.shape
    below, right = -height % BLOCK, -width % BLOCK
    filled = np.pad(flags, ((0, below), (0, right)), mode="edge") if below or right else flags
    size = (filled.shape[1] // BLOCK, filled.shape[0] // BLOCK)
    return np.asarray(cv2.resize(filled.astype(np.float32), size, interpolation=cv2.INTER_AREA), np.float32)
