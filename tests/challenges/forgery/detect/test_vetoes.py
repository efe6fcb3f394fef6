"""What no copy shows: each veto by itself, at its limit, for the tiers that it is about."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from detector_pictures import FREE, PLAIN, box, canvas_of, match_of, nuclei, similarity, stored

from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Panel
from handlens.challenges.forgery.detect.tiers.objects import ObjectFinder
from handlens.challenges.forgery.detect.verifier.vetoes import is_deformed_match, is_label, proves_nothing

COPY = {
    "flat_grain": 0.8,
    "grain_deviation": 9.0,
    "stored_contrast": 20.0,
    "worst_quadrant": 0.9,
    "worst_quadrant_denoised": 0.9,
    "deformation": 0.1,
    "pixels": 2000.0,
}


def is_deformed(tier, seen):
    return is_deformed_match(replace(match_of(box(0, 0, 30, 30), box(50, 50, 30, 30), tier=tier), evidence=seen))


TIERS = ("objects", "key points", "shifts", "panels", "blots")


def refused(tier="objects", side=20, *, shrunk=False, **seen):
    match = match_of(box(10, 10, side, side), box(90, 90, side, side), tier=tier, **(COPY | seen))
    return proves_nothing(match, shrunk=shrunk)


@pytest.mark.parametrize("tier", TIERS)
def test_an_ordinary_copy_is_not_refused(tier):
    assert not refused(tier)
    assert not is_deformed(tier, COPY)


PANELS = (Panel(0, 0, 200, 200, "picture"), Panel(0, 210, 200, 410, "picture"), Panel(210, 0, 510, 300, "picture"))


def labels(source, copy, tier="objects", size=12, **change):
    """Whether things at two places (row and column of their corners) are taken for labels of panels."""
    source, copy = box(*source, size, size), box(*copy, size, size)
    matrix = similarity(around=source.centre, to=copy.centre, **change)
    return is_label(match_of(source, copy, matrix, tier=tier), PANELS)


def test_letters_and_bars_stand_at_the_same_place_of_two_panels():
    assert labels((8, 9), (8, 219))
    assert labels((8, 9), (9, 217)), "nearly"
    assert labels((180, 180), (181, 391)), "below, to the right"
    assert labels((20, 20), (242, 32)), "in proportion to a larger panel"


def test_other_things_in_corners_are_no_labels():
    assert not labels((8, 9), (8, 60)), "in one panel"
    assert not labels((8, 9), (20, 219)), "lower"
    assert not labels((90, 90), (90, 300)), "in the middle"
    assert not labels((8, 9), (8, 219), size=50), "large"
    assert not labels((8, 9), (8, 219), tier="panels"), "the corner of a reused panel"
    assert not labels((203, 100), (203, 300)), "between panels"
    assert not labels((8, 9), (8, 219), turn=50), "turned"
    assert not labels((8, 9), (8, 219), turn=-90, mirror=True), "turned and mirrored"


def test_letters_of_two_panels_are_no_copies():
    """Dim letters with soft edges, which are not told as ink, on two pictures of their own."""
    figure = np.full((240, 490), 255.0)
    for left in (0, 250):
        figure[:, left : left + 240] = 110 + 3 * np.random.default_rng(left).normal(0, 1, (240, 240))
        letter = cv2.putText(np.zeros((240, 240), np.uint8), "B", (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, 1, 3)
        figure[:, left : left + 240] -= 45 * cv2.GaussianBlur(letter.astype(float), (0, 0), 1.2)
    canvas = canvas_of(figure)
    found = ObjectFinder().find(canvas, Clock(9))
    assert any(is_label(match, canvas.panels) for match in found)
    assert Detector(decision=PLAIN, keypoints=None, panels=None).match(canvas, Clock(9)) == []


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_drawn_is_refused(tier):
    assert refused(tier, grain_deviation=37.0)


def test_what_was_not_measured_is_refused():
    assert proves_nothing(match_of(box(10, 10, 3, 3), box(90, 90, 3, 3)), shrunk=False)


def test_few_pixels_of_one_or_two_grey_levels_are_refused_but_not_many_nor_shrunk_ones():
    assert refused(stored_contrast=1.4)
    assert not refused(stored_contrast=1.6)
    assert not refused(stored_contrast=1.4, side=50)
    assert refused(stored_contrast=0.4, side=500)
    assert not refused(stored_contrast=0.4, side=500, shrunk=True)
    assert not refused(stored_contrast=1.4, shrunk=True)


@pytest.mark.parametrize(("tier", "known"), [(tier, tier != "blots") for tier in TIERS])
def test_what_is_alike_in_one_corner_only_is_refused_where_quarters_are_not_empty(tier, known):
    assert refused(tier, worst_quadrant=0.3, worst_quadrant_denoised=0.35) == known
    assert not refused(tier, worst_quadrant=0.3)  # without noise it is alike everywhere


def test_a_large_panel_may_have_empty_quarters():
    assert not refused("panels", worst_quadrant=0.0, pixels=3000.0, worst_quadrant_denoised=0.0)


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_deformed_a_little_is_refused_where_no_grain_is_alike(tier):
    seen = COPY | {"deformation": 0.35, "flat_grain": 0.1}
    assert is_deformed(tier, seen)
    assert not is_deformed(tier, seen | {"flat_grain": 0.3})
    assert not is_deformed(tier, seen | {"deformation": 0.25})
    assert not is_deformed(tier, seen | {"pixels": 900.0})


@pytest.mark.parametrize(
    ("tier", "deformation", "pixels", "known"),
    [
        ("objects", 0.65, 300, True),
        ("objects", 0.45, 200, False),
        ("key points", 0.7, 1000, True),
        ("key points", 0.5, 1000, False),
        ("key points", 0.7, 900, False),
        ("panels", 1.3, 1000, True),
        ("panels", 0.7, 4000, False),
        ("shifts", 4.0, 4000, False),
    ],
)
def test_what_is_deformed_is_refused_where_enough_pixels_tell(tier, deformation, pixels, known):
    assert is_deformed(tier, COPY | {"deformation": deformation, "pixels": float(pixels)}) == known


def test_an_object_that_is_like_another_but_bent_is_none():
    """Squares of a ruler, or a nucleus in the next section: alike in everything, but each part a little beside."""
    picture, masks = nuclei(3)
    top, left = masks[0].nonzero()[0].min() - 8, masks[0].nonzero()[1].min() - 8
    part = picture[top : top + 60, left : left + 60].copy()
    rows, columns = np.indices(part.shape, dtype=np.float32)
    bent = cv2.remap(part, columns + 2.0 * np.sin(rows / 12), rows + 2.0 * np.cos(columns / 12), cv2.INTER_CUBIC)
    row, column = FREE
    picture[row - 30 : row + 30, column - 30 : column + 30] = bent
    canvas = canvas_of(stored(picture))
    alike = ObjectFinder().find(canvas, Clock(60))
    assert max(match.evidence["band_pass"] for match in alike) > 0.75
    assert min(match.evidence["deformation"] for match in alike) > 0.6
    detector = Detector(decision=PLAIN, panels=None, keypoints=None, blots=None, shifts=None)
    assert detector.match(canvas, Clock(60)) == []
