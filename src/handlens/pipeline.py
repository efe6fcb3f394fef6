"""One function for each arrow: folder to cases to answers to submission to score. What `handlens solve` does."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from handlens.asking import Telling, answer_all
from handlens.errors import DataError, HandlensError, ModelError, Problem
from handlens.io.csv import is_utf8
from handlens.io.files import new_folder, write_text
from handlens.io.submissions import Format, read_submission, require_submission, write_cells
from handlens.runstore.store import ORDER, RUN, Journal, challenge_of, fingerprint, read_order
from handlens.types import (
    Answer,
    Case,
    Challenge,
    Context,
    Part,
    Progress,
    Recipe,
    Score,
    Settings,
    Truth,
    no_progress,
)

TRUTH = "truth"
"""Sub-folder of a data folder that holds the truth of its test part."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What a solve left: the submission, the score where truth was there, and what went wrong on the way."""

    submission: Path
    cases: int
    score: Score | None
    empty_score: float | None
    seconds: float
    notes: tuple[str, ...] = ()


def sample(
    challenge: Challenge, folder: Path, *, seed: int, cases: int, size: int, settings: Settings | None = None
) -> None:
    """Made-up data in the true layout; the folder appears whole or not at all."""
    settings = challenge.settings() if settings is None else settings
    with new_folder(folder) as temporary:
        challenge.write_sample(temporary, seed=seed, cases=cases, size=size, settings=settings)


def read_cases(challenge: Challenge, folder: Path, part: Part | None = None) -> list[Case]:
    """The cases to answer: the test part, or the training part of a folder that has no other."""
    return _find_part(challenge, folder, part)[1]


def _find_part(challenge: Challenge, folder: Path, part: Part | None) -> tuple[Part, list[Case]]:
    if not folder.exists():
        raise DataError("no such folder", file=folder)
    parts: Sequence[Part] = (part,) if part else ("test", "train")
    for name in parts:
        if cases := challenge.read_cases(folder, name):
            _refuse_odd_ids(cases, folder)
            return name, cases
    what = f"no {part or 'test or train'} cases of {challenge.name} in it: see handlens rules {challenge.name}"
    raise DataError(what, file=folder)


def check(
    challenge: Challenge, file: Path, folder: Path, settings: Settings, part: Part | None = None
) -> list[Problem]:
    """Every problem of a submission for these cases; needs no truth."""
    cases, codec = read_cases(challenge, folder, part), challenge.codec(settings)
    faults = [(f"{codec.id_column} {case.id}", case.fault) for case in cases if case.fault]
    unknown = [Problem(f"cannot be checked: {fault}", id=name) for name, fault in faults]
    return [*read_submission(file, codec, cases).problems, *unknown]


def score(challenge: Challenge, file: Path, truth: Path, settings: Settings, part: Part | None = None) -> Score:
    """The exact score. Every row is validated before the first label is read."""
    opened = open_truth(challenge, truth, settings, part)
    answers = require_submission(file, challenge.codec(settings), opened.cases)
    return challenge.score(answers, opened, settings)


def open_truth(challenge: Challenge, path: Path, settings: Settings, part: Part | None = None) -> Truth:
    """Labelled cases: of the file; of the test part, in the folder's `truth/`; or the training labels.

    Where `part` is not said, it is the test part of a folder with `truth/`, otherwise the training part; a folder
    whose two parts have the same ids does not tell by itself which of them is meant.
    """
    if not path.exists():
        raise DataError("no such file or folder", file=path)
    if part != "train" and (path / TRUTH).is_dir():
        path = path / TRUTH
    elif part != "train" and path.is_dir() and _is_ambiguous(challenge, path, part):
        what = "no truth/ for its test part; if the answers are about the training part, say --part train"
        raise DataError(what, file=path)
    truth = challenge.open_truth(path, settings)
    _refuse_odd_ids(truth.cases, path)
    return truth


def _is_ambiguous(challenge: Challenge, folder: Path, part: Part | None) -> bool:
    """Whether training labels would be taken for those of a test part: said to be about it, or with the same ids."""
    test = {case.id for case in challenge.read_cases(folder, "test")}
    return bool(test) and (part == "test" or test == {case.id for case in challenge.read_cases(folder, "train")})


def train(
    challenge: Challenge,
    folder: Path,
    run: Path,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Mapping[str, float]:
    """Learn from a data folder, for `solve` with `model=run`; gives numbers about what was learned.

    `run.json`, written last, says that the run is whole; a run without it may go on where it stopped. What was ordered
    stands in `order.json`, written first.
    """
    if challenge.train is None:
        raise HandlensError(f"{challenge.name} cannot be trained: its solver takes no model")
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    if (run / RUN).exists():
        raise DataError("this run is finished: name a new folder, or remove it first", file=run)
    if run.exists() and not run.is_dir():
        raise DataError("this is a file: name a folder for the run", file=run)
    settings = challenge.settings() if settings is None else settings
    words = {"challenge": challenge.name, "settings": json.dumps(settings, default=str), "handlens": _version()}
    key = fingerprint(words.values(), folder, without=run)
    page = _run_page(words, key)
    if (run / ORDER).exists() and read_order(run)["data"] != key:
        what = (
            "this run was begun with other data, other settings or another handlens: name a new folder, or, where only"
        )
        what += " the settings differ, handlens train --resume goes on with the old ones"
        raise DataError(what, file=run)
    write_text(run / ORDER, json.dumps({**page, "folder": str(folder.resolve())}, indent=1) + "\n")
    try:
        numbers = challenge.train(folder, run, settings, progress or no_progress)
    except HandlensError:
        _forget_order(run)
        raise
    page["numbers"] = dict(numbers)
    write_text(run / RUN, json.dumps(page, indent=1) + "\n")
    return numbers


def _forget_order(run: Path) -> None:
    """Leave nothing of a training that was refused before it began: the order, mended, may be given again."""
    if [path.name for path in run.iterdir()] == [ORDER]:
        (run / ORDER).unlink()
        run.rmdir()


def solve(
    challenge: Challenge,
    folder: Path,
    out: Path,
    *,
    form: Format = "csv",
    part: Part | None = None,
    settings: Settings | None = None,
    recipe: Recipe | None = None,
    model: Path | None = None,
    keep_going: bool = False,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Solved:
    """Answer every case, write and check the submission, score it where truth is there, leave `score.json`.

    Stopped at any moment and called again, it goes on where it stopped. With `keep_going` a case that cannot be
    read gets the empty answer and a note instead of ending the run. `model` is the folder of a `train`. Answers do
    not depend on the number of `workers`; None is one for each core where the recipe is `parallel`.
    """
    started = time.perf_counter()
    if model is not None:
        _refuse_model(challenge, model)
    settings = challenge.settings() if settings is None else settings
    recipe = recipe or challenge.recipe()
    codec = challenge.codec(settings)
    part, cases = _find_part(challenge, folder, part)
    if out.exists() and not out.is_dir():
        raise DataError("this is a file: name a folder for the submission", file=out)
    words = {"challenge": challenge.name, "part": part, "recipe": repr(recipe)}
    words |= {"settings": _told_to_solve(challenge, settings), "handlens": _version()}
    used = [fingerprint([], model, without=out)] if model else []
    key = fingerprint([*words.values(), *used], folder, without=out)
    telling = Telling(progress or no_progress, len(cases))
    context = Context(
        settings, partial(_training_truth, challenge, folder, settings), model, out, telling.part_of_a_case
    )
    journal = Journal(out, key)
    rows, notes = answer_all(challenge, cases, recipe, context, journal, keep_going, workers, telling)
    submission = out / f"submission.{form}"
    write_cells(submission, codec, ((case.id, *rows[case.id]) for case in cases))
    answers = require_submission(submission, codec, cases)
    truth = _truth_of(challenge, folder, part, cases, settings, keep_going, notes)
    result, empty_score = _rate(challenge, answers, truth, cases, settings) if truth else (None, None)
    if result and part == "train" and (model or getattr(recipe, "learned", False)):
        notes.append("the model may have learned from these very cases: their score says little about others")
    if leave := getattr(recipe, "leave", None):
        notes += leave(out, answers, settings)
    solved = Solved(submission, len(cases), result, empty_score, time.perf_counter() - started, tuple(notes))
    page = {**_score_page(challenge, solved), **_run_page(words, key), "model": str(model) if model else None}
    write_text(out / "score.json", json.dumps(page, indent=1) + "\n")
    (out / f"submission.{'parquet' if form == 'csv' else 'csv'}").unlink(missing_ok=True)
    journal.remove()
    return solved


def _told_to_solve(challenge: Challenge, settings: Settings) -> str:
    """The settings as JSON, without those that are for training alone."""
    told = {option.name for option in challenge.options if tuple(option.commands) != ("train",)}
    return json.dumps({name: value for name, value in settings.items() if name in told}, default=str)


def _run_page(words: Mapping[str, str], key: str) -> dict[str, Any]:
    """What a run was told, for people: the words that its fingerprint was made of, the settings spelled out."""
    return {**words, "settings": json.loads(words["settings"]), "data": key}


def _rate(
    challenge: Challenge, answers: Mapping[str, Answer], truth: Truth, cases: Sequence[Case], settings: Settings
) -> tuple[Score, float]:
    """The score of answers, and what empty ones would get."""
    empty = {case.id: challenge.empty(case, settings) for case in cases}
    return challenge.score(answers, truth, settings), challenge.score(empty, truth, settings).value


def score_json(challenge: Challenge, result: Score) -> dict[str, Any]:
    """A score as a program reads it."""
    return {
        "challenge": challenge.name,
        "score": result.value,
        "parts": dict(result.parts),
        "notes": list(result.notes),
        "cases": [{**asdict(case), "parts": dict(case.parts)} for case in result.cases],
    }


def _score_page(challenge: Challenge, solved: Solved) -> dict[str, Any]:
    page: dict[str, Any] = {"challenge": challenge.name, "score": None, "notes": []}
    if solved.score:
        page = score_json(challenge, solved.score)
    page["notes"] += solved.notes
    page |= {"valid": True, "submission": solved.submission.name, "count": solved.cases}
    return page | {"empty_score": solved.empty_score, "seconds": round(solved.seconds, 3)}


def _refuse_model(challenge: Challenge, run: Path) -> None:
    """A model that this challenge's solver cannot use is refused before anything is read."""
    if challenge.train is None:
        raise ModelError(f"{challenge.name} takes no trained model: leave --model out")
    trained = challenge_of(run)
    if trained != challenge.name:
        raise ModelError(f"{run}: this run is about {trained}, not {challenge.name}")


def _version() -> str:
    from importlib.metadata import version

    return version("handlens")


def _training_truth(challenge: Challenge, folder: Path, settings: Settings) -> Truth | None:
    """Labelled cases to learn from, where the folder has some."""
    return challenge.open_truth(folder, settings) if challenge.read_cases(folder, "train") else None


def _truth_of(
    challenge: Challenge,
    folder: Path,
    part: Part,
    cases: Sequence[Case],
    settings: Settings,
    keep_going: bool,
    notes: list[str],
) -> Truth | None:
    """The truth of the test part, in `truth/`, or of the training part, its own labels; None where there is none.

    A note says why truth that is there cannot be used.
    """
    place = folder if part == "train" else folder / TRUTH
    if not place.is_dir():
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


def _read_whole(truth: Truth) -> Truth:
    """The same with every label read, so that one that cannot be read shows itself now."""
    labels = {case.id: truth.read(case) for case in truth.cases}
    return Truth(truth.cases, lambda case: labels[case.id])


def _refuse_odd_ids(cases: Sequence[Case], folder: Path) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if not is_utf8(case.id):
            raise DataError(f"the name {case.path.name!a} is not UTF-8: rename it", file=folder)
        if case.id in seen:
            what = f"two cases are called {case.id} ({seen[case.id].path.name}, {case.path.name}): rename one"
            raise DataError(what, file=folder)
        seen[case.id] = case
