"""How labelled candidates make a verifier: a curve for each tier that found copies enough, trees that correct it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import Match, TierName
from handlens.challenges.forgery.detect.verifier.curves import Curve, LogisticVerifier, fit_curve
from handlens.challenges.forgery.detect.verifier.decision import included
from handlens.challenges.forgery.detect.verifier.features import describe
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.challenges.forgery.detect.verifier.trees import Tree, Trees
from handlens.challenges.forgery.match_labels import FALSE
from handlens.challenges.forgery.match_records import MatchRecord
from handlens.errors import HandlensError
from handlens.masks.rle import Rle
from handlens.types import Case, Shape

POSITIVES, NEGATIVES = 3.0, 20.0
"""How many matches those of one true copy count for, and how many the false matches of one figure count for at most: a
texture that repeats has hundreds. By hand."""

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

ROUNDS = 300
"""Trees. Measured out of fold on 442 pictures: at 1 % of honest ones above it, 150 find 148 of 172 proposed copies, 300
find 152."""


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
