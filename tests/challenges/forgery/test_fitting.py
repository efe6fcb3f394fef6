"""Fitting: synthetic matches with labels become a decision that tells them apart, is careful, and does not boast."""

import numpy as np
import pytest
from detector_pictures import box, match_of, painted

from handlens.challenges.forgery import fitting
from handlens.challenges.forgery.detect.answer import score_matches, worth_a_look
from handlens.challenges.forgery.detect.canvas.scaling import Scaling
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier
from handlens.challenges.forgery.detect.verifier.decision import SENSITIVITIES, Decision, included
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.challenges.forgery.fitting import (
    ALARMS,
    FEWEST_AUTHENTIC,
    _calibrate,
    _strictness,
    score_one,
    threshold_of,
)
from handlens.challenges.forgery.match_labels import FALSE, UNCLEAR
from handlens.challenges.forgery.match_records import MatchRecord
from handlens.challenges.forgery.verifier_fitting import CORRECTED, FEWEST_COPIES, Example, fit_verifier
from handlens.masks.rle import encode
from handlens.types import Case

SHAPE = (200, 200)
SOURCE, COPY = box(10, 10, 30, 30), box(120, 120, 30, 30)


def example(number, *, forged, detail, others=4, tier="objects"):
    """A figure with a match of such detail, true where it is forged, and some worse ones."""
    random = np.random.default_rng([number, forged])
    matches, labels = [], []
    for other in range(others):
        place = box(5 + 40 * other, 60, 12, 12)
        matches.append(
            match_of(place, box(5 + 40 * other, 160, 12, 12), tier=tier, detail=random.uniform(0, 0.4), grain=0.3)
        )
        labels.append(FALSE)
    matches.append(match_of(SOURCE, COPY, tier=tier, detail=detail, grain=detail))
    labels.append(0 if forged else FALSE)
    truth = (encode(painted(SOURCE, SHAPE) | painted(COPY, SHAPE), order="columns"),) if forged else ()
    kind = "forged" if forged else "authentic"
    return Example(Case(f"{kind}/{number}", None, SHAPE), truth, record(*matches), tuple(labels))


def record(*matches, shape=SHAPE):
    return MatchRecord(Scaling(shape, 1.0), matches, seconds=13.0, used=0.0)


def weigh_without_pictures(examples, verifiers):
    """As `weigh`, but nothing is extended: these figures have no pixels."""
    return [
        worth_a_look(score_matches(each.matches, verifier)) for each, verifier in zip(examples, verifiers, strict=True)
    ]


def fit(examples):
    return fitting.fit(examples, weigh_without_pictures)[:2]


def clear_examples(count=CORRECTED["objects"], tier="objects"):
    random = np.random.default_rng(0)
    for number in range(count):
        yield example(number, forged=True, detail=random.uniform(0.8, 0.98), tier=tier)
        yield example(number, forged=False, detail=random.uniform(0.0, 0.5), tier=tier)


def test_clear_figures_are_told_apart():
    decision, numbers = fit(list(clear_examples()))
    assert numbers["oF1"] > 0.9
    assert numbers["forged figures answered"] > 0.9
    assert numbers["false alarms"] < 0.1
    assert decision.worth > 0.9
    good, bad = match_of(SOURCE, COPY, detail=0.9, grain=0.9), match_of(SOURCE, COPY, detail=0.2, grain=0.2)
    assert decision.figure(decision.verifier.probability(good)) > decision.least
    assert decision.figure(decision.verifier.probability(bad)) < 0.5


def test_where_nothing_tells_them_apart_it_does_not_boast():
    random = np.random.default_rng(1)
    examples = [
        example(number, forged=forged, detail=random.uniform(0.3, 0.9))
        for number in range(25)
        for forged in (True, False)
    ]
    _, numbers = fit(examples)
    assert numbers["oF1"] < 0.75


def hard_examples(count):
    """Forged and authentic figures that overlap: a few authentic ones look as forged as the forged ones."""
    random = np.random.default_rng(2)
    for number in range(count):
        yield example(number, forged=True, detail=random.uniform(0.5, 0.95))
        yield example(number, forged=False, detail=random.uniform(0.0, 0.8 if number % 6 == 0 else 0.6))


def test_hardly_an_authentic_figure_is_called_forged():
    decision, numbers = fit(list(hard_examples(FEWEST_AUTHENTIC)))
    assert decision.strict > 1 / (1 + decision.worth)
    assert decision.least == decision.strict
    assert numbers["false alarms"] <= ALARMS
    assert numbers["forged figures answered"] > 0.3


def test_easy_twins_do_not_make_up_for_hard_look_alikes():
    """So many twins that the share of all would allow every look-alike an alarm."""
    easy, hard = np.full(10 * FEWEST_AUTHENTIC, 0.1), np.linspace(0.1, 0.9, FEWEST_AUTHENTIC)
    said, has_twin = np.concatenate([easy, hard]), np.repeat([True, False], [len(easy), len(hard)])
    assert (hard > _strictness(said, has_twin)).mean() <= ALARMS
    assert (hard > _strictness(said, np.ones_like(has_twin))).mean() > 3 * ALARMS
    fewer = len(easy) + FEWEST_AUTHENTIC // 2  # too few without a twin to tell
    assert _strictness(said[:fewer], has_twin[:fewer]) == _strictness(said[:fewer], np.ones(fewer, bool))


def test_of_few_authentic_figures_a_share_cannot_be_told():
    decision, _ = fit(list(hard_examples(FEWEST_AUTHENTIC // 2)))
    assert decision.strict == 0
    assert decision.least == 1 / (1 + decision.worth)


def test_a_share_is_read_off_or_extrapolated():
    random = np.random.default_rng(0)
    said = 1 / (1 + np.exp(-random.exponential(1.0, 100_000)))
    assert (said > threshold_of(said[:2_000], 0.05)).mean() == pytest.approx(0.05, abs=0.02)
    rare = threshold_of(said[:400], 0.002)  # none of them may exceed it, as less than one would
    assert 0.0003 < (said > rare).mean() < 0.006
    few = np.where(np.arange(400) < 20, said[:400], 0.0)  # nothing is a candidate in most figures
    assert np.quantile(few, 0.98) < threshold_of(few, 0.002) < 1
    assert threshold_of(np.zeros(200), 0.002) == 0


def test_the_sensitivities_are_fitted_in_order():
    decision, _ = fit(list(hard_examples(FEWEST_AUTHENTIC)))
    assert decision.low is not None
    assert decision.high is not None
    leasts = [decision.at(SENSITIVITIES[name]).least for name in ("low", "normal", "high")]
    assert leasts == sorted(leasts, reverse=True)
    assert leasts[0] > leasts[2]


def test_forged_and_authentic_figures_count_the_same_however_many_they_are():
    surest, forged = np.full(400, 0.5), np.arange(400) < 100
    surest[::4] = 0.9
    slope, offset = _calibrate(surest, forged)
    decision = Decision(LogisticVerifier(), worth=1.0, slope=slope, offset=offset)
    assert decision.figure(0.5) == pytest.approx(0.5, abs=0.02)


def test_a_tier_with_true_matches_alone_is_not_fitted():
    only_true = [example(number, forged=True, detail=0.9, others=0) for number in range(FEWEST_COPIES)]
    assert fit_verifier(only_true, TIERS) == included().verifier
    mixed = [*only_true, *(example(number, forged=False, detail=0.2, tier="panels") for number in range(4))]
    assert fit_verifier(mixed, TIERS) == included().verifier


@pytest.mark.parametrize(("tier", "fewest"), [("objects", CORRECTED["objects"]), ("blots", FEWEST_COPIES)])
def test_a_tier_with_few_true_copies_keeps_what_it_has(monkeypatch, tier, fewest):
    few, enough = (list(clear_examples(count, tier=tier)) for count in (fewest - 1, fewest))
    asked = []
    monkeypatch.setattr(
        fitting, "fit_verifier", lambda some, tiers: asked.append(list(tiers)) or fit_verifier(some, tiers)
    )
    known = included().verifier
    decision, numbers = fit(few)
    assert decision.verifier == known
    assert numbers["tiers fitted"] == 0
    decision, numbers = fit(enough)
    assert decision.verifier.curves[tier] != known.curves[tier]
    assert decision.verifier.curves["panels"] == known.curves["panels"]
    assert (decision.verifier.trees["objects"] != known.trees.get("objects")) == (tier == "objects")
    assert numbers["tiers fitted"] == 1
    assert asked == [[]] * 6 + [[tier]] * 6, "folds are judged by the kind of curve that is written"


def test_unclear_matches_teach_nothing():
    examples = list(clear_examples(FEWEST_COPIES))
    confused = [
        Example(
            each.case,
            each.truth,
            record(*each.matches, match_of(SOURCE, COPY, detail=0.99)),
            (*each.labels, UNCLEAR),
        )
        for each in examples
    ]
    assert fit_verifier(confused, ["objects"]) == fit_verifier(examples, ["objects"]) != included().verifier


def test_few_figures_can_be_fitted():
    for count in (1, 2):
        decision, numbers = fit(list(clear_examples(count)))
        assert numbers["figures"] == 2 * count
        assert 0 < decision.least < 1


def test_a_twin_is_judged_by_what_did_not_see_it():
    folds = fitting._folds(list(clear_examples()))
    assert folds[::2] == folds[1::2]
    assert len(set(folds)) > 1


def test_no_fold_is_fitted_to_itself(monkeypatch):
    fitted = []

    def remember(examples, tiers):
        fitted.append({each.case.id for each in examples})
        return fit_verifier(examples, tiers)

    monkeypatch.setattr(fitting, "fit_verifier", remember)
    examples = list(clear_examples(10))
    fit(examples)
    *folds, last = fitted
    everything = {each.case.id for each in examples}
    assert last == everything
    left_out = [everything - each for each in folds]
    assert sum(map(len, left_out)) == len(everything)
    assert set().union(*left_out) == everything


def test_one_figure_is_worth_what_the_contest_says():
    mask = (encode(painted(SOURCE, SHAPE), order="columns"),)
    assert score_one((), ()) == 1
    assert score_one(mask, ()) == score_one((), mask) == 0
    assert score_one(mask, mask) == 1
