"""Letters that can be read: the true map reads all, blobs and shifted strokes do not."""

import cv2
import numpy as np
import pytest

from handlens.challenges.ink.reading import find_letters, read_letters


@pytest.fixture(scope="module")
def text():
    canvas = np.zeros((120, 420), np.uint8)
    for number, letter in enumerate("AEHNT"):
        cv2.putText(canvas, letter, (15 + 80 * number, 95), cv2.FONT_HERSHEY_SIMPLEX, 3, 255, 9)
    return canvas > 0


def test_the_true_map_reads_all_its_letters(text):
    assert len(find_letters(text)) == 5
    assert str(read_letters(text, text)) == "5 of 5 letters read"


def test_blobs_are_not_read_though_they_score(text):
    blobs = cv2.dilate(text.astype(np.uint8), np.ones((45, 45), np.uint8)) > 0
    assert read_letters(blobs, text).read == 0
    assert read_letters(np.ones_like(text), text).read == 0


def test_some_of_them(text):
    half = text.copy()
    half[:, 165:] = False
    assert read_letters(half, text).read == 2
    noisy = text ^ (np.random.default_rng(0).random(text.shape) < 0.05)
    assert read_letters(noisy, text).read == 5


def test_letters_in_each_others_places_are_not_read(text):
    assert read_letters(text[:, ::-1], text).read < 3


def test_specks_are_no_letters_and_nothing_has_none(text):
    speckled = text.copy()
    speckled[2:4, 5:400:5] = True
    assert len(find_letters(speckled)) == 5
    assert str(read_letters(text, np.zeros_like(text))) == "0 of 0 letters read"
