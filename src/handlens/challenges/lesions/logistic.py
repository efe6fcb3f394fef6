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


def minimise(table: Table, codes: npt.NDArray[np.int64], weights: Floats, penalty: float, rounds: int) -> Floats:
    """Coefficients (features, classes) of least weighted cross-entropy plus penalty; the last row goes free."""
    classes = int(codes.max()) + 1
    wanted = np.eye(classes)[codes]
    shrunk = np.ones((table.shape[1], 1))
    shrunk[-1] = 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        coefficients = flat.reshape(-1, classes)
        shares = softmax((table @ coefficients.astype(table.dtype)).astype(np.float64))
        value = -(weights * np.log(shares[np.arange(len(codes)), codes] + 1e-300)).sum()
        pull = table.T @ (weights[:, None] * (shares - wanted)).astype(table.dtype)
        slope = pull + penalty * shrunk * coefficients
        return float(value + penalty / 2 * (shrunk * coefficients**2).sum()), slope.ravel()

    start = np.zeros(table.shape[1] * classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": rounds})
    return np.asarray(found.x, np.float64).reshape(-1, classes)


def fit_head(
    features: Table, codes: npt.NDArray[np.int64], *, count: int, balance: float, penalty: float, rounds: int = 100
) -> tuple[Floats, Floats]:
    """Weights (features, classes) and bias (classes) of a linear layer over features as they are.

    `balance` is the power of the inverse class frequency in the loss. A class that nobody has is unlikely.
    """
    present, numbers = np.unique(codes, return_inverse=True)
    centre, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    scale = np.hypot(scale, 0.1 * scale.mean() + 1e-3)  # one that hardly ever changes must not count much when it does
    table = np.hstack([(features - centre) / scale, np.ones((len(features), 1))]).astype(np.float32)
    importance = (len(codes) / np.bincount(numbers))[numbers] ** balance
    found = minimise(table, numbers, importance / importance.sum(), penalty, rounds)
    weights = np.zeros((features.shape[1], count))
    bias = np.full(count, found[-1].min() - 3.0)
    weights[:, present] = found[:-1] / scale[:, None]
    bias[present] = found[-1] - (centre / scale) @ found[:-1]
    return weights, bias
