"""The edge of a fragment: torn papyrus, cut out along the triangles of the mesh that the surface was followed with."""

from __future__ import annotations

import numpy as np

from handlens.challenges.ink.phantom.fields import Mask, Plane, PlaneWindow
from handlens.types import Shape


def draw_outline(random: np.random.Generator, shape: Shape) -> Mask:
    """An irregular patch that fills most of the picture; its edge is jagged, as in the contest's masks."""
    plane = Plane((int(random.integers(1 << 31)),))
    height, width = shape
    cell = max(1.0, min(shape) / 160)
    mask = np.empty(shape, bool)
    for top in range(0, height, 1024):
        window = PlaneWindow(top, 0, min(1024, height - top), width)
        row = np.floor(window.rows() / cell)
        column = np.floor(window.columns() / cell + row % 2 / 2) - row % 2 / 2  # every other row is half a cell off
        y, x = 2 * (row + 0.5) * cell / height - 1, 2 * (column + 0.5) * cell / width - 1
        radius = (np.abs(y) ** 4 + np.abs(x) ** 4) ** 0.25
        near = (np.clip((row + 0.5) * cell, 0, height - 1), np.clip((column + 0.5) * cell, 0, width - 1))
        ragged = _look_up(plane, near, shape)
        mask[top : top + window.height] = radius + ragged < 0.9
    return mask


def _look_up(plane: Plane, place: tuple[np.ndarray, np.ndarray], shape: Shape) -> np.ndarray:
    """How far the edge is drawn in at a place; from a small map, as only slow changes matter."""
    side = 256
    window = PlaneWindow(0, 0, side, side)
    field = 0.08 * plane.smooth("bays", window, down=26, across=26) + 0.02 * plane.smooth(
        "tears", window, down=5, across=5
    )
    y = (place[0] * (side - 1) / max(shape[0] - 1, 1)).astype(np.int32)
    x = (place[1] * (side - 1) / max(shape[1] - 1, 1)).astype(np.int32)
    return np.asarray(field[np.broadcast_to(y, x.shape), x])
