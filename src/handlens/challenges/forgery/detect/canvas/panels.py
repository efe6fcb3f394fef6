"""Where the panels of a compound figure are and what they show: nothing is matched across a gutter or in a plot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import ByteArray, Panel

Box = tuple[int, int, int, int]
"""Top, left, bottom, right."""


PUREST, LONG, GAP, LEAST_PAPER, WIDE = 254, 15, 7, 0.01, 21
"""Level of paper that was never scanned, length of a line that is paper, width of what packing spoils in it, least
share of such paper in a figure that has any, and width of the ground of a picture: JPEG spoils less around a line. By
hand."""


SHARP, CUT_SHARE, CUT_RATIO, RARELY, INK = 10, 0.05, 7.0, 0.004, 235
"""Levels of a step within one pixel, least share of a line that has them where panels touch, how much more that is than
in other lines, what any line may have, and the level of ink. Measured: real pictures have up to 0.12 of a line and 6
times the others."""


PLAIN, MOSTLY_PLAIN, FEW_OTHERS = 8, 0.9, 1_000
"""Grey levels among neighbours in the bar of a chart, the share of such places in all that is not thin, and the most
pixels beside them: a photograph on white paper, or a small one beside a chart, is less plain. By hand."""

WRITTEN, STROKE, THICK, BLURRED = 0.4, 7, 0.3, 0.2
"""Least paper of a panel of thin lines, pixels across a stroke that is not thin, the share of ink in such ones, and the
share of all that is not paper that may lie beside the strokes: tissue does, the blurred edge of a letter does not. By
hand."""

LINE_RANGE, LINE_LEVELS, LINE_NOISE, LINE_SHARE = (1, 50, 99), 2.0, 0.6, 0.5
"""Percentiles of a line; levels, or share of what the line itself spreads over, by which pixels beside it differ from
it, and how many of them do, where a line of one grey is a gutter. By hand."""

STEP_RATIO, STEP_LEVELS, STEP_SHARE, OTHER_SHARE, BESIDE = 3, 8, 0.6, 0.4, 4
"""A step is so many times the usual difference between two rows and so many levels more; the share of a line that has
it where a panel ends, what the lines around it have at most, and how many of those are looked at. By hand."""

SHADE_BITS, SHADES = 2, 4
"""Grey levels are taken four at a time (bits), and so many of the commonest shades are few. By hand."""

PLOTS = ((0.45, 0.8), (0.6, 0.7))
"""Share of paper and share of the commonest shades from which a panel is a plot, either of two. By hand."""

USUAL_LINE, QUARTERS, MOST_QUARTERS = 0.95, 4, 3
"""Quantile of what lines have of sharp steps that is usual, parts of a line, and how many of them must have some, a
third of the share of the whole, where panels touch. By hand."""

SEAM = 5
"""Pixels across the edge of a panel or of a bar that are mixed of both sides. By hand."""

SHARPER, QUARTER_LESS = 3, 3
"""How much steeper a cut is than the rows beside it; how many times fewer steps a quarter of it may have. By hand."""

MIDDLE_GREY = 127
"""Rule: paper is brighter, a dark ground darker than half of 8 bits."""


@dataclass(frozen=True, slots=True)
class PanelSplitter:
    """Cuts a figure along uniform lines and along edges that run right through, again and again."""

    side: int = 1000
    """Longer side of the picture that is cut: gutters are seen as well when it is small. By hand."""
    white: int = 245
    """Grey level of paper, from which a line can be a white gutter. By hand."""
    uniform: int = 4
    """Most grey levels in a line that is a dark or grey gutter. By hand."""
    noisy: float = 0.3
    """The same as a share of what lines of the picture have: a noisy figure has noisy gutters. By hand."""
    smallest: int = 32
    """Shortest side of a panel, in pixels of the small picture. By hand."""
    depth: int = 4
    """How often a part is cut again: rows, columns, rows, columns. By hand."""

    def split(self, grey: ByteArray) -> tuple[Panel, ...]:
        """Panels of an 8-bit grey figure in reading order; the whole figure where nothing cuts it."""
        height, width = grey.shape
        factor = min(1.0, self.side / max(height, width))
        small = grey
        if factor < 1:
            size = (max(1, round(width * factor)), max(1, round(height * factor)))
            small = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)
        small = self._dimmed(small)
        boxes = list(self._cut(small, (0, 0, *small.shape), self.depth, set()))
        panels = [self._name(small, box) for box in boxes] or [self._name(small, (0, 0, *small.shape))]
        if not any(panel.kind == "picture" for panel in panels):
            panels = self._undrawn(small, panels)
        scale = (height / small.shape[0], width / small.shape[1])
        return tuple(panel.scaled(*scale) for panel in panels)

    def _dimmed(self, grey: ByteArray) -> ByteArray:
        """The figure with nothing as white as paper but paper: the ground of an inverted picture is nearly that.

        Paper that was never scanned is quite white over long lines. A noisy figure, which has no such lines, stays as
        it is, and so does one on paper that is nearly white itself, which reaches the border.
        """
        white = (grey >= PUREST).astype(np.uint8)
        across, down = (cv2.morphologyEx(white, cv2.MORPH_OPEN, np.ones(size)) for size in ((1, LONG), (LONG, 1)))
        paper = np.asarray(cv2.morphologyEx(np.maximum(across, down), cv2.MORPH_CLOSE, np.ones((GAP, GAP))) > 0)
        if paper.mean() < LEAST_PAPER:
            return grey
        nearly = (grey >= self.white) & ~paper
        ground = cv2.morphologyEx(nearly.astype(np.uint8), cv2.MORPH_OPEN, np.ones((WIDE, WIDE))) > 0
        if any(side.any() for side in (ground[0], ground[-1], ground[:, 0], ground[:, -1])):
            return grey
        return np.where(ground, np.minimum(grey, self.white - 1), grey).astype(np.uint8)

    # --- cutting ------------------------------------------------------------------------------------------------

    def _cut(self, grey: ByteArray, box: Box, depth: int, done: set[int]) -> Iterator[Box]:
        """The parts of a box; `done` are the axes along which it cannot be cut."""
        top, left, bottom, right = box
        part = grey[top:bottom, left:right]
        if min(part.shape) < self.smallest:
            return
        for axis in (0, 1):
            if axis in done or depth == 0:
                continue
            stretches = self._stretches(part if axis == 0 else part.T)
            if stretches != [(0, part.shape[axis])]:
                for start, stop in stretches:
                    inner = (
                        (top + start, left, top + stop, right)
                        if axis == 0
                        else (top, left + start, bottom, left + stop)
                    )
                    yield from self._cut(grey, inner, depth - 1, set())
                return
        yield box

    def _stretches(self, part: ByteArray) -> list[tuple[int, int]]:
        """Ranges of rows between gutters and through edges; all rows where there are none."""
        gutter = self._gutters(part)
        edges = np.flatnonzero(np.diff(np.concatenate([[1], gutter.astype(np.int8), [1]])))
        ranges = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        found = []
        for start, stop in ranges:
            cuts = [start, *(start + place for place in self._seams(part[start:stop])), stop]
            found += [(a, b) for a, b in pairwise(cuts) if b - a >= 2]
        return found

    def _gutters(self, part: ByteArray) -> npt.NDArray[np.bool_]:
        """Rows that are paper, or a line of one grey level beside which nearly everything has another."""
        rows = part.astype(np.int16)
        low, middle, high = np.percentile(rows, LINE_RANGE, axis=1)
        paper = low >= self.white
        spread = high - low
        line = (spread <= max(self.uniform, self.noisy * float(np.median(spread)))) & ~paper
        for start, stop in _runs(line):
            sides = [rows[max(0, start - 2) : start], rows[stop : stop + 2]]
            level = float(np.median(middle[start:stop]))
            near = max(LINE_LEVELS, LINE_NOISE * float(spread[start:stop].max()))
            shares = [float((np.abs(side - level) > near).mean(axis=1).max()) for side in sides if len(side)]
            line[start:stop] = bool(shares) and min(shares) > LINE_SHARE
        return np.asarray(paper | line)

    def _seams(self, part: ByteArray) -> list[int]:
        """Rows at which one panel ends and the next begins without a gutter.

        There is a step along nearly the whole line or, between panels on the same dark ground, where cells are cut.
        """
        if len(part) < 2 * self.smallest:
            return []
        steps = np.abs(np.diff(part.astype(np.int16), axis=0))
        usual = np.median(steps, axis=0) * STEP_RATIO + STEP_LEVELS
        share = (steps > usual).mean(axis=1)
        cutting = _cutting(part, steps)
        places: list[int] = []
        for row in np.flatnonzero((share > STEP_SHARE) | cutting):
            around = np.concatenate([share[max(0, row - BESIDE) : max(0, row - 1)], share[row + 2 : row + BESIDE + 1]])
            clear = len(around) and around.max() < OTHER_SHARE
            apart = not places or row + 1 - places[-1] >= (2 if cutting[row] else self.smallest)
            if (clear or cutting[row]) and apart and self.smallest <= row + 1 <= len(part) - self.smallest:
                places.append(int(row) + 1)
        return places

    # --- what it shows ------------------------------------------------------------------------------------------

    def _undrawn(self, grey: ByteArray, panels: list[Panel]) -> list[Panel]:
        """Panels of a figure without a picture, those renamed that were not drawn; all of it where none was.

        Things photographed on white have few shades, as charts do, and some may be too small for a panel of their own.
        """
        drawn = [self._is_drawn(grey[panel.window]) for panel in panels]
        if not any(drawn):
            return [Panel(0, 0, grey.shape[0], grey.shape[1], "picture")]
        return [
            panel if was_drawn else replace(panel, kind="picture")
            for panel, was_drawn in zip(panels, drawn, strict=True)
        ]

    def _is_drawn(self, part: ByteArray) -> bool:
        """Whether a panel is thin strokes or plain areas: nothing in it could be a copy."""
        shown = part < self.white
        return _is_thin(part, shown) or _is_plain(part, shown)

    def _name(self, grey: ByteArray, box: Box) -> Panel:
        """A plot is paper with few shades on it, or thin lines; text is a low strip of that; the rest are pictures."""
        top, left, bottom, right = box
        part = grey[top:bottom, left:right]
        shares = np.sort(np.bincount(part.ravel() >> SHADE_BITS, minlength=SHADES))[::-1] / part.size
        paper = float((part >= self.white).mean())
        few = any(paper > sheet and shares[:SHADES].sum() > common for sheet, common in PLOTS)
        kind = "picture"
        if few or (paper > WRITTEN and _is_thin(part, part < self.white)):
            kind = "text" if min(part.shape) < 2 * self.smallest else "plot"
        return Panel(top, left, bottom, right, kind)


def _is_plain(part: ByteArray, shown: npt.NDArray[np.bool_]) -> bool:
    """Whether what a panel shows, but for its edges, has no texture at all, as the bars of a chart."""
    inside = cv2.erode(shown.astype(np.uint8), np.ones((SEAM, SEAM))) > 0
    others = inside & (cv2.dilate(part, np.ones((3, 3))) - cv2.erode(part, np.ones((3, 3))) > PLAIN)
    thick = cv2.morphologyEx(others.astype(np.uint8), cv2.MORPH_OPEN, np.ones((SEAM, SEAM)))  # not between stacked bars
    return bool(thick.sum() <= min(FEW_OTHERS, (1 - MOSTLY_PLAIN) * inside.sum()))


def _is_thin(part: ByteArray, shown: npt.NDArray[np.bool_]) -> bool:
    """Whether what a panel shows is thin dark strokes and their edges: then it was written, however blurred it is."""
    ink = part < (np.percentile(part, 1) + 255) / 2
    thick = cv2.morphologyEx(ink.astype(np.uint8), cv2.MORPH_OPEN, np.ones((STROKE, STROKE)))
    around = cv2.dilate(ink.astype(np.uint8), np.ones((STROKE, STROKE))) > 0
    return bool(thick.sum() < THICK * ink.sum() and (shown & ~around).sum() < BLURRED * shown.sum())


def _cutting(part: ByteArray, steps: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Rows after which the picture is another: many steps are within one pixel there, which no lens makes.

    `steps` are the differences between neighbouring rows. Noise and drawings have such steps everywhere; those from and
    to paper and ink, as of a scale bar, do not count. In most quarters of the row there must be some: the edge of a
    region that was pasted is as sharp, but shorter.
    """
    beside = np.pad(steps, ((1, 1), (0, 0)))
    sharp = (steps > SHARP) & (steps > SHARPER * np.maximum(beside[:-2], beside[2:]))
    sharp &= np.maximum(part[:-1], part[1:]) < INK
    if np.median(part) > MIDDLE_GREY:
        sharp &= np.minimum(part[:-1], part[1:]) > 255 - INK
    share = sharp.mean(axis=1)
    many = share > max(CUT_SHARE, CUT_RATIO * (float(np.quantile(share, USUAL_LINE)) + RARELY))
    quarters = [quarter.mean(axis=1) > CUT_SHARE / QUARTER_LESS for quarter in np.array_split(sharp, QUARTERS, axis=1)]
    return np.asarray(many & (np.sum(quarters, axis=0) >= MOST_QUARTERS))


def _runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Starts and stops of the stretches that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
