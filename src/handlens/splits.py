"""Cross-validation folds that keep the cases of a group together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

_Strata = Counter[str]

SINGLE_PARTS = 10
"""Parts of the examples where there is only one network, of which two are held out: decisions are fitted on one and
evaluated on the other."""


def count_parts(groups: Iterable[str], folds: int) -> int:
    """Into how many parts groups are dealt for so many folds: a single network has ten if it can.

    ValueError where a single network has fewer than three groups: one to learn from, two to evaluate on.

    >>> count_parts("abcde", 2), count_parts("abcde", 1)
    (2, 5)
    """
    if folds > 1:
        return folds
    count = len(set(groups))
    if count < 3:
        needs = "a single network needs 3 or more, one to learn from and two to evaluate on"
        raise ValueError(f"{count} {'group' if count == 1 else 'groups'}: {needs}; label more")
    return min(SINGLE_PARTS, count)


def fold_of(groups: Sequence[str], *, folds: int, seed: int, strata: Sequence[str] | None = None) -> list[int]:
    """Fold number, 0 to `folds` - 1, of each item; items of one group always get the same one.

    Folds are as even in size, and in every stratum (such as a class), as a greedy pass over the groups makes
    them; no fold is empty. Only names and counts matter: the same items in another order get the same folds.

    >>> fold_of(["a", "a", "b", "c"], folds=2, seed=0)
    [0, 0, 1, 1]
    >>> fold_of([], folds=2, seed=0)
    Traceback (most recent call last):
    ValueError: 0 groups cannot fill 2 folds: ask for fewer folds, or give more groups
    """
    if strata is not None and len(strata) != len(groups):
        raise ValueError(f"{len(groups)} groups but {len(strata)} strata: each item needs one of both")
    if folds < 1:
        raise ValueError(f"{folds} folds: there is at least one")
    contents = _contents(groups, strata if strata is not None else [""] * len(groups))
    if len(contents) < folds:
        raise ValueError(f"{len(contents)} groups cannot fill {folds} folds: ask for fewer folds, or give more groups")
    chosen = _deal(contents, folds, seed)
    return [chosen[group] for group in groups]


def _contents(groups: Sequence[str], strata: Sequence[str]) -> dict[str, _Strata]:
    """How many items of each stratum a group has, groups in the order of their names."""
    contents: defaultdict[str, _Strata] = defaultdict(Counter)
    for group, stratum in zip(groups, strata, strict=True):
        contents[group][stratum] += 1
    return dict(sorted(contents.items()))


def _deal(contents: Mapping[str, _Strata], folds: int, seed: int) -> dict[str, int]:
    """Give each group to the fold where it raises the sum of squared shares least: even deals have the least."""
    totals = sum(contents.values(), Counter[str]())
    everything = totals.total()
    loads: list[_Strata] = [Counter() for _ in range(folds)]
    sizes = [0] * folds
    chosen: dict[str, int] = {}
    for group in _dealing_order(contents, totals, seed):
        inside = contents[group]
        costs = [
            sum(load[stratum] * count / totals[stratum] for stratum, count in sorted(inside.items()))
            + size * inside.total() / everything
            for load, size in zip(loads, sizes, strict=True)
        ]
        fold = costs.index(min(costs))
        chosen[group] = fold
        loads[fold].update(inside)
        sizes[fold] += inside.total()
    return chosen


def _dealing_order(contents: Mapping[str, _Strata], totals: _Strata, seed: int) -> list[str]:
    """Large groups first, while there is room to even them out; then rare strata, one by one; then at random."""
    lots = np.random.default_rng([seed, len(contents)]).permutation(len(contents)).tolist()
    lot = dict(zip(contents, lots, strict=True))

    def key(group: str) -> tuple[int, int, str, int]:
        rarest = min(contents[group], key=lambda stratum: (totals[stratum], stratum))
        return -contents[group].total(), totals[rarest], rarest, lot[group]

    return sorted(contents, key=key)
