"""How models of others are judged: the contract checked, every photograph answered, size and time measured, ranked."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, NamedTuple

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
from handlens.challenges.lesions.ranking import rank_models
from handlens.challenges.lesions.score import score_classes
from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.errors import DataError, HandlensError, counted
from handlens.inference.executors import Executor
from handlens.io.files import scratch_folder
from handlens.io.gate import read_bytes
from handlens.io.images import MAX_IMAGE_BYTES, read_header
from handlens.sandbox.runner import Answer, GuardedModel, opened, read_model
from handlens.sandbox.verdicts import RefusedError
from handlens.types import Case, Judged, Judgement, Limits, Progress, Truth

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings

TRIAL = 16
"""Photographs that are tried before any is scored: alone, in a batch, with other people, with other photographs."""

TRIED = 6
"""Photographs of the trial whose inputs are changed one at a time."""

BATCH = 3
"""Photographs that are asked at once, to see that N is free."""

PEOPLE = ((5, 0, 1), (85, 1, 7), (0, 1, 5), (45, -1, 5), (45, 1, -1), (0, -1, -1))
"""Demographics that are tried on a photograph: two people, each fact unknown, and all of them."""

LEAST_CHANGE = 1e-6
"""A probability that changes less has not changed."""

CLEAR_CHANGE = 0.01
"""A probability that changes more between alone and in a batch is worth a note."""

LEAST_TIMINGS = 40
"""Scored questions at least, so that a median means something: where there are fewer cases, more are repeated."""

REPEATED = 0.1
"""Part of the cases that is asked once more, at random places among the others."""

UNEVEN, UNEVEN_SECONDS = 3.0, 0.01
"""How many times the median, and how far above it, the mean time without the slowest twentieth is worth a note: the
median does not show a model that is quick about half of the photographs and slow about the others."""

SWAPPED = 48
"""Questions with another case's demographics, and with another's photograph, among the scored: of all cases in turn.

Not fewer: a model that is very sure of most answers changes few of them."""

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

Row = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64]


Person = tuple[float, ...]
"""Demographics as the model takes them: age, gender, location."""


class _Question(NamedTuple):
    """What is asked: the photograph of a case, by its number, perhaps inverted, and somebody's demographics."""

    case: int
    person: Person
    inverted: bool = False


class _Probe(NamedTuple):
    """A scored question, and the same with one input, `name`, exchanged."""

    name: str
    scored: _Question
    changed: _Question


@dataclass(frozen=True, slots=True)
class _ModelRun:
    """What a model did: the class number of every case, seconds of scored questions, MiB of its file, notes."""

    said: Sequence[int]
    times: Sequence[float]
    mib: float
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Examination:
    """A model and what it was asked: the first answer to every question is kept, and all others must be the same."""

    model: GuardedModel
    cases: Sequence[Case]
    taxonomy: Taxonomy
    top: float
    answers: dict[_Question, Row] = field(default_factory=dict)

    def ask(self, *questions: _Question) -> tuple[Rows, Answer]:
        images = np.stack([self._photograph(question) for question in questions])
        people = np.array([question.person for question in questions], np.float32)
        answer = self.model.ask(images, people)
        return check_answer(answer.outputs, [self.cases[each.case].id for each in questions], self.taxonomy), answer

    def ask_alone(self, question: _Question) -> float:
        """Ask one question and keep the answer; RefusedError where it was answered otherwise before. Seconds."""
        rows, answer = self.ask(question)
        before = self.answers.setdefault(question, rows[0])
        change = np.abs(rows[0] - before)
        if change.max() > LEAST_CHANGE:
            worst = int(change.argmax())
            what = f"{self.cases[question.case].id} got {self.taxonomy.classes[worst]} {before[worst]:.6g}"
            raise RefusedError("different answers", f"{what}, and {rows[0][worst]:.6g} when it was asked again")
        return answer.seconds

    def changes(self, probe: _Probe) -> bool:
        """Whether a probe was answered otherwise than the question it was made of; both must have been asked."""
        change = np.abs(self.answers[probe.changed] - self.answers[probe.scored])
        return bool(change.max() > LEAST_CHANGE)

    def _photograph(self, question: _Question) -> Floats:
        image = image_input(self.cases[question.case].path, top=self.top)
        return np.float32(self.top) - image if question.inverted else image


def judge(
    models: Sequence[Path],
    truth: Truth[str],
    settings: LesionsSettings,
    limits: Limits,
    progress: Progress,
    executor: Executor | None = None,
) -> Judgement:
    """Every model on every case; labels are read after a model's process is gone, and never leave this one."""
    cases = _readable(truth.cases)
    if executor is not None:
        return _judge_elsewhere(models, cases, truth, settings, limits, progress, executor)
    judged: list[Judged] = []
    unguarded: dict[str, None] = {}
    missing: dict[str, None] = {}
    for number, path in enumerate(models):

        def advance(done: int, before: int = number * len(cases)) -> None:
            progress(before + done, len(models) * len(cases))

        try:
            with opened(path, limits) as model:
                unguarded |= dict.fromkeys(model.unguarded)
                missing |= dict.fromkeys(model.missing)
                run = _run(model, cases, settings, SystemRandom(), advance)
            judged.append(_scored(path, cases, run, truth, settings))
        except RefusedError as error:
            judged.append(Judged(path, 0, error.verdict, error.why))
        advance(len(cases))
    return Judgement(rank_models(judged, settings), len(cases), COLUMNS, tuple(unguarded), tuple(missing))


def _judge_elsewhere(
    models: Sequence[Path],
    cases: Sequence[Case],
    truth: Truth[str],
    settings: LesionsSettings,
    limits: Limits,
    progress: Progress,
    executor: Executor,
) -> Judgement:
    """The same, each model by some worker, which is given its bytes and the cases without their labels."""
    content: dict[int, bytes] = {}
    judged: dict[int, Judged] = {}
    for number, path in enumerate(models):
        try:
            content[number] = read_model(path)
        except RefusedError as error:
            judged[number] = Judged(path, 0, error.verdict, error.why)
    guards: dict[str, None] = {}
    missing: dict[str, None] = {}
    items = [(number, models[number].name, content[number]) for number in sorted(content)]
    make = partial(_make_examiner, cases, settings, limits)
    with closing(executor.map(make, items, name=lambda item: item[1], survive=_lost)) as results:
        for index, examined in results:
            number, path = items[index][0], models[items[index][0]]
            guards |= dict.fromkeys(examined.unguarded)
            missing |= dict.fromkeys(examined.missing)
            if examined.run is None:
                judged[number] = Judged(path, 0, examined.verdict, examined.why)
            else:
                judged[number] = _scored(path, cases, examined.run, truth, settings)
            progress(len(judged), len(models))
    found = [judged[number] for number in range(len(models))]
    return Judgement(rank_models(found, settings), len(cases), COLUMNS, tuple(guards), tuple(missing))


@dataclass(frozen=True, slots=True)
class _Examined:
    """What comes back of a model: how it did, or why it is refused, and what its machine could not keep it from."""

    run: _ModelRun | None = None
    verdict: str = ""
    why: str = ""
    unguarded: Sequence[str] = ()
    missing: Sequence[str] = ()


def _lost(_item: object, error: HandlensError) -> _Examined:
    return _Examined(verdict="ended its worker", why=str(error))


def _make_examiner(
    cases: Sequence[Case], settings: LesionsSettings, limits: Limits, _folder: Path | None
) -> Callable[[tuple[int, str, bytes]], _Examined]:
    return partial(_examine, cases, settings, limits)


def _examine(
    cases: Sequence[Case], settings: LesionsSettings, limits: Limits, item: tuple[int, str, bytes]
) -> _Examined:
    with scratch_folder("judge") as folder:
        path = folder / "model.onnx"
        path.write_bytes(item[2])
        unguarded: Sequence[str] = ()
        missing: Sequence[str] = ()
        try:
            with opened(path, limits) as model:
                unguarded, missing = model.unguarded, model.missing
                run = _run(model, cases, settings, SystemRandom(), lambda _done: None)
            return _Examined(run, unguarded=unguarded, missing=missing)
        except RefusedError as error:
            return _Examined(None, error.verdict, error.why, unguarded, missing)


def _readable(cases: Sequence[Case]) -> Sequence[Case]:
    """The cases, of which there are some; a photograph that is missing is named before any model is started."""
    for case in cases:
        read_header(case.path)
    if not cases:
        raise DataError("no labelled photographs to judge by")
    return cases


def _run(
    model: GuardedModel,
    cases: Sequence[Case],
    settings: LesionsSettings,
    dice: Random,
    progress: Callable[[int], None],
) -> _ModelRun:
    """Try the contract, then, in a new process, ask what is scored; RefusedError where the model breaks the contract.

    Scored questions, their repetitions and those with one input exchanged come in an order that `dice` make, so that
    none can be told from another. The time of a model is that of its scored answers, on our clock.
    """
    taxonomy = TAXONOMIES[settings.taxonomy]
    check_slots(model.takes, model.gives, taxonomy)
    examination = _Examination(model, cases, taxonomy, PIXEL_RANGES[settings.pixels])
    people = [_person(case) for case in cases]
    scored = [_Question(number, person) for number, person in enumerate(people)]
    notes = _try_contract(examination, dice.sample(scored, min(TRIAL, len(scored))))
    model.restart()  # what it may have learned in the trial is gone; its answers to the same questions must not be
    probes = _probes(cases, people, dice)
    repeated = max(1, math.ceil(REPEATED * len(scored)), LEAST_TIMINGS - len(scored))
    plan = [*scored, *dice.choices(scored, k=repeated), *(probe.changed for probe in probes)]
    dice.shuffle(plan)
    times: list[float] = []
    natural = set(scored)
    for done, question in enumerate(plan, 1):
        seconds = examination.ask_alone(question)
        times += [seconds] if question in natural else []
        progress(done * len(cases) // len(plan))
    notes += [*_check_times(times), *_check_both_inputs(examination, probes)]
    said = [int(np.argmax(examination.answers[question])) for question in scored]
    return _ModelRun(said, times, model.size / _MIB, notes)


def _content(case: Case) -> bytes:
    return read_bytes(case.path, most=MAX_IMAGE_BYTES)


def _person(case: Case) -> Person:
    return tuple(demographics_input(case.details).tolist())


def _try_contract(examination: _Examination, trial: Sequence[_Question]) -> list[str]:
    """Sound answers about anybody, and in a batch too; a note where a batch changes them."""
    for question in trial:
        examination.ask_alone(question)
    notes = _check_batch(examination, trial)
    pictures = [question.case for question in trial[:TRIED]]
    for question in trial[:TRIED]:
        for person in PEOPLE:
            examination.ask_alone(question._replace(person=tuple(map(float, person))))
        for case in pictures:
            examination.ask_alone(question._replace(case=case, inverted=case == question.case))
    return notes


def _check_batch(examination: _Examination, trial: Sequence[_Question]) -> list[str]:
    """Several questions at once get a row each; a note where these are not what each gets alone."""
    several = [trial[index % len(trial)] for index in range(BATCH)]
    together, _ = examination.ask(*several)
    alone = np.stack([examination.answers[question] for question in several])
    change = float(np.abs(together - alone).max())
    return [f"answers change by up to {change:.2g} when asked in a batch"] if change > CLEAR_CHANGE else []


def _probes(cases: Sequence[Case], people: Sequence[Person], dice: Random) -> list[_Probe]:
    """Scored questions with the demographics, and with the photograph, of another case: nothing tells them apart.

    Where no other case has other ones, the demographics are made up, and the photograph is inverted.
    """
    probes = []
    numbers = range(len(cases))
    turns = dice.sample(numbers, len(cases))
    for number in (turns[index % len(turns)] for index in range(SWAPPED)):
        scored = _Question(number, people[number])
        strangers = [other for other in numbers if people[other] != people[number]]
        made_up = [tuple(map(float, person)) for person in PEOPLE if person != people[number]]
        person = people[dice.choice(strangers)] if strangers else dice.choice(made_up)
        probes.append(_Probe("demographics", scored, scored._replace(person=person)))
        other = dice.choice(numbers)
        same = _content(cases[other]) == _content(cases[number])
        probes.append(_Probe("image", scored, scored._replace(case=number if same else other, inverted=same)))
    return probes


def _check_times(times: Sequence[float]) -> list[str]:
    """A note where some photographs take a model many times as long as others."""
    usual = sorted(times)[: math.ceil(0.95 * len(times))]  # what the machine did beside it is no note
    middle, mean = statistics.median(times), statistics.fmean(usual)
    if mean <= max(UNEVEN * middle, middle + UNEVEN_SECONDS):
        return []
    return [f"its time depends on the photograph: {1000 * middle:.3g} ms in the median, {1000 * mean:.3g} in the mean"]


def _check_both_inputs(examination: _Examination, probes: Sequence[_Probe]) -> list[str]:
    """RefusedError where no answer changes with the demographics, or none with the photograph; a note where few do."""
    notes = []
    for name in ("demographics", "image"):
        tried = [probe for probe in probes if probe.name == name and probe.changed != probe.scored]
        changed = sum(map(examination.changes, tried))
        if not changed:
            what = f"no answer changes with the {name}, in {counted(len(tried), 'question')} tried"
            raise RefusedError("ignores an input", f"{what}; the model must use both inputs")
        if changed < len(tried) / 2:
            notes.append(f"{counted(changed, 'answer')} of {len(tried)} changed with the {name}")
    return notes


def _scored(path: Path, cases: Sequence[Case], run: _ModelRun, truth: Truth[str], settings: LesionsSettings) -> Judged:
    taxonomy = TAXONOMIES[settings.taxonomy]
    true = [truth.read(case) for case in cases]
    parts = score_classes(true, [taxonomy.classes[number] for number in run.said], taxonomy)
    parts |= {
        "size MiB": run.mib,
        "median ms": 1000 * statistics.median(run.times),
        "p95 ms": 1000 * float(np.percentile(run.times, 95)),
    }
    return Judged(path, 0, "scored", "", parts, tuple(run.notes))
