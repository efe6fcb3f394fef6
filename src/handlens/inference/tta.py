"""Test-time augmentation: the mean of a network's answers to an input in several orientations.

Orientation 0 is the input as it is, 1 to 3 are quarter turns, 4 to 7 the same of its mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Axes = tuple[int, int]
"""Which axes of an array are its rows and columns."""


def orient(image: npt.NDArray[Any], orientation: int, axes: Axes = (0, 1)) -> npt.NDArray[Any]:
    """The image in one of its 8 orientations, as a view.

    >>> orient(np.array([[1, 2], [3, 4]]), 5).tolist()
    [[1, 3], [2, 4]]
    """
    return np.rot90(np.flip(image, axes[1]) if orientation >= 4 else image, orientation % 4, axes)


def orient_back(answer: npt.NDArray[Any], orientation: int, axes: Axes = (0, 1)) -> npt.NDArray[Any]:
    """The inverse of `orient`."""
    straight = np.rot90(answer, -(orientation % 4), axes)
    return np.flip(straight, axes[1]) if orientation >= 4 else straight


def average(
    network: Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]],
    image: npt.NDArray[Any],
    *,
    orientations: int,
    axes: Axes = (0, 1),
) -> npt.NDArray[np.float32]:
    """The mean (H, W) answer to an input whose rows and columns are `axes`, over its first orientations."""
    if orientations == 1:
        return network(np.ascontiguousarray(image))
    total: npt.NDArray[np.float32] | None = None
    for orientation in range(orientations):
        answer = orient_back(network(np.ascontiguousarray(orient(image, orientation, axes))), orientation)
        total = np.array(answer) if total is None else np.add(total, answer, out=total)
    if total is None:
        raise ValueError("0 orientations; expected at least 1")
    total /= np.float32(orientations)
    return total
