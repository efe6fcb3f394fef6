"""What a case costs: seconds from its size, the effort and the speed of the machine, learned as answers come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SPEED_GAIN, COST_GAIN = 0.3, 0.5
"""How much of a surprise is taken for a change of the machine's speed, and for a wrong cost of the effort at first."""

LARGEST_SURPRISE = math.log(4)
"""A single odd case changes no expectation by more."""

FIXED_SHARE = 0.3
"""What of a case's cost does not depend on its size, until that was measured."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Answer this case with this effort; both are numbers."""

    case: int
    effort: int


class CostModel:
    """Seconds that a case takes with an effort: from its size, the effort's cost, and how fast the machine is now."""

    def __init__(self, sizes: Sequence[float], costs: Sequence[float]) -> None:
        mean = sum(sizes) / max(1, len(sizes)) or 1.0
        self.sizes = [size / mean for size in sizes]
        self._costs = [math.log(cost) for cost in costs]
        self._counts = [0] * len(costs)
        self._speed: float | None = None
        self._spread = 0.1  # of the logarithm of a case's seconds about what was expected
        self._fixed = FIXED_SHARE
        self._seen: list[tuple[float, float]] = []

    @property
    def measured(self) -> bool:
        return self._speed is not None

    def expect(self, attempt: Attempt) -> float:
        """Mean seconds; 0 before anything was measured."""
        return self._seconds(attempt.effort) * self._units(attempt.case)

    def sum(self, cases: Sequence[int], effort: int) -> float:
        """Mean seconds of all of them together."""
        sizes = sum(self.sizes[case] for case in cases)
        return self._seconds(effort) * (self._fixed * len(cases) + (1 - self._fixed) * sizes)

    def _seconds(self, effort: int) -> float:
        """Of a case of mean size."""
        return math.exp(self._speed + self._costs[effort] + self._spread / 2) if self._speed is not None else 0.0

    def learn(self, attempt: Attempt, seconds: float) -> None:
        """An attempt took so long."""
        found = math.log(max(seconds, 1e-4) / self._units(attempt.case))
        if self._speed is None:
            self._speed = found - self._costs[attempt.effort]
        surprise = found - self._speed - self._costs[attempt.effort]
        self._spread += 0.1 * (min(surprise**2, 1.0) - self._spread)
        bounded = max(-LARGEST_SURPRISE, min(LARGEST_SURPRISE, surprise))
        self._counts[attempt.effort] += 1
        if sum(count > 0 for count in self._counts) > 1:  # the first effort has nothing to be compared with
            self._costs[attempt.effort] += bounded * COST_GAIN / self._counts[attempt.effort]
        self._speed += bounded * SPEED_GAIN
        self._fit_sizes(attempt, seconds)

    def learn_at_least(self, attempt: Attempt, seconds: float) -> None:
        """An attempt was ended after so long: where that is not known yet, cases take longer than that."""
        if self._speed is None:
            self.learn(attempt, 1.5 * seconds)

    def _units(self, case: int) -> float:
        return self._fixed + (1 - self._fixed) * self.sizes[case]

    def _fit_sizes(self, attempt: Attempt, seconds: float) -> None:
        """How much of the cost is the same for all: least squares of seconds, at today's speed, over sizes."""
        self._seen = [
            *self._seen[-63:],
            (self.sizes[attempt.case], seconds / self.expect(attempt) * self._units(attempt.case)),
        ]
        if len(self._seen) < 6:
            return
        mean_size, mean_cost = (sum(column) / len(self._seen) for column in zip(*self._seen, strict=True))
        variance = sum((size - mean_size) ** 2 for size, _ in self._seen)
        if variance < 0.01 * len(self._seen):  # all of one size: nothing to be learned
            return
        slope = sum((size - mean_size) * (cost - mean_cost) for size, cost in self._seen) / variance
        share = 1 - max(0.0, slope) / max(mean_cost + slope * (1 - mean_size), 1e-9)
        self._fixed += 0.5 * (max(0.0, min(1.0, share)) - self._fixed)
