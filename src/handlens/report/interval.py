"""How far a score would move with other cases of the same kind: a bootstrap interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

RESAMPLES = 1000
SHARE = 0.95
BATCH = 2_000_000
"""Numbers of cases that are drawn at once: 16 MB."""

Rescore = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]


def bootstrap(cases: int, rescore: Rescore, *, seed: int = 0) -> tuple[float, float] | None:
    """Percentiles of the scores of cases drawn with replacement; None for a single case.

    `rescore` gets rows of the numbers of cases, and gives a score for each row.
    """
    if cases < 2:
        return None
    random = np.random.default_rng(seed)
    rows = max(1, BATCH // cases)
    values = [
        rescore(random.integers(0, cases, (min(rows, RESAMPLES - done), cases))) for done in range(0, RESAMPLES, rows)
    ]
    low, high = np.percentile(np.concatenate(values), [50 * (1 - SHARE), 50 * (1 + SHARE)])
    return float(low), float(high)
