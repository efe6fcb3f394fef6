"""Photographs in memory, as small as a network needs them, and their augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def cut(rng: np.random.Generator, picture: Bytes, size: int, changes: PhotoAugmentation, *, crop: int = 0) -> Bytes:
    """A changed (size, size, 3) photograph, or its (crop, crop, 3) middle: turned, nearer or farther, other light.

    The whole photograph becomes a square, as in the contest; beyond its border it is mirrored. A crop has the scale of
    the whole, so that what is learned from crops holds for whole photographs.
    """
    side = crop or size
    where = _where(rng, picture.shape, size, changes, side)
    inverse = cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR
    seen = cv2.warpAffine(picture, where, (side, side), flags=inverse, borderMode=cv2.BORDER_REFLECT_101)
    if rng.random() < changes.hair_share:
        seen = _draw_hairs(rng, np.asarray(seen, np.uint8))
    lit = _shade(rng, _relight(rng, np.asarray(seen, np.uint8), changes), changes)
    return _degrade(rng, lit, size, changes)


def _degrade(rng: np.random.Generator, picture: Bytes, size: int, changes: PhotoAugmentation) -> Bytes:
    """Another camera: out of focus, of lower resolution, or saved as a small JPEG file."""
    side = len(picture)
    if rng.random() < changes.blur_share:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.4, 1.5) * size / 160), np.uint8)
    if rng.random() < changes.coarse_share:
        less = max(8, round(side * rng.uniform(0.4, 0.8)))
        small = cv2.resize(picture, (less, less), interpolation=cv2.INTER_AREA)
        picture = np.asarray(cv2.resize(small, (side, side), interpolation=cv2.INTER_LINEAR), np.uint8)
    if rng.random() < changes.jpeg_share:
        _, packed = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(30, 90))])
        picture = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)  # three channels, in any order
    return picture


def _draw_hairs(rng: np.random.Generator, picture: Bytes) -> Bytes:
    """A few dark, bent lines across a photograph."""
    side = len(picture)
    drawn: Any = np.ascontiguousarray(picture)
    for _ in range(int(rng.integers(1, 9))):
        begin, bend, end = rng.uniform(-0.1, 1.1, (3, 2)) * side
        along = np.linspace(0, 1, 12)[:, None]
        curve = (1 - along) ** 2 * begin + 2 * along * (1 - along) * bend + along**2 * end
        colour = tuple(int(value) for value in rng.uniform(0.5, 1.0) * np.array([70, 50, 40]))
        drawn = cv2.polylines(drawn, [np.round(curve).astype(np.int32)], False, colour, 1, cv2.LINE_AA)
    return np.asarray(drawn, np.uint8)


def _shade(rng: np.random.Generator, picture: Bytes, changes: PhotoAugmentation) -> Bytes:
    """Light that comes from one side, and corners that a lens leaves dark."""
    slope = rng.normal(0, changes.shading, 2)
    dark = rng.uniform(0.3, 1.2) if rng.random() < changes.vignette_share else 0.0
    axis = np.linspace(-1, 1, len(picture), dtype=np.float32)
    light = np.exp(slope[0] * axis[:, None] + slope[1] * axis[None, :])
    if dark:
        light *= 1 - dark * np.clip(axis[:, None] ** 2 + axis[None, :] ** 2 - 0.7, 0, 0.8)
    return np.asarray(np.clip(picture * light[:, :, None], 0, 255), np.uint8)


def _where(
    rng: np.random.Generator, shape: Sequence[int], size: int, changes: PhotoAugmentation, side: int
) -> npt.NDArray[np.float64]:
    """Where in the photograph a pixel of the (side, side) result comes from, as a 2 x 3 matrix of (x, y)."""
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
    return np.column_stack([to_source, middle - to_source @ np.full(2, (side - 1) / 2)])


def _relight(rng: np.random.Generator, picture: Bytes, changes: PhotoAugmentation) -> Bytes:
    """Another lamp and another camera: gamma, contrast, brightness, saturation, and the strength of each colour."""
    gamma, contrast = np.exp(rng.normal(0, changes.brightness, 2))
    table = (255 * (np.arange(256) / 255) ** gamma + 0.5).astype(np.uint8)
    saturation = np.exp(rng.normal(0, 2 * changes.colour))
    mix = saturation * np.eye(3) + (1 - saturation) * np.tile(GREY, (3, 1))
    if rng.random() < changes.constancy_share:
        mix = mix @ np.diag(grey_gains(picture) ** rng.uniform(0.3, 1))
    mix = np.diag(contrast * np.exp(rng.normal(0, changes.colour, 3))) @ mix
    brightness = 128 * (1 - contrast) + 128 * rng.normal(0, changes.brightness / 2)
    return np.asarray(cv2.transform(cv2.LUT(picture, table), np.column_stack([mix, np.full(3, brightness)])), np.uint8)


def grey_gains(picture: Bytes) -> npt.NDArray[np.float64]:
    """Shades of grey: factors on red, green and blue that make the light of a photograph white, of equal strength.

    The light's colour is the sixth Minkowski norm of the pixels (Finlayson and Trezzi, 2004).

    >>> grey_gains(np.full((8, 8, 3), 90, np.uint8)).tolist()
    [1.0, 1.0, 1.0]
    """
    small = picture[::4, ::4].reshape(-1, 3).astype(np.float64) / 255
    light = np.maximum((small**6).mean(axis=0) ** (1 / 6), 1 / 255)
    gains: npt.NDArray[np.float64] = np.clip(light.mean() / light, 0.5, 2.0)
    return gains
