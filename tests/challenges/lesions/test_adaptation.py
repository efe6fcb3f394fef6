"""A classifier taught another source: it learns that one, and answers its own as before."""

import numpy as np
import pytest

from handlens.challenges.lesions.adaptation import fit_adaptation


def examples(seed, count=400):
    """Two sources that the last feature tells apart; in the second the classes are the other way round."""
    rng = np.random.default_rng(seed)
    source_of = rng.integers(0, 2, count)
    codes = rng.integers(0, 3, count)
    features = rng.normal(0, 0.3, (count, 6)).astype(np.float32)
    shown = np.where(source_of == 0, codes, 2 - codes)
    features[np.arange(count), shown] += 2
    features[:, 5] += 3 * source_of
    return features, codes, source_of


START = (np.vstack([4 * np.eye(3), np.zeros((3, 3))]), np.zeros(3))


def accuracy(logits, codes):
    return float((logits.argmax(axis=1) == codes).mean())


def test_the_other_source_is_learned_and_the_first_is_kept():
    features, codes, source_of = examples(0)
    found = fit_adaptation(features, codes, source_of, importance=np.ones(len(codes)), penalty=0.001, start=START)
    features, codes, source_of = examples(1)
    before, after = features @ START[0] + START[1], found.logits(features, START)
    first = source_of == 0
    assert accuracy(before[~first], codes[~first]) < 0.5
    assert accuracy(after[~first], codes[~first]) > 0.95
    assert accuracy(after[first], codes[first]) >= accuracy(before[first], codes[first]) - 0.01


def test_a_class_that_nobody_has_stays_as_it_was():
    features, codes, source_of = examples(0)
    wide = (np.hstack([START[0], np.ones((6, 1))]), np.zeros(4))
    found = fit_adaptation(features, codes, source_of, importance=np.ones(len(codes)), penalty=0.1, start=wide)
    assert found.other[0].shape == (6, 4)
    assert not found.other[0][:, 3].any()
    assert found.other[1][3] == 0


def test_one_source_alone_is_refused():
    features, codes, source_of = examples(0)
    with pytest.raises(ValueError, match="nothing to tell apart"):
        fit_adaptation(features, codes, source_of * 0, importance=np.ones(len(codes)), penalty=0.1, start=START)
