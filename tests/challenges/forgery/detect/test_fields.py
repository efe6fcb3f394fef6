"""Channels beside their merge are alike and no copies."""

import numpy as np
import pytest
from detector_pictures import box, canvas_of, match_of, nuclei, similarity, stored

from handlens.challenges.forgery.detect.geometry.outline import trimmed
from handlens.challenges.forgery.detect.verifier.fields import recoloured, without_fields


@pytest.fixture(scope="module")
def canvas():
    """Grey on the left, green from column 200 on."""
    picture = np.repeat(nuclei(2)[0][:, :, None], 3, axis=2)
    picture[:, 200:] = 120 * np.array([0.1, 1.0, 0.1])
    return canvas_of(stored(picture))


def test_channels_of_one_field_are_no_copies(canvas):
    """A channel, its merge in colour to the right of it, and another channel to the left of both."""
    channel, merge, other, below = box(40, 110, 20, 20), box(40, 210, 20, 20), box(40, 10, 20, 20), box(200, 60, 20, 20)
    to_merge, to_other = match_of(channel, merge), match_of(other, channel)
    turned = match_of(other, channel, similarity(90, around=other.centre, to=channel.centre))
    elsewhere = match_of(channel, below)
    assert without_fields(canvas, [to_merge, to_other, turned, elsewhere]) == [turned, elsewhere]
    assert without_fields(canvas, [to_other]) == [to_other], "nothing says that these are channels"
    assert without_fields(canvas, [match_of(below, merge)]) == [], "what has other colours is no copy"


def test_colours_are_told_apart_and_contrast_is_not():
    picture, masks = nuclei(2)
    grey = np.repeat(picture[:, :, None], 3, axis=2)
    regions = [trimmed(0, 0, mask) for mask in masks[:2]]
    for tint, low, high in (((1.0, 0.4, 0.4), 0.5, 1.0), ((1.0, 1.0, 1.0), 0.0, 0.05)):
        coloured = grey.copy()
        coloured[regions[1].window] *= tint
        assert low <= recoloured(canvas_of(stored(coloured)), match_of(*regions)) <= high
    green = grey * [0.2, 1.0, 0.2]
    green[regions[1].window] *= 1.3
    assert recoloured(canvas_of(stored(green)), match_of(*regions)) < 0.2
