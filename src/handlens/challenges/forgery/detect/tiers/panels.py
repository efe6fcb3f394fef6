"""Panels that show the same picture again: flipped, turned, in part, brighter, inverted, smaller or larger."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar

import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Match, Matrix, Panel, TierName
from handlens.challenges.forgery.detect.geometry.alignment import align
from handlens.challenges.forgery.detect.geometry.outline import warp_patch
from handlens.challenges.forgery.detect.geometry.panel_search import PanelPairs, PanelSearch
from handlens.challenges.forgery.detect.geometry.panel_transform import overlap_of
from handlens.challenges.forgery.detect.geometry.points import shared_interior
from handlens.challenges.forgery.detect.verifier.evidence import measure
from handlens.challenges.forgery.detect.verifier.tier import TIERS, Tier

FEWEST = 100
"""Fewest free pixels of an overlap that can be compared. By hand."""


@dataclass(frozen=True, slots=True)
class PanelFinder:
    """Correlates every picture of a figure with every other, made small; what is alike is confirmed on the canvas."""

    tier: ClassVar[Tier] = TIERS[TierName.PANELS]

    most: int = 16
    """Most panels compared, the largest first: pairs grow with their square. By hand: bounds the time."""
    correlation: float = 0.7
    """Least correlation, after alignment, of a pair that is handed on. By hand."""
    search: PanelSearch = field(default_factory=PanelSearch)
    narrowest: int = 24
    """Pixels of the shortest side of a panel. By hand."""
    most_changed: float = 0.12
    """Most that alignment may change turn and scale, relative to the scale: the search knew them better. By hand."""

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Pairs of panels that share a region, with that region in both."""
        pictures = sorted(canvas.pictures, key=lambda each: -each[1].shape[0] * each[1].shape[1])[: self.most]
        pictures = [each for each in pictures if min(each[1].shape) >= self.narrowest]
        found = []
        pairs = PanelPairs(canvas, self.search)
        for (first, one), (second, other) in combinations(pictures, 2):
            if not clock.allows(self.tier.name, share=self.tier.search):
                break
            best: Match | None = None
            for matrix in pairs.candidates(first - 1, second - 1):
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
        aligned, found = align(canvas, points, matrix)
        changed = np.abs(aligned[:, :2] - matrix[:, :2]).max() / np.sqrt(abs(np.linalg.det(matrix[:, :2])))
        if abs(found) < self.correlation or changed > self.most_changed:
            return None
        source = overlap_of(canvas.shape, one, other, aligned)
        copy = warp_patch(source, aligned, canvas.shape) if source else None
        points = shared_interior(source, aligned, canvas.uninformative) if source else points
        if source is None or copy is None or len(points) < FEWEST:
            return None
        return Match(source, copy, aligned, self.tier.name, measure(canvas, points, aligned))
