"""The decision: read as it was written, surer with better evidence, calibrated, and worth its answer."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from detector_pictures import PLAIN, box, match_of, shipped_or_skip
from hypothesis import given
from hypothesis import strategies as st

from handlens.challenges.forgery import detect
from handlens.challenges.forgery.detect.verifier.curves import Curve, LogisticVerifier, fit_curve
from handlens.challenges.forgery.detect.verifier.decision import FILE, SENSITIVITIES, read_decision
from handlens.challenges.forgery.detect.verifier.features import EVIDENCE, FEATURES, describe
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.errors import ModelError

AGAINST = tuple(feature.name for feature in FEATURES if feature.sign < 0)


def names_of(tier):
    return [feature.name for feature in TIERS[tier].features]


def fit(names, *rest, **more):
    """A curve whose names that speak against a copy are known as such."""
    return fit_curve(names, *rest, signs=[-1 if name in AGAINST else 1 for name in names], **more)


def match(tier="objects", **evidence):
    return match_of(box(0, 0, 20, 20), box(50, 50, 20, 20), tier=tier, **evidence)


# --- files ----------------------------------------------------------------------------------------------------------


def test_it_is_read_as_it_was_written(tmp_path):
    decision = replace(PLAIN, worth=0.61, slope=1.3, offset=-0.2, further=0.7, low=0.95, high=0.3)
    (tmp_path / FILE).write_text(decision.to_json())
    assert read_decision(tmp_path / FILE) == decision


def broken_pages():
    good = json.loads(PLAIN.to_json())
    yield "nothing", ""
    yield "no JSON", "{"
    yield "a list", "[]"
    yield "a number", "7"
    yield "no curves", json.dumps({"worth": 0.8})
    yield "no worth", json.dumps({"curves": good["curves"]})
    yield "an unknown field", json.dumps(good | {"colour": 1})
    yield "curves as a list", json.dumps(good | {"curves": [1]})
    yield "an unknown feature", PLAIN.to_json().replace('"strength"', '"colour"')
    yield "a curve without weights", json.dumps(good | {"curves": {"objects": {"names": ["detail"]}}})


@pytest.mark.parametrize(("kind", "text"), list(broken_pages()), ids=[kind for kind, _ in broken_pages()])
def test_a_broken_file_is_named(tmp_path, kind, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ModelError, match=FILE):
        read_decision(tmp_path / FILE)


def test_the_shipped_file_is_written_again_byte_for_byte():
    path = Path(detect.__file__).with_name(FILE)
    assert read_decision(path).to_json() == path.read_text(encoding="utf-8")


def test_names_in_code_and_names_in_files_are_apart():
    for names in ([feature.name for feature in FEATURES], [feature.key for feature in FEATURES]):
        assert len(set(names)) == len(FEATURES)


def test_every_evidence_that_is_measured_counts_for_something():
    """Or it would be asked for in vain."""
    plain = dict.fromkeys(EVIDENCE, 0.5) | {"pixels": 100.0, "deformation": 0.1, "stored_contrast": 1.0}
    before = describe(replace(match(), evidence=plain))
    for name in EVIDENCE:
        changed = describe(replace(match(), evidence=plain | {name: plain[name] + 0.2}))
        assert changed != before, name


def test_a_file_of_bytes_is_named(tmp_path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00\x80" * 20)
    with pytest.raises(ModelError, match=FILE):
        read_decision(tmp_path / FILE)


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(ModelError, match="train"):
        read_decision(tmp_path / FILE)


def test_the_shipped_decision_knows_every_tier():
    decision = shipped_or_skip()
    assert {tier: list(curve.names) for tier, curve in decision.verifier.curves.items()} == {
        tier: names_of(tier) for tier in TIERS
    }
    assert 0.5 < decision.least < 1
    for tier in TIERS:
        likely = decision.verifier.probability(
            match(tier, detail=0.97, grain=0.95, correlation=0.99, inliers=60.0, peak_weight=60.0)
        )
        unlikely = decision.verifier.probability(
            match(tier, detail=0.05, grain=0.05, correlation=0.7, inliers=6.0, peak_weight=8.0)
        )
        assert likely > unlikely


# --- how sure -------------------------------------------------------------------------------------------------------


def test_a_tier_that_was_not_fitted_is_never_sure():
    assert LogisticVerifier().probability(match()) == 0


correlations = st.floats(-0.99, 0.99)


@given(correlations, correlations, st.sampled_from(["detail", "grain"]))
def test_better_evidence_makes_surer(one, other, name):
    low, high = sorted((one, other))
    assert PLAIN.verifier.probability(match(**{name: low})) <= PLAIN.verifier.probability(match(**{name: high}))


@pytest.mark.parametrize(
    "name", ["correlation", "detail", "denoised", "grain", "band_pass", "residual_noise", "worst_quadrant"]
)
@pytest.mark.parametrize("tier", TIERS)
def test_what_is_more_alike_is_described_by_no_smaller_numbers(tier, name):
    low, high = (describe(match(tier, **{name: value})) for value in (0.2, 0.9))
    assert all(high[feature] >= low[feature] for feature in names_of(tier))
    assert any(high[feature] > low[feature] for feature in names_of(tier))


def test_few_pixels_and_smooth_ones_prove_less():
    plain = describe(match(pixels=400.0, detail_autocorrelation=0.2, grain_autocorrelation=0.2))
    for evidence in (
        {"pixels": 40.0},
        {"pixels": 400.0, "detail_autocorrelation": 0.95, "grain_autocorrelation": 0.95},
    ):
        less = describe(match(**({"detail_autocorrelation": 0.2, "grain_autocorrelation": 0.2} | evidence)))
        assert less["detail_significance"] < plain["detail_significance"]
        assert less["grain_significance"] < plain["grain_significance"]


@pytest.mark.parametrize(
    ("name", "value", "feature"),
    [("typical_significance", 30.0, "relative_significance"), ("second_best", 0.7, "second_best_margin")],
    ids=["typical_significance", "second_best"],
)
def test_where_others_are_as_alike_a_match_says_less(name, value, feature):
    assert describe(match(**{name: value}))[feature] < describe(match())[feature]


@pytest.mark.parametrize("name", ["peers", "candidates", "deformation"])
def test_peers_candidates_and_deformation_speak_against_a_match(name):
    assert describe(match(**{name: 4.0}))[name] > describe(match(**{name: 0.0}))[name]
    assert name in AGAINST


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_surer_match_makes_a_surer_figure(one, other):
    decision = replace(PLAIN, slope=0.7, offset=-1)
    low, high = sorted((one, other))
    assert 0 <= decision.figure(low) <= decision.figure(high) <= 1


def test_a_figure_without_matches_is_authentic():
    assert PLAIN.figure(0.0) == 0


@given(st.floats(0.05, 1))
def test_an_answer_is_given_where_it_is_worth_more_than_authentic(worth):
    decision = replace(PLAIN, worth=worth)
    for probability in (decision.least - 0.001, decision.least + 0.001):
        assert (probability * worth > 1 - probability) == (probability > decision.least)


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_more_sensitive_the_more_is_answered(one, other):
    """Between the named sensitivities too, and in whatever order a fit left them."""
    decision = replace(PLAIN, worth=0.6, strict=0.8, low=0.7, high=0.9)
    low, high = sorted((one, other))
    assert 1 >= decision.at(low).least >= decision.at(high).least >= 0
    assert decision.at(0).count_answered([1 - 1e-12]) == 0


def test_named_sensitivities_have_their_fitted_probabilities():
    decision = replace(PLAIN, worth=0.9, strict=0.8, low=0.97, high=0.4)
    found = [decision.at(SENSITIVITIES[name]).least for name in ("low", "normal", "high")]
    assert found == [0.97, 0.8, 0.4]
    unknown = replace(decision, low=None, high=None)
    assert [unknown.at(SENSITIVITIES[name]).least for name in ("low", "high")] == pytest.approx([0.9, 0.4])


def test_beside_an_answered_group_another_needs_less():
    decision = replace(PLAIN, worth=0.9, strict=0.8, slope=1, offset=0, further=0.6)
    assert decision.count_answered([0.9, 0.7, 0.5]) == 2
    assert decision.count_answered([0.79, 0.7, 0.5]) == 0, "a figure is called forged for its surest group alone"
    assert decision.count_answered([]) == 0


@pytest.mark.parametrize(
    "evidence", [{}, {"detail": 1.0, "grain": 1.0}, {"detail": -1.0, "pixels": 0.0}, {"detail_autocorrelation": 1.0}]
)
@pytest.mark.parametrize("tier", TIERS)
def test_features_are_numbers_whatever_was_measured(tier, evidence):
    found = describe(match_of(box(0, 0, 2, 2), box(9, 9, 2, 2), tier=tier, **evidence))
    assert set(names_of(tier)) <= set(found)
    assert np.isfinite(list(found.values())).all()


def test_a_match_without_evidence_can_be_described():
    assert np.isfinite(list(describe(replace(match(), evidence={})).values())).all()


def test_far_values_do_not_run_away():
    curve = Curve(("detail",), (0.0,), (1e-6,), (1.0,), 0.0)
    assert 0 < curve.probability({"detail": -1e9}) < 0.05
    assert 0.95 < curve.probability({"detail": 1e9}) < 1


# --- fitting --------------------------------------------------------------------------------------------------------


def rows(count=2000, seed=0):
    return np.random.default_rng(seed).normal(3, 2, (count, 2))


def probabilities(curve, table):
    return np.array([curve.probability(dict(zip(curve.names, row, strict=True))) for row in table])


def test_what_can_be_separated_is_separated():
    table = rows(300)
    labels = table[:, 0] + 0.5 * table[:, 1] > 5
    said = probabilities(fit_curve(("a", "b"), table, labels, np.ones(300), ridge=0.01), table)
    assert ((said > 0.5) == labels).mean() > 0.97


def test_a_few_odd_figures_do_not_turn_the_meaning_round():
    names = ("detail", *AGAINST)
    table = np.random.default_rng(3).normal(0, 1, (200, len(names)))
    against = np.array([name in AGAINST for name in names])
    labels = table @ np.where(against, 1.0, -1.0) > 0  # all the contrary of what is known
    weights = np.array(fit(names, table, labels, np.ones(200)).weights)
    assert (weights[against] <= 0).all()
    assert (weights[~against] >= 0).all()


def test_it_is_calibrated_on_simulated_figures():
    table = rows(6000)
    truth = 1 / (1 + np.exp(-(1.2 * (table[:, 0] - 3) - 0.5)))
    labels = np.random.default_rng(1).random(6000) < truth
    curve = fit_curve(("a", "b"), table, labels, np.ones(6000))
    said = probabilities(curve, table)
    assert np.abs(said - truth).mean() < 0.03
    for low in np.arange(0, 1, 0.2):
        chosen = (said >= low) & (said < low + 0.2)
        assert labels[chosen].mean() == pytest.approx(said[chosen].mean(), abs=0.06)
    assert abs(curve.weights[1]) < 0.2 * curve.weights[0]


def test_a_row_that_counts_twice_is_a_row_given_twice():
    table, labels = rows(60), rows(60, seed=1)[:, 0] > 3
    twice = fit_curve(("a", "b"), np.concatenate([table, table]), np.concatenate([labels, labels]), np.ones(120))
    weighted = fit_curve(("a", "b"), table, labels, np.full(60, 2.0))
    assert weighted.weights == pytest.approx(twice.weights, abs=1e-3)
    assert weighted.offset == pytest.approx(twice.offset, abs=1e-3)


def test_a_row_without_weight_says_nothing():
    table, labels = rows(200), rows(200)[:, 0] > 3
    weights = np.ones(200)
    plain = fit_curve(("a", "b"), table, labels, weights)
    weights[labels] = 1e-9
    assert probabilities(fit_curve(("a", "b"), table, labels, weights), table).max() < probabilities(plain, table).max()


def test_a_feature_that_never_changes_is_harmless():
    table = rows(200)
    table[:, 1] = 7
    curve = fit_curve(("a", "b"), table, table[:, 0] > 3, np.ones(200))
    assert np.isfinite([*curve.weights, curve.offset]).all()
    assert curve.weights[0] > 0


def test_nothing_near_the_fit_is_better():
    table, names, ridge = rows(200), ("a", "b"), 20.0
    labels = rows(200, seed=4)[:, 0] + table[:, 0] > 6
    curve = fit_curve(names, table, labels, np.ones(200), ridge=ridge)
    standard = np.clip((table - curve.means) / curve.spreads, -4, 4)

    def loss(*state):
        odds = standard @ state[:2] + state[2]
        return np.logaddexp(0, np.where(labels, -odds, odds)).sum() + 0.5 * ridge * (state[0] ** 2 + state[1] ** 2)

    best = np.array([*curve.weights, curve.offset])
    for step in np.vstack([np.eye(3), -np.eye(3)]) * 0.02:
        if (best + step)[:2].min() >= 0:
            assert loss(*best) < loss(*(best + step))


def test_more_ridge_means_smaller_weights():
    table = rows(300)
    labels = table[:, 0] > 3
    free, held = (fit_curve(("a", "b"), table, labels, np.ones(300), ridge=ridge) for ridge in (0.1, 100))
    assert abs(held.weights[0]) < abs(free.weights[0])
