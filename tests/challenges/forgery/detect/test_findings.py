"""Findings: a match reads its turn, size and mirror off its matrix; a group is one mask."""

import numpy as np
import pytest
from detector_pictures import box, match_of, painted, similarity, turn_between
from hypothesis import given
from hypothesis import strategies as st

from handlens.challenges.forgery.detect.findings import Findings, Group, Panel, Patch


@given(st.floats(-179, 179), st.floats(0.5, 2), st.booleans())
def test_a_match_knows_how_its_copy_was_made(turn, scale, mirror):
    match = match_of(box(0, 0, 3, 3), box(9, 9, 3, 3), similarity(turn, scale, mirror, to=(5, 8)))
    assert match.mirrored == mirror
    assert match.scale == pytest.approx(scale)
    assert turn_between(match.turn, turn) < 1e-6


def test_a_quarter_turn_is_clockwise_as_seen():
    upright = match_of(box(0, 0, 1, 1), box(9, 9, 1, 1), [[0, -1, 0], [1, 0, 0]])  # right goes down
    assert upright.turn == pytest.approx(90)


def test_a_patch_lies_where_it_is_painted():
    mask = np.array([[True, False], [True, True]])
    patch = Patch(3, 5, mask)
    whole = painted(patch, (8, 9))
    assert whole.sum() == patch.area == 3
    assert np.array_equal(whole[patch.window], mask)
    rows, columns = np.nonzero(whole)
    assert patch.centre == pytest.approx((columns.mean(), rows.mean()))


def test_painting_keeps_what_is_there():
    canvas = painted(box(0, 0, 4, 4), (6, 6))
    Patch(2, 2, np.zeros((3, 3), bool)).paint(canvas)
    assert canvas.sum() == 16


def test_a_group_is_the_union_of_its_regions():
    one, two, three = box(0, 0, 2, 2), box(4, 4, 2, 3), box(8, 0, 2, 2)
    group = Group((match_of(one, two), match_of(one, three)), 0.9)
    mask = group.mask((12, 12))
    assert mask.sum() == 4 + 6 + 4
    assert list(group.patches()) == [one, two, one, three]


def test_forged_means_that_something_is_in_the_answer():
    doubt = Group((match_of(box(0, 0, 2, 2), box(4, 4, 2, 2)),), 0.3)
    assert not Findings((9, 9), (), (), (doubt,), 0.3).forged
    assert Findings((9, 9), (), (doubt,), (), 0.9).forged


def test_a_panel_knows_its_window_and_shape():
    panel = Panel(2, 3, 10, 20, "picture")
    assert panel.shape == (8, 17)
    assert np.zeros((30, 30))[panel.window].shape == panel.shape
