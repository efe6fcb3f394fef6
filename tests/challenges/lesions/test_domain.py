"""Pictures of another kind are told from photographs of skin; few of these are taken for something else."""

import cv2
import numpy as np
import pytest

from handlens import load
from handlens.challenges.lesions.domain import LesionsDomain, fit_domain, statistics


def skin(seed):
    """A brown spot on skin under some light."""
    rng = np.random.default_rng(seed)
    picture = np.ones((90, 120, 3)) * rng.normal([205, 160, 140], [12, 10, 10])
    cv2.circle(picture, (60, 45), int(rng.integers(10, 25)), rng.normal([120, 75, 60], 8).tolist(), -1)
    picture = cv2.GaussianBlur(picture + rng.normal(0, 6, picture.shape), (0, 0), rng.uniform(0.8, 1.6))
    return np.clip(picture, 0, 255).astype(np.uint8)


def chart():
    picture = np.full((200, 300, 3), 255, np.uint8)
    for at in range(20, 300, 40):
        cv2.rectangle(picture, (at, 200 - at // 2), (at + 20, 190), (30, 90, 200), -1)
    return picture


def stained():
    """Purple nuclei on pink."""
    rng = np.random.default_rng(0)
    picture = np.full((200, 200, 3), (225, 170, 215), np.uint8)
    for x, y in rng.integers(0, 200, (150, 2)).tolist():
        cv2.circle(picture, (x, y), 5, (90, 50, 140), -1)
    return picture


@pytest.fixture(scope="module")
def domain():
    return fit_domain([skin(seed) for seed in range(300)])


def test_most_photographs_of_the_kind_are_accepted(domain):
    assert np.mean([bool(domain.warnings(skin(seed))) for seed in range(1000, 1200)]) < 0.06


@pytest.mark.parametrize(
    "make", [chart, stained, lambda: np.zeros((50, 50, 3), np.uint8)], ids=["chart", "stained", "black"]
)
def test_other_pictures_are_warned_about(domain, make):
    (words,) = domain.warnings(make())
    assert "does not look like the photographs of skin lesions" in words
    assert domain.warnings(np.full((60, 60, 3), 9, np.uint8)) == (words,)  # the same for all, so that it is said once


def test_a_domain_survives_its_json(domain):
    assert LesionsDomain.parse(domain.plain()) == domain
    assert statistics(skin(1)).shape == (len(domain.centre),)


def test_the_included_model_warns_of_what_is_no_lesion(tmp_path):
    predictor = load("lesions")
    for picture in (chart(), stained()):
        result = predictor(picture)
        assert len(result.warnings) == 1
        assert "Warning" in result._repr_html_()
