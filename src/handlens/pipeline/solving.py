"""From a data folder to a submission, checked, and scored where truth is there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic

from handlens.errors import DataError, HandlensError, counted
from handlens.inference.executors import Executor
from handlens.io.files import write_text
from handlens.io.submissions import Format, refuse_format, require_submission, write_cells
from handlens.licences import is_non_commercial
from handlens.pipeline.deadline import Deadline, DeadlineUsage, answer_by_deadline
from handlens.pipeline.each_case import Predicted, ProgressCounter, predict_all
from handlens.pipeline.folders import find_part, find_truth, skipped_files
from handlens.pipeline.loading import Solver, load, training_truth
from handlens.pipeline.notes import licence_note, model_notes, warning_notes
from handlens.pipeline.runs import package_version
from handlens.pipeline.scoring import score_json
from handlens.runstore.store import fingerprint_of, open_store
from handlens.sandbox.runner import missing_here
from handlens.settings import Settings, SettingsT, fields_of
from handlens.types import (
    AnswerT,
    AnyChallenge,
    Case,
    Challenge,
    LabelT,
    ModelFolder,
    Part,
    Predictor,
    Progress,
    Score,
    Truth,
    no_progress,
)


@dataclass(frozen=True, slots=True)
class Solved:
    """What a solve wrote: the submission, the score where truth was there, and what went wrong on the way.

    `warnings` are what the predictor found odd about cases, by id: sentences.
    """

    submission: Path
    cases: int
    score: Score | None
    empty_score: float | None
    seconds: float
    notes: tuple[str, ...] = ()
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spent: DeadlineUsage | None = None
    """How the time was spent, where there was a deadline."""

    def __repr__(self) -> str:
        value = f"score {self.score.value:.6f}" if self.score else "no truth, so no score"
        return f"<Solved {self.submission}: {counted(self.cases, 'case')}, {value}>"


@dataclass(frozen=True, slots=True)
class _Job(Generic[AnswerT, LabelT, SettingsT]):
    """What a solve is about: its cases and settings, and what answers them. Nothing is loaded or written yet."""

    challenge: Challenge[AnswerT, LabelT, SettingsT]
    folder: Path
    out: Path
    form: Format
    part: Part
    cases: Sequence[Case]
    settings: SettingsT
    solver: Solver
    model: Path | None
    keep_going: bool
    untrusted: bool

    @property
    def submission(self) -> Path:
        return self.out / f"submission.{self.form}"

    @property
    def about(self) -> dict[str, Any]:
        """What `run.json` and `score.json` say of it."""
        return {
            "command": "solve",
            "challenge": self.challenge.name,
            "part": self.part,
            "solver": self.solver,
            "settings": _settings_for_solve(self.settings),
            "handlens": package_version(),
            "model": str(self.model) if self.model else None,
        }

    def load(self, threads: int | None = None) -> Predictor[Any, AnswerT]:
        challenge = self.challenge
        training = partial(training_truth, challenge.open_truth, challenge.read_cases, self.folder, self.settings)
        return load(
            challenge,
            settings=self.settings,
            model=self.model,
            solver=self.solver,
            training=training,
            threads=threads,
            untrusted=self.untrusted,
        )

    def fingerprint(self, predictor: Predictor[Any, AnswerT] | None) -> str:
        """Of the input files, the settings, and the files of the model."""
        weights = self.model or (predictor.model.folder if predictor and predictor.model else None)
        files = [weights] if weights else []
        if self.model is None and self.solver == "model":
            files += [each.file for each in self.challenge.fitted]
        used = [fingerprint_of([], file, without=self.out) for file in files]
        kind = type(predictor).__qualname__ if predictor else "by deadline"  # loaded later, by other processes
        return fingerprint_of([json.dumps(self.about, default=str), kind, *used], self.folder, without=self.out)


def solve(
    challenge: Challenge[AnswerT, LabelT, SettingsT],
    folder: Path,
    out: Path,
    *,
    form: Format = "csv",
    part: Part | None = None,
    settings: SettingsT | None = None,
    solver: Solver = "model",
    model: Path | None = None,
    predictor: Predictor[Any, AnswerT] | None = None,
    keep_going: bool = False,
    overwrite: bool = False,
    workers: int | None = 1,
    executor: Executor | None = None,
    deadline: Deadline | None = None,
    for_report: bool = False,
    untrusted: bool = False,
    progress: Progress = no_progress,
) -> Solved:
    """Answer every case, write and check the submission, score it where truth is there, leave `score.json`.

    Stopped at any moment and called again, it resumes. With `keep_going` a case that cannot be read gets the empty
    answer and a note instead of ending the run. `model` is the folder of a `train`. Answers do not depend on the
    number of `workers`; None is one for each core where the challenge is `parallel`. An `executor` takes their place:
    the answers are the same. An output folder of another run is refused unless `overwrite` is set. With `untrusted`
    the model runs in a sandbox, and notes say what this machine cannot keep it from. `for_report`: leave what a report
    shows beside the answers.

    With a `deadline` a complete submission with safe answers is there at once and becomes better until the time is
    over; what was given up is told in the notes. Failing cases do not end it.
    """
    started = time.perf_counter()
    refuse_format(form)
    if executor is not None:
        _refuse_elsewhere(deadline, untrusted)
        folder = folder.absolute()  # other processes work in other folders
    settings = challenge.settings() if settings is None else settings
    part, cases = find_part(challenge, folder, part)
    keep_going = keep_going or deadline is not None
    job = _Job(challenge, folder, out, form, part, cases, settings, solver, model, keep_going, untrusted)
    if deadline is None and predictor is None:
        predictor = job.load()
    key = job.fingerprint(predictor)
    results = ("submission.csv", "submission.parquet")
    reads = [folder, *(case.path for case in cases)]
    with open_store(out, key, job.about, results=results, reads=reads, overwrite=overwrite) as store:
        counter = ProgressCounter(progress, len(cases))
        if deadline is not None:
            given = partial(_given, predictor) if predictor else job.load
            predicted, spent = answer_by_deadline(
                challenge, cases, given, settings, store, job.submission, deadline, workers=workers, counter=counter
            )
            behind = spent.model
        else:
            assert predictor is not None
            kept = challenge.report.keep if for_report and challenge.report else None
            writers = (*challenge.artefacts(settings), *([kept] if kept else []))
            how: dict[str, Any] = {
                "keep_going": keep_going,
                "workers": workers,
                "counter": counter,
                "executor": executor,
            }
            predicted = predict_all(challenge, cases, predictor, settings, store, writers, **how)
            behind, spent = predictor.model, None
        solved = _write(job, predicted, behind, spent, deadline, started)
        store.finish()
    return solved


def _refuse_elsewhere(deadline: Deadline | None, untrusted: bool) -> None:
    """What cannot be promised of other machines."""
    if deadline is not None:
        raise HandlensError("a deadline is kept by processes of this machine: leave --cluster out, or --deadline")
    if untrusted:
        raise HandlensError("what the sandboxes of other machines keep out is not known: leave --cluster out")


def _given(predictor: Predictor[Any, AnswerT], _threads: int) -> Predictor[Any, AnswerT]:
    return predictor


def _write(
    job: _Job[AnswerT, LabelT, SettingsT],
    predicted: Predicted,
    model: ModelFolder | None,
    spent: DeadlineUsage | None,
    deadline: Deadline | None,
    started: float,
) -> Solved:
    """Write the submission, check it, score it, and leave what a person should know of it in `score.json`."""
    challenge, cases, settings = job.challenge, job.cases, job.settings
    notes = [*predicted.notes, *warning_notes(predicted.warnings, len(cases))]
    notes += [unread] if (unread := skipped_files(job.folder, cases) if job.folder.is_dir() else "") else []
    codec = challenge.codec(settings)
    write_cells(job.submission, codec, ((case.id, *predicted.rows[case.id]) for case in cases))
    answers = require_submission(job.submission, codec, cases)
    truth = None
    if deadline is not None and deadline.is_near:
        notes.append(f"no time for a score: handlens score {challenge.name} {job.submission} --truth {job.folder}")
    else:
        truth = _truth_of(job, notes)
    result, empty_score = _rate(challenge, answers, truth, cases, settings) if truth else (None, None)
    if job.model is None and job.solver == "model":
        notes += [licence_note(each.licence) for each in challenge.fitted if is_non_commercial(each.licence)]
    notes += model_notes(model, cases if result else ())
    notes += [f"not sandboxed on this machine: {gap}" for gap in missing_here()] if job.untrusted else []
    if deadline is None or not deadline.is_near:
        notes += challenge.summarise(job.out, answers, settings)
    seconds = time.perf_counter() - started
    told = (tuple(notes), predicted.warnings, spent)
    solved = Solved(job.submission, len(cases), result, empty_score, seconds, *told)
    page = {**_score_page(challenge, solved), **job.about, **_circumstances(job.folder)}
    write_text(job.out / "score.json", json.dumps(page, indent=1) + "\n")
    (job.out / f"submission.{'parquet' if job.form == 'csv' else 'csv'}").unlink(missing_ok=True)
    return solved


def _settings_for_solve(settings: Settings) -> dict[str, Any]:
    """The settings as JSON, without those that are for training alone."""
    only_train = {field.path.split(".")[0] for field in fields_of(settings) if field.commands == ("train",)}
    return {name: value for name, value in settings.plain().items() if name not in only_train}


def _rate(
    challenge: Challenge[AnswerT, LabelT, SettingsT],
    answers: Mapping[str, AnswerT],
    truth: Truth[LabelT],
    cases: Sequence[Case],
    settings: SettingsT,
) -> tuple[Score, float]:
    """The score of answers, and what empty ones would get; every label is read once."""
    labels: dict[str, LabelT] = {}

    def read(case: Case) -> LabelT:
        if case.id not in labels:
            labels[case.id] = truth.read(case)
        return labels[case.id]

    once = Truth(truth.cases, read)
    empty = {case.id: challenge.empty(case, settings) for case in cases}
    return challenge.score(answers, once, settings), challenge.score(empty, once, settings).value


def _score_page(challenge: AnyChallenge, solved: Solved) -> dict[str, Any]:
    page: dict[str, Any] = {"challenge": challenge.name, "score": None, "notes": []}
    if solved.score:
        page = score_json(challenge, solved.score)
    page["notes"] += solved.notes
    page["warnings"] = {case: list(sentences) for case, sentences in solved.warnings.items()}
    page |= {"valid": True, "submission": solved.submission.name, "count": solved.cases}
    page |= {"empty_score": solved.empty_score, "seconds": round(solved.seconds, 3)}
    return page | ({"deadline": solved.spent.as_json(solved.seconds)} if solved.spent else {})


def _circumstances(folder: Path) -> dict[str, Any]:
    """Where the data lay, and the most memory that this process and its workers took so far."""
    page: dict[str, Any] = {"data": str(folder.resolve())}
    try:
        import resource
    except ImportError:  # not on Windows
        return page
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return page | {"peak_mib": round(max(peaks) / 1024)}


def solved_json(challenge: AnyChallenge, solved: Solved) -> dict[str, Any]:
    """What `solve --json` prints: `score.json` without the cases, and the submission's path."""
    page = _score_page(challenge, solved)
    page.pop("cases", None)
    return page | {"submission": str(solved.submission)}


def _truth_of(job: _Job[Any, LabelT, SettingsT], notes: list[str]) -> Truth[LabelT] | None:
    """The truth of the cases where the data folder has it; a note says why truth that is there cannot be used."""
    if not job.folder.is_dir():
        return None
    place = find_truth(job.challenge, job.folder, job.settings, job.part)
    if place is None:
        return None
    try:
        truth = job.challenge.open_truth(place, job.settings)
        truth = _read_whole(truth) if job.keep_going else truth
    except DataError as error:
        if not job.keep_going:
            raise
        notes.append(f"no score, because {error}")
        return None
    if {case.id for case in truth.cases} != {case.id for case in job.cases}:
        notes.append("the truth is about other cases, so there is no score")
        return None
    return truth


def _read_whole(truth: Truth[LabelT]) -> Truth[LabelT]:
    """The same with every label read, so that one that cannot be read shows itself now."""
    labels = {case.id: truth.read(case) for case in truth.cases}
    return Truth(truth.cases, lambda case: labels[case.id])
