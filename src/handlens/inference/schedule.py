"""Every case before a deadline: what cases cost is measured, and the effort for each is planned from that.

Knows neither challenges nor processes: it is given a pool that works on attempts, and a clock. Efforts have numbers,
from 0, the cheapest, to the full one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from handlens.inference.cost_model import Attempt, CostModel

Clock = Callable[[], float]
"""Seconds since the run began."""

MARGIN = 1.08
"""What a plan for all cases is multiplied by. By hand, on the first 50 seeds of bench/deadline.py."""

SAFETY_FACTOR = 1.25
"""What the expected duration of a single attempt is multiplied by where it must not fail.

Measured on seeds 1000 to 1399 of bench/deadline.py: tight runs use at least 91 % of their time, with 1.1 at least 85 %;
what is answered, and with which effort, is the same."""

SLOWDOWN = 3.0
"""How much slower the machine may become at any moment without a case going unanswered. A better answer for one case is
worth less than any answer for another: so first answers are cheap until so much is sure, better ones come after."""

TIMEOUT_FACTOR, TIMEOUT_FACTOR_WHEN_SHORT = 10.0, 4.0
"""An attempt is ended after so many times its expected duration; earlier where the others need its process."""

LEAST_TIMEOUT_SHARE = 0.01
"""Share of the whole time that every attempt may take, however short it was expected to be."""

FIRST_TIMEOUT_SHARE = 0.2
"""Share of the time left that an attempt may take while nothing was measured yet."""

RETRIES = 2
"""How often a case is begun again that took too long, or whose process died."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the attempt of a process: `answered` with a value, or `why` not; `died` where it never replied."""

    slot: int
    answered: bool
    value: Any = None
    why: str = ""
    died: bool = False


class WorkerPool(Protocol):
    """Processes that work on one attempt at a time, numbered from 0."""

    @property
    def size(self) -> int: ...

    def ready(self) -> Sequence[int]:
        """Those that wait for an attempt."""

    def submit(self, slot: int, attempt: Attempt, /) -> None: ...

    def wait(self, seconds: float, /) -> Sequence[Outcome]:
        """What was finished, as soon as something is or a process became ready; at the latest after so long."""

    def kill(self, slot: int, /) -> None:
        """End its attempt; it is ready again when it has started anew."""


@dataclass(slots=True)
class _Running:
    attempt: Attempt
    since: float
    limit: float | None = None


@dataclass(slots=True)
class DeadlineSchedule:
    """Answers cases through a pool until all have their best answer, or the time is over.

    sizes      of the cases, in any unit: what their costs are roughly proportional to
    costs      of the efforts, relative to each other, from the cheapest on
    time_over  seconds on the clock at which nothing may run any more; it is asked again and again, as it may change
    answered   called with each answer: case, effort, value. A later one for the same case is a better one
    failed     called with a case that cannot be answered, and why
    known      efforts of cases that are answered already
    """

    sizes: Sequence[float]
    costs: Sequence[float]
    pool: WorkerPool
    clock: Clock
    time_over: Callable[[], float]
    answered: Callable[[int, int, Any], None]
    failed: Callable[[int, str], None]
    known: Mapping[int, int] = field(default_factory=dict)
    model: CostModel = field(init=False)
    efforts: dict[int, int] = field(init=False)
    """Of every answered case, the one of its answer."""
    ended: Counter[int] = field(init=False)
    """How often a case was ended because it took too long, or died."""
    _waiting: list[int] = field(init=False)
    _aside: list[int] = field(init=False)
    _running: dict[int, _Running] = field(init=False)
    _tried: set[Attempt] = field(init=False)
    _begun: float = field(init=False)
    _useful: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.model = CostModel(self.sizes, self.costs)
        self.efforts, self.ended = dict(self.known), Counter()
        self._waiting = sorted((case for case in range(len(self.sizes)) if case not in self.known), key=self._size)
        self._aside, self._running, self._tried, self._begun = [], {}, set(), self.clock()

    def run(self) -> None:
        """Until nothing is left that can be finished in time. Nothing runs when it returns."""
        try:
            while self.clock() < self.time_over() and (self._submit() or self._running or not self.pool.ready()):
                if not self._open_cases() and not self._running:
                    break
                for outcome in self.pool.wait(self._next_look()):
                    self._receive(outcome)
                self._end_overdue()
        finally:
            for slot in list(self._running):
                case = self._running.pop(slot).attempt.case
                self._waiting += [] if case in self.efforts else [case]
                self.pool.kill(slot)

    @property
    def unanswered(self) -> list[int]:
        """Cases that nobody had time for, or that took too long."""
        return sorted({*self._waiting, *self._aside})

    # --- what to do next ----------------------------------------------------------------------------------------------

    def _submit(self) -> bool:
        """Give every process that waits something to do; whether one took an attempt."""
        gave = False
        for slot in self.pool.ready():
            found = self._choose()
            if found is None:
                break
            self._running[slot] = _Running(found[0], self.clock(), found[1])
            self.pool.submit(slot, found[0])
            gave = True
        return gave

    def _choose(self) -> tuple[Attempt, float | None] | None:
        """The next attempt, and how long it may take where that is not a matter of expectation."""
        left = self.time_over() - self.clock()
        if self._waiting:
            return self._first_answer(left), None
        if fresh := [case for case in self._aside if self.ended[case] == 1]:
            return self._retry(fresh[0], left / 4)
        if (attempt := self._insure(left) or self._upgrade(left)) is not None:
            return attempt, left
        return self._retry(self._aside[0], left) if self._aside else None

    def _open_cases(self) -> bool:
        """Whether some case could still get an answer, or a better one."""
        return bool(self._waiting or self._aside or any(effort < self._top for effort in self.efforts.values()))

    def _retry(self, case: int, limit: float) -> tuple[Attempt, float]:
        self._aside.remove(case)
        return Attempt(case, 0), limit

    def _first_answer(self, left: float) -> Attempt:
        """A case that has no answer, with the highest effort that all of them can have."""
        if not self.model.measured:  # one of middling size tells most
            return Attempt(self._waiting.pop((len(self._waiting) - 1) // 2), 0)
        effort = self._affordable(self._waiting, left)
        if effort is None:  # not all can be answered: as many as possible
            return Attempt(self._waiting.pop(0), 0)
        case = self._waiting.pop()  # the largest: small ones fill the end
        while effort and (
            self.model.expect(Attempt(case, effort)) * SAFETY_FACTOR > left
            or not self._survives(Attempt(case, effort), left)
        ):
            effort -= 1
        return Attempt(case, effort)

    def _survives(self, attempt: Attempt, left: float) -> bool:
        """Whether the others could still have the lowest effort after it, were the machine slower from now on."""
        rest = self.model.sum(self._waiting, 0) + self.model.expect(attempt) + self._still_running()
        return SLOWDOWN * rest * MARGIN <= self.pool.size * left * self._useful_share()

    def _insure(self, left: float) -> Attempt | None:
        """The cheapest answer for a case whose first one, of more effort, may come too late."""
        for running in self._running.values():
            attempt, cheap = running.attempt, Attempt(running.attempt.case, 0)
            open_case = attempt.effort and attempt.case not in self.efforts and cheap not in self._tried
            if open_case and SLOWDOWN * (self._rest_of(running) + self.model.expect(cheap)) > left:
                return self._try(cheap.case, cheap.effort)
        return None

    def _upgrade(self, left: float) -> Attempt | None:
        """A better answer for a case that was answered with less than full effort, where it can be finished."""
        busy = {running.attempt.case for running in self._running.values()}
        below = sorted(
            (case for case, effort in self.efforts.items() if effort < self._top and case not in busy),
            key=lambda case: (self.efforts[case], -self._size(case)),
        )
        for effort in range(self._top, 0, -1):
            those = [case for case in below if self._may(case, effort, left)]
            if those and len(those) == sum(self.efforts[case] < effort for case in below) and self._fits(those, effort):
                return self._try(those[0], effort)
        steps = [Attempt(case, effort) for case in below for effort in range(self.efforts[case] + 1, self._top + 1)]
        steps = [attempt for attempt in steps if self._may(attempt.case, attempt.effort, left)]
        if not steps:
            return None
        shortest = sorted(map(self.model.expect, steps))[:2]
        last = sum(shortest) > left or len(steps) == 1  # there is time for one more: the one that gains most
        best = max(steps, key=self.model.expect) if last else steps[0]
        return self._try(best.case, best.effort)

    def _may(self, case: int, effort: int, left: float) -> bool:
        """Whether this would be a better answer that is expected in time, and was not tried before."""
        attempt = Attempt(case, effort)
        return self.efforts[case] < effort and attempt not in self._tried and self.model.expect(attempt) <= left

    def _try(self, case: int, effort: int) -> Attempt:
        self._tried.add(Attempt(case, effort))
        return Attempt(case, effort)

    def _affordable(self, cases: Sequence[int], left: float) -> int | None:
        """The highest effort that all these cases can have; None where even the lowest takes too long."""
        return next((effort for effort in range(self._top, -1, -1) if self._fits(cases, effort, left)), None)

    def _fits(self, cases: Sequence[int], effort: int, left: float | None = None) -> bool:
        left = self.time_over() - self.clock() if left is None else left
        room = self.pool.size * left * self._useful_share() - self._still_running()
        return self.model.sum(cases, effort) * MARGIN <= room

    def _useful_share(self) -> float:
        """What of the time so far went into answers, and not into processes that were started again."""
        usual = 0.1 * self.time_over() * self.pool.size  # so that the first minute does not count for too much
        running = sum(self.clock() - running.since for running in self._running.values())
        spent = (self.clock() - self._begun) * self.pool.size
        return min(1.0, (usual + self._useful + running) / (usual + spent))

    def _still_running(self) -> float:
        """Seconds that the attempts at work are expected to need yet."""
        return sum(map(self._rest_of, self._running.values()))

    def _rest_of(self, running: _Running) -> float:
        spent = self.clock() - running.since
        return max(self.model.expect(running.attempt) - spent, 0.25 * spent)

    # --- what came of it ----------------------------------------------------------------------------------------------

    def _receive(self, outcome: Outcome) -> None:
        running = self._running.pop(outcome.slot)
        case, effort = running.attempt.case, running.attempt.effort
        seconds = self.clock() - running.since
        self._useful += 0 if outcome.died else seconds
        if outcome.answered:
            self.model.learn(running.attempt, seconds)
            if effort > self.efforts.get(case, -1):  # not a cheap answer that was only to make sure of one
                self.efforts[case] = effort
                self.answered(case, effort, outcome.value)
        elif self._is_lost(case) and outcome.died:
            self._put_aside(case)
        elif self._is_lost(case):
            self.failed(case, outcome.why)

    def _is_lost(self, case: int) -> bool:
        """Whether it has no answer and no other attempt that may give one, such as that of `_insure`."""
        return case not in self.efforts and all(running.attempt.case != case for running in self._running.values())

    def _put_aside(self, case: int) -> None:
        self.ended[case] += 1
        self._aside = sorted([*self._aside, case], key=self._size) if self.ended[case] <= RETRIES else self._aside
        if self.ended[case] > RETRIES:
            self.failed(case, "it took too long, or its process died, each time it was begun")

    def _end_overdue(self) -> None:
        """End the attempts that take so long that nobody can wait for them."""
        now = self.clock()
        for slot, running in list(self._running.items()):
            if now >= running.since + self._patience(running):
                del self._running[slot]
                self.pool.kill(slot)
                self.model.learn_at_least(running.attempt, now - running.since)
                if self._is_lost(running.attempt.case):
                    self._put_aside(running.attempt.case)

    def _patience(self, running: _Running) -> float:
        """Seconds that an attempt may take."""
        if running.limit is not None:
            return running.limit
        left = self.time_over() - running.since
        if not self.model.measured:
            share = 1.5 * self.pool.size / (len(self._waiting) + self.pool.size)
            return max(FIRST_TIMEOUT_SHARE, min(0.5, share)) * left
        others = self._waiting
        short = self.model.sum(others, 0) * MARGIN > (self.pool.size - 1) * (self.time_over() - self.clock())
        times = TIMEOUT_FACTOR_WHEN_SHORT if others and short else TIMEOUT_FACTOR
        return max(times * self.model.expect(running.attempt), LEAST_TIMEOUT_SHARE * (self.time_over() - self._begun))

    def _next_look(self) -> float:
        """Seconds until something has to be looked at, whatever the pool says."""
        now = self.clock()
        ends = [running.since + self._patience(running) for running in self._running.values()]
        return max(0.01, min([self.time_over(), *ends]) - now)

    def _size(self, case: int) -> float:
        return self.sizes[case]

    @property
    def _top(self) -> int:
        return len(self.costs) - 1
