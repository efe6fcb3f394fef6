"""Run-length masks against pixels, walked one at a time."""

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracles import masks as oracle

from handlens.masks import rle

masks = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=12))
orders = st.sampled_from(["rows", "columns"])
numbers = st.lists(st.integers(-1, 40), max_size=8)


@given(masks, orders)
def test_runs_round_trip(mask, order):
    assert (rle.decode(rle.encode(mask, order=order), mask.shape, order=order) == mask).all()


@given(masks, orders)
def test_agrees_with_walking_over_the_pixels(mask, order):
    expected = oracle.encode(mask, order)
    assert rle.format_pairs(rle.encode(mask, order=order)) == " ".join(map(str, expected))
    assert rle.format_lists([rle.encode(mask, order=order)]) == json.dumps(expected)


@given(masks, orders)
def test_text_round_trips(mask, order):
    encoded = rle.encode(mask, order=order)
    pairs = rle.parse_pairs(rle.format_pairs(encoded), pixels=mask.size)
    assert (rle.decode(pairs, mask.shape, order=order) == mask).all()
    if mask.any():
        (lists,) = rle.parse_lists(rle.format_lists([encoded]), pixels=mask.size)
        assert (rle.decode(lists, mask.shape, order=order) == mask).all()


@given(st.data())
def test_overlap_agrees_with_counting_pixels(data):
    shape = data.draw(array_shapes(min_dims=2, max_dims=2, max_side=12))
    first, second = data.draw(arrays(np.bool_, shape)), data.draw(arrays(np.bool_, shape))
    a, b = rle.encode(first, order="rows"), rle.encode(second, order="rows")
    assert rle.overlap(a, b) == (first & second).sum()
    assert a.area == first.sum()


@given(st.lists(st.tuples(arrays(np.bool_, (5, 6)), arrays(np.bool_, (5, 6))), max_size=5))
def test_overlaps_of_many_pairs_are_overlaps_of_each(pairs):
    firsts, seconds = ([rle.encode(pair[side], order="rows") for pair in pairs] for side in (0, 1))
    assert rle.overlaps(firsts, seconds).tolist() == [(a & b).sum() for a, b in pairs]


@given(
    st.lists(st.lists(st.lists(st.integers(-1, 40), max_size=6), min_size=1, max_size=3), max_size=5),
    st.sampled_from([", ", ","]),
)
def test_many_lists_are_parsed_as_each_alone(cells, comma):
    texts = [";".join(f"[{comma.join(map(str, values))}]" for values in cell) for cell in cells]
    together = rle.parse_many_lists(texts, pixels=[30] * len(texts))
    for text, found in zip(texts, together, strict=True):
        alone = rle._parse_any_lists(text, 30)
        if isinstance(alone, ValueError):
            assert str(found) == str(alone)
        else:
            assert [rle.format_lists([a]) for a in found] == [rle.format_lists([a]) for a in alone]


@given(numbers)
def test_parsing_accepts_just_what_the_rules_allow(values):
    last, valid = 0, len(values) % 2 == 0
    for start, length in zip(values[0::2], values[1::2], strict=False):
        valid &= start > last and length >= 1
        last = start + length - 1
    valid &= last <= 30
    for parse, text in ((rle.parse_pairs, " ".join(map(str, values))), (rle.parse_lists, json.dumps(values))):
        if valid and (values or parse is rle.parse_pairs):
            parse(text, pixels=30)
        else:
            with pytest.raises(ValueError, match=r"\w"):
                parse(text, pixels=30)


def test_touching_runs_are_allowed():
    touching = rle.parse_pairs("1 2 3 2", pixels=9)
    assert rle.decode(touching, (3, 3), order="rows").sum() == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3", "3 numbers, so the last start has no length"),
        ("5", "1 number, so"),
        ("0 4", "pair 1 starts at pixel 0; pixels are numbered from 1"),
        ("1 2 9 0", "pair 2 has length 0"),
        ("8 1 2 1", "pair 2 starts at pixel 2, pair 1 at 8: starts must ascend"),
        ("1 5 4 1", "pair 2 starts at pixel 4, pair 1 ends at 5: a pixel is duplicated"),
        ("998 3 1000 1000", "a pixel is duplicated"),
        ("1 1001", "pair 1 ends at pixel 1001, the image has 1000"),
        ("1 x", "'x' is not a whole number"),
        ("1.5 2", "'1.5' is not a whole number"),
        ("-1 2", "'-1' is not a whole number"),
        ("1 ٣", "is not a whole number"),
        ("1 9" + "9" * 30, "a number of more than 18 digits"),
    ],
)
def test_the_message_says_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        rle.parse_pairs(text, pixels=1000)


@pytest.mark.parametrize(
    "text",
    ["", " ", "[", "]", "[]", "[1, 2", "[1,, 2]", "[,1, 2]", "[1, 2,]", "[1 2]", "[1, 2];", ";[1, 2]", "[[1, 2]]", "{}"]
    + [
        "null",
        "[1, 2.0]",
        "[1, 1e1]",
        "[01, 2]",
        "[1, 02]",
        "[-1, 2]",
        "[true, 2]",
        '["1", 2]',
        "[1, 2] [3, 4]",
        "[1, 2]x",
    ],
)
def test_lists_that_are_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        rle.parse_lists(text, pixels=1000)


@pytest.mark.parametrize("text", ["[1,2]", " [ 1 , 2 ] ", "[1,\n2]", "[1, 2];[1, 2]", "[10, 2] ; [1, 2]"])
def test_lists_that_are_json_are_read(text):
    assert rle.parse_lists(text, pixels=1000)[0].area == 2


def test_zeros_before_a_number_do_not_make_it_large():
    runs = rle.parse_pairs("1 " + "0" * 40 + "6 " + "0" * 25 + "8 1", pixels=20)
    assert (runs.starts.tolist(), runs.lengths.tolist()) == ([0, 7], [6, 1])
    with pytest.raises(ValueError, match="pair 1 has length 0"):
        rle.parse_pairs("1 " + "0" * 40, pixels=20)


def test_a_huge_mask_is_refused_before_anything_is_allocated():
    with pytest.raises(ValueError, match="no image has more than"):
        rle.parse_pairs("1 999999999999", pixels=None)
    with pytest.raises(ValueError, match="the image has 100"):
        rle.parse_pairs("1 999999999999", pixels=100)
    with pytest.raises(ValueError, match="the image has 100"):
        rle.decode(rle.parse_pairs("1 9000000000", pixels=None), (10, 10), order="rows")


def test_limits(monkeypatch):
    monkeypatch.setattr(rle, "MAX_RUNS", 2)
    monkeypatch.setattr(rle, "MAX_INSTANCES", 2)
    monkeypatch.setattr(rle, "MAX_CELL_BYTES", 40)
    for text in ("1 1 3 1 5 1", "1 1" + " " * 40):
        with pytest.raises(ValueError, match="the most is"):
            rle.parse_pairs(text, pixels=None)
    for text in ("[1, 1, 3, 1, 5, 1]", "[1, 1]" + " " * 40):
        with pytest.raises(ValueError, match="the most is"):
            rle.parse_lists(text, pixels=None)
    with pytest.raises(ValueError, match="more than 2 instances"):
        rle.parse_lists("[1, 1];[2, 1];[3, 1]", pixels=None)


def test_the_limit_of_instances_holds_for_plain_lists_too():
    text = ";".join(["[1, 1]"] * rle.MAX_INSTANCES)
    assert len(rle.parse_lists(text, pixels=None)) == rle.MAX_INSTANCES
    with pytest.raises(ValueError, match="more than 1,000 instances"):
        rle.parse_lists(text + ";[1, 1]", pixels=None)


def test_a_cell_of_40_mb_takes_little_longer_than_its_numbers():
    count = 3_600_000
    starts = np.arange(10_000_000, 10_000_000 + 3 * count, 3)
    text = " ".join(f"{start} 2" for start in starts.tolist())
    assert len(text) > 39_000_000
    started = time.process_time()
    np.fromstring(text, dtype=np.int64, sep=" ")  # half a second on a quiet machine
    numbers = time.process_time()
    parsed = rle.parse_pairs(text, pixels=None)
    assert time.process_time() - numbers < 4 * (numbers - started)
    assert parsed.area == 2 * count
