"""Tissue before it has nuclei: what differs from slide to slide, and the ground of cytoplasm, stroma and holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

FloatImage = npt.NDArray[np.float32]
BoolImage = npt.NDArray[np.bool_]
Random = np.random.Generator

HAEMATOXYLIN = np.array([0.62, 0.70, 0.34])
EOSIN = np.array([0.16, 0.84, 0.46])
"""Optical densities of the two dyes in red, green and blue light."""

FULL_SIZE = 160
"""Side from which nuclei have their true size; below, they shrink with the picture, so that several fit."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a slide was cut, stained and scanned."""

    share: float  # of the pixels that shall be nuclei
    crowding: float  # of the nuclei that touch another
    size: float  # of nuclei
    lymphocytes: float  # share of small, round, dark nuclei
    pale: float  # how empty the inside of large nuclei is
    nuclear: float  # haematoxylin of nuclei
    basophilia: float  # haematoxylin of cytoplasm: what makes nuclei hard to see
    cytoplasm: float  # eosin of cytoplasm
    stroma: float  # eosin of fibres
    stroma_share: float
    glass_share: float  # holes and cracks
    shrinkage: float  # white rims around cells
    blood: int  # red cells
    haematoxylin: npt.NDArray[np.float64]  # absorption of red, green, blue
    eosin: npt.NDArray[np.float64]


def choose_style(rng: Random) -> Style:
    return Style(
        share=rng.uniform(0.15, 0.40),
        crowding=rng.uniform(0.4, 0.8),
        size=rng.uniform(0.85, 1.2),
        lymphocytes=rng.choice([0.05, 0.2, 0.6]),
        pale=rng.uniform(0.1, 0.65),
        nuclear=rng.uniform(0.75, 1.35),
        basophilia=rng.uniform(0.1, 0.42),
        cytoplasm=rng.uniform(0.2, 0.75),
        stroma=rng.uniform(0.35, 0.85),
        stroma_share=rng.uniform(0.1, 0.5),
        glass_share=rng.choice([0.01, 0.05, 0.14]),
        shrinkage=rng.choice([0.0, 0.15, 0.5]),
        blood=int(rng.choice([0, 3, 12])),
        haematoxylin=_shift_hue(rng, HAEMATOXYLIN),
        eosin=_shift_hue(rng, EOSIN),
    )


def _shift_hue(rng: Random, stain: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted: npt.NDArray[np.float64] = np.clip(stain + rng.normal(0, 0.045, 3), 0.03, 1)
    return shifted / np.linalg.norm(shifted)


@dataclass(frozen=True, slots=True)
class Tissue:
    """Maps of one slide, all (H, W): densities of three dyes, shares of stroma and of bare glass, fibre angles."""

    haematoxylin: FloatImage
    eosin: FloatImage
    blood: FloatImage
    stroma: FloatImage
    glass: FloatImage
    angle: FloatImage

    @property
    def size(self) -> int:
        return len(self.eosin)


def lay_tissue(rng: Random, style: Style, size: int) -> Tissue:
    """Islands of cytoplasm in fibrous stroma, with holes."""
    islands = clouds(rng, size, 140) + 0.25 * clouds(rng, size, 25)
    stroma = above(islands, 1 - style.stroma_share, 0.12)
    holes = clouds(rng, size, 90) + 0.3 * clouds(rng, size, 14) - 0.5 * stroma
    glass = above(holes, 1 - style.glass_share, 0.06)
    angle = (rng.uniform(0, np.pi) + 0.5 * clouds(rng, size, 160)).astype(np.float32)
    grain = 0.5 * clouds(rng, size, 3) + 0.5 * clouds(rng, size, 12) + 0.5 * clouds(rng, size, 45)
    cytoplasm = style.cytoplasm * np.exp(0.22 * grain)
    fibres = style.stroma * np.exp(0.2 * _fibres(rng, angle) + 0.25 * grain)
    foam = clouds(rng, size, 5) + 0.5 * clouds(rng, size, 30)
    basophilia = style.basophilia * np.exp(0.35 * foam) * (1 - 0.75 * stroma)
    return Tissue(
        haematoxylin=(basophilia * (1 - glass)).astype(np.float32),
        eosin=((cytoplasm * (1 - stroma) + fibres * stroma) * (1 - glass)).astype(np.float32),
        blood=np.zeros((size, size), np.float32),
        stroma=stroma,
        glass=glass,
        angle=angle,
    )


def clouds(rng: Random, size: int, grain: float) -> FloatImage:
    """Smooth noise of mean 0 and deviation about 1, its spots about `grain` pixels apart."""
    points = int(np.ceil(size / grain)) + 3
    coarse = rng.standard_normal((points, points), dtype=np.float32)
    side = int(np.ceil(points * grain))
    fine = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
    start = (side - size) // 2
    return fine[start : start + size, start : start + size] * np.float32(1.4)


def blur(layer: npt.NDArray[Any], deviation: float) -> FloatImage:
    return cv2.GaussianBlur(layer.astype(np.float32), (0, 0), deviation).astype(np.float32, copy=False)


def above(field: FloatImage, quantile: float, softness: float) -> FloatImage:
    """Near 1 where the field is among its highest values, near 0 elsewhere, with soft borders."""
    level = np.quantile(field, quantile)
    share: FloatImage = 1 / (1 + np.exp(np.clip((level - field) / softness, -30, 30)))
    return share.astype(np.float32)


def _fibres(rng: Random, angle: FloatImage) -> FloatImage:
    """Wavy streaks along the angle: noise smeared, step by step, in its direction."""
    size = len(angle)
    rows, columns = np.mgrid[0:size, 0:size].astype(np.float32)
    streaks = clouds(rng, size, 2.5) + clouds(rng, size, 6)
    for step in (1.0, 2.0, 4.0, 8.0):
        aside, down = step * np.cos(angle), step * np.sin(angle)
        ahead = cv2.remap(streaks, columns + aside, rows + down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        behind = cv2.remap(streaks, columns - aside, rows - down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        streaks = ((streaks + ahead + behind) / 3).astype(np.float32)
    streaks -= streaks.mean()
    return streaks / np.float32(streaks.std() + 0.05)  # a pixel alone has no deviation
