"""How the per-slide threshold is fitted: on Dice at every threshold, of slides of several sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells import score
from handlens.challenges.cells.decision import LEAST_SHARE, SlideThreshold

Bytes = npt.NDArray[np.uint8]

OWN_WEIGHT = 0.5
"""How much the training's own slides count beside those of other laboratories: an image that is not the contest's may
be like either. With 0.5, halves of CPM17 chosen on each other have Dice 0.862 and recall 0.85; with 1, 0.859 and 0.84;
with 0, 0.865 and 0.87, and slides like the training's lose 0.011 more."""

SLOPE_PENALTY = 0.002
"""Dice that a slope of 1, by standard deviations of the logarithm of the share, must bring to be worth it."""

OFFSETS = np.linspace(-3.5, 2.5, 61)
SLOPES = np.linspace(0.0, 2.0, 41)
"""What is tried: all pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class SlideCurve:
    """Dice of a slide at 255 thresholds, and the share of it that the first threshold finds."""

    dice: npt.NDArray[np.float64]
    share: float

    @classmethod
    def of(cls, probability: npt.NDArray[np.float32], mask: Bytes, threshold: float) -> SlideCurve:
        levels = np.rint(probability * 255).astype(np.uint8)
        return cls(dice_at_levels(levels, mask), float((levels > threshold * 255).mean()))

    def at(self, threshold: float) -> float:
        """Dice where levels above this threshold are cells, as the decision compares them."""
        return float(self.dice[min(max(math.floor(threshold * 255), 0), 254)])


def fit_slide_threshold(own: Sequence[SlideCurve], others: Sequence[SlideCurve]) -> SlideThreshold:
    """The rule with the best mean Dice over both groups of slides, out of a grid; steep ones must be worth it."""
    spread = float(np.std([math.log(max(each.share, LEAST_SHARE)) for each in (*own, *others)]))
    best = -1.0, SlideThreshold(offset=0.0, slope=0.0)
    for slope in SLOPES.tolist():
        for offset in OFFSETS.tolist():
            rule = SlideThreshold(offset=round(offset, 4), slope=round(slope, 4))
            groups = [np.mean([each.at(rule.threshold(each.share)) for each in group]) for group in (own, others)]
            value = float(OWN_WEIGHT * groups[0] + groups[1]) / (1 + OWN_WEIGHT) - SLOPE_PENALTY * (slope * spread) ** 2
            if value > best[0] + 1e-9:
                best = value, rule
    return best[1]


def dice_at_levels(prediction: Bytes, mask: Bytes) -> npt.NDArray[np.float64]:
    """Dice of a slide where all pixels of level 1 or more are cells, 2 or more, up to 255: from two histograms.

    >>> dice_at_levels(np.array([[0, 9, 200]], np.uint8), np.array([[0, 0, 255]], np.uint8))[[0, 8, 9, 254]]
    array([0.66666667, 0.66666667, 1.        , 0.        ])
    """
    inside, outside = (
        np.bincount(prediction[where], minlength=256)[::-1].cumsum()[::-1] for where in (mask > 0, mask == 0)
    )
    sizes = (inside + outside + inside[0])[1:]
    return np.where(sizes > 0, 2 * inside[1:] / np.maximum(sizes, 1), score.EMPTY_DICE)
