"""oF1 as the contest's code computes it: dense masks, a padded matrix, every assignment tried."""

from itertools import permutations

import numpy as np
from oracles.masks import counts


def pixel_f1(predicted, true):
    tp, fp, fn = counts(predicted, true)
    precision = tp / (tp + fp) if tp + fp > 0 else 0
    recall = tp / (tp + fn) if tp + fn > 0 else 0
    if precision + recall > 0:
        return 2 * (precision * recall) / (precision + recall)
    return 0


def of1(predicted, true):
    """Both are lists of masks, neither empty."""
    rows = [[pixel_f1(p, t) for t in true] for p in predicted]
    while len(rows) < len(true):
        rows.append([0.0] * len(true))
    best = max(
        (
            [rows[row][column] for column, row in enumerate(chosen)]
            for chosen in permutations(range(len(rows)), len(true))
        ),
        key=sum,
    )
    return np.mean(best) * (len(true) / max(len(predicted), len(true)))


def image(predicted, true):
    """Either may be the word `authentic`."""
    if isinstance(predicted, str) or isinstance(true, str):
        return float(isinstance(predicted, str) and isinstance(true, str))
    return of1(predicted, true)


def score(predictions, truths):
    """Dictionaries by id, in the truth's order."""
    return float(np.mean([image(predictions[id], truths[id]) for id in truths]))
