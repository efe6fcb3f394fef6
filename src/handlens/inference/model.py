"""A model folder: `model.onnx`, `plan.json` and what the model was trained on. Opened and checked here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlens.errors import DataError, HandlensError, ModelError
from handlens.io.gate import MAX_TEXT_BYTES, is_there, open_file, read_bytes
from handlens.runstore.plan import PLAN, Plan, read_plan
from handlens.settings import SettingsT
from handlens.types import Case

MODEL = "model.onnx"
TRAINED_ON = "trained_on.txt"
"""Digests of the files that the model was trained on, a line each."""


@dataclass(frozen=True, slots=True)
class Model:
    """A folder with a trained model, and its plan."""

    folder: Path
    plan: Plan

    def __repr__(self) -> str:
        return f"<Model {self.folder}: {self.plan.challenge}>"

    @property
    def file(self) -> Path:
        return self.folder / MODEL

    @property
    def own_licence(self) -> str:
        """SPDX identifier of the licence that the training data imposes; empty where the plan says nothing."""
        found = self.plan.results.get("licence", "")
        return found if isinstance(found, str) else ""

    @property
    def licence(self) -> str:
        """The same of everything that is used together: this model, and those within its folder."""
        within = [Model(place, read_plan(place)) for place in sorted(self.folder.glob("*/")) if is_model(place)]
        found = [model.own_licence for model in (self, *within)]
        return " AND ".join(dict.fromkeys(licence for licence in found if licence))

    @property
    def trained_on(self) -> frozenset[str]:
        """Digests of the training cases, of models for special inputs too; empty where they are not recorded."""
        files = [self.folder / TRAINED_ON, *sorted(self.folder.glob(f"*/{TRAINED_ON}"))]
        return frozenset(word for file in files for word in _read_words(file))

    def decision(self, kind: type[SettingsT]) -> SettingsT:
        """What training decided, as the challenge's decision; ModelError where it is missing or out of range."""
        page = self.plan.results.get("decision")
        try:
            return kind.parse(page if isinstance(page, dict) else {})
        except HandlensError as error:
            raise ModelError(f"{self.folder / PLAN}: decision: {error}: train again") from None


def _read_words(file: Path) -> list[str]:
    try:
        return read_bytes(file, most=MAX_TEXT_BYTES).decode("ascii").split()
    except (DataError, UnicodeDecodeError):
        return []


def open_model(folder: Path, *, challenge: str) -> Model:
    """The model of a folder; refused where it is about another challenge."""
    plan = read_plan(folder)
    if plan.challenge != challenge:
        raise ModelError(f"{folder}: this model was trained for {plan.challenge}, not {challenge}")
    return Model(folder, plan)


def is_model(folder: Path) -> bool:
    """Whether both files are there."""
    return is_there(folder / MODEL) and is_there(folder / PLAN)


def digest(case: Case) -> str:
    """Eight digits that tell a case's file from others: of the bytes of its image, or of a folder's first file."""
    path: Path = case.path
    if path.is_dir():
        path = next((file for file in sorted(path.rglob("*")) if file.is_file()), path)
    try:
        with open_file(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:8]
    except (DataError, OSError):
        return ""


def write_trained_on(folder: Path, cases: Iterable[Case]) -> None:
    """Record what a model was trained on, so that a score on these very cases can be told apart."""
    from handlens.io.files import write_text

    found: set[Any] = {digest(case) for case in cases} - {""}
    write_text(folder / TRAINED_ON, "".join(f"{each}\n" for each in sorted(found)))
