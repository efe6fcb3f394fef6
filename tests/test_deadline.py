"""`solve --deadline`: always a complete valid submission, as good as the time allows, never late."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tasks

from handlens import pipeline, registry
from handlens.errors import HandlensError
from handlens.inference.cost_model import Attempt, CostModel
from handlens.inference.schedule import DeadlineSchedule, Outcome
from handlens.io.submissions import require_submission

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
import deadline as bench

NEVER = float("inf")


def run(*, count=20, seconds=1.0, costs=(0.25, 0.5, 1.0), deadline=100.0, workers=1, load=1.0, **odd):
    """A simulated run: the schedule, the time when it ended, failures, and efforts in the order of the answers."""
    each = [seconds] * count
    for case, factor in odd.pop("slow", {}).items():
        each[case] *= factor
    hanging, failing, dying = (odd.pop(kind, set()) for kind in ("hanging", "failing", "dying"))
    world = bench.World([1.0] * count, list(costs), each, hanging, failing, dying, odd.pop("slow_from", NEVER), load)
    pool = bench.SimulatedPool(world, workers)
    failed, order = {}, []
    schedule = DeadlineSchedule(
        [1.0] * count,
        costs,
        pool,
        clock=lambda: pool.now,
        time_over=lambda: deadline,
        answered=lambda case, effort, value: order.append((case, effort)),
        failed=lambda case, why: failed.update({case: why}),
        **odd,
    )
    schedule.run()
    assert not pool.busy
    return schedule, pool.now, failed, order


def test_with_time_enough_every_case_gets_full_effort_and_nobody_waits():
    schedule, ended, failed, _ = run(count=20, deadline=100)
    assert set(schedule.efforts.values()) == {2}
    assert len(schedule.efforts) == 20
    assert not failed
    assert ended < 30


def test_effort_is_lowered_so_that_all_are_answered_and_the_time_is_used():
    schedule, ended, _, _ = run(count=40, deadline=25)
    assert len(schedule.efforts) == 40
    assert set(schedule.efforts.values()) & {0, 1}
    assert 0.85 * 25 < ended <= 25


def test_without_time_for_all_the_small_ones_are_answered():
    schedule, ended, _, _ = run(count=40, costs=(1.0,), deadline=11)
    assert 8 <= len(schedule.efforts) <= 10
    assert len(schedule.unanswered) >= 30
    assert ended <= 11


def test_a_slow_case_is_answered_in_the_end_and_keeps_nobody_else_from_it():
    schedule, ended, failed, order = run(count=20, deadline=60, slow={7: 25})
    assert len(schedule.efforts) == 20
    assert not failed
    assert ended <= 60
    assert order.index((7, 0)) >= 19


def test_a_hanging_case_costs_nobody_else_the_answer():
    schedule, ended, failed, _ = run(count=20, deadline=40, hanging={3})
    assert set(schedule.efforts) == set(range(20)) - {3}
    assert {*schedule.unanswered, *failed} == {3}
    assert ended <= 40


def test_the_first_case_may_hang():
    middle = 9  # of 20: what is begun with
    schedule, _, _, order = run(count=20, deadline=40, hanging={middle})
    assert set(schedule.efforts) == set(range(20)) - {middle}
    assert order[0][0] != middle


def test_a_case_that_fails_is_not_begun_again():
    schedule, _, failed, _ = run(count=5, failing={2})
    assert failed == {2: "corrupt"}
    assert set(schedule.efforts) == {0, 1, 3, 4}
    assert 2 not in schedule.unanswered


def test_a_case_whose_process_dies_is_begun_again_twice():
    schedule, _, failed, _ = run(count=5, dying={2})
    assert schedule.ended[2] == 3
    assert list(failed) == [2]


def test_a_machine_that_becomes_three_times_slower_half_way():
    schedule, ended, _, order = run(count=200, deadline=100, slow_from=50.0, costs=(0.1, 0.25, 0.5, 1.0))
    assert len(schedule.efforts) == 200
    assert ended <= 100
    before, after = [effort for _, effort in order[:50]], [effort for _, effort in order[-80:]]
    assert sum(before) / len(before) > sum(after) / len(after)


@pytest.mark.parametrize("seed", [117, 192, 387, 1095])
def test_a_machine_that_becomes_slower_while_the_last_cases_are_at_work_costs_no_answer(seed):
    run = bench.simulate(seed)  # each left cases unanswered while first answers were as good as seemed affordable
    assert (run.easy, run.unanswered) == (True, 0)


def test_a_cheap_answer_that_was_to_make_sure_of_one_does_not_replace_a_better_one():
    schedule, ended, _, order = run(count=4, costs=(0.5, 1.0), deadline=8, workers=2, slow={0: 5})
    assert [effort for case, effort in order if case == 0] == [1]  # the cheap one came after it
    assert schedule.efforts == dict.fromkeys(range(4), 1)
    assert ended <= 8


class ScriptedPool(bench.SimulatedPool):
    """One attempt ends in its own way; all that were given are kept."""

    def script(self, attempt, outcome):
        self.scripted, self.outcome, self.given = attempt, outcome, []
        return self

    def submit(self, slot, task, /):
        self.given.append(task)
        super().submit(slot, task)

    def _outcome(self, slot, task):
        if task != self.scripted:
            return super()._outcome(slot, task)
        if self.outcome == "dies":
            self.starting[slot] = self.now + self.world.load
            return Outcome(slot, False, died=True)
        return Outcome(slot, False, why="no memory")


@pytest.mark.parametrize("outcome", ["dies", "fails"])
@pytest.mark.parametrize("effort", [0, 1])
def test_a_case_in_two_slots_is_answered_although_one_of_its_attempts_is_not(effort, outcome):
    cheap = 0.5 if effort else 0.2  # it ends after the dear one, or before it
    world = bench.World([1.0] * 4, [cheap, 1.0], [5.0, 1.0, 1.0, 1.0], set(), set(), set(), NEVER, 1.0)
    pool, failed, order = ScriptedPool(world, 2).script(Attempt(0, effort), outcome), {}, []
    schedule = DeadlineSchedule(
        [1.0] * 4,
        (0.5, 1.0),
        pool,
        clock=lambda: pool.now,
        time_over=lambda: 8.0 if effort else 6.5,
        answered=lambda case, effort, value: order.append((case, effort)),
        failed=lambda case, why: failed.update({case: why}),
    )
    schedule.run()
    assert [given for given in pool.given if given.case == 0] == [Attempt(0, 1), Attempt(0, 0)]
    assert [found for found in order if found[0] == 0] == [(0, 1 - effort)]
    assert (failed, schedule.unanswered) == ({}, [])


def test_what_was_still_at_work_when_the_time_was_over_is_unanswered():
    schedule, ended, _, _ = run(count=3, costs=(1.0,), deadline=3.5, load=1.0, slow={0: 3, 1: 3, 2: 3})
    assert (ended, schedule.unanswered) == (3.5, [0, 1, 2])


def test_answers_of_an_earlier_run_are_not_asked_for_again():
    schedule, _, _, order = run(count=6, known={0: 2, 1: 2, 2: 0})
    assert {case for case, _ in order} == {2, 3, 4, 5}
    assert set(schedule.efforts.values()) == {2}


def test_no_simulated_run_is_late_and_the_time_is_used():
    runs = [bench.simulate(seed) for seed in range(700, 715)]
    assert not [found for found in runs if found.used > 1]
    assert len([found for found in runs if found.tight]) > 3
    assert sorted(found.used for found in runs if found.tight)[1] >= 0.85
    assert any(found.used < 0.5 for found in runs)  # with time enough it does not wait for the deadline


def test_costs_are_learned():
    model = CostModel([1.0, 3.0] * 20, (0.5, 1.0))
    assert not model.measured
    for case in range(20):
        model.learn(Attempt(case, 0), 2.0)  # the same whatever the size, although larger was thought to cost more
    assert model.expect(Attempt(0, 0)) == pytest.approx(2.0, rel=0.2)
    assert model.expect(Attempt(1, 0)) == pytest.approx(2.0, rel=0.2)
    for case in range(20, 26):
        model.learn(Attempt(case, 1), 10.0)  # thought to cost twice as much, costs five times
    assert model.expect(Attempt(0, 1)) == pytest.approx(10.0, rel=0.3)


@pytest.mark.parametrize(
    ("text", "seconds"), [("3h50m", 13800), ("90s", 90), ("1h 30m 10s", 5410), ("2m", 120), ("0.5h", 1800)]
)
def test_durations(text, seconds):
    assert pipeline.read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "3", "3x", "h", "-3h", "0s", "0.2s", "3h50", "nan", "1e3s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(HandlensError, match="duration|less than a second"):
        pipeline.read_duration(text)


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=6, size=96)
    return folder


def staged_challenge(folder, **how):
    (folder / "stage").mkdir()
    (folder / "stage" / "trouble").touch()
    staged = tasks.Staged(folder / "stage", **how)
    return replace(registry.challenge("cells"), load=staged.load, efforts=tasks.two_efforts)


@pytest.mark.slow
def test_a_hanging_a_dying_and_a_failing_case_get_safe_answers_and_a_line_each(cells, tmp_path):
    troubles = (("1", "long"), ("2", "data"), ("4", "kill"))
    challenge = staged_challenge(tmp_path, troubles=troubles)
    solved = pipeline.solve(challenge, cells, tmp_path / "out", deadline=pipeline.Deadline(30.0))
    answers = require_submission(
        solved.submission, challenge.codec(challenge.settings()), pipeline.read_cases(challenge, cells)
    )
    assert len(answers) == 6
    notes = "\n".join(solved.notes)
    assert "2: safe answer, because" in notes
    assert "not a picture" in notes
    assert solved.spent.unanswered >= 3  # on a busy machine processes start slowly


def test_the_safe_submission_is_there_before_anything_is_loaded(cells, tmp_path):
    challenge, seen = registry.challenge("cells"), []

    def pool(make, *, size, threads):
        path = tmp_path / "out" / "submission.csv"
        seen.append(
            require_submission(path, challenge.codec(challenge.settings()), pipeline.read_cases(challenge, cells))
        )
        raise HandlensError("no processes today")

    store = pipeline_store(tmp_path / "out")
    with pytest.raises(HandlensError, match="no processes today"), store as opened:
        pipeline_answer(challenge, cells, opened, tmp_path / "out" / "submission.csv", pool)
    assert len(seen[0]) == 6
    assert (tmp_path / "out" / "submission.csv").exists()


def pipeline_store(folder):
    from handlens.runstore.store import open_store

    return open_store(folder, "key", {})


def pipeline_answer(challenge, data, store, path, pool, seconds=30.0):
    from handlens.pipeline.deadline import answer_by_deadline
    from handlens.pipeline.each_case import ProgressCounter

    cases, counter = pipeline.read_cases(challenge, data), ProgressCounter(lambda *_: None, 6)
    deadline = pipeline.Deadline(seconds)
    how = {"counter": counter, "make_pool": pool}
    return answer_by_deadline(challenge, cases, int, challenge.settings(), store, path, deadline, **how)


def test_a_predictor_that_is_never_loaded_leaves_safe_answers(cells, tmp_path):
    class Pool:
        first, size = None, 1

        def __init__(self, make, *, size, threads):
            pass

        def wait(self, seconds):
            clock.now += seconds
            return []

        def close(self):
            pass

    class FakeClock:
        now = 0.0

        def __call__(self):
            return self.now

    clock = FakeClock()
    from handlens.pipeline.deadline import answer_by_deadline
    from handlens.pipeline.each_case import ProgressCounter

    challenge = registry.challenge("cells")
    cases = pipeline.read_cases(challenge, cells)
    with pipeline_store(tmp_path / "out") as store:
        predicted, spent = answer_by_deadline(
            challenge, cases, int, challenge.settings(), store, tmp_path / "out" / "submission.csv",
            pipeline.Deadline(20.0, clock), counter=ProgressCounter(lambda *_: None, 6), make_pool=Pool,
        )  # fmt: skip
    assert len(predicted.rows) == 6
    assert "before the predictor was loaded" in predicted.notes[0]
    assert spent.unanswered == 6
    assert 15 < clock.now <= 20


@pytest.mark.slow
def test_a_corrupt_image_gets_the_safe_answer_and_the_others_are_those_of_a_run_without_deadline(tmp_path, capsys):
    challenge = registry.challenge("cells")
    pipeline.sample(challenge, tmp_path / "data", seed=3, cases=3, size=128)
    usual = pipeline.solve(challenge, tmp_path / "data", tmp_path / "usual").submission.read_text().splitlines()
    picture = tmp_path / "data" / "test" / "im" / "01.png"
    picture.write_bytes(picture.read_bytes()[:2000])
    solved = pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", deadline=pipeline.Deadline(300.0))
    lines = solved.submission.read_text().splitlines()
    assert lines[:2] + lines[3:] == usual[:2] + usual[3:]
    assert lines[2] == "1,"
    assert any(note.startswith("1: safe answer, because") for note in solved.notes)
    page = json.loads((tmp_path / "out" / "score.json").read_text())
    assert page["deadline"]["failed"] == 1
    assert page["deadline"]["efforts"]["2 turns"] == 2
    assert not (tmp_path / "out" / "unfinished").exists()


@pytest.mark.parametrize(("name", "least"), [("cells", 3), ("ink", 4), ("forgery", 4), ("lesions", 2)])
def test_every_predictor_declares_its_efforts_from_the_cheapest_on(name, least):
    challenge = registry.challenge(name)
    efforts = challenge.efforts(pipeline.load(challenge))
    assert len(efforts) >= least
    assert [effort.cost for effort in efforts] == sorted(effort.cost for effort in efforts)
    assert efforts[-1].cost == 1.0
    assert len({effort.name for effort in efforts}) == len(efforts)


def test_a_duration_that_is_none_is_a_usage_error(cells, tmp_path):
    from click.testing import CliRunner

    from handlens.cli import cli

    result = CliRunner().invoke(cli, ["solve", "cells", str(cells), "-o", str(tmp_path / "out"), "--deadline", "soon"])
    assert result.exit_code == 2
    assert "'soon' is no duration" in result.output
    assert not (tmp_path / "out").exists()
