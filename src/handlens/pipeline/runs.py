"""Trainings: begun, resumed, found again by their folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handlens.errors import DataError, HandlensError
from handlens.inference.model import is_model
from handlens.runstore.plan import read_plan
from handlens.runstore.store import fingerprint_of, open_store, read_manifest, write_manifest
from handlens.settings import SettingsT
from handlens.types import Challenge, Progress, no_progress


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
    about = {
        "command": "train",
        "challenge": challenge.name,
        "settings": settings.plain(),
        "handlens": package_version(),
        "files": fingerprint_of([], folder, without=run, times=False),
    }
    key = _key(challenge.name, about["settings"], folder, run)
    with open_store(run, key, {**about, "folder": str(folder.resolve())}, again=False) as store:
        numbers = challenge.train(folder, run, settings, progress)
        store.finish({"numbers": dict(numbers)})
    return numbers


def _key(name: str, settings: object, folder: Path, run: Path) -> str:
    return fingerprint_of(["train", name, json.dumps(settings), package_version()], folder, without=run)


def adopt_training(run: Path, folder: Path) -> None:
    """Let an unfinished training that was copied here go on with a copy of its data; DataError where that differs.

    What it kept is for the same names and sizes of files; their times and place may be others.
    """
    page = read_manifest(run)
    name, _, settings = read_training(run)
    if page.get("files") != fingerprint_of([], folder, without=run, times=False):
        raise DataError(f"the training was begun with other files than those of {folder}: train anew", file=run)
    if page.get("handlens") != package_version():
        what = f"the training was begun by handlens {page.get('handlens')}, this is {package_version()}: train anew"
        raise DataError(what, file=run)
    about = {key: value for key, value in page.items() if key not in ("fingerprint", "finished")}
    key = _key(name, settings, folder, run)
    write_manifest(run, {**about, "folder": str(folder.resolve())}, key, finished=bool(page["finished"]))


def read_training(run: Path) -> tuple[str, Path, dict[str, Any]]:
    """Challenge, data folder and settings of a training that was begun, to resume it."""
    page = read_manifest(run)
    if page.get("command") != "train" or not isinstance(page.get("settings"), dict):
        raise DataError("no training was begun here: name the folder of a `handlens train`", file=run)
    return str(page["challenge"]), Path(str(page["folder"])), page["settings"]


def is_training(folder: Path) -> bool:
    """Whether a folder is that of a training."""
    try:
        return read_manifest(folder).get("command") == "train"
    except DataError:
        return False


def challenge_of_model(folder: Path) -> str:
    """The challenge that a run or a model folder is about."""
    if is_model(folder):
        return read_plan(folder).challenge
    page = read_manifest(folder)
    if page.get("command") != "train" or not page["finished"]:
        raise DataError("no finished training in it: name a folder that `handlens train` wrote to the end", file=folder)
    return str(page["challenge"])


def package_version() -> str:
    """The installed version, which is part of a run's fingerprint."""
    from importlib.metadata import version

    return version("handlens")
