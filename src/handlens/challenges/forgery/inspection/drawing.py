"""The figure with its groups outlined, one colour for each, names beside them and lines between what matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from handlens.challenges.forgery.detect.findings import BoolArray, ByteArray, Match, Patch
from handlens.challenges.forgery.inspection.naming import Named, outlines

Colour = tuple[int, int, int]

OVERVIEW_MOST, OVERVIEW_LEAST = 1600, 1200
"""Longest side of the outlined figure; a small one is enlarged so that lines and names have room."""

ENLARGED_MOST = 4.0
"""How much a small figure is enlarged at most."""

THUMBNAIL_SIDE = 300
"""Longest side of the small picture in the summary: twice what it is shown at, for fine screens."""

COLOURS: tuple[Colour, ...] = (
    (255, 176, 0),
    (60, 190, 255),
    (255, 80, 140),
    (0, 214, 143),
    (250, 240, 80),
    (177, 140, 255),
    (255, 112, 40),
    (120, 230, 240),
)
"""One for each group, then from the start again: bright, and apart for eyes that see red and green alike."""

DOUBTFUL: Colour = (225, 225, 225)
SAME_FIELD: Colour = (150, 185, 235)
CASING: Colour = (16, 16, 16)


def colour_of(named: Named) -> Colour:
    """The group's colour in every picture of the page."""
    if named.same_field:
        return SAME_FIELD
    return DOUBTFUL if named.doubtful else COLOURS[(int(named.name) - 1) % len(COLOURS)]


def draw_overview(display: ByteArray, groups: Sequence[Named]) -> ByteArray:
    """The figure, at most 1600 pixels on a side: every region outlined and named, lines between those that match."""
    canvas, scale = _fit(display, OVERVIEW_MOST, OVERVIEW_LEAST)
    _draw_groups(canvas, groups, scale, thick=max(3, round(max(canvas.shape) / 450)))
    return _write_names(canvas, groups, scale)


def draw_thumbnail(display: ByteArray, groups: Sequence[Named]) -> ByteArray:
    """The figure for the summary's list: what counts outlined, without names and lines."""
    canvas, scale = _fit(display, THUMBNAIL_SIDE, 0)
    for named in groups[::-1]:
        if named.counted:
            _outline(canvas, named, scale, thick=2)
    return canvas


def _draw_groups(canvas: ByteArray, groups: Sequence[Named], scale: float, *, thick: int) -> None:
    for named in groups[::-1]:  # the surest on top
        for match in () if named.doubtful else named.tree():
            line = _between(match, scale)
            pieces = [line] if named.counted else [*_dashes(line, 5.0 * thick, closed=False)]
            _stroke(canvas, pieces, colour_of(named), thick - 1, closed=False)
        _outline(canvas, named, scale, thick=thick)


def _outline(canvas: ByteArray, named: Named, scale: float, *, thick: int) -> None:
    for patch in named.regions:
        lines = [(outline + 0.5) * scale - 0.5 for outline in outlines(patch)]
        if not named.counted:
            dashes = [dash for line in lines for dash in _dashes(line, 5.0 * thick)]
            _stroke(canvas, dashes, colour_of(named), thick - 1, closed=False)
        else:
            _stroke(canvas, lines, colour_of(named), thick, closed=True)


def _fit(display: ByteArray, most: int, least: int) -> tuple[ByteArray, float]:
    """A copy of the figure to draw on, and its scale."""
    longest = max(display.shape[:2])
    scale = most / longest if longest > most else min(max(1.0, least / longest), ENLARGED_MOST)
    size = max(1, round(display.shape[1] * scale)), max(1, round(display.shape[0] * scale))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    fitted = cv2.resize(np.ascontiguousarray(display), size, interpolation=how) if scale != 1 else display.copy()
    return np.ascontiguousarray(fitted, np.uint8), float(scale)


def _stroke(canvas: ByteArray, lines: Sequence[Any], colour: Colour, thick: int, *, closed: bool) -> None:
    """Lines in the colour with a dark one beneath, so that they show on any ground."""
    points = [np.rint(np.asarray(line) * 8).astype(np.int32)[:, None, :] for line in lines]
    for shade, width in ((CASING, thick + 2), (colour, thick)):
        cv2.polylines(canvas, points, closed, shade, width, cv2.LINE_AA, 3)


def _dashes(line: Any, length: float, *, closed: bool = True) -> Iterator[Any]:
    """A line in pieces: every other one of about this length."""
    points = np.vstack([line, line[:1]]) if closed else line
    steps = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    pieces = max(1, round(steps[-1] / (2 * length)))
    for piece in range(pieces):
        places = np.linspace(piece, piece + 0.5, 8) * steps[-1] / pieces
        yield np.stack([np.interp(places, steps, points[:, axis]) for axis in (0, 1)], axis=1)


def _between(match: Match, scale: float) -> Any:
    """The line from the border of the source to the border of the copy; from middle to middle where they overlap."""
    start, end = np.array(match.source.centre), np.array(match.copy.centre)
    places = start + np.linspace(0, 1, 512)[:, None] * (end - start)
    leaves = np.flatnonzero(_holds(match.source, places))
    enters = np.flatnonzero(_holds(match.copy, places))
    first, last = (leaves[-1] if leaves.size else 0), (enters[0] if enters.size else -1)
    ends = places[[first, last]] if first < last % len(places) else np.stack([start, end])
    return (ends + 0.5) * scale - 0.5


def _holds(patch: Patch, places: Any) -> BoolArray:
    columns, rows = np.rint(places - (patch.left, patch.top)).astype(int).T
    height, width = patch.mask.shape
    within = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    within[within] = patch.mask[rows[within], columns[within]]
    return np.asarray(within, np.bool_)


def _write_names(canvas: ByteArray, groups: Sequence[Named], scale: float) -> ByteArray:
    """Each region's name in a box of its group's colour, beside the region where there is room."""
    size = int(np.clip(max(canvas.shape) / 45, 13, 36))
    picture = Image.fromarray(canvas)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size)
    taken: list[tuple[float, float, float, float]] = []
    for named in groups:
        for index, patch in enumerate(named.regions):
            text = named.region_name(index)
            width, height = draw.textlength(text, font=font) + 0.6 * size, 1.35 * size
            x, y = _free_place(patch, scale, (width, height), canvas.shape, taken)
            taken.append((x, y, x + width, y + height))
            draw.rounded_rectangle((x, y, x + width, y + height), size / 4, fill=colour_of(named), outline=CASING)
            draw.text((x + width / 2, y + height / 2), text, fill=CASING, font=font, anchor="mm")
    return np.array(picture)


def _free_place(
    patch: Patch, scale: float, size: tuple[float, float], shape: tuple[int, ...], taken: Sequence[Any]
) -> tuple[float, float]:
    """Upper left corner of a name: above the region, below, beside; the first that hides no other name."""
    width, height = size
    top, left = patch.top * scale, patch.left * scale
    bottom, right = top + patch.mask.shape[0] * scale, left + patch.mask.shape[1] * scale
    wanted = [
        (left, top - height - 4),
        (left, bottom + 4),
        (right + 4, top),
        (left - width - 4, top),
        (right - width, top - height - 4),
        (right - width, bottom + 4),
    ]
    first = None
    for x, y in wanted:
        place = float(np.clip(x, 0, max(0, shape[1] - width - 1))), float(np.clip(y, 0, max(0, shape[0] - height - 1)))
        first = first or place
        hidden = any(
            place[0] < box[2] and box[0] < place[0] + width and place[1] < box[3] and box[1] < place[1] + height
            for box in taken
        )
        if not hidden and place == (x, y):
            return place
    return first or (0.0, 0.0)
