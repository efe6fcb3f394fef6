"""`solve --deadline`: a safe submission first, then every answer as good as the time allows, and what was given up."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from handlens.errors import HandlensError, counted
from handlens.inference.cost_model import Attempt
from handlens.inference.executors import usable_cores
from handlens.inference.pool import ProcessPool
from handlens.inference.schedule import Clock, DeadlineSchedule
from handlens.io.submissions import write_cells
from handlens.pipeline.each_case import Answered, CaseWorker, Predicted, ProgressCounter
from handlens.runstore.store import RunStore
from handlens.types import (
    AnswerT,
    AnyChallenge,
    Artefact,
    Case,
    Challenge,
    Effort,
    ModelFolder,
    Predictor,
)

RESERVE, LEAST_RESERVE, MOST_RESERVE = 0.02, 2.0, 120.0
"""Share of the time, and seconds, kept for the last writing and checking of the submission; a tenth at most."""

WRITES_KEPT = 4
"""Times that writing the submission takes which are kept besides: to write it, read it back, check it, and one more."""

REST_SECONDS = 5.0
"""With less time left than this, nothing is loaded any more to score the submission or to write tables."""

WRITE_SHARE = 0.02
"""Of the time so far, how much may go into writing better submissions."""

UNITS = {"h": 3600, "m": 60, "s": 1}


def read_duration(text: str) -> float:
    """Seconds of `3h50m`, `45m`, `90s` or `1h 30m 10s`; HandlensError for anything else, and for nothing.

    >>> read_duration("3h50m"), read_duration("90s"), read_duration("1.5h")
    (13800.0, 90.0, 5400.0)
    """
    if not re.fullmatch(r"\s*(\d+(\.\d+)?\s*[hms]\s*)+", text):
        raise HandlensError(f"{text!r} is no duration; expected hours, minutes and seconds, such as 3h50m or 90s")
    seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([hms])", text))
    if seconds < 1:
        raise HandlensError(f"{text!r} is less than a second")
    return seconds


def stopwatch(before: float = 0.0) -> Clock:
    """Seconds from now on, and those that passed before."""
    started = time.monotonic() - before
    return lambda: time.monotonic() - started


@dataclass(frozen=True, slots=True)
class Deadline:
    """So many seconds on this clock, from its 0 on."""

    seconds: float
    clock: Clock = field(default_factory=stopwatch)

    @property
    def is_near(self) -> bool:
        return self.seconds - self.clock() < REST_SECONDS


@dataclass(frozen=True, slots=True)
class DeadlineUsage:
    """What a deadline cost: answers by effort, cases that have the safe answer, and the model that answered."""

    allowed: float
    efforts: dict[str, int]
    unanswered: int
    failed: int
    model: ModelFolder | None = None

    def as_json(self, used: float) -> dict[str, Any]:
        return {
            "allowed": round(self.allowed, 1),
            "used": round(used, 1),
            "efforts": self.efforts,
            "unanswered": self.unanswered,
            "failed": self.failed,
        }


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a process says of its predictor."""

    names: tuple[str, ...]
    costs: tuple[float, ...]
    model: ModelFolder | None


@dataclass(frozen=True, slots=True)
class _Efforts:
    """In a process: the predictor loaded, and a worker for each of its efforts."""

    efforts: Sequence[Effort[Any]]
    workers: Sequence[CaseWorker]
    cases: Sequence[Case]

    def loaded(self) -> _Loaded:
        names, costs = [effort.name for effort in self.efforts], [effort.cost for effort in self.efforts]
        return _Loaded(tuple(names), tuple(costs), self.efforts[-1].predictor.model)

    def __call__(self, attempt: Attempt, /) -> Any:
        return self.workers[attempt.effort](self.cases[attempt.case])


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads the predictor in a process, so that nobody waits for it here."""

    load: Callable[[], Predictor[Any, Any]]
    efforts: Callable[[Predictor[Any, Any]], Sequence[Effort[Any]]]
    artefacts: Callable[[], Sequence[Artefact[Any]]]
    store: RunStore
    cases: tuple[Case, ...]

    def __call__(self) -> _Efforts:
        efforts, artefacts = self.efforts(self.load()), tuple(self.artefacts())
        places = [_ArraysOf(self.store, str(number)) for number in range(len(efforts))]
        workers = [
            CaseWorker(effort.predictor, artefacts, self.store.folder, place, keep_going=False)
            for effort, place in zip(efforts, places, strict=True)
        ]
        return _Efforts(efforts, workers, self.cases)


@dataclass(frozen=True, slots=True)
class _ArraysOf:
    """Checkpoints of cases with one effort: what another one computed is no part of its answer."""

    store: RunStore
    effort: str

    def __call__(self, case: str) -> Any:
        return self.store.arrays(f"{case} {self.effort}")


class _Submission:
    """The rows as they are now, in a file that is complete and valid at any moment."""

    def __init__(self, challenge: AnyChallenge, cases: Sequence[Case], settings: Any, store: RunStore, path: Path):
        self.codec, self.cases, self.path = challenge.codec(settings), cases, path
        self.journal, self.efforts, self.warnings = store.journal(), store.journal("efforts"), store.journal("warnings")
        self.safe = {case.id: self.codec.format(challenge.empty(case, settings), case) for case in cases}
        self.seconds, self.written, self.in_writing = 0.0, 0.0, 0.0

    @property
    def rows(self) -> dict[str, tuple[str, ...]]:
        return {**self.safe, **{id: cells for id, cells in self.journal.done.items() if id in self.safe}}

    def write(self, now: float) -> None:
        rows, before = self.rows, time.perf_counter()
        write_cells(self.path, self.codec, ((case.id, *rows[case.id]) for case in self.cases))
        self.seconds, self.written = time.perf_counter() - before, now
        self.in_writing += self.seconds

    def add(self, case: Case, found: Answered, effort: int, now: float) -> None:
        """Keep an answer; now and then write all of them."""
        if found.warnings:
            self.warnings.add(case.id, found.warnings)
        self.journal.add(case.id, self.codec.format(found.answer, case))
        self.efforts.add(case.id, [str(effort)])
        if self.in_writing + self.seconds < WRITE_SHARE * now and now - self.written > 10 * self.seconds:
            self.write(now)

    def close(self) -> None:
        for journal in (self.journal, self.efforts, self.warnings):
            journal.close()


def answer_by_deadline(
    challenge: Challenge[AnswerT, Any, Any],
    cases: Sequence[Case],
    load: Callable[[int], Predictor[Any, AnswerT]],
    settings: Any,
    store: RunStore,
    path: Path,
    deadline: Deadline,
    *,
    workers: int | None = None,
    counter: ProgressCounter,
    make_pool: Callable[..., Any] = ProcessPool,
) -> tuple[Predicted, DeadlineUsage]:
    """A row for every case with notes on what was given up, and how the time was spent.

    The submission is there with safe answers before anything is loaded. `load` is called in other processes, with the
    number of threads that each has.
    """
    submission = _Submission(challenge, cases, settings, store, path)
    submission.write(deadline.clock())
    waiting = [case for case in cases if case.id not in submission.journal.done]
    counter.cases(len(cases) - len(waiting))
    size = max(1, min(workers or usable_cores(), len(waiting)))
    threads = max(1, usable_cores() // size)
    artefacts = partial(challenge.artefacts, settings)
    make = _Loader(partial(load, threads), challenge.efforts, artefacts, store, tuple(cases))
    failed: dict[int, str] = {}
    reserve = min(MOST_RESERVE, max(min(LEAST_RESERVE, deadline.seconds / 10), RESERVE * deadline.seconds))

    def time_over() -> float:
        return deadline.seconds - reserve - WRITES_KEPT * submission.seconds

    def answered(number: int, effort: int, answer: Any) -> None:
        submission.add(cases[number], answer, effort, deadline.clock())
        counter.cases(len(submission.journal.done))

    with closing(submission), closing(make_pool(make, size=size, threads=threads)) as pool:
        loaded = _wait_until_loaded(pool, deadline.clock, time_over)
        if loaded is None:
            schedule = None
        else:
            schedule = DeadlineSchedule(
                [float(case.pixels or 0) or 1.0 for case in cases],
                loaded.costs,
                pool,
                deadline.clock,
                time_over,
                answered,
                lambda number, why: failed.update({number: why}),
                _known(cases, submission, len(loaded.names)),
            )
            schedule.run()
    names = loaded.names if loaded else ("full effort",)
    efforts = Counter(names[int(level)] for (level,) in submission.efforts.done.values() if int(level) < len(names))
    shares = {name: efforts[name] for name in names}
    unanswered = [number for number, case in enumerate(cases) if case.id not in submission.journal.done]
    notes = _notes(cases, shares, unanswered, failed, schedule is not None)
    spent = DeadlineUsage(deadline.seconds, shares, len(unanswered), len(failed), loaded.model if loaded else None)
    warned = {id: found for id, found in submission.warnings.done.items() if id in submission.journal.done}
    return Predicted(submission.rows, notes, warned), spent


def _wait_until_loaded(pool: Any, clock: Clock, time_over: Callable[[], float]) -> _Loaded | None:
    """What the first process loaded; None where the time was over before."""
    while pool.first is None:
        left = time_over() - clock()
        if left <= 0:
            return None
        pool.wait(left)
    found: _Loaded = pool.first
    return found


def _known(cases: Sequence[Case], submission: _Submission, count: int) -> dict[int, int]:
    """Efforts of the cases that an earlier, stopped run answered."""
    done = submission.efforts.done
    return {
        number: min(int(done[case.id][0]) if case.id in done else count - 1, count - 1)
        for number, case in enumerate(cases)
        if case.id in submission.journal.done
    }


def _notes(
    cases: Sequence[Case], shares: dict[str, int], unanswered: Sequence[int], failed: dict[int, str], loaded: bool
) -> list[str]:
    """What was given up, in sentences."""
    notes = [f"{cases[number].id}: safe answer, because {why}" for number, why in sorted(failed.items())]
    late = [cases[number].id for number in unanswered if number not in failed]
    if not loaded:
        notes.append("the time was over before the predictor was loaded: every answer is the safe one")
    elif late:
        shown = ", ".join(late[:5]) + (", ..." if len(late) > 5 else "")
        notes.append(f"no time for {counted(len(late), 'case')}, which have the safe answer: {shown}")
    *lower, _ = shares
    if any(shares[name] for name in lower):
        words = ", ".join(f"{name} {shares[name]:,}" for name in reversed(shares) if shares[name])
        notes.append(f"less than full effort for some cases: {words}")
    return notes
