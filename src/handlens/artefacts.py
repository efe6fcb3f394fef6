"""Which files `solve` writes for every case: chosen by `--write`, and where they go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from handlens.errors import HandlensError
from handlens.types import Case

ALL, NONE = "all", "none"
REPORT_DATA = "report_data"
"""Sub-folder of an output folder with what predictions leave for the report."""


def choose(text: str | None, known: Sequence[str], default: Sequence[str]) -> frozenset[str]:
    """The kinds of files that `--write` names: some of the known ones with commas between them, `all` or `none`.

    >>> sorted(choose("mask,table", ("mask", "overlay", "table"), ())), choose("none", (), ())
    (['mask', 'table'], frozenset())
    """
    names = list(default) if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if names == [ALL]:
        return frozenset(known)
    if names == [NONE]:
        return frozenset()
    if unknown := [name for name in names if name not in known]:
        raise HandlensError(f"--write {unknown[0]}; expected some of {', '.join(known)}, or {ALL}, or {NONE}")
    return frozenset(names)


def file_of(out: Path, case: Case, ending: str) -> Path:
    """`OUT/ID.ending`; letters of an id that a file's name cannot have are replaced, and told apart by a checksum.

    An id that is a number stands for a picture whose name may begin with zeros: people look for that name.

    >>> file_of(Path("out"), Case("forged/12", Path()), "mask.png").name
    'forged-12-6c9a1d73.mask.png'
    >>> file_of(Path("out"), Case("7", Path("im/07.png")), "mask.png").name
    '07.mask.png'
    """
    stem = case.path.stem if case.id.isdigit() else ""
    id = stem if stem.isdigit() and stem.lstrip("0") == case.id.lstrip("0") else case.id
    plain = re.sub(r"[^\w.-]+", "-", id).strip(".-")[:100]
    name = plain if plain == id else f"{plain or 'case'}-{sha256(id.encode()).hexdigest()[:8]}"
    return out / f"{name}.{ending}"


def files_of_cases(out: Path, cases: Sequence[Case], folders: Iterable[str] = ()) -> dict[str, list[str]]:
    """Files in an output folder, and in some folders in it, that bear a case's name, by its id; seen from there."""
    begins = {file_of(out, case, "").name: case.id for case in cases}
    found: dict[str, list[str]] = {case.id: [] for case in cases}
    places = [out, *(out / folder for folder in sorted(folders) if (out / folder).is_dir())]
    for path in (path for place in places for path in sorted(place.iterdir()) if path.is_file()):
        parts = path.name.split(".")
        starts = (".".join(parts[:count]) + "." for count in range(len(parts) - 1, 0, -1))  # the longest id first
        if id := next((begins[start] for start in starts if start in begins), None):
            found[id].append(path.relative_to(out).as_posix())
    return found
