"""Objects: each nucleus is cut out once as it is, ink and noise are none, a turn is a shift of the polar picture."""

import cv2
import numpy as np
import pytest
from detector_pictures import as_patch, canvas_of, f1, nuclei, painted, texture

from handlens.challenges.forgery.detect.tiers.blob_detection import ANGLES, RINGS, BlobDetection, is_cut, polar, raised

SHAPE = (300, 300)


def best(blobs, mask):
    return max((f1(painted(blob.patch, SHAPE), mask) for blob in blobs), default=0)


@pytest.mark.parametrize("bright_ground", [False, True])
def test_every_nucleus_is_cut_out(bright_ground):
    picture, masks = nuclei()
    blobs = BlobDetection().find(canvas_of(255 - picture if bright_ground else picture))
    assert min(best(blobs, mask) for mask in masks) > 0.85


@pytest.mark.parametrize(("radius", "kept"), [(24, True), (45, False)])
def test_in_a_small_panel_an_object_may_be_a_large_part_of_it(radius, kept):
    mask = cv2.circle(np.zeros((120, 160), np.uint8), (70, 60), radius, 1, cv2.FILLED) > 0
    picture = cv2.GaussianBlur(mask * np.float32(150), (0, 0), 1) + texture(1, (120, 160), contrast=5, level=20)
    found = [f1(painted(blob.patch, mask.shape), mask) > 0.85 for blob in BlobDetection().find(canvas_of(picture))]
    assert any(found) == kept


def test_two_that_touch_are_parted():
    masks = [cv2.circle(np.zeros(SHAPE, np.uint8), (x, 100), 16, 1, cv2.FILLED) > 0 for x in (100, 132)]
    picture = cv2.GaussianBlur(np.any(masks, axis=0) * np.float32(150), (0, 0), 1) + texture(
        1, SHAPE, contrast=5, level=20
    )
    blobs = BlobDetection().find(canvas_of(picture))
    assert min(best(blobs, mask) for mask in masks) > 0.85


def test_no_object_comes_twice():
    blobs = BlobDetection().find(canvas_of(nuclei()[0]))
    for number, blob in enumerate(blobs):
        for other in blobs[:number]:
            assert f1(painted(blob.patch, SHAPE), painted(other.patch, SHAPE)) < 0.97


def test_objects_know_where_they_are():
    for blob in BlobDetection().find(canvas_of(nuclei()[0])):
        assert (blob.x, blob.y) == pytest.approx(blob.patch.centre)
        assert blob.area == blob.patch.area
        assert np.pi * blob.radius**2 == pytest.approx(blob.area)


def test_the_largest_come_first_and_not_too_many():
    areas = [blob.area for blob in BlobDetection(most=5).find(canvas_of(nuclei()[0]))]
    assert len(areas) == 5
    assert areas == sorted(areas, reverse=True)


def test_blocked_objects_are_left_out():
    picture, masks = nuclei()
    canvas = canvas_of(picture)
    canvas.blocked[as_patch(masks[3]).window] = True
    assert best(BlobDetection().find(canvas), masks[3]) < 0.3
    assert best(BlobDetection().find(canvas), masks[4]) > 0.85


@pytest.mark.parametrize("level", [0, 128, 255])
def test_a_flat_picture_has_no_objects(level):
    assert BlobDetection().find(canvas_of(np.full((80, 90), level))) == []


def test_objects_are_raised_whichever_way_the_panel_is():
    picture, masks = nuclei()
    inside = np.any(masks, axis=0)
    for each in (picture, 255 - picture):
        grey = raised(canvas_of(each), 1).astype(float)
        assert grey[inside].mean() > 2 * grey[~inside].mean()


# --- polar pictures -------------------------------------------------------------------------------------------------


def polar_of(picture, x=150, y=150, radius=40):
    (found,) = polar(picture, *(np.array([number], np.float32) for number in (x, y, radius)))
    return found


@pytest.mark.parametrize("steps", [1, 5, 17])
def test_a_turn_is_a_shift(steps):
    picture = texture(2, SHAPE, blur=5)
    matrix = cv2.getRotationMatrix2D((150, 150), -steps * 360 / ANGLES, 1)  # clockwise, as rows grow downwards
    turned = cv2.warpAffine(picture, matrix, SHAPE)
    plain = polar_of(picture)
    assert plain.shape == (ANGLES, RINGS)
    expected = np.roll(plain, steps, axis=0)
    assert np.corrcoef(polar_of(turned).ravel(), expected.ravel())[0, 1] > 0.98


def test_a_mirror_turns_the_angles_round():
    picture = texture(2, (301, 301), blur=5)
    expected = polar_of(picture)[-np.arange(ANGLES)]
    assert np.corrcoef(polar_of(picture[::-1].copy()).ravel(), expected.ravel())[0, 1] > 0.999


def test_what_is_alike_all_around_says_nothing():
    rows, columns = np.indices(SHAPE)
    rings = (100 + 50 * np.sin(np.hypot(rows - 150, columns - 150) / 6)).astype(np.float32)
    assert np.abs(polar_of(rings)).max() < 5


def test_many_places_at_once():
    picture = texture(1, SHAPE)
    x = np.linspace(20, 280, 3000).astype(np.float32)
    found = polar(picture, x, x[::-1].copy(), np.full(3000, 9, np.float32))
    assert found.shape == (3000, ANGLES, RINGS)
    assert found[2999] == pytest.approx(polar_of(picture, 280, 20, 9), abs=1e-3)


@pytest.mark.parametrize("across", [False, True], ids=["along a column", "along a row"])
def test_half_an_object_at_a_seam_is_cut(across):
    """Two dark panels that touch: nothing but the object tells where one ends."""
    picture = cv2.GaussianBlur(np.where(cv2.circle(np.zeros((120, 120)), (60, 60), 12, 1, -1), 200.0, 8.0), (0, 0), 1.5)
    half = picture.copy()
    half[:, 62:] = 8
    if across:
        picture, half = picture.T, half.T
    region = as_patch(picture > 60)
    assert not is_cut(picture.astype(np.float32), region)
    assert is_cut(half.astype(np.float32), as_patch(half > 60))


@pytest.mark.parametrize("seed", range(3))
def test_whole_nuclei_are_not_cut(seed):
    picture, masks = nuclei(seed)
    assert not any(is_cut(picture, as_patch(mask)) for mask in masks)


def test_an_object_in_the_corner_can_be_asked_about():
    picture = np.zeros((20, 20), np.float32)
    picture[:9, :9] = 100
    assert is_cut(picture, as_patch(picture > 50))
