"""From logits to probabilities: an offset for each class and a temperature, chosen for the exact score.

Both are part of the exported graph, as the contest asks. What the contest does not do is averaging over orientations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.logistic import softmax
from handlens.challenges.lesions.taxonomy import Taxonomy
from handlens.settings import Settings, setting

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class LesionsDecision(Settings, frozen=True, kw_only=True):
    """The exported file answers with softmax((logits + offsets) / temperature); the predictor averages its answers."""

    offsets: Annotated[list[float], setting("added to the logit of each class")]
    temperature: Annotated[float, setting("what logits are divided by", ge=1e-3, le=1e3)] = 1.0
    turns: Annotated[Literal[1, 4, 8], setting("orientations of test-time augmentation")] = 1


AIMS = ("prediction", "macro-f1")
"""What offsets may be chosen for: the Prediction Score, or the mean of all classes' F1."""

GRID = np.linspace(-2.5, 2.5, 51)
"""Offsets that a class may have."""

STARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Powers of the inverse class frequency that the search may begin with."""

TEMPERATURES = np.geomspace(0.2, 5.0, 97)

ROUNDS = 6
"""Most passes over all classes."""


@dataclass(frozen=True, slots=True)
class Search:
    """How offsets are chosen; rare classes have few examples, so what a few of them would like counts little.

    aim       one of AIMS
    redraws   groups are drawn anew, with repetition, so many times; offsets are the mean of what is best for each
    penalty   points of score that an offset costs by its square
    seed      of the draws
    """

    aim: str = "prediction"
    redraws: int = 24
    penalty: float = 0.001
    seed: int = 0


def choose(
    logits: Floats, codes: Codes, groups: Sequence[str], taxonomy: Taxonomy, search: Search
) -> tuple[Floats, float]:
    """Offsets with mean 0, and the temperature at which the answers are as sure as they are right."""
    shares = class_shares(taxonomy, search.aim)
    _, numbers = np.unique(np.array(groups), return_inverse=True)
    rng = np.random.default_rng([search.seed, len(codes)])
    found = []
    for _ in range(search.redraws):
        drawn = rng.integers(0, numbers.max() + 1, numbers.max() + 1)
        often = np.bincount(drawn, minlength=numbers.max() + 1)[numbers].astype(np.float64)
        if often.any():
            found.append(_climb(logits, codes, often, shares, search))
    offsets = np.mean(found, axis=0) if found else np.zeros(logits.shape[1])
    offsets -= offsets.mean()
    return offsets, choose_temperature(logits + offsets, codes)


def choose_temperature(logits: Floats, codes: Codes) -> float:
    """The temperature of least log loss.

    >>> sure = np.array([[8.0, 0.0]] * 4)
    >>> 2 < choose_temperature(sure, np.array([0, 0, 0, 1])) <= 5
    True
    """
    rows = np.arange(len(codes))
    losses = [-np.log(softmax(logits / each)[rows, codes] + 1e-12).mean() for each in TEMPERATURES]
    return float(TEMPERATURES[int(np.argmin(losses))])


def class_shares(taxonomy: Taxonomy, aim: str) -> tuple[float, Floats]:
    """What accuracy and each class's F1 count in the score.

    >>> from handlens.challenges.lesions.taxonomy import TAXONOMIES
    >>> accuracy, classes = class_shares(TAXONOMIES["ten"], "prediction")
    >>> accuracy, round(float(classes.sum()), 6), round(float(classes[1]), 4)
    (0.5, 0.5, 0.0833)
    """
    if aim == "macro-f1":
        return 0.0, np.full(len(taxonomy.classes), 1 / len(taxonomy.classes))
    total = sum(taxonomy.weights.values())
    worth = {
        name: taxonomy.weights[group] / total / len(names) for group, names in taxonomy.groups.items() for name in names
    }
    return 0.5, 0.5 * np.array([worth[name] for name in taxonomy.classes])


def worth(said: Codes, codes: Codes, shares: tuple[float, Floats]) -> float:
    """The score of answers."""
    count = len(shares[1])
    hits = np.bincount(codes[said == codes], minlength=count).astype(np.float64)
    named, there = np.bincount(said, minlength=count), np.bincount(codes, minlength=count)
    return float(_score(hits[:, None], named[:, None].astype(np.float64), there.astype(np.float64), shares)[0])


def _climb(logits: Floats, codes: Codes, often: Floats, shares: tuple[float, Floats], search: Search) -> Floats:
    """Change one class's offset after the other for the better, until nothing helps."""
    there = np.bincount(codes, often, minlength=logits.shape[1]).astype(np.float64)
    rarity = np.where(there > 0, np.log(there.max() / np.maximum(there, 1)), 0.0)  # of nobody nothing is known
    rarity = np.clip(rarity - rarity.mean(), GRID[0], GRID[-1])

    def value(offsets: Floats) -> float:
        sweep = _sweep(logits + offsets, 0, codes, often, there, shares, np.zeros(1))
        return float(sweep[0]) - search.penalty * float((offsets**2).sum())

    offsets: Floats = max((power * rarity for power in STARTS), key=value)
    for _ in range(ROUNDS):
        before = offsets.copy()
        for label in np.flatnonzero(there):
            others = np.delete(offsets, label)
            moved = logits + offsets
            moved[:, label] -= offsets[label]
            scores = _sweep(moved, int(label), codes, often, there, shares, GRID)
            scores = scores - search.penalty * (GRID**2 + float((others**2).sum()))
            offsets = offsets.copy()
            offsets[label] = GRID[int(np.argmax(scores))]
        if np.array_equal(before, offsets):
            break
    return offsets


def _sweep(
    logits: Floats,
    label: int,
    codes: Codes,
    often: Floats,
    there: Floats,
    shares: tuple[float, Floats],
    grid: Floats,
) -> Floats:
    """The score where each value of the grid is added to one class's logit: all at once, from two histograms."""
    count = logits.shape[1]
    rest = logits.copy()
    rest[:, label] = -np.inf
    second = rest.argmax(axis=1)
    lead = rest[np.arange(len(rest)), second] - logits[:, label]  # what must be added for the class to win
    first_win = np.searchsorted(grid, lead, side="right")
    size = len(grid) + 1
    right = second == codes
    lost = np.bincount(second * size + first_win, often, minlength=count * size).reshape(count, size)
    lost_hits = np.bincount((second * size + first_win)[right], often[right], minlength=count * size)
    won = np.bincount(first_win, often, minlength=size).cumsum()[:-1]
    own = codes == label
    won_hits = np.bincount(first_win[own], often[own], minlength=size).cumsum()[:-1]
    named = lost.sum(axis=1, keepdims=True) - lost.cumsum(axis=1)[:, :-1]
    lost_hits = lost_hits.reshape(count, size)
    hits = lost_hits.sum(axis=1, keepdims=True) - lost_hits.cumsum(axis=1)[:, :-1]
    named[label], hits[label] = won, won_hits
    return _score(hits, named, there, shares)


def _score(hits: Floats, named: Floats, there: Floats, shares: tuple[float, Floats]) -> Floats:
    """Of (classes, n) counts: n scores. F1 is 0 where it is undefined."""
    accuracy, classes = shares
    sizes = named + there[:, None]
    f1 = np.where(sizes > 0, 2 * hits / np.maximum(sizes, 1e-9), 0.0)
    total: Floats = accuracy * hits.sum(axis=0) / there.sum() + classes @ f1
    return total
