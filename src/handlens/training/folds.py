"""Out-of-fold predictions, stored as they come, and their exact score with decisions fitted on the other folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlens.runstore.plan import Plan
from handlens.runstore.store import ArrayFolder
from handlens.training.stages import NEVER, parts_of
from handlens.training.task import Array, Decision, Task
from handlens.types import Score

FOLDER = "out_of_fold"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The nested score, the decision chosen for each fold without it, and the one chosen on all, which ships."""

    score: Score
    fold_decisions: tuple[Decision, ...]
    decision: Decision
    answers: Mapping[str, Any]


class Predictions(Mapping[int, Array]):
    """Predictions by the number of their example, read on demand: together they may be large."""

    def __init__(self, run: Path, count: int) -> None:
        self.arrays = ArrayFolder(run / FOLDER)
        self.count = count

    def save(self, index: int, prediction: Array) -> None:
        self.arrays.save(_name(index), prediction)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self.arrays.has(_name(index))

    def __getitem__(self, index: int) -> Array:
        found = self.arrays.load(_name(index))
        if found is None:
            raise KeyError(index)
        return found

    def __iter__(self) -> Iterator[int]:
        return (index for index in range(self.count) if index in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _name(index: int) -> str:
    return f"{index:05d}"


def evaluate(
    task: Task,
    plan: Plan,
    predictions: Mapping[int, Array],
    answer_settled: Callable[[int, Decision], Callable[[int], Any]],
) -> Evaluation:
    """Nested: a part is answered with the decision that is best for the others, so nothing was chosen on it.

    `answer_settled` gives for a part and its decision what the settled network's file answers, where a decision is
    part of the network.
    """
    answers: dict[str, Any] = {}
    decisions = []
    for part in parts_of(plan):
        others = [index for index, own in enumerate(plan.fold_of) if own not in (NEVER, part)]
        decision = task.decide(others, predictions)
        decisions.append(decision)
        settled = answer_settled(part, decision) if task.answer_with is not None else None
        for index in held_out_of(plan, part):
            answer = settled(index) if settled else task.answer(index, predictions[index], decision)
            answers[task.ids[index]] = answer
    everyone = tuple(index for index, fold in enumerate(plan.fold_of) if fold != NEVER)
    return Evaluation(task.score(answers), tuple(decisions), task.decide(everyone, predictions), answers)


def held_out_of(plan: Plan, part: int) -> tuple[int, ...]:
    """The examples of a part."""
    return tuple(index for index, own in enumerate(plan.fold_of) if own == part)


SWEPT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Thresholds that a sweep tries beside the chosen one."""


def sweep(task: Task, predictions: Mapping[int, Array], decision: Decision) -> list[tuple[float, float]]:
    """The score of all out-of-fold predictions with other thresholds; nothing where none is the same for all."""
    page = decision.plain()
    chosen = page.get("threshold")
    if chosen is None or page.get("adaptive") or task.answer_with is not None:
        return []
    found = []
    for threshold in sorted({*SWEPT, float(chosen)}):
        changed = decision.replace(threshold=threshold)
        answers = {task.ids[index]: task.answer(index, predictions[index], changed) for index in predictions}
        found.append((threshold, task.score(answers).value))
    return found
