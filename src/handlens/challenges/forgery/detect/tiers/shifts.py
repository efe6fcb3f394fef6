"""Regions that were moved as they are, or mirrored or turned by quarters, told by their grain, however bare they are.

No two places share their grain, so a copied region has the blocks of its source at one displacement. That is how a
patch of background is found that covers something up: it has neither key points nor objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Match, Matrix, Patch, TierName
from handlens.challenges.forgery.detect.geometry.alignment import align
from handlens.challenges.forgery.detect.geometry.correlation import correlation
from handlens.challenges.forgery.detect.geometry.outline import inverse, warp_patch
from handlens.challenges.forgery.detect.geometry.points import FEWEST, shared_interior
from handlens.challenges.forgery.detect.geometry.region_growing import RegionGrowing, even
from handlens.challenges.forgery.detect.geometry.repeated_blocks import find_repeats
from handlens.challenges.forgery.detect.verifier.evidence import compare
from handlens.challenges.forgery.detect.verifier.tier import TIERS, Tier

SAME_PLACE = 0.1
"""Share of the sides of two panels within which a region has the same place in both. By hand: views of one field are
cut out nearly alike."""

BENT = 0.5
"""Pixels at the edge of a region by which it may fit better turned or sized. By hand: what an alignment errs."""

ALREADY = 0.5
"""Share of a region that was found before from which it is not looked at again. By hand."""


@dataclass(frozen=True, slots=True)
class Move:
    """A transform, the copy, roughly, and how alike its grain is."""

    matrix: Matrix
    copy: Patch
    correlation: float

    @property
    def weight(self) -> float:
        """Large regions that are much alike count most."""
        return self.correlation**2 * float(np.sqrt(self.copy.area))


@dataclass(frozen=True, slots=True)
class ShiftFinder:
    """Finds repeated blocks of grain. Lengths are pixels of the canvas."""

    tier: ClassVar[Tier] = TIERS[TierName.SHIFTS]

    displacement: int = 24
    """Nearest that a copy can be to its source: nearer, grain is alike because it is smooth. By hand."""
    most: int = 12
    """Most that are grown to regions in a figure, the weightiest. By hand: bounds the time."""
    weight: float = 8.0
    """Least weight of what is grown to a region: chance agreement is weak, or comes in specks. By hand."""
    smallest: int = 400
    """Fewest pixels of a region. Measured on honest figures, blots and twins: what was alike by chance, corners of
    bands or a few squares of JPEG, had 365 at most."""
    growing: RegionGrowing = field(default_factory=RegionGrowing)

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Regions whose grain is there again, the weightiest first."""
        matches: list[Match] = []
        moves = sorted(self._moves(canvas), key=lambda each: -each.weight) if clock.allows(self.tier.name) else []
        for move in moves:
            if not clock.allows(self.tier.name):
                break
            if _shows_field(canvas, move) or any(_covers(match, move) for match in matches):
                continue
            matrix = _aligned(canvas, move)
            if matrix is None:
                continue
            seed = np.zeros(canvas.shape, np.bool_)
            move.copy.paint(seed)
            found = self.growing.outline(canvas, matrix, seed)
            if found is not None and found[0].area >= self.smallest:
                matches.append(Match(*found, matrix, self.tier.name, {"peak_weight": move.weight}))
        return matches

    def _moves(self, canvas: Canvas) -> Iterator[Move]:
        """What repeats, the most blocks of a displacement first."""
        grain = even(canvas.grain)
        repeats = find_repeats(grain, canvas.stored, canvas.blocked, displacement=self.displacement)
        for repeat in repeats[: self.most]:
            rows, columns = np.nonzero(repeat.copy.mask)
            rows, columns = rows + repeat.copy.top, columns + repeat.copy.left
            x, y = np.rint(inverse(repeat.matrix) @ np.stack([columns, rows, np.ones_like(rows)])).astype(np.int64)
            alike = correlation(grain[rows, columns], grain[y, x])
            move = Move(repeat.matrix, repeat.copy, max(0.0, alike))
            if move.weight >= self.weight:
                yield move


def _shows_field(canvas: Canvas, move: Move) -> bool:
    """Whether an upright region has about the same place in two panels: these are channels, or frames, of one field."""
    if not np.array_equal(move.matrix[:, :2], np.eye(2)):
        return False
    x, y = move.copy.centre
    across, down = move.matrix[:, 2]
    here, there = canvas.panel_at(x - across, y - down), canvas.panel_at(x, y)
    if here is None or there is None or here is there:
        return False
    beside = abs(across - there.left + here.left), abs(down - there.top + here.top)
    return bool(beside[0] < SAME_PLACE * there.shape[1] and beside[1] < SAME_PLACE * there.shape[0])


def _covers(match: Match, move: Move) -> bool:
    """Whether a region that was grown holds a move's copy, moved in the same way."""
    held = match.copy.overlap(move.copy) > ALREADY * move.copy.area
    return bool(held and np.abs(match.matrix - move.matrix).max() < 1)


def _aligned(canvas: Canvas, move: Move) -> Matrix | None:
    """The transform to fractions of a pixel, where a figure was resized later; None where it fits better turned or
    sized, as two squares of a ruler do and equal blocks do not.
    """
    source = warp_patch(move.copy, inverse(move.matrix), canvas.shape)
    points = shared_interior(source, move.matrix, canvas.blocked) if source else None
    if points is None or len(points) < FEWEST:
        return None
    found = align(canvas, points, move.matrix)[0]
    if compare(canvas.grain, points, found) <= compare(canvas.grain, points, move.matrix):
        return move.matrix
    bent = float(np.abs(found[:, :2] - move.matrix[:, :2]).max()) * points.reach
    return found if bent < BENT else None
