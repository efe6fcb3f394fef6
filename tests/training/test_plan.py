"""What is decided before the first step, and what of it can be changed."""

import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import tiny_training
from handlens.training.plan import PLAN, Effort, Schedule, as_told, count_steps, read_plan, write_plan
from training_plans import SPEED, plan_of

from handlens import registry
from handlens.challenges.cells.training import Fields
from handlens.errors import DataError, HandlensError
from handlens.training.device import choose_precision, choose_threads, keep_memory
from handlens.training.task import change, check_ranges


def test_steps_fit_the_minutes():
    for folds in (2, 5):
        steps, final = count_steps(3600, folds, 37, SPEED)
        seconds = (steps * folds + final) * SPEED.step + 37 * SPEED.predict
        assert 0.95 * 3600 < seconds <= 3600
        assert final == round(steps * folds / (folds - 1))
    assert count_steps(1, 5, 37, SPEED)[0] == 20


def test_a_stage_learns_from_the_others_and_the_last_from_all():
    stages = plan_of().stages()
    assert [(stage.name, stage.members, stage.asked, stage.steps) for stage in stages] == [
        ("fold0", (1,), (0, 2), 5),
        ("fold1", (0, 2), (1,), 5),
        ("final", (0, 1, 2), (), 10),
    ]
    step, predict = plan_of().speed.step, plan_of().speed.predict
    assert plan_of().total() == 5 + 5 + 10 + round(2 * predict / step) + round(predict / step)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    plan = plan_of(results={"decision": {"threshold": 0.5}})
    assert read_plan(tmp_path) is None
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == replace(plan, results={})
    for text in ("{", "[]", '{"challenge": "cells"}'):
        (tmp_path / PLAN).write_text(text)
        with pytest.raises(DataError, match="damaged"):
            read_plan(tmp_path)


def test_fields_are_changed_by_name():
    fields, schedule = change(Fields(), {"crop": "64", "rate": "0.1", "encoder": "lite1"}, other=Schedule())
    assert (fields.crop, fields.encoder, schedule.rate) == (64, "lite1", 0.1)
    for given, message in (
        ({"crop": "x"}, "crop is 'x'; expected a whole number"),
        ({"crop": "60"}, "crop is 60; expected a multiple of 32"),
        ({"rate": "fast"}, "rate is 'fast'; expected a number"),
        ({"layout": "rows"}, "layout is 'rows'; expected one of auto, pixels, channels"),
        ({"batch": "0"}, "batch is 0; expected 1 to"),
        ({"turns": "3"}, "turns is 3; expected 1 or 8"),
        ({"nonsense": "1"}, "there is no field nonsense; there are accelerator, aligned, average, batch, bends"),
    ):
        with pytest.raises(HandlensError, match=message):
            change(Fields(), given, other=Schedule())


def test_what_the_command_is_told_is_fields_schedule_and_effort():
    settings = registry.challenge("cells").settings(minutes=2.0, folds=3, set={"crop": "64", "rate": "0.1"})
    fields, schedule, effort = as_told(Fields(), Schedule(batch=4), settings)
    assert fields == replace(Fields(), crop=64)
    assert schedule == Schedule(batch=4, rate=0.1)
    assert effort == Effort(minutes=2.0, folds=3, devices=1, nodes=1)


@pytest.mark.parametrize(("value", "passes"), [(0, False), (1, True), (2, True), (2.5, False), (math.nan, False)])
def test_both_ends_of_a_range_belong_to_it(value, passes):
    with nullcontext() if passes else pytest.raises(HandlensError, match=f"here is {value}; expected 1 to 2"):
        check_ranges(SimpleNamespace(here=value), {"here": (1, 2.0)})


def test_never_half_precision_on_a_cpu_unless_asked():
    assert choose_precision("auto", "cpu") == "32-true"
    assert choose_precision("bf16-mixed", "cpu") == "bf16-mixed"
    assert choose_threads(3, "cpu", 1) == 3
    assert choose_threads(0, "cpu", 10_000) == 1
    assert keep_memory() in (True, False)


def test_other_settings_are_refused_in_a_run_that_was_begun(slides, tmp_path):
    run = tmp_path / "run"

    def stop(done, total, words=""):
        if words.startswith("fold"):  # not while slides are read
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tiny_training.train(slides, run, progress=stop)
    with pytest.raises(DataError, match="begun with other schedule: name a new folder"):
        tiny_training.train(slides, run, schedule=replace(tiny_training.SCHEDULE, rate=0.5))
    with pytest.raises(DataError, match="begun with other folds"):
        tiny_training.train(slides, run, effort=Effort(folds=3))
    with pytest.raises(HandlensError, match="4 groups cannot fill 9 folds"):
        tiny_training.train(slides, tmp_path / "many", effort=Effort(folds=9))
    with pytest.raises(HandlensError, match="at least 2 are needed"):
        Effort(folds=1)
