"""Shifts: bare ground that was laid over something is found by its grain; ground that only looks alike is not."""

import cv2
import numpy as np
import pytest
from detector_pictures import canvas_of, f1, painted

from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.geometry.points import interior
from handlens.challenges.forgery.detect.geometry.turns import TURNS
from handlens.challenges.forgery.detect.tiers.shifts import ShiftFinder
from handlens.challenges.forgery.detect.verifier.evidence import measure

SHAPE = (260, 340)
SOURCE = (slice(30, 78), slice(40, 88))
TARGET = (slice(170, 218), slice(230, 278))


def ground(seed=0):
    """Grain on ground that grows brighter to one side, with a few soft spots, one of them under the target."""
    picture = np.linspace(60, 120, SHAPE[1], dtype=np.float32)[None, :] * np.ones(SHAPE, np.float32)
    for x, y, long, short, angle in ((254, 194, 16, 9, 20), (150, 60, 22, 8, 70), (180, 200, 12, 10, 5)):
        cv2.ellipse(picture, (x, y), (long, short), angle, 0, 360, 190.0, cv2.FILLED)
    grain = np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)
    return cv2.GaussianBlur(picture, (0, 0), 5) + 12 * cv2.GaussianBlur(grain, (0, 0), 0.7)


def covered(how=lambda part: part):
    """The spot under the target covered by bare ground; and both places."""
    forged, mask = ground(), np.zeros(SHAPE, bool)
    forged[TARGET] = how(forged[SOURCE])
    mask[SOURCE] = mask[TARGET] = True
    return forged, mask


def find(picture, seconds=60.0):
    return ShiftFinder().find(canvas_of(picture), Clock(seconds))


def best_f1(matches, mask):
    return max((f1(painted(each.source, SHAPE) | painted(each.copy, SHAPE), mask) for each in matches), default=0.0)


@pytest.mark.parametrize("turn", TURNS)
def test_covered_ground_is_found_however_it_was_laid(turn):
    forged, mask = covered(lambda part: np.rot90(part[:, ::-1] if turn[1] else part, turn[0]))
    matches = find(forged)
    assert best_f1(matches, mask) > 0.8
    assert {match.tier for match in matches} == {"shifts"}


def test_the_transform_brings_the_source_to_the_copy():
    forged, _ = covered()
    best = find(forged)[0]
    down, across = TARGET[0].start - SOURCE[0].start, TARGET[1].start - SOURCE[1].start
    either_way = np.array([[1, 0, across], [0, 1, down]]), np.array([[1, 0, -across], [0, 1, -down]])
    assert any(np.allclose(best.matrix, way, atol=0.1) for way in either_way)


@pytest.mark.parametrize("quality", [98, 95])
def test_it_is_found_after_jpeg_and_in_another_brightness(quality):
    forged, mask = covered(lambda part: 0.9 * part + 12)
    _, packed = cv2.imencode(".jpg", np.clip(forged, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert best_f1(find(cv2.imdecode(packed, cv2.IMREAD_GRAYSCALE).astype(np.float32)), mask) > 0.7


@pytest.mark.parametrize("side", [22, 30])
def test_a_small_patch_in_another_panel_is_found(side):
    forged = np.concatenate([ground(1), np.full((SHAPE[0], 8), 255, np.float32), ground(2)], axis=1)
    forged[200 : 200 + side, 500 : 500 + side] = forged[40 : 40 + side, 50 : 50 + side]
    best = find(forged)[0]
    assert {best.source.window[0].start // 50, best.copy.window[0].start // 50} == {0, 4}
    assert np.allclose(np.abs(best.matrix[:, 2]), [450, 160], atol=0.1)


def test_even_ground_that_jpeg_packed_alike_is_no_copy():
    grain = np.random.default_rng(0).normal(0, 1.2, SHAPE)
    _, packed = cv2.imencode(".jpg", np.clip(120 + grain, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 80])
    assert find(cv2.imdecode(packed, cv2.IMREAD_GRAYSCALE).astype(np.float32)) == []


def test_honest_ground_shares_no_grain():
    for seed in range(3):
        canvas = canvas_of(ground(seed))
        found = ShiftFinder().find(canvas, Clock(60.0))
        assert all(measure(canvas, interior(each.source), each.matrix)["grain"] < 0.5 for each in found)


@pytest.mark.parametrize("picture", [np.zeros((5, 5)), np.full((90, 90), 50), np.zeros((1, 900)), np.zeros((900, 1))])
def test_odd_pictures_have_none(picture):
    assert find(picture) == []


def test_without_time_nothing_is_found_and_said_so():
    clock = Clock(0.0)
    assert ShiftFinder().find(canvas_of(ground()), clock) == []
    assert clock.cut == ["shifts"]
