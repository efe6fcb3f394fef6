"""How sure a match is, given what was measured: a logistic curve for each tier, fitted to made-up figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import Match
from handlens.errors import ModelError

FILE = "decision.json"
"""Name of the fitted decision in a run's folder; the shipped one lies in the folder of the detector."""

FloatTable = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """Weights of standardised features, by name; their sum plus the offset is the log-odds of a copy."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float

    def probability(self, features: Mapping[str, float]) -> float:
        row = np.array([features[name] for name in self.names])
        row = np.clip((row - self.means) / self.spreads, -4, 4)
        return _sigmoid(float(row @ np.array(self.weights)) + self.offset)


@dataclass(frozen=True, slots=True)
class Decision:
    """The curve of each tier, and what an answer is worth.

    `worth` is the oF1 to be expected of an answer for a forged figure. `slope` and `offset` bring the surest match to
    the probability that the figure is forged. `strict` is the probability that hardly an authentic figure exceeds.
    """

    curves: Mapping[str, Curve]
    worth: float
    slope: float = 1.0
    offset: float = 0.0
    strict: float = 0.0

    def probability(self, match: Match) -> float:
        """That the match is a copy; 0 for a tier that was not fitted."""
        curve = self.curves.get(match.tier)
        return curve.probability(describe(match)) if curve else 0.0

    def figure(self, surest: float) -> float:
        """The probability that a figure is forged, given that of its surest match."""
        return _sigmoid(self.slope * _logit(surest) + self.offset) if surest > 0 else 0.0

    @property
    def least(self) -> float:
        """Least probability at which an answer is given: worth more than `authentic`, p f > 1 - p, and seldom wrong."""
        return max(1 / (1 + self.worth), self.strict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def read_decision(path: Path) -> Decision:
    """A fitted decision; ModelError where the file is not one."""
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
        curves = {
            tier: Curve(**{name: _frozen(value) for name, value in curve.items()})
            for tier, curve in page.pop("curves").items()
        }
        strange = {name for curve in curves.values() for name in curve.names}.difference(*FEATURES.values())
        if strange:
            raise ValueError(f"{', '.join(sorted(strange))}: not measured")
        return Decision(curves, **page)
    except OSError as error:
        what = f"{path}: cannot be read ({error.strerror}); expected a run of `handlens train forgery`"
        raise ModelError(what) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path}: this is no fitted decision ({error}); fit it anew") from error


def shipped() -> Decision:
    """The decision that comes with the program."""
    return read_decision(Path(__file__).parents[1] / FILE)


# --- features -----------------------------------------------------------------------------------------------------


MEASURED = (
    *("likeness", "detail", "calm", "grain", "weave", "noise", "smooth", "slow", "coarse", "loose", "even", "quiet"),
    *("bend", "depth", "solid", "pixels", "inliers"),
    *("rival", "crowd", "peers", "choices", "standing", "drift", "weight"),
)
"""Names of the evidence that curves are made from; what a tier does not measure counts as 0."""


DEPTHS = (0.3, 4.0)
"""Grey levels of the file that pixels spread over, between which it matters how many."""


def describe(match: Match) -> dict[str, float]:
    """What the curves look at: correlations as Fisher's z, counts as logarithms."""
    found = dict.fromkeys(MEASURED, 0.0)
    found |= match.evidence
    pixels = max(found["pixels"], 4.0)
    detail, grain = fisher(found["detail"]), fisher(found["grain"])
    calm, weave = fisher(found["calm"]), fisher(found["weave"])
    return {
        "likeness": fisher(found["likeness"]),
        "detail": detail,
        "grain": grain,
        "calm": calm,
        "weave": weave,
        "even": found["even"],
        "quiet": fisher(found["quiet"]),
        "bend": float(np.log(0.05 + found["bend"])),
        "depth": float(np.log(np.clip(found["depth"], *DEPTHS))),
        "strength": float(np.log1p(max(0.0, detail) * np.sqrt(pixels))),
        "proof": float(np.log1p(_proof(detail, pixels, found["smooth"]))),
        "grain proof": float(np.log1p(_proof(grain, pixels, found["coarse"]))),
        "calm proof": float(np.log1p(_proof(calm, pixels, found["slow"]))),
        "weave proof": float(np.log1p(_proof(weave, pixels, found["loose"]))),
        "noise": fisher(found["noise"]),
        "noise proof": float(np.log1p(_proof(fisher(found["noise"]), pixels, 0.0))),
        "lead": float(np.log1p(proof(found)) - np.log1p(max(0.0, found["crowd"]))),
        "peers": float(np.log1p(found["peers"])),
        "choices": float(np.log1p(found["choices"])),
        "solid": found["solid"],
        "standing": found["standing"],
        "drift": float(np.log1p(found["drift"])),
        "advantage": grain - fisher(found["rival"]),
        "inliers": float(np.log1p(found["inliers"])),
        "weight": float(np.log1p(found["weight"])),
    }


def proof(evidence: Mapping[str, float]) -> float:
    """How far detail, grain, and both as a blur leaves them, are from chance: a sum of deviations."""
    pixels = max(evidence["pixels"], 4.0)
    pairs = (("detail", "smooth"), ("grain", "coarse"), ("calm", "slow"), ("weave", "loose"))
    return sum(_proof(fisher(evidence[name]), pixels, evidence[alike]) for name, alike in pairs)


def _proof(value: float, pixels: float, alike: float) -> float:
    """Fisher's z times the root of how many pixels say something of their own, given how alike neighbours are.

    Noise blurred so that neighbours correlate by r has lumps of -pi / log r pixels.
    """
    lumps = pixels * min(1.0, -float(np.log(np.clip(alike, 1e-3, 0.999))) / np.pi)
    return max(0.0, value) * float(np.sqrt(max(1.0, lumps - 3)))


COMMON = (
    *("likeness", "detail", "calm", "grain", "weave", "noise", "even", "quiet", "bend", "depth", "solid"),
    *("strength", "proof", "calm proof", "grain proof", "weave proof", "noise proof"),
    *("advantage", "choices", "drift"),
)

FEATURES: Mapping[str, tuple[str, ...]] = {
    "objects": (*COMMON, "lead", "peers", "standing"),
    "key points": (*COMMON, "inliers"),
    "blots": (*COMMON, "inliers"),
    "shifts": (*COMMON, "weight"),
    "panels": COMMON,
}
"""What is known of a match of each tier."""


AGAINST = ("peers", "choices", "bend", "drift")
"""What speaks against a copy; everything else speaks for it. The fit must not learn the contrary from a few figures."""


def fit_curve(
    names: Sequence[str], table: FloatTable, labels: npt.NDArray[np.bool_], weights: FloatTable, *, ridge: float = 1.0
) -> Curve:
    """The likeliest curve, its weights held small and of the right sign; `weights` are how much each row counts."""
    from scipy.optimize import minimize

    means, spreads = table.mean(axis=0), np.maximum(table.std(axis=0), 1e-6)
    rows = np.clip((table - means) / spreads, -4, 4)
    signs = np.where(labels, 1.0, -1.0)

    def loss(state: FloatTable) -> tuple[float, FloatTable]:
        margins = signs * (rows @ state[:-1] + state[-1])
        value = float(weights @ np.logaddexp(0, -margins)) + 0.5 * ridge * float(state[:-1] @ state[:-1])
        pull = -weights * signs / (1 + np.exp(np.clip(margins, -60, 60)))
        return value, np.concatenate([rows.T @ pull + ridge * state[:-1], [pull.sum()]])

    bounds = [(None, 0.0) if name in AGAINST else (0.0, None) for name in names] + [(None, None)]
    found = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    numbers = [tuple(float(number) for number in each) for each in (means, spreads, found[:-1])]
    return Curve(tuple(names), numbers[0], numbers[1], numbers[2], float(found[-1]))


def fisher(correlation: float) -> float:
    """A correlation as Fisher's z, in which equal steps are equally unlikely."""
    return float(np.arctanh(np.clip(correlation, -0.999, 0.999)))


def _sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(value, -50, 50))))


def _logit(probability: float) -> float:
    clipped = np.clip(probability, 1e-9, 1 - 1e-9)
    return float(np.log(clipped / (1 - clipped)))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
