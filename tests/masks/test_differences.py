"""Why two masks differ: every wrong pixel in exactly one difference, and the kinds people mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from handlens.masks.differences import differences
from handlens.masks.metrics import compare
from handlens.masks.rle import encode
from handlens.masks.showing import reasons

WORDS = dict.fromkeys(("missed", "mostly missed", "extra", "mostly extra", "merged", "split", "extent"), "x")


def runs(*rows):
    return encode(np.array([[letter == "#" for letter in row] for row in rows]), order="rows")


@pytest.mark.parametrize(
    ("said", "there", "kinds"),
    [
        (["....", "...."], ["##..", "##.."], {"missed": 4}),
        (["##..", "##.."], ["....", "...."], {"extra": 4}),
        (["###.", "###."], ["##..", "##.."], {"extent": 2}),
        (["#####"], ["##.##"], {"merged": 1}),
        (["##.##"], ["#####"], {"split": 1}),
        (["##..#"], ["##..."], {"extra": 1}),
        (["##"], ["##"], {}),
        (["#...#"], ["#####"], {"missed": 3}),
        (["#####"], ["#...#"], {"extra": 3}),
        (["#...."], ["#####"], {"missed": 4}),
    ],
)
def test_kinds_of_errors(said, there, kinds):
    found = differences(runs(*said), runs(*there), (len(said), len(said[0])))
    sums = {}
    for each in found:
        sums[each.kind] = sums.get(each.kind, 0) + each.pixels
    assert sums == kinds


def test_a_piece_that_was_found_in_part_is_not_said_to_be_unseen():
    found = reasons(runs("#...#"), runs("#####"), (1, 5), 0.25, {**WORDS, "mostly missed": "most of it was missed"})
    assert [(each.kind, each.text) for each in found] == [("missed", "most of it was missed, 3 pixels")]


@given(st.data())
def test_every_wrong_pixel_belongs_to_one_difference(data):
    shape = data.draw(array_shapes(min_dims=2, max_dims=2, max_side=9))
    said, there = (encode(data.draw(arrays(bool, shape)), order="rows") for _ in range(2))
    counts = compare(said, there)
    found = differences(said, there, shape)
    assert sum(each.pixels for each in found) == counts.fp + counts.fn
    assert all(0 <= box[0] < box[2] <= shape[0] and 0 <= box[1] < box[3] <= shape[1] for box in (e.box for e in found))
    lost = sum(reason.lost for reason in reasons(said, there, shape, 0.25, WORDS))
    assert lost == pytest.approx(0.25 if found else 0)
