"""One function for each arrow: folder to cases to answers to submission to score. What the commands call."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from handlens.errors import DataError, HandlensError, ModelError, Problem, counted
from handlens.inference.executors import map_in_processes, usable_cores
from handlens.inference.model import digest, is_model
from handlens.io.csv import is_utf8
from handlens.io.files import new_folder, write_text
from handlens.io.submissions import Format, read_submission, require_submission, write_cells
from handlens.runstore.plan import read_plan
from handlens.runstore.store import ArrayFolder, RunStore, fingerprint_of, open_store, read_manifest
from handlens.settings import Settings, SettingsT, fields_of
from handlens.types import (
    AnswerT,
    AnyChallenge,
    Artefact,
    Case,
    Challenge,
    Context,
    Inventory,
    Judgement,
    LabelT,
    Limits,
    Part,
    Prediction,
    Predictor,
    Progress,
    Score,
    Truth,
    Work,
    no_progress,
)

TRUTH = "truth"
"""Sub-folder of a data folder that holds the truth of its test part."""

Solver = Literal["model", "baseline"]


@dataclass(frozen=True, slots=True)
class Solved:
    """What a solve wrote: the submission, the score where truth was there, and what went wrong on the way."""

    submission: Path
    cases: int
    score: Score | None
    empty_score: float | None
    seconds: float
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        value = f"score {self.score.value:.6f}" if self.score else "no truth, so no score"
        return f"<Solved {self.submission}: {counted(self.cases, 'case')}, {value}>"


# --- data -----------------------------------------------------------------------------------------------------------


def sample(
    challenge: Challenge[Any, Any, SettingsT],
    folder: Path,
    *,
    seed: int,
    cases: int,
    size: int,
    settings: SettingsT | None = None,
) -> None:
    """Generated data in the true layout; the folder appears whole or not at all."""
    settings = challenge.settings() if settings is None else settings
    with new_folder(folder) as temporary:
        challenge.write_sample(temporary, seed=seed, cases=cases, size=size, settings=settings)


def survey(challenge: AnyChallenge, folder: Path) -> Inventory:
    """What a data folder holds, and every problem in it."""
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    return challenge.survey(folder)


def read_cases(challenge: AnyChallenge, folder: Path, part: Part | None = None) -> list[Case]:
    """The cases to answer: the test part, or the training part of a folder that has no other."""
    return _find_part(challenge, folder, part)[1]


def _find_part(challenge: AnyChallenge, folder: Path, part: Part | None) -> tuple[Part, list[Case]]:
    if not folder.exists():
        raise DataError("no such folder", file=folder)
    parts: Sequence[Part] = (part,) if part else ("test", "train")
    for name in parts:
        if cases := challenge.read_cases(folder, name):
            _refuse_odd_ids(cases, folder)
            return name, cases
    what = f"no {part or 'test or train'} cases of {challenge.name} in it: see handlens rules {challenge.name}"
    raise DataError(what, file=folder)


def _refuse_odd_ids(cases: Sequence[Case], folder: Path) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if not is_utf8(case.id):
            raise DataError(f"the name {case.path.name!a} is not UTF-8: rename it", file=folder)
        if case.id in seen:
            what = f"two cases are called {case.id} ({seen[case.id].path.name}, {case.path.name}): rename one"
            raise DataError(what, file=folder)
        seen[case.id] = case


# --- truth ----------------------------------------------------------------------------------------------------------


def find_truth(challenge: AnyChallenge, path: Path, part: Part | None = None) -> Path | None:
    """Where the labels of a part lie: a file itself; `truth/`, or labels beside the test cases; the training labels.

    The one place that chooses. Where `part` is not given it is the test part of a folder that has labels for it,
    otherwise the training part. None where a folder has no labels for the part. A folder whose two parts have the
    same ids does not tell by itself which of them is meant.
    """
    if not path.exists():
        raise DataError("no such file or folder", file=path)
    if path.is_file() or part == "train":
        return path
    if (path / TRUTH).is_dir():
        return path / TRUTH
    test = {case.id for case in challenge.read_cases(path, "test")}
    if test and _has_labels(challenge, path / "test", test):
        return path / "test"
    if part == "test":
        return None
    if test and test == {case.id for case in challenge.read_cases(path, "train")}:
        what = "no truth/ for its test part; if the answers are about the training part, say --part train"
        raise DataError(what, file=path)
    return path


def _has_labels(challenge: AnyChallenge, folder: Path, ids: set[str]) -> bool:
    """Whether a folder holds labels for just these cases."""
    if not folder.is_dir():
        return False
    try:
        return {case.id for case in challenge.open_truth(folder, challenge.settings()).cases} == ids
    except HandlensError:
        return False


def open_truth(
    challenge: Challenge[Any, LabelT, SettingsT], path: Path, settings: SettingsT, part: Part | None = None
) -> Truth[LabelT]:
    """Labelled cases of a file, or of a part of a data folder; see `find_truth`."""
    place = find_truth(challenge, path, part)
    if place is None:
        raise DataError("no truth/ for its test part: add it, or say --part train", file=path)
    truth = challenge.open_truth(place, settings)
    _refuse_odd_ids(truth.cases, place)
    return truth


def join_truth(
    challenge: Challenge[Any, LabelT, SettingsT], folder: Path, settings: SettingsT, part: Part | None
) -> Truth[LabelT]:
    """The cases as the data folder has them, with all their details, and the labels that its truth has."""
    cases = read_cases(challenge, folder, part)
    truth = open_truth(challenge, folder, settings, part)
    labelled = {case.id: case for case in truth.cases}
    without = [case.id for case in cases if case.id not in labelled]
    surplus = sorted(set(labelled) - {case.id for case in cases})
    if without or surplus:
        odd = [f"{counted(len(without), 'case')} without a label (first: {without[0]})"] if without else []
        odd += [f"{counted(len(surplus), 'label')} without a case (first: {surplus[0]})"] if surplus else []
        raise DataError(f"{', '.join(odd)}: add the labels under truth/, or say --part train", file=folder)
    read = truth.read
    return Truth(tuple(cases), lambda case: read(labelled[case.id]))


# --- check, score, judge --------------------------------------------------------------------------------------------


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
    progress: Progress = no_progress,
) -> Judgement:
    """Run and rank untrusted models on the labelled cases of a data folder."""
    if challenge.judge is None:
        raise HandlensError(f"{challenge.name} takes no models of others")
    truth = join_truth(challenge, folder, settings, part)
    return challenge.judge(models, truth, settings, limits or Limits(), progress)


# --- train ----------------------------------------------------------------------------------------------------------


def train(
    challenge: Challenge[Any, Any, SettingsT],
    folder: Path,
    run: Path,
    *,
    settings: SettingsT | None = None,
    progress: Progress = no_progress,
) -> Mapping[str, float]:
    """Learn from a data folder, for `solve` with `model=run`; gives numbers that were measured out of fold.

    Stopped at any moment and called again, it resumes. A finished run is refused.
    """
    if challenge.train is None:
        raise HandlensError(f"{challenge.name} cannot be trained: its predictor takes no model")
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    settings = challenge.settings() if settings is None else settings
    about = {"command": "train", "challenge": challenge.name, "settings": settings.plain(), "handlens": _version()}
    key = fingerprint_of(["train", challenge.name, json.dumps(about["settings"]), _version()], folder, without=run)
    with open_store(run, key, {**about, "folder": str(folder.resolve())}, again=False) as store:
        numbers = challenge.train(folder, run, settings, progress)
        store.finish({"numbers": dict(numbers)})
    return numbers


def read_training(run: Path) -> tuple[str, Path, dict[str, Any]]:
    """Challenge, data folder and settings of a training that was begun, to resume it."""
    page = read_manifest(run)
    if page.get("command") != "train" or not isinstance(page.get("settings"), dict):
        raise DataError("no training was begun here: name the folder of a `handlens train`", file=run)
    return str(page["challenge"]), Path(str(page["folder"])), page["settings"]


def challenge_of_model(folder: Path) -> str:
    """The challenge that a run or a model folder is about."""
    if is_model(folder):
        return read_plan(folder).challenge
    page = read_manifest(folder)
    if page.get("command") != "train" or not page["finished"]:
        raise DataError("no finished training in it: name a folder that `handlens train` wrote to the end", file=folder)
    return str(page["challenge"])


# --- solve ----------------------------------------------------------------------------------------------------------


def load(
    challenge: Challenge[AnswerT, LabelT, SettingsT],
    *,
    settings: SettingsT | None = None,
    model: Path | None = None,
    solver: Solver = "model",
    training: Callable[[], Truth[LabelT] | None] = lambda: None,
    threads: int | None = None,
) -> Predictor[Any, AnswerT]:
    """The predictor of a challenge: with its shipped model, one of a `train`, or without any: the baseline."""
    settings = challenge.settings() if settings is None else settings
    context = Context(settings, training, model, threads)
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
            raise ModelError(f"{model}: this model is about {trained}, not {challenge.name}")
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
    progress: Progress = no_progress,
) -> Solved:
    """Answer every case, write and check the submission, score it where truth is there, leave `score.json`.

    Stopped at any moment and called again, it resumes. With `keep_going` a case that cannot be read gets the empty
    answer and a note instead of ending the run. `model` is the folder of a `train`. Answers do not depend on the
    number of `workers`; None is one for each core where the challenge is `parallel`. An output folder of another run
    is refused unless `overwrite` is said.
    """
    started = time.perf_counter()
    settings = challenge.settings() if settings is None else settings
    part, cases = _find_part(challenge, folder, part)
    training = partial(_training_truth, challenge, folder, settings)
    if predictor is None:
        predictor = load(challenge, settings=settings, model=model, solver=solver, training=training)
    about: dict[str, Any] = {"command": "solve", "challenge": challenge.name, "part": part, "solver": solver}
    about |= {"settings": _settings_for_solve(settings), "handlens": _version(), "model": str(model) if model else None}
    used = [fingerprint_of([], predictor.model.folder, without=out)] if predictor.model else []
    words = [json.dumps(about, default=str), type(predictor).__qualname__, *used]
    key = fingerprint_of(words, folder, without=out)
    _refuse_foreign(out, overwrite)
    with open_store(out, key, about, overwrite=overwrite) as store:
        writers = tuple(challenge.artefacts(settings))
        counter = ProgressCounter(progress, len(cases))
        rows, notes = _predict_all(
            challenge, cases, predictor, settings, store, writers, keep_going=keep_going, workers=workers, tell=counter
        )
        submission = out / f"submission.{form}"
        codec = challenge.codec(settings)
        write_cells(submission, codec, ((case.id, *rows[case.id]) for case in cases))
        answers = require_submission(submission, codec, cases)
        truth = _truth_of(challenge, folder, part, cases, settings, keep_going, notes)
        result, empty_score = _rate(challenge, answers, truth, cases, settings) if truth else (None, None)
        notes += _model_notes(predictor, cases if result else ())
        notes += challenge.summarise(out, answers, settings)
        solved = Solved(submission, len(cases), result, empty_score, time.perf_counter() - started, tuple(notes))
        write_text(out / "score.json", json.dumps({**_score_page(challenge, solved), **about}, indent=1) + "\n")
        (out / f"submission.{'parquet' if form == 'csv' else 'csv'}").unlink(missing_ok=True)
        store.finish()
    return solved


def _refuse_foreign(out: Path, overwrite: bool) -> None:
    """A submission that no run of ours wrote is not replaced unasked."""
    if not (out / "run.json").exists() and not overwrite:
        for name in ("submission.csv", "submission.parquet"):
            if (out / name).exists():
                raise DataError("already there: name a new folder, or say --overwrite", file=out / name)


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
    page |= {"valid": True, "submission": solved.submission.name, "count": solved.cases}
    return page | {"empty_score": solved.empty_score, "seconds": round(solved.seconds, 3)}


def solved_json(challenge: AnyChallenge, solved: Solved) -> dict[str, Any]:
    """What `solve --json` prints: `score.json` without the cases, and the submission's path."""
    page = _score_page(challenge, solved)
    page.pop("cases", None)
    return page | {"submission": str(solved.submission)}


def _model_notes(predictor: Predictor[Any, Any], cases: Sequence[Case]) -> list[str]:
    """What a person should know about the model behind the answers: its licence, and whether it knows the cases."""
    model = predictor.model
    if model is None:
        return []
    notes = []
    if "NC" in model.licence.split("-"):
        what = f"this model was trained on non-commercial data ({model.licence})"
        notes.append(f"{what}: see {model.folder / 'card.md'} before any commercial use")
    known = model.trained_on if cases else frozenset()
    seen = sum(digest(case) in known for case in cases) if known else 0
    if seen:
        what = f"the model was trained on {seen:,} of these {counted(len(cases), 'case')}"
        notes.append(f"{what}: this score says little about others")
    return notes


def _version() -> str:
    from importlib.metadata import version

    return version("handlens")


def _training_truth(
    challenge: Challenge[Any, LabelT, SettingsT], folder: Path, settings: SettingsT
) -> Truth[LabelT] | None:
    """Labelled cases to learn from, where the folder has some."""
    return challenge.open_truth(folder, settings) if challenge.read_cases(folder, "train") else None


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
    place = find_truth(challenge, folder, part)
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


# --- every case once ------------------------------------------------------------------------------------------------


class ProgressCounter:
    """Counts cases for the progress bar; in hundredths from when a predictor first reports parts of one."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done, self.unit = progress, total, 0, 1

    def cases(self, done: int) -> None:
        self.done = done
        self.progress(done * self.unit, self.total * self.unit)

    def part_of_a_case(self, name: str, done: int, total: int, words: str = "", /) -> None:
        self.unit = 100
        self.progress(self.done * 100 + 100 * done // total, self.total * 100, words or name)


@dataclass(frozen=True, slots=True)
class _Unread:
    """Stands for the answer to a case that cannot be read."""

    why: str


@dataclass(frozen=True, slots=True)
class _CaseWorker:
    """What a process does with a case: decode, predict, write the artefacts; the answer goes back."""

    predictor: Predictor[Any, Any]
    artefacts: tuple[Artefact[Any], ...]
    out: Path
    checkpoints: Callable[[str], ArrayFolder]
    keep_going: bool
    tell: Callable[..., None] | None = None

    def __call__(self, case: Case) -> Any:
        try:
            return self._predict(case)
        except HandlensError as error:
            if not self.keep_going:
                raise
            return _Unread(str(error))

    def _predict(self, case: Case) -> Any:
        keep = frozenset().union(*(artefact.keep for artefact in self.artefacts))
        kept = self.checkpoints(case.id)
        progress = partial(self.tell, case.id) if self.tell else no_progress
        with self.predictor.decode(case) as decoded:
            prediction: Prediction[Any] = self.predictor.predict(decoded, Work(keep, progress, kept))
            for artefact in self.artefacts:
                artefact.write(self.out, case, prediction)
        return prediction.answer


def _predict_all(
    challenge: Challenge[AnswerT, Any, SettingsT],
    cases: Sequence[Case],
    predictor: Predictor[Any, AnswerT],
    settings: SettingsT,
    store: RunStore,
    artefacts: tuple[Artefact[AnswerT], ...],
    *,
    keep_going: bool,
    workers: int | None,
    tell: ProgressCounter,
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """A row for every case, and notes; cases that the journal has already are not predicted again.

    An empty answer in place of a case that cannot be read is no answer: the journal does not keep it.
    """
    codec, journal = challenge.codec(settings), store.journal()
    waiting = [case for case in cases if case.id not in journal.done]
    known = len(cases) - len(waiting)
    tell.cases(known)
    count = count_workers(challenge, workers, len(waiting))
    alone = _CaseWorker(predictor, artefacts, store.folder, store.arrays, keep_going, tell.part_of_a_case)
    work = alone if count <= 1 else replace(alone, tell=None)  # a copy in another process reports nothing
    faults: dict[int, str] = {}
    if waiting:
        results = map_in_processes(partial(_given, work), waiting, workers=count, name=lambda case: case.id)
        with closing(journal), closing(results):
            for done, (index, answer) in enumerate(results, known + 1):
                if isinstance(answer, _Unread):
                    faults[index] = answer.why
                else:
                    journal.add(waiting[index].id, codec.format(answer, waiting[index]))
                    store.arrays(waiting[index].id).remove()
                tell.cases(done)
    unread = [(waiting[index], faults[index]) for index in sorted(faults)]
    empty = {case.id: codec.format(challenge.empty(case, settings), case) for case, _ in unread}
    return {**journal.done, **empty}, [f"{case.id}: empty answer, because {why}" for case, why in unread]


def _given(work: _CaseWorker) -> _CaseWorker:
    """The predictor was loaded once, for all processes."""
    return work


def count_workers(challenge: AnyChallenge, workers: int | None, waiting: int) -> int:
    """The number asked for; otherwise one for each core, if there is enough to do to make up for a slow start."""
    if workers is not None:
        return min(workers, waiting)
    return min(usable_cores(), waiting // 2) if challenge.parallel else 1
