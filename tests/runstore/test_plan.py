"""`plan.json`: read as it was written, damage is named."""

import json
from dataclasses import replace

import pytest

from handlens.errors import ModelError
from handlens.runstore.plan import PLAN, Plan, read_plan, write_plan

DECIDED = Plan(
    challenge="cells",
    metric="Dice",
    fields={"crop": 64, "augmentation": {"stain": 0.2}},
    folds=2,
    ids=("a", "b", "c"),
    fold_of=(0, 1, 0),
    steps=5,
    speed={"step": 0.5, "predict": 2.0, "channels_last": True, "other_step": 0.8},
)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    write_plan(tmp_path, DECIDED)
    assert read_plan(tmp_path) == DECIDED
    done = replace(DECIDED, results={"decision": {"threshold": 0.5}, "finished": True})
    write_plan(tmp_path, done)
    assert read_plan(tmp_path) == done
    page = json.loads((tmp_path / PLAN).read_text())
    assert (page["decision"], page["finished"], page["steps"]) == ({"threshold": 0.5}, True, 5)  # beside, not below


def test_a_folder_without_a_plan_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"no plan\.json in it: name a folder that `handlens train` wrote"):
        read_plan(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"no plan\.json in it"):
        read_plan(tmp_path / "file")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"challenge": 3}', "\ufeff\x00"])
def test_a_damaged_plan_is_named(tmp_path, text):
    (tmp_path / PLAN).write_text(text)
    with pytest.raises(ModelError, match=r"plan\.json: damaged, or not a plan of handlens"):
        read_plan(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"challenge": "\xe9"}'])
def test_a_plan_that_is_no_text_is_named(tmp_path, content):
    (tmp_path / PLAN).write_bytes(content)
    with pytest.raises(ModelError, match=r"plan\.json: damaged"):
        read_plan(tmp_path)


def test_a_short_plan_has_defaults(tmp_path):
    """The plans of hand-made models say little more than the decision."""
    (tmp_path / PLAN).write_text('{"challenge": "cells", "decision": {"threshold": 0.5}, "fields": null}')
    assert read_plan(tmp_path) == Plan("cells", results={"decision": {"threshold": 0.5}})
