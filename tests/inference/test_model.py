"""Model folders: what is refused, with which words; licence, decision, and what a model was trained on."""

import json
from pathlib import Path
from typing import Annotated

import pytest
from onnx_models import write_dark_is_cell, write_plan

from handlens.errors import ModelError
from handlens.inference.model import (
    MODEL,
    TRAINED_ON,
    Model,
    digest,
    is_model,
    open_model,
    write_trained_on,
)
from handlens.runstore.plan import PLAN, Plan
from handlens.settings import Settings, setting
from handlens.types import Case


class Decided(Settings, frozen=True, kw_only=True):
    threshold: Annotated[float, setting("where", ge=0, le=1)]
    smallest: Annotated[int, setting("pixels", ge=0, le=9)] = 3


def test_a_model_is_a_network_and_its_plan(tmp_path):
    folder = write_dark_is_cell(tmp_path / "model")
    assert is_model(folder)
    assert open_model(folder, challenge="cells").file == folder / MODEL
    for name in (MODEL, PLAN):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert not is_model(folder)
        (folder / name).write_bytes(content)
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        assert not is_model(place)
        with pytest.raises(ModelError, match=r"no plan\.json in it: name a folder that `handlens train` wrote"):
            open_model(place, challenge="cells")


def test_a_plan_about_another_challenge_is_refused(tmp_path):
    write_plan(tmp_path, challenge="ink")
    assert open_model(tmp_path, challenge="ink").plan.challenge == "ink"
    with pytest.raises(ModelError, match="this model was trained for ink, not cells"):
        open_model(tmp_path, challenge="cells")


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        ({}, "decision: threshold is missing; expected a number from 0 to 1: train again"),
        ({"threshold": "0.5"}, "decision: threshold is '0.5'"),
        ({"threshold": True}, "decision: threshold is True"),
        ({"threshold": "much"}, "decision: threshold is 'much'; expected a number from 0 to 1: train again"),
        ({"threshold": None}, "decision: threshold is None"),
        ({"threshold": 1.5}, "decision: threshold is 1.5"),
        ({"threshold": float("nan")}, "decision: threshold is nan"),
        ({"threshold": 0.5, "smallest": 10}, "decision: smallest is 10; expected a whole number from 0 to 9"),
        ({"threshold": 0.5, "largest": 10}, "decision: there is no field largest"),
    ],
)
def test_odd_decisions_are_refused(tmp_path, decision, message):
    model = open_model(write_plan(tmp_path, **decision), challenge="cells")
    with pytest.raises(ModelError, match=rf"plan\.json: {message}"):
        model.decision(Decided)


def test_a_decision_has_defaults(tmp_path):
    model = open_model(write_plan(tmp_path, threshold=0.25), challenge="cells")
    assert model.decision(Decided) == Decided(threshold=0.25, smallest=3)
    for page in ({"challenge": "cells"}, {"challenge": "cells", "decision": []}):
        (tmp_path / PLAN).write_text(json.dumps(page))
        with pytest.raises(ModelError, match="threshold"):
            open_model(tmp_path, challenge="cells").decision(Decided)


def test_the_licence_of_a_model(tmp_path):
    for licence, found in (("CC-BY-NC-4.0", "CC-BY-NC-4.0"), (None, ""), (3, "")):
        assert Model(tmp_path, Plan("cells", results={"licence": licence})).licence == found
    assert Model(tmp_path, Plan("cells")).licence == ""


def test_what_a_model_was_trained_on(tmp_path):
    (tmp_path / "a.png").write_bytes(b"one")
    (tmp_path / "b.png").write_bytes(b"two")
    (tmp_path / "same.png").write_bytes(b"one")
    (tmp_path / "fragment" / "slices").mkdir(parents=True)
    (tmp_path / "fragment" / "slices" / "00.tif").write_bytes(b"first")
    (tmp_path / "fragment" / "slices" / "01.tif").write_bytes(b"second")
    (tmp_path / "empty").mkdir()
    a, b, same, fragment, empty, none = (
        Case(name, tmp_path / name) for name in ("a.png", "b.png", "same.png", "fragment", "empty", "none.png")
    )
    assert digest(a) == digest(same) != digest(b)
    assert len(digest(a)) == 8
    assert digest(fragment) == digest(Case("x", tmp_path / "fragment" / "slices" / "00.tif"))
    assert digest(empty) == digest(none) == ""
    model = Model(tmp_path, Plan("cells"))
    assert model.trained_on == frozenset()
    write_trained_on(tmp_path, [a, same, fragment, none])
    assert model.trained_on == {digest(a), digest(fragment)}
    for damaged in (b"\xff\xfe", b""):
        (tmp_path / TRAINED_ON).write_bytes(damaged)
        assert model.trained_on == frozenset()


def test_an_unreadable_case_is_never_one_that_was_trained_on(tmp_path):
    write_trained_on(tmp_path, [Case("none", Path("nowhere.png"))])
    assert digest(Case("other", Path("elsewhere.png"))) not in Model(tmp_path, Plan("cells")).trained_on
