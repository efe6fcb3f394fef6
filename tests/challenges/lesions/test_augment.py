"""Photographs in memory: as small as needed, changed as a camera might, fed as the contest feeds them."""

import time

import numpy as np
import pytest

from handlens.challenges.lesions.augment import cut, grey_gains, read_photographs
from handlens.challenges.lesions.contract import image_input, resized_input
from handlens.challenges.lesions.options import PhotoAugmentation
from handlens.io.images import write_png
from handlens.types import Case

STILL = PhotoAugmentation(
    max_scale=1,
    min_scale=1,
    stretch=0,
    shift=0,
    brightness=0,
    colour=0,
    constancy_share=0,
    shading=0,
    vignette_share=0,
    hair_share=0,
    blur_share=0,
    coarse_share=0,
    jpeg_share=0,
)


def case_of(path, picture):
    write_png(path, picture)
    return Case(path.name, path)


def test_large_photographs_are_reduced_and_small_ones_stay(tmp_path):
    rng = np.random.default_rng(0)
    small, large, wide = (rng.integers(0, 256, (*shape, 3), np.uint8) for shape in ((30, 40), (300, 200), (20, 300)))
    cases = [case_of(tmp_path / f"{n}.png", picture) for n, picture in enumerate((small, large, wide))]
    found = read_photographs(cases, 64)
    assert np.array_equal(found[0], small)
    assert [picture.shape for picture in found[1:]] == [(74, 74, 3), (20, 74, 3)]


def test_a_photograph_is_fed_as_the_judge_feeds_it(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)
    case = case_of(tmp_path / "a.png", picture)
    assert np.array_equal(resized_input(picture, top=1.0), image_input(case.path, top=1.0))


def test_without_changes_the_whole_photograph_is_seen_turned():
    picture = np.zeros((60, 80, 3), np.uint8)
    picture[20:40, 30:50] = (200, 100, 50)
    for seed in range(5):
        seen = cut(np.random.default_rng(seed), picture, 64, STILL)
        assert seen.shape == (64, 64, 3)
        assert seen[32, 32].tolist() == [200, 100, 50]
        assert seen[:, :, 0].mean() == pytest.approx(picture[:, :, 0].mean(), rel=0.1)


def test_a_crop_has_the_scale_of_the_whole():
    picture = np.zeros((64, 64, 3), np.uint8)
    picture[16:48, 16:48] = 200
    whole, crop = (cut(np.random.default_rng(3), picture, 64, STILL, crop=side) for side in (0, 32))
    assert crop.shape == (32, 32, 3)
    assert np.array_equal(crop, whole[16:48, 16:48])


@pytest.mark.parametrize(
    "name", ["constancy_share", "vignette_share", "hair_share", "blur_share", "coarse_share", "jpeg_share"]
)
def test_each_change_changes_only_what_it_should(name):
    picture = np.random.default_rng(0).integers(90, 110, (64, 64, 3), np.uint8)
    picture[:, :, 2] //= 2
    plain, changed = (cut(np.random.default_rng(3), picture, 160, STILL.replace(**{name: share})) for share in (0, 1))
    assert changed.shape == plain.shape
    assert not np.array_equal(plain, changed)


def test_shades_of_grey_make_a_coloured_light_white():
    rng = np.random.default_rng(0)
    skin = rng.integers(60, 120, (64, 64, 1)) * np.array([1.0, 0.8, 0.6])
    gains = grey_gains(skin.astype(np.uint8))
    assert gains / gains[0] == pytest.approx([1, 1 / 0.8, 1 / 0.6], rel=0.03)


def test_changes_follow_from_the_generator_and_differ():
    picture = np.random.default_rng(0).integers(0, 256, (180, 240, 3), np.uint8)
    first, again, other = (cut(np.random.default_rng(seed), picture, 96, PhotoAugmentation()) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_larger_photograph_does_not_take_longer():
    """Only the pixels that are seen are looked at: 90 times as many cost about as much."""
    rng = np.random.default_rng(0)
    small, large = (rng.integers(0, 256, (*shape, 3), np.uint8) for shape in ((180, 240), (1800, 2160)))

    def fastest(picture):
        times = []
        for seed in range(12):
            begun = time.process_time()
            cut(np.random.default_rng(seed), picture, 224, PhotoAugmentation(blur_share=0))
            times.append(time.process_time() - begun)
        return min(times)

    fastest(small)
    assert fastest(large) < 15 * fastest(small)
