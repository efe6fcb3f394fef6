"""From the coarse map to a mask: inside the fragment, without specks, the same after JSON."""

import json

import cv2
import numpy as np
import pytest

from handlens.challenges.ink.decision import InkDecision
from handlens.errors import HandlensError
from handlens.masks.rle import decode

SHAPE = (601, 517)


def test_ink_is_inside_the_mask_and_not_too_small():
    coarse = cv2.GaussianBlur(np.random.default_rng(0).random((151, 130)).astype(np.float32), (0, 0), 2)
    mask = np.zeros(SHAPE, bool)
    mask[10:590, 20:510] = True
    whole = cv2.resize(coarse, (520, 604), interpolation=cv2.INTER_LINEAR)[: SHAPE[0], : SHAPE[1]]
    everything = decode(InkDecision(threshold=0.5).apply(coarse, mask, slices=24), SHAPE, order="rows")
    assert np.array_equal(everything, (whole > 0.5) & mask)
    large = decode(InkDecision(threshold=0.5, smallest=300).apply(coarse, mask, slices=24), SHAPE, order="rows")
    count, labels, stats, _ = cv2.connectedComponentsWithStats(everything.astype(np.uint8), connectivity=4)
    kept = np.flatnonzero(stats[:, cv2.CC_STAT_AREA] >= 300)
    assert 1 < len(kept) < count
    assert np.array_equal(large, everything & np.isin(labels, kept))


@pytest.mark.parametrize(("certain", "doubtful"), [(0.9, 0.5), (0.6, 0.45), (0.02, 0.01)])
def test_a_scan_has_the_threshold_that_promises_the_best(certain, doubtful):
    """Against every threshold tried one by one, with probabilities for truth; never below the least."""
    coarse = cv2.GaussianBlur(np.random.default_rng(1).random((151, 130)).astype(np.float32), (0, 0), 2)
    coarse = np.where(coarse > 0.52, coarse * certain * 1.8, coarse * doubtful).clip(0, 1).astype(np.float32)
    mask = np.zeros(SHAPE, bool)
    mask[10:590, 20:510] = True
    inside = coarse[mask[::4, ::4]].astype(float)
    decision = InkDecision(threshold=0.5, adaptive=True)
    found = decision.threshold_in(coarse, mask, slices=24)

    def promised(threshold):
        said = inside > threshold
        return 1.25 * inside[said].sum() / (said.sum() + 0.25 * inside.sum())

    best = (
        max(promised(threshold) for threshold in np.linspace(0.3, 0.9, 601) if (inside > threshold).any())
        if certain > 0.1
        else 0
    )
    assert found >= 0.3
    assert certain < 0.1 or promised(found) == pytest.approx(best, abs=2e-3)
    everything = decode(decision.apply(coarse, mask, slices=24), SHAPE, order="rows")
    assert np.array_equal(
        everything, decode(InkDecision(threshold=found).apply(coarse, mask, slices=3), SHAPE, order="rows")
    )


def test_a_decision_survives_json():
    decision = InkDecision(threshold=331 / 1024, smallest=3000, turns=1)
    assert InkDecision.parse(json.loads(json.dumps(decision.plain()))) == decision


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({}, "threshold"),
        ({"threshold": 2}, "threshold is 2; expected a number from 0 to 1"),
        ({"threshold": 0.5, "smallest": -1}, "smallest is -1; expected a whole number from 0 to"),
        ({"threshold": 0.5, "turns": 8}, "turns is 8; expected one of 1, 4"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(page, message):
    with pytest.raises(HandlensError, match=message):
        InkDecision.parse(page)
