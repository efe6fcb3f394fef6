"""Which figures a list of files and folders means: pictures, pages of documents, and what cannot be read."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from handlens.errors import DataError
from handlens.io import documents
from handlens.io.images import Array


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture to look at: a file, or a page (from 1) of one. `fault` says why its file cannot be used.

    `name` is for people, `file.pdf#3`; `folder` is for files, and no other figure of the list has it.
    """

    name: str
    path: Path
    page: int | None = None
    fault: str = ""
    folder: str = ""

    def read(self) -> Array:
        """Its pixels as they are stored, not turned as a viewer may turn them."""
        if self.fault:
            raise DataError(self.fault)
        return documents.read_page(self.path, self.page)


def find_figures(paths: Sequence[Path], *, out: Path | None) -> list[Figure]:
    """Every figure of files and folders, in order, each file once; what lies in `out` is our own and left out."""
    figures: list[Figure] = []
    seen: set[Path] = set()
    for given in paths:
        for path, name in _list_files(given, out):
            resolved = path.resolve()
            if resolved not in seen:
                seen.add(resolved)
                figures.extend(_pages(path, name))
    return _with_folders(figures)


def fingerprint(path: Path) -> str:
    """SHA-256 of the file: says later which file was looked at."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _list_files(given: Path, out: Path | None) -> Iterator[tuple[Path, str]]:
    """Files with the names they go by; a folder gives those below it that end like a figure, hidden ones not."""
    if not given.is_dir():
        yield given, given.name or str(given)
        return
    ours = out.resolve() if out else None
    number = 0
    closed: list[OSError] = []
    for folder, below, names in os.walk(given, onerror=closed.append):
        below[:] = sorted(name for name in below if not name.startswith(".") and Path(folder, name).resolve() != ours)
        for name in sorted(names):
            if name.lower().endswith(documents.SUFFIXES) and not name.startswith("."):
                number += 1
                path = Path(folder, name)
                yield path, path.relative_to(given).as_posix()
    for error in closed:  # a folder that may not be read is said, not passed over
        path = Path(error.filename)
        yield path, path.relative_to(given).as_posix()
    if not number and not closed:
        raise DataError(f"no figures in this folder; looked for {', '.join(documents.SUFFIXES)}", file=given)


def _pages(path: Path, name: str) -> Iterator[Figure]:
    try:
        if not path.exists():
            raise DataError("no such file or folder", file=path)
        number = documents.count_pages(path)
    except DataError as error:
        yield Figure(name, path, fault=error.what)
        return
    if number is None:
        yield Figure(name, path)
        return
    for page in range(1, number + 1):
        yield Figure(f"{name}#{page}", path, page)


def _with_folders(figures: Sequence[Figure]) -> list[Figure]:
    """Give each a folder name of letters that every file system takes; numbers part those that would be alike."""
    taken: set[str] = set()
    named = []
    for figure in figures:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", figure.name).strip("-.")[:80] or "figure"
        folder, number = plain, 1
        while folder.lower() in taken:
            number += 1
            folder = f"{plain}-{number}"
        taken.add(folder.lower())
        named.append(Figure(figure.name, figure.path, figure.page, figure.fault, folder))
    return named
