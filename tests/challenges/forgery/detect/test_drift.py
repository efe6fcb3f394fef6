"""Drift: parts of one copy agree on its transform, parts of two sections nearly, unrelated copies not at all."""

import time

import numpy as np
import pytest
from detector_pictures import similarity

from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.challenges.forgery.detect.geometry.outline import inverse
from handlens.challenges.forgery.detect.verifier.drift import with_drift

PLACES = [(100, 100), (160, 110), (120, 180)]
"""Middles of three objects, as x, y."""


def pair(place, shift, turn=0.0, *, backwards=False):
    """A match of an object of 21 pixels with another one."""
    matrix = similarity(turn, around=place, to=(place[0] + shift[0], place[1] + shift[1]))
    patches = [
        Patch(round(y) - 10, round(x) - 10, np.ones((21, 21), bool))
        for x, y in (place, (place[0] + shift[0], place[1] + shift[1]))
    ]
    if backwards:
        return Match(patches[1], patches[0], inverse(matrix), "objects", {})
    return Match(*patches, matrix, "objects", {})


def drifts(*matches):
    return [match.evidence["drift"] for match in with_drift(matches)]


def test_what_was_moved_in_one_go_does_not_drift():
    assert drifts(*(pair(place, (300, 20)) for place in PLACES)) == [0, 0, 0]


@pytest.mark.parametrize("backwards", [False, True])
def test_sections_of_one_tissue_drift(backwards):
    moves = [(300, 20), (304, 18), (297, 23)]
    matches = [pair(place, move) for place, move in zip(PLACES, moves, strict=True)]
    matches[1] = pair(PLACES[1], moves[1], backwards=backwards)
    assert drifts(*matches) == [2, 2, 2]


def test_witnesses_are_asked_and_not_given_back():
    first, *others = (pair(place, move) for place, move in zip(PLACES, [(300, 20), (304, 18), (297, 23)], strict=True))
    (found,) = with_drift([first], witnesses=others)
    assert found.source is first.source
    assert found.evidence["drift"] == 2


def test_copies_that_have_nothing_to_do_with_each_other_do_not_drift():
    moves = [((300, 20), 0), ((-60, 150), 0), ((301, 22), 40)]  # the last is near, but turned
    assert drifts(*(pair(place, move, turn) for place, (move, turn) in zip(PLACES, moves, strict=True))) == [0, 0, 0]


@pytest.mark.parametrize("turn", [0.0, 176.0, 179.0, 180.0])
@pytest.mark.parametrize("offset", [0, 3, 10])
def test_the_way_back_is_no_witness(turn, offset):
    """A mirror image beside its source, or half a turn, is brought back by nearly the same transform."""
    way = (150, offset)
    matrix = similarity(turn, mirror=turn == 0, around=(100, 100), to=(100 + way[0], 100 + way[1]))
    there = pair((100, 100), way)
    assert drifts(Match(there.source, there.copy, matrix, "objects", {})) == [0]


def test_many_matches_are_compared_in_no_time():
    random = np.random.default_rng(0)
    places = random.uniform(50, 900, (300, 2))
    matches = [pair(tuple(place), (1000 + random.uniform(-3, 3), 20)) for place in places]
    begun = time.process_time()
    assert min(drifts(*matches)) > 0.5
    assert time.process_time() - begun < 3.0


def test_one_that_quite_agrees_makes_up_for_one_that_nearly_does():
    found = drifts(pair(PLACES[0], (300, 20)), pair(PLACES[1], (300, 20)), pair(PLACES[2], (304, 20)))
    assert found == [0.5, 0.5, 2]


def test_an_object_that_was_cut_out_twice_is_no_witness():
    assert drifts(pair((100, 100), (300, 20)), pair((103, 101), (303, 22))) == [0, 0]
    twice = drifts(pair((100, 100), (300, 20)), pair((160, 110), (304, 20)), pair((162, 111), (304, 20)))
    assert twice[0] == 1


def test_of_no_match_and_of_one_there_is_nothing_to_say():
    assert with_drift([]) == []
    assert drifts(pair(PLACES[0], (300, 20))) == [0]
