"""Augmentation of stained tissue: rotation, scale, elastic deformation, stain, blur, noise."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.options import StainAugmentation

Random = np.random.Generator
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

STAINS = np.array([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]])
"""What haematoxylin, eosin and DAB absorb of red, green and blue (Ruifrok and Johnston)."""


def cut(
    rng: Random,
    image: Bytes,
    mask: Bytes,
    size: int,
    how: StainAugmentation,
    label_offset: tuple[float, float] = (0.0, 0.0),
) -> tuple[Bytes, Bytes]:
    """A changed crop of an (H, W, 3) image and of its 0/255 mask: two (size, size) pictures, the mask 0 or 1.

    Beyond the border the image is mirrored. `label_offset` is how many rows lower and columns farther right than it
    the mask lies; in the crop they lie on each other.
    """
    rows, columns = _sampling_grid(rng, image.shape[0], image.shape[1], size, how)
    crop = cv2.remap(image, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    down, right = (np.float32(pixels) for pixels in label_offset)
    truth = cv2.remap(mask, columns + right, rows + down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    shown, nuclei = add_artefact(rng, np.asarray(crop, np.uint8), (truth > 127).astype(np.uint8), how)
    return blur_and_noise(rng, jitter_stain(rng, shown, how), how), nuclei


def _sampling_grid(rng: Random, height: int, width: int, size: int, how: StainAugmentation) -> tuple[Floats, Floats]:
    """Row and column of the source for every pixel of the crop."""
    scale = np.exp(np.interp(rng.random(2).mean(), [0, 1], np.log([how.min_scale, how.max_scale])))
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / scale
    if rng.random() < 0.5:
        turn[:, 1] *= -1
    half = size / (2 * scale)
    middle = [rng.uniform(min(half, side / 2), max(side - half, side / 2)) for side in (height, width)]
    line = np.arange(size, dtype=np.float32) - (size - 1) / 2
    rows = (middle[0] + turn[0, 0] * line[:, None] + turn[0, 1] * line[None, :]).astype(np.float32)
    columns = (middle[1] + turn[1, 0] * line[:, None] + turn[1, 1] * line[None, :]).astype(np.float32)
    if rng.random() < how.elastic_share:
        knots = max(3, size // 40)
        for places in (rows, columns):
            moves = rng.uniform(-how.elastic, how.elastic, (knots, knots)).astype(np.float32)
            places += cv2.resize(moves, (size, size), interpolation=cv2.INTER_CUBIC)
    return rows, columns


def jitter_stain(rng: Random, crop: Bytes, how: StainAugmentation) -> Bytes:
    """The same tissue with each stain stronger or weaker, in optical density, where stains add up."""
    strength = np.diag(np.exp(rng.normal(0, how.stain_jitter, 3)))
    gamma = np.exp(rng.normal(0, how.gamma))
    hues = STAINS + rng.normal(0, how.hue_jitter, STAINS.shape)
    change = np.linalg.inv(STAINS) @ strength @ hues * gamma
    everywhere = rng.normal(0, how.background_stain, 3) @ STAINS
    table = (-np.log((np.arange(256) + 1) / 256)).astype(np.float32)
    density = cv2.transform(table[crop], np.column_stack([change.T, everywhere]).astype(np.float32))
    light = cv2.exp(np.minimum(-density, 0.0))
    return (light * np.float32(255) + np.float32(0.5)).astype(np.uint8)


def blur_and_noise(rng: Random, crop: Bytes, how: StainAugmentation) -> Bytes:
    """Sometimes out of focus or too sharp, sometimes grainy, as another scanner might have seen it."""
    if rng.random() < how.blur_share:
        soft = cv2.GaussianBlur(crop, (0, 0), rng.uniform(0.5, how.max_blur))
        sharper = rng.random() < 0.3
        crop = np.asarray(cv2.addWeighted(crop, 1.8, soft, -0.8, 0) if sharper else soft, np.uint8)
    if rng.random() < how.noise_share:
        grain = rng.standard_normal(crop.shape, dtype=np.float32) * np.float32(rng.uniform(2, 8))
        crop = np.clip(crop + grain, 0, 255).astype(np.uint8)
    if rng.random() < how.jpeg_share:
        quality = int(rng.integers(30, 91))
        _, packed = cv2.imencode(".jpg", crop[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
        crop = np.ascontiguousarray(np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)[:, :, ::-1])
    return crop


# --- what is on slides beside tissue ------------------------------------------------------------------------------

PENS = np.array([[3.0, 3.0, 3.0], [3.0, 2.2, 0.6], [2.6, 0.9, 1.8]])
"""What black, blue and green ink absorb of red, green and blue, in optical density where it is thick."""


def add_artefact(rng: Random, crop: Bytes, mask: Bytes, how: StainAugmentation) -> tuple[Bytes, Bytes]:
    """Sometimes pen ink over a part of a crop, a pool of haematoxylin, or a fold: none of them is a nucleus.

    Thick ink hides what lies under it, so nothing under it is a nucleus. Through dye and folds nuclei are still seen.
    """
    if rng.random() >= how.artefact_share:
        return crop, mask
    kind = rng.integers(3)
    shape = _band(rng, crop.shape[0]) if kind == 2 or rng.random() < 0.5 else _blot(rng, crop.shape[0])
    density = -np.log((crop.astype(np.float32) + 1) / 256)
    if kind == 0:
        ink = PENS[rng.integers(len(PENS))] * rng.uniform(0.6, 1.2)
        density = density * (1 - 0.8 * shape[:, :, None]) + shape[:, :, None] * ink.astype(np.float32)
        mask = np.where(shape > 0.5, 0, mask).astype(np.uint8)
    elif kind == 1:
        density = density + shape[:, :, None] * (STAINS[0] * rng.uniform(0.3, 1.2)).astype(np.float32)
    else:
        density = density * (1 + shape[:, :, None] * np.float32(rng.uniform(0.4, 1.2)))
    return np.asarray(np.clip(256 * np.exp(-density) - 0.5, 0, 255), np.uint8), mask


def _band(rng: Random, size: int) -> Floats:
    """How strong a stripe across a square is at each pixel, 0 to 1: bent, and soft at its sides."""
    angle, middle = rng.uniform(0, np.pi), rng.uniform(0.1, 0.9, 2) * size
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    along = (rows - middle[0]) * np.cos(angle) + (columns - middle[1]) * np.sin(angle)
    beside = (columns - middle[1]) * np.cos(angle) - (rows - middle[0]) * np.sin(angle)
    beside = beside + rng.uniform(0, 0.06) * size * np.sin(along / size * rng.uniform(2, 9))
    half, soft = rng.uniform(0.02, 0.18) * size, rng.uniform(1, 8)
    return np.asarray(np.clip((half - np.abs(beside)) / soft + 0.5, 0, 1), np.float32)


def _blot(rng: Random, size: int) -> Floats:
    """How strong a spot of any outline is at each pixel of a square, 0 to 1."""
    knots = int(rng.integers(3, 9))
    waves = cv2.resize(rng.random((knots, knots), dtype=np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(np.clip((waves - rng.uniform(0.55, 0.85)) * rng.uniform(3, 30), 0, 1), np.float32)


def edge_weight(mask: Bytes, *, extra: float, width: int = 5) -> Floats:
    """1, and up to 1 + `extra` near the outlines of a 0/1 mask: there answers are wrong most often."""
    disk = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (width, width))
    edge = cv2.morphologyEx(mask, cv2.MORPH_GRADIENT, disk).astype(np.float32)
    return np.asarray(1 + extra * cv2.blur(edge, (3, 3)), np.float32)
