"""Multinomial logistic regression: the coefficients that fit labels best, held small by a penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

Floats = npt.NDArray[np.float64]
Table = npt.NDArray[Any]
"""A row for each case; 32 bits where speed counts."""


def softmax(logits: Floats) -> Floats:
    """Shares of each row that sum to 1."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = raised / raised.sum(axis=1, keepdims=True)
    return shares


def minimise(
    table: Table, codes: npt.NDArray[np.int64], weights: Floats, penalty: float, rounds: int, base: Table | None = None
) -> Floats:
    """Coefficients (features, classes) of least weighted cross-entropy plus penalty; the last row goes free.

    `base` are logits that those of the coefficients are added to.
    """
    classes = int(codes.max()) + 1
    wanted = np.eye(classes)[codes]
    shrunk = np.ones((table.shape[1], 1))
    shrunk[-1] = 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        coefficients = flat.reshape(-1, classes)
        logits = table @ coefficients.astype(table.dtype)
        shares = softmax((logits if base is None else logits + base).astype(np.float64))
        value = -(weights * np.log(shares[np.arange(len(codes)), codes] + 1e-300)).sum()
        pull = table.T @ (weights[:, None] * (shares - wanted)).astype(table.dtype)
        slope = pull + penalty * shrunk * coefficients
        return float(value + penalty / 2 * (shrunk * coefficients**2).sum()), slope.ravel()

    start = np.zeros(table.shape[1] * classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": rounds})
    return np.asarray(found.x, np.float64).reshape(-1, classes)


def fit_head(
    features: Table,
    codes: npt.NDArray[np.int64],
    *,
    count: int,
    importance: Floats,
    penalty: float,
    rounds: int = 100,
    start: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Weights (features, classes) and bias (classes) of a linear layer over features as they are.

    `importance` is how much each example counts in the loss. With `start`, an earlier layer, the penalty is on what
    changes of it; without, a class that nobody has is unlikely.
    """
    present, numbers = np.unique(codes, return_inverse=True)
    table, centre, scale = standardise(features)
    base = (features @ start[0] + start[1])[:, present] if start else None
    found = minimise(table, numbers, importance / importance.sum(), penalty, rounds, base)
    weights, bias = (
        (part.copy() for part in start) if start else (np.zeros((features.shape[1], count)), np.zeros(count))
    )
    if not start:
        bias += found[-1].min() - 3.0
        bias[present] = 0.0
    weights[:, present] += found[:-1] / scale[:, None]
    bias[present] += found[-1] - (centre / scale) @ found[:-1]
    return weights, bias


def standardise(features: Table) -> tuple[Table, Floats, Floats]:
    """Features about 0 and of spread 1, with a column of ones at the end; their centres and scales."""
    centre, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    scale = np.hypot(scale, 0.1 * scale.mean() + 1e-3)  # one that hardly ever changes must not count much when it does
    table = np.hstack([(features - centre) / scale, np.ones((len(features), 1))]).astype(np.float32)
    return table, centre, scale


def class_importance(codes: npt.NDArray[np.int64], power: float) -> Floats:
    """How much each example counts: the inverse frequency of its class to a power."""
    counts = np.bincount(codes)
    importance: Floats = (len(codes) / np.maximum(counts, 1))[codes] ** power
    return importance
