from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens.splits import count_parts, fold_of

items = st.lists(
    st.tuples(st.sampled_from([f"g{i}" for i in range(12)]), st.sampled_from("abc")), min_size=1, max_size=60
)
seeds = st.integers(min_value=0, max_value=2**32)


@st.composite
def dealt(draw: st.DrawFn) -> tuple[list[str], list[str], int]:
    """Items of a few groups, and a number of folds they can fill."""
    pairs = draw(items)
    groups = [group for group, _ in pairs]
    folds = draw(st.integers(min_value=1, max_value=len(set(groups))))
    return groups, [stratum for _, stratum in pairs], folds


@given(dealt(), seeds)
def test_a_group_is_on_one_side_and_no_fold_is_empty(case: tuple[list[str], list[str], int], seed: int) -> None:
    groups, strata, folds = case
    numbers = fold_of(groups, folds=folds, seed=seed, strata=strata)
    assert set(numbers) == set(range(folds))
    sides = defaultdict(set)
    for group, number in zip(groups, numbers, strict=True):
        sides[group].add(number)
    assert all(len(side) == 1 for side in sides.values())


@given(dealt(), seeds, st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(case: tuple[list[str], list[str], int], seed: int, shuffle) -> None:
    groups, strata, folds = case
    order = list(range(len(groups)))
    shuffle.shuffle(order)
    numbers = fold_of(groups, folds=folds, seed=seed, strata=strata)
    again = fold_of([groups[i] for i in order], folds=folds, seed=seed, strata=[strata[i] for i in order])
    assert again == [numbers[i] for i in order]


@given(dealt(), seeds)
def test_sizes_differ_by_at_most_the_largest_group(case: tuple[list[str], list[str], int], seed: int) -> None:
    groups, _, folds = case
    sizes = Counter(fold_of(groups, folds=folds, seed=seed)).values()
    assert max(sizes) - min(sizes) <= max(Counter(groups).values())


@given(st.lists(st.sampled_from("abcd"), min_size=5, max_size=80), st.integers(1, 5), seeds)
def test_groups_of_one_are_dealt_evenly_in_size_and_in_every_stratum(strata: list[str], folds: int, seed: int) -> None:
    numbers = fold_of([f"item {i}" for i in range(len(strata))], folds=folds, seed=seed, strata=strata)
    for wanted in ({"a"}, {"b"}, {"c"}, {"d"}, set("abcd")):
        inside = Counter(number for number, stratum in zip(numbers, strata, strict=True) if stratum in wanted)
        counts = [inside[fold] for fold in range(folds)]
        assert max(counts) - min(counts) <= 1


def test_uneven_classes_of_paired_photographs_are_spread() -> None:
    rng = np.random.default_rng(5)
    lesions = rng.choice(["BCC", "NV", "DF"], 400, p=[0.7, 0.25, 0.05])
    groups = [f"lesion {i}" for i in range(400) for _ in range(2)]
    strata = [str(name) for name in lesions for _ in range(2)]
    numbers = fold_of(groups, folds=5, seed=1, strata=strata)
    for name in ("BCC", "NV", "DF"):
        inside = Counter(number for number, stratum in zip(numbers, strata, strict=True) if stratum == name)
        assert max(inside.values()) - min(inside.values()) <= 2


def test_the_seed_decides_and_the_same_seed_repeats() -> None:
    groups = [f"lesion {i}" for i in range(50)]
    first = fold_of(groups, folds=5, seed=1)
    assert fold_of(groups, folds=5, seed=1) == first
    assert fold_of(groups, folds=5, seed=2) != first


def test_what_cannot_be_dealt_is_refused() -> None:
    with pytest.raises(ValueError, match="2 groups cannot fill 3 folds"):
        fold_of(["a", "b", "a"], folds=3, seed=0)
    with pytest.raises(ValueError, match="0 folds"):
        fold_of(["a"], folds=0, seed=0)
    with pytest.raises(ValueError, match="2 groups but 1 strata"):
        fold_of(["a", "b"], folds=1, seed=0, strata=["x"])


@pytest.mark.parametrize(
    ("groups", "said"), [("aa", "1 group: a single network needs 3 or more"), ("ab", "2 groups: ")]
)
def test_a_single_network_needs_three_groups(groups, said):
    with pytest.raises(ValueError, match=said):
        count_parts(groups, 1)
