"""The networks of a training: who learns from whom, and how many steps fit the minutes."""

from dataclasses import replace

from training_plans import SPEED, plan_of

from handlens.training.stages import (
    NEVER,
    count_steps,
    parts_of,
    prediction_steps,
    speed_of,
    stage_of,
    stages_of,
    total_steps,
)


def test_steps_fit_the_minutes():
    for folds in (2, 5):
        steps, final = count_steps(3600, folds, 37, SPEED)
        seconds = (steps * folds + final) * SPEED.step + 37 * SPEED.predict
        assert 0.95 * 3600 < seconds <= 3600
        assert final == round(steps * folds / (folds - 1))
    assert count_steps(1, 5, 37, SPEED)[0] == 20
    steps, final = count_steps(3600, 1, 37, SPEED)
    assert steps == 0
    assert 0.95 * 3600 < final * SPEED.step + 37 * SPEED.predict <= 3600


def test_exports_are_part_of_the_minutes():
    slow = replace(SPEED, export=30.0)
    steps, final = count_steps(3600, 5, 37, slow, exports=11)
    seconds = (steps * 5 + final) * slow.step + 37 * slow.predict + 11 * 30
    assert 0.95 * 3600 < seconds <= 3600
    assert count_steps(3600, 5, 37, slow) == count_steps(3600, 5, 37, SPEED)


def test_a_stage_learns_from_the_others_and_the_last_from_all():
    plan = plan_of()
    stages = stages_of(plan)
    assert [(stage.name, stage.members, stage.held_out, stage.steps) for stage in stages] == [
        ("fold0", (1,), (0, 2), 5),
        ("fold1", (0, 2), (1,), 5),
        ("final", (0, 1, 2), (), 10),
    ]
    assert speed_of(plan) == SPEED
    share = SPEED.predict / SPEED.step
    assert [prediction_steps(plan, stage) for stage in stages] == [round(2 * share), round(share), 0]
    assert total_steps(plan) == 5 + 5 + 10 + round(2 * share) + round(share)


def test_a_single_network_learns_from_what_is_not_held_out():
    plan = plan_of(folds=1, fold_of=[0, NEVER, 1], steps=0)
    (only,) = stages_of(plan)
    assert (only.name, only.members, only.held_out, only.steps) == ("final", (1,), (0, 2), 10)
    assert [stage_of(plan, part) for part in parts_of(plan)] == [only, only]
    assert total_steps(plan) == 10 + round(2 * SPEED.predict / SPEED.step)
