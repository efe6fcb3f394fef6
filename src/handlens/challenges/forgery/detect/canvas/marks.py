"""Letters, scale bars and arrows: they look alike in every figure without being copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Panel

CONTRAST = 90
"""Grey levels, of 255, between ink and what is around it. By hand."""

BRIGHT_INK, DARK_INK, FULL_INK = 150, 60, 235
"""Grey level from which ink can be white, and up to which it can be black: small letters are never quite either. Where
a texture is full of such pixels, only what is quite white or, as far from white, quite black can be ink. By hand."""

PURE, PALEST = 228, 180
"""Level, of 255, that the best part of a stroke of white ink reaches; black ink is as far from white. Where contrast
was lowered later, words and bars are as much paler as the brightest pixel of the figure is, down to that. By hand."""

HARD = 90
"""Grey levels between neighbours of a neighbour that only a drawn edge has: lenses blur, pens do not. By hand."""

MOSTLY_EVEN = 0.55
"""Share of a stroke's pixels that are as bright as its brightest from which its inside has no edge: it is thick. By
hand."""

RIM = 2
"""Pixels along the border of a panel that may be a frame, or mixed with the gutter."""

HALO = 2
"""Pixels around a mark that are mixed with it, at least: smoothing and JPEG spread it."""

COLOURFUL, DARK_PANEL = 150, 128
"""Difference of the channels, of 255, from which a pixel of a dark grey picture can only be drawn; stains are on bright
ground. By hand."""

THICK, FLAT = 7, 12
"""Pixels across the inside of what is thicker than a stroke, and levels between neighbours of a neighbour from which it
is no even colour. By hand."""

SEEN, PALE = 25, 0.5
"""Level from which a pixel of a dark panel shows anything, and the difference of the channels, as a share of the
highest, below which it is not of one dye. By hand."""

HARDLY, ALL_GREY = 24, 0.985
"""Difference of the channels below which a pixel has hardly any colour, and the share of such pixels, beside the drawn
ones, from which a bright panel is a grey photograph: JPEG spreads the colour of an arrow a little. By hand."""

TINTED, RARE, LIGHT, FEW = 40, 0.1, 110, 0.03
"""Difference of the channels from which a pixel has a hue, the share of such pixels below which a hue is rare, the
level from which a pixel is light, and the most of a panel that arrows and letters cover. By hand."""

LINE, LINE_STEP = (32, 0.2), 28
"""Shortest straight edge in pixels and as a share of the panel, and the grey levels across it, two pixels apart. By
hand."""

DIM, SPARE = 110, 0.998
"""Level that nearly all of a panel stays under, and how much that is, where thin strokes that reach ink are drawn. By
hand."""

MOST_FAIR = 30
"""Strokes of one panel among which pale ones can be letters; where there are more, they are what it shows. By hand."""

MOST_ALONE = 12
"""Thin bright strokes of one panel that can be arrows; where there are more, they are what it shows. By hand."""

MOST_STROKES = 400
"""Parts of ink of one panel that are looked at: a picture with more is full of bright specks, not of words. By hand:
bounds the time."""

LONGEST_THIN, THIN_DEPTH = 8, 4
"""Pixels that the longer side of a thin stroke or of an arrow has at least, and that its middle is from its edge at
most. By hand."""

THIN_FILL, FULL_FILL, ARROW_FILL, BAR_FILL = 0.55, 0.65, 0.45, 0.85
"""Share of its rectangle that a thin stroke fills at most, one of full ink, an arrow, and that a bar fills at least. By
hand."""

ARROW_EVEN, BAR_EVEN, LETTER_EVEN = 0.5, 0.45, 0.3
"""Share of its pixels that are as bright as its brightest, of an arrow, a bar, and a letter in a corner, at least. By
hand."""

BAR_RATIO = 4
"""Length of a bar in its widths, at least. By hand."""

ONE_LINE, ONE_HEIGHT, ONE_WORD = 0.6, 2, 0.9
"""Share of its height that a letter stands beside the next one, the ratio of their heights, and the gap between them in
heights. By hand."""

CORNER = 0.2
"""Share of a panel's sides within which the letter in its corner stands. By hand."""

ABOVE_BAR = 1.5
"""Heights of a letter between it and the scale bar it belongs to, at most. By hand."""

FRAME = 0.25
"""Share of a panel that the rectangle of a stroke covers from which it is a frame around what the panel shows. By hand:
no letter, bar or arrow is as large."""

LARGEST_ROOM = 16
"""A stroke's room is at most one over this of the panel's shorter side. By hand."""

NARROWEST_PANEL, AROUND, HALO_SHARE = 8, 21, 150
"""Pixels of the shortest side of a panel in which marks are sought, side of the median that is what is around ink, and
the part of a panel's side, one over this, that a halo has. By hand."""

SMALLEST_STROKE, LARGEST_STROKE, LEVELS_OF_INK, BEST_PART = 5, 0.03, 16, 85
"""Fewest pixels of a stroke, most of a panel that it covers, grey levels over which even ink spreads, and the
percentile that is its best part. By hand."""

SHEET, SHEET_LEVELS, SHEET_WHITE, SHEET_SHARE = 7, 4, 250, 0.02
"""Side of the window in which a sheet of paper is flat, to how many levels, how white it is, and the least share of a
panel that it covers. By hand."""

GREY_SHARE, GREY_LEVELS, MOSTLY_GREY, MOST_COLOURED = 0.3, 8, 0.8, 0.1
"""Difference of the channels, as a share of the highest and in levels, below which a pixel of a dark panel is grey; the
share of such pixels from which the panel is, and the most of it that is drawn in colour. By hand."""

MOST_PALE = 0.3
"""Share of a panel's pixels that are not of one dye, where it is a dyed one. By hand."""

HUES = (1, 2, 4)
"""Rule: one bit for each channel, so that there are eight hues."""

LINE_WIDTH = 5
"""Pixels that are marked across a straight edge. By hand: the line and its blur."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A connected part of ink with hard edges: its rectangle, how much of that it fills, how even and pure it is.

    It is `fair` if it is pure or as near to that as the figure goes. `depth` is how far from its edge its middle lies,
    in pixels.
    """

    top: int
    left: int
    height: int
    width: int
    fill: float
    even: float
    pure: bool
    fair: bool
    depth: float

    @property
    def is_thin(self) -> bool:
        """Made by a pen: a small bright cell is as narrow, but round."""
        return self.fill < THIN_FILL and self.depth < THIN_DEPTH and max(self.height, self.width) >= LONGEST_THIN

    @property
    def is_bar(self) -> bool:
        """A filled rectangle, long and low or high and narrow."""
        longer, shorter = max(self.height, self.width), min(self.height, self.width)
        return self.fill > BAR_FILL and longer > BAR_RATIO * shorter and self.even > BAR_EVEN

    @property
    def is_arrow(self) -> bool:
        """Thin, and of one colour; a nucleus is neither."""
        longer = max(self.height, self.width)
        return self.fill < ARROW_FILL and self.even > ARROW_EVEN and longer >= LONGEST_THIN

    def follows(self, other: Stroke) -> bool:
        """Whether two strokes stand in one line of letters, beside each other."""
        low = min(self.top + self.height, other.top + other.height)
        shared = low - max(self.top, other.top)
        gap = max(self.left, other.left) - min(self.left + self.width, other.left + other.width)
        tall, small = max(self.height, other.height), min(self.height, other.height)
        return shared > ONE_LINE * small and tall < ONE_HEIGHT * small and gap < ONE_WORD * tall

    def room(self, shape: tuple[int, ...]) -> tuple[slice, slice]:
        """Its rectangle with what belongs to it: the dot of an i, a letter that touches a bright object."""
        around = max(2, min(self.height, min(shape) // LARGEST_ROOM) // 2)
        rows = slice(max(0, self.top - around), self.top + self.height + around)
        return rows, slice(max(0, self.left - 2 * around), self.left + self.width + 2 * around)


def find_marks(grey: FloatArray, colour: npt.NDArray[Any], panels: tuple[Panel, ...]) -> BoolArray:
    """Pixels of marks in a grey picture of 0 to 255, with a halo; `colour` is the same picture as it is stored."""
    marks = np.zeros(grey.shape, np.bool_)
    whitest, blackest = (max(PALEST, float(level)) for level in (grey.max(), 255 - grey.min()))
    for panel in panels:
        if panel.kind != "picture" or min(panel.shape) < NARROWEST_PANEL:
            continue
        part, found = grey[panel.window], marks[panel.window]
        around = cv2.medianBlur(np.clip(part, 0, 255).astype(np.uint8), AROUND).astype(np.float32)
        found |= _paper(part) | _lines(part)
        if colour.ndim == 3 and colour.dtype == np.uint8:
            found |= _coloured(colour[panel.window]) | _strange(colour[panel.window])
        for bright, ground, least, most in (
            (part, around, BRIGHT_INK, whitest),
            (255 - part, 255 - around, 255 - DARK_INK, blackest),
        ):
            fair = PURE / 255 * most
            strokes = _strokes(bright, (bright > least) & (bright - ground > CONTRAST), fair)
            if strokes is None:
                full = _strokes(bright, (bright > FULL_INK) & (bright - ground > CONTRAST), fair) or []
                drawn = [*_drawn(full, part.shape), *_full(full)]
            else:
                drawn = [*_drawn(strokes, part.shape), *_alone(bright, strokes, found)]
            for stroke in drawn:
                found[stroke.room(part.shape)] = True
        reach = max(HALO, min(panel.shape) // HALO_SHARE)
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
        found[:] = cv2.dilate(found.astype(np.uint8), disc) > 0
        if panel.shape != grey.shape:
            found[:RIM], found[-RIM:], found[:, :RIM], found[:, -RIM:] = True, True, True, True
    return marks


def _strokes(bright: FloatArray, ink: BoolArray, fair: float) -> list[Stroke] | None:
    """Parts of ink with hard edges, `fair` where they reach that level; None where there are too many parts for ink."""
    count, parts, boxes, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    if count > MOST_STROKES:
        return None
    found = []
    steps = cv2.dilate(bright, np.ones((3, 3))) - cv2.erode(bright, np.ones((3, 3)))
    for number in range(1, count):
        left, top, width, height, area = (int(side) for side in boxes[number])
        if area < SMALLEST_STROKE or area > LARGEST_STROKE * ink.size or width * height > FRAME * ink.size:
            continue
        window = (slice(top, top + height), slice(left, left + width))
        own = parts[window] == number
        levels = bright[window][own]
        even, best = float((levels > levels.max() - LEVELS_OF_INK).mean()), float(np.percentile(levels, BEST_PART))
        edge = (
            own & ~(cv2.erode(own.astype(np.uint8), np.ones((3, 3)), borderValue=0) > 0) if even > MOSTLY_EVEN else own
        )
        if np.median(steps[window][edge]) > HARD:  # the inside of a thick stroke has no edge
            inside = cv2.distanceTransform(np.pad(own, 1).astype(np.uint8), cv2.DIST_L2, 3)
            fill, depth = area / (width * height), float(inside.max())
            found.append(Stroke(top, left, height, width, fill, even, best > PURE, best > fair, depth))
    return found


def _drawn(strokes: list[Stroke], shape: tuple[int, ...]) -> Iterator[Stroke]:
    """Strokes that are bars, arrows, letters of a word, or the letter in the corner of a panel."""
    ink = [stroke for stroke in strokes if stroke.pure or (stroke.fair and len(strokes) <= MOST_FAIR)]
    bars = [stroke for stroke in ink if stroke.is_bar]
    for stroke in strokes:
        if any(_beside(stroke, bar) for bar in bars if bar is not stroke):
            yield stroke
        if stroke not in ink:
            continue
        neighbours = [other for other in strokes if other is not stroke and stroke.follows(other)]
        word = len(neighbours) >= 2 or any(sum(map(other.follows, strokes)) >= 3 for other in neighbours)
        corner = stroke.top + stroke.height < CORNER * shape[0] and stroke.left + stroke.width < CORNER * shape[1]
        if stroke.is_bar or word or (stroke.pure and (stroke.is_arrow or (corner and stroke.even > LETTER_EVEN))):
            yield stroke


def _alone(bright: FloatArray, strokes: list[Stroke], found: BoolArray) -> list[Stroke]:
    """Thin strokes far from the level of everything else: arrows on a dim picture, of which each pixel is half ink.

    `bright` is the picture, or for black ink its negative; `found` are marks that are known already. Other strokes with
    hard edges, such as a letter in the corner, do not make the picture any less dim.
    """
    thin = [stroke for stroke in strokes if stroke.is_thin]
    rest = ~found
    for stroke in strokes:
        rest[stroke.room(bright.shape)] = False
    if not 0 < len(thin) <= MOST_ALONE or not rest.any() or float(np.quantile(bright[rest], SPARE)) >= DIM:
        return []
    return thin


def _full(strokes: list[Stroke]) -> list[Stroke]:
    """Thin strokes of one colour, quite white or quite black, on a texture that is neither."""
    thin = [
        stroke
        for stroke in strokes
        if stroke.fill < FULL_FILL and stroke.depth < THIN_DEPTH and stroke.even > ARROW_EVEN and stroke.pure
    ]
    return thin if len(thin) <= MOST_ALONE else []


def _beside(stroke: Stroke, bar: Stroke) -> bool:
    """Whether a stroke stands just above or below a scale bar."""
    middle = stroke.left + stroke.width / 2
    gap = max(stroke.top, bar.top) - min(stroke.top + stroke.height, bar.top + bar.height)
    return bar.left - stroke.width < middle < bar.left + bar.width + stroke.width and gap < ABOVE_BAR * stroke.height


def _paper(part: FloatArray) -> BoolArray:
    """White sheet inside a panel: flat, as white as can be, and more than a speck."""
    window = np.ones((SHEET, SHEET))
    flat = cv2.dilate(part, window) - cv2.erode(part, window) < SHEET_LEVELS
    white = (flat & (part > SHEET_WHITE)).astype(np.uint8)
    _, parts, boxes, _ = cv2.connectedComponentsWithStats(white, connectivity=8)
    large = np.flatnonzero(boxes[:, cv2.CC_STAT_AREA] > SHEET_SHARE * part.size)
    return np.asarray(np.isin(parts, large[large > 0]), np.bool_)


def _coloured(part: npt.NDArray[Any]) -> BoolArray:
    """Coloured pixels of a panel whose other pixels are grey; where they are not, the colour is the dye."""
    bands = part[:, :, :3].astype(np.int16)
    high = bands.max(axis=2)
    spread = high - bands.min(axis=2)
    coloured = spread > COLOURFUL
    others = (high > SEEN) & ~coloured
    if not others.any():
        return np.zeros(coloured.shape, np.bool_)
    if np.median(high) > DARK_PANEL:
        only = float((spread[others] < HARDLY).mean()) > ALL_GREY and coloured.mean() < FEW
    else:
        grey = spread[others] < GREY_SHARE * high[others] + GREY_LEVELS
        only = float(grey.mean()) >= MOSTLY_GREY and coloured.mean() <= MOST_COLOURED
    return np.asarray(coloured & only & ~_textured(bands, coloured), np.bool_)


def _textured(bands: npt.NDArray[np.int16], coloured: BoolArray) -> BoolArray:
    """Coloured parts that are thick and uneven inside, as a grain of maize is and no arrow, letter or bar."""
    thick = np.ones((THICK, THICK))
    whole = cv2.morphologyEx(coloured.astype(np.uint8), cv2.MORPH_CLOSE, thick)
    places = cv2.erode(whole, thick, borderValue=0) > 0
    near = np.ones((3, 3))
    steps = (cv2.dilate(bands, near) - cv2.erode(bands, near)).max(axis=2)
    count, parts = cv2.connectedComponents(whole, connectivity=8)
    inside = np.bincount(parts[places], minlength=count)
    uneven = np.bincount(parts[places], weights=steps[places] > FLAT, minlength=count)
    textured = uneven > inside / 2
    textured[0] = False
    return np.asarray(textured[parts], np.bool_)


def _strange(part: npt.NDArray[Any]) -> BoolArray:
    """Strong colours that hardly occur in a panel, as a yellow arrow on a violet slide, and white on coloured light.

    A dye is everywhere or nowhere.
    """
    bands = part[:, :, :3].astype(np.int16)
    high, low = bands.max(axis=2), bands.min(axis=2)
    middle = (high + low) // 2
    hue = ((bands > middle[:, :, None]) * np.array(HUES)).sum(axis=2)
    counts = np.bincount(hue[high - low > TINTED], minlength=8)
    rare = counts < RARE * max(1, counts.sum())
    bright, tinted = high > LIGHT, high - low > TINTED
    seen = (high > SEEN) & ~(bright & ~tinted)
    pale = high - low < PALE * high
    dyed = seen.any() and float(pale[seen].mean()) < MOST_PALE and float(np.median(high)) < DARK_PANEL
    drawn = (high - low > COLOURFUL) & (high > PURE) & (low < 255 - PURE) & rare[hue]
    found = np.zeros(hue.shape, np.bool_)
    for some in (drawn, bright & ~tinted & dyed):
        found |= some if some.mean() < FEW else False
    return found


def _lines(part: FloatArray) -> BoolArray:
    """Straight edges along rows and columns: frames, gutters and rulers; nothing grown is as straight."""
    found = np.zeros(part.shape, np.uint8)
    smooth = cv2.blur(part, (3, 3))
    for axis, side in ((1, part.shape[0]), (0, part.shape[1])):
        length = max(LINE[0], int(LINE[1] * side))
        steps = np.abs(cv2.Sobel(smooth, cv2.CV_32F, axis, 1 - axis, ksize=1))
        hard = (steps > LINE_STEP).astype(np.uint8)
        kernel = np.ones((length, 1) if axis else (1, length), np.uint8)
        found |= np.asarray(cv2.morphologyEx(hard, cv2.MORPH_OPEN, kernel), np.uint8)
    return np.asarray(cv2.dilate(found, np.ones((LINE_WIDTH, LINE_WIDTH), np.uint8)) > 0)
