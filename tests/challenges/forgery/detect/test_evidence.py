"""What pixels say: the alignment finds the true transform, a copy is alike in its detail, chance is not."""

import cv2
import numpy as np
import pytest
from detector_pictures import as_patch, box, canvas_of, centre, moved, painted, paste, points_of, similarity, texture
from hypothesis import given, settings
from hypothesis import strategies as st

from handlens.challenges.forgery.detect.canvas import canvas as canvas_module
from handlens.challenges.forgery.detect.canvas import prepare
from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter
from handlens.challenges.forgery.detect.findings import Patch
from handlens.challenges.forgery.detect.geometry.alignment import align
from handlens.challenges.forgery.detect.geometry.correlation import correlation, correlations
from handlens.challenges.forgery.detect.geometry.points import (
    MOST_POINTS,
    TWO_LEVELS,
    core,
    interior,
    landing_free,
    thinned,
    two_levels,
)
from handlens.challenges.forgery.detect.verifier.evidence import deformation, measure, without_shape
from handlens.challenges.forgery.detect.verifier.repetition import find_second_best

SHAPE = (220, 320)
SOURCE, TARGET = (90, 100), (230, 110)
"""Middles of a region and its copy, as x, y."""


def disc(radius=34, middle=SOURCE):
    return cv2.circle(np.zeros(SHAPE, np.uint8), middle, radius, 1, cv2.FILLED) > 0


def with_copy(turn=0.0, scale=1.0, mirror=False, invert=False):
    """A canvas on which a disc lies twice, the disc, and the true transform."""
    picture = texture(3, SHAPE, blur=2)
    forged, there, matrix = paste(picture, disc(), TARGET[::-1], turn, scale, mirror, gain=1.0)
    if invert:
        forged = np.where(there, 255 - forged, forged)
    return canvas_of(forged), disc(), matrix


def furthest(one, other, mask):
    """Pixels between the places to which two transforms bring a region's edge."""
    x, y = centre(mask)
    reach = np.sqrt(mask.sum() / np.pi)
    edge = [(x + reach * np.cos(angle), y + reach * np.sin(angle)) for angle in np.arange(0, 6, 0.8)]
    return max(float(np.linalg.norm(moved(one, point) - moved(other, point))) for point in edge)


transforms = st.fixed_dictionaries(
    {"turn": st.floats(-180, 180), "scale": st.floats(0.85, 1.2), "mirror": st.booleans()}
)
errors = st.tuples(st.floats(-3, 3), st.floats(0.97, 1.03), st.floats(-1.2, 1.2), st.floats(-1.2, 1.2))


@settings(max_examples=15)
@given(true=transforms, error=errors)
def test_alignment_recovers_the_transform_from_a_rough_one(true, error):
    canvas, mask, matrix = with_copy(**true)
    turn, scale, across, down = error
    to = moved(matrix, centre(mask)) + [across, down]
    side = -1 if true["mirror"] else 1
    start = similarity(true["turn"] + turn, true["scale"] * scale, true["mirror"], around=centre(mask), to=to)
    found, alike = align(canvas, points_of(mask), start)
    assert np.sign(np.linalg.det(found[:, :2])) == side
    assert furthest(found, matrix, mask) < 0.5
    assert alike > 0.97


def test_alignment_never_makes_it_worse():
    canvas, mask, matrix = with_copy(turn=20)
    points = points_of(mask)
    for shift in (0, 4, 60):
        start = matrix + np.array([[0, 0, shift], [0, 0, -shift]])
        before = measure(canvas, points, start)["correlation"]
        assert abs(align(canvas, points, start)[1]) >= before - 1e-4


def test_an_inverted_copy_is_aligned_and_says_so():
    canvas, mask, matrix = with_copy(turn=35, invert=True)
    start = matrix + np.array([[0, 0, 0.8], [0, 0, -0.8]])
    found, alike = align(canvas, points_of(mask), start)
    assert alike < -0.95
    assert furthest(found, matrix, mask) < 0.5
    evidence = measure(canvas, points_of(mask), found)
    assert evidence["inverted"] == 1
    assert min(evidence["correlation"], evidence["detail"], evidence["grain"]) > 0.85


@pytest.mark.parametrize("turn", [0, 90, 25])
@pytest.mark.parametrize("mirror", [False, True])
def test_a_copy_is_alike_in_every_way(turn, mirror):
    canvas, mask, matrix = with_copy(turn=turn, mirror=mirror)
    evidence = measure(canvas, points_of(mask), matrix)
    assert evidence["inverted"] == 0
    assert min(evidence["correlation"], evidence["detail"]) > 0.9
    assert evidence["grain"] > 0.75  # turning smooths it
    assert evidence["residual_noise"] > 0.5


def test_under_later_noise_the_band_pass_is_alike_still():
    canvas, mask, matrix = with_copy(turn=30)
    noise = np.random.default_rng(2).normal(0, 30, canvas.shape)
    honest = matrix + np.array([[0, 0, 0], [0, 0, 40.0]])
    noisy = canvas_of(canvas.grey + noise)
    copied, chance = (measure(noisy, points_of(mask), each) for each in (matrix, honest))
    assert copied["grain"] < 0.55 < 0.75 < copied["band_pass"]
    assert copied["detail"] < copied["denoised"] - 0.1
    assert max(abs(chance["band_pass"]), abs(chance["denoised"])) < 0.3
    assert copied["worst_quadrant_denoised"] > 0.7


@pytest.mark.parametrize("change", [{}, {"turn": 90}, {"turn": 25, "scale": 1.1}, {"mirror": True}])
def test_a_copy_is_not_bent(change):
    canvas, mask, matrix = with_copy(**change)
    assert deformation(canvas, points_of(mask), matrix) < 0.3


def test_of_flat_ground_nobody_knows_whether_it_is_bent():
    assert deformation(canvas_of(np.full(SHAPE, 90.0)), points_of(disc()), similarity(around=SOURCE, to=TARGET)) == 4


def test_the_next_section_of_a_tissue_is_bent():
    picture = texture(3, SHAPE, blur=4)
    rows, columns = np.indices(SHAPE, np.float32)
    wave = 1.5 * np.sin(rows / 9), 1.5 * np.sin(columns / 9)
    shift = (TARGET[0] - SOURCE[0], TARGET[1] - SOURCE[1])
    where = [line - by + bent for line, by, bent in zip((columns, rows), shift, wave, strict=True)]
    section = cv2.remap(picture, *(each.astype(np.float32) for each in where), cv2.INTER_LINEAR)
    target = disc(middle=TARGET)
    picture[target] = section[target]
    found = deformation(canvas_of(picture), points_of(disc(radius=30)), similarity(around=SOURCE, to=TARGET))
    assert 0.7 < found < 2.5


@pytest.mark.parametrize("copied", [True, False])
def test_cells_that_lie_alike_are_quiet_only_where_they_were_copied(copied):
    """Discs at the same places of two fields: their outlines are alike in any case, the ground only in a copy."""
    random = np.random.default_rng(5)
    cells = np.zeros(SHAPE, np.float32)
    for place in ((70, 80), (100, 90), (85, 115), (110, 120)):
        for shift in (0, TARGET[0] - SOURCE[0]):
            cv2.circle(cells, (place[0] + shift, place[1]), 7, 1.0, cv2.FILLED)
    picture = 40 + 150 * cv2.GaussianBlur(cells, (0, 0), 1.2) + random.normal(0, 6, SHAPE)
    if copied:
        picture[:, 140 : 140 + 120] = picture[:, :120]
    seen = measure(canvas_of(picture), points_of(disc()), similarity(to=(140, 0)))
    assert seen["grain"] > 0.35
    assert seen["flat_grain"] > 0.9 if copied else seen["flat_grain"] < 0.15


@pytest.mark.parametrize(
    ("levels", "stored", "white"), [(20.0, np.uint8, 200), (0.6, np.uint8, 200), (40.0, np.uint16, 3000)]
)
def test_the_depth_counts_grey_levels_of_the_file(levels, stored, white):
    """A panel is stretched to all of its range: one level of the file may be eighty then."""
    noise = np.random.default_rng(3).normal(0.5 * white, levels, SHAPE)
    noise[:30] = white * (np.arange(SHAPE[1]) % 80 < 40)  # something bright, so that the ground is not all there is
    assert depth_of(np.rint(noise).astype(stored)) == pytest.approx(np.hypot(levels, 0.3), rel=0.1)  # rounding adds


def depth_of(picture):
    canvas = prepare(picture, side=1600, enlargement=1.0, splitter=PanelSplitter())
    return measure(canvas, points_of(disc()), similarity(around=SOURCE, to=TARGET))["stored_contrast"]


@pytest.mark.parametrize("channel", range(3))
def test_the_depth_of_a_stain_is_that_of_its_colour(channel):
    """Blue is a tenth of grey: a nucleus under DAPI would seem to be of one level."""
    picture = np.zeros((*SHAPE, 3), np.uint8)
    picture[:, :, channel] = texture(3, SHAPE, contrast=12, level=60)
    assert depth_of(picture) == pytest.approx(
        (0.587 if channel == 1 else 1.0) * depth_of(picture[:, :, channel]), rel=0.02
    )
    assert depth_of(picture) > 5


def test_eight_bits_in_sixteen_are_as_deep_as_eight():
    picture = np.rint(texture(3, SHAPE, contrast=12, level=60)).astype(np.uint8)
    assert depth_of(picture.astype(np.uint16) * 257) == pytest.approx(depth_of(picture), rel=0.01)


def test_elsewhere_nothing_is_alike():
    canvas, mask, matrix = with_copy()
    evidence = measure(canvas, points_of(mask), matrix + np.array([[0, 0, 0], [0, 0, 40.0]]))
    assert abs(evidence["correlation"]) < 0.25
    assert abs(evidence["detail"]) < 0.25
    assert abs(evidence["grain"]) < 0.15
    assert abs(evidence["residual_noise"]) < 0.15


# --- everywhere -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{}, {"turn": 90}, {"turn": 25, "scale": 1.1}, {"mirror": True}, {"invert": True}])
def test_a_copy_is_alike_everywhere(change):
    canvas, mask, matrix = with_copy(**change)
    assert measure(canvas, points_of(mask), matrix)["worst_quadrant"] > 0.8


def test_two_honest_regions_with_the_same_arrow_are_alike_in_one_corner():
    picture = texture(3, SHAPE, blur=2, level=90, contrast=12)
    for x, y in (SOURCE, TARGET):
        cv2.arrowedLine(picture, (x - 24, y - 18), (x - 8, y - 6), 255, 2, tipLength=0.4)
    evidence = measure(canvas_of(picture), points_of(disc()), similarity(around=SOURCE, to=TARGET))
    assert evidence["grain"] > 0.6
    assert evidence["worst_quadrant"] < 0.3


@pytest.mark.parametrize("invert", [False, True])
def test_a_copy_with_a_spoilt_quarter_is_not_alike_everywhere(invert):
    canvas, mask, matrix = with_copy(invert=invert)
    (x, y), random = TARGET, np.random.default_rng(2)
    for layer in (canvas.grey, canvas.grain):
        layer[y : y + 40, x : x + 40] = random.permutation(layer[y : y + 40, x : x + 40].ravel()).reshape(40, 40)
    evidence = measure(canvas, points_of(mask), matrix)
    assert evidence["inverted"] == invert
    assert evidence["grain"] > 0.5
    assert evidence["worst_quadrant"] < 0.3


def test_what_is_not_alike_is_nowhere_alike():
    canvas, mask, matrix = with_copy()
    found = [
        measure(canvas, points_of(mask), matrix + np.array([[0, 0, 0], [0, 0, shift]])) for shift in (30.0, 40, 50)
    ]
    assert all(each["worst_quadrant"] < 0.5 for each in found)


def test_of_a_few_pixels_nothing_is_alike_everywhere():
    canvas = canvas_of(texture(3, SHAPE))
    assert measure(canvas, interior(box(50, 60, 4, 4)), similarity(around=(60, 50), to=(60, 50)))["worst_quadrant"] == 0


# --- detail ---------------------------------------------------------------------------------------------------------


def smooth_pair(noise, radius=20):
    """Two honest objects of one smooth shape, each with noise of its own: a canvas, and a region in the first."""
    random = np.random.default_rng(5)
    rows, columns = np.indices(SHAPE)
    picture = np.full(SHAPE, 20, np.float32)
    for x, y in (SOURCE, TARGET):
        picture += 160 * np.exp(-((columns - x) ** 2 + 1.3 * (rows - y) ** 2) / (2 * radius**2)).astype(np.float32)
    return canvas_of(picture + random.normal(0, noise, SHAPE)), disc(radius)


@pytest.mark.parametrize("noise", [2, 6])
@pytest.mark.parametrize("radius", [7, 20])
def test_honest_smooth_objects_share_their_shape_and_nothing_else(noise, radius):
    canvas, mask = smooth_pair(noise, radius)
    evidence = measure(canvas, points_of(mask), similarity(around=SOURCE, to=TARGET))
    assert evidence["correlation"] > 0.75
    assert abs(evidence["detail"]) < 0.35
    assert abs(evidence["grain"]) < 0.35


def detail_of(points, one, other):
    return correlation(*without_shape(points, one, other))


def test_what_is_left_has_no_surface_of_third_degree():
    random = np.random.default_rng(3)
    points = points_of(disc())
    u, v = points.x - SOURCE[0], points.y - SOURCE[1]
    noise = random.normal(0, 5, len(points)).astype(np.float32)
    bent = noise + np.float32(3 + 2 * u - v + 0.1 * u * v - 0.02 * v**3)
    plain, straight = without_shape(points, noise, bent)
    assert np.abs(plain - straight).max() < 1e-2
    terms = np.stack([u**one * v**other for one in range(5) for other in range(5 - one)], axis=1)
    expected = noise - terms @ np.linalg.lstsq(terms.astype(float), noise, rcond=None)[0]
    assert np.abs(plain - expected).max() < 1e-3


@pytest.mark.parametrize("shape", [(1000, 1000), (12, 300), (300, 1500), (1, 300), (40, 40)])
def test_what_is_left_of_regions_of_any_size_is_no_shape(shape):
    points = interior(box(0, 0, *shape))
    random = np.random.default_rng(1)
    u, v = points.x / shape[1] - 0.5, points.y / shape[0] - 0.5
    one, other = (np.float32(80 * np.exp(-2 * (u * u + v * v)) + random.normal(0, 4, len(points))) for _ in range(2))
    assert abs(detail_of(points, one, other)) < 0.3
    assert correlation(one, other) > 0.6


def test_of_equal_samples_the_detail_is_equal():
    points = points_of(disc())
    values = np.random.default_rng(0).normal(0, 20, len(points)).astype(np.float32)
    assert detail_of(points, values, values) == pytest.approx(1, abs=1e-4)
    assert detail_of(points, values, 30 - 0.5 * values) == pytest.approx(-1, abs=1e-4)


def test_a_shape_that_both_share_is_no_detail():
    random = np.random.default_rng(1)
    points = points_of(disc())
    shape = 100 * np.exp(-((points.x - SOURCE[0]) ** 2 + (points.y - SOURCE[1]) ** 2) / 900)
    one, other = (np.float32(shape + random.normal(0, 10, len(points))) for _ in range(2))
    assert correlation(one, other) > 0.6
    assert abs(detail_of(points, one, other)) < 0.1


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5, 6, 8])
def test_tiny_regions_give_sane_numbers(side):
    canvas = canvas_of(texture(1, SHAPE))
    for patch in (box(50, 60, side, side), box(50, 60, 1, side), box(0, 0, side, side)):
        for value in measure(canvas, interior(patch), similarity(around=(60, 50), to=(200, 120))).values():
            assert np.isfinite(value)
        matrix, alike = align(canvas, interior(patch), similarity(around=(60, 50), to=(200, 120)))
        assert np.isfinite(matrix).all()
        assert -1.001 <= alike <= 1.001


def test_few_pixels_have_no_detail():
    points = interior(box(10, 10, 3, 3))
    values = np.arange(9, dtype=np.float32)
    assert detail_of(points, values, values) == 0


def test_rows_are_correlated_as_each_alone():
    ones, others = np.random.default_rng(0).normal(100, 9, (2, 5, 60)).astype(np.float32)
    others[1], ones[2], others[3] = ones[1], 7, 3 - ones[3]
    expected = [correlation(one, other) for one, other in zip(ones, others, strict=True)]
    assert correlations(ones, others) == pytest.approx(expected, abs=1e-5)
    assert [round(float(value), 3) for value in correlations(ones, others)[1:4]] == [1, 0, -1]


def test_flat_samples_are_like_nothing():
    flat, lively = np.full(50, 7, np.float32), np.arange(50, dtype=np.float32)
    assert correlation(flat, lively) == correlation(flat, flat) == 0


# --- rivals ---------------------------------------------------------------------------------------------------------


def test_a_texture_that_repeats_has_rivals():
    rows, columns = np.indices(SHAPE)
    picture = 128 + 50 * np.sin(columns / 1.5) * np.sin(rows / 1.5) + texture(1, SHAPE, contrast=3, level=0)
    rival = find_second_best(canvas_of(picture).grain, as_patch(disc()), similarity(around=SOURCE, to=TARGET))
    assert rival > 0.8


@pytest.mark.parametrize("turn", [0, 50])
def test_a_copy_of_unique_texture_has_none(turn):
    canvas, mask, matrix = with_copy(turn=turn)
    assert find_second_best(canvas.grain, as_patch(mask), matrix) < 0.5


def test_the_source_is_no_rival_of_its_own_copy():
    mask = disc(16)
    forged, _, matrix = paste(texture(3, SHAPE, blur=2), mask, (100, 140), gain=1.0)
    assert find_second_best(canvas_of(forged).grain, as_patch(mask), matrix) < 0.7


@pytest.mark.parametrize("away", [34, 50, 70])
def test_a_source_near_its_copy_is_ignored_but_a_third_one_is_not(away):
    mask = painted(box(84, 74, 33, 33), SHAPE)
    forged, _, matrix = paste(texture(3, SHAPE, blur=2), mask, (100, 90 + away), gain=1.0)
    alone = find_second_best(canvas_of(forged).grain, as_patch(mask), matrix)
    again, _, _ = paste(forged, mask, (145, 90 + away), gain=1.0)
    assert alone < 0.6
    assert find_second_best(canvas_of(again).grain, as_patch(mask), matrix) > 0.9


def test_where_nothing_can_be_seen_everything_is_a_rival():
    canvas = canvas_of(np.full(SHAPE, 128))
    assert find_second_best(canvas.grain, as_patch(disc()), similarity(around=SOURCE, to=TARGET)) == 1


# --- points ---------------------------------------------------------------------------------------------------------


def test_the_interior_has_no_edge():
    patch = as_patch(disc())
    points = interior(patch)
    assert 0 < len(points) < patch.area
    assert np.hypot(points.x - SOURCE[0], points.y - SOURCE[1]).max() < 34
    assert points.middle == pytest.approx(SOURCE, abs=0.5)


def test_blocked_pixels_are_left_out():
    blocked = np.zeros(SHAPE, bool)
    blocked[:, :90] = True
    assert interior(as_patch(disc()), blocked).x.min() >= 90
    nothing = interior(as_patch(disc()), np.ones(SHAPE, bool))
    assert len(nothing) == 0
    assert np.isfinite(nothing.reach)


def test_large_regions_are_thinned_evenly():
    points = interior(Patch(5, 7, np.ones((300, 400), bool)))
    assert len(points) == MOST_POINTS
    some = thinned(points, 100)
    assert len(some) == 100
    assert (some.middle, some.reach) == (points.middle, points.reach)
    assert some.y.max() - some.y.min() > 250


def test_points_that_land_on_ink_or_outside_are_left_out():
    blocked = np.zeros((40, 60), bool)
    blocked[10:20, 40:50] = True
    points = interior(Patch(10, 10, np.ones((10, 10), bool)))
    kept = landing_free(points, similarity(to=(32.0, 0.0)), blocked)
    assert set(kept.x + 32) == {50.0}
    assert len(landing_free(points, similarity(to=(100.0, 0.0)), blocked)) == 0
    assert len(landing_free(points, similarity(), blocked)) == len(points)


def on_dark_ground(copied, noise=1.0):
    """Two nuclei of the same shape on a dark ground, each with a grain of its own, or one of them copied."""
    random = np.random.default_rng(5)
    picture = random.normal(12, noise, SHAPE).astype(np.float32)
    shape = cv2.GaussianBlur(disc(16).astype(np.float32), (0, 0), 1.5)
    for middle in (SOURCE, TARGET):
        grain = cv2.GaussianBlur(random.normal(0, 1, SHAPE).astype(np.float32), (0, 0), 1.2)
        shift = similarity(to=np.subtract(middle, SOURCE))
        picture += cv2.warpAffine(shape, shift, SHAPE[::-1]) * (150 + 40 * grain)
    if copied:
        size = (slice(TARGET[1] - 30, TARGET[1] + 30), slice(TARGET[0] - 30, TARGET[0] + 30))
        picture[size] = picture[SOURCE[1] - 30 : SOURCE[1] + 30, SOURCE[0] - 30 : SOURCE[0] + 30]
    return canvas_of(np.clip(picture, 0, 255))


def test_an_outline_on_dark_ground_is_no_evidence():
    """The region of a nucleus is often cut out with some ground around it: all nuclei share a bright disc on dark."""
    matrix = similarity(to=np.subtract(TARGET, SOURCE))
    region = as_patch(disc(24))
    honest, copied = on_dark_ground(copied=False), on_dark_ground(copied=True)
    assert measure(honest, interior(region), matrix)["detail"] > 0.7
    assert measure(honest, core(honest, region, honest.blocked), matrix)["detail"] < 0.3
    assert measure(copied, core(copied, region, copied.blocked), matrix)["detail"] > 0.9


def test_a_region_of_one_level_is_all_core():
    canvas = canvas_of(texture(1, SHAPE))
    region = as_patch(disc())
    assert len(core(canvas, region, canvas.blocked)) == len(interior(region, canvas.blocked))


def test_a_large_object_has_a_core(monkeypatch):
    """Its pixels are thinned only when the core is found: thinned ones have no neighbours."""
    monkeypatch.setattr(canvas_module, "find_drawn", lambda grey, *_: np.zeros(grey.shape, bool))  # it has two levels
    picture = np.where(disc(60, (110, 110)), 180, 20) + texture(3, SHAPE, contrast=5, level=0)
    canvas = canvas_of(picture)
    found = core(canvas, as_patch(disc(75, (110, 110))), canvas.blocked)
    assert len(found) == MOST_POINTS
    assert np.hypot(found.x - 110, found.y - 110).max() < 60


def test_of_a_blocked_region_there_is_no_core():
    canvas = on_dark_ground(copied=False)
    assert len(core(canvas, as_patch(disc()), np.ones(SHAPE, bool))) == 0


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.random.default_rng(1).normal(0, 1, 4000), 0.6, 0.68),
        (np.linspace(0, 1, 4000), 0.72, TWO_LEVELS),
        (np.repeat([10.0, 200.0], 500) + np.random.default_rng(2).normal(0, 9, 1000), 0.95, 1.0),
        (np.full(100, 7.0), 0.0, 0.0),
        (np.zeros(0), 0.0, 0.0),
    ],
    ids=["bell", "even", "two", "flat", "none"],
)
def test_how_far_two_levels_are_apart(values, low, high):
    limit, apart = two_levels(values.astype(np.float32))
    assert low <= apart <= high + 1e-9
    assert np.isfinite(limit)


def test_the_limit_lies_between_two_levels():
    limit, _ = two_levels(np.repeat([10.0, 200.0], [90, 10]).astype(np.float32))
    assert 10 < limit < 200
