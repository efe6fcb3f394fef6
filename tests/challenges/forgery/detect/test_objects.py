"""Copies of single objects: found with their transform whatever the turn, and honest look-alikes told apart."""

import cv2
import numpy as np
import pytest
from detector_pictures import (
    FREE,
    as_patch,
    canvas_of,
    explains,
    f1,
    nuclei,
    painted,
    paste,
    stored,
    turn_between,
)

from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.tiers.objects import Candidate, ObjectFinder

SHAPE = (300, 300)


def find(picture, seconds=60.0):
    return ObjectFinder().find(canvas_of(picture), Clock(seconds))


def surest(matches):
    return max(matches, key=lambda match: match.evidence["detail"])


def as_seen_from(match, mask):
    """Turn and scale of the copy as one says who knows which is the source."""
    if f1(painted(match.source, SHAPE), mask) > f1(painted(match.copy, SHAPE), mask):
        return match.turn, match.scale
    return match.turn if match.mirrored else -match.turn, 1 / match.scale


@pytest.mark.parametrize(
    ("turn", "scale", "mirror"),
    [
        (0, 1.0, False),
        (37, 1.0, False),
        (90, 1.15, False),
        (-149, 0.87, False),
        (0, 1.0, True),
        (37, 1.15, True),
        (180, 0.87, True),
        (-70, 1.0, True),
    ],
)
def test_a_copied_object_is_found_with_its_transform(turn, scale, mirror):
    picture, masks = nuclei()
    forged, copy, matrix = paste(picture, masks[4], FREE, turn, scale, mirror)
    match = surest(find(stored(forged, noise=1)))
    assert f1(painted(match.source, SHAPE) | painted(match.copy, SHAPE), masks[4] | copy) > 0.8
    said_turn, said_scale = as_seen_from(match, masks[4])
    assert match.mirrored == mirror
    assert turn_between(said_turn, turn) < 3
    assert said_scale == pytest.approx(scale, rel=0.05)
    assert explains(match, matrix, masks[4])
    assert match.evidence["detail"] > 0.7


@pytest.mark.parametrize("seed", range(3))
def test_honest_objects_have_little_in_common(seed):
    picture, _ = nuclei(seed)
    assert all(match.evidence["detail"] < 0.6 for match in find(stored(picture, noise=1)))


@pytest.mark.parametrize("spotted", [False, True])
def test_where_an_object_is_white_its_copy_must_be_white_too(spotted):
    """Of saturated nuclei only the rims are compared, but one with a dark spot is no copy of one without."""
    picture, masks = nuclei()
    x, y = as_patch(masks[4]).centre
    cv2.circle(picture, (round(x), round(y)), 10, 255, cv2.FILLED)
    forged, _, matrix = paste(picture, masks[4], FREE, turn=37, gain=1.0)
    if spotted:
        cv2.circle(forged, (round(x), round(y)), 8, 60, cv2.FILLED)
    canvas = canvas_of(forged)
    blob = min(ObjectFinder().detection.find(canvas), key=lambda blob: np.hypot(blob.x - FREE[1], blob.y - FREE[0]))
    assert canvas.saturated[blob.patch.window][blob.patch.mask].any()
    back = np.asarray(cv2.invertAffineTransform(matrix))
    assert ObjectFinder()._agrees_where_saturated(canvas, blob, back) != spotted


def test_a_copy_that_touches_another_object_is_found():
    picture, masks = nuclei()
    forged, _, matrix = paste(picture, masks[0], (245, 182), turn=60)  # beside the nucleus at 245, 150
    match = surest(find(stored(forged, noise=1)))
    assert match.evidence["detail"] > 0.7
    assert explains(match, matrix, masks[0])


@pytest.mark.parametrize("mirror", [False, True])
def test_the_first_candidate_is_the_right_one(mirror):
    picture, masks = nuclei()
    forged, _, matrix = paste(picture, masks[4], FREE, 75, 1.0, mirror)
    matches = ObjectFinder(each=1).find(canvas_of(stored(forged, noise=1)), Clock(60))
    assert any(explains(match, matrix, masks[4]) and match.mirrored == mirror for match in matches)


def test_an_object_darker_than_its_ground_is_found():
    picture, masks = nuclei()
    forged, _, matrix = paste(picture, masks[4], FREE, turn=25)
    match = surest(find(stored(255 - forged, noise=1)))
    assert explains(match, matrix, masks[4])


@pytest.mark.parametrize("places", [[], [(150, 150)], [(100, 100), (200, 200)]])
def test_few_objects_are_fine(places):
    picture, masks = nuclei(places=places)
    picture = np.where(np.any([np.zeros(SHAPE, bool), *masks], axis=0), picture, 12)  # noise would be full of specks
    assert all(match.evidence["detail"] < 0.6 for match in find(picture))


@pytest.mark.parametrize(
    "picture", [np.zeros((1, 1)), np.zeros((50, 60)), np.eye(90) * 200], ids=["tiny", "flat", "line"]
)
def test_odd_pictures_have_no_copies(picture):
    assert find(picture) == []


def test_marks_are_no_objects():
    picture, masks = nuclei()
    forged, copy, _ = paste(picture, masks[4], FREE)
    canvas = canvas_of(forged)
    canvas.blocked[as_patch(copy).window] = True
    for match in ObjectFinder().find(canvas, Clock(60)):
        assert f1(painted(match.copy, SHAPE), copy) < 0.3
        assert f1(painted(match.source, SHAPE), copy) < 0.3


def test_without_time_it_says_so():
    clock = Clock(0)
    assert ObjectFinder().find(canvas_of(nuclei()[0]), clock) == []
    assert clock.cut == ["objects"]


def test_the_time_may_end_after_the_candidates():
    class Late(Clock):
        def allows(self, tier, *, share=1.0):
            return share < 0.8  # the candidates stop sooner than the alignment

    picture, masks = nuclei()
    forged, _, _ = paste(picture, masks[4], FREE)
    assert ObjectFinder().find(canvas_of(forged), Late(60)) == []


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_candidate_is_a_similarity_around_its_object(mirrored):
    from handlens.challenges.forgery.detect.tiers.blob_detection import Blob

    patch = as_patch(nuclei()[1][0])
    x, y = patch.centre
    candidate = Candidate(Blob(patch, x, y, patch.area), 200.0, 120.0, 0.7, 1.1, mirrored, 0.9, 0.1)
    matrix = candidate.matrix()
    assert matrix[:, :2] @ [x, y] + matrix[:, 2] == pytest.approx([200, 120])
    assert np.linalg.det(matrix[:, :2]) == pytest.approx((-1 if mirrored else 1) * 1.1**2)
