"""What labelled candidates teach: curves and trees for the verifier, and out of fold how sure, strict and good it is.

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
from handlens.challenges.forgery.detect.findings import Match, TierName
from handlens.challenges.forgery.detect.verifier.curves import Curve, LogisticVerifier, fit_curve, sigmoid
from handlens.challenges.forgery.detect.verifier.decision import CLOSEST, Decision, Verifier, included
from handlens.challenges.forgery.detect.verifier.features import describe
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.challenges.forgery.detect.verifier.trees import Tree, Trees
from handlens.challenges.forgery.match_labels import FALSE
from handlens.challenges.forgery.match_records import MatchRecord
from handlens.challenges.forgery.score import ORDER
from handlens.errors import HandlensError
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import Rle, encode
from handlens.splits import fold_of
from handlens.types import Case, Shape

FOLDS = 5
"""Parts of the figures; each is predicted by a decision that was fitted to the others."""

SWEPT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Least probabilities of an answer that are tried beside the fitted one, to be looked at."""

POSITIVES, NEGATIVES = 3.0, 20.0
"""How many matches those of one true copy count for, and how many the false matches of one figure count for at most: a
texture that repeats has hundreds. By hand."""

WORTH, LEAST_WORTH, MOST_WORTH = 0.8, 0.2, 0.95
"""The oF1 of an answer for a forged figure before any is known, and the limits of what is learned of it. By hand."""

FEWEST_COPIES = 12
"""True copies that a tier must have found for a curve of its own: of fewer, one learns what they happen to be like.
Whole panels had 15 in 1,049 figures, and their own curve was as good there as an older one, fitted to more."""

CORRECTED: Mapping[str, int] = {TierName.OBJECTS: 60}
"""Tiers whose curve is corrected by trees, and the true copies that both need; with fewer, the included ones are
better. By hand."""

BOOSTING: Mapping[str, float | int | bool | str] = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 8,
    "min_data_in_leaf": 30,
    "lambda_l2": 5.0,
    "feature_fraction": 0.6,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 0,
    "verbose": -1,
}
"""Parameters of LightGBM: small trees and slow steps. By hand, and of the rest of its parameters none."""

ROUNDS = 150
"""Trees. Measured: out of fold, 80 have a log loss of 0.167, 150 of 0.160, 300 of 0.157."""

ALARMS, CERTAIN = 0.02, 0.9
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


@dataclass(frozen=True, slots=True)
class Example:
    """A figure: its group, its true instances, its candidates, and the instance that each match shows, or why not."""

    case: Case
    truth: tuple[Rle, ...]
    record: MatchRecord
    labels: tuple[int, ...]

    @property
    def matches(self) -> tuple[Match, ...]:
        """Its candidates, in pixels of the canvas."""
        return self.record.matches

    @property
    def shape(self) -> Shape:
        return self.record.scaling.figure


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


def tiers_to_fit(examples: Sequence[Example]) -> list[str]:
    """Tiers that found true copies enough; the others keep what comes with the program, in all folds."""
    copies = dict.fromkeys(TIERS, 0)
    for example in examples:
        pairs = zip(example.matches, example.labels, strict=True)
        for tier, _label in {(match.tier, label) for match, label in pairs if label >= 0}:
            copies[tier] += 1
    return [tier for tier, count in copies.items() if count >= CORRECTED.get(tier, FEWEST_COPIES)]


def fit_verifier(examples: Sequence[Example], tiers: Sequence[str]) -> LogisticVerifier:
    """Curves for these tiers, trees for those that have some; for other tiers what comes with the program."""
    known = included().verifier
    curves, trees = (dict(known.curves), dict(known.trees)) if isinstance(known, LogisticVerifier) else ({}, {})
    for tier in tiers:
        table = tabulate(examples, tier)
        if table.labels.any() and not table.labels.all():
            curves[tier] = fit_curve_to(table, tier)
            trees.pop(tier, None)  # they correct another curve
            if tier in CORRECTED:
                trees[tier] = fit_trees_to(table, tier, curves[tier])
    return LogisticVerifier(curves, trees)


@dataclass(frozen=True, slots=True)
class LabelledTable:
    """The matches of a tier: their features, which of them are true, and how much each counts."""

    rows: Sequence[Mapping[str, float]]
    labels: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float64]

    def columns(self, names: Sequence[str]) -> npt.NDArray[np.float64]:
        """Some features, (matches, features)."""
        return np.array([[row[name] for name in names] for row in self.rows], np.float64)


def tabulate(examples: Sequence[Example], tier: str) -> LabelledTable:
    """The matches of a tier that are surely true or false."""
    rows, labels, weights = [], [], []
    for example in examples:
        chosen = [
            (match, label) for match, label in zip(example.matches, example.labels, strict=True) if match.tier == tier
        ]
        false = sum(label == FALSE for _, label in chosen)
        for match, label in chosen:
            if label >= FALSE:
                rows.append(describe(match))
                labels.append(label >= 0)
                same = sum(other == label for _, other in chosen)
                weights.append(POSITIVES / same if label >= 0 else min(1.0, NEGATIVES / false))
    return LabelledTable(rows, np.array(labels, np.bool_), np.array(weights, np.float64))


def fit_curve_to(table: LabelledTable, tier: str) -> Curve:
    """The curve of a tier that has true and false matches."""
    names, signs = zip(*((each.name, each.sign) for each in TIERS[tier].features), strict=True)
    return fit_curve(names, table.columns(names), table.labels, table.weights, signs=signs)


def require_lightgbm() -> Any:
    """The module `lightgbm`; HandlensError says what to install where it cannot be imported."""
    try:
        import lightgbm
    except ModuleNotFoundError as error:
        what = f"training needs {error.name}, which is not installed"
        raise HandlensError(f"{what}: pip install 'handlens[train]'") from None
    except OSError as error:  # a wheel without libgomp, which other programs bring
        what = f"training needs lightgbm, which cannot be loaded ({error})"
        raise HandlensError(f"{what}: on Debian or Ubuntu, apt-get install libgomp1") from None
    return lightgbm


def fit_trees_to(table: LabelledTable, tier: str, curve: Curve) -> Trees:
    """Trees that correct a curve where it is wrong; they may look at what it says, too."""
    lightgbm = require_lightgbm()
    names = tuple(each.name for each in TIERS[tier].all_features)
    odds = np.array([curve.log_odds(row) for row in table.rows])
    rows = np.column_stack([table.columns(names), odds])
    data = lightgbm.Dataset(rows, table.labels.astype(np.float64), weight=table.weights, init_score=odds)
    model = lightgbm.train(dict(BOOSTING), data, num_boost_round=ROUNDS)
    return Trees(names, tuple(_tree(page["tree_structure"]) for page in model.dump_model()["tree_info"]))


def _tree(root: Mapping[str, Any]) -> Tree:
    """A tree as LightGBM dumps it, a split with its two children, or a leaf."""
    features, limits, left, right, leaves = list[int](), list[float](), list[int](), list[int](), list[float]()

    def add(page: Mapping[str, Any]) -> int:
        if "split_index" not in page:
            leaves.append(float(page["leaf_value"]))
            return -len(leaves)
        number = len(features)
        features.append(int(page["split_feature"]))
        limits.append(float(page["threshold"]))
        left.append(0)
        right.append(0)
        left[number], right[number] = add(page["left_child"]), add(page["right_child"])
        return number

    add(root)
    return Tree(tuple(features), tuple(limits), tuple(left), tuple(right), tuple(leaves))


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
    [0, 1, 4, 68]
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
