"""One function for each arrow: folder to cases to answers to submission to score. What `handlens solve` does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from handlens.errors import DataError, HandlensError, Problem
from handlens.files import new_folder, write_text
from handlens.runfolder import Journal, fingerprint
from handlens.table import Format, read_submission, require_submission, write_cells
from handlens.types import Case, Challenge, Model, Part, Recipe, Score, Settings, Truth

TRUTH = "truth"
"""Sub-folder of a data folder that holds the truth of its test part."""

Progress = Callable[[int, int], None]
"""Told how many cases are done, of how many."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What a solve left: the submission, the score where truth was there, and what went wrong on the way."""

    submission: Path
    cases: int
    score: Score | None
    empty_score: float | None
    seconds: float
    notes: tuple[str, ...] = ()


def sample(challenge: Challenge, folder: Path, *, seed: int, cases: int, size: int) -> None:
    """Made-up data in the true layout; the folder appears whole or not at all."""
    with new_folder(folder) as temporary:
        challenge.write_sample(temporary, seed=seed, cases=cases, size=size)


def read_cases(challenge: Challenge, folder: Path, part: Part | None = None) -> list[Case]:
    """The cases to answer: the test part, or the training part of a folder that has no other."""
    return _find_part(challenge, folder, part)[1]


def _find_part(challenge: Challenge, folder: Path, part: Part | None) -> tuple[Part, list[Case]]:
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    parts: Sequence[Part] = (part,) if part else ("test", "train")
    for name in parts:
        if cases := challenge.read_cases(folder, name):
            _refuse_twice(cases, folder)
            return name, cases
    what = f"no {part or 'test or train'} cases of {challenge.name} in it: see handlens rules {challenge.name}"
    raise DataError(what, file=folder)


def check(
    challenge: Challenge, file: Path, folder: Path, settings: Settings, part: Part | None = None
) -> list[Problem]:
    """Every problem of a submission for these cases; needs no truth."""
    return read_submission(file, challenge.codec(settings), read_cases(challenge, folder, part)).problems


def score(challenge: Challenge, file: Path, truth: Path, settings: Settings) -> Score:
    """The exact score. Every row is validated before the first label is read."""
    opened = open_truth(challenge, truth, settings)
    answers = require_submission(file, challenge.codec(settings), opened.cases)
    return challenge.score(answers, opened, settings)


def open_truth(challenge: Challenge, path: Path, settings: Settings) -> Truth:
    """Labelled cases: of the file, of the folder's `truth/` where it has one, or of the folder itself."""
    if not path.exists():
        raise DataError("no such file or folder", file=path)
    truth = challenge.open_truth(path / TRUTH if (path / TRUTH).is_dir() else path, settings)
    _refuse_twice(truth.cases, path)
    return truth


def solve(
    challenge: Challenge,
    folder: Path,
    out: Path,
    *,
    form: Format = "csv",
    part: Part | None = None,
    recipe: Recipe | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Solved:
    """Answer every case, write and check the submission, score it where truth is there, leave `score.json`.

    Stopped at any moment and called again, it goes on where it stopped. With `keep_going` a case that cannot be
    read gets the empty answer and a note instead of ending the run.
    """
    started = time.perf_counter()
    settings = challenge.settings()
    part, cases = _find_part(challenge, folder, part)
    journal, notes = _answer(challenge, folder, out, cases, recipe or challenge.recipe, keep_going, progress)
    submission = out / f"submission.{form}"
    write_cells(submission, challenge.codec(settings), ((case.id, *journal.done[case.id]) for case in cases))
    answers = require_submission(submission, challenge.codec(settings), cases)
    truth = _truth_of(challenge, folder, part, settings)
    if truth and {case.id for case in truth.cases} != {case.id for case in cases}:
        notes.append("the truth is about other cases, so there is no score")
        truth = None
    result = challenge.score(answers, truth, settings) if truth else None
    empty = {case.id: challenge.empty(case, settings) for case in cases}
    empty_score = challenge.score(empty, truth, settings).value if truth else None
    solved = Solved(submission, len(cases), result, empty_score, time.perf_counter() - started, tuple(notes))
    write_text(out / "score.json", json.dumps(_score_page(challenge, solved), indent=1) + "\n")
    journal.remove()
    return solved


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
    page |= {"empty_score": solved.empty_score, "seconds": round(solved.seconds, 3), "handlens": version("handlens")}
    return page


def _answer(
    challenge: Challenge,
    folder: Path,
    out: Path,
    cases: Sequence[Case],
    recipe: Recipe,
    keep_going: bool,
    progress: Progress | None,
) -> tuple[Journal, list[str]]:
    """The journal with a row for every case; those that it has already are not asked again."""
    settings = challenge.settings()
    train = _training_truth(challenge, folder, settings)
    learned_from = train.cases if train else ()
    key = fingerprint((challenge.name, version("handlens"), repr(recipe)), (*cases, *learned_from))
    out.mkdir(parents=True, exist_ok=True)
    journal = Journal(out, key)
    notes: list[str] = []
    model: Model | None = None
    try:
        for done, case in enumerate(cases):
            if progress:
                progress(done, len(cases))
            if case.id in journal.done:
                continue
            model = model or recipe.prepare(train)
            journal.add(case.id, _answer_case(challenge, model, case, keep_going, notes))
        if progress:
            progress(len(cases), len(cases))
    finally:
        journal.close()
    return journal, notes


def _answer_case(challenge: Challenge, model: Model, case: Case, keep_going: bool, notes: list[str]) -> tuple[str, ...]:
    settings = challenge.settings()
    try:
        answer = model(case)
    except HandlensError as error:
        if not keep_going:
            raise
        notes.append(f"{case.id}: empty answer, because {error}")
        answer = challenge.empty(case, settings)
    return challenge.codec(settings).format(answer, case)


def _training_truth(challenge: Challenge, folder: Path, settings: Settings) -> Truth | None:
    """Labelled cases to learn from, where the folder has some."""
    return challenge.open_truth(folder, settings) if challenge.read_cases(folder, "train") else None


def _truth_of(challenge: Challenge, folder: Path, part: Part, settings: Settings) -> Truth | None:
    """The truth of the test part, in `truth/`, or of the training part, its own labels; None where there is none."""
    place = folder if part == "train" else folder / TRUTH
    return challenge.open_truth(place, settings) if place.is_dir() else None


def _refuse_twice(cases: Sequence[Case], folder: Path) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if case.id in seen:
            what = f"two cases are called {case.id} ({seen[case.id].path.name}, {case.path.name}): rename one"
            raise DataError(what, file=folder)
        seen[case.id] = case
