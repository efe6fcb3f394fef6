"""Photographs in memory, as small as a network needs them, and their augmentation."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.options import PhotoAugmentation
from handlens.io.images import read_rgb
from handlens.types import Case

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

SPARE = 1.15
"""How much larger than the network's input a photograph is kept: room to come closer."""

GREY = np.array([0.299, 0.587, 0.114])
"""What red, green and blue add to lightness."""


def read_photographs(cases: Sequence[Case], size: int) -> list[Bytes]:
    """RGB photographs; what is larger than `size` needs is reduced, each side by itself, and nothing is enlarged."""
    most = round(size * SPARE)
    found = []
    for case in cases:
        picture = read_rgb(case.path)
        height, width = picture.shape[:2]
        if height > most or width > most:
            smaller = cv2.resize(picture, (min(width, most), min(height, most)), interpolation=cv2.INTER_AREA)
            picture = np.asarray(smaller, np.uint8)
        found.append(picture)
    return found


def cut(rng: np.random.Generator, picture: Bytes, size: int, changes: PhotoAugmentation) -> Bytes:
    """A changed (size, size, 3) photograph: turned, mirrored, nearer or farther, in other light.

    The whole photograph becomes a square, as in the contest; beyond its border it is mirrored.
    """
    where = _where(rng, picture.shape, size, changes)
    inverse = cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR
    seen = cv2.warpAffine(picture, where, (size, size), flags=inverse, borderMode=cv2.BORDER_REFLECT_101)
    if rng.random() < changes.blur_share:
        seen = cv2.GaussianBlur(seen, (0, 0), rng.uniform(0.4, 1.2) * size / 160)
    return _relight(rng, np.asarray(seen, np.uint8), changes)


def _where(
    rng: np.random.Generator, shape: Sequence[int], size: int, changes: PhotoAugmentation
) -> npt.NDArray[np.float64]:
    """Where in the photograph a pixel comes from, as a 2 x 3 matrix of (x, y)."""
    height, width = shape[:2]
    scale = np.exp(rng.uniform(np.log(changes.min_scale), np.log(changes.max_scale)))
    stretch = np.exp(rng.normal(0, changes.stretch) / 2)
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = turn @ np.diag([stretch, 1 / stretch]) / scale
    if rng.random() < 0.5:
        turn[:, 1] *= -1
    to_source = np.diag([width / size, height / size]) @ turn
    middle = np.array([width, height]) * (0.5 + rng.uniform(-changes.shift, changes.shift, 2)) - 0.5
    return np.column_stack([to_source, middle - to_source @ np.full(2, (size - 1) / 2)])


def _relight(rng: np.random.Generator, picture: Bytes, changes: PhotoAugmentation) -> Bytes:
    """Another lamp and another camera: gamma, contrast, brightness, saturation, and the strength of each colour."""
    gamma, contrast = np.exp(rng.normal(0, changes.brightness, 2))
    table = (255 * (np.arange(256) / 255) ** gamma + 0.5).astype(np.uint8)
    saturation = np.exp(rng.normal(0, 2 * changes.colour))
    mix = saturation * np.eye(3) + (1 - saturation) * np.tile(GREY, (3, 1))
    mix = np.diag(contrast * np.exp(rng.normal(0, changes.colour, 3))) @ mix
    brightness = 128 * (1 - contrast) + 128 * rng.normal(0, changes.brightness / 2)
    return np.asarray(cv2.transform(cv2.LUT(picture, table), np.column_stack([mix, np.full(3, brightness)])), np.uint8)
