"""What no copy shows: each veto by itself, at its limit, for the tiers that it is about."""

import cv2
import numpy as np
import pytest
from detector_pictures import FREE, PLAIN, box, canvas_of, match_of, nuclei, stored

from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.objects import ObjectTier
from handlens.challenges.forgery.detect.vetoes import is_bent, proves_nothing

COPY = {"busy": 9.0, "depth": 20.0, "even": 0.9, "even weave": 0.9, "bend": 0.1, "pixels": 2000.0}
TIERS = ("objects", "key points", "shifts", "panels", "blots")


def refused(tier="objects", side=20, *, shrunk=False, **seen):
    match = match_of(box(10, 10, side, side), box(90, 90, side, side), tier=tier, **(COPY | seen))
    return proves_nothing(match, shrunk=shrunk)


@pytest.mark.parametrize("tier", TIERS)
def test_an_ordinary_copy_is_not_refused(tier):
    assert not refused(tier)
    assert not is_bent(tier, COPY)


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_drawn_is_refused(tier):
    assert refused(tier, busy=37.0)


def test_what_was_not_measured_is_refused():
    assert proves_nothing(match_of(box(10, 10, 3, 3), box(90, 90, 3, 3)), shrunk=False)


def test_few_pixels_of_one_or_two_grey_levels_are_refused_but_not_many_nor_shrunk_ones():
    assert refused(depth=1.4)
    assert not refused(depth=1.6)
    assert not refused(depth=1.4, side=50)
    assert not refused(depth=1.4, shrunk=True)


@pytest.mark.parametrize(("tier", "known"), [(tier, tier != "blots") for tier in TIERS])
def test_what_is_alike_in_one_corner_only_is_refused_where_quarters_are_not_empty(tier, known):
    assert refused(tier, even=0.3, **{"even weave": 0.35}) == known
    assert not refused(tier, even=0.3)  # without noise it is alike everywhere


def test_a_large_panel_may_have_empty_quarters():
    assert not refused("panels", even=0.0, pixels=3000.0, **{"even weave": 0.0})


@pytest.mark.parametrize(
    ("tier", "bend", "pixels", "known"),
    [
        ("objects", 0.45, 300, True),
        ("objects", 0.45, 200, False),
        ("key points", 0.7, 1000, True),
        ("key points", 0.5, 1000, False),
        ("key points", 0.7, 900, False),
        ("regions", 0.7, 1000, True),
        ("panels", 1.3, 1000, True),
        ("panels", 0.7, 4000, False),
        ("shifts", 4.0, 4000, False),
    ],
)
def test_what_is_bent_is_refused_where_enough_pixels_tell(tier, bend, pixels, known):
    assert is_bent(tier, COPY | {"bend": bend, "pixels": float(pixels)}) == known


def test_an_object_that_is_like_another_but_bent_is_none():
    """Squares of a ruler, or a nucleus in the next section: alike in everything, but each part a little beside."""
    picture, masks = nuclei(3)
    top, left = masks[0].nonzero()[0].min() - 8, masks[0].nonzero()[1].min() - 8
    part = picture[top : top + 60, left : left + 60].copy()
    rows, columns = np.indices(part.shape, dtype=np.float32)
    bent = cv2.remap(part, columns + 1.3 * np.sin(rows / 12), rows + 1.3 * np.cos(columns / 12), cv2.INTER_CUBIC)
    row, column = FREE
    picture[row - 30 : row + 30, column - 30 : column + 30] = bent
    canvas = canvas_of(stored(picture))
    alike = ObjectTier().find(canvas, Clock(60))
    assert max(match.evidence["weave"] for match in alike) > 0.9
    assert min(match.evidence["bend"] for match in alike) > 0.4
    detector = Detector(decision=PLAIN, reuse=None, keypoints=None, blots=None, shifts=None)
    assert detector.match(canvas, Clock(60)) == []
