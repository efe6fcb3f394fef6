"""From the probabilities of matches to an answer: fitted by training, read by prediction, one file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from handlens.challenges.forgery.detect.findings import Match
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier, sigmoid
from handlens.errors import DataError, ModelError
from handlens.io.gate import read_text

FILE = "decision.json"
"""Name of the fitted decision in a run's folder; the included one lies in the folder of the detector."""

CLOSEST = 1e-9
"""How near a probability may come to 0 or 1 before its log-odds are taken. Rule: far below what a fit can tell."""


SENSITIVITIES: Mapping[str, float] = {"low": 0.25, "normal": 0.5, "high": 0.75}
"""Where the named sensitivities lie on the scale from 0, nothing is answered, to 1, everything is that may be.
Rule: evenly apart, as promised."""


class Verifier(Protocol):
    """Says how likely a match is a copy; what it needs to know of the pixels is in the match's evidence.

    Another verifier takes the place of curves and trees here: it measures while the canvas is there (as `measure`
    does) and scores in `probability`.
    """

    def probability(self, match: Match, /) -> float: ...

    def to_record(self) -> dict[str, Any]:
        """Its part of the decision file."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """How likely matches are, and what an answer is worth.

    `worth` is the oF1 to be expected of an answer for a forged figure. `slope` and `offset` bring the surest match to
    the probability that the figure is forged. `strict` is the probability that hardly an authentic figure exceeds.
    `further` is the probability from which a group is answered beside one that is surer. `low` and `high` are the least
    probabilities of a figure that is answered at these sensitivities; None where too few authentic figures were seen to
    tell.
    """

    verifier: Verifier
    worth: float
    slope: float = 1.0
    offset: float = 0.0
    strict: float = 0.0
    further: float = 1.0
    low: float | None = None
    high: float | None = None
    sensitivity: float = SENSITIVITIES["normal"]

    def at(self, sensitivity: float) -> Decision:
        """The same, more or less easily convinced."""
        return replace(self, sensitivity=sensitivity)

    def figure(self, surest: float) -> float:
        """The probability that a figure is forged, given that of its surest match."""
        return sigmoid(self.slope * _logit(surest) + self.offset) if surest > 0 else 0.0

    @property
    def least(self) -> float:
        """Least probability at which an answer is given: at normal sensitivity where it is worth more than `authentic`,
        p f > 1 - p, and seldom wrong; between the named sensitivities in proportion.
        """
        normal = max(1 / (1 + self.worth), self.strict)
        low = max(normal, (1 + normal) / 2 if self.low is None else self.low)
        high = min(normal, normal / 2 if self.high is None else self.high)
        if self.sensitivity == SENSITIVITIES["normal"]:
            return normal
        return float(np.interp(self.sensitivity, (0, *SENSITIVITIES.values(), 1), (1, low, normal, high, 0)))

    def count_answered(self, probabilities: Sequence[float]) -> int:
        """How many of some groups are the answer, given how sure each is, the surest first.

        Once a figure is answered, a wrong group beside a right one costs no more than a missing one.
        """
        if not probabilities or self.figure(probabilities[0]) <= self.least:
            return 0
        return sum(each >= self.further or self.figure(each) > self.least for each in probabilities)

    def to_json(self) -> str:
        names = ("worth", "slope", "offset", "strict", "further", "low", "high")
        numbers = {name: getattr(self, name) for name in names}
        return json.dumps(self.verifier.to_record() | numbers, indent=1) + "\n"


def read_decision(path: Path) -> Decision:
    """A fitted decision; ModelError where the file is not one."""
    try:
        page = json.loads(read_text(path))
        verifier = LogisticVerifier.from_record(page.pop("curves"), page.pop("trees", {}))
        return Decision(verifier, **page)
    except DataError as error:
        raise ModelError(f"{error}; expected a run of `handlens train forgery`") from error
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path}: this is no fitted decision ({error}); fit it anew") from error


def included() -> Decision:
    """The decision that comes with the program."""
    return read_decision(Path(__file__).parents[1] / FILE)


def _logit(probability: float) -> float:
    clipped = np.clip(probability, CLOSEST, 1 - CLOSEST)
    return float(np.log(clipped / (1 - clipped)))
