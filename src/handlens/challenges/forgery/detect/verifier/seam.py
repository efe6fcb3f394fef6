"""What a paste shows by itself, however alike it is: an outline that no lens makes, no halo, the levels of its source.

Independent of how alike two regions are. An object that was cut out and pasted has an edge as wide as one pixel, where
every honest object of the same picture fades over several; and it keeps its gain, while two honest nuclei differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import ByteArray, FloatArray, Match, Panel, Patch, TierName
from handlens.challenges.forgery.detect.geometry.correlation import fit_tone
from handlens.challenges.forgery.detect.geometry.points import Points, moved, sample
from handlens.challenges.forgery.detect.verifier.compression import block_edges, differences

WINDOW = 7
"""Pixels across the window whose range of levels a step is compared with: as wide as an honest edge. By hand."""

FLOOR = 8.0
"""Grey levels, of 255, added to that range: on flat ground noise is all there is. By hand."""

EDGE, SECTORS = 2, 16
"""Pixels on either side of an outline in which its step is sought, and parts of the outline. By hand."""

BLOCK, EDGY, FEW_BLOCKS = 8, 40.0, 10
"""Side of the blocks whose sharpest step says how sharp edges usually are, the range from which a block has an edge,
and how few of them say nothing. By hand."""

UNKNOWN = (0.4, 0.6)
"""How sharp edges usually are, and the sharpest, in a panel that has hardly any. By hand."""

NEAR, FAR, ROOM = 2, (5, 7), 8
"""Pixels around an object in which its halo lies, between which its ground lies, and what must be cut out to see both.
By hand."""

LEAST_CONTRAST = 4.0
"""Grey levels between an object and its ground below which its halo cannot be told. By hand."""

LEAST_GAIN, MOST_GAIN = 0.05, 20.0
"""Limits of the gain between a region and its copy. Rule: its logarithm stays finite."""

SHARPEST, SOFTEST = 0.9, 0.25
"""Quantiles of the sharpness of edges: of a panel's sharp ones, and of the soft parts of an outline. By hand."""


def with_seams(canvas: Canvas, matches: Sequence[Match]) -> list[Match]:
    """The matches, objects with the evidence of their outlines: a larger region has none that could be told."""
    seams = Seams(canvas)
    return [
        replace(match, evidence=dict(match.evidence) | seams.measure(match))
        if match.tier == TierName.OBJECTS
        else match
        for match in matches
    ]


@dataclass(frozen=True)
class Seams:
    """How sharp the outlines of regions are, in one canvas."""

    canvas: Canvas

    @cached_property
    def _steps(self) -> tuple[FloatArray, FloatArray]:
        """At each pixel the largest step to a neighbour as a share of the range around it, and that range."""
        grey = self.canvas.grey
        steps = np.zeros_like(grey)
        for step, places in (
            (np.abs(np.diff(grey, axis=0)), (np.s_[1:, :], np.s_[:-1, :])),
            (np.abs(np.diff(grey, axis=1)), (np.s_[:, 1:], np.s_[:, :-1])),
        ):
            for place in places:
                np.maximum(steps[place], step, out=steps[place])
        window = np.ones((WINDOW, WINDOW), np.uint8)
        levels = np.asarray(cv2.dilate(grey, window) - cv2.erode(grey, window), np.float32)
        return np.asarray(steps / (levels + np.float32(FLOOR)), np.float32), levels

    @cached_property
    def _usual(self) -> dict[Panel, tuple[float, float]]:
        return {}

    def usual(self, patch: Patch) -> tuple[float, float]:
        """The median and the top decile of the sharpness of edges in the panel of a region."""
        panel = self._panel_of(patch)
        if panel is None:
            return UNKNOWN
        if panel not in self._usual:
            self._usual[panel] = self._usual_of(panel)
        return self._usual[panel]

    def _panel_of(self, patch: Patch) -> Panel | None:
        x, y = patch.centre
        own = (each for each in self.canvas.panels if each.top <= y < each.bottom and each.left <= x < each.right)
        return next(own, None)

    @cached_property
    def _block_edges(self) -> dict[Panel, float]:
        return {}

    def block_edges(self, patch: Patch) -> float:
        """How coarsely the panel of a region was packed as JPEG; 0 where it was not."""
        panel = self._panel_of(patch)
        if panel is None:
            return 0.0
        if panel not in self._block_edges:
            self._block_edges[panel] = block_edges(self.canvas, panel)
        return self._block_edges[panel]

    def _usual_of(self, panel: Panel) -> tuple[float, float]:
        steps, levels = (each[panel.window] for each in self._steps)
        free = ~self.canvas.blocked[panel.window]
        rows, columns = (side // BLOCK for side in steps.shape)
        shape = (rows, BLOCK, columns, BLOCK)
        cut = np.s_[: rows * BLOCK, : columns * BLOCK]
        sharpest = np.where(free, steps, 0)[cut].reshape(shape).max(axis=(1, 3), initial=0)
        edgy = np.where(free, levels, 0)[cut].reshape(shape).max(axis=(1, 3), initial=0) > EDGY
        if edgy.sum() < FEW_BLOCKS:
            return UNKNOWN
        median, top = np.quantile(sharpest[edgy], [0.5, SHARPEST])
        return float(median), float(top)

    def outline(self, patch: Patch) -> tuple[float, float, float]:
        """How sharp the outline of a region is: the lower quartile and the median over its parts; and its halo.

        The halo is how bright the ground beside the object is, from that further away (0) to the object's own (1).
        """
        mask, (rows, columns) = _with_room(patch, self.canvas)
        steps = self._steps[0][rows, columns]
        kernel = np.ones((3, 3), np.uint8)
        wide = cv2.dilate(mask, kernel, iterations=EDGE)
        edge = (wide > 0) & (cv2.erode(mask, kernel, iterations=EDGE) == 0)
        y, x = np.nonzero(edge)
        if not len(x):
            return 0.0, 0.0, 0.0
        own_y, own_x = np.nonzero(mask)
        angle = np.arctan2(y - own_y.mean(), x - own_x.mean())
        sector = ((angle / (2 * np.pi) + 0.5) * SECTORS).astype(int) % SECTORS
        sharpest = np.zeros(SECTORS, np.float32)
        np.maximum.at(sharpest, sector, steps[y, x])
        sharpest = sharpest[np.bincount(sector, minlength=SECTORS) > 0]
        low, median = np.quantile(sharpest, [SOFTEST, 0.5])
        return float(low), float(median), self._halo(mask, rows, columns)

    def _halo(self, mask: ByteArray, rows: slice, columns: slice) -> float:
        grey = self.canvas.grey[rows, columns]
        kernel = np.ones((3, 3), np.uint8)
        near = cv2.dilate(mask, kernel, iterations=NEAR)
        inner = cv2.dilate(mask, kernel, iterations=FAR[0] - 1)
        outer = cv2.dilate(inner, kernel, iterations=FAR[1] - FAR[0] + 1)
        rings = [mask > 0, (near > 0) & (mask == 0), (outer > 0) & (inner == 0)]
        if not all(ring.any() for ring in rings):
            return 0.0
        inside, beside, ground = (float(np.median(grey[ring])) for ring in rings)
        contrast = inside - ground
        if abs(contrast) < LEAST_CONTRAST:
            return 0.0
        return float(np.clip((beside - ground) / contrast, -1, 1))

    def measure(self, match: Match) -> dict[str, float]:
        """Evidence of a match: how sharp the sharper and the softer of its outlines are, their halos, and the tone."""
        source, copy = self.outline(match.source), self.outline(match.copy)
        usual, top = self.usual(match.source)
        sharper, softer = (source, copy) if source[1] > copy[1] else (copy, source)
        gain, rim, outside = self._tone(match)
        difference, detail = differences(self.canvas, match)
        return {
            "seam": sharper[1],
            "seam_everywhere": sharper[0],
            "other_seam": softer[1],
            "seam_of_copy": float(sharper is copy),
            "usual_seam": usual,
            "sharpest_seam": top,
            "seam_halo": sharper[2],
            "other_halo": softer[2],
            "gain": gain,
            "rim_error": rim,
            "outside_error": outside,
            "block_edges": self.block_edges(match.source),
            "difference": difference,
            "detail_contrast": detail,
        }

    def _tone(self, match: Match) -> tuple[float, float, float]:
        """How far the gain is from 1, as a logarithm; what is unlike in the rim, and just outside, as a share of all.

        Both are after the gain and bias of the whole region: a copy agrees up to its edge, and not beyond it.
        """
        canvas = self.canvas
        mask, (rows, columns) = _with_room(match.source, canvas)
        kernel = np.ones((3, 3), np.uint8)
        ring = (cv2.dilate(mask, kernel, iterations=NEAR) > 0) & (mask == 0)
        rim = (mask > 0) & (cv2.erode(mask, kernel) == 0)
        values = []
        for part in (mask > 0, rim, ring):
            y, x = np.nonzero(part)
            points = Points((x + columns.start).astype(np.float32), (y + rows.start).astype(np.float32), (0, 0), 1)
            values.append((canvas.grey[rows, columns][part], sample(canvas.grey, *moved(points, match.matrix))))
        gain, bias = fit_tone(*values[0])
        spread = float(values[0][0].std()) + 1.0
        errors = [
            float(np.sqrt(np.mean((one - gain * other - bias) ** 2))) if len(one) else 0.0 for one, other in values
        ]
        change = abs(float(np.log(np.clip(abs(gain), LEAST_GAIN, MOST_GAIN))))
        return change, errors[1] / spread, errors[2] / spread


def _with_room(patch: Patch, canvas: Canvas) -> tuple[ByteArray, tuple[slice, slice]]:
    """The mask of a region with what lies around it, and where that is in the canvas."""
    above, before = min(ROOM, patch.top), min(ROOM, patch.left)
    height, width = patch.mask.shape
    below = min(ROOM, canvas.shape[0] - patch.top - height)
    behind = min(ROOM, canvas.shape[1] - patch.left - width)
    mask = np.pad(patch.mask.astype(np.uint8), ((above, below), (before, behind)))
    top, left = patch.top - above, patch.left - before
    return mask, (slice(top, top + mask.shape[0]), slice(left, left + mask.shape[1]))
