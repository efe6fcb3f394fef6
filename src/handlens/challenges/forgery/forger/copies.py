"""Copy-move inside pictures: objects cloned, regions copied, objects covered up. Masks are true to the pixel.

A paste changes only pixels of its mask: the feather lies inside. So mask = source | all pastes, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np

from handlens.challenges.forgery.forger.changes import Change, blended, changed, draw_change, draw_crude_change
from handlens.challenges.forgery.forger.figures import Box, ComposedFigure, Placed, widen
from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray, FloatArray, LabelArray, outline

SMALLEST = 113
"""Fewest pixels of what is copied: a disc 12 pixels wide, the smallest clone that the contest has."""

SMALLEST_CUT_OUT = 50
"""Fewest pixels of an object that is cut out along its own outline: a disc 8 pixels wide."""

SMALLEST_SHARE = 0.0008
"""Smallest share of a figure that is copied: with its copy 0.17 %, which 19 of 20 of the contest's figures exceed."""

SHORTEST = 10
"""Shortest side of a copied region, in pixels: what is smaller is cloned as an object."""

ATTEMPTS = 80
"""Tries to find a place for a region or a paste."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A figure while it is forged: without print before and after, its objects, and the pixels not to touch."""

    panels: tuple[Placed, ...]
    honest: ByteArray
    forged: ByteArray
    objects: LabelArray
    taken: BoolArray


@dataclass(frozen=True, slots=True)
class CopiedRegion:
    """The source: where its bounding box lies, its mask in there, and the panel."""

    box: Box
    mask: BoolArray
    panel: Placed


def start(figure: ComposedFigure) -> Draft:
    """A draft of a figure in which nothing is forged yet: print, gutters, charts and text are not to be touched."""
    free = np.zeros(figure.objects.shape, np.bool_)
    for panel in figure.pictures:
        free[panel.box.window] = True
    taken = ~free | widen(figure.overlay.marks, 3)
    return Draft(figure.pictures, figure.picture.copy(), figure.picture.copy(), figure.objects.copy(), taken)


# --- the three forgeries ------------------------------------------------------------------------------------


def clone_object(draft: Draft, rng: np.random.Generator) -> BoolArray | None:
    """An object pasted once or more on background; the mask, or None where there was no object or no room."""
    region = _find_object(draft, rng, border=int(rng.choice([1, 1, 2, 2, 3, 5])))
    if region is None:
        return None
    turned = 0.05 if region.panel.lanes else 0.45
    copies = int(rng.choice([1, 2, 3], p=[0.72, 0.2, 0.08]))
    return _paste_copies(draft, region, rng, copies=copies, draw=partial(draw_change, turned=turned), covered=0.25)


def clone_cut_out(draft: Draft, rng: np.random.Generator) -> BoolArray | None:
    """An object cut out along its own outline and pasted hard, anywhere.

    No ground comes with it and no lens blurs its edge; a few bring a pixel or two of ground, or are feathered a little.
    """
    region = _find_object(draft, rng, border=int(rng.choice([0, 0, 0, 0, 1, 2])), least=SMALLEST_CUT_OUT)
    if region is None:
        return None
    copies = int(rng.choice([1, 2, 3], p=[0.55, 0.3, 0.15]))
    covered = float(rng.choice([0.1, 1.0]))
    return _paste_copies(
        draft, region, rng, copies=copies, draw=draw_crude_change, covered=covered, least=SMALLEST_CUT_OUT
    )


def copy_region(draft: Draft, rng: np.random.Generator) -> BoolArray | None:
    """A rectangle or an irregular region pasted once or more; the mask, or None where there was no room."""
    share = float(np.clip(np.exp(rng.normal(np.log(0.035), 0.85)), 0.004, 0.15))
    copies = int(rng.choice([1, 2], p=[0.85, 0.15]))
    for shrink in (1.0, 0.7, 0.5, 0.3):
        region = _find_region(draft, rng, share * shrink * draft.taken.size / (1 + copies))
        if region is not None:
            draw = partial(draw_change, turned=0.3)
            mask = _paste_copies(draft, region, rng, copies=copies, draw=draw, covered=1.0)
            if mask is not None:
                return mask
    return None


def cover_up(draft: Draft, rng: np.random.Generator) -> BoolArray | None:
    """An object hidden under background from elsewhere: the mask is the place it was and where the patch is from."""
    region = _find_object(draft, rng, border=int(rng.integers(3, 6)))
    if region is None:
        return None
    shape = np.ones_like(region.mask) if rng.uniform() < 0.3 else region.mask
    if (draft.taken[region.box.window] & shape).any():
        return None
    change = Change(mirrored=bool(rng.uniform() < 0.3), feather=float(rng.uniform(0.5, 1.5)))
    for _attempt in range(ATTEMPTS):
        spot = _free_spot(region.panel.box, shape, rng)
        if spot is None or spot.meets(region.box):
            continue
        seen = shape[:, ::-1] if change.mirrored else shape
        ground = draft.honest[spot.window]
        if (draft.objects[spot.window][seen] > 0).any() or (draft.taken[spot.window] & seen).any():
            continue
        if not 0.7 < float(ground[seen].mean(axis=1).std()) < 0.7 * float(draft.honest[region.box.window].std()) + 1:
            continue
        patch, kept = changed(ground, seen, change)
        return _lay(draft, [(spot, seen)], region.box, patch, kept, change)
    return None


# --- sources ------------------------------------------------------------------------------------------------


def _find_object(
    draft: Draft, rng: np.random.Generator, *, border: int, least: float | None = None
) -> CopiedRegion | None:
    """One whole nucleus, body or band with a rim of what is around it; it touches no print and no other forgery.

    It has `least` pixels or more; where that is None, as many as a clone of the contest.
    """
    panel = draft.panels[int(rng.integers(len(draft.panels)))]
    inner = draft.objects[panel.box.window]
    numbers, areas = np.unique(inner, return_counts=True)
    least = max(SMALLEST, SMALLEST_SHARE * draft.taken.size) if least is None else least
    usable = (numbers > 0) & (areas >= least) & (areas < 0.2 * inner.size)
    if not usable.any():
        return None
    liking = 1 / np.sqrt(areas[usable])  # small ones are cloned more often
    order = rng.choice(numbers[usable], size=int(usable.sum()), replace=False, p=liking / liking.sum())
    for number in order[:20]:
        rows, columns = np.nonzero(inner == number)
        top, left = int(rows.min()) - border, int(columns.min()) - border
        bottom, right = int(rows.max()) + border + 1, int(columns.max()) + border + 1
        if min(top, left) < 0 or bottom > inner.shape[0] or right > inner.shape[1]:
            continue
        box = Box(panel.box.top + top, panel.box.left + left, panel.box.top + bottom, panel.box.left + right)
        mask = widen(draft.objects[box.window] == number, border) if border else draft.objects[box.window] == number
        if not (draft.taken[box.window] & mask).any() and draft.honest[box.window][mask].std() > 2:
            return CopiedRegion(box, mask, panel)
    return None


def _find_region(draft: Draft, rng: np.random.Generator, area: float) -> CopiedRegion | None:
    """A rectangle or an irregular region that touches no print and no other forgery, and that shows something."""
    round_one = rng.uniform() < 0.5
    for _attempt in range(ATTEMPTS // 4):
        panel = draft.panels[int(rng.integers(len(draft.panels)))]
        shape = _irregular(rng, area) if round_one else _rectangle(rng, area)
        if min(shape.shape) < SHORTEST:
            return None
        box = _free_spot(panel.box, shape, rng)
        if box is None or (draft.taken[box.window] & shape).any():
            continue
        seen, all_of_it = draft.honest[box.window][shape], draft.honest[panel.box.window]
        if seen.std() > max(2.0, 0.6 * float(all_of_it.std())):  # an empty patch is no forgery anyone would make
            return CopiedRegion(box, shape, panel)
    return None


def _rectangle(rng: np.random.Generator, area: float) -> BoolArray:
    aspect = float(rng.uniform(0.5, 1.8))
    return np.ones((max(1, round(np.sqrt(area * aspect))), max(1, round(np.sqrt(area / aspect)))), np.bool_)


def _irregular(rng: np.random.Generator, area: float) -> BoolArray:
    radius = float(np.sqrt(area / np.pi))
    polygon = outline((0, 0), (radius * 1.15, radius / 1.15), rng, roughness=0.2)
    polygon = polygon - polygon.min(axis=0)
    layer = np.zeros((int(polygon[:, 1].max()) + 1, int(polygon[:, 0].max()) + 1), np.uint8)
    cv2.fillPoly(layer, [polygon], 1)
    return np.asarray(layer > 0)


def _free_spot(box: Box, shape: BoolArray, rng: np.random.Generator) -> Box | None:
    """A place for a shape anywhere in a panel; None where the panel is too small."""
    height, width = shape.shape
    room = box.shape[0] - height, box.shape[1] - width
    if min(room) < 1:
        return None
    top, left = box.top + int(rng.integers(room[0])), box.left + int(rng.integers(room[1]))
    return Box(top, left, top + height, left + width)


# --- pastes -------------------------------------------------------------------------------------------------


def _paste_copies(
    draft: Draft,
    region: CopiedRegion,
    rng: np.random.Generator,
    *,
    copies: int,
    draw: Callable[[np.random.Generator], Change],
    covered: float,
    least: int = SMALLEST,
) -> BoolArray | None:
    """Paste the region up to `copies` times, each changed as `draw` says, none with fewer than `least` pixels.

    `covered` is the largest share of a paste that may hide objects.
    """
    mask = np.zeros_like(draft.taken)
    mask[region.box.window] = region.mask
    source = draft.honest[region.box.window]
    grown = widen(mask, 2)
    draft.taken[grown] = True
    done = 0
    for _copy in range(copies):
        change = draw(rng)
        patch, shape = changed(source, region.mask, change)
        if shape.sum() < least:
            continue
        spot = _place_for(draft, region, shape, rng, covered)
        if spot is not None:
            mask |= _lay(draft, [], spot, patch, shape, change)
            done += 1
    if not done:
        draft.taken[grown] = False
    return mask if done else None


def _place_for(
    draft: Draft, region: CopiedRegion, shape: BoolArray, rng: np.random.Generator, covered: float
) -> Box | None:
    """A free place in the same panel, or in one that looks alike; background first, then more and more over objects."""
    alike = [panel for panel in draft.panels if panel.brush is region.panel.brush]
    for attempt in range(ATTEMPTS):
        panel = region.panel if rng.uniform() < 0.6 else alike[int(rng.integers(len(alike)))]
        spot = _free_spot(panel.box, shape, rng)
        if spot is None or (draft.taken[spot.window] & shape).any():
            continue
        hidden = float((draft.objects[spot.window][shape] > 0).mean())
        if hidden <= (covered if covered == 1.0 else covered * attempt / ATTEMPTS):
            return spot
    return None


def _lay(
    draft: Draft, sources: list[tuple[Box, BoolArray]], spot: Box, patch: FloatArray, shape: BoolArray, change: Change
) -> BoolArray:
    """Draw the patch into the draft; the mask of what it covers, with its sources."""
    draft.forged[spot.window] = blended(draft.forged[spot.window], patch, shape, change)
    mask = np.zeros_like(draft.taken)
    mask[spot.window] = shape
    for box, seen in sources:
        mask[box.window] |= seen
    draft.taken[widen(mask, 2)] = True
    return mask
