"""How often photographs are drawn: sources by their weights, classes as in the first."""

from pathlib import Path

import numpy as np
import pytest

from handlens.challenges.lesions.sampling import draw_weights
from handlens.training.sources import Pool, Source
from handlens.types import Truth


def pooled(*source_of, weights=(1.0, 1.0)):
    sources = tuple(Source(Path(str(at)), str(at), weight) for at, weight in enumerate(weights))
    return Pool(sources, Truth((), lambda _: ""), source_of)


def test_one_source_is_drawn_by_the_inverse_class_frequency():
    codes = np.array([0, 0, 0, 0, 1])
    assert draw_weights(codes, pooled(0, 0, 0, 0, 0, weights=(1.0,)), 0.5) == pytest.approx([1, 1, 1, 1, 2])
    assert draw_weights(codes, pooled(0, 0, 0, 0, 0, weights=(1.0,)), 0.0) == pytest.approx([1] * 5)


def test_a_second_source_does_not_change_how_often_classes_are_drawn():
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2])
    drawn = np.array(draw_weights(codes, pooled(*[0] * 5, *[1] * 5), 0.5))
    first = np.array(draw_weights(codes[:5], pooled(*[0] * 5, weights=(1.0,)), 0.5))
    share = np.bincount(codes, drawn)
    assert share[1] / share[0] == pytest.approx(first[4:].sum() / first[:4].sum())
    assert share[2] > 0
