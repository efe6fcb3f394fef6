"""Bands of gels: a ladder that was run twice is honest, a lane that was pasted is not."""

import numpy as np

from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.canvas.bands import look_for_bands
from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.challenges.forgery.detect.verifier.bands import without_bands
from handlens.challenges.forgery.forger.gels import paint_gel
from handlens.challenges.forgery.forger.textures import paint_nuclei

HIGH, WIDE = 60, 24


def gel(seed=9):
    painted = paint_gel((240, 300), np.random.default_rng(seed), np.random.default_rng(seed + 1))
    return np.rint(painted.picture).astype(np.uint8), painted.lanes


def canvas_of(picture):
    return Detector().prepare(picture)


def match(first, second):
    """The upright pair of two rectangles, given by their upper left corners as row, column."""
    mask = np.ones((HIGH, WIDE), np.bool_)
    move = np.array([[1.0, 0, second[1] - first[1]], [0, 1.0, second[0] - first[0]]])
    return Match(Patch(*first, mask), Patch(*second, mask), move, "objects")


def test_two_honest_lanes_are_dropped_and_a_pasted_one_is_kept():
    picture, lanes = gel()
    step = 300 // lanes
    honest = match((100, step), (100, 2 * step))
    forged = picture.copy()
    forged[100 : 100 + HIGH, 2 * step : 2 * step + WIDE] = picture[100 : 100 + HIGH, step : step + WIDE]
    assert look_for_bands(canvas_of(picture), canvas_of(picture).panels[0])
    assert without_bands(canvas_of(picture), [honest]) == []
    assert without_bands(canvas_of(forged), [honest]) == [honest]


def test_lanes_that_were_turned_are_not_asked():
    picture, _ = gel()
    turned = Match(
        *(Patch(100, left, np.ones((40, 40), np.bool_)) for left in (20, 120)),
        np.array([[0, -1, 260.0], [1, 0, 80]]),
        "objects",
    )
    assert without_bands(canvas_of(picture), [turned]) == [turned]


def test_pictures_without_bands_keep_their_matches():
    painted = paint_nuclei((240, 300), np.random.default_rng(1), np.random.default_rng(2))
    canvas = canvas_of(np.rint(painted.picture).astype(np.uint8))
    pair = match((20, 30), (120, 140))
    assert without_bands(canvas, [pair]) == [pair]
    assert without_bands(canvas, []) == []
