"""Outlines: a region lands where its transform says, and is cut at the border."""

import numpy as np
import pytest
from detector_pictures import as_patch, box, f1, inverse, moved, nuclei, painted, similarity

from handlens.challenges.forgery.detect.findings import Patch
from handlens.challenges.forgery.detect.geometry.outline import deepest, solidity, trimmed, warp_patch

SHAPE = (300, 300)


def test_a_plain_move_keeps_every_pixel():
    patch = as_patch(nuclei()[1][0])
    found = warp_patch(patch, similarity(around=(0, 0), to=(31, 17)), SHAPE)
    assert (found.top, found.left) == (patch.top + 17, patch.left + 31)
    assert np.array_equal(found.mask, patch.mask)


@pytest.mark.parametrize("turn", range(0, 360, 90))
@pytest.mark.parametrize("mirror", [False, True])
def test_quarter_turns_keep_every_pixel(turn, mirror):
    patch = as_patch(nuclei()[1][0])
    found = warp_patch(patch, similarity(turn, 1, mirror, around=(50, 50), to=(150, 150)), SHAPE)
    expected = np.rot90(patch.mask[:, ::-1] if mirror else patch.mask, -turn // 90)
    assert np.array_equal(found.mask, expected)


@pytest.mark.parametrize(("turn", "scale"), [(30, 1.0), (-100, 1.3), (10, 0.7)])
def test_there_and_back_is_where_it_was(turn, scale):
    patch = as_patch(nuclei()[1][4])
    matrix = similarity(turn, scale, True, around=patch.centre, to=(140, 170))
    there = warp_patch(patch, matrix, SHAPE)
    assert there.centre == pytest.approx(moved(matrix, patch.centre), abs=0.5)
    assert there.area == pytest.approx(scale**2 * patch.area, rel=0.05)
    back = warp_patch(there, inverse(matrix), SHAPE)
    assert f1(painted(back, SHAPE), painted(patch, SHAPE)) > 0.96


def test_the_border_cuts_a_region():
    found = warp_patch(box(10, 10, 20, 20), similarity(to=(280, 0)), SHAPE)
    assert found.area == 10 * 20
    assert painted(found, SHAPE).sum() == found.area


@pytest.mark.parametrize("to", [(400, 0), (-50, 0), (0, 500), (-5000, -5000)])
def test_outside_nothing_is_left(to):
    assert warp_patch(box(10, 10, 20, 20), similarity(to=to), SHAPE) is None


def test_margins_are_trimmed():
    mask = np.zeros((9, 9), bool)
    mask[3:5, 2:8] = True
    patch = trimmed(100, 200, mask)
    assert (patch.top, patch.left, patch.mask.shape) == (103, 202, (2, 6))
    assert patch.mask.all()
    assert trimmed(0, 0, np.zeros((4, 4), bool)) is None


def test_the_deepest_places_of_a_region_lie_in_it_and_apart():
    mask = np.zeros((60, 300), bool)
    mask[5:55, 5:105] = mask[20:40, 190:290] = True
    first, second, *others = deepest(Patch(100, 200, mask), deep=8, side=32, most=9)
    assert abs(first.centre[1] - 130) < 2
    assert all(other.centre[0] - 200 > 60 for other in others)
    places = [first, second, *others]
    assert all(mask[int(y) - 100, int(x) - 200] for x, y in (place.centre for place in places))
    gaps = [max(abs(one.left - two.left), abs(one.top - two.top)) for one in places for two in places if one is not two]
    assert min(gaps) >= 32
    assert deepest(Patch(0, 0, np.ones((9, 90), bool)), deep=8, side=32, most=3) == []


def test_a_region_in_one_piece_fills_its_hull_and_scraps_do_not():
    assert solidity(box(3, 4, 20, 30)) == 1
    assert solidity(box(0, 0, 1, 1)) == 1
    assert solidity(as_patch(nuclei()[1][0])) > 0.95
    scraps = np.zeros((40, 40), bool)
    scraps[::10, ::10] = True
    assert solidity(Patch(0, 0, scraps)) < 0.02
    corner = np.ones((30, 30), bool)
    corner[10:, 10:] = False
    assert solidity(Patch(0, 0, corner)) == pytest.approx(500 / 700, abs=0.01)
    assert solidity(Patch(0, 0, np.zeros((4, 4), bool))) == 0
