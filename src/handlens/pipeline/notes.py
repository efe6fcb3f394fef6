"""What a person should know of answers: what was odd about cases, the licence of the model, whether it knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlens.errors import counted
from handlens.inference.model import digest
from handlens.licences import is_non_commercial
from handlens.types import Case, ModelFolder

NAMED = 3
"""Cases that a warning names; more are counted."""


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


def model_notes(model: ModelFolder | None, cases: Sequence[Case]) -> list[str]:
    """The licence of the model behind the answers, and whether it was trained on the cases."""
    if model is None:
        return []
    notes = []
    if is_non_commercial(model.licence):
        notes.append(licence_note(model.licence))
    known = model.trained_on if cases else frozenset()
    seen = sum(digest(case) in known for case in cases) if known else 0
    if seen:
        what = f"the model was trained on {seen:,} of these {counted(len(cases), 'case')}"
        notes.append(f"{what}: this score says little about others")
    return notes


def licence_note(licence: str) -> str:
    return f"model trained on non-commercial data ({licence}): handlens list --models"
