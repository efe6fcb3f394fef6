"""Panels that are no pictures: bar and line charts, blocks of text. They keep pictures company and are never forged."""

from __future__ import annotations

import cv2
import numpy as np

from handlens.challenges.forgery.forger.marks import Overlay, blank, printed, stamp, words
from handlens.challenges.forgery.forger.textures import ByteArray, PaintedPanel
from handlens.types import Shape

_INKS = ((0, 0, 0), (31, 119, 180), (214, 39, 40), (90, 90, 90), (44, 160, 44), (255, 127, 14))
_WORDS = ("control", "treated", "siRNA", "merge", "DAPI", "actin", "n = 6", "wild type", "vehicle", "p < 0.05", "24 h")
_TEXT = ("the", "cells", "were", "stained", "with", "and", "fixed", "for", "ten", "minutes", "in", "buffer", "shown")


def paint_plot(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A bar chart or a line chart with axes, ticks and their labels."""
    height, width = shape
    picture = np.full((*shape, 3), 255, np.uint8)
    overlay = blank(shape)
    type_size = int(np.clip(min(shape) / 16, 8, 18))
    left, bottom = 3 * type_size, height - 2 * type_size - 4
    top, right = type_size, width - type_size
    if right - left > 20 and bottom - top > 20:
        frame = (top, left, bottom, right)
        (_bars if style.uniform() < 0.5 else _lines)(picture, frame, rng)
        cv2.line(picture, (left, top), (left, bottom), (0, 0, 0), 1)
        cv2.line(picture, (left, bottom), (right, bottom), (0, 0, 0), 1)
        _ticks(overlay, picture, frame, rng, type_size)
    return PaintedPanel(printed(picture, overlay).astype(np.float32), np.zeros(shape, np.int32))


def _bars(picture: ByteArray, frame: tuple[int, int, int, int], rng: np.random.Generator) -> None:
    top, left, bottom, right = frame
    count = int(rng.integers(2, 7))
    step = (right - left) / count
    for number in range(count):
        tip = bottom - round((bottom - top) * float(rng.uniform(0.15, 0.9)))
        a, b = round(left + (number + 0.2) * step), round(left + (number + 0.8) * step)
        ink = _INKS[int(rng.integers(len(_INKS)))]
        cv2.rectangle(picture, (a, tip), (b, bottom), ink, -1 if rng.uniform() < 0.7 else 1)
        whisker = max(2, round((bottom - tip) * 0.1))
        cv2.line(picture, ((a + b) // 2, tip - whisker), ((a + b) // 2, tip), (0, 0, 0), 1)
        cv2.line(picture, ((a + b) // 2 - 3, tip - whisker), ((a + b) // 2 + 3, tip - whisker), (0, 0, 0), 1)


def _lines(picture: ByteArray, frame: tuple[int, int, int, int], rng: np.random.Generator) -> None:
    top, left, bottom, right = frame
    for _line in range(int(rng.integers(1, 5))):
        x = np.linspace(left, right, int(rng.integers(5, 14)))
        y = np.clip(np.cumsum(rng.normal(0, 0.12, len(x))) + rng.uniform(0.2, 0.8), 0.02, 0.98)
        points = np.stack([x, bottom - y * (bottom - top)], axis=1)
        ink = _INKS[int(rng.integers(len(_INKS)))]
        spots = np.rint(points).astype(np.int32)
        cv2.polylines(picture, [spots], False, ink, 1, cv2.LINE_AA)
        for spot in spots:
            cv2.circle(picture, spot.tolist(), 2, ink, -1)


def _ticks(
    overlay: Overlay, picture: ByteArray, frame: tuple[int, int, int, int], rng: np.random.Generator, type_size: int
) -> None:
    top, left, bottom, right = frame
    unit = int(rng.choice([1, 2, 5, 10, 20]))
    for number in range(5):
        y = round(bottom - number * (bottom - top) / 4)
        cv2.line(picture, (left - 3, y), (left, y), (0, 0, 0), 1)
        layer = words(str(number * unit), height=type_size)
        stamp(overlay, layer, (y - layer.shape[0] // 2, left - 5 - layer.shape[1]), (0, 0, 0))
        x = round(left + number * (right - left) / 4)
        cv2.line(picture, (x, bottom), (x, bottom + 3), (0, 0, 0), 1)
        layer = words(str(number * 6), height=type_size)
        stamp(overlay, layer, (bottom + 5, x - layer.shape[1] // 2), (0, 0, 0))
    stamp(overlay, words(str(rng.choice(_WORDS)), height=type_size), (2, (left + right) // 2), (0, 0, 0))


def paint_text(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """Lines of words, some of them the same, as legends and tables have them."""
    overlay = blank(shape)
    type_size = int(np.clip(min(shape) / float(style.uniform(10, 20)), 8, 24))
    table = style.uniform() < 0.4
    row = type_size // 2
    while row + type_size < shape[0]:
        column = type_size // 2
        while column < shape[1] - 2 * type_size:
            text = str(rng.choice(_WORDS if table else _TEXT))
            layer = words(text, height=type_size)
            if column + layer.shape[1] > shape[1] - 2:
                break
            stamp(overlay, layer, (row, column), (0, 0, 0))
            column += max(layer.shape[1] + type_size // 2, shape[1] // 4 if table else 0)
        row += round(type_size * 1.5)
    picture = np.full((*shape, 3), 255, np.uint8)
    return PaintedPanel(printed(picture, overlay).astype(np.float32), np.zeros(shape, np.int32))
