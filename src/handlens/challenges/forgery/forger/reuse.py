"""Reuse of whole pictures: a panel that shows another panel's picture again, a lane of a blot pasted elsewhere."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.forger.changes import Change, blended, changed, toned
from handlens.challenges.forgery.forger.copies import ATTEMPTS, Draft
from handlens.challenges.forgery.forger.figures import Box, Placed, widen
from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray, FloatArray, PaintedPanel
from handlens.types import Shape

LEAST_OVERLAP = 0.3
"""Two panels count as one picture where they share at least this much of the smaller one."""

LEAST_CONTRAST = 4.0
"""A picture with a smaller spread of grey levels shows nothing that anyone would use twice."""

LEAST_BANDS = 0.04
"""Share of a lane that bands must cover: nobody copies bare membrane."""

LARGEST_LANE = 0.06
"""Share of the figure above which a lane is seldom taken."""

Matrix = npt.NDArray[np.float64]


# --- panels -------------------------------------------------------------------------------------------------


def reuse_panel(draft: Draft, rng: np.random.Generator) -> BoolArray | None:
    """Show in one panel what another shows, flipped or turned, shifted, zoomed; the mask is what both show.

    The first panel is painted anew, before and after, as a window of a larger scene; so the second can look a little
    beside it.
    """
    if len(draft.panels) < 2:
        return None
    first, second = (draft.panels[int(number)] for number in rng.permutation(len(draft.panels))[:2])
    if draft.taken[first.box.window].mean() > 0.6 or draft.taken[second.box.window].mean() > 0.6 or not first.brush:
        return None
    scene, window = _scene(first, rng)
    if scene is None:
        return None
    for _attempt in range(ATTEMPTS):
        matrix = _view(scene.picture.shape[:2], window, second.box.shape, rng)
        shared = None if matrix is None else _shared(matrix, window, second.box.shape)
        if matrix is not None and shared is not None:
            break
    else:
        return None
    inner = (slice(window.top, window.bottom), slice(window.left, window.right))
    if scene.picture[inner][shared[0]].mean(axis=1).std() < LEAST_CONTRAST:
        return None
    for picture in (draft.honest, draft.forged):
        picture[first.box.window] = np.rint(scene.picture[inner]).astype(np.uint8)
    draft.objects[first.box.window] = 0
    draft.objects[second.box.window] = 0
    draft.forged[second.box.window] = _tone(_seen(np.rint(scene.picture), matrix, second.box.shape), rng)
    mask = np.zeros_like(draft.taken)
    mask[first.box.window], mask[second.box.window] = shared
    draft.taken[first.box.window] = True
    draft.taken[second.box.window] = True
    return mask


def _scene(first: Placed, rng: np.random.Generator) -> tuple[PaintedPanel | None, Box]:
    """A picture of which the first panel is a window: often larger than that window, where there is such a picture."""
    assert first.brush is not None
    height, width = first.box.shape
    wider = float(rng.uniform(1.3, 1.7)) if rng.uniform() < 0.5 else 1.0
    shape = round(height * wider), round(width * wider)
    serial = 1_000 + int(rng.integers(1_000))
    panel = first.brush(shape, serial)
    if panel is None:
        shape = height, width
        panel = first.brush(shape, serial)
    top, left = int(rng.integers(shape[0] - height + 1)), int(rng.integers(shape[1] - width + 1))
    return panel, Box(top, left, top + height, left + width)


def _view(scene: Shape, window: Box, shape: Shape, rng: np.random.Generator) -> Matrix | None:
    """A map from pixels (x, y) of the second panel to the scene; None where the panel would look beyond the scene."""
    zoom = float(rng.uniform(0.7, 1.4)) if rng.uniform() < 0.45 else 1.0
    quarter, mirrored = int(rng.integers(4)), bool(rng.uniform() < 0.4)
    if rng.uniform() < 0.3:
        quarter, mirrored = 0, False
    turn = np.array([[0, -1], [1, 0]])
    linear = np.linalg.matrix_power(turn, quarter) @ np.diag([-1 if mirrored else 1, 1]) / zoom
    corners = np.array([[0, 0], [shape[1] - 1, 0], [0, shape[0] - 1], [shape[1] - 1, shape[0] - 1]], float)
    spread = corners @ linear.T
    low, high = -spread.min(axis=0), np.array([scene[1] - 1, scene[0] - 1]) - spread.max(axis=0)
    if (low > high + 1e-9).any():
        return None
    shift = rng.uniform(low, np.maximum(high, low))
    if rng.uniform() < 0.3:  # the very same window, where that fits
        shift = np.clip(low + np.array([window.left, window.top]), low, np.maximum(high, low))
    if zoom == 1.0:
        shift = np.rint(shift)  # no pixel is interpolated
    return np.hstack([linear, shift[:, None]])


def _shared(matrix: Matrix, window: Box, shape: Shape) -> tuple[BoolArray, BoolArray] | None:
    """The pixels of either panel that the other shows too; None where they are too few."""
    rows, columns = np.indices(shape)
    x = matrix[0, 0] * columns + matrix[0, 1] * rows + matrix[0, 2]
    y = matrix[1, 0] * columns + matrix[1, 1] * rows + matrix[1, 2]
    second = (x >= window.left) & (x <= window.right - 1) & (y >= window.top) & (y <= window.bottom - 1)
    back = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    rows, columns = np.indices(window.shape)
    across, down = columns + window.left, rows + window.top
    x = back[0, 0] * across + back[0, 1] * down + back[0, 2]
    y = back[1, 0] * across + back[1, 1] * down + back[1, 2]
    slack = 1e-6
    first = (x >= -slack) & (x <= shape[1] - 1 + slack) & (y >= -slack) & (y <= shape[0] - 1 + slack)
    enough = max(float(first.mean()), float(second.mean())) >= LEAST_OVERLAP
    return (first, second) if enough and min(first.sum(), second.sum()) > 100 else None


def _seen(scene: FloatArray, matrix: Matrix, shape: Shape) -> FloatArray:
    exact = abs(abs(float(np.linalg.det(matrix[:, :2]))) - 1) < 1e-9
    how = cv2.WARP_INVERSE_MAP | (cv2.INTER_NEAREST if exact else cv2.INTER_CUBIC)
    size = (shape[1], shape[0])
    return np.asarray(cv2.warpAffine(scene, matrix, size, flags=how, borderMode=cv2.BORDER_REPLICATE), np.float32)


def _tone(picture: FloatArray, rng: np.random.Generator) -> ByteArray:
    """Half of the reused panels have another brightness and contrast; a few are inverted."""
    if rng.uniform() < 0.5:
        change = Change(contrast=float(rng.uniform(0.7, 1.35)), brightness=float(rng.uniform(-25, 25)))
        picture = toned(picture, np.ones(picture.shape[:2], np.bool_), change)
    if rng.uniform() < 0.05:
        picture = 255 - picture
    return np.rint(np.clip(picture, 0, 255)).astype(np.uint8)


# --- lanes --------------------------------------------------------------------------------------------------


def reuse_lane(draft: Draft, rng: np.random.Generator) -> BoolArray | None:
    """A lane of a blot, or several, whole or in part, pasted over other lanes; the mask, None without room."""
    blots = [panel for panel in draft.panels if panel.lanes >= 2]
    if not blots:
        return None
    panel = blots[int(rng.integers(len(blots)))]
    others = [each for each in blots if each.brush is panel.brush]
    for _attempt in range(ATTEMPTS):
        source = _lane(panel, rng)
        if source.shape[0] * source.shape[1] > LARGEST_LANE * draft.taken.size and rng.uniform() < 0.9:
            continue
        if draft.taken[source.window].any() or (draft.objects[source.window] > 0).mean() < LEAST_BANDS:
            continue
        target_panel = panel if rng.uniform() < 0.7 else others[int(rng.integers(len(others)))]
        target = _other_lane(target_panel, source, rng)
        if target is None or draft.taken[target.window].any() or source.meets(target):
            continue
        return _paste_lane(draft, source, target, rng)
    return None


def _lane(panel: Placed, rng: np.random.Generator) -> Box:
    """One or more lanes, over the whole height or over a part of it."""
    box, step = panel.box, panel.box.shape[1] / panel.lanes
    count = 1 if panel.lanes < 4 or rng.uniform() < 0.75 else int(rng.integers(2, panel.lanes // 2 + 1))
    first = int(rng.integers(panel.lanes - count + 1))
    left, right = box.left + round(first * step), box.left + round((first + count) * step)
    whole, part = rng.uniform() < 0.15, float(rng.uniform(0.12, 0.45))
    high = box.shape[0] if whole else max(8, round(box.shape[0] * part))
    top = box.top + int(rng.integers(box.shape[0] - high + 1))
    return Box(top, left, top + high, right)


def _other_lane(panel: Placed, source: Box, rng: np.random.Generator) -> Box | None:
    """A place of the same size, at another lane; at about the same height, or anywhere."""
    box, (high, wide) = panel.box, source.shape
    if high > box.shape[0] or wide > box.shape[1]:
        return None
    step = box.shape[1] / panel.lanes
    left = min(box.left + round(int(rng.integers(panel.lanes)) * step), box.right - wide)
    top = source.top + int(rng.integers(-3, 4)) if rng.uniform() < 0.6 else box.top + int(rng.integers(box.shape[0]))
    top = int(np.clip(top, box.top, box.bottom - high))
    return Box(top, left, top + high, left + wide)


def _paste_lane(draft: Draft, source: Box, target: Box, rng: np.random.Generator) -> BoolArray:
    toning = rng.uniform() < 0.5
    change = Change(
        mirrored=bool(rng.uniform() < 0.35),
        contrast=float(rng.uniform(0.8, 1.2)) if toning else 1.0,
        brightness=float(rng.uniform(-20, 20)) if toning else 0.0,
        feather=float(rng.uniform(0.5, 1.5)) if rng.uniform() < 0.6 else 0.0,
    )
    patch, shape = changed(draft.honest[source.window], np.ones(source.shape, np.bool_), change)
    draft.forged[target.window] = blended(draft.forged[target.window], patch, shape, change)
    mask = np.zeros_like(draft.taken)
    mask[source.window] = True
    mask[target.window] = True
    draft.taken[widen(mask, 2)] = True
    return mask
