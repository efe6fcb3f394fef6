"""Predictions out of fold, kept as they come, and what they are worth with decisions made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from handlens.io.files import replacing
from handlens.training.plan import Plan
from handlens.training.task import Array, Decision, Task
from handlens.types import Score


@dataclass(frozen=True, slots=True)
class Judged:
    """The honest score, the decision made for each fold without it, and the one made on all, for the final model."""

    score: Score
    fold_decisions: tuple[Decision, ...]
    decision: Decision


def prediction_file(run: Path, index: int) -> Path:
    return run / "out_of_fold" / f"{index:05d}.npz"


def keep_prediction(run: Path, index: int, prediction: Array) -> None:
    with replacing(prediction_file(run, index)) as temporary:
        np.savez_compressed(temporary, prediction=prediction)


def read_predictions(run: Path, count: int) -> dict[int, Array]:
    """Those that are there, by the number of their example."""
    found = {}
    for index in range(count):
        if (file := prediction_file(run, index)).exists():
            with np.load(file) as content:
                found[index] = content["prediction"]
    return found


def judge(task: Task, plan: Plan, predictions: Mapping[int, Array]) -> Judged:
    """Nested: a fold is answered with the decision that is best for the others, so nothing was chosen on it."""
    answers, decisions = {}, []
    for stage in plan.stages()[: plan.folds]:
        decision = task.decide(stage.members, predictions)
        decisions.append(decision)
        for index in stage.asked:
            answers[task.ids[index]] = task.answer(index, predictions[index], decision)
    everyone = tuple(range(len(task.ids)))
    return Judged(task.score(answers), tuple(decisions), task.decide(everyone, predictions))
