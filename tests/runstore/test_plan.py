"""`plan.json`: what was decided before the first step, with the results beside it, comes back as it was."""

import json

import pytest

from handlens.errors import ModelError
from handlens.runstore.plan import PLAN, Plan, read_plan, write_plan

WHOLE = Plan(
    challenge="cells",
    metric="Dice",
    fields={"crop": 64, "augmentation": {"stain": 0.4}},
    schedule={"batch": 4},
    minutes=10.0,
    folds=2,
    ids=("a", "b", "c"),
    fold_of=(0, 1, 0),
    steps=5,
    final_steps=10,
    speed={"step": 0.5},
    versions={"torch": "2"},
    results={"decision": {"threshold": 0.5}, "licence": "CC-BY-NC-4.0"},
)


def test_a_plan_comes_back_as_it_was(tmp_path):
    write_plan(tmp_path, WHOLE)
    assert read_plan(tmp_path) == WHOLE
    page = json.loads((tmp_path / PLAN).read_text())
    assert page["decision"] == {"threshold": 0.5}, "results stand beside the decisions"
    assert "results" not in page


def test_a_plan_may_say_little(tmp_path):
    (tmp_path / PLAN).write_text('{"challenge": "ink", "fields": 3, "ids": ["a"], "whatever": [1]}')
    plan = read_plan(tmp_path)
    assert (plan.challenge, plan.fields, plan.ids, plan.results) == ("ink", {}, ("a",), {"whatever": [1]})


def test_a_folder_without_a_plan_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(ModelError, match=r"no plan\.json in it: name a folder that `handlens train` wrote"):
            read_plan(place)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"challenge": 3}', "\ud800", "null"])
def test_a_damaged_plan_is_refused(tmp_path, content):
    (tmp_path / PLAN).write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ModelError, match=r"plan\.json: damaged, or not a plan of handlens"):
        read_plan(tmp_path)
