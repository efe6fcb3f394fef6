"""What several networks say together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Probabilities = npt.NDArray[np.float32]
MaskNetwork = Callable[[npt.NDArray[Any]], Probabilities]

EPSILON = np.float32(1e-4)
"""Probabilities nearer to 0 or 1 are taken as this near where log-odds are averaged."""


@dataclass(frozen=True, slots=True)
class NetworkPair:
    """Two networks over the same input: probabilities with the weighted mean of their log-odds."""

    first: MaskNetwork
    second: MaskNetwork
    weight: float
    """Of the second; the first has the rest."""

    def __call__(self, values: npt.NDArray[Any], /) -> Probabilities:
        return average_log_odds(self.first(values), self.second(values), self.weight)


def average_log_odds(first: Probabilities, second: Probabilities, weight: float) -> Probabilities:
    """The probability whose log-odds are the mean of both, `weight` that of the second.

    >>> average_log_odds(np.float32([0.5, 0.9]), np.float32([0.5, 0.1]), 0.5).round(4).tolist()
    [0.5, 0.5]
    """
    one, other = _log_odds(first), _log_odds(second)
    return np.asarray(1 / (1 + np.exp(-(one + np.float32(weight) * (other - one)))), np.float32)


def _log_odds(probability: Probabilities) -> Probabilities:
    clipped = np.clip(probability, EPSILON, 1 - EPSILON)
    return np.asarray(np.log(clipped / (1 - clipped)), np.float32)
