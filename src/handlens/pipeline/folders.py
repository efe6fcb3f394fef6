"""Data folders: their cases, and which labels belong to which cases. The one place that chooses the truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from handlens.errors import DataError, HandlensError, counted
from handlens.inference.executors import Executor
from handlens.io.csv import is_utf8
from handlens.io.files import new_folder
from handlens.io.gate import is_there
from handlens.io.images import describe_skipped, skipped
from handlens.settings import SettingsT
from handlens.types import AnyChallenge, Case, Challenge, Inventory, LabelT, Part, Progress, Truth, no_progress

TRUTH = "truth"
"""Sub-folder of a data folder that holds the truth of its test part."""


def sample(
    challenge: Challenge[Any, Any, SettingsT],
    folder: Path,
    *,
    seed: int,
    cases: int,
    size: int,
    settings: SettingsT | None = None,
    executor: Executor | None = None,
    progress: Progress = no_progress,
) -> None:
    """Generated data in the true layout; the folder appears atomically. An `executor` makes the same cases."""
    settings = challenge.settings() if settings is None else settings
    how: dict[str, Any] = {"seed": seed, "cases": cases, "size": size, "settings": settings}
    with new_folder(folder) as temporary:
        if executor is None:
            challenge.write_sample(temporary, **how)
            return
        try:
            challenge.write_sample(temporary, **how, each=partial(executor.each, progress=progress))
        except TypeError as error:  # a plug-in's, which knows nothing of it
            if "'each'" not in str(error):
                raise
            raise HandlensError(f"{challenge.name} makes its cases in one process: leave --cluster out") from None


def survey(challenge: AnyChallenge, folder: Path) -> Inventory:
    """What a data folder holds, and every problem in it."""
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    return challenge.survey(folder)


def read_cases(challenge: AnyChallenge, folder: Path, part: Part | None = None) -> list[Case]:
    """The cases to answer: the test part, or the training part of a folder that has no other."""
    return find_part(challenge, folder, part)[1]


def find_part(challenge: AnyChallenge, folder: Path, part: Part | None) -> tuple[Part, list[Case]]:
    if not folder.exists():
        raise DataError("no such file or folder", file=folder)
    parts: Sequence[Part] = (part,) if part else ("test", "train")
    for name in parts:
        if cases := challenge.read_cases(folder, name):
            refuse_odd_ids(cases, folder)
            return name, cases
    unread = describe_skipped(skipped(folder)) if folder.is_dir() else ""
    remedy = unread or f"see handlens rules {challenge.name}"
    raise DataError(f"no {part or 'test or train'} cases of {challenge.name} in it: {remedy}", file=folder)


def skipped_files(folder: Path, cases: Sequence[Case]) -> str:
    """A sentence about files beside the cases that may be images and are not read; empty where there are none."""
    beside = {case.path.parent for case in cases if is_there(case.path)} - {folder.parent}
    return describe_skipped([problem for place in sorted(beside) for problem in skipped(place, within=folder)])


def refuse_odd_ids(cases: Sequence[Case], folder: Path) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if not is_utf8(case.id):
            raise DataError(f"the name {case.path.name!a} is not UTF-8: rename it", file=folder)
        if case.id in seen:
            what = f"two cases are called {case.id} ({seen[case.id].path.name}, {case.path.name}): rename one"
            raise DataError(what, file=folder)
        seen[case.id] = case


def find_truth(
    challenge: Challenge[Any, Any, SettingsT], path: Path, settings: SettingsT, part: Part | None = None
) -> Path | None:
    """Where the labels of a part lie: a file itself; `truth/`, or labels beside the test cases; the training labels.

    The one place that chooses. Where `part` is not given it is the test part of a folder that has labels for it,
    otherwise the training part. None where a folder has no labels for the part. A folder whose two parts have the
    same ids does not tell by itself which of them is meant.
    """
    if not path.exists():
        raise DataError("no such file or folder", file=path)
    if is_there(path) or part == "train":
        return path
    if (path / TRUTH).is_dir():
        return path / TRUTH
    test = {case.id for case in challenge.read_cases(path, "test")}
    if test and _has_labels(challenge, path / "test", test, settings):
        return path / "test"
    if part == "test":
        return None
    if test and test == {case.id for case in challenge.read_cases(path, "train")}:
        what = "no truth/ for its test part; if the answers are about the training part, say --part train"
        raise DataError(what, file=path)
    return path


def _has_labels(challenge: Challenge[Any, Any, SettingsT], folder: Path, ids: set[str], settings: SettingsT) -> bool:
    """Whether a folder holds labels for just these cases."""
    if not folder.is_dir():
        return False
    try:
        return {case.id for case in challenge.open_truth(folder, settings).cases} == ids
    except HandlensError:
        return False


def open_truth(
    challenge: Challenge[Any, LabelT, SettingsT], path: Path, settings: SettingsT, part: Part | None = None
) -> Truth[LabelT]:
    """Labelled cases of a file, or of a part of a data folder; see `find_truth`."""
    place = find_truth(challenge, path, settings, part)
    if place is None:
        raise DataError("no truth/ for its test part: add it, or say --part train", file=path)
    truth = challenge.open_truth(place, settings)
    refuse_odd_ids(truth.cases, place)
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
