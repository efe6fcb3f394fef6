"""From the coarse ink map to a mask: fitted by training, applied by prediction, here alone."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.maps import enlarge
from handlens.challenges.ink.score import BETA, ORDER
from handlens.challenges.ink.tiles import STRIDE, Map
from handlens.challenges.ink.window import FEW, Mask
from handlens.masks.components import drop_small, join
from handlens.masks.rle import Rle, encode
from handlens.settings import Settings, setting

LEVELS = 1024
"""Thresholds that are looked at."""

LEAST = 0.3
"""Of the thresholds that a scan gives itself: in one without ink all are alike, and most of what is below is none."""


ALIKE = 1e-9
"""Share of the best F0.5 that thresholds may lack and be as good: of those with the same squares, the middle one."""


class FewSlices(Settings, frozen=True, kw_only=True):
    """What is decided otherwise about stacks too thin to show a sheet between air and air (`window.FEW`)."""

    threshold: Annotated[float, setting("probability above which a pixel is ink", ge=0, le=1)]
    adaptive: Annotated[bool, setting("instead, where a scan's own probabilities promise the best F0.5")] = False
    smallest: Annotated[int, setting("pixels; smaller spots are dropped", ge=0, le=10_000_000)] = 0


class InkDecision(Settings, frozen=True, kw_only=True):
    """Ink is where the enlarged map exceeds `threshold`, inside the fragment's mask.

    With `adaptive` each scan has a threshold of its own: ink in unfamiliar scans gets lower probabilities.
    `few` has the values for stacks of fewer than `window.FEW` slices; None where training saw none.
    """

    threshold: Annotated[float, setting("probability above which a pixel is ink", ge=0, le=1)]
    adaptive: Annotated[bool, setting("instead, where a scan's own probabilities promise the best F0.5")] = False
    smallest: Annotated[int, setting("pixels; smaller spots are dropped", ge=0, le=10_000_000)] = 0
    turns: Annotated[Literal[1, 4], setting("quarter turns of test-time augmentation")] = 4
    few: Annotated[FewSlices | None, setting("for stacks of few slices")] = None

    def for_slices(self, slices: int) -> FewSlices | InkDecision:
        """Threshold and smallest spot for a stack of so many slices."""
        return self.few if self.few is not None and slices < FEW else self

    def threshold_in(self, coarse: Map, mask: Mask, *, slices: int) -> float:
        """The threshold for this scan."""
        used = self.for_slices(slices)
        return best_expected(coarse[mask[::STRIDE, ::STRIDE]]) if used.adaptive else used.threshold

    def apply(self, coarse: Map, mask: Mask, *, slices: int) -> Rle:
        threshold = self.threshold_in(coarse, mask, slices=slices)
        shape = (mask.shape[0], mask.shape[1])
        bands = []
        for top, rows in enlarge(coarse, shape):
            band = encode((rows > threshold) & mask[top : top + len(rows)], order=ORDER)
            bands.append(Rle(band.starts + top * shape[1], band.lengths))
        return drop_small(join(bands), shape, smallest=self.for_slices(slices).smallest)


def best_expected(probability: npt.NDArray[np.float32]) -> float:
    """The threshold with the largest F0.5 that is to be expected if the probabilities are right.

    >>> best_expected(np.float32([0.9] * 10 + [0.2] * 10))
    0.5498046875
    """
    level = np.minimum((probability * np.float32(LEVELS)).astype(np.int64), LEVELS - 1)
    said = np.bincount(level, minlength=LEVELS)[::-1].cumsum()[::-1]
    right = np.bincount(level, weights=probability, minlength=LEVELS)[::-1].cumsum()[::-1]
    worth = right / np.maximum(said + BETA**2 * right[0], 1)
    best = np.flatnonzero(worth >= worth.max() * (1 - ALIKE))
    return max(LEAST, int(best[len(best) // 2]) / LEVELS)
