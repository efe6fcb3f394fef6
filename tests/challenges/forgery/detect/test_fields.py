"""Channels beside their merge are alike and no copies."""

import numpy as np
import pytest
from detector_pictures import box, canvas_of, match_of, nuclei, similarity, stored

from handlens.challenges.forgery.detect.geometry.outline import trimmed
from handlens.challenges.forgery.detect.verifier.fields import recoloured, soft_chroma, split_fields


@pytest.fixture(scope="module")
def canvas():
    """Grey on the left, green from column 200 on."""
    picture = np.repeat(nuclei(2)[0][:, :, None], 3, axis=2)
    picture[:, 200:] = 120 * np.array([0.1, 1.0, 0.1])
    return canvas_of(stored(picture))


def difference(picture, match):
    return recoloured(soft_chroma(canvas_of(stored(picture))), match)


def test_channels_of_one_field_are_no_copies(canvas):
    """A channel, its merge in colour to the right of it, and another channel to the left of both."""
    channel, merge, other, below = box(40, 110, 20, 20), box(40, 210, 20, 20), box(40, 10, 20, 20), box(200, 60, 20, 20)
    to_merge, to_other = match_of(channel, merge), match_of(other, channel)
    turned = match_of(other, channel, similarity(90, around=other.centre, to=channel.centre))
    elsewhere = match_of(channel, below)
    assert split_fields(canvas, [to_merge, to_other, turned, elsewhere]) == ([turned, elsewhere], [to_merge, to_other])
    assert split_fields(canvas, [to_other]) == ([to_other], []), "nothing says that these are channels"
    assert split_fields(canvas, [match_of(below, merge)]) == ([], []), "of other colours elsewhere it is neither"


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
