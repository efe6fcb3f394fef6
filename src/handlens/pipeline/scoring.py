"""Answers of others: submissions checked and scored, models judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from handlens.errors import HandlensError, Problem
from handlens.inference.executors import Executor
from handlens.io.submissions import read_submission, require_submission
from handlens.pipeline.folders import join_truth, open_truth, read_cases
from handlens.settings import SettingsT
from handlens.types import (
    AnswerT,
    AnyChallenge,
    Challenge,
    Judgement,
    LabelT,
    Limits,
    Part,
    Progress,
    Score,
    no_progress,
)


def check(
    challenge: Challenge[Any, Any, SettingsT], file: Path, folder: Path, settings: SettingsT, part: Part | None = None
) -> list[Problem]:
    """Every problem of a submission for these cases; needs no truth."""
    cases, codec = read_cases(challenge, folder, part), challenge.codec(settings)
    faults = [(f"{codec.id_column} {case.id}", case.fault) for case in cases if case.fault]
    unknown = [Problem(f"cannot be checked: {fault}", id=name) for name, fault in faults]
    return [*read_submission(file, codec, cases).problems, *unknown]


def score(
    challenge: Challenge[AnswerT, LabelT, SettingsT],
    file: Path,
    truth: Path,
    settings: SettingsT,
    part: Part | None = None,
) -> Score:
    """The exact score. Every row is validated before the first label is read."""
    opened = open_truth(challenge, truth, settings, part)
    answers = require_submission(file, challenge.codec(settings), opened.cases)
    return challenge.score(answers, opened, settings)


def score_json(challenge: AnyChallenge, result: Score) -> dict[str, Any]:
    """A score as a program reads it."""
    return {
        "challenge": challenge.name,
        "score": result.value,
        "parts": dict(result.parts),
        "notes": list(result.notes),
        "cases": [{**asdict(case), "parts": dict(case.parts)} for case in result.cases],
    }


def judge(
    challenge: Challenge[Any, LabelT, SettingsT],
    models: Sequence[Path],
    folder: Path,
    settings: SettingsT,
    *,
    part: Part | None = None,
    limits: Limits | None = None,
    executor: Executor | None = None,
    progress: Progress = no_progress,
) -> Judgement:
    """Run and rank untrusted models on the labelled cases of a data folder; an `executor` runs each on some worker."""
    if challenge.judge is None:
        raise HandlensError(f"{challenge.name} does not support judge")
    truth = join_truth(challenge, folder, settings, part)
    how = {} if executor is None else {"executor": executor}
    return challenge.judge(models, truth, settings, limits or Limits(), progress, **how)
