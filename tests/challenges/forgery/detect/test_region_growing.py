"""Region growing: a copied region is grown to its whole shape and not beyond, repeated texture is refused."""

import cv2
import numpy as np
import pytest
from detector_pictures import box, canvas_of, f1, moved, painted, paste, similarity, texture
from hypothesis import given
from hypothesis import strategies as st

from handlens.challenges.forgery.detect.geometry.correlation import fit_tone, local_correlation
from handlens.challenges.forgery.detect.geometry.region_growing import (
    RegionGrowing,
    clean,
    parts_holding,
    surroundings,
)

SHAPE = (260, 400)


def ellipse(middle=(100, 120)):
    return cv2.ellipse(np.zeros(SHAPE, np.uint8), middle, (60, 42), 15, 0, 360, 1, cv2.FILLED) > 0


def grown(picture, matrix, seeds):
    places = np.rint([moved(matrix, seed) for seed in seeds]).astype(np.int64)
    return RegionGrowing().grow(canvas_of(picture), matrix, places)


SEEDS = [(100, 120), (90, 110), (115, 125)]


@pytest.mark.parametrize(("turn", "mirror"), [(0, False), (70, False), (160, True)])
def test_the_whole_region_is_found_from_a_few_places(turn, mirror):
    forged, copy, matrix = paste(texture(4, SHAPE), ellipse(), (130, 290), turn, 1.0, mirror, gain=1.0)
    source, found, _ = grown(forged, matrix, SEEDS)
    assert f1(painted(found, SHAPE), copy) > 0.9
    assert f1(painted(source, SHAPE), ellipse()) > 0.9


def test_a_rough_transform_is_made_exact():
    forged, _, matrix = paste(texture(4, SHAPE), ellipse(), (130, 290), 30, 1.0, False, gain=1.0)
    rough = matrix + np.array([[0, 0, 0.8], [0, 0, -0.7]])
    _, _, exact = grown(forged, rough, SEEDS)
    assert np.abs(np.subtract(moved(exact, SEEDS[0]), moved(matrix, SEEDS[0]))).max() < 0.15


def test_bare_ground_that_was_copied_belongs_to_the_region():
    picture = 40 + np.random.default_rng(3).normal(0, 3, SHAPE)  # only noise, but for one object
    inner = cv2.circle(np.zeros(SHAPE, np.uint8), (100, 120), 12, 1, cv2.FILLED) > 0
    picture[inner] = texture(4, SHAPE, contrast=60)[inner]
    forged, copy, matrix = paste(picture, ellipse(), (130, 290), gain=1.0)
    source, found, _ = grown(forged, matrix, [(100, 120), (95, 118), (104, 125)])
    assert f1(painted(source, SHAPE) | painted(found, SHAPE), ellipse() | copy) > 0.85
    honest, copy, _ = paste(picture, inner, (130, 290), gain=1.0)  # here the object alone was copied
    source, found, _ = grown(honest, matrix, [(100, 120), (95, 118), (104, 125)])
    assert f1(painted(found, SHAPE), copy) > 0.95  # its own grain says nothing about the ground around it


def test_an_arrow_on_the_copy_is_no_hole_in_its_region():
    forged, copy, matrix = paste(texture(4, SHAPE), ellipse(), (130, 290), gain=1.0)
    canvas = canvas_of(forged)
    canvas.blocked[120:140, 280:300] = True
    places = np.rint([moved(matrix, seed) for seed in [(70, 110), (130, 130), (100, 95)]]).astype(np.int64)
    _, found, _ = RegionGrowing().grow(canvas, matrix, places)
    assert painted(found, SHAPE)[120:140, 280:300].all()
    assert f1(painted(found, SHAPE), copy) > 0.95


def discs(*middles, radius=10):
    found = np.zeros(SHAPE, np.uint8)
    for middle in middles:
        cv2.circle(found, middle, radius, 1, cv2.FILLED)
    return found > 0


def test_ground_between_several_objects_that_agree_belongs_to_them():
    agreed, other = discs((80, 80), (110, 80), (95, 105)), discs((150, 80), (40, 80))
    whole = surroundings(agreed, other, np.array([[80, 80]]))
    assert whole[agreed].all()
    assert whole[85, 95]  # in the middle of the three, where nothing can be seen
    assert not whole[other].any()
    assert not whole[80, 133]  # nearer to what is other
    assert not whole[180, 95]  # far from everything
    assert surroundings(discs((80, 80), (110, 80)), other, np.array([[80, 80]])) is None
    assert surroundings(agreed, other, np.array([[300, 200]])) is None


def test_nuclei_copied_with_the_dark_ground_between_them_are_one_region_under_later_noise():
    random = np.random.default_rng(1)
    picture = np.full(SHAPE, 20.0)
    for column in range(20, 400, 34):
        for row in range(20, 260, 34):
            own = discs((column + int(random.integers(-5, 6)), row + int(random.integers(-5, 6))), radius=9)
            picture[own] = texture(column * 1000 + row, SHAPE, contrast=30, level=int(random.integers(90, 190)))[own]
    forged, copy, matrix = paste(picture, ellipse(), (130, 290), 90, gain=1.0)
    noisy = forged + random.normal(0, 3, SHAPE)  # no grain of the ground is left
    source, found, _ = grown(noisy, matrix, [(x, y) for x in range(70, 131, 6) for y in range(100, 141, 6)])
    assert f1(painted(found, SHAPE), copy) > 0.85
    assert f1(painted(source, SHAPE), ellipse()) > 0.85


def test_a_wrong_transform_grows_nothing():
    forged, _, matrix = paste(texture(4, SHAPE), ellipse(), (130, 290), gain=1.0)
    assert grown(forged, matrix + np.array([[0, 0, 9.0], [0, 0, 0]]), SEEDS) is None


def test_places_elsewhere_grow_nothing():
    forged, _, matrix = paste(texture(4, SHAPE), ellipse(), (130, 290), gain=1.0)
    assert grown(forged, matrix, [(20, 20)]) is None
    assert grown(forged, matrix, [(-900, 5000)]) is None


def test_a_texture_that_repeats_is_no_copy():
    rows, columns = np.indices(SHAPE)
    stripes = 128 + 60 * np.sin(columns / 4) * np.sin(rows / 4)
    step = 2 * np.pi * 4
    assert grown(stripes, similarity(to=(step, 0)), [(100, 100), (120, 120)]) is None


def test_flat_ground_is_no_copy():
    picture = texture(1, SHAPE)
    picture[:, 100:] = 90
    assert grown(picture, similarity(to=(120, 0)), [(150, 100), (160, 120)]) is None


def test_correlation_is_local():
    one = texture(1, (80, 120))
    other = texture(2, (80, 120))
    other[:, :60] = 200 - 0.5 * one[:, :60]
    other[:, 100:] = 50
    found = local_correlation(one, other, 9)
    assert found[:, 5:50].max() < -0.95
    assert abs(found[:, 68:92].mean()) < 0.25
    assert not found[:, 108:].any()


def test_specks_go_and_gaps_close():
    agreed = np.zeros((60, 60), bool)
    agreed[10:40, 10:40] = True
    agreed[25, 25] = False
    agreed[50, 50] = True
    found = clean(agreed, 9)
    assert found[25, 25]
    assert not found[50, 50]


def test_only_parts_with_a_place_are_kept_without_holes():
    agreed = np.zeros((60, 60), bool)
    agreed[5:20, 5:20] = agreed[40:50, 40:50] = True
    agreed[10:12, 10:12] = False
    found = parts_holding(agreed, np.array([[6, 6], [300, -4]]))
    assert found[10, 10]
    assert not found[40:].any()


boxes = st.builds(box, st.integers(0, 20), st.integers(0, 20), st.integers(1, 15), st.integers(1, 15))


@given(boxes, boxes)
def test_overlap_is_the_pixels_of_both(one, other):
    shape = (40, 40)
    assert one.overlap(other) == (painted(one, shape) & painted(other, shape)).sum()
    assert one.overlap(other) == other.overlap(one)


@pytest.mark.parametrize("size", [100, 400_000])
def test_the_tone_of_a_large_region_is_fitted_as_exactly_as_of_a_small_one(size):
    other = np.random.default_rng(0).normal(128, 4, size).astype(np.float32)
    assert fit_tone(2 * other - 100, other) == pytest.approx((2, -100), rel=0.001)
