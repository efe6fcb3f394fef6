"""oF1 as the contest's code computes it: dense masks, a padded matrix, the optimal assignment."""

from itertools import permutations

import numpy as np
from oracles.masks import counts
from scipy.optimize import linear_sum_assignment


def pixel_f1(predicted, true):
    tp, fp, fn = counts(predicted, true)
    precision = tp / (tp + fp) if tp + fp > 0 else 0
    recall = tp / (tp + fn) if tp + fn > 0 else 0
    if precision + recall > 0:
        return 2 * (precision * recall) / (precision + recall)
    return 0


def f1_matrix(predicted, true):
    """Rows of predictions, columns of truths; rows of zeros where there are fewer predictions than truths."""
    rows = [[pixel_f1(p, t) for t in true] for p in predicted]
    while len(rows) < len(true):
        rows.append([0.0] * len(true))
    return np.array(rows, float)


def of1(predicted, true):
    """Both are lists of masks, neither empty. The assignment is the contest's: equally good ones differ in the last bit."""
    matrix = f1_matrix(predicted, true)
    rows, columns = linear_sum_assignment(-matrix)
    return np.mean(matrix[rows, columns]) * (len(true) / max(len(predicted), len(true)))


def best_of1(predicted, true):
    """The same with every assignment tried, so that the contest's is known to be the best."""
    matrix = f1_matrix(predicted, true)
    assignments = permutations(range(len(matrix)), len(true))
    best = max(sum(matrix[row, column] for column, row in enumerate(rows)) for rows in assignments)
    return best / max(len(predicted), len(true))


def image(predicted, true):
    """Either may be the word `authentic`."""
    if isinstance(predicted, str) or isinstance(true, str):
        return float(isinstance(predicted, str) and isinstance(true, str))
    return of1(predicted, true)


def score(predictions, truths):
    """Dictionaries by id, in the truth's order."""
    return float(np.mean([image(predictions[id], truths[id]) for id in truths]))
