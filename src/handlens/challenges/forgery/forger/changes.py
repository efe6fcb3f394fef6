"""How a paste differs from its source, and how it is laid over what was there."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray, FloatArray

RIGHT_ANGLES = (0.0, 90.0, 180.0, 270.0)


@dataclass(frozen=True, slots=True)
class Change:
    """Turn in degrees, size, mirror, contrast, brightness in grey levels, soft edge in pixels."""

    turn: float = 0.0
    size: float = 1.0
    mirrored: bool = False
    contrast: float = 1.0
    brightness: float = 0.0
    feather: float = 0.0


def draw_change(rng: np.random.Generator, *, turned: float, resized: float = 0.35, mirrored: float = 0.25) -> Change:
    """A change; `turned`, `resized` and `mirrored` are how often a copy is turned by odd angles, resized, mirrored."""
    lot = float(rng.uniform())
    right = RIGHT_ANGLES[int(rng.integers(4))] if lot < turned + 0.2 and turned > 0 else 0.0
    toned = rng.uniform() < 0.4
    return Change(
        turn=float(rng.uniform(0, 360)) if lot < turned else right,
        size=float(rng.uniform(0.8, 1.25)) if rng.uniform() < resized else 1.0,
        mirrored=bool(rng.uniform() < mirrored),
        contrast=float(rng.uniform(0.8, 1.2)) if toned else 1.0,
        brightness=float(rng.uniform(-18, 18)) if toned else 0.0,
        feather=float(rng.uniform(0.5, 1.5)) if rng.uniform() < 0.6 else 0.0,
    )


def draw_crude_change(rng: np.random.Generator) -> Change:
    """The change of a cut-out: most are turned or sized a little, few are toned, hardly any has a soft edge."""
    lot = float(rng.uniform())
    toned = rng.uniform() < 0.15
    return Change(
        turn=float(rng.uniform(0, 360)) if lot < 0.35 else float(rng.normal(0, 12)) if lot < 0.75 else 0.0,
        size=float(rng.uniform(0.8, 1.2)) if rng.uniform() < 0.6 else 1.0,
        mirrored=bool(rng.uniform() < 0.15),
        contrast=float(rng.uniform(0.8, 1.2)) if toned else 1.0,
        brightness=float(rng.uniform(-18, 18)) if toned else 0.0,
        feather=float(rng.uniform(0.5, 1.2)) if rng.uniform() < 0.2 else 0.0,
    )


def changed(patch: ByteArray, shape: BoolArray, change: Change) -> tuple[FloatArray, BoolArray]:
    """A cut-out (h, w, 3) and its mask (h, w), mirrored, turned and sized, without empty margins."""
    picture, cover = patch.astype(np.float32), shape.astype(np.float32)
    if change.mirrored:
        picture, cover = picture[:, ::-1], cover[:, ::-1]
    if change.size == 1.0 and change.turn in RIGHT_ANGLES:  # exact: no pixel is interpolated
        quarter = round(change.turn / 90)
        return np.ascontiguousarray(np.rot90(picture, quarter)), np.ascontiguousarray(np.rot90(cover, quarter) > 0.5)
    height, width = cover.shape
    side = int(np.ceil(np.hypot(height, width) * change.size)) + 4
    middle = ((width - 1) / 2, (height - 1) / 2)
    matrix = np.asarray(cv2.getRotationMatrix2D(middle, change.turn, change.size), np.float64)
    matrix[:, 2] += (side - 1) / 2 - np.array(middle)
    picture = _warped(np.ascontiguousarray(picture), matrix, side, smooth=True)
    kept = _warped(np.ascontiguousarray(cover), matrix, side, smooth=False) > 0.5
    rows, columns = np.flatnonzero(kept.any(axis=1)), np.flatnonzero(kept.any(axis=0))
    if not len(rows):
        return picture, kept
    window = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return picture[window], kept[window]


def _warped(picture: FloatArray, matrix: npt.NDArray[np.float64], side: int, *, smooth: bool) -> FloatArray:
    border = cv2.BORDER_REPLICATE if smooth else cv2.BORDER_CONSTANT
    method = cv2.INTER_CUBIC if smooth else cv2.INTER_LINEAR
    return np.asarray(cv2.warpAffine(picture, matrix, (side, side), flags=method, borderMode=border), np.float32)


def toned(patch: FloatArray, shape: BoolArray, change: Change) -> FloatArray:
    """The patch with its contrast and brightness changed; dark patches are brightened less."""
    if change.contrast == 1.0 and change.brightness == 0.0:
        return patch
    middle = float(patch[shape].mean()) if shape.any() else 0.0
    result = (patch - middle) * change.contrast + middle + change.brightness * min(1.0, middle / 90)
    return np.asarray(np.clip(result, 0, 255), np.float32)


def blended(under: ByteArray, patch: FloatArray, shape: BoolArray, change: Change) -> ByteArray:
    """The paste over what was there; its edge fades over `feather` pixels, inside its mask."""
    cover = shape.astype(np.float32)
    if change.feather:
        padded = np.pad(cover, 4)
        soft = np.asarray(cv2.GaussianBlur(padded, (0, 0), change.feather), np.float32)[4:-4, 4:-4]
        cover = cover * np.clip(2 * soft - 0.7, 0.15, 1)
    mixed = under * (1 - cover[:, :, None]) + np.clip(toned(patch, shape, change), 0, 255) * cover[:, :, None]
    return np.rint(mixed).astype(np.uint8)
