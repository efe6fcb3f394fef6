"""Channels beside their merge are alike and no copies."""

import numpy as np
import pytest
from detector_pictures import PLACES, box, canvas_of, match_of, nuclei, similarity, stored

from handlens.challenges.forgery.detect.geometry.outline import trimmed
from handlens.challenges.forgery.detect.verifier.fields import recoloured, soft_chroma, split_fields

SIDE, GUTTER = 300, 10
PITCH = SIDE + GUTTER
GREEN = np.array([0.1, 1.0, 0.1])


def figure_of(*rows):
    """Panels of one size on white paper, with gutters between and around them."""
    height, width = len(rows) * PITCH + GUTTER, max(map(len, rows)) * PITCH + GUTTER
    paper = np.full((height, width, 3), 255.0)
    for down, row in enumerate(rows):
        for across, panel in enumerate(row):
            top, left = GUTTER + down * PITCH, GUTTER + across * PITCH
            paper[top : top + SIDE, left : left + SIDE] = panel if panel.ndim == 3 else panel[:, :, None]
    return canvas_of(stored(paper))


def in_panel(across, down, top, left, side=20):
    """A square in one of the panels."""
    return box(GUTTER + down * PITCH + top, GUTTER + across * PITCH + left, side, side)


def noisy(panel, seed=0):
    return np.clip(panel + np.random.default_rng(seed).normal(0, 6, panel.shape), 0, 255)


def channel_and_merge():
    """One field in green, and in green and red."""
    green, red = nuclei(2)[0], nuclei(3)[0]
    none = np.zeros_like(green)
    return np.dstack([none, green, none]), np.dstack([red, green, none])


def difference(picture, match):
    return recoloured(soft_chroma(canvas_of(stored(picture))), match)


def test_channels_of_one_field_are_no_copies():
    """Another channel, a channel, and its merge in colour to the right of both."""
    grey = nuclei(2)[0]
    canvas = figure_of([noisy(grey), grey, grey[:, :, None] * GREEN], [noisy(grey, 1)] * 3)
    channel, merge, other, below = (in_panel(*place, 40, 40) for place in ((1, 0), (2, 0), (0, 0), (0, 1)))
    to_merge, to_other = match_of(channel, merge), match_of(other, channel)
    turned = match_of(other, channel, similarity(90, around=other.centre, to=channel.centre))
    elsewhere = match_of(channel, below)
    assert split_fields(canvas, [to_merge, to_other, turned, elsewhere]) == ([turned, elsewhere], [to_merge, to_other])
    assert split_fields(canvas, [to_other]) == ([to_other], []), "nothing says that these are channels"
    assert split_fields(canvas, [match_of(below, merge)]) == ([], []), "of other colours elsewhere it is neither"


def test_channels_with_nothing_in_common_are_one_field_beside_their_merge():
    one, other = nuclei(2, PLACES[:4])[0], nuclei(3, PLACES[4:])[0]
    canvas = figure_of([one, other, np.dstack([other, one, np.zeros_like(one)])])
    views = [in_panel(across, 0, 40, 40) for across in range(3)]
    between = match_of(views[0], views[1])
    to_merge = [match_of(each, views[2]) for each in views[:2]]
    assert split_fields(canvas, [between, *to_merge]) == ([], [between, *to_merge])
    assert split_fields(canvas, [between, to_merge[0]]) == ([between], [to_merge[0]])


def test_a_panel_used_twice_as_far_apart_as_a_channel_and_its_merge_is_a_copy():
    """Below the channel and its merge, so that panels everywhere in the figure are as far apart as these."""
    channel, merge = channel_and_merge()
    used = nuclei(5)[0]
    figure = figure_of([channel, merge], [used, used])
    field = match_of(in_panel(0, 0, 40, 40), in_panel(1, 0, 40, 40))
    whole = match_of(in_panel(0, 1, 0, 0, SIDE), in_panel(1, 1, 0, 0, SIDE))
    part = match_of(in_panel(0, 1, 50, 50), in_panel(1, 1, 50, 50))
    assert split_fields(figure, [field, whole, part]) == ([whole, part], [field])


@pytest.mark.parametrize("across", [0, 1])
def test_a_panel_used_twice_beside_a_field_is_a_copy(across):
    """To the last detail it is no other channel, though the panel that was used is a view of a field."""
    views = channel_and_merge()
    figure = figure_of([*views, views[across]])
    field = match_of(in_panel(0, 0, 40, 40), in_panel(1, 0, 40, 40))
    twice = match_of(in_panel(across, 0, 40, 40), in_panel(2, 0, 40, 40))
    assert split_fields(figure, [field, twice]) == ([twice], [field])


def test_a_region_copied_along_a_row_of_one_view_is_a_copy():
    channel, merge = channel_and_merge()
    merge[30:70, 180:220] = merge[30:70, 30:70]
    figure = figure_of([channel, merge], [nuclei(5)[0], nuclei(6)[0]])
    field = match_of(in_panel(0, 0, 40, 40), in_panel(1, 0, 40, 40))
    clone = match_of(in_panel(1, 0, 40, 40), in_panel(1, 0, 40, 190))
    assert split_fields(figure, [field, clone]) == ([clone], [field])


def test_what_only_one_channel_shows_is_the_same_field_in_the_merge():
    """In the merge a green nucleus with no red one near it looks as it does in the green channel."""
    green, red = nuclei(2)[0], nuclei(3)[0].copy()
    red[:, :120] = 0
    paper, none = np.full((len(green), 8, 3), 255.0), np.zeros_like(green)
    merge, channel = np.dstack([red, green, none]), np.dstack([none, green, none])
    width = green.shape[1] + 8
    merge[200:240, 30:70] = merge[30:70, 30:70]
    channels = canvas_of(stored(np.hstack([channel, paper, merge])))
    nucleus = box(40, 40, 20, 20)
    same = match_of(nucleus, box(40, 40 + width, 20, 20))
    assert split_fields(channels, [same]) == ([], [same])
    elsewhere = match_of(nucleus, box(210, 40 + width, 20, 20))
    assert split_fields(channels, [elsewhere]) == ([elsewhere], [])
    other = np.dstack([red, np.roll(green, 90, axis=1), none])
    other[40:60, 40:60] = channel[40:60, 40:60]
    pasted = canvas_of(stored(np.hstack([channel, paper, other])))
    assert split_fields(pasted, [same]) == ([same], []), "copied by chance to the same place of another field"
    twice = canvas_of(stored(np.hstack([channel, paper, channel])))
    assert split_fields(twice, [same]) == ([same], []), "a panel used twice is a copy"


def test_colours_are_told_apart_and_contrast_is_not():
    picture, masks = nuclei(2)
    grey = np.repeat(picture[:, :, None], 3, axis=2)
    regions = [trimmed(0, 0, mask) for mask in masks[:2]]
    for tint, low, high in (((1.0, 0.4, 0.4), 0.5, 1.0), ((1.0, 1.0, 1.0), 0.0, 0.05)):
        coloured = grey.copy()
        coloured[regions[1].window] *= tint
        assert low <= difference(coloured, match_of(*regions)) <= high
    green = grey * [0.2, 1.0, 0.2]
    green[regions[1].window] *= 1.3
    assert difference(green, match_of(*regions)) < 0.2
