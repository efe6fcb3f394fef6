"""From probabilities to a mask: the same however the rows come, the same after JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from handlens.challenges.cells.decision import CellsDecision
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
]


@pytest.mark.parametrize("decision", DECISIONS, ids=repr)
@pytest.mark.parametrize("rows", [1, 3, 7, 32, 89])
def test_how_high_bands_are_changes_nothing(decision: CellsDecision, rows: int, probability: np.ndarray) -> None:
    whole = decision.apply([(0, probability.copy())], SHAPE)
    seen = []
    bands = [(top, probability[top : top + rows].copy()) for top in range(0, SHAPE[0], rows)]
    cut = decision.apply(bands, SHAPE, lambda top, band: seen.append((top, band.copy())))
    assert np.array_equal(whole.starts, cut.starts)
    assert np.array_equal(whole.lengths, cut.lengths)
    assert [top for top, _ in seen] == np.cumsum([0, *(len(band) for _, band in seen)])[:-1].tolist()
    assert sum(len(band) for _, band in seen) == SHAPE[0]


def test_a_threshold_is_exceeded_not_reached() -> None:
    rows = np.array([[0.25, 0.5, 0.75]], np.float32)
    assert decode(CellsDecision(threshold=0.5).apply([(0, rows)], (1, 3)), (1, 3), order="rows").tolist() == [
        [False, False, True]
    ]


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
        ({"threshold": 0.5, "turns": 4}, "turns is 4; expected one of 1, 8"),
        ({"threshold": 0.5, "odd": 4}, "there is no field odd; there are threshold, smallest"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(page: dict[str, float], message: str) -> None:
    with pytest.raises(HandlensError, match=message):
        CellsDecision.parse(page)
