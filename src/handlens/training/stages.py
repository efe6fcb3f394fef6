"""The networks of a training: one for each fold, and one trained on all examples; how many steps each takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from handlens.runstore.plan import Plan
from handlens.splits import count_parts, fold_of
from handlens.training.task import Task

LEAST_STEPS = 20
"""Steps of a stage below which nothing is learned, whatever the clock says."""

NEVER = -1
"""Fold of an example that is never held out: every network, or already its first weights, is trained on it."""

SPARE = 0.97
"""Share of the minutes that is planned: steps are not all equally long."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured here: seconds of a step, in both memory layouts, of a prediction, and of an export."""

    step: float
    predict: float
    channels_last: bool
    other_step: float = 0.0
    export: float = 0.0

    def plain(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Stage:
    """One network to train: on the examples outside a fold, or on all of them."""

    name: str
    number: int
    members: tuple[int, ...]
    held_out: tuple[int, ...]
    steps: int


def speed_of(plan: Plan) -> Speed:
    return Speed(**plan.speed)


def stages_of(plan: Plan) -> list[Stage]:
    """The folds, then the final network, which learns from all; or the only network."""
    everyone = tuple(range(len(plan.ids)))
    if plan.folds == 1:
        held_out = tuple(index for index in everyone if plan.fold_of[index] != NEVER)
        return [Stage("final", 0, tuple(sorted({*everyone} - {*held_out})), held_out, plan.final_steps)]
    folds = [
        Stage(
            f"fold{fold}",
            fold,
            tuple(index for index in everyone if plan.fold_of[index] != fold),
            tuple(index for index in everyone if plan.fold_of[index] == fold),
            plan.steps,
        )
        for fold in range(plan.folds)
    ]
    return [*folds, Stage("final", plan.folds, everyone, (), plan.final_steps)]


def parts_of(plan: Plan) -> list[int]:
    """The numbers of the parts that are held out: the folds, or the two parts that the only network never saw."""
    return sorted(set(plan.fold_of) - {NEVER})


def stage_of(plan: Plan, part: int) -> Stage:
    """The network that has not seen a part."""
    return stages_of(plan)[0 if plan.folds == 1 else part]


def prediction_steps(plan: Plan, stage: Stage) -> int:
    """How many steps take as long as predicting a fold's examples: the progress bar counts in steps."""
    speed = speed_of(plan)
    return round(len(stage.held_out) * speed.predict / speed.step)


def total_steps(plan: Plan) -> int:
    """Length of the whole run, in steps."""
    return sum(stage.steps + prediction_steps(plan, stage) for stage in stages_of(plan))


def count_steps(seconds: float, folds: int, examples: int, speed: Speed, *, exports: int = 0) -> tuple[int, int]:
    """Steps of each fold and of the final network that fit the seconds, predictions and exports included.

    The final network has more examples, and as many more steps; a single one takes all the time.
    """
    left = seconds * SPARE - examples * speed.predict - exports * speed.export
    if folds == 1:
        return 0, max(LEAST_STEPS, int(left / speed.step))
    more = folds / (folds - 1)
    steps = max(LEAST_STEPS, int(left / speed.step / (folds + more)))
    return steps, round(steps * more)


def assign_folds(task: Task, folds: int, seed: int) -> list[int]:
    """The fold of every example; NEVER for those that the first weights have seen, or the only network learns from."""
    free = [index for index in range(len(task.ids)) if index not in task.seen]
    groups = [task.groups[index] for index in free]
    strata = [task.strata[index] for index in free] if task.strata is not None else None
    dealt = fold_of(groups, folds=count_parts(groups, folds), seed=seed, strata=strata)
    if folds == 1:
        dealt = [part if part in (0, 1) else NEVER for part in dealt]
    found = dict(zip(free, dealt, strict=True))
    return [found.get(index, NEVER) for index in range(len(task.ids))]
