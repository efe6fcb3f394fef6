"""Blots: a lane that stands there twice is found by its noise; honest lanes, however alike, are not."""

import cv2
import numpy as np
import pytest
from detector_pictures import canvas_of, f1, nuclei, painted

from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.geometry.points import interior
from handlens.challenges.forgery.detect.tiers.blots import BlotFinder
from handlens.challenges.forgery.detect.verifier.evidence import measure

SHAPE = (220, 420)
LANES = range(30, 400, 45)


def blot(seed=0, noise=4.0):
    """Bands of one shape in nine lanes, two rows of them, on a grainy membrane: only the noise differs."""
    picture = np.full(SHAPE, 200.0, np.float32)
    for row in (60, 150):
        for column in LANES:
            cv2.ellipse(picture, (column, row), (14, 5), 0, 0, 360, 60.0, cv2.FILLED)
    picture = cv2.GaussianBlur(picture, (0, 0), 2)
    grain = np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)
    return picture + noise * cv2.GaussianBlur(grain, (0, 0), 0.7) * 2


def lane(column, top=40, bottom=82, width=36):
    return slice(top, bottom), slice(column - width // 2, column + width // 2)


def with_copy(picture, source, target, flip):
    forged, mask = picture.copy(), np.zeros(SHAPE, bool)
    forged[target] = flip(picture[source])
    mask[source] = mask[target] = True
    return forged, mask


def find(picture, seconds=60.0, tier=None):
    return (tier or BlotFinder()).find(canvas_of(picture), Clock(seconds))


FLIPS = {
    "moved": lambda part: part,
    "left and right": lambda part: part[:, ::-1],
    "upside down": lambda part: part[::-1],
    "turned": lambda part: part[::-1, ::-1],
}


@pytest.mark.parametrize("how", FLIPS)
def test_a_lane_pasted_over_another_is_found(how):
    forged, mask = with_copy(blot(), lane(LANES[1]), lane(LANES[6], 130, 172), FLIPS[how])
    matches = find(forged)
    best = max(f1(painted(match.source, SHAPE) | painted(match.copy, SHAPE), mask) for match in matches)
    assert best > 0.85
    assert {match.tier for match in matches} == {"blots"}


def noisiest(picture):
    """How alike the noise of the best match is."""
    canvas = canvas_of(picture)
    found = BlotFinder().find(canvas, Clock(60.0))
    return max(
        (
            measure(canvas, interior(match.source), match.matrix)["residual_noise"]
            for match in found
            if match.source.area > 300
        ),
        default=0.0,
    )


def test_the_noise_proves_it_not_the_bands():
    forged, _ = with_copy(blot(), lane(LANES[1]), lane(LANES[6], 130, 172), FLIPS["moved"])
    assert noisiest(forged) > 0.9
    assert noisiest(blot()) < 0.7  # all bands have the very same shape


def test_another_brightness_hides_nothing():
    forged, mask = with_copy(blot(), lane(LANES[1]), lane(LANES[6]), lambda part: 0.8 * part + 30)
    assert max(f1(painted(each.source, SHAPE) | painted(each.copy, SHAPE), mask) for each in find(forged)) > 0.65


def test_only_panels_with_bands_are_looked_at():
    canvas = canvas_of(nuclei()[0])
    assert not BlotFinder()._blots(canvas).any()
    there = BlotFinder()._blots(canvas_of(blot()))
    assert there[60, list(LANES)].all()
    assert not there[105].any()  # bare membrane between two rows of bands


@pytest.mark.parametrize("picture", [np.zeros((5, 5)), np.full((90, 90), 50), np.zeros((1, 900)), np.zeros((900, 1))])
def test_odd_pictures_have_none(picture):
    assert find(picture) == []


def test_bands_with_no_room_for_a_square_of_the_grid_have_none():
    tier = BlotFinder()
    texture, free = np.zeros((60, 60), np.float32), np.zeros((60, 60), bool)
    free[7 : 7 + tier.side, 7 : 7 + tier.side] = True  # one square alone, beside the grid
    assert 7 % tier.stride
    assert list(tier._alike(texture, free, Clock(60.0))) == []
    assert list(tier._alike(texture, np.zeros_like(free), Clock(60.0))) == []


def test_without_time_nothing_is_found_and_said_so():
    clock = Clock(0.0)
    assert BlotFinder().find(canvas_of(blot()), clock) == []
    assert clock.cut == ["blots"]
