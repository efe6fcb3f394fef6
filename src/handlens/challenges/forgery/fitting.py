"""The decision fitted to labelled candidates: out of fold, how sure, how strict and how good the detector is.

Every fold is concluded as the detector that ships concludes, regions grown and all: what the fitted numbers describe is
the detector that people run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from handlens.challenges.forgery.detect.answer import candidate_groups, decide
from handlens.challenges.forgery.detect.findings import Match
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier, fit_curve, sigmoid
from handlens.challenges.forgery.detect.verifier.decision import CLOSEST, Decision, Verifier
from handlens.challenges.forgery.score import ORDER
from handlens.challenges.forgery.verifier_fitting import Example, fit_verifier, tiers_to_fit
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import Rle, encode
from handlens.splits import fold_of
from handlens.types import Case

FOLDS = 5
"""Parts of the figures; each is predicted by a decision that was fitted to the others."""

SWEPT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Least probabilities of an answer that are tried beside the fitted one, to be looked at."""

WORTH, LEAST_WORTH, MOST_WORTH = 0.8, 0.2, 0.95
"""The oF1 of an answer for a forged figure before any is known, and the limits of what is learned of it. By hand."""

ALARMS, CERTAIN = 0.01, 0.8
"""Share of authentic figures that may be called forged, and how certain it must be that no more are, with so many seen:
whoever is accused wrongly has more to lose than a score. Rule: a promise, not a measurement."""

LOW, HIGH = 0.002, 0.05
"""Share of authentic figures that are called forged at low and at high sensitivity. Rule: promises, too."""

TAIL, FEWEST_SEEN = 0.1, 10
"""Share of authentic figures, the most suspicious ones, that a rarer share is extrapolated from; and how many must
exceed a threshold for it to be read off. By hand."""

FURTHER = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0)
"""Least probabilities that are tried for a group beside a surer one."""

FEWEST_AUTHENTIC = 100
"""Authentic figures below which that share cannot be told."""


Weigh = Callable[[Sequence[Example], Sequence[Verifier]], list[list[Match]]]
"""For each example, with the verifier of its fold, what `Detector.weigh` gives."""


def fit(examples: Sequence[Example], weigh: Weigh) -> tuple[Decision, Mapping[str, float], Mapping[str, Any]]:
    """The decision fitted to all examples, what decisions fitted to the others are worth, and the same in detail."""
    tiers = tiers_to_fit(examples)
    found = predict_out_of_fold(examples, tiers, weigh)
    forged = np.array([bool(example.truth) for example in examples])
    said, value = np.array([bool(answer) for answer in found.answers]), found.scores(examples)
    verifier = fit_verifier(examples, tiers)
    numbers = {
        "figures": len(examples),
        "oF1 of forged figures": _mean(value[forged]),
        "oF1 of forged figures answered": _mean(value[forged & said]),
        "forged figures answered": _mean(said[forged]),
        "false alarms": _mean(said[~forged]),
        "oF1": _mean(value),
        "tiers fitted": len(tiers),
    }
    return replace(found.decisions[0], verifier=verifier), numbers, _details(examples, found, value)


def _details(examples: Sequence[Example], found: OutOfFold, value: Any) -> dict[str, Any]:
    """What a page of the fit shows: score of every figure and every fold, and the sweep over the least probability."""
    forged = np.array([bool(example.truth) for example in examples])
    said, folds = np.array([bool(answer) for answer in found.answers]), np.array(found.folds)
    decision = found.decisions[0]
    table = [
        {
            "fold": fold,
            "figures": int((folds == fold).sum()),
            "forged": int((forged & (folds == fold)).sum()),
            "oF1": _known(value[folds == fold]),
            "oF1 of forged figures": _known(value[forged & (folds == fold)]),
            "forged figures answered": _known(said[forged & (folds == fold)]),
            "false alarms": _known(said[~forged & (folds == fold)]),
        }
        for fold in sorted(set(found.folds))
    ]
    ids = [example.case.id for example in examples]
    return {
        "score": _mean(value),
        "scores": {id: float(each) for id, each in zip(ids, value, strict=True)},
        "decision": {"threshold": decision.least, "worth": decision.worth},
        "sweep": [(least, _score_at(examples, found, least)) for least in sorted({*SWEPT, decision.least})],
        "folds": table,
    }


def _score_at(examples: Sequence[Example], found: OutOfFold, least: float) -> float:
    """Mean oF1 where an answer needs this probability."""
    decision = replace(found.decisions[0], worth=math.inf, strict=least)
    pairs = zip(examples, found.weighed, strict=True)
    return float(np.mean([score_one(answer_of(each, matches, decision), each.truth) for each, matches in pairs]))


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """For each example its fold and its answer by that fold's decision, which was fitted to the other folds.

    The decisions differ in their verifiers alone.
    """

    folds: Sequence[int]
    decisions: Sequence[Decision]
    answers: Sequence[tuple[Rle, ...]]
    weighed: Sequence[Sequence[Match]]

    def scores(self, examples: Sequence[Example]) -> Any:
        """oF1 of each example."""
        return np.array(
            [score_one(answer, example.truth) for answer, example in zip(self.answers, examples, strict=True)]
        )


def predict_out_of_fold(examples: Sequence[Example], tiers: Sequence[str], weigh: Weigh) -> OutOfFold:
    """Answers of the detector as it ships, but with verifiers that have not seen the figure.

    The other numbers of the decision are fitted to what these verifiers say: first how sure a figure is, then how
    strict to be, then what an answer is worth.
    """
    folds = _folds(examples)
    verifiers = [
        fit_verifier([each for each, own in zip(examples, folds, strict=True) if own != fold], tiers)
        for fold in range(FOLDS)
    ]
    weighed = weigh(examples, [verifiers[fold] for fold in folds])
    forged = np.array([bool(example.truth) for example in examples])
    surest = np.array([_surest(matches) for matches in weighed])
    slope, offset = _calibrate(surest, forged)
    decision = Decision(LogisticVerifier(), WORTH, slope, offset)
    groups = np.array(_groups(examples))
    said = np.array([decision.figure(each) for each in surest[~forged]])
    decision = replace(decision, strict=_strictness(said, np.isin(groups, groups[forged])[~forged]))
    if len(said) >= FEWEST_AUTHENTIC:
        decision = replace(decision, low=threshold_of(said, LOW), high=threshold_of(said, HIGH))
    decision = replace(decision, further=_further(examples, weighed, decision))
    decision = replace(decision, worth=_worth(examples, weighed, decision))
    answers = [answer_of(example, matches, decision) for example, matches in zip(examples, weighed, strict=True)]
    return OutOfFold(folds, [replace(decision, verifier=each) for each in verifiers], answers, weighed)


def answer_of(example: Example, weighed: Sequence[Match], decision: Decision) -> tuple[Rle, ...]:
    """The answer that matches come to, as `Detector.conclude` and the predictor make it."""
    sure, _, _ = decide(weighed, decision)
    groups = (example.record.scaling.group_to_figure(each) for each in sure)
    return tuple(encode(group.mask(example.shape), order=ORDER) for group in groups)


def _surest(weighed: Sequence[Match]) -> float:
    """The probability of the surest group that may be the answer; 0 where there is none."""
    groups = candidate_groups(weighed)
    return groups[0].probability if groups else 0.0


def threshold_of(said: npt.NDArray[np.float64], share: float) -> float:
    """The probability that this share of authentic figures exceeds, given what is said of some.

    Where too few of these exceed it, their tail tells: above a high level, log-odds of honest figures fall off
    exponentially.
    """
    if share * len(said) >= FEWEST_SEEN:
        return float(np.quantile(said, 1 - share))
    suspicious = np.sort(said[said > CLOSEST])[::-1]  # of most figures nothing is even a candidate
    count = min(int(TAIL * len(said)), len(suspicious) - 1)
    if count < 1:
        return float(said.max())
    clipped = np.minimum(suspicious, 1 - CLOSEST)
    odds = np.log(clipped / (1 - clipped))
    excess = float((odds[:count] - odds[count]).mean())
    return sigmoid(float(odds[count]) + excess * math.log(count / len(said) / share))


def _further(examples: Sequence[Example], weighed: Sequence[Sequence[Match]], decision: Decision) -> float:
    """The probability for a group beside a surer one with which the answers for forged figures are best."""
    pairs = [(example, some) for example, some in zip(examples, weighed, strict=True) if example.truth]

    def mean_score(further: float) -> float:
        tried = replace(decision, further=further)
        return float(np.mean([score_one(answer_of(each, some, tried), each.truth) for each, some in pairs]))

    return max(reversed(FURTHER), key=mean_score) if pairs else decision.further


def _worth(examples: Sequence[Example], weighed: Sequence[Sequence[Match]], decision: Decision) -> float:
    """Mean oF1 of the answers for forged figures."""
    pairs = [(each.truth, answer_of(each, some, decision)) for each, some in zip(examples, weighed, strict=True)]
    scores = [score_one(answer, truth) for truth, answer in pairs if truth and answer]
    return float(np.clip(np.mean(scores), LEAST_WORTH, MOST_WORTH)) if scores else decision.worth


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _known(values: Any) -> float | None:
    """The mean, where there is one."""
    return float(values.mean()) if len(values) else None


def score_one(said: tuple[Rle, ...], truth: tuple[Rle, ...]) -> float:
    """oF1 of one figure."""
    if not said or not truth:
        return float(not said and not truth)
    return matched_f1(said, truth)


def _folds(examples: Sequence[Example]) -> list[int]:
    """A fold for each example; an image and its authentic twin have the same."""
    groups = _groups(examples)
    folds = min(FOLDS, len(set(groups)))
    return fold_of(
        groups, folds=folds, seed=0, strata=["forged" if example.truth else "authentic" for example in examples]
    )


def _groups(examples: Sequence[Example]) -> list[str]:
    """A name for each example that its twin has too."""
    return [group_of(example.case) for example in examples]


def group_of(case: Case) -> str:
    return case.group or case.id.rsplit("/", 1)[-1]


def _strictness(said: Any, has_twin: Any) -> float:
    """The probability that surely at most ALARMS of the authentic figures exceed; 0 where there are too few to tell.

    Those with a forged twin are easy, and many: where there are enough of the others, it must hold for them too.
    """
    groups = [some for some in (said, said[~has_twin]) if len(some) >= FEWEST_AUTHENTIC]
    return max((float(np.sort(some)[::-1][_most_alarms(len(some))]) for some in groups), default=0.0)


def _most_alarms(count: int) -> int:
    """How many of so many authentic figures may be called forged so that surely at most ALARMS of all would be.

    The limit of Clopper and Pearson.

    >>> [_most_alarms(count) for count in (100, 200, 400, 4000)]
    [0, 0, 1, 34]
    """
    alarms = np.arange(int(ALARMS * count) + 1)
    most = beta.ppf(CERTAIN, alarms + 1, count - alarms)
    return int(np.flatnonzero(most <= ALARMS).max(initial=0))


def _calibrate(surest: Any, forged: Any) -> tuple[float, float]:
    """Slope and offset that bring the log-odds of the surest match to those of the figure.

    Forged and authentic figures count the same in all, as they are equally many in the contest.
    """
    chosen = surest > 0
    if not forged[chosen].any() or forged[chosen].all():
        return 1.0, 0.0
    counts = np.where(forged, 0.5 / forged.sum(), 0.5 / (~forged).sum()) * len(forged)
    odds = np.log(np.clip(surest[chosen], 1e-6, 1 - 1e-6) / (1 - np.clip(surest[chosen], 1e-6, 1 - 1e-6)))
    curve = fit_curve(("odds",), odds[:, None], forged[chosen], counts[chosen], ridge=0.1)
    slope = curve.weights[0] / curve.spreads[0]
    return float(slope), float(curve.offset - slope * curve.means[0])
