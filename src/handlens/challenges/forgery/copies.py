"""Copy-move forgeries of a made-up figure, with masks that are true to the pixel.

A paste changes only pixels of its mask: the feather lies inside. So mask = source | all pastes, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.figures import BoolArray, Box, ByteArray, Figure
from handlens.challenges.forgery.textures import FloatArray, outline

SMALLEST = 40
"""Fewest pixels of a copied region: below, not even a person could say what was copied."""

ATTEMPTS = 60
"""Tries to find a place for a region or a paste before a smaller region is taken."""


@dataclass(frozen=True, slots=True)
class Region:
    """The source: a mask over the figure, and the panel it lies in."""

    mask: BoolArray
    panel: Box


@dataclass(frozen=True, slots=True)
class Change:
    """How a paste differs from its source: turn in degrees, size, mirror, contrast, brightness, soft edge."""

    turn: float
    size: float
    mirrored: bool
    contrast: float
    brightness: float
    feather: float


def forge(figure: Figure, rng: np.random.Generator) -> tuple[ByteArray, list[BoolArray]]:
    """The figure with one to three forgeries in it, and one mask for each: the source and all its copies."""
    picture = figure.picture.copy()
    taken = _widen(figure.marks, 3)
    share = float(np.clip(np.exp(rng.normal(np.log(0.034), 0.9)), 0.003, 0.16))
    wanted = int(rng.choice([1, 2, 3], p=[0.72, 0.22, 0.06]))
    masks: list[BoolArray] = []
    for _instance in range(wanted):
        mask = _forge_once(figure, picture, taken, rng, share=share / wanted)
        if mask is not None:
            masks.append(mask)
            taken |= _widen(mask, 2)
    return picture, masks


def _forge_once(
    figure: Figure, picture: ByteArray, taken: BoolArray, rng: np.random.Generator, *, share: float
) -> BoolArray | None:
    """One source and its copies, drawn into `picture`; None where there was no room for any."""
    copies = int(rng.choice([1, 2, 3], p=[0.8, 0.15, 0.05]))
    choose = _choose_shape(figure, rng, share)
    for shrink in (1.0, 0.7, 0.5, 0.35, 0.25):
        pixels = share * shrink * taken.size / (1 + copies)
        region = _find_region(figure, taken, rng, choose, pixels)
        if region is None:
            continue
        mask = region.mask.copy()
        for _copy in range(copies):
            pasted = _paste(figure, picture, taken | _widen(mask, 2), region, _draw_change(figure, rng), rng)
            if pasted is not None:
                mask |= pasted
        if mask.sum() > region.mask.sum():
            return mask
    return None


# --- sources ------------------------------------------------------------------------------------------------


def _choose_shape(figure: Figure, rng: np.random.Generator, share: float) -> Callable[[Box, float], BoolArray | None]:
    """What is copied: an object (or a band), a rectangle (or a lane), or an irregular region."""
    lot = float(rng.uniform())
    if lot < (0.5 if share < 0.03 else 0.15):
        return lambda box, _area: _object(figure, box, rng)
    if lot < 0.65:
        tall = figure.kind == "blot" and rng.uniform() < 0.5
        return lambda box, area: _rectangle(figure, box, rng, area, tall=tall)
    return lambda box, area: _irregular(figure, box, rng, area)


def _object(figure: Figure, box: Box, rng: np.random.Generator) -> BoolArray | None:
    """One nucleus, body or band that lies inside the panel, with a thin rim of what is around it."""
    inner = figure.objects[box.window]
    edge = np.concatenate([inner[:2].ravel(), inner[-2:].ravel(), inner[:, :2].ravel(), inner[:, -2:].ravel()])
    whole = np.setdiff1d(inner, edge)
    whole = whole[whole > 0]
    if not len(whole):
        return None
    mask = np.zeros(figure.objects.shape, np.bool_)
    mask[box.window] = _widen(inner == rng.choice(whole), int(rng.integers(1, 4)))
    return mask


def _rectangle(figure: Figure, box: Box, rng: np.random.Generator, area: float, *, tall: bool) -> BoolArray | None:
    aspect = float(rng.uniform(2.5, 5)) if tall else float(rng.uniform(0.5, 1.8))
    height, width = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
    room = box.shape[0] - height, box.shape[1] - width
    if min(room) < 1 or min(height, width) < 5:
        return None
    top, left = box.top + int(rng.integers(room[0])), box.left + int(rng.integers(room[1]))
    mask = np.zeros(figure.objects.shape, np.bool_)
    mask[top : top + height, left : left + width] = True
    return mask


def _irregular(figure: Figure, box: Box, rng: np.random.Generator, area: float) -> BoolArray | None:
    import cv2

    radius = float(np.sqrt(area / np.pi))
    if 2.4 * radius > min(box.shape) or radius < 3:
        return None
    x = float(rng.uniform(box.left + 1.2 * radius, box.right - 1.2 * radius))
    y = float(rng.uniform(box.top + 1.2 * radius, box.bottom - 1.2 * radius))
    layer = np.zeros(figure.objects.shape, np.uint8)
    polygon = outline((x, y), (radius * 1.1, radius / 1.1), rng, roughness=0.2)
    cv2.fillPoly(layer, [polygon], 1)
    inside = np.zeros_like(layer)
    inside[box.window] = layer[box.window]
    return np.asarray(inside > 0)


def _find_region(
    figure: Figure,
    taken: BoolArray,
    rng: np.random.Generator,
    choose: Callable[[Box, float], BoolArray | None],
    area: float,
) -> Region | None:
    """A region that touches no letter and no other forgery, and that shows something."""
    for _attempt in range(ATTEMPTS // 4):
        box = figure.panels[int(rng.integers(len(figure.panels)))]
        mask = choose(box, area)
        if mask is None or mask.sum() < SMALLEST or (mask & taken).any():
            continue
        if figure.picture[mask].std() > 10:  # an empty patch of background is no forgery anyone would make
            return Region(mask, box)
    return None


# --- pastes -------------------------------------------------------------------------------------------------


def _draw_change(figure: Figure, rng: np.random.Generator) -> Change:
    """Half of all pastes are only moved or turned by right angles; blots are seldom turned by odd angles."""
    odd = rng.uniform() < (0.15 if figure.kind == "blot" else 0.45)
    turn = float(rng.uniform(0, 360)) if odd else float(rng.choice([0, 0, 90, 180, 270]))
    size = float(rng.uniform(0.8, 1.25)) if rng.uniform() < 0.35 else 1.0
    changed = rng.uniform() < 0.4
    return Change(
        turn=turn,
        size=size,
        mirrored=bool(rng.uniform() < 0.25),
        contrast=float(rng.uniform(0.8, 1.2)) if changed else 1.0,
        brightness=float(rng.uniform(-18, 18)) if changed else 0.0,
        feather=float(rng.uniform(0.5, 1.5)) if rng.uniform() < 0.6 else 0.0,
    )


def _paste(
    figure: Figure,
    picture: ByteArray,
    taken: BoolArray,
    region: Region,
    change: Change,
    rng: np.random.Generator,
) -> BoolArray | None:
    """Draw the changed source at a free place of a panel; the pixels it covers, None where none is free."""
    patch, shape = _turned(figure.picture, region.mask, change)
    height, width = shape.shape
    for _attempt in range(ATTEMPTS):
        inside = not figure.alike or rng.uniform() < 0.5
        box = region.panel if inside else figure.panels[int(rng.integers(len(figure.panels)))]
        room = box.shape[0] - height, box.shape[1] - width
        if min(room) < 1:
            continue
        top, left = box.top + int(rng.integers(room[0])), box.left + int(rng.integers(room[1]))
        window = (slice(top, top + height), slice(left, left + width))
        if (taken[window] & shape).any():
            continue
        picture[window] = _blended(picture[window], patch, shape, change)
        pasted = np.zeros_like(taken)
        pasted[window] = shape
        return pasted
    return None


def _turned(picture: ByteArray, mask: BoolArray, change: Change) -> tuple[FloatArray, BoolArray]:
    """The source cut out, mirrored, turned and sized: its pixels and its mask, without empty margins."""
    import cv2

    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    window = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    patch, shape = picture[window].astype(np.float32), mask[window].astype(np.float32)
    if change.mirrored:
        patch, shape = patch[:, ::-1], shape[:, ::-1]
    if change.size == 1.0 and change.turn % 90 == 0:  # exact: no pixel is interpolated
        quarter = round(change.turn / 90) % 4
        return np.ascontiguousarray(np.rot90(patch, quarter)), np.ascontiguousarray(np.rot90(shape, quarter) > 0.5)
    height, width = shape.shape
    side = int(np.ceil(np.hypot(height, width) * change.size)) + 4
    middle = ((width - 1) / 2, (height - 1) / 2)
    matrix = np.asarray(cv2.getRotationMatrix2D(middle, change.turn, change.size), np.float64)
    matrix[:, 2] += (side - 1) / 2 - np.array(middle)
    patch = _warped(np.ascontiguousarray(patch), matrix, side, smooth=True)
    kept = _warped(np.ascontiguousarray(shape), matrix, side, smooth=False) > 0.5
    rows, columns = np.flatnonzero(kept.any(axis=1)), np.flatnonzero(kept.any(axis=0))
    if not len(rows):
        return patch, kept
    window = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return patch[window], kept[window]


def _warped(picture: FloatArray, matrix: npt.NDArray[np.float64], side: int, *, smooth: bool) -> FloatArray:
    import cv2

    border = cv2.BORDER_REPLICATE if smooth else cv2.BORDER_CONSTANT
    method = cv2.INTER_CUBIC if smooth else cv2.INTER_LINEAR
    return np.asarray(cv2.warpAffine(picture, matrix, (side, side), flags=method, borderMode=border), np.float32)


def _blended(under: ByteArray, patch: FloatArray, shape: BoolArray, change: Change) -> ByteArray:
    """The paste over what was there; its edge fades over `feather` pixels, inside its mask."""
    import cv2

    cover = shape.astype(np.float32)
    if change.feather:
        padded = np.pad(cover, 4)
        soft = np.asarray(cv2.GaussianBlur(padded, (0, 0), change.feather), np.float32)[4:-4, 4:-4]
        cover = cover * np.clip(2 * soft - 0.7, 0.15, 1)
    middle = patch[shape].mean() if shape.any() else 0.0
    changed = (patch - middle) * change.contrast + middle + change.brightness * min(1.0, middle / 90)
    mixed = under * (1 - cover[:, :, None]) + np.clip(changed, 0, 255) * cover[:, :, None]
    return np.rint(mixed).astype(np.uint8)


def _widen(mask: BoolArray, by: int) -> BoolArray:
    import cv2

    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * by + 1, 2 * by + 1))
    return np.asarray(cv2.dilate(mask.astype(np.uint8), kernel) > 0)
