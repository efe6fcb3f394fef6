"""From a data folder to a submission, checked, and scored where truth is there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from handlens.errors import DataError, HandlensError, ModelError, counted
from handlens.inference.executors import Executor
from handlens.inference.model import digest
from handlens.io.files import write_text
from handlens.io.submissions import Format, refuse_format, require_submission, write_cells
from handlens.licences import is_non_commercial
from handlens.pipeline.deadline import Deadline, Spent, answer_by_deadline
from handlens.pipeline.each_case import ProgressCounter, predict_all
from handlens.pipeline.folders import find_part, find_truth, skipped_files
from handlens.pipeline.runs import challenge_of_model, package_version
from handlens.pipeline.scoring import score_json
from handlens.runstore.store import fingerprint_of, open_store
from handlens.sandbox.runner import missing_here
from handlens.settings import Settings, SettingsT, fields_of
from handlens.types import (
    AnswerT,
    AnyChallenge,
    Case,
    Challenge,
    Context,
    LabelT,
    ModelFolder,
    Part,
    Predictor,
    Progress,
    Score,
    Truth,
    no_progress,
)

Solver = Literal["model", "baseline"]

NAMED = 3
"""Cases that a warning names; more are counted."""


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
    spent: Spent | None = None
    """How the time was spent, where there was a deadline."""

    def __repr__(self) -> str:
        value = f"score {self.score.value:.6f}" if self.score else "no truth, so no score"
        return f"<Solved {self.submission}: {counted(self.cases, 'case')}, {value}>"


def load(
    challenge: Challenge[AnswerT, LabelT, SettingsT],
    *,
    settings: SettingsT | None = None,
    model: Path | None = None,
    solver: Solver = "model",
    training: Callable[[], Truth[LabelT] | None] = lambda: None,
    threads: int | None = None,
    untrusted: bool = False,
) -> Predictor[Any, AnswerT]:
    """The predictor of a challenge: with its shipped model, one of a `train`, or without any: the baseline.

    With `untrusted` its network runs in a sandbox; the answers are the same.
    """
    settings = challenge.settings() if settings is None else settings
    context = Context(settings, training, model, threads, untrusted)
    if untrusted and (solver == "baseline" or not challenge.sandboxed):
        what = "a baseline has no network" if solver == "baseline" else f"{challenge.name} has no ONNX model"
        raise HandlensError(f"{what}, so there is nothing to run in a sandbox: leave --untrusted out")
    if solver == "baseline":
        if model is not None:
            raise HandlensError("a baseline takes no model: leave --model out, or --solver baseline")
        if challenge.baseline is None:
            raise HandlensError(f"{challenge.name} has no baseline")
        return challenge.baseline(context)
    if model is not None:
        if challenge.train is None:
            raise ModelError(f"{challenge.name} takes no trained model: leave --model out")
        trained = challenge_of_model(model)
        if trained != challenge.name:
            raise ModelError(f"{model}: this model was trained for {trained}, not {challenge.name}")
    return challenge.load(context)


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
    number of `workers`; None is one for each core where the challenge is `parallel`. An `executor` takes
    their place: the answers are the same. An output folder of another run
    is refused unless `overwrite` is set. With `untrusted` the model runs in a sandbox, and notes say what this machine
    cannot keep it from. `for_report`: leave what a report shows beside the answers.

    With a `deadline` a complete submission with safe answers is there at once and becomes better until the time is
    over; what was given up is told in the notes. Failing cases do not end it.
    """
    started = time.perf_counter()
    refuse_format(form)
    if executor is not None and deadline is not None:
        raise HandlensError("a deadline is kept by processes of this machine: leave --cluster out, or --deadline")
    if executor is not None and untrusted:
        raise HandlensError("what the sandboxes of other machines keep out is not known: leave --cluster out")
    folder = folder if executor is None else folder.absolute()  # other processes work in other folders
    settings = challenge.settings() if settings is None else settings
    part, cases = find_part(challenge, folder, part)
    keep_going = keep_going or deadline is not None
    training = partial(training_truth, challenge.open_truth, challenge.read_cases, folder, settings)
    how: dict[str, Any] = {"model": model, "solver": solver, "training": training, "untrusted": untrusted}
    load_here = partial(load, challenge, settings=settings, **how)
    if deadline is None and predictor is None:
        predictor = load_here()
    about: dict[str, Any] = {"command": "solve", "challenge": challenge.name, "part": part, "solver": solver}
    about |= {
        "settings": _settings_for_solve(settings),
        "handlens": package_version(),
        "model": str(model) if model else None,
    }
    weights = model or (predictor.model.folder if predictor and predictor.model else None)
    fitted = [each.file for each in challenge.fitted] if model is None and solver == "model" else []
    used = [fingerprint_of([], place, without=out) for place in (*([weights] if weights else []), *fitted)]
    kind = type(predictor).__qualname__ if predictor else "by deadline"  # loaded later, by other processes
    words = [json.dumps(about, default=str), kind, *used]
    key = fingerprint_of(words, folder, without=out)
    _refuse_foreign(out, overwrite)
    submission, spent = out / f"submission.{form}", None
    with open_store(out, key, about, overwrite=overwrite) as store:
        counter = ProgressCounter(progress, len(cases))
        if deadline is not None:
            given = partial(_given, predictor) if predictor else partial(_load_with_threads, load_here)
            predicted, spent = answer_by_deadline(
                challenge, cases, given, settings, store, submission, deadline, workers=workers, tell=counter
            )
            weights_of = spent.model
        else:
            assert predictor is not None
            predict_here = partial(predict_all, challenge, cases, predictor, settings, store)
            kept = challenge.report.keep if for_report and challenge.report else None
            writers = (*challenge.artefacts(settings), *([kept] if kept else []))
            predicted = predict_here(writers, keep_going=keep_going, workers=workers, tell=counter, executor=executor)
            weights_of = predictor.model
        rows, notes = predicted.rows, [*predicted.notes, *warning_notes(predicted.warnings, len(cases))]
        notes += [unread] if (unread := skipped_files(folder, cases) if folder.is_dir() else "") else []
        codec = challenge.codec(settings)
        write_cells(submission, codec, ((case.id, *rows[case.id]) for case in cases))
        answers = require_submission(submission, codec, cases)
        truth = None
        if deadline is not None and deadline.is_near:
            notes.append(f"no time for a score: handlens score {challenge.name} {submission} --truth {folder}")
        else:
            truth = _truth_of(challenge, folder, part, cases, settings, keep_going, notes)
        result, empty_score = _rate(challenge, answers, truth, cases, settings) if truth else (None, None)
        if model is None and solver == "model":
            notes += [_licence_note(each.licence) for each in challenge.fitted if is_non_commercial(each.licence)]
        notes += _model_notes(weights_of, cases if result else ())
        notes += [f"not sandboxed on this machine: {gap}" for gap in missing_here()] if untrusted else []
        if deadline is None or not deadline.is_near:
            notes += challenge.summarise(out, answers, settings)
        seconds = time.perf_counter() - started
        told = (tuple(notes), predicted.warnings, spent)
        solved = Solved(submission, len(cases), result, empty_score, seconds, *told)
        page = {**_score_page(challenge, solved), **about, **_circumstances(folder)}
        write_text(out / "score.json", json.dumps(page, indent=1) + "\n")
        (out / f"submission.{'parquet' if form == 'csv' else 'csv'}").unlink(missing_ok=True)
        store.finish()
    return solved


def _given(predictor: Predictor[Any, AnswerT], _threads: int) -> Predictor[Any, AnswerT]:
    return predictor


def _load_with_threads(load_here: Callable[..., Predictor[Any, AnswerT]], threads: int) -> Predictor[Any, AnswerT]:
    return load_here(threads=threads)


def warning_notes(warnings: Mapping[str, Sequence[str]], cases: int) -> list[str]:
    """Each warning once, with the cases that it is about.

    >>> warning_notes({"a": ["blurred"], "b": ["blurred", "tiny"]}, 2)
    ['a, b: blurred', 'b: tiny']
    """
    concerned: dict[str, list[str]] = {}
    for case, sentences in warnings.items():
        for sentence in sentences:
            concerned.setdefault(sentence, []).append(case)
    return [f"{_named(ids, cases)}: {sentence}" for sentence, ids in concerned.items()]


def _named(ids: Sequence[str], cases: int) -> str:
    few = ", ".join(ids[:NAMED])
    return few if len(ids) <= NAMED else f"{few} and others, {len(ids):,} of {counted(cases, 'case')}"


def _refuse_foreign(out: Path, overwrite: bool) -> None:
    """A submission that no run of ours wrote is not replaced unasked."""
    if not (out / "run.json").exists() and not overwrite:
        for name in ("submission.csv", "submission.parquet"):
            if (out / name).exists():
                raise DataError("already there: name a new folder, or pass --overwrite", file=out / name)


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


def _model_notes(model: ModelFolder | None, cases: Sequence[Case]) -> list[str]:
    """What a person should know about the model behind the answers: its licence, and whether it knows the cases."""
    if model is None:
        return []
    notes = []
    if is_non_commercial(model.licence):
        notes.append(_licence_note(model.licence))
    known = model.trained_on if cases else frozenset()
    seen = sum(digest(case) in known for case in cases) if known else 0
    if seen:
        what = f"the model was trained on {seen:,} of these {counted(len(cases), 'case')}"
        notes.append(f"{what}: this score says little about others")
    return notes


def _licence_note(licence: str) -> str:
    return f"model trained on non-commercial data ({licence}): handlens list --models"


def training_truth(
    open_truth: Callable[[Path, SettingsT], Truth[LabelT]],
    read_cases: Callable[[Path, Part], list[Case]],
    folder: Path,
    settings: SettingsT,
) -> Truth[LabelT] | None:
    """Labelled cases to learn from, where the folder has some."""
    return open_truth(folder, settings) if read_cases(folder, "train") else None


def _truth_of(
    challenge: Challenge[Any, LabelT, SettingsT],
    folder: Path,
    part: Part,
    cases: Sequence[Case],
    settings: SettingsT,
    keep_going: bool,
    notes: list[str],
) -> Truth[LabelT] | None:
    """The truth of the cases where the data folder has it; a note says why truth that is there cannot be used."""
    if not folder.is_dir():
        return None
    place = find_truth(challenge, folder, settings, part)
    if place is None:
        return None
    try:
        truth = challenge.open_truth(place, settings)
        truth = _read_whole(truth) if keep_going else truth
    except DataError as error:
        if not keep_going:
            raise
        notes.append(f"no score, because {error}")
        return None
    if {case.id for case in truth.cases} != {case.id for case in cases}:
        notes.append("the truth is about other cases, so there is no score")
        return None
    return truth


def _read_whole(truth: Truth[LabelT]) -> Truth[LabelT]:
    """The same with every label read, so that one that cannot be read shows itself now."""
    labels = {case.id: truth.read(case) for case in truth.cases}
    return Truth(truth.cases, lambda case: labels[case.id])
