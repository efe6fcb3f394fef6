"""Trees: what LightGBM fits is what is evaluated here, a file keeps it, and a broken file is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from detector_pictures import PLAIN, box, match_of

from handlens.challenges.forgery import verifier_fitting
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier
from handlens.challenges.forgery.detect.verifier.decision import FILE, read_decision
from handlens.challenges.forgery.detect.verifier.features import describe
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.challenges.forgery.detect.verifier.trees import Tree, Trees
from handlens.errors import ModelError

SEAM = Trees(("seam",), (Tree((0, 1), (0.5, 2.0), (-1, -2), (1, -3), (-3.0, 0.5, 1.0)), Tree((), (), (), (), (0.25,))))
CORRECTED = replace(PLAIN, verifier=LogisticVerifier(PLAIN.verifier.curves, {"objects": SEAM}))


def match(tier="objects", **evidence):
    return match_of(box(0, 0, 20, 20), box(50, 50, 20, 20), tier=tier, **evidence)


def test_every_row_arrives_at_one_leaf():
    assert SEAM.correction({"seam": 0.5}, log_odds=9.0) == -2.75
    assert SEAM.correction({"seam": 0.6}, log_odds=2.0) == 0.75
    assert SEAM.correction({"seam": 0.6}, log_odds=2.1) == 1.25


def test_they_correct_the_curve_of_their_tier_alone():
    for tier, change in (("objects", 1), ("blots", 0)):
        soft, hard = (match(tier, detail=0.8, grain=0.8, seam=seam) for seam in (0.1, 0.9))
        before, after = (CORRECTED.verifier.probability(each) for each in (soft, hard))
        assert (after > before) == bool(change)
        assert (PLAIN.verifier.probability(soft) == before) != bool(change)


def test_a_file_keeps_them(tmp_path):
    (tmp_path / FILE).write_text(CORRECTED.to_json())
    assert read_decision(tmp_path / FILE) == CORRECTED


def test_a_file_of_before_has_none(tmp_path):
    page = json.loads(PLAIN.to_json())
    page.pop("trees")
    (tmp_path / FILE).write_text(json.dumps(page))
    assert read_decision(tmp_path / FILE) == PLAIN


@pytest.mark.parametrize(
    "tree",
    [
        [[0], [0.5], [0], [-2], [1.0, 2.0]],  # a split that leads to itself
        [[0], [0.5], [-1], [-3], [1.0, 2.0]],  # a leaf that is not there
        [[2], [0.5], [-1], [-2], [1.0, 2.0]],  # a feature that is not there
        [[0], [0.5], [-1], [-2], [1.0]],
        [[0], [], [-1], [-2], [1.0, 2.0]],
        [[0], ["x"], [-1], [-2], [1.0, 2.0]],
        [[0]],
    ],
    ids=str,
)
def test_a_broken_tree_is_refused(tmp_path, tree):
    page = json.loads(CORRECTED.to_json())
    page["trees"]["objects"]["trees"] = [tree]
    (tmp_path / FILE).write_text(json.dumps(page))
    with pytest.raises(ModelError, match="no fitted decision"):
        read_decision(tmp_path / FILE)


def test_what_is_fitted_is_what_is_evaluated():
    """Of a table in which only a seam together with a fair match is a copy, as a curve cannot tell."""
    lightgbm = pytest.importorskip("lightgbm")
    random = np.random.default_rng(0)
    some = [match(detail=detail, grain=0.5, seam=seam) for detail, seam in random.uniform(0.05, 0.95, (600, 2))]
    labels = np.array([(each.evidence["detail"] > 0.5) & (each.evidence["seam"] > 0.5) for each in some])
    table = verifier_fitting.LabelledTable([describe(each) for each in some], labels, np.ones(len(some)))
    curve = verifier_fitting.fit_curve_to(table, "objects")
    models, train = [], lightgbm.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightgbm, "train", lambda *args, **more: models.append(train(*args, **more)) or models[-1])
        trees = verifier_fitting.fit_trees_to(table, "objects", curve)
    odds = np.array([curve.log_odds(row) for row in table.rows])
    names = [feature.name for feature in TIERS["objects"].all_features]
    said = models[0].predict(np.column_stack([table.columns(names), odds]), raw_score=True)
    ours = [trees.correction(row, log_odds=each) for row, each in zip(table.rows, odds, strict=True)]
    assert np.allclose(ours, said, rtol=0, atol=1e-9)
    right = [np.mean((odds + each > 0) == labels) for each in (0, np.array(ours))]
    assert right[1] > 0.97 > right[0]
