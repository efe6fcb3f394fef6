"""Many alignments at once say what each alone says."""

import cv2
import numpy as np
import pytest
from detector_pictures import canvas_of, centre, moved, paste, points_of, similarity, texture

from handlens.challenges.forgery.detect.geometry.alignment import align, align_many

SHAPE = (260, 400)
CASES = [
    ((60, 60), (200, 60), 30, 1.0, False),
    ((60, 180), (200, 180), -75, 1.1, True),
    ((330, 60), (330, 180), 160, 0.9, False),
]
"""Middles of source and copy as x, y; turn, scale, mirror."""


@pytest.fixture(scope="module")
def forged():
    """A canvas with three copies, their sources and true transforms."""
    picture, masks, matrices = texture(7, SHAPE, blur=2), [], []
    for source, target, turn, scale, mirror in CASES:
        mask = cv2.circle(np.zeros(SHAPE, np.uint8), source, 24, 1, cv2.FILLED) > 0
        picture, _, matrix = paste(picture, mask, target[::-1], turn, scale, mirror, gain=1.0)
        masks.append(mask)
        matrices.append(matrix)
    return canvas_of(picture), masks, matrices


def roughly(matrix, mask, seed):
    """The same transform, a little wrong."""
    random = np.random.default_rng(seed)
    turn, scale = random.uniform(3, 5) * random.choice([-1, 1]), random.uniform(0.97, 1.03)
    middle = moved(matrix, centre(mask))
    wrong = similarity(turn, scale, around=middle, to=middle + random.uniform(-1, 1, 2))
    return np.column_stack([wrong[:, :2] @ matrix[:, :2], moved(wrong, matrix[:, 2])])


@pytest.mark.parametrize("seed", range(3))
def test_each_finds_its_own_transform(forged, seed):
    canvas, masks, matrices = forged
    starts = [roughly(matrix, mask, seed) for matrix, mask in zip(matrices, masks, strict=True)]
    regions = [points_of(mask) for mask in masks]
    found, values = align_many(canvas, regions, starts)
    assert values.min() > 0.95
    for together, true, points, start, mask in zip(found, matrices, regions, starts, masks, strict=True):
        alone, _ = align(canvas, points, start)
        for reach in ((0, 0), (20, 0), (0, -20)):
            place = np.add(centre(mask), reach)
            assert moved(together, place) == pytest.approx(moved(true, place), abs=0.5)
            assert moved(together, place) == pytest.approx(moved(alone, place), abs=0.5)


def test_company_changes_nothing(forged):
    canvas, masks, matrices = forged
    regions = [points_of(mask) for mask in masks]
    together, values = align_many(canvas, regions, matrices)
    for number, points in enumerate(regions):
        (alone,), (value,) = align_many(canvas, [points], [matrices[number]])
        assert alone == pytest.approx(together[number], abs=1e-3)
        assert value == pytest.approx(values[number], abs=1e-3)


def test_many_more_than_one_call_can_take(forged):
    canvas, masks, matrices = forged
    points = points_of(masks[0])
    found, values = align_many(canvas, [points] * 500, [matrices[0]] * 500)
    assert len(found) == len(values) == 500
    assert np.ptp(values) < 1e-5


def test_what_is_no_copy_stays_unlike(forged):
    canvas, masks, _ = forged
    _, (value,) = align_many(canvas, [points_of(masks[0])], [similarity(around=(60, 60), to=(130, 120))])
    assert value < 0.7


def test_nothing_to_align_is_fine(forged):
    found, values = align_many(forged[0], [], [])
    assert found == []
    assert len(values) == 0


@pytest.mark.parametrize("place", [(-500, 900), (2, 2), (398, 258)])
def test_copies_at_and_beyond_the_border_give_sane_numbers(forged, place):
    canvas, masks, _ = forged
    (matrix,), (value,) = align_many(canvas, [points_of(masks[0])], [similarity(around=(60, 60), to=place)])
    assert np.isfinite(matrix).all()
    assert -1.001 <= value <= 1.001


def test_a_flat_region_is_like_nothing():
    picture = texture(1, SHAPE)
    picture[20:80, 20:80] = 128
    mask = np.zeros(SHAPE, bool)
    mask[30:70, 30:70] = True
    _, (value,) = align_many(canvas_of(picture), [points_of(mask)], [similarity(around=(50, 50), to=(200, 100))])
    assert abs(value) < 0.3
