"""What JPEG leaves: how coarsely a picture was packed, and by how much a copy differs from its source after that."""

import io

import cv2
import numpy as np
import pytest
from detector_pictures import FREE, as_patch, canvas_of, centre, match_of, nuclei, similarity, stored
from PIL import Image

from handlens.challenges.forgery.detect.verifier.compression import block_edges, differences


@pytest.fixture(scope="module")
def honest():
    return nuclei(3)


def packed(picture, quality):
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream))


def edges(picture):
    canvas = canvas_of(picture)
    return block_edges(canvas, canvas.panels[0])


def test_the_coarser_a_picture_was_packed_the_more_it_jumps_between_squares(honest):
    picture = stored(honest[0], noise=2)
    never, fine, coarse = edges(picture), edges(packed(picture, 92)), edges(packed(picture, 75))
    assert never < 0.1 < fine < coarse


def test_squares_are_found_wherever_they_begin_and_not_after_resizing(honest):
    picture = packed(stored(honest[0], noise=2), 80)
    height, width = picture.shape[:2]
    cropped = np.ascontiguousarray(picture[3:, 5:])
    resized = cv2.resize(picture, (round(width * 1.3), round(height * 1.3)), interpolation=cv2.INTER_CUBIC)
    assert edges(cropped) == pytest.approx(edges(picture), rel=0.2)
    assert edges(resized) < 0.3 * edges(picture)


def test_of_a_panel_of_a_few_squares_nothing_is_known():
    dice = np.random.default_rng(0)
    canvas = canvas_of(packed(dice.integers(0, 256, (64, 64)).astype(np.uint8), 50))
    small = type(canvas.panels[0])(0, 0, 24, 64, "picture")
    assert block_edges(canvas, small) == 0


def test_a_packed_copy_still_differs_less_than_an_honest_object(honest):
    picture, masks = honest
    source, there = masks[4], FREE
    down, across = (round(to - at) for to, at in zip(there, centre(source)[::-1], strict=True))
    moved = np.roll(source, (down, across), (0, 1))
    forged = picture.copy()
    forged[moved] = np.roll(picture, (down, across), (0, 1))[moved]
    copy = match_of(as_patch(source), as_patch(moved), similarity(around=centre(source), to=centre(moved)))
    chance = match_of(as_patch(source), as_patch(masks[1]), similarity(around=centre(source), to=centre(masks[1])))
    exact = stored(forged)
    (equal, detail), (other, _) = (differences(canvas_of(exact), each) for each in (copy, chance))
    (near, _), (still_other, _) = (differences(canvas_of(packed(exact, 85)), each) for each in (copy, chance))
    assert equal < 0.1 < near < 0.7 * still_other
    assert detail > 10 * equal
    assert other > 10 * equal


def test_of_a_few_pixels_nothing_is_said(honest):
    picture, masks = honest
    tiny = np.zeros_like(masks[0])
    tiny[10:14, 10:14] = True
    match = match_of(as_patch(tiny), as_patch(masks[1]), similarity(to=(40, 40)))
    assert differences(canvas_of(stored(picture)), match) == (0.0, 0.0)
