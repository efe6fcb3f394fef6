"""Near copies share a group, whatever was done to them; photographs that only look alike do not."""

import cv2
import numpy as np
import pytest

from handlens.challenges.lesions.duplicates import join_copies, near_copies
from handlens.challenges.lesions.painting import LOOKS, paint
from handlens.io.images import list_images, read_rgb


def painted(seed, size=160):
    rng = np.random.default_rng([seed, 1])
    name = sorted(LOOKS)[seed % len(LOOKS)]
    return paint(LOOKS[name], (66, 20, 22), np.random.default_rng([seed, 9]), rng, size=size, close=seed % 2 == 0)


def encoded(picture, quality):
    content = cv2.imencode(".jpg", picture[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return np.ascontiguousarray(cv2.imdecode(content, cv2.IMREAD_COLOR)[:, :, ::-1])


CHANGES = {
    "identical": lambda picture: picture.copy(),
    "encoded again": lambda picture: encoded(picture, 60),
    "half the size": lambda picture: cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
    "enlarged": lambda picture: cv2.resize(picture, None, fx=2.5, fy=2.5, interpolation=cv2.INTER_CUBIC),
    "shifted": lambda picture: np.roll(picture, (3, -4), (0, 1)),
    "cut at an edge": lambda picture: picture[4:, 3:],
    "lighter": lambda picture: cv2.convertScaleAbs(picture, alpha=1.1, beta=6),
    "all of it": lambda picture: encoded(cv2.resize(picture[2:, 3:], (120, 90), interpolation=cv2.INTER_AREA), 80),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_is_found(change):
    pictures = [painted(seed) for seed in range(6)]
    copies = [CHANGES[change](picture) for picture in pictures]
    assert near_copies([*pictures, *copies]) == [(number, number + 6) for number in range(6)]


def test_photographs_of_different_lesions_stay_apart():
    assert near_copies([painted(seed, size=96) for seed in range(60)]) == []


def test_flat_pictures_are_copies_where_they_are_of_one_colour():
    flat = [np.full((40, 50, 3), level, np.uint8) for level in (20, 21, 200)]
    assert near_copies(flat) == [(0, 1)]
    assert near_copies([]) == []


def test_groups_are_joined_along_chains():
    pictures = [painted(seed) for seed in range(3)]
    shown = [*pictures, encoded(pictures[0], 70), encoded(pictures[1], 70)]
    groups, joined = join_copies(shown, ["b", "c", "d", "c", "e"])
    assert groups == ["b", "b", "d", "b", "b"]
    assert joined == 2
    groups, joined = join_copies(shown, ["a", "b", "c", "a", "b"])
    assert (groups, joined) == (["a", "b", "c", "a", "b"], 0)


def test_real_photographs_and_their_copies(real_data):
    paths = list_images(real_data / "lesions" / "images")[::100]
    pictures = [read_rgb(path) for path in paths]
    assert near_copies(pictures) == []
    copies = [encoded(picture[3:, 4:], 70) for picture in pictures]
    found = near_copies([*pictures, *copies])
    assert set(found) <= {(number, number + len(pictures)) for number in range(len(pictures))}
    assert len(found) > 0.9 * len(pictures)
