"""The detector: what it says of a figure is the same each time, in the figure's own pixels, within its time."""

import itertools
import time
from dataclasses import replace

import cv2
import numpy as np
import pytest
from detector_pictures import (
    PLAIN,
    as_patch,
    box,
    canvas_of,
    explains,
    f1,
    match_of,
    nuclei,
    painted,
    paste,
    similarity,
    stored,
    texture,
)

from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.answer import MOST_REGIONS, SURER, WORTH_A_LOOK, decide, score_matches
from handlens.challenges.forgery.detect.canvas import canvas as canvas_module
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.challenges.forgery.detect.geometry.points import interior
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier
from handlens.challenges.forgery.detect.verifier.decision import Decision
from handlens.challenges.forgery.detect.verifier.evidence import measure
from handlens.challenges.forgery.detect.verifier.features import describe
from handlens.challenges.forgery.detect.verifier.repetition import repeats
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.challenges.forgery.detect.verifier.vetoes import DRAWN

DETECTOR = Detector(decision=PLAIN)
MOST_ALIKE, MOST_PEERS = TIERS["objects"].most_alike, TIERS["objects"].most_peers
SHAPE = (200, 200)


@pytest.fixture(scope="module")
def forged():
    """A picture with a turned nucleus pasted in; the mask of both, and the transform."""
    picture, masks = nuclei()
    picture, source = picture[100:, 100:], masks[4][100:, 100:]
    copied, there, matrix = paste(picture, source, (150, 150), turn=40)
    return stored(copied, noise=1), source | there, matrix, source


@pytest.fixture(scope="module")
def findings(forged):
    return DETECTOR.look(forged[0])


def same(one, other):
    """Whether two findings say the same, to the last pixel and digit."""
    if (one.shape, one.panels, one.probability, one.cut) != (other.shape, other.panels, other.probability, other.cut):
        return False
    pairs = [(one.groups, other.groups), (one.doubtful, other.doubtful)]
    return all(len(some) == len(others) and all(map(same_group, some, others)) for some, others in pairs)


def same_group(one, other):
    return len(one.matches) == len(other.matches) and all(
        np.array_equal(mine.matrix, theirs.matrix)
        and np.array_equal(painted(mine.source, (999, 999)), painted(theirs.source, (999, 999)))
        and mine.evidence == theirs.evidence
        for mine, theirs in zip(one.matches, other.matches, strict=True)
    )


def test_a_copied_nucleus_is_the_answer(forged, findings):
    _, true, matrix, source = forged
    (group,) = findings.groups
    assert findings.forged
    assert findings.probability > 0.5
    assert f1(group.mask(findings.shape), true) > 0.8
    assert any(explains(match, matrix, source) for match in group.matches)


def test_every_match_has_numbers_to_be_judged_by(findings):
    for match in findings.groups[0].matches:
        assert np.isfinite(list(match.evidence.values())).all()
        assert np.isfinite(list(describe(match).values())).all()
        assert 0 <= match.probability <= 1


def test_an_honest_picture_is_authentic():
    found = DETECTOR.look(stored(nuclei(3)[0][100:, 100:], noise=1))
    assert not found.forged
    assert found.probability <= PLAIN.least


def test_the_same_figure_gets_the_same_findings(forged, findings):
    DETECTOR.look(stored(texture(4, (90, 120))), 0.3)  # whatever was looked at before
    np.random.seed(5)
    cv2.setRNGSeed(77)
    assert same(DETECTOR.look(forged[0].copy()), findings)


def test_a_look_is_the_conclusion_of_a_proposal_which_stays_as_it_is(forged, findings):
    proposal = DETECTOR.propose(forged[0])
    assert not any(match.probability for match in proposal.matches)
    for _ in range(2):
        assert same(DETECTOR.conclude(proposal, PLAIN), findings)


def test_a_conclusion_has_the_time_that_its_proposal_left(forged):
    proposal = DETECTOR.propose(forged[0])
    late = replace(proposal, used=proposal.seconds + 1, cut=("blots",))
    assert DETECTOR.conclude(late, PLAIN).cut == ("blots", "regions around objects")
    assert late.cut == ("blots",)


def test_any_verifier_can_take_the_place_of_the_curves(forged):
    class Sure:
        def probability(self, match):
            return 0.9 if match.tier == "objects" else 0.0

    found = DETECTOR.conclude(DETECTOR.propose(forged[0]), replace(PLAIN, verifier=Sure()))
    assert {match.tier for group in found.groups for match in group.matches} == {"objects"}
    assert {match.probability for group in found.groups for match in group.matches} == {0.9}


def test_a_look_does_not_change_the_picture(forged):
    picture = forged[0].copy()
    DETECTOR.look(picture)
    assert np.array_equal(picture, forged[0])


@pytest.mark.parametrize("kind", ["16 bits", "colour", "alpha"])
def test_the_kind_of_file_makes_no_difference(forged, findings, kind):
    picture = forged[0]
    kinds = {
        "16 bits": picture.astype(np.uint16) * 257,
        "colour": np.dstack([picture] * 3),
        "alpha": np.dstack([picture] * 3 + [np.full_like(picture, 255)]),
    }
    (group,) = DETECTOR.look(kinds[kind]).groups
    assert f1(group.mask(SHAPE), findings.groups[0].mask(SHAPE)) > 0.95


def test_findings_of_a_large_figure_are_in_its_own_pixels():
    picture = texture(3, (500, 700), blur=5)
    mask = np.zeros(picture.shape, bool)
    mask[60:230, 50:250] = True
    copied, there, matrix = paste(picture, mask, (350, 520), turn=90)
    found = Detector(side=350, decision=PLAIN, objects=None).look(stored(copied))
    (group,) = found.groups
    assert found.shape == (500, 700)
    assert f1(group.mask(found.shape), mask | there) > 0.85
    assert any(explains(match, matrix, mask, pixels=5) for match in group.matches)
    (panel,) = found.panels
    assert panel.shape == (500, 700)


@pytest.mark.parametrize("shape", [(400, 203), (403, 91), (1000, 17), (57, 1003)])
def test_panels_lie_inside_the_figure(shape):
    found = Detector(side=100, decision=PLAIN, objects=None).look(stored(texture(1, shape)), 1.0)
    for panel in found.panels:
        assert 0 <= panel.top < panel.bottom <= shape[0]
        assert 0 <= panel.left < panel.right <= shape[1]


def test_a_tier_can_be_left_out(forged):
    without = Detector(decision=PLAIN, panels=None, keypoints=None, objects=None)
    found = without.look(forged[0])
    assert not found.groups
    assert not found.doubtful
    assert found.probability == 0


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, 0.001])
def test_without_time_it_ends_soon_and_says_what_was_cut(forged, seconds):
    start = time.thread_time()
    found = DETECTOR.look(forged[0], seconds)
    assert time.thread_time() - start < 10
    assert "objects" in found.cut


def test_with_time_enough_nothing_is_cut(findings):
    assert findings.cut == ()


def test_a_picture_full_of_specks_does_not_take_for_ever():
    noise = np.random.default_rng(0).normal(12, 2, SHAPE).clip(0, 255).astype(np.uint8)
    start = time.thread_time()
    DETECTOR.look(noise, 0.5)
    assert time.thread_time() - start < 10  # far less where the libraries keep to one thread


# --- the decision ---------------------------------------------------------------------------------------------------


def far_matches(*probabilities):
    """Matches of places that have nothing to do with each other."""
    corners = [(10 + 90 * number, 10 + 37 * number) for number in range(len(probabilities))]
    return [
        match_of(box(row, column, 9 + number, 9), box(row + 31 * number, column + 150, 9 + number, 9), probability=each)
        for number, ((row, column), each) in enumerate(zip(corners, probabilities, strict=True))
    ]


def sure_decision(worth=0.8):
    return Decision(LogisticVerifier(), worth)


def test_nothing_found_is_authentic():
    assert decide([], sure_decision()) == ([], [], 0.0)


def test_sure_groups_are_the_answer_and_the_rest_is_for_a_person():
    sure, doubtful, probability = decide(far_matches(0.97, 0.3), sure_decision())
    assert [each.probability for each in sure] == [0.97]
    assert [each.probability for each in doubtful] == [0.3]
    assert probability == pytest.approx(0.97)


def test_what_is_hardly_likely_is_not_even_shown():
    sure, doubtful, _ = decide(far_matches(0.97, WORTH_A_LOOK / 2), sure_decision())
    assert len(sure) == 1
    assert doubtful == []


@pytest.mark.parametrize("worth", [0.3, 0.9])
def test_an_answer_that_is_likely_worth_less_than_authentic_is_not_given(worth):
    decision = sure_decision(worth)
    for probability, given in ((decision.least - 0.01, False), (decision.least + 0.01, True)):
        sure, doubtful, _ = decide(far_matches(probability), decision)
        assert bool(sure) == given
        assert bool(doubtful) != given


def test_a_second_group_must_be_worth_its_answer_too():
    decision = sure_decision(worth=0.2)
    assert decision.least > SURER
    sure, doubtful, _ = decide(far_matches(0.97, decision.least + 0.01, decision.least - 0.01), decision)
    assert [each.probability for each in sure] == [0.97, pytest.approx(decision.least + 0.01)]
    assert len(doubtful) == 1


def test_groups_that_begin_at_the_same_corner_are_told_apart():
    upper = np.triu(np.ones((20, 20), bool), 3)
    upper[0, 0] = True
    lower = np.tril(np.ones((20, 20), bool), -3)
    lower[0, 0] = True
    one = match_of(as_patch(upper), box(100, 100, 20, 20), probability=0.9)
    other = match_of(as_patch(lower), box(50, 200, 20, 20), probability=0.3)
    sure, doubtful, _ = decide([one, other], sure_decision())
    assert len(sure) == len(doubtful) == 1


def test_a_weak_match_that_shares_the_source_does_not_join_the_answer():
    source, copy, other = box(10, 10, 20, 20), box(100, 40, 20, 20), box(60, 170, 20, 20)
    strong = match_of(source, copy, similarity(20, around=source.centre, to=copy.centre), probability=0.97)
    for probability, joins in ((SURER - 0.01, False), (SURER + 0.01, True)):
        weak = match_of(source, other, similarity(130, around=source.centre, to=other.centre), probability=probability)
        (group,), doubtful, _ = decide([strong, weak], sure_decision())
        assert group.mask(SHAPE)[70, 180] == joins
        assert doubtful == []


def copies_of_one(count):
    """Matches from one region to so many others, each turned in its own way."""
    source = box(10, 10, 15, 15)
    places = [box(40 * number, 90 + 25 * (number % 2), 15, 15) for number in range(count)]
    return [
        match_of(source, place, similarity(50 * number, around=source.centre, to=place.centre), probability=0.95)
        for number, place in enumerate(places)
    ]


def test_a_group_in_more_places_than_anyone_copies_to_is_left_out():
    some, many = copies_of_one(MOST_REGIONS - 1), copies_of_one(MOST_REGIONS)
    (group,), _, _ = decide(some, sure_decision())
    assert len(group.matches) == MOST_REGIONS - 1
    sure, (doubtful,), probability = decide(many, sure_decision())
    assert (sure, probability) == ([], 0)
    assert len(doubtful.matches) == MOST_REGIONS


def test_beside_a_group_in_many_places_another_is_still_the_answer():
    single = match_of(box(150, 10, 15, 15), box(170, 160, 15, 15), probability=0.9)
    (group,), doubtful, probability = decide([*copies_of_one(MOST_REGIONS), single], sure_decision())
    assert group.matches == (single,)
    assert len(doubtful) == 1
    assert probability == pytest.approx(0.9)


ORDINARY = {
    "grain_deviation": 9.0,
    "stored_contrast": 9.0,
    "worst_quadrant": 1.0,
    "worst_quadrant_denoised": 1.0,
    "deformation": 0.0,
    "detail_autocorrelation": 0.5,
    "grain_autocorrelation": 0.5,
    "denoised": 0.0,
    "denoised_autocorrelation": 0.5,
    "band_pass": 0.0,
    "band_pass_autocorrelation": 0.5,
}
"""What is measured of a pair beside detail and grain, with nothing strange about it."""


class Pairs:
    """A tier that finds so many pairs, each between two places of its own, one as good as another."""

    def __init__(self, count):
        places = [(30 * (number // 2), 60 * (number % 2)) for number in range(count)]
        self.found = [match_of(box(y, x, 20, 20), box(y, x + 150, 20, 20), **ORDINARY) for y, x in places]

    def find(self, _canvas, _clock):
        return self.found


@pytest.mark.parametrize(("count", "kept"), [(1, 1), (MOST_PEERS + 1, MOST_PEERS + 1), (MOST_PEERS + 2, 0)])
def test_pairs_that_are_as_good_as_many_others_are_no_evidence(count, kept):
    noise = np.random.default_rng(0).normal(120, 30, (500, 300)).clip(0, 255).astype(np.uint8)
    detector = Detector(decision=PLAIN, panels=None, keypoints=None, blots=None, objects=Pairs(count))
    assert len(detector.match(canvas_of(noise), Clock(9))) == kept


class Copies:
    """A tier that finds every pair of some copies of one object."""

    def find(self, _canvas, _clock):
        places = [box(10 + 60 * number, 40, 20, 20) for number in range(4)]
        return [match_of(one, other, **ORDINARY) for one, other in itertools.combinations(places, 2)]


@pytest.mark.parametrize(("others", "kept"), [(MOST_ALIKE - 1, True), (MOST_ALIKE, False)])
def test_where_everything_is_alike_the_best_pair_is_no_evidence(others, kept):
    """A lattice of dots: of thousands of pairs one is the most alike."""
    noise = np.random.default_rng(0).normal(120, 30, (500, 300)).clip(0, 255).astype(np.uint8)
    tier = Pairs(1)
    (best,) = tier.found
    tier.found += [replace(best, evidence=best.evidence | {"detail": 0.1, "grain": 0.1}) for _ in range(others)]
    detector = Detector(decision=PLAIN, panels=None, keypoints=None, blots=None, shifts=None, objects=tier)
    found = detector.match(canvas_of(noise), Clock(9))
    assert any(match.evidence["grain"] == best.evidence["grain"] for match in found) == kept


def test_further_copies_of_an_object_are_no_peers_of_it():
    noise = np.random.default_rng(0).normal(120, 30, (500, 300)).clip(0, 255).astype(np.uint8)
    detector = Detector(decision=PLAIN, panels=None, keypoints=None, blots=None, objects=Copies())
    found = detector.match(canvas_of(noise), Clock(9))
    assert [match.evidence["peers"] for match in found] == [1.0] * 6  # of each pair only the one of the two others


def test_what_only_letters_and_lines_can_be_is_no_evidence(monkeypatch):
    """Where it was not told from a photograph before."""
    monkeypatch.setattr(canvas_module, "find_drawn", lambda grey, *_: np.zeros(grey.shape, bool))
    drawn = np.where(np.random.default_rng(0).random((160, 220)) < 0.65, 0, 255).astype(np.uint8)
    drawn[60:150, 120:210] = drawn[5:95, 5:95]
    canvas = canvas_of(drawn)
    found = DETECTOR.keypoints.find(canvas, Clock(9))
    assert found
    for match in found:
        assert measure(canvas, interior(match.source), match.matrix)["grain_deviation"] > DRAWN
    assert Detector(decision=PLAIN, objects=None).match(canvas, Clock(9)) == []


@pytest.mark.parametrize(("copied", "expected"), [(False, True), (True, False)])
def test_a_plate_with_a_gutter_in_its_middle_repeats_unless_its_noise_was_copied(copied, expected):
    random = np.random.default_rng(3)
    rows, columns = np.indices((300, 640))
    wells = 40 * np.cos(2 * np.pi * rows / 20) * np.cos(2 * np.pi * columns / 20)
    plate = 120 + wells + cv2.GaussianBlur(random.normal(0, 60, wells.shape), (0, 0), 1.5)
    plate[:, 150:170] = plate[:, 470:490] = 20
    if copied:
        plate[60:240, 360:600] = plate[60:240, 40:280]
    canvas = canvas_of(plate + random.normal(0, 4, plate.shape))
    whole = Patch(60, 40, np.ones((180, 240), bool))
    match = Match(whole, Patch(60, 360, whole.mask), similarity(to=(320, 0)), "key points", {"band_pass": 0.95})
    assert repeats(canvas, match) == expected


@pytest.mark.parametrize(("step", "kept"), [(0, True), (40, False)])
def test_a_plate_that_fits_beside_its_copy_as_well_is_no_copy(step, kept):
    """Two photographs of wells, or of wells with one thing among them that is there once."""
    rows, columns = np.indices((260, 440))
    wells = (
        40 * np.cos(2 * np.pi * rows / 40) * np.cos(2 * np.pi * columns / 40) if step else texture(4, (260, 440)) - 128
    )
    picture = 120 + wells + np.random.default_rng(1).normal(0, 6, (260, 440))
    there = (slice(80, 180), slice(280, 380))
    picture[there] = 120 + wells[80:180, 40:140] + np.random.default_rng(2).normal(0, 6, (100, 100))
    whole = Patch(80, 40, np.ones((100, 100), bool))
    match = Match(whole, Patch(80, 280, whole.mask), similarity(to=(240, 0)), "panels", {})

    class Found:
        def find(self, canvas, clock):
            return [match]

    tiers = dict.fromkeys(("keypoints", "blots", "shifts", "objects"))
    found = Detector(decision=PLAIN, panels=Found(), **tiers).match(canvas_of(picture), Clock(9))
    assert bool(found) == kept


@pytest.mark.parametrize(("wells", "band_pass", "expected"), [(0, 0.1, False), (40, 0.1, True), (40, 0.999, False)])
def test_what_fits_nowhere_does_not_repeat(wells, band_pass, expected):
    """Under much noise a copy fits on its source no better than beside it, which says nothing."""
    rows, columns = np.indices((260, 440))
    picture = 120 + wells * np.cos(2 * np.pi * rows / 40) * np.cos(2 * np.pi * columns / 40)
    picture += np.random.default_rng(1).normal(0, 6, picture.shape)
    whole = Patch(80, 40, np.ones((100, 100), bool))
    match = Match(whole, Patch(80, 280, whole.mask), similarity(to=(240, 0)), "panels", {"band_pass": band_pass})
    assert repeats(canvas_of(picture), match) == expected


def test_an_arrow_on_a_copy_does_not_spoil_its_evidence():
    source = np.zeros((220, 320), bool)
    source[50:140, 30:120] = True
    forged, _, _ = paste(texture(6, (220, 320), level=90, contrast=25), source, (110, 240), gain=1.0)
    cv2.arrowedLine(forged, (210, 90), (270, 130), 255, 8, tipLength=0.4)
    arrow = cv2.dilate((forged > 250).astype(np.uint8), np.ones((9, 9))) > 0
    canvas = canvas_of(forged)
    canvas = replace(canvas, blocked=canvas.blocked | arrow)
    found = Detector(decision=PLAIN, objects=None, shifts=None).match(canvas, Clock(9))
    assert found
    assert min(match.evidence["correlation"] for match in found) > 0.95


def test_scoring_gives_each_match_its_probability():
    good, bad = (
        match_of(box(0, 0, 9, 9), box(50, 50, 9, 9), detail=0.95),
        match_of(box(0, 0, 9, 9), box(50, 50, 9, 9), detail=0.1),
    )
    one, other = score_matches([good, bad], PLAIN.verifier)
    assert one.probability > other.probability
    assert one.source is good.source


# --- hostile pictures -----------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
ODD = {
    "one pixel": np.zeros((1, 1), np.uint8),
    "two pixels": np.array([[0, 255]], np.uint8),
    "one row": np.arange(200, dtype=np.uint8)[None],
    "one column of 16 bits": (np.arange(3000, dtype=np.uint16) * 20)[:, None],
    "black": np.zeros((120, 150), np.uint8),
    "white": np.full((120, 150, 3), 255, np.uint8),
    "grey of 16 bits": np.full((120, 150), 30_000, np.uint16),
    "noise": RANDOM.integers(0, 256, (150, 160), np.uint8),
    "noise in colour": RANDOM.integers(0, 256, (100, 120, 3), np.uint8),
    "noise of 16 bits": RANDOM.integers(0, 65_536, (100, 120), np.uint16),
    "noise with alpha": RANDOM.integers(0, 256, (90, 80, 4), np.uint8),
    "faint noise": RANDOM.integers(100, 103, (150, 150), np.uint8),
    "checkerboard": (np.indices((200, 200)).sum(axis=0) // 10 % 2 * 255).astype(np.uint8),
    "stripes": np.tile(np.repeat(np.array([0, 255], np.uint8), 4), (200, 25)),
    "two levels": ((texture(1, (160, 200)) > 128) * 255).astype(np.uint8),
    "wide": stored(texture(2, (12, 2500))),
    "tall": stored(texture(2, (2500, 12))),
    "one bright pixel": np.pad(np.full((1, 1), 255, np.uint8), 60),
    "ramp": np.tile(np.linspace(0, 255, 200).astype(np.uint8), (150, 1)),
    "tiny textures": stored(texture(1, (9, 9))),
    "steps": np.repeat(np.repeat(RANDOM.integers(0, 256, (6, 6), np.uint8), 30, axis=0), 30, axis=1),
}

REPEATED = ("checkerboard", "stripes", "steps")
"""Pictures in which everything is a copy of something."""


@pytest.mark.parametrize("kind", ODD)
def test_odd_pictures_are_looked_at_calmly(kind):
    picture = ODD[kind]
    found = DETECTOR.look(picture, 0.3)
    assert found.shape == picture.shape[:2]
    assert 0 <= found.probability <= 1
    for group in (*found.groups, *found.doubtful):
        assert group.mask(found.shape).any()  # and lies inside
    assert kind in REPEATED or not found.forged


def test_not_contiguous_pictures_are_fine():
    picture = stored(texture(1, (160, 200)))
    assert DETECTOR.look(picture.T[::-1, ::2], 0.5).shape == (200, 80)
