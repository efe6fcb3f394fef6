"""Drawn content is told from photographs square by square, wherever it stands; pictures keep their pixels."""

import cv2
import numpy as np
import pytest

from handlens.challenges.forgery.detect.canvas.drawn import NAMES, find_drawn, included, measure_squares
from handlens.challenges.forgery.detect.findings import Panel
from handlens.challenges.forgery.forger.gels import paint_gel
from handlens.challenges.forgery.forger.marks import blank, printed, stamp, words
from handlens.challenges.forgery.forger.textures import PAINTERS

SHAPE = (240, 320)


def table(shape=SHAPE):
    """Words in rows and columns with rules between them, on a shaded ground, so that no panel splitter calls it a plot."""
    picture, overlay = np.full((*shape, 3), 205, np.uint8), blank(shape)
    for row in range(6, shape[0] - 14, 24):
        cv2.line(picture, (0, row - 4), (shape[1] - 1, row - 4), (60, 60, 60), 1)
        for number, column in enumerate(range(6, shape[1] - 50, 60)):
            stamp(overlay, words(("mean", "n = 12", "p53", "0.031")[number % 4], height=13), (row, column), (0, 0, 0))
    return printed(picture, overlay)


def painted(kind, seed=3):
    paint = paint_gel if kind == "gel" else PAINTERS[kind]
    drawn = paint(SHAPE, np.random.default_rng(seed), np.random.default_rng(seed + 1))
    return np.rint(drawn.picture).astype(np.uint8)


def packed(picture, quality=80):
    return cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)


def drawn_in(picture):
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return find_drawn(grey, picture, (Panel(0, 0, *grey.shape, "picture"),))


@pytest.mark.parametrize("change", [lambda each: each, packed, lambda each: packed(each, 60)])
def test_a_table_is_drawn(change):
    assert drawn_in(change(table())).mean() > 0.9


@pytest.mark.parametrize("kind", [*PAINTERS, "gel"])
@pytest.mark.parametrize("change", [lambda each: each, packed])
def test_pictures_are_not(kind, change):
    assert drawn_in(change(painted(kind))).mean() < 0.02


def test_a_table_beside_a_picture_without_a_gutter():
    both = packed(np.concatenate([painted("tissue"), table()], axis=1), 90)
    found = drawn_in(both)
    assert found[:, : SHAPE[1] - 40].mean() < 0.05
    assert found[:, SHAPE[1] + 40 :].mean() > 0.9


def test_only_pictures_are_looked_at_and_small_ones_are_left_alone():
    picture = table()
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    assert not find_drawn(grey, picture, (Panel(0, 0, *SHAPE, "plot"),)).any()
    assert not find_drawn(grey, picture, (Panel(0, 0, 20, 20, "picture"),)).any()


def test_squares_have_every_feature_and_thresholds_are_in_order():
    squares = measure_squares(cv2.cvtColor(table(), cv2.COLOR_RGB2GRAY), table())
    assert squares.shape == (30, 40, len(NAMES))
    assert (squares >= 0).all()
    assert included().possible < included().sure
    assert included().layers[0][0].shape[0] == len(NAMES)


def test_a_grey_picture_of_sixteen_bits_has_drawn_parts_too():
    grey = cv2.cvtColor(table(), cv2.COLOR_RGB2GRAY)
    found = find_drawn(grey.astype(np.float32), grey.astype(np.uint16) * 257, (Panel(0, 0, *SHAPE, "picture"),))
    assert found.mean() > 0.9
