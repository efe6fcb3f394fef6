"""A trained classifier taught other sources without forgetting its own: a gate, and a second layer behind it.

The answer to a photograph is that of the model, plus a correction that counts as much as the photograph looks like one
of the other sources. Both are linear in what the encoder sees, so that they are fitted in a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.logistic import Floats, Table, minimise, standardise

GATE_PENALTY = 0.1
"""L2 penalty of the gate, as a share of that of the second layer: there are many more examples of each of its sides."""

ROUNDS = 60

Layer = tuple[Floats, Floats]
"""Weights (features, outputs) and bias (outputs)."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """The two layers."""

    gate: Layer
    other: Layer

    def logits(self, features: Table, start: Layer) -> Floats:
        """Those of the adapted classifier."""
        opened = 1 / (1 + np.exp(-(features @ self.gate[0] + self.gate[1])))
        found: Floats = features @ start[0] + start[1] + opened * (features @ self.other[0] + self.other[1])
        return found


def fit_adaptation(
    features: Table,
    codes: npt.NDArray[np.int64],
    source_of: npt.NDArray[np.int64],
    *,
    importance: Floats,
    penalty: float,
    start: Layer,
) -> Adaptation:
    """The gate tells source 0 from all others; the second layer lowers the loss of what it lets through.

    `importance` is how much each example counts for the second layer; `start` is the layer that is corrected.
    """
    table, centre, scale = standardise(features)
    elsewhere = (source_of > 0).astype(np.int64)
    if not 0 < elsewhere.sum() < len(elsewhere):
        raise ValueError("examples of one source alone: there is nothing to tell apart")
    found = minimise(table, elsewhere, _even(source_of), GATE_PENALTY * penalty, ROUNDS)
    direction = (found[:, 1] - found[:, 0])[:, None]
    opened = 1 / (1 + np.exp(-(table @ direction.astype(np.float32))))
    present, numbers = np.unique(codes, return_inverse=True)
    base = (features @ start[0] + start[1])[:, present].astype(np.float32)
    fitted = minimise(opened * table, numbers, importance / importance.sum(), penalty, ROUNDS, base)
    correction = np.zeros((len(fitted), start[0].shape[1]))
    correction[:, present] = fitted
    return Adaptation(_unscaled(direction, centre, scale), _unscaled(correction, centre, scale))


def _even(source_of: npt.NDArray[np.int64]) -> Floats:
    """Half of the weight on source 0, the rest even among the others, whatever their sizes."""
    sources, counts = np.unique(source_of, return_counts=True)
    shares = dict(zip(sources.tolist(), counts.tolist(), strict=True))
    others = len(sources) - 1
    return np.array([0.5 / (shares[at] * (others if at else 1)) for at in source_of.tolist()])


def _unscaled(coefficients: Floats, centre: Floats, scale: Floats) -> Layer:
    """A layer over features as they are."""
    return coefficients[:-1] / scale[:, None], coefficients[-1] - (centre / scale) @ coefficients[:-1]
