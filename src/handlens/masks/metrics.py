"""Counts first, ratio last: F-beta, Dice, matched F1, class F1, written as the organisers write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from handlens.masks.rle import Rle, areas, overlap, overlaps

BATCH_RUNS = 50_000
"""Runs compared at once: enough to spare most of the overhead, few enough for the processor's cache."""

_TINY = 1e-300
"""Below every sum of a precision and a recall that is not 0, so that 0 / 0 becomes 0 and nothing else changes."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Pixels (or cases) agreed and disagreed on; whole numbers, so that sums are exact."""

    tp: int
    fp: int
    fn: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)


def compare(predicted: Rle, true: Rle) -> Counts:
    """Count pixels of two masks without making pixels."""
    both = overlap(predicted, true)
    return Counts(tp=both, fp=predicted.area - both, fn=true.area - both)


def precision(counts: Counts) -> float:
    """Share of what was said that is true; 0 when nothing was said."""
    said = counts.tp + counts.fp
    return counts.tp / said if said else 0.0


def recall(counts: Counts) -> float:
    """Share of what is true that was said; 0 when nothing is true."""
    true = counts.tp + counts.fn
    return counts.tp / true if true else 0.0


def fbeta(counts: Counts, *, beta: float, empty: float) -> float:
    """F-beta from precision and recall; `empty` is its value when there is nothing to find and nothing was said.

    >>> fbeta(Counts(tp=1, fp=1, fn=1), beta=0.5, empty=0.0)
    0.5
    """
    if counts.tp + counts.fp + counts.fn == 0:
        return empty
    p, r = precision(counts), recall(counts)
    if p + r == 0:
        return 0.0
    return (1 + beta**2) * (p * r) / (beta**2 * p + r)


def dice(counts: Counts, *, empty: float) -> float:
    """Twice the agreement over the sum of both sizes; `empty` when both are empty."""
    sizes = 2 * counts.tp + counts.fp + counts.fn
    return 2 * counts.tp / sizes if sizes else empty


def class_f1(counts: Counts) -> float:
    """F1 of one class; 0 where nobody has it and nobody named it."""
    return dice(counts, empty=0.0)


def matched_f1(predicted: Sequence[Rle], true: Sequence[Rle]) -> float:
    """oF1: the best one-to-one assignment's F1, summed, over the larger number of instances. Both have one at least.

    Mean over the true instances times true / max(predicted, true), in this order, as the official code computes it.
    """
    (value,) = matched_f1_of_many([(predicted, true)])
    return value


def matched_f1_of_many(images: Sequence[tuple[Sequence[Rle], Sequence[Rle]]]) -> list[float]:
    """The same for many images, each (predicted, true)."""
    entries = _pixel_f1((p, t) for predicted, true in images for p in predicted for t in true)
    values = []
    for predicted, true in images:
        flat = np.fromiter(islice(entries, len(predicted) * len(true)), np.float64)
        chosen = _assign(flat.reshape(len(predicted), len(true)))
        values.append(float(chosen.mean() * (len(true) / max(len(predicted), len(true)))))
    return values


def _pixel_f1(pairs: Iterable[tuple[Rle, Rle]]) -> Iterator[float]:
    """F1 of each (predicted, true) pair from precision and recall; 0 where undefined. Some are computed at a time."""
    waiting: list[tuple[Rle, Rle]] = []
    runs = 0
    for pair in pairs:
        waiting.append(pair)
        runs += len(pair[0].starts) + len(pair[1].starts)
        if runs > BATCH_RUNS or len(waiting) > BATCH_RUNS:
            yield from _pixel_f1_at_once(waiting)
            waiting, runs = [], 0
    yield from _pixel_f1_at_once(waiting)


def _pixel_f1_at_once(pairs: Sequence[tuple[Rle, Rle]]) -> list[float]:
    predicted, true = [p for p, _ in pairs], [t for _, t in pairs]
    both = overlaps(predicted, true)
    p = both / np.maximum(areas(predicted), 1)  # nothing said: 0 of 1
    r = both / np.maximum(areas(true), 1)
    f1: list[float] = (2 * (p * r) / np.maximum(p + r, _TINY)).tolist()
    return f1


def _assign(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For each column one entry, no two of a row, with the largest sum; 0 where there are too few rows.

    Zero rows are added and entries stand in the order of their rows, as in the official code: so sums are bit-equal.
    """
    rows, columns = matrix.shape
    if 1 in matrix.shape:  # the optimum is the maximum; spares a slow import for most images
        return np.array([matrix.max(), *[0.0] * (columns - 1)])
    from scipy.optimize import linear_sum_assignment

    padded = np.zeros((max(rows, columns), columns))
    padded[:rows] = matrix
    chosen: npt.NDArray[np.float64] = padded[linear_sum_assignment(padded, maximize=True)]
    return chosen
