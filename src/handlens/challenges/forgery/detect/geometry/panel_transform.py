"""The transform from a panel to another: zoomed, mirrored, turned by quarters and shifted."""

from __future__ import annotations

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import FloatArray, Matrix, Panel, Patch
from handlens.challenges.forgery.detect.geometry.outline import inverse, trimmed, warp_patch
from handlens.challenges.forgery.detect.geometry.turns import TURNS, Turn, linear_of
from handlens.types import Shape

SAME_FORM = 0.06
"""How much the ratios of the sides of two panels may differ that show the same at another size. By hand."""


def zoomed(picture: FloatArray, zoom: float) -> FloatArray:
    """A picture made larger or smaller."""
    if zoom == 1:
        return picture
    size = (max(1, round(picture.shape[1] * zoom)), max(1, round(picture.shape[0] * zoom)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR), np.float32)


def transform_of(one: Panel, other: Panel, zoom: float, turn: Turn, shift: tuple[int, int]) -> Matrix:
    """The transform that a shift (rows, columns) means of a panel that was zoomed, mirrored and turned."""
    linear = zoom * linear_of(turn)
    middle = np.array(one.shape[::-1]) / 2
    move = np.abs(linear) @ middle - linear @ middle  # so that it begins at 0
    corner = np.array([one.left - 0.5, one.top - 0.5])
    there = np.array([other.left - 0.5, other.top - 0.5]) + np.array([shift[1], shift[0]])
    return np.column_stack([linear, move - linear @ corner + there])


def covering(one: Panel, other: Panel) -> list[tuple[float, Turn]]:
    """Zooms and turns at which one panel just covers the other: those of an enlarged or reduced panel."""
    found = []
    for turn in TURNS:
        height, width = one.shape[::-1] if turn[0] % 2 else one.shape
        down, across = other.shape[0] / height, other.shape[1] / width
        if abs(down / across - 1) < SAME_FORM:
            found.append((float(np.sqrt(down * across)), turn))
    return found


def overlap_of(shape: Shape, one: Panel, other: Panel, matrix: Matrix) -> Patch | None:
    """The part of one panel that the transform brings into the other."""
    whole = Patch(other.top, other.left, np.ones(other.shape, np.bool_))
    back = warp_patch(whole, inverse(matrix), shape)
    if back is None:
        return None
    inside = np.zeros(shape, np.bool_)
    back.paint(inside)
    return trimmed(one.top, one.left, inside[one.window])
