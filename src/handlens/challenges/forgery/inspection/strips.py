"""Two regions side by side after alignment, and their difference, so that a person can judge."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from handlens.challenges.forgery.detect.findings import BoolArray, ByteArray
from handlens.challenges.forgery.inspection.aligning import SHOWN_SIDE, Agreement, Aligned
from handlens.challenges.forgery.inspection.drawing import CASING, Colour

REGION_SIDE = 200
"""A small region is enlarged until its longer side has so many pixels."""

TILE_LEAST = 260
"""The least width for a title and the scale of colours."""

SCALE_WIDTH = 64
"""Pixels of the scale of colours."""

PAPER: Colour = (255, 255, 255)
INK: Colour = (32, 32, 36)

UNRELATED = 128
"""Brightness of a difference as large as the region's own contrast: so two unrelated regions are bright."""

FACTORS = (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Factors a difference may be amplified by."""

DIM_RANGE, RAISED_MOST = 100.0, 6.0
"""Regions with fewer grey levels than this have their contrast raised for the eye, by this at most."""


def draw_strip(
    aligned: Aligned, agreement: Agreement, colour: Colour, titles: tuple[str, str]
) -> tuple[ByteArray, list[str]]:
    """Source, copy laid on it, difference; and what to say about how they are shown."""
    factor, raised = _factor(agreement), _raise_contrast(aligned)
    sides = np.flatnonzero(aligned.mask.any(axis=1)), np.flatnonzero(aligned.mask.any(axis=0))
    longest = max((int(side[-1] - side[0]) + 1 for side in sides if side.size), default=REGION_SIDE)
    enlarged = max(1, min(-(-REGION_SIDE // longest), SHOWN_SIDE // max(aligned.mask.shape)))
    tiles = [_enlarge(crop, enlarged) for crop in (*raised[:2], _heat(aligned, agreement, factor))]
    mask = _enlarge(aligned.mask.astype(np.uint8), enlarged) > 0
    for tile in tiles[:2]:
        _outline_mask(tile, mask, colour)
    words = [f"difference amplified {factor:g}x, dark where the two agree; brightness and contrast evened out first"]
    if agreement.inverted:
        words.append("dark and bright of one region are exchanged, and were exchanged back for the difference")
    if raised[2] > 1:
        words.append(f"contrast of both regions raised {raised[2]:.1f}x for the eye")
    if enlarged > 1:
        words.append(f"enlarged {enlarged}x")
    if aligned.scale < 1:
        words.append(f"reduced to {aligned.scale:.0%}")
    return _compose(tiles, [*titles, f"difference, {factor:g}x"], limit=f"{255 / factor:.0f}"), words


def _factor(agreement: Agreement) -> float:
    wanted = UNRELATED / max(agreement.contrast, 1e-3)
    return float(min(FACTORS, key=lambda factor: abs(np.log(factor / wanted))))


def _heat(aligned: Aligned, agreement: Agreement, factor: float) -> ByteArray:
    """The difference in colours, dark for none; outside the region the source, pale."""
    level = np.clip(agreement.difference * factor, 0, 255).astype(np.uint8)
    heat = _in_colours(level)
    pale = 200 + aligned.source.mean(axis=2, keepdims=True) / 255 * 45
    return np.where(aligned.mask[:, :, None], heat, np.broadcast_to(pale, heat.shape)).astype(np.uint8)


def _in_colours(level: ByteArray) -> ByteArray:
    return np.asarray(cv2.cvtColor(cv2.applyColorMap(level, cv2.COLORMAP_INFERNO), cv2.COLOR_BGR2RGB), np.uint8)


def _colour_scale() -> ByteArray:
    return _in_colours(np.tile(np.linspace(0, 255, SCALE_WIDTH).astype(np.uint8), (12, 1)))


def _raise_contrast(aligned: Aligned) -> tuple[ByteArray, ByteArray, float]:
    """Both crops, stretched alike where the regions have few grey levels; and by how much."""
    if not aligned.mask.any():
        return aligned.source, aligned.copy, 1.0
    values = np.concatenate([aligned.source[aligned.mask], aligned.copy[aligned.mask]])
    low, high = np.percentile(values, (1, 99))
    if high - low >= DIM_RANGE:
        return aligned.source, aligned.copy, 1.0
    gain = min(RAISED_MOST, 2 * DIM_RANGE / max(float(high - low), 1.0))
    base = 127.5 - gain * (high + low) / 2
    table = np.clip(np.arange(256) * gain + base, 0, 255).astype(np.uint8)
    return table[aligned.source], table[aligned.copy], gain


def _enlarge(crop: ByteArray, factor: int) -> ByteArray:
    """Each pixel as a square: nothing is made up between them."""
    return np.ascontiguousarray(crop.repeat(factor, axis=0).repeat(factor, axis=1))


def _outline_mask(tile: ByteArray, mask: BoolArray, colour: Colour) -> None:
    """A thin double line just outside the region, so that none of its pixels is hidden."""
    inside = mask.astype(np.uint8)
    grown = [cv2.dilate(inside, np.ones((side, side), np.uint8)) > 0 for side in (3, 7, 9)]
    tile[grown[0] & ~mask] = CASING
    tile[grown[1] & ~grown[0]] = colour
    tile[grown[2] & ~grown[1]] = CASING


def _compose(tiles: Sequence[ByteArray], titles: Sequence[str], limit: str) -> ByteArray:
    """Tiles with their titles on white: side by side, or one below the other where they are wide.

    Over the last one is its scale of colours, from 0 to `limit` grey levels.
    """
    height, width = tiles[0].shape[:2]
    head, gap = 30, 14
    across = width < 2.2 * height
    font = ImageFont.load_default(16)
    cell = max(width, TILE_LEAST), height + head
    steps = (cell[0] + gap, 0) if across else (0, cell[1] + gap)
    size = 2 * gap + cell[0] + 2 * steps[0], 2 * gap + cell[1] + 2 * steps[1]
    paper = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(paper)
    for number, (tile, title) in enumerate(zip(tiles, titles, strict=True)):
        x, y = gap + number * steps[0], gap + number * steps[1]
        draw.text((x, y + head / 2), title, fill=INK, font=font, anchor="lm")
        paper.paste(Image.fromarray(tile), (x, y + head))
    end = x + cell[0]
    text = draw.textlength(limit, font=font)
    draw.text((end, y + head / 2), limit, fill=INK, font=font, anchor="rm")
    paper.paste(Image.fromarray(_colour_scale()), (int(end - text) - 6 - SCALE_WIDTH, y + head // 2 - 6))
    draw.text((end - text - 12 - SCALE_WIDTH, y + head / 2), "0", fill=INK, font=font, anchor="rm")
    return np.array(paper)
