"""Which files `solve` writes for every case: chosen by `--write`, and where they go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from handlens.errors import HandlensError
from handlens.types import Artefact, Case

AnswerT = TypeVar("AnswerT")
ALL, NONE = "all", "none"


def choose(text: str | None, known: Mapping[str, Artefact[AnswerT]], default: Sequence[str]) -> list[Artefact[AnswerT]]:
    """The artefacts that `--write` names: some of the known ones with commas between them, `all` or `none`.

    >>> choose("none", {}, ())
    []
    """
    names = list(default) if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if names == [ALL]:
        return list(known.values())
    if names == [NONE]:
        return []
    if unknown := [name for name in names if name not in known]:
        raise HandlensError(f"--write {unknown[0]}; expected some of {', '.join(known)}, or {ALL}, or {NONE}")
    return [known[name] for name in dict.fromkeys(names)]


def file_of(out: Path, case: Case, ending: str) -> Path:
    """`OUT/ID.ending`; letters of an id that a file's name cannot have are replaced, and told apart by a checksum.

    >>> file_of(Path("out"), Case("forged/12", Path()), "mask.png").name
    'forged-12-6c9a1d73.mask.png'
    """
    plain = re.sub(r"[^\w.-]+", "-", case.id).strip(".-")[:100]
    name = plain if plain == case.id else f"{plain or 'case'}-{sha256(case.id.encode()).hexdigest()[:8]}"
    return out / f"{name}.{ending}"
