"""Panels that show the same picture again: flipped, turned, in part, brighter, inverted, smaller or larger."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from handlens.challenges.forgery.detect.canvas.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Match, Matrix, Panel
from handlens.challenges.forgery.detect.geometry.outline import warp_patch
from handlens.challenges.forgery.detect.geometry.panel_search import Zooming, ZoomSearch
from handlens.challenges.forgery.detect.geometry.panel_transform import overlap_of
from handlens.challenges.forgery.detect.geometry.points import align, shared_interior
from handlens.challenges.forgery.detect.verifier.evidence import measure

FEWEST = 100
"""Fewest free pixels of an overlap that can be compared."""


@dataclass(frozen=True, slots=True)
class PanelTier:
    """Lays every picture of a figure on every other, made small; what is alike then is confirmed on the canvas."""

    most: int = 16
    """Most panels compared, the largest first: pairs grow with their square."""
    likeness: float = 0.7
    """Least likeness, after alignment, of a pair that is handed on."""
    zooming: Zooming = field(default_factory=Zooming)

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Pairs of panels that share a region, with that region in both."""
        pictures = sorted(canvas.pictures, key=lambda each: -each[1].shape[0] * each[1].shape[1])[: self.most]
        pictures = [each for each in pictures if min(each[1].shape) >= 24]
        found = []
        zooms = ZoomSearch(canvas, self.zooming)
        for (first, one), (second, other) in combinations(pictures, 2):
            if not clock.allows("panels", share=0.3):
                break
            best: Match | None = None
            for matrix in zooms.offers(first - 1, second - 1):
                match = self._confirm(canvas, one, other, matrix)
                if match and (best is None or match.evidence["detail"] > best.evidence["detail"]):
                    best = match
            found += [best] if best else []
        return found

    def _confirm(self, canvas: Canvas, one: Panel, other: Panel, matrix: Matrix) -> Match | None:
        """The shared region after alignment; None where the pictures disagree there, or agree only when bent."""
        region = overlap_of(canvas.shape, one, other, matrix)
        points = shared_interior(region, matrix, canvas.blocked) if region else None
        if points is None or len(points) < FEWEST:
            return None
        aligned, likeness = align(canvas, points, matrix)
        bent = np.abs(aligned[:, :2] - matrix[:, :2]).max() / np.sqrt(abs(np.linalg.det(matrix[:, :2])))
        if abs(likeness) < self.likeness or bent > 0.12:
            return None
        source = overlap_of(canvas.shape, one, other, aligned)
        copy = warp_patch(source, aligned, canvas.shape) if source else None
        points = shared_interior(source, aligned, canvas.silent) if source else points
        if source is None or copy is None or len(points) < FEWEST:
            return None
        return Match(source, copy, aligned, "panels", measure(canvas, points, aligned))
