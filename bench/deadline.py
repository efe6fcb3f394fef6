"""Is a deadline ever missed, and how much of the allowed time is used?

    python bench/deadline.py [--runs 50] [--seed 0] [-v]     randomised runs on a simulated clock: seconds
    python bench/deadline.py --real [--runs 6]               real `handlens solve --deadline` on synthetic data: minutes

A simulated run draws the number of cases, their sizes and costs, how wrong the declared costs of efforts are, how
many processes, a machine that becomes three times slower half way (every third run), cases that hang, that fail or
whose process dies, and a deadline between a tenth and twice of what full effort takes. Processes and clock are
simulated; the plan is the one of `solve --deadline`. A real run starts the command on synthetic slides or figures with
a random deadline and takes the time from the start of its process to its end.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from handlens.inference.cost_model import Attempt
from handlens.inference.schedule import DeadlineSchedule, Outcome

SLOWER = 3.0


@dataclass
class World:
    """What the planner does not know."""

    sizes: list[float]
    costs: list[float]
    seconds: list[float]
    """Of each case with the full effort, at the usual speed."""
    hanging: set[int]
    failing: set[int]
    dying: set[int]
    slow_from: float
    load: float

    def duration(self, task: Attempt, now: float) -> float:
        work = self.seconds[task.case] * self.costs[task.effort]
        if task.case in self.hanging:
            return float("inf")
        before = max(0.0, min(work, self.slow_from - now))
        return before + (work - before) * SLOWER


@dataclass
class SimulatedPool:
    """Processes on a clock that jumps to the next event."""

    world: World
    size: int
    now: float = 0.0
    busy: dict[int, tuple[float, Attempt]] = field(default_factory=dict)
    starting: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.starting = dict.fromkeys(range(self.size), self.world.load)

    def ready(self) -> list[int]:
        return [slot for slot in range(self.size) if slot not in self.busy and slot not in self.starting]

    def submit(self, slot: int, task: Attempt, /) -> None:
        assert slot in self.ready()
        self.busy[slot] = (self.now + self.world.duration(task, self.now), task)

    def wait(self, seconds: float, /) -> list[Outcome]:
        ends = [end for end, _ in self.busy.values()] + list(self.starting.values())
        self.now = max(self.now, min([self.now + seconds, *ends]))
        self.starting = {slot: end for slot, end in self.starting.items() if end > self.now}
        done = [(slot, task) for slot, (end, task) in self.busy.items() if end <= self.now]
        for slot, _ in done:
            del self.busy[slot]
        return [self._outcome(slot, task) for slot, task in done]

    def kill(self, slot: int, /) -> None:
        self.busy.pop(slot, None)
        self.starting[slot] = self.now + self.world.load

    def _outcome(self, slot: int, task: Attempt) -> Outcome:
        if task.case in self.world.dying:
            self.starting[slot] = self.now + self.world.load
            return Outcome(slot, False, died=True)
        if task.case in self.world.failing:
            return Outcome(slot, False, why="corrupt")
        return Outcome(slot, True, value=task)


@dataclass
class Run:
    """What came of a run. `tight`: full effort would have taken longer than allowed."""

    cases: int
    workers: int
    deadline: float
    ended: float
    tight: bool
    answered: int
    unanswered: int
    efforts: dict[int, int]
    easy: bool = False
    """The lowest effort takes less than 70 % of the time, and no case is odd: all must be answered."""

    @property
    def used(self) -> float:
        return self.ended / self.deadline

    @property
    def failed(self) -> bool:
        return self.easy and self.unanswered > 0


def simulate(seed: int) -> Run:
    """One run of the planner in a world of its own."""
    chance = random.Random(seed)
    count = round(3 * 400 ** chance.random())
    sizes = [chance.lognormvariate(0, chance.choice([0.05, 0.5, 1.0])) for _ in range(count)]
    fixed, scale = chance.random(), 60 ** chance.uniform(-1, 1)
    spread = chance.choice([0.05, 0.2, 0.5])
    seconds = [scale * (fixed + (1 - fixed) * size) * chance.lognormvariate(0, spread) for size in sizes]
    declared = sorted(2.0**-step for step in range(chance.randint(1, 4)))
    costs = sorted(cost * chance.lognormvariate(0, 0.25) for cost in declared)
    odd = {case: chance.choice(["hang", "fail", "die"]) for case in range(count) if chance.random() < 0.01}
    kinds = {kind: {case for case, found in odd.items() if found == kind} for kind in ("hang", "fail", "die")}
    workers = chance.choice([1, 2, 2, 4])
    full = sum(seconds) * costs[-1] / workers
    load = chance.uniform(0.5, 4)
    deadline = max(full * chance.uniform(0.1, 2.0), 4 * load)
    slow_from = deadline / 2 if seed % 3 == 0 else float("inf")
    world = World(sizes, costs, seconds, kinds["hang"], kinds["fail"], kinds["die"], slow_from, load)
    pool = SimulatedPool(world, workers)
    reserve = max(0.02 * deadline, 0.2)
    schedule = DeadlineSchedule(
        sizes,
        declared,
        pool,
        clock=lambda: pool.now,
        time_over=lambda: deadline - reserve,
        answered=lambda *_: None,
        failed=lambda *_: None,
    )
    schedule.run()
    tight = _elapsed(full, slow_from) > deadline
    lowest = _elapsed(sum(seconds) * costs[0] / workers, slow_from - load)  # work begins when processes have started
    easy = not odd and lowest < 0.7 * (deadline - load - max(seconds))
    efforts = {level: list(schedule.efforts.values()).count(level) for level in range(len(costs))}
    unanswered = len(schedule.unanswered)
    return Run(count, workers, deadline, pool.now, tight, len(schedule.efforts), unanswered, efforts, easy)


def _elapsed(work: float, slow_from: float) -> float:
    return min(work, slow_from) + max(0.0, work - slow_from) * SLOWER


def real(seed: int, place: Path) -> Run:
    """One run of the command, with a deadline that is too short for full effort or nearly so."""
    chance = random.Random(seed)
    name = chance.choice(["cells", "forgery"])
    cases, size = chance.randint(8, 24), chance.choice([256, 512])
    data, out = place / f"data{seed}", place / f"out{seed}"
    command = [sys.executable, "-m", "handlens"]
    more = ["--cases", str(cases), "--size", str(size), "--seed", str(seed)]
    subprocess.run([*command, "sample", name, data, *more, "-q"], check=True)
    deadline = chance.uniform(8, 30)
    before = time.monotonic()
    solve = [*command, "solve", name, data, "-o", out, "--deadline", f"{deadline:.1f}s", "--json", "-q"]
    page = json.loads(subprocess.run(solve, check=True, capture_output=True, text=True, timeout=10 * deadline).stdout)
    ended = time.monotonic() - before
    told = page["deadline"]
    efforts = dict(enumerate(told["efforts"].values()))
    tight = ended / deadline > 0.5 and (
        len([count for count in efforts.values() if count]) > 1 or told["unanswered"] > 0
    )
    print(f"  {name}: {told}", file=sys.stderr)
    return Run(cases, 2, deadline, ended, tight, sum(efforts.values()), told["unanswered"], efforts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + (given.runs or (6 if given.real else 50)))
    with tempfile.TemporaryDirectory() as place:
        runs = [real(seed, Path(place)) if given.real else simulate(seed) for seed in seeds]
    for seed, run in zip(seeds, runs, strict=True):
        if given.verbose or given.real or run.used > 1 or (run.tight and run.used < 0.85) or run.failed:
            print(f"seed {seed}: used {run.used:.1%} {run}")
    tight = [run for run in runs if run.tight]
    print(f"runs {len(runs)}, late {sum(run.used > 1 for run in runs)} (bar: 0)")
    least = min((run.used for run in tight), default=float("nan"))
    print(f"full effort takes longer than allowed: {len(tight)} runs, least use {least:.1%} (bar: 85 %)")
    easy = [run for run in runs if run.easy]
    print(
        f"lowest effort fits easily: {len(easy)} runs, with unanswered cases {sum(run.failed for run in easy)} (bar: 0)"
    )


if __name__ == "__main__":
    main()
