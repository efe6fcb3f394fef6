"""Keypoints: textured regions are found again wherever they lie, and a mirrored descriptor is the mirror's own."""

import numpy as np
import pytest
from detector_pictures import canvas_of, explains, f1, moved, painted, paste, similarity, texture, turn_between

from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.tiers.keypoints import KeypointFinder, Pairs, mirrored, to_canvas

SHAPE = (260, 400)


def rectangle(top=40, left=40, height=90, width=100):
    mask = np.zeros(SHAPE, bool)
    mask[top : top + height, left : left + width] = True
    return mask


def find(picture, seconds=60.0):
    return KeypointFinder().find(canvas_of(picture), Clock(seconds))


@pytest.mark.parametrize(
    ("turn", "scale", "mirror"),
    [(0, 1.0, False), (35, 1.0, False), (90, 1.1, False), (180, 0.9, False), (0, 1.0, True), (-50, 1.0, True)],
)
def test_a_copied_rectangle_is_found_with_its_transform(turn, scale, mirror):
    forged, copy, matrix = paste(texture(6, SHAPE), rectangle(), (165, 300), turn, scale, mirror)
    matches = find(forged)
    match = max(matches, key=lambda each: each.source.area)
    assert match.tier == "key points"
    assert match.mirrored == mirror
    assert explains(match, matrix, rectangle())
    assert match.evidence["inliers"] >= 6
    assert f1(painted(match.source, SHAPE) | painted(match.copy, SHAPE), rectangle() | copy) > 0.85
    if f1(painted(match.source, SHAPE), rectangle()) > 0.5:
        assert turn_between(match.turn, turn) < 3
        assert match.scale == pytest.approx(scale, rel=0.05)


@pytest.mark.parametrize("mirror", [False, True])
def test_a_copy_is_told_one_way_only(mirror):
    forged, _, _ = paste(texture(6, SHAPE), rectangle(), (165, 300), 30, 1.0, mirror)
    assert len(find(forged)) == 1


@pytest.mark.parametrize(("turn", "mirror"), [(180, False), (0, True)])
def test_a_half_turn_and_a_mirror_at_the_same_height_are_found(turn, mirror):
    """Each is its own inverse: what goes there comes back by the same transform."""
    forged, copy, matrix = paste(texture(6, SHAPE), rectangle(), (85, 300), turn, 1.0, mirror, gain=1.0)
    (match,) = find(forged)
    assert explains(match, matrix, rectangle())
    assert f1(painted(match.source, SHAPE) | painted(match.copy, SHAPE), rectangle() | copy) > 0.85


@pytest.mark.parametrize(("count", "found"), [(3, 0), (4, 1), (9, 1)])
@pytest.mark.parametrize("mirrored", [False, True])
def test_four_pairs_that_agree_suffice(count, found, mirrored):
    """Told both ways, among pairs that agree on nothing."""
    random = np.random.default_rng(5)
    back = np.array([[-1.0, 0.0, 399.0], [0.0, 1.0, 0.0]]) if mirrored else np.eye(2, 3)
    matrix = similarity(40, 1.1, around=(80, 80), to=(300, 150))
    sources = np.concatenate([random.uniform(50, 120, (count, 2)), random.uniform(0, 400, (20, 2))])
    targets = np.concatenate([sources[:count] @ matrix[:, :2].T + matrix[:, 2], random.uniform(0, 400, (20, 2))])
    turns = np.concatenate([np.full(count, np.deg2rad(40)), random.uniform(-3, 3, 20)])
    scales = np.concatenate([np.full(count, 1.1), random.uniform(0.6, 1.6, 20)])
    swapped = [each @ back[:, :2].T + back[:, 2] for each in (targets, sources)]
    both = zip((sources, targets, turns, scales), (*swapped, turns if mirrored else -turns, 1 / scales), strict=True)
    pairs = Pairs(*(np.concatenate(each).astype(np.float32) for each in both))
    transforms = list(KeypointFinder()._transforms(pairs, back))
    assert len(transforms) == found
    for transform, inliers in transforms:
        assert len(inliers.sources) == count
        assert (
            np.abs(transform - matrix).max() < 0.1
            or np.abs(moved(transform, swapped[0][0]) - swapped[1][0]).max() < 0.1
        )


def test_tiny_regions_are_no_copies():
    forged, _, _ = paste(texture(6, SHAPE), rectangle(), (165, 300))
    canvas = canvas_of(forged)
    assert KeypointFinder().find(canvas, Clock(60))
    assert KeypointFinder(smallest=50_000).find(canvas, Clock(60)) == []


@pytest.mark.parametrize("turn", [0, 40])
def test_two_copies_of_one_source_are_both_found(turn):
    source = rectangle(20, 20, 80, 80)
    first, one, _ = paste(texture(6, SHAPE), source, (60, 240), gain=1.0)
    forged, other, _ = paste(first, source, (190, 320), turn=turn, gain=1.0)
    found = np.any([painted(patch, SHAPE) for match in find(forged) for patch in (match.source, match.copy)], axis=0)
    assert min(found[mask].mean() for mask in (source, one, other)) > 0.9
    assert f1(found, source | one | other) > 0.75


@pytest.mark.parametrize("seed", range(3))
def test_an_honest_texture_has_none(seed):
    assert find(texture(seed, SHAPE)) == []


@pytest.mark.parametrize("picture", [np.zeros((5, 5)), np.full((90, 90), 50), np.zeros((1, 900))])
def test_odd_pictures_have_none(picture):
    assert find(picture) == []


def test_without_time_it_says_so():
    forged, _, _ = paste(texture(6, SHAPE), rectangle(), (165, 300))
    clock = Clock(0)
    assert KeypointFinder().find(canvas_of(forged), clock) == []
    assert clock.cut == ["key points"]


def test_mirrored_descriptors_are_those_of_the_mirrored_picture():
    tier, picture = KeypointFinder(), texture(8, SHAPE, blur=3)
    turned_over = mirrored(tier._describe(canvas_of(picture), 1.0), SHAPE[1] - 1)
    real = tier._describe(canvas_of(picture[:, ::-1].copy()), 1.0)
    closest = (turned_over.descriptors @ real.descriptors.T).argmax(axis=1)
    apart = np.linalg.norm(turned_over.places - real.places[closest], axis=1)
    same = apart < 2
    assert same.mean() > 0.8
    wrong = np.abs((turned_over.angles - real.angles[closest])[same] + np.pi) % (2 * np.pi) - np.pi
    assert np.median(np.abs(wrong)) < np.deg2rad(5)


def test_plain_descriptors_are_not_those_of_the_mirrored_picture():
    tier, picture = KeypointFinder(), texture(8, SHAPE, blur=3)
    plain = tier._describe(canvas_of(picture), 1.0)
    real = tier._describe(canvas_of(picture[:, ::-1].copy()), 1.0)
    closest = (plain.descriptors @ real.descriptors.T).argmax(axis=1)
    there = np.column_stack([SHAPE[1] - 1 - plain.places[:, 0], plain.places[:, 1]])
    assert (np.linalg.norm(there - real.places[closest], axis=1) < 2).mean() < 0.2


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_transform_of_the_working_picture_means_the_same_on_the_canvas(factor):
    matrix = similarity(30, 1.1, True, around=(50, 60), to=(120, 80))
    found = to_canvas(matrix, factor)
    for point in ((0, 0), (100, 30)):
        there = matrix[:, :2] @ ((np.array(point) + 0.5) * factor - 0.5) + matrix[:, 2]
        assert found[:, :2] @ point + found[:, 2] == pytest.approx((there + 0.5) / factor - 0.5)
