"""Which figures a list of files and folders means: pictures, pages, images inside PDFs, and what cannot be read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from handlens.errors import DataError, Problem
from handlens.io import documents
from handlens.io.formats import why_unread
from handlens.io.gate import is_there, open_file, walk
from handlens.io.images import Array, describe_skipped
from handlens.io.pdf import PdfFigure
from handlens.runstore.store import Journal
from handlens.sandbox import pdf


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture to look at: a file, a page (from 1) of a TIFF, or a `part` of a PDF. `fault`: why it cannot be used.

    `name` is for people: `stack.tif#3` is a page, `paper.pdf#3.2` the second image of page 3, `paper.pdf#3` what was
    drawn of page 3. `folder` is for files, and no other figure of the list has it.
    """

    name: str
    path: Path
    page: int | None = None
    fault: str = ""
    folder: str = ""
    part: PdfFigure | None = None

    def read(self) -> Array:
        """Its pixels as viewers show them."""
        if self.fault:
            raise DataError(self.fault)
        if self.part is not None:
            return pdf.read_figure(self.path, self.part)
        return documents.read_page(self.path, self.page)


def list_files(paths: Sequence[Path], *, out: Path | None) -> list[tuple[Path, str]]:
    """The files of a list of files and folders, with the names they go by, each once.

    What lies in `out` is our own and left out.
    """
    files: dict[Path, tuple[Path, str]] = {}
    for given in paths:
        for path, name in _list_files(given, out):
            files.setdefault(path.resolve(), (path, name))
    return list(files.values())


def find_figures(files: Sequence[tuple[Path, str]], known: Journal | None = None) -> list[Figure]:
    """Every figure of the files, in order. What PDFs hold is kept in the journal, also that one cannot be read."""
    return _with_folders([figure for path, name in files for figure in _figures(path, name, known)])


def fingerprint(path: Path) -> str:
    """SHA-256 of the file: says later which file was looked at."""
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def list_skipped(paths: Sequence[Path], *, out: Path | None) -> list[Problem]:
    """Pictures below the folders of a list that are not looked at: formats that are not read here."""
    walked = ((given, path) for given in paths if given.is_dir() for path in _walk(given, out, []))
    unread = ((path.relative_to(given).as_posix(), why_unread(path)) for given, path in walked if not _is_figure(path))
    return [Problem(why, file=name) for name, why in unread if why]


def _list_files(given: Path, out: Path | None) -> Iterator[tuple[Path, str]]:
    """Files with the names they go by; a folder gives those below it that end like a figure, hidden ones not."""
    if not given.is_dir():
        yield given, given.name or str(given)
        return
    number = 0
    closed: list[OSError] = []
    for path in _walk(given, out, closed):
        if _is_figure(path):
            number += 1
            yield path, path.relative_to(given).as_posix()
    for error in closed:  # a folder that may not be read is said, not passed over
        path = Path(error.filename)
        yield path, path.relative_to(given).as_posix()
    if not number and not closed:
        looked = f"no figures in this folder; looked for {', '.join(documents.SUFFIXES)}"
        raise DataError("; ".join(filter(None, (looked, describe_skipped(list_skipped([given], out=out))))), file=given)


def _walk(given: Path, out: Path | None, closed: list[OSError]) -> Iterator[Path]:
    """The files below a folder, sorted, without hidden ones and `out`; folders that may not be read go to `closed`."""
    ours = out.resolve() if out else None
    for folder, below, names in walk(given, failed=closed.append):
        below[:] = sorted(name for name in below if not name.startswith(".") and (folder / name).resolve() != ours)
        yield from (folder / name for name in sorted(names) if not name.startswith("."))


def _is_figure(path: Path) -> bool:
    return path.name.lower().endswith(documents.SUFFIXES)


def _figures(path: Path, name: str, known: Journal | None) -> Iterator[Figure]:
    try:
        if not is_there(path) and not path.is_dir():
            raise DataError("no such file or folder", file=path)
        if documents.is_pdf(path):
            yield from _parts(path, name, known)
            return
        number = documents.count_pages(path)
    except DataError as error:
        yield Figure(name, path, fault=error.what)
        return
    if number is None:
        yield Figure(name, path)
        return
    for page in range(1, number + 1):
        yield Figure(f"{name}#{page}", path, page)


def _parts(path: Path, name: str, known: Journal | None) -> Iterator[Figure]:
    """The figures of a PDF."""
    digest, place = fingerprint(path), str(path.absolute())
    cells = known.done.get(place) if known is not None else None
    if cells is None or cells[0] != digest:
        cells = (digest, json.dumps(_listed(path)))
        if known is not None:
            known.add(place, cells)
    for item in json.loads(cells[1]):
        page = item.get("page", 0)
        if "fault" in item:
            yield Figure(f"{name}#{page}" if page else name, path, page or None, fault=item["fault"])
            continue
        part = PdfFigure(**{key: _tuples(value) for key, value in item.items()})
        yield Figure(f"{name}#{page}.{part.number}" if part.number else f"{name}#{page}", path, page, part=part)


def _listed(path: Path) -> list[dict[str, object]]:
    """The figures of a PDF, or why it or a page of it cannot be read, as a journal keeps them."""
    try:
        found = pdf.list_figures(path)
    except DataError as error:
        return [{"fault": error.what}]
    return [asdict(each) if isinstance(each, PdfFigure) else {"page": each[0], "fault": each[1]} for each in found]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


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
        named.append(replace(figure, folder=folder))
    return named
