"""Changed crops: mask and image move together, and the same seed gives the same bytes."""

import cv2
import numpy as np
import pytest

from handlens.challenges.cells.augment import add_artefact, blur_and_noise, cut, edge_weight, jitter_stain
from handlens.challenges.cells.options import StainAugmentation

STILL = StainAugmentation(
    stain_jitter=0,
    background_stain=0,
    hue_jitter=0,
    gamma=0,
    blur_share=0,
    noise_share=0,
    jpeg_share=0,
    artefact_share=0,
)


@pytest.fixture
def slide():
    """Red where the mask is."""
    mask = np.zeros((200, 300), np.uint8)
    for row, column in ((40, 50), (90, 200), (150, 90), (120, 260)):
        cv2.circle(mask, (column, row), 25, 255, -1)
    image = np.full((200, 300, 3), 230, np.uint8)
    image[:, :, 1] = 255 - mask
    return image, mask


def crops(slide, how, count=20, size=64):
    return [cut(np.random.default_rng([3, number]), *slide, size, how) for number in range(count)]


def test_mask_and_image_move_together(slide):
    bent = STILL.replace(elastic_share=1.0)
    for how in (STILL, bent):
        found = crops(slide, how)
        for image, mask in found:
            assert (image.shape, mask.shape, image.dtype, mask.dtype) == ((64, 64, 3), (64, 64), np.uint8, np.uint8)
            assert np.mean((image[:, :, 1] < 128) != mask) < 0.01
        assert 0.05 < np.mean([mask.mean() for _, mask in found]) < 0.5


def test_a_mask_that_lies_beside_the_image_lies_on_it_in_the_crop(slide):
    image, mask = slide
    beside = np.roll(mask, (2, 5), axis=(0, 1))  # two rows lower, five columns farther right
    worse = 0
    for number in range(12):
        shown, learned = cut(np.random.default_rng([3, number]), image, beside, 64, STILL, (2, 5))
        _, wrong = cut(np.random.default_rng([3, number]), image, beside, 64, STILL, (-2, -5))
        assert np.mean((shown[:, :, 1] < 128) != learned) < 0.01
        worse += np.mean((shown[:, :, 1] < 128) != wrong) > 0.05
    assert worse >= 4


def test_scales_are_within_their_range():
    mask = np.zeros((600, 600), np.uint8)
    for row in range(50, 600, 100):
        for column in range(50, 600, 100):
            cv2.circle(mask, (column, row), 20, 255, -1)
    image = np.dstack([mask] * 3)
    how = STILL.replace(elastic_share=0, min_scale=0.7, max_scale=1.4)
    scales = []
    for seed in range(30):
        _, _, facts, _ = cv2.connectedComponentsWithStats(cut(np.random.default_rng(seed), image, mask, 256, how)[1])
        scales.append(np.sqrt(facts[1:, cv2.CC_STAT_AREA].max() / 1313))  # the largest is whole
    assert 0.68 < min(scales) < 0.85
    assert 1.2 < max(scales) < 1.43


def test_the_same_seed_gives_the_same_bytes(slide):
    how = StainAugmentation(elastic_share=1, blur_share=1, noise_share=1, jpeg_share=1, artefact_share=1)
    for first, second in zip(crops(slide, how, 4), crops(slide, how, 4), strict=True):
        assert first[0].tobytes() == second[0].tobytes()
        assert first[1].tobytes() == second[1].tobytes()


def test_stains_change_and_glass_stays_bright(slide):
    crop = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    same = jitter_stain(np.random.default_rng(0), crop, STILL).astype(int)
    assert np.abs(same - crop).max() <= 1
    other = jitter_stain(np.random.default_rng(0), crop, StainAugmentation()).astype(int)
    assert 3 < np.abs(other - crop).mean() < 80
    glass = np.full((8, 8, 3), 255, np.uint8)
    assert jitter_stain(np.random.default_rng(1), glass, StainAugmentation(background_stain=0)).min() >= 254


def test_blur_and_grain(slide):
    crop = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    soft = blur_and_noise(np.random.default_rng(1), crop, STILL.replace(blur_share=1))
    plain = np.full((64, 64, 3), 128, np.uint8)
    grainy = blur_and_noise(np.random.default_rng(1), plain, STILL.replace(noise_share=1))
    assert soft.std() != crop.std()
    assert 1.5 < grainy.std() < 9


def test_a_crop_that_was_a_jpeg_keeps_its_colours():
    crop = np.zeros((64, 64, 3), np.uint8)
    crop[:, :32] = 200, 60, 40
    found = blur_and_noise(np.random.default_rng(1), crop, STILL.replace(jpeg_share=1)).astype(int)
    assert 0 < np.abs(found - crop).mean() < 6
    assert np.abs(found[:, :24].mean(axis=(0, 1)) - (200, 60, 40)).max() < 6


def test_ink_hides_nuclei_and_dye_and_folds_do_not():
    crop, mask = np.full((128, 128, 3), (200, 120, 180), np.uint8), np.ones((128, 128), np.uint8)
    hidden = darker = 0
    for seed in range(30):
        image, nuclei = add_artefact(np.random.default_rng(seed), crop, mask, STILL.replace(artefact_share=1))
        changed = np.abs(image.astype(int) - crop).max(axis=2) > 8
        assert not (nuclei[~changed] == 0).any()
        assert 0 < changed.mean() < 1 or (nuclei == 1).all()
        hidden += (nuclei == 0).any()
        darker += (nuclei == 1).all() and image.mean() < crop.mean()
    assert hidden > 4
    assert darker > 8
    same, kept = add_artefact(np.random.default_rng(0), crop, mask, STILL)
    assert same is crop
    assert kept is mask


def test_outlines_count_more():
    mask = np.zeros((40, 40), np.uint8)
    mask[10:30, 10:30] = 1
    weight = edge_weight(mask, extra=2.0)
    assert (weight[20, 20], weight[2, 2]) == (1, 1)
    assert weight[20, 10] == weight[20, 9] == 3
    assert weight.dtype == np.float32
