"""From probabilities to a mask: the same however the rows come, the same after JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from handlens.challenges.cells.decision import CellsDecision, SlideThreshold
from handlens.errors import HandlensError
from handlens.masks.rle import decode

SHAPE = (90, 70)


@pytest.fixture(scope="module")
def probability() -> np.ndarray:
    import cv2

    noise = np.random.default_rng(0).random(SHAPE, np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2)
    return ((smooth - smooth.min()) / (smooth.max() - smooth.min())).astype(np.float32)


DECISIONS = [
    CellsDecision(threshold=0.5),
    CellsDecision(threshold=0.45, smallest=12, largest_hole=9),
    CellsDecision(threshold=0.5, down=1.25, right=-0.5, margin=6, smallest=5, largest_hole=30),
    CellsDecision(threshold=0.5, down=-4, right=4, margin=100),
    CellsDecision(threshold=0.5, slide=SlideThreshold(offset=0.2, slope=0.5), down=1, sizes=((90, 70), (1000, 1000))),
]


@pytest.mark.parametrize("decision", DECISIONS, ids=repr)
@pytest.mark.parametrize("rows", [1, 3, 7, 32, 89])
@pytest.mark.parametrize("contest", [True, False])
def test_how_high_bands_are_changes_nothing(
    decision: CellsDecision, rows: int, contest: bool, probability: np.ndarray
) -> None:
    whole = decision.apply([(0, probability.copy())], SHAPE, contest=contest)
    seen = []
    bands = [(top, probability[top : top + rows].copy()) for top in range(0, SHAPE[0], rows)]
    cut = decision.apply(bands, SHAPE, lambda top, band: seen.append((top, band.copy())), contest=contest)
    assert np.array_equal(whole.starts, cut.starts)
    assert np.array_equal(whole.lengths, cut.lengths)
    assert [top for top, _ in seen] == np.cumsum([0, *(len(band) for _, band in seen)])[:-1].tolist()
    assert sum(len(band) for _, band in seen) == SHAPE[0]


def test_a_threshold_is_exceeded_not_reached() -> None:
    rows = np.array([[0.25, 0.5, 0.75]], np.float32)
    found = CellsDecision(threshold=0.5).apply([(0, rows)], (1, 3), contest=True)
    assert decode(found, (1, 3), order="rows").tolist() == [[False, False, True]]


def mask_of(decision: CellsDecision, probability: np.ndarray, *, contest: bool) -> np.ndarray:
    shape = (probability.shape[0], probability.shape[1])
    return decode(decision.apply([(0, probability.copy())], shape, contest=contest), shape, order="rows")


def test_only_images_of_the_contest_follow_its_labels(probability: np.ndarray) -> None:
    """Of its layout and its size: moved, faded, and by its threshold. All others lie where the nuclei are."""
    plain = CellsDecision(threshold=0.5)
    habits = plain.replace(down=2.0, right=-1.0, margin=9, sizes=(SHAPE,))
    assert np.array_equal(mask_of(habits, probability, contest=False), probability > 0.5)
    assert np.array_equal(mask_of(habits.replace(sizes=((9, 9),)), probability, contest=True), probability > 0.5)
    moved = mask_of(habits, probability, contest=True)
    assert np.array_equal(moved, mask_of(habits.replace(sizes=()), probability, contest=True))
    assert np.array_equal(moved[11:-9, 9:-9], (probability > 0.5)[9:-11, 10:-8])
    assert not moved[:4].any()


def test_a_slide_in_which_little_is_found_gets_a_lower_threshold(probability: np.ndarray) -> None:
    rule = SlideThreshold(offset=1.0, slope=1.0)
    decision = CellsDecision(threshold=0.5, slide=rule)
    for faint in (1.0, 0.8, 0.6):
        levels = np.rint(probability * faint * 255)
        expected = levels > 255 * rule.threshold((levels > 127.5).mean())
        assert np.array_equal(mask_of(decision, probability * np.float32(faint), contest=False), expected)
    shares = [0.0, 1e-9, 0.01, 0.1, 0.2, 0.5, 1.0]
    thresholds = [rule.threshold(share) for share in shares]
    assert thresholds == sorted(thresholds)
    assert (thresholds[0], thresholds[1], thresholds[-1]) == (0.06, 0.06, 0.6)
    kept = mask_of(decision, probability, contest=True)
    assert np.array_equal(kept, probability > 0.5)  # the contest's keep the threshold that was fitted on them


def test_nothing_and_everything_have_a_threshold() -> None:
    decision = CellsDecision(threshold=0.5, slide=SlideThreshold(offset=0.0, slope=1.0))
    assert not mask_of(decision, np.zeros((7, 5), np.float32), contest=False).any()
    assert mask_of(decision, np.ones((7, 5), np.float32), contest=False).all()


def test_a_decision_survives_json() -> None:
    for decision in DECISIONS:
        assert CellsDecision.parse(json.loads(json.dumps(decision.plain()))) == decision


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({}, "threshold"),
        ({"threshold": 1.5}, "threshold is 1.5; expected a number from 0 to 1"),
        ({"threshold": float("nan")}, "threshold is nan; expected a number from 0 to 1"),
        ({"threshold": 0.5, "smallest": -1}, "smallest is -1; expected a whole number from 0 to 100000"),
        ({"threshold": 0.5, "margin": 101}, "margin is 101; expected a whole number from 0 to 100"),
        ({"threshold": 0.5, "turns": 3}, "turns is 3; expected one of 1, 2, 4, 8"),
        ({"threshold": 0.5, "odd": 4}, "there is no field odd; there are threshold, smallest"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(page: dict[str, float], message: str) -> None:
    with pytest.raises(HandlensError, match=message):
        CellsDecision.parse(page)
