"""Offsets are chosen for the exact score, and held where few examples speak."""

import json

import numpy as np
import pytest

from handlens.challenges.lesions.decision import GRID, LesionsDecision, Search, _sweep, choose, class_shares, worth
from handlens.challenges.lesions.logistic import softmax
from handlens.challenges.lesions.score import score_classes
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.errors import HandlensError

TEN = TAXONOMIES["ten"]


def made(count, *, seed=0, classes=10, rare=0.6):
    """Logits that know something, of classes of which each is rarer than the one before."""
    rng = np.random.default_rng(seed)
    shares = rare ** np.arange(classes)
    codes = rng.choice(classes, count, p=shares / shares.sum())
    logits = rng.normal(size=(count, classes)) + np.log(shares) + 1.5 * np.eye(classes)[codes]
    return logits, codes


@pytest.mark.parametrize("name", TAXONOMIES)
def test_the_score_is_the_challenges_own(name):
    taxonomy = TAXONOMIES[name]
    rng = np.random.default_rng(1)
    for count in (1, 7, 300):
        codes, said = rng.integers(0, len(taxonomy.classes), (2, count))
        parts = score_classes([taxonomy.classes[n] for n in codes], [taxonomy.classes[n] for n in said], taxonomy)
        found = worth(said, codes, class_shares(taxonomy, "prediction"))
        assert found == pytest.approx(parts["Prediction Score"], abs=1e-12)
        mean = np.mean([parts[f"F1 {each}"] for each in taxonomy.classes])
        assert worth(said, codes, class_shares(taxonomy, "macro-f1")) == pytest.approx(mean, abs=1e-12)


def test_a_sweep_is_what_one_value_after_the_other_would_say():
    logits, codes = made(200)
    shares = class_shares(TEN, "prediction")
    there = np.bincount(codes, minlength=10).astype(float)
    for label in (0, 3, 9):
        found = _sweep(logits, label, codes, np.ones(200), there, shares, GRID)
        for place in (0, 20, 25, 50):
            moved = logits + GRID[place] * np.eye(10)[label]
            assert found[place] == pytest.approx(worth(moved.argmax(1), codes, shares), abs=1e-12)


@pytest.mark.parametrize("aim", ["prediction", "macro-f1"])
def test_offsets_help_examples_that_they_were_not_chosen_on(aim):
    logits, codes = made(4000)
    other, other_codes = made(4000, seed=1)
    offsets, temperature = choose(logits, codes, [str(n) for n in range(4000)], TEN, Search(aim=aim))
    shares = class_shares(TEN, aim)
    plain = worth(other.argmax(1), other_codes, shares)
    assert worth((other + offsets).argmax(1), other_codes, shares) > plain + 0.01
    assert abs(offsets.mean()) < 1e-9
    assert 0.2 <= temperature <= 5


def test_few_examples_move_offsets_little():
    """Labels at random: nothing can be learned, and what seems best for 30 of them is not believed."""
    rng = np.random.default_rng(0)
    logits, codes = rng.normal(size=(30, 10)), rng.integers(0, 10, 30)
    groups = [str(n // 2) for n in range(30)]
    free, _ = choose(logits, codes, groups, TEN, Search(redraws=1, penalty=0.0))
    held, _ = choose(logits, codes, groups, TEN, Search())
    assert np.abs(held).max() < 0.7 * np.abs(free).max()
    firm, _ = choose(logits, codes, groups, TEN, Search(penalty=10.0))
    assert np.abs(firm).max() < 0.1


def test_the_same_examples_get_the_same_offsets():
    logits, codes = made(300)
    groups = [str(n) for n in range(300)]
    first, second = (choose(logits, codes, groups, TEN, Search()) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert first[1] == second[1]


def test_one_example_is_enough_for_a_decision():
    offsets, temperature = choose(np.zeros((1, 10)), np.array([3]), ["a"], TEN, Search())
    rows = softmax((np.zeros((1, 10)) + offsets) / temperature)
    assert rows.shape == (1, 10)
    assert rows.sum() == pytest.approx(1)


def test_a_decision_survives_json():
    decision = LesionsDecision(offsets=[0.1, -0.25, 0.0], temperature=0.7943)
    assert LesionsDecision.parse(json.loads(json.dumps(decision.plain()))) == decision


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({}, "offsets"),
        ({"offsets": ["x"]}, "offsets"),
        ({"offsets": [0.0], "temperature": 0}, "temperature is 0; expected a number from 0.001 to 1000"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(page, message):
    with pytest.raises(HandlensError, match=message):
        LesionsDecision.parse(page)
