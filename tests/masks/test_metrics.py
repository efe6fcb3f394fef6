"""Scores against the organisers' algorithms, written again plainly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import cells as cells_oracle
from oracles import forgery as forgery_oracle
from oracles import ink as ink_oracle

from handlens.masks.metrics import Counts, class_f1, compare, dice, fbeta, matched_f1
from handlens.masks.rle import encode

masks = arrays(np.bool_, (6, 7))
instances = st.lists(masks, min_size=1, max_size=5)


@given(instances, instances)
def test_matched_f1_equals_the_padded_matrix_to_the_last_bit(predicted, true):
    ours = matched_f1(*([encode(mask, order="columns") for mask in side] for side in (predicted, true)))
    assert ours == forgery_oracle.of1(predicted, true)
    assert np.isclose(ours, forgery_oracle.best_of1(predicted, true), rtol=1e-15, atol=0)


@given(masks, masks)
def test_one_instance_equals_the_official_formula_to_the_last_bit(predicted, true):
    ours = matched_f1([encode(predicted, order="columns")], [encode(true, order="columns")])
    assert ours == forgery_oracle.of1([predicted], [true])


@given(masks, masks)
def test_f_half_equals_the_text(predicted, true):
    counts = compare(encode(predicted, order="rows"), encode(true, order="rows"))
    expected = ink_oracle.f_half(counts.tp, counts.fp, counts.fn)
    assert np.isclose(fbeta(counts, beta=0.5, empty=0.0), expected, rtol=1e-15, atol=0)


@given(masks, masks)
def test_dice_equals_the_text_to_the_last_bit(predicted, true):
    counts = compare(encode(predicted, order="rows"), encode(true, order="rows"))
    assert dice(counts, empty=1.0) == cells_oracle.dice(predicted.astype(float), true.astype(float))


def test_the_empty_case_is_an_argument():
    nothing = Counts(0, 0, 0)
    assert dice(nothing, empty=1.0) == 1.0
    assert dice(nothing, empty=0.0) == 0.0
    assert fbeta(nothing, beta=0.5, empty=0.25) == 0.25
    assert class_f1(nothing) == 0.0


def test_counts_add_up():
    assert Counts(1, 2, 3) + Counts(4, 5, 6) == Counts(5, 7, 9)


def test_a_hand_worked_assignment():
    # Two true instances of 4 and 2 pixels; the greedy choice (first with first, 0.8) would leave the second pair at 0.
    shape = (1, 12)
    true = [_mask(shape, 0, 4), _mask(shape, 6, 8)]
    said = [_mask(shape, 0, 4), _mask(shape, 0, 3), _mask(shape, 7, 8)]
    # best: 1.0 (exact) + 2/3 (one of two pixels), over max(3, 2)
    assert np.isclose(matched_f1(said, true), (1 + 2 / 3) / 3)


def _mask(shape, start, stop):
    mask = np.zeros(shape, bool)
    mask[0, start:stop] = True
    return encode(mask, order="columns")


def test_memory_does_not_grow_with_the_pairs():
    import tracemalloc

    many = encode(np.arange(400_000).reshape(1, -1) % 2 == 0, order="rows")
    tracemalloc.start()
    assert matched_f1([many] * 4, [many] * 5) == 4 / 5
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # 20 pairs of 200,000 runs are 4 million runs a side
