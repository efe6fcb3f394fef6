"""The seam: a paste with a hard outline is told from honest objects, whichever of the two regions it is."""

import cv2
import numpy as np
import pytest
from detector_pictures import FREE, as_patch, canvas_of, centre, match_of, nuclei, similarity, stored

from handlens.challenges.forgery.detect.findings import TierName
from handlens.challenges.forgery.detect.verifier.features import EVIDENCE
from handlens.challenges.forgery.detect.verifier.seam import Seams, with_seams


@pytest.fixture(scope="module")
def honest():
    return nuclei(3)


def hard(picture, mask, to):
    """The object cut out along its outline and moved, and where it is now."""
    down, across = (round(there - here) for there, here in zip(to, centre(mask)[::-1], strict=True))
    there = np.roll(mask, (down, across), (0, 1))
    forged = picture.copy()
    forged[there] = np.roll(picture, (down, across), (0, 1))[there]
    return forged, there


def test_a_hard_outline_is_sharper_than_any_honest_one(honest):
    picture, masks = honest
    forged, there = hard(picture, masks[4], FREE)
    seams = Seams(canvas_of(stored(forged, noise=1)))
    sharpness = [seams.outline(as_patch(mask))[1] for mask in masks]
    assert seams.outline(as_patch(there))[1] > 1.3 * max(sharpness)
    assert seams.usual(as_patch(there))[0] < seams.outline(as_patch(there))[1]


def test_a_blurred_paste_has_none(honest):
    picture, masks = honest
    forged, there = hard(picture, masks[4], FREE)
    blurred = cv2.GaussianBlur(forged, (0, 0), 1.5)
    sharp, soft = (Seams(canvas_of(stored(each, noise=1))).outline(as_patch(there))[1] for each in (forged, blurred))
    assert soft < 0.7 * sharp


def test_which_of_the_two_is_the_paste_does_not_matter(honest):
    picture, masks = honest
    forged, there = hard(picture, masks[4], FREE)
    canvas = canvas_of(stored(forged, noise=1))
    one, other = centre(masks[4]), centre(there)
    ways = ((masks[4], there, one, other), (there, masks[4], other, one))
    first, second = (
        Seams(canvas).measure(match_of(as_patch(a), as_patch(b), similarity(around=start, to=end)))
        for a, b, start, end in ways
    )
    assert first["seam"] == second["seam"] > 1.3 * first["other_seam"] == pytest.approx(1.3 * second["other_seam"])
    assert first["seam_halo"] < first["other_halo"]
    assert (first["seam_of_copy"], second["seam_of_copy"]) == (1, 0)
    assert set(first) - {"seam_of_copy"} <= set(EVIDENCE)  # which side it is on is for people


def test_a_copy_keeps_its_tone_and_agrees_up_to_its_rim(honest):
    picture, masks = honest
    forged, there = hard(picture, masks[4], FREE)
    canvas = canvas_of(stored(forged))
    move = similarity(around=centre(masks[4]), to=centre(there))
    copy = Seams(canvas).measure(match_of(as_patch(masks[4]), as_patch(there), move))
    away = similarity(around=centre(masks[4]), to=centre(masks[1]))
    chance = Seams(canvas).measure(match_of(as_patch(masks[4]), as_patch(masks[1]), away))
    assert copy["gain"] < 0.05 < chance["gain"]
    assert copy["rim_error"] < 0.1 < chance["rim_error"]
    assert copy["outside_error"] > copy["rim_error"]


def test_only_objects_are_measured_and_nothing_else_changes(honest):
    picture, masks = honest
    canvas = canvas_of(stored(picture))
    pair = as_patch(masks[0]), as_patch(masks[1])
    matches = [match_of(*pair, tier=tier, detail=0.5) for tier in (TierName.OBJECTS, TierName.KEYPOINTS)]
    measured = with_seams(canvas, matches)
    assert measured[1] is matches[1]
    assert measured[0].evidence.items() > matches[0].evidence.items()


def test_a_region_at_the_border_or_on_flat_ground_is_measured_too():
    picture = np.full((60, 80), 90, np.float32)
    picture[30:, 40:] = 180
    mask = np.zeros(picture.shape, bool)
    mask[:12, :12] = True
    found = Seams(canvas_of(stored(picture))).outline(as_patch(mask))
    assert np.isfinite(found).all()
