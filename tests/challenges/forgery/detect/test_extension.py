"""Extension: what was copied around an object belongs to the copy, what only looks like it does not."""

import numpy as np
import pytest
from detector_pictures import as_patch, canvas_of, f1, match_of, painted, paste, points_of, texture

from handlens.challenges.forgery.detect import extension as extension_module
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.extension import Extension
from handlens.challenges.forgery.detect.verifier.evidence import measure

SHAPE = (240, 360)
SOURCE, TARGET = (110, 90), (120, 260)
"""Middles, as row and column, of what is copied and of its copy."""


def disc(radius, middle=SOURCE):
    rows, columns = np.indices(SHAPE)
    return np.hypot(rows - middle[0], columns - middle[1]) <= radius


def copied(radius, turn=0.0, tier="objects", probability=0.6, inner=12):
    """A texture of which a disc lies twice: canvas, a match of an inner disc, and what was copied."""
    forged, there, matrix = paste(texture(3, SHAPE, blur=2), disc(radius), TARGET, turn)
    canvas = canvas_of(forged)
    evidence = measure(canvas, points_of(disc(inner)), matrix)
    match = match_of(as_patch(disc(inner)), as_patch(disc(inner, TARGET)), matrix, probability, tier, **evidence)
    return canvas, match, disc(radius) | there


def grown(canvas, *matches, extension=None, seconds=60.0):
    return list((extension or Extension()).extend(canvas, matches, Clock(seconds)))


def both(match):
    return painted(match.source, SHAPE) | painted(match.copy, SHAPE)


@pytest.mark.parametrize("turn", [0, 90, 20])
def test_the_whole_region_is_found_from_one_object(turn):
    canvas, match, true = copied(45, turn)
    (found,) = grown(canvas, match)
    assert f1(both(found), true) > 0.9
    assert f1(both(match), true) < 0.2
    assert found.evidence["pixels"] > match.evidence["pixels"]
    assert found.probability == match.probability


def test_a_large_object_grows_too():
    canvas, match, true = copied(80, inner=45)
    (found,) = grown(canvas, match)
    assert f1(both(found), true) > 0.9


def test_an_object_under_a_mark_is_left_as_it_is():
    canvas, match, _ = copied(45)
    canvas.blocked[:] = True
    (found,) = grown(canvas, match)
    assert found.source.area == match.source.area


def test_an_object_that_was_copied_alone_stays_one():
    canvas, match, true = copied(13)
    (found,) = grown(canvas, match)
    assert f1(both(found), true) > 0.8


def test_a_second_object_of_the_same_region_says_nothing_new():
    canvas, match, true = copied(45)
    inner = match_of(as_patch(disc(9)), as_patch(disc(9, TARGET)), match.matrix, 0.5, **match.evidence)
    found = grown(canvas, inner, match)
    assert len(found) == 1
    assert f1(both(found[0]), true) > 0.9


def test_an_object_whose_surroundings_are_bent_is_no_copy(monkeypatch):
    canvas, match, _ = copied(45)
    bent = {"deformation": 0.7, "pixels": 4000.0}
    monkeypatch.setattr(extension_module, "measure", lambda *measured: measure(*measured) | bent)
    assert grown(canvas, match) == []


def test_other_tiers_are_left_alone():
    canvas, match, _ = copied(45, tier="key points")
    assert grown(canvas, match) == [match]


@pytest.mark.parametrize(
    ("extension", "seconds"), [(Extension(most=0), 60.0), (Extension(), 0.0)], ids=["most", "time"]
)
def test_without_looks_or_time_an_object_keeps_its_halo_at_most(extension, seconds):
    canvas, match, _ = copied(45)
    (found,) = grown(canvas, match, extension=extension, seconds=seconds)
    assert found.source.area < 4 * match.source.area


def test_two_honest_places_do_not_grow():
    canvas = canvas_of(texture(3, SHAPE, blur=2))
    matrix = np.array([[1, 0, TARGET[1] - SOURCE[1]], [0, 1, TARGET[0] - SOURCE[0]]], float)
    evidence = measure(canvas, points_of(disc(12)), matrix)
    match = match_of(as_patch(disc(12)), as_patch(disc(12, TARGET)), matrix, **evidence)
    (found,) = grown(canvas, match)
    assert found.source.area < 2 * match.source.area
