"""Rims: background that was copied with an object belongs to the copy, its own surroundings do not."""

import numpy as np
import pytest
from detector_pictures import as_patch, box, canvas_of, f1, match_of, painted, paste, stored

from handlens.challenges.forgery.detect.canvas.canvas import GRAIN
from handlens.challenges.forgery.detect.geometry.halo import WIDEST, with_halo

SHAPE = (160, 260)
SOURCE, TARGET = (80, 70), (80, 190)
"""Middles, as row and column, of an object and its copy."""


def disc(radius, middle=SOURCE):
    rows, columns = np.indices(SHAPE)
    return np.hypot(rows - middle[0], columns - middle[1]) <= radius


def pasted(halo, turn=0.0, gain=1.0, noise=12, later=0):
    """A bright object on noisy ground, copied with so much of the ground: canvas, true match, what was copied.

    `later` is how much noise came after the copying.
    """
    random = np.random.default_rng(4)
    slope = 4 * (np.arange(SHAPE[1]) - SOURCE[1])  # so that brightness and contrast of the copy can be told
    picture = np.where(disc(14), 150 + slope, 60) + random.normal(0, noise, SHAPE)
    forged, there, matrix = paste(picture.astype(np.float32), disc(14 + halo), TARGET, turn, gain=gain)
    match = match_of(as_patch(disc(14)), as_patch(disc(14, TARGET)), matrix)
    return canvas_of(stored(forged, noise=later)), match, disc(14 + halo), there


@pytest.mark.parametrize("halo", [3, 5])
@pytest.mark.parametrize(("turn", "gain"), [(0, 1.0), (90, 1.0), (0, 0.85)])
def test_a_halo_that_was_copied_is_added_to_both(halo, turn, gain):
    canvas, match, source, copy = pasted(halo, turn, gain)
    found = with_halo(canvas, match)
    assert f1(painted(found.source, SHAPE), source) > 0.95
    assert f1(painted(found.copy, SHAPE), copy) > 0.95
    assert f1(painted(match.source, SHAPE), source) < 0.91
    assert np.array_equal(found.matrix, match.matrix)


@pytest.mark.parametrize(("noise", "later"), [(12, 0), (3, 3)], ids=["much noise", "little noise"])
def test_ground_that_was_not_copied_is_not_added(noise, later):
    canvas, match, _, _ = pasted(halo=0, noise=noise, later=later)
    found = with_halo(canvas, match)
    halo = 2 * GRAIN  # the grain just outside a sharp edge is that of the edge
    assert not (painted(found.source, SHAPE) & ~disc(14 + halo)).any()


def test_it_does_not_grow_without_end():
    canvas, match, _, _ = pasted(halo=40)
    found = with_halo(canvas, match)
    reach = max(found.source.mask.shape) - max(match.source.mask.shape)
    assert 0 < reach <= 2 * WIDEST


@pytest.mark.parametrize("corner", [(0, 0), (0, SHAPE[1] - 20), (SHAPE[0] - 20, 0)])
def test_at_the_border_it_stays_inside(corner):
    canvas, _, _, _ = pasted(halo=0)
    whole = np.eye(2, 3)  # everything agrees with itself
    found = with_halo(canvas, match_of(box(*corner, 20, 20), box(*corner, 20, 20), whole))
    assert painted(found.source, SHAPE).sum() > 20 * 20
    assert min(found.source.top, found.source.left) >= 0


def test_what_is_blocked_or_tiny_is_left_as_it_is():
    canvas, match, _, _ = pasted(halo=5)
    speck = match_of(box(78, 68, 3, 3), box(78, 188, 3, 3))
    assert with_halo(canvas, speck) is speck
    canvas.blocked[:] = True
    assert with_halo(canvas, match) is match
