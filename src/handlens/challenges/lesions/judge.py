"""How models of others are judged: the contract checked, every photograph answered, size and time measured, ranked."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.contract import (
    PIXEL_RANGES,
    Floats,
    check_answer,
    check_slots,
    demographics_input,
    image_input,
)
from handlens.challenges.lesions.score import EFFICIENCY_SHARE, PREDICTION_SHARE, efficiency, score_classes
from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.errors import DataError, counted
from handlens.io.images import read_header
from handlens.sandbox.runner import Answer, GuardedModel, opened
from handlens.sandbox.verdicts import RefusedError
from handlens.types import Case, Judged, Judgement, Limits, Progress, Truth

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings

TRIAL = 16
"""Photographs that are held in memory: for the checks before the rest is answered, and for the time."""

TRIED = 6
"""Photographs whose inputs are changed one at a time, to see whether the answer changes."""

BATCH = 3
"""Photographs that are asked at once, to see that N is free."""

PEOPLE = ((5, 0, 1), (85, 1, 7), (0, 1, 5), (45, -1, 5), (45, 1, -1), (0, -1, -1))
"""Demographics that are tried on a photograph: two people, each fact unknown, and all of them."""

LEAST_CHANGE = 1e-6
"""A probability that changes less has not changed."""

REPEATS = 10
"""How often two questions are asked again where their answers differ: by chance they do not always keep apart."""

CLEAR_CHANGE = 0.01
"""A probability that changes more between alone and in a batch is worth a note."""

WARM_UP, TIMINGS, LEAST_TIMINGS, TIMING_SECONDS = 5, 100, 10, 30.0
"""Warm-up runs; timed runs, at least so many, and no new one after these seconds."""

SLOW_PIPE = 0.1
"""Seconds that a question may travel; where we wait longer than the process says, and more than this, it is noted."""

COLUMNS = (
    "Final Score",
    "Prediction Score",
    "accuracy",
    "Weighted-F1",
    "Efficiency",
    "size MiB",
    "median ms",
    "p95 ms",
)

_MIB = 2**20

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Question:
    """A case as the model sees it: (3, 512, 512) pixels and (3,) demographics."""

    id: str
    image: Floats
    demographics: Floats


@dataclass(frozen=True, slots=True)
class _Run:
    """What a model did: the class number of every case, seconds of single questions, MiB of its file, notes."""

    said: Sequence[int]
    times: Sequence[float]
    mib: float
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Asking:
    """A model that was opened, with what its answers must be."""

    model: GuardedModel
    taxonomy: Taxonomy

    def ask(self, *questions: _Question) -> tuple[Rows, Answer]:
        images = np.stack([question.image for question in questions])
        people = np.stack([question.demographics for question in questions])
        answer = self.model.ask(images, people)
        return check_answer(answer.outputs, [question.id for question in questions], self.taxonomy), answer


def judge(
    models: Sequence[Path], truth: Truth[str], settings: LesionsSettings, limits: Limits, progress: Progress
) -> Judgement:
    """Every model on every case; labels are read after a model's process is gone."""
    cases = _in_hidden_order(truth.cases)
    judged: list[Judged] = []
    unguarded: dict[str, None] = {}
    for number, path in enumerate(models):

        def tell(done: int, before: int = number * len(cases)) -> None:
            progress(before + done, len(models) * len(cases))

        try:
            with opened(path, limits) as model:
                unguarded |= dict.fromkeys(model.unguarded)
                run = _run(model, cases, settings, tell)
            judged.append(_scored(path, cases, run, truth, settings))
        except RefusedError as error:
            judged.append(Judged(path, 0, error.verdict, error.why))
        tell(len(cases))
    return Judgement(_ranked(judged, settings), len(cases), COLUMNS, tuple(unguarded))


def _in_hidden_order(cases: Sequence[Case]) -> list[Case]:
    """By a digest of the photograph: a case's place in the file may tell its class, its place here tells nothing."""
    for case in cases:
        read_header(case.path)  # so that a photograph that is missing is named before any model is started
    if not cases:
        raise DataError("no labelled photographs to judge by")
    return sorted(cases, key=lambda case: (hashlib.sha256(case.path.read_bytes()).digest(), case.id))


def _run(model: GuardedModel, cases: Sequence[Case], settings: LesionsSettings, tell: Callable[[int], None]) -> _Run:
    """Check, answer, measure; RefusedError where the model breaks the contract."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    check_slots(model.takes, model.gives, taxonomy)
    asking = _Asking(model, taxonomy)
    top = PIXEL_RANGES[settings.pixels]
    trial = [_question(case, top) for case in cases[:TRIAL]]
    notes = _check_batch(asking, trial)
    _check_both_inputs(asking, trial)
    said: list[int] = []
    first: list[Rows] = []
    for done, case in enumerate(cases, 1):
        question = trial[done - 1] if done <= len(trial) else _question(case, top)
        rows, _ = asking.ask(question)
        said.append(int(np.argmax(rows[0])))
        first += [rows] if done <= len(trial) else []
        tell(done)
    times, more = _measure(asking, trial, first)
    return _Run(said, times, model.size / _MIB, notes + more)


def _question(case: Case, top: float) -> _Question:
    return _Question(case.id, image_input(case.path, top=top), demographics_input(case.details))


def _check_batch(asking: _Asking, trial: Sequence[_Question]) -> list[str]:
    """Several questions at once get a row each; a note where these are not what each gets alone."""
    several = [trial[index % len(trial)] for index in range(BATCH)]
    together, _ = asking.ask(*several)
    alone = np.concatenate([asking.ask(question)[0] for question in several])
    change = float(np.abs(together - alone).max())
    return [f"answers change by up to {change:.2g} when asked in a batch"] if change > CLEAR_CHANGE else []


def _check_both_inputs(asking: _Asking, trial: Sequence[_Question]) -> None:
    """RefusedError where no answer changes with the demographics, or none with the photograph."""
    tried = trial[:TRIED]
    people = [np.array(person, np.float32) for person in PEOPLE]
    first = tried[0].image
    pictures = [question.image for question in tried] + [np.float32(1 if first.max() <= 1 else 255) - first]
    others: dict[str, Callable[[_Question], list[_Question]]] = {
        "demographics": lambda question: [replace(question, demographics=person) for person in people],
        "image": lambda question: [replace(question, image=picture) for picture in pictures],
    }
    for name, changed in others.items():
        if not any(_changes(asking, question, changed(question)) for question in tried):
            what = f"no answer changes with the {name}, in {counted(len(tried), 'case')} tried"
            raise RefusedError("ignores an input", f"{what}; the model must use both inputs")


def _changes(asking: _Asking, question: _Question, others: Sequence[_Question]) -> bool:
    """Whether any of the others is answered differently; all are asked, because each must have a sound answer."""
    before, _ = asking.ask(question)
    answers = [asking.ask(other)[0] for other in others]
    return any(
        np.abs(answer - before).max() > LEAST_CHANGE and _always_apart(asking, question, other)
        for other, answer in zip(others, answers, strict=True)
    )


def _always_apart(asking: _Asking, one: _Question, other: _Question) -> bool:
    """Whether some class is answered differently every time: noise changes answers too, and uses no input."""
    left, right = (np.concatenate([asking.ask(each)[0] for _ in range(REPEATS)]) for each in (one, other))
    gaps = np.maximum(left.min(axis=0) - right.max(axis=0), right.min(axis=0) - left.max(axis=0))
    return bool(gaps.max() > LEAST_CHANGE)


def _measure(asking: _Asking, trial: Sequence[_Question], first: Sequence[Rows]) -> tuple[list[float], list[str]]:
    """Seconds of single questions after a warm-up, and notes about answers and times that are odd."""
    answers: list[Answer] = []
    differs = False
    begun = time.monotonic()
    for number in range(WARM_UP + TIMINGS):
        index = number % len(trial)
        rows, answer = asking.ask(trial[index])
        differs |= bool(np.abs(rows - first[index]).max() > LEAST_CHANGE)
        answers += [answer] if number >= WARM_UP else []
        if len(answers) >= LEAST_TIMINGS and time.monotonic() - begun > TIMING_SECONDS:
            break
    notes = ["the same question gets different answers"] if differs else []
    lost = statistics.median(answer.waited - answer.seconds for answer in answers)
    if lost > SLOW_PIPE:
        notes.append(f"we waited {1000 * lost:.0f} ms longer for an answer than its process says it took")
    return [answer.seconds for answer in answers], notes


def _scored(path: Path, cases: Sequence[Case], run: _Run, truth: Truth[str], settings: LesionsSettings) -> Judged:
    taxonomy = TAXONOMIES[settings.taxonomy]
    true = [truth.read(case) for case in cases]
    parts = score_classes(true, [taxonomy.classes[number] for number in run.said], taxonomy)
    parts |= {
        "size MiB": run.mib,
        "median ms": 1000 * statistics.median(run.times),
        "p95 ms": 1000 * float(np.percentile(run.times, 95)),
    }
    return Judged(path, 0, "scored", "", parts, tuple(run.notes))


def _ranked(judged: Sequence[Judged], settings: LesionsSettings) -> tuple[Judged, ...]:
    """Efficiency is relative to the models that were scored; equal scores share a rank; the refused come last."""
    scored = [entry for entry in judged if entry.verdict == "scored"]
    field = [entry.parts["median ms"] for entry in scored]
    final = [replace(entry, parts=_with_final(entry.parts, field, settings)) for entry in scored]
    values = [entry.parts["Final Score"] for entry in final]
    ranked = [
        replace(entry, rank=1 + sum(other > value for other in values))
        for entry, value in zip(final, values, strict=True)
    ]
    ranked.sort(key=lambda entry: entry.rank)
    return (*ranked, *(entry for entry in judged if entry.verdict != "scored"))


def _with_final(parts: Mapping[str, float], field: Sequence[float], settings: LesionsSettings) -> dict[str, float]:
    ms = None if settings.efficiency == "size-only" else parts["median ms"]
    worth = efficiency(parts["size MiB"], ms, field=field)
    final = PREDICTION_SHARE * parts["Prediction Score"] + EFFICIENCY_SHARE * worth
    return {"Final Score": final, **parts, "Efficiency": worth}
