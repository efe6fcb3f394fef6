"""The eight turns of a rectangle: by quarters, after a mirror or not."""

from __future__ import annotations

import numpy as np

from handlens.challenges.forgery.detect.findings import FloatArray, Matrix
from handlens.inference.tta import orient

Turn = tuple[int, bool]
"""Quarter turns, and whether a mirror comes before them."""

TURNS: tuple[Turn, ...] = tuple((turn, mirrored) for mirrored in (False, True) for turn in range(4))


def turned(pictures: FloatArray, turn: Turn) -> FloatArray:
    """A picture (H, W), or many (N, H, W), mirrored and turned.

    >>> turned(np.array([[1.0, 2.0]], np.float32), (1, False)).tolist()
    [[2.0], [1.0]]
    """
    return orient(pictures, turn[0] + (4 if turn[1] else 0), axes=(-2, -1))


def linear_of(turn: Turn) -> Matrix:
    """What that does to x, y about the middle."""
    quarter, flip = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.diag([-1.0 if turn[1] else 1.0, 1.0])
    return np.asarray(np.linalg.matrix_power(quarter, turn[0]) @ flip)
