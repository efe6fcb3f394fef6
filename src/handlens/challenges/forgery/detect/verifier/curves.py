"""The verifier: a logistic curve for each tier, which trees may correct, and how a curve is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from handlens.challenges.forgery.detect.findings import Match
from handlens.challenges.forgery.detect.verifier.features import BY_KEY, BY_NAME, describe
from handlens.challenges.forgery.detect.verifier.trees import Trees

FloatTable = npt.NDArray[np.float64]

MAX_OFFSET = 4.0
"""Standard deviations from its mean at which a feature is clipped: one strange number must not decide. By hand."""

LEAST_SPREAD = 1e-6
"""Standard deviation that a feature is taken to have at least, so that one that never changes is harmless. Rule."""

STEEPEST = 50.0
"""Log-odds beyond which a probability is 0 or 1 in a float. Rule."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Weights of standardised features, by name; their sum plus the offset is the log-odds of a copy."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float

    def log_odds(self, features: Mapping[str, float]) -> float:
        row = np.array([features[name] for name in self.names])
        row = np.clip((row - self.means) / self.spreads, -MAX_OFFSET, MAX_OFFSET)
        return float(row @ np.array(self.weights)) + self.offset

    def probability(self, features: Mapping[str, float]) -> float:
        return sigmoid(self.log_odds(features))


@dataclass(frozen=True, slots=True)
class LogisticVerifier:
    """The curve of each tier, and the trees that correct it where a tier has some."""

    curves: Mapping[str, Curve] = field(default_factory=dict)
    trees: Mapping[str, Trees] = field(default_factory=dict)

    def probability(self, match: Match, /) -> float:
        """That the match is a copy; 0 for a tier that was not fitted."""
        curve = self.curves.get(match.tier)
        if curve is None:
            return 0.0
        features = describe(match)
        odds, trees = curve.log_odds(features), self.trees.get(match.tier)
        return sigmoid(odds + trees.correction(features, log_odds=odds) if trees else odds)

    def to_record(self) -> dict[str, Any]:
        """Curves and trees for a decision file, features by their stored names."""
        return {
            "curves": {
                tier: asdict(curve) | {"names": tuple(BY_NAME[name].key for name in curve.names)}
                for tier, curve in self.curves.items()
            },
            "trees": {tier: trees.to_record() for tier, trees in self.trees.items()},
        }

    @classmethod
    def from_record(
        cls, curves: Mapping[str, Mapping[str, Any]], trees: Mapping[str, Mapping[str, Any]]
    ) -> LogisticVerifier:
        """What `to_record` wrote; ValueError, TypeError or KeyError where it is something else."""
        pages = {tier: {name: _frozen(value) for name, value in page.items()} for tier, page in curves.items()}
        unknown = {key for page in pages.values() for key in page["names"]}.difference(BY_KEY)
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: not measured")
        return cls(
            {
                tier: Curve(**(page | {"names": tuple(BY_KEY[key].name for key in page["names"])}))
                for tier, page in pages.items()
            },
            {tier: Trees.from_record(page) for tier, page in trees.items()},
        )


def fit_curve(
    names: Sequence[str],
    table: FloatTable,
    labels: npt.NDArray[np.bool_],
    weights: FloatTable,
    *,
    signs: Sequence[int] | None = None,
    ridge: float = 1.0,
) -> Curve:
    """The likeliest curve, its weights held small and of the right sign; `weights` are how much each row counts.

    `signs` has 1 or -1 for each name: which way it speaks; 1 for all where it is left out.
    """
    means, spreads = table.mean(axis=0), np.maximum(table.std(axis=0), LEAST_SPREAD)
    rows = np.clip((table - means) / spreads, -MAX_OFFSET, MAX_OFFSET)
    sides = np.where(labels, 1.0, -1.0)

    def loss(state: FloatTable) -> tuple[float, FloatTable]:
        margins = sides * (rows @ state[:-1] + state[-1])
        value = float(weights @ np.logaddexp(0, -margins)) + 0.5 * ridge * float(state[:-1] @ state[:-1])
        pull = -weights * sides / (1 + np.exp(np.clip(margins, -60, 60)))
        return value, np.concatenate([rows.T @ pull + ridge * state[:-1], [pull.sum()]])

    bounds = [(0.0, None) if sign > 0 else (None, 0.0) for sign in signs or [1] * len(names)] + [(None, None)]
    found = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    numbers = [tuple(float(number) for number in each) for each in (means, spreads, found[:-1])]
    return Curve(tuple(names), numbers[0], numbers[1], numbers[2], float(found[-1]))


def sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(value, -STEEPEST, STEEPEST))))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
