"""What a notebook needs at the contest: where data, models and checkpoints are, and a score on held-out cases."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from handlens import registry
from handlens.errors import DataError, HandlensError
from handlens.inference.model import digest
from handlens.pipeline import adopt_training, challenge_of_model, join_truth, load, read_training
from handlens.runstore.store import read_manifest
from handlens.types import Case, Score, Truth

INPUT = Path("/kaggle/input")
"""Where the contest mounts its data and what was attached to the notebook."""

WORKING = Path("/kaggle/working")
"""Where it wants the submission."""

DEPTH = 3
"""Folders below a mount that are looked at."""


def working_folder(given: str | Path | None = None) -> Path:
    """The given folder, the contest's, or the current one."""
    folder = Path(given) if given else WORKING if WORKING.is_dir() else Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_data(name: str, given: str | Path | None = None, *, mounts: Sequence[Path] = (INPUT,)) -> Path:
    """The given data folder, or the first below the mounts that has test cases of the challenge, else training ones."""
    challenge = registry.challenge(name)
    if given:
        if not Path(given).is_dir():
            raise DataError("no such folder", file=Path(given))
        return Path(given)
    places = [place for place in _below(mounts) if not (place / "manifest.json").exists()]
    for part in ("test", "train"):
        for place in places:
            try:
                if challenge.read_cases(place, part):
                    return place
            except HandlensError:
                continue
    looked = ", ".join(map(str, mounts))
    raise HandlensError(f"no data of {name} below {looked}: attach the contest's data, or set DATA to its folder")


def find_run(name: str, *, finished: bool, mounts: Sequence[Path] = (INPUT,)) -> Path | None:
    """A training of the challenge below the mounts: a finished one to predict with, or an unfinished one to resume."""
    for place in _below(mounts):
        if not (place / "run.json").is_file():
            continue
        try:
            page = read_manifest(place)
            if page.get("command") == "train" and page.get("challenge") == name and page["finished"] == finished:
                return place
        except HandlensError:
            continue
    return None


def pick_up(earlier: Path, run: Path, data: Path) -> Path:
    """A copy of an unfinished training that `handlens train --resume` continues here, on the same data elsewhere."""
    read_training(earlier)
    if not run.exists():
        shutil.copytree(earlier, run, ignore=shutil.ignore_patterns(".lock"))
    adopt_training(run, data)
    return run


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions for labelled cases that the model was not trained on; without a score where there are none."""

    score: Score | None
    cases: tuple[Case, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.score is not None:
            return f"{self.score.value:.4f} on {len(self.cases)} labelled cases that the model has not seen"
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        return f"out of fold, by the training itself: {numbers}" if numbers else "no labelled cases here"


def held_out(name: str, data: Path, *, model: Path | None = None, most: int = 6, seed: int = 0) -> HeldOut:
    """The score on some labelled training cases that the model has not seen; otherwise what its training measured."""
    challenge = registry.challenge(name)
    settings = challenge.settings()
    numbers: Mapping[str, float] = read_manifest(model).get("numbers", {}) if model else {}
    if not challenge.read_cases(data, "train") or (model is not None and numbers):
        return HeldOut(None, numbers=numbers)
    predictor = load(challenge, settings=settings, model=model)
    truth = join_truth(challenge, data, settings, "train")
    known = predictor.model.trained_on if predictor.model else frozenset()
    cases = list(truth.cases)
    Random(seed).shuffle(cases)
    chosen = tuple(case for case in cases[: 4 * most] if digest(case) not in known)[:most]
    if not chosen:
        return HeldOut(None, numbers=numbers)
    answers: dict[str, Any] = {}
    for case in chosen:
        with predictor.decode(case) as decoded:
            answers[case.id] = predictor.predict(decoded).answer
    return HeldOut(challenge.score(answers, Truth(chosen, truth.read), settings), chosen)


def model_of(
    name: str, bundle: Path | None, *, mounts: Sequence[Path] = (INPUT,), run: Path | None = None
) -> Path | None:
    """The model to predict with: of this notebook's training, attached, of the bundle; None for the included one."""
    candidates = [run, find_run(name, finished=True, mounts=mounts), bundle / "model" if bundle else None]
    for folder in candidates:
        if folder is not None and folder.is_dir():
            try:
                if challenge_of_model(folder) == name:
                    return folder
            except HandlensError:
                continue
    return None


def _below(mounts: Iterable[Path]) -> Iterator[Path]:
    """Folders at most DEPTH below the mounts, the upper ones first; hidden ones are left out."""
    level = [mount for mount in mounts if mount.is_dir()]
    for _ in range(DEPTH):
        level = [path for place in level for path in sorted(place.iterdir()) if _is_open(path)]
        yield from level


def _is_open(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")
