"""What happens to a figure after it was forged: resized, blurred, noisy, another contrast, packed as JPEG."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray

UNTOUCHED = 0.5
"""Share of figures that reach us as they were made."""


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """What is done, in this order: size, blur (sigma in pixels), contrast, noise (grey levels), JPEG quality.

    `bright` figures keep their white where the contrast changes, the others their black.
    """

    size: float = 1.0
    blur: float = 0.0
    contrast: float = 1.0
    noise: float = 0.0
    quality: int = 0
    bright: bool = True
    seed: int = 0


def draw_post_processing(rng: np.random.Generator, picture: ByteArray) -> PostProcessing:
    """Half of all figures untouched, the others with one or more changes; JPEG is the commonest."""
    if rng.uniform() < UNTOUCHED:
        return PostProcessing()
    return PostProcessing(
        size=float(rng.uniform(0.6, 1.0)) if rng.uniform() < 0.2 else 1.0,
        blur=float(rng.uniform(0.4, 1.0)) if rng.uniform() < 0.15 else 0.0,
        contrast=float(rng.uniform(0.8, 1.3)) if rng.uniform() < 0.2 else 1.0,
        noise=float(rng.uniform(0.8, 4.0)) if rng.uniform() < 0.2 else 0.0,
        quality=int(rng.integers(60, 96)) if rng.uniform() < 0.75 else 0,
        bright=bool(picture.mean() > 127),
        seed=int(rng.integers(2**32)),
    )


def apply(picture: ByteArray, what: PostProcessing) -> ByteArray:
    """The picture (H, W, 3) after all that; twins get the same noise."""
    if what.size != 1.0:
        size = _size(picture.shape, what)
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    if what.blur:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), what.blur), np.uint8)
    if what.contrast != 1.0 or what.noise:
        values = picture.astype(np.float32)
        middle = 255.0 if what.bright else 0.0
        values = (values - middle) * what.contrast + middle
        noise = np.random.default_rng(what.seed).standard_normal(picture.shape[:2], dtype=np.float32)
        picture = np.rint(np.clip(values + what.noise * noise[:, :, None], 0, 255)).astype(np.uint8)
    if what.quality:
        packed = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, what.quality])[1]
        picture = np.asarray(cv2.imdecode(packed, cv2.IMREAD_UNCHANGED), np.uint8)
    return np.ascontiguousarray(picture)


def apply_to_mask(mask: BoolArray, what: PostProcessing) -> BoolArray:
    """The mask of the figure after that: a pixel belongs to it if at least half of what it shows did."""
    if what.size == 1.0:
        return mask
    size = _size(mask.shape, what)
    return np.asarray(cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA) >= 0.5)


def _size(shape: tuple[int, ...], what: PostProcessing) -> tuple[int, int]:
    return max(1, round(shape[1] * what.size)), max(1, round(shape[0] * what.size))
