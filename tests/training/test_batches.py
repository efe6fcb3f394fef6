"""A batch follows from seed, stage and step alone."""

from contextlib import closing

import numpy as np
import pytest

from handlens.inference.prefetch import WaitTime
from handlens.training.batches import Batches


def make_item(rng, index):
    return {"index": np.array(index), "noise": rng.normal(size=3)}


BATCHES = Batches(make_item, members=(2, 3, 5, 7, 11), size=4, seed=1, stage=0)


def test_a_batch_is_the_same_whatever_came_before():
    fresh = Batches(make_item, (2, 3, 5, 7, 11), 4, 1, 0).make(7)
    for step in range(7):
        BATCHES.make(step)
    again = BATCHES.make(7)
    assert all(np.array_equal(fresh[name], again[name]) for name in fresh)


def test_every_member_comes_once_before_any_comes_again():
    chosen = [index for step in range(5) for index in BATCHES.chosen(step)]
    for turn in range(4):
        assert sorted(chosen[turn * 5 : turn * 5 + 5]) == [2, 3, 5, 7, 11]
    assert chosen[:5] != chosen[5:10] or chosen[5:10] != chosen[10:15]


@pytest.mark.parametrize("other", [{"seed": 2}, {"stage": 1}])
def test_seed_and_stage_change_it(other):
    from dataclasses import replace

    assert not np.array_equal(replace(BATCHES, **other).make(0)["noise"], BATCHES.make(0)["noise"])


def test_the_parts_of_two_processes_are_the_whole():
    from dataclasses import replace

    parts = [replace(BATCHES, share=(rank, 2)).make(3) for rank in (0, 1)]
    whole = BATCHES.make(3)
    assert all(np.array_equal(np.concatenate([part[name] for part in parts]), whole[name]) for name in whole)


def test_they_come_ahead_with_their_steps():
    with closing(BATCHES.prefetch(range(3, 50), WaitTime())) as prefetched:
        steps = [next(prefetched) for _ in range(4)]
    assert [step for step, _ in steps] == [3, 4, 5, 6]
    assert np.array_equal(steps[2][1]["noise"], BATCHES.make(5)["noise"])


def test_weights_say_how_often_a_member_comes():
    weights = (9.0, 9.0, 1.0, 4.0, 9.0, 2.0, 9.0, 3.0)
    drawn = Batches(make_item, (2, 3, 5, 7), 4, 1, 0, weights=weights)
    chosen = [index for step in range(100) for index in drawn.chosen(step)]
    assert {index: chosen.count(index) for index in (2, 3, 5, 7)} == pytest.approx(
        {2: 40, 3: 160, 5: 80, 7: 120}, abs=15
    )
    assert chosen[:100] != chosen[100:200]
    assert drawn.chosen(63) == Batches(make_item, (2, 3, 5, 7), 4, 1, 0, weights=weights).chosen(63)


def test_equal_weights_leave_nobody_out():
    drawn = Batches(make_item, (2, 3, 5, 7, 11), 5, 1, 0, weights=(1.0,) * 12)
    assert all(sorted(drawn.chosen(step)) == [2, 3, 5, 7, 11] for step in range(20))
