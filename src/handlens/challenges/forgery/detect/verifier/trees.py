"""Boosted trees that correct the curve of a tier: what indicates a copy only together, as a seam with a fair match.

They are fitted by LightGBM (`verifier_fitting`), and evaluated here without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handlens.challenges.forgery.detect.verifier.features import BY_KEY, BY_NAME

MOST_TREES, MOST_NODES = 2_000, 1_000
"""Trees, and splits of each, that a decision file may have. Rule: far more than a fit makes."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Splits and leaves. Split n sends a row to `left[n]` where its feature is at most `limits[n]`, else to `right[n]`.

    A negative number is a leaf: -1 is the first. A tree without splits is its first leaf.
    """

    features: tuple[int, ...]
    limits: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    leaves: tuple[float, ...]

    def __post_init__(self) -> None:
        splits = len(self.features)
        if not len(self.limits) == len(self.left) == len(self.right) == splits <= MOST_NODES:
            raise ValueError(f"a tree of {splits} splits with {len(self.limits)} limits")
        if len(self.leaves) != splits + 1:
            raise ValueError(f"a tree of {splits} splits with {len(self.leaves)} leaves")
        for number, child in [*enumerate(self.left), *enumerate(self.right)]:
            if not (number < child < splits or -splits - 1 <= child < 0):  # downwards: every row arrives
                raise ValueError(f"split {number} leads to {child}")

    def value(self, row: list[float]) -> float:
        node = 0 if self.features else -1
        while node >= 0:
            node = self.left[node] if row[self.features[node]] <= self.limits[node] else self.right[node]
        return self.leaves[-node - 1]


@dataclass(frozen=True, slots=True)
class Trees:
    """The sum of the trees is added to the log-odds of a match; `names` are the features, the curve's log-odds last.

    >>> seam = Trees(("seam",), (Tree((0,), (0.5,), (-1,), (-2,), (-1.0, 2.0)),))
    >>> seam.correction({"seam": 0.9}, log_odds=0.0), seam.correction({"seam": 0.5}, log_odds=0.0)
    (2.0, -1.0)
    """

    names: tuple[str, ...]
    trees: tuple[Tree, ...]

    def __post_init__(self) -> None:
        if len(self.trees) > MOST_TREES:
            raise ValueError(f"{len(self.trees)} trees; expected at most {MOST_TREES}")
        used = [number for tree in self.trees for number in tree.features]
        if used and not 0 <= min(used) <= max(used) <= len(self.names):
            raise ValueError(f"a tree asks for feature {max(used)} of {len(self.names)}")

    def correction(self, features: Mapping[str, float], *, log_odds: float) -> float:
        """What is added to the log-odds of a match with these features."""
        row = [*(features[name] for name in self.names), log_odds]
        return sum(tree.value(row) for tree in self.trees)

    def to_record(self) -> dict[str, Any]:
        """For a decision file: features by their stored names."""
        trees = [[tree.features, tree.limits, tree.left, tree.right, tree.leaves] for tree in self.trees]
        return {"names": [BY_NAME[name].key for name in self.names], "trees": trees}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Trees:
        """What `to_record` wrote; ValueError, TypeError or KeyError where it is something else."""
        trees = tuple(
            Tree(
                tuple(int(each) for each in features),
                tuple(float(each) for each in limits),
                tuple(int(each) for each in left),
                tuple(int(each) for each in right),
                tuple(float(each) for each in leaves),
            )
            for features, limits, left, right, leaves in record["trees"]
        )
        return cls(tuple(BY_KEY[key].name for key in record["names"]), trees)
