"""Copies of single objects: found with their source whatever the turn, and honest look-alikes left alone."""

import cv2
import numpy as np
import pytest

from handlens.challenges.forgery.objects import ObjectMatching
from handlens.images import read_image

PLACES = [(50, 50), (60, 150), (45, 250), (150, 60), (140, 160), (160, 250), (250, 50), (245, 150)]
FREE = (250, 250)
NO_MARKS = np.zeros((300, 300), bool)


def nuclei(seed=0):
    """Nuclei of like shape, each with a grain of its own, on a dark ground; and the mask of each."""
    random = np.random.default_rng(seed)
    picture, masks = random.normal(12, 1.5, (300, 300)).astype(np.float32), []
    for y, x in PLACES:
        grain = cv2.GaussianBlur(random.normal(0, 1, (300, 300)).astype(np.float32), (0, 0), 1.6)
        mask = np.zeros((300, 300), np.uint8)
        cv2.ellipse(mask, (x, y), (22, 16), float(random.uniform(0, 180)), 0, 360, 1, cv2.FILLED)
        soft = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 1)
        picture += soft * (110 + 120 * grain)
        masks.append(mask > 0)
    return np.clip(picture, 0, 255), masks


def paste(picture, mask, turn, scale, mirror):
    """Copy an object to the free place; returns the picture and the mask of the copy."""
    y, x = (places.mean() for places in np.nonzero(mask))
    matrix = cv2.getRotationMatrix2D((x, y), turn, scale)
    if mirror:
        matrix = matrix @ np.array([[-1, 0, 2 * x], [0, 1, 0], [0, 0, 1]])
    matrix[:, 2] += FREE[1] - x, FREE[0] - y
    moved = cv2.warpAffine(picture, matrix, (300, 300), flags=cv2.INTER_LINEAR)
    copy = cv2.warpAffine(mask.astype(np.uint8), matrix, (300, 300)) > 0
    return np.rint(np.where(copy, 0.95 * moved, picture)).astype(np.float32), copy


def f1(said, true):
    return 2 * (said & true).sum() / (said.sum() + true.sum())


@pytest.mark.parametrize("turn", [0, 37, 90, 211])
@pytest.mark.parametrize("scale", [0.85, 1.0, 1.15])
@pytest.mark.parametrize("mirror", [False, True])
def test_a_copied_object_is_found_with_its_source(turn, scale, mirror):
    picture, masks = nuclei()
    forged, copy = paste(picture, masks[4], turn, scale, mirror)
    (found,) = ObjectMatching().find(forged, NO_MARKS)
    assert f1(found, masks[4] | copy) > 0.8


@pytest.mark.parametrize("seed", range(6))
def test_honest_objects_are_left_alone(seed):
    picture, _ = nuclei(seed)
    assert ObjectMatching().find(np.rint(picture), NO_MARKS) == []


def test_what_was_copied_in_one_go_is_one_mask():
    picture, masks = nuclei()
    wide = np.full((300, 620), 12, np.float32)
    wide[:, :300], wide[:, 320:] = picture, picture
    wide += np.random.default_rng(1).normal(0, 0.7, wide.shape).astype(np.float32)
    (found,) = ObjectMatching().find(wide, np.zeros(wide.shape, bool))
    once = np.any(masks, axis=0)
    assert f1(found[:, :300], once) > 0.8
    assert f1(found[:, 320:], once) > 0.8


def test_marks_are_no_objects():
    picture, masks = nuclei()
    forged, copy = paste(picture, masks[4], 0, 1, False)
    assert ObjectMatching().find(forged, copy) == []


@pytest.mark.parametrize(
    "picture", [np.zeros((1, 1)), np.zeros((50, 60)), np.eye(90) * 200], ids=["tiny", "flat", "line"]
)
def test_odd_pictures_have_no_copies(picture):
    assert ObjectMatching().find(picture.astype(np.float32), np.zeros(picture.shape, bool)) == []


def test_real_clean_pictures_are_left_alone(real_data):
    for path in sorted((real_data / "forgery" / "sources" / "microscopy").iterdir())[1::12]:
        picture = read_image(path)
        grey = picture[:, :, :3].mean(axis=2) if picture.ndim == 3 else picture
        assert ObjectMatching().find(grey.astype(np.float32), np.zeros(grey.shape, bool)) == [], path.name
