"""A single network, `--folds 1`: every challenge trains one, and is evaluated on what it never saw."""

import pytest
import traced_graphs

from handlens import pipeline, registry
from handlens.runstore.plan import read_plan
from handlens.training.stages import NEVER

pytestmark = pytest.mark.slow
traced_graphs.share()

FAST = {"steps": "2", "threads": "1", "memory_format": "channels_last", "weights": "scratch"}
SMALL = {
    "cells": ({"size": 96, "cases": 5}, {**FAST, "crop": "32", "batch": "2", "turns": "1"}),
    "ink": ({"size": 130, "cases": 2}, {**FAST, "crop": "64", "batch": "2", "turns": "1"}),
    "lesions": ({"size": 64, "cases": 60}, {**FAST, "size": "32", "batch": "4", "bootstraps": "2"}),
}


@pytest.mark.parametrize("name", SMALL)
def test_from_a_folder_to_an_answer(name, tmp_path):
    challenge = registry.challenge(name)
    sample, fields = SMALL[name]
    if name == "ink":
        del fields["weights"]
    pipeline.sample(challenge, tmp_path / "data", seed=2, **sample)
    settings = challenge.settings(minutes=1, folds=1, set=fields)
    pipeline.train(challenge, tmp_path / "data", tmp_path / "run", settings=settings)
    plan = read_plan(tmp_path / "run")
    assert {*plan.fold_of} == {NEVER, 0, 1}
    part_of = dict(zip(plan.ids, plan.fold_of, strict=True))
    assert {*plan.results["scores"]} == {name for name, part in part_of.items() if part != NEVER}
    solved = pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", model=tmp_path / "run")
    assert solved.submission.is_file()
