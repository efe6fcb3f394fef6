"""submission.csv and .parquet to answers and back. Rows are joined by id as raw text; pixels are never made here."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal

from handlens.errors import DataError, Problem, SubmissionError, counted
from handlens.io.csv import BATCH_BYTES, Row, TableError, is_utf8, read_rows
from handlens.io.extras import need
from handlens.io.files import replacing
from handlens.masks.rle import MAX_PIXELS, Rle, parse_pairs
from handlens.types import AnswerT, Case, Codec, Shape, Truth

Format = Literal["csv", "parquet"]

MOST_PROBLEMS = 10_000
"""Problems of rows that are listed one by one: a file of a million unknown ids is of another contest."""


@dataclass(frozen=True, slots=True)
class Submission(Generic[AnswerT]):
    """The answers that could be read, by id, and every problem; answers are complete where there is no problem."""

    answers: dict[str, AnswerT]
    problems: list[Problem]


# --- reading ------------------------------------------------------------------------------------------------------


def read_submission(path: Path, codec: Codec[AnswerT], cases: Sequence[Case]) -> Submission[AnswerT]:
    """All answers of a file and all its problems. Needs no truth, and tells nothing about it."""
    reader = _Reader(codec, cases)
    try:
        rows = read_rows(path)
        header = next(rows, None)
        if header is None:
            raise TableError(f"the file has no header; expected {_listed(codec.header)}")
        _refuse_wrong_columns(header, codec.header)
        for row in rows:
            reader.add(row)
    except TableError as error:
        reader.flush()
        return Submission(reader.answers, [*reader.problems(), error.problem])
    reader.flush()
    return Submission(reader.answers, [*reader.problems(), *reader.missing()])


def require_submission(path: Path, codec: Codec[AnswerT], cases: Sequence[Case]) -> dict[str, AnswerT]:
    """The answers of a valid file; SubmissionError with every problem otherwise."""
    submission = read_submission(path, codec, cases)
    if submission.problems:
        raise SubmissionError(path.name or str(path), submission.problems)
    return submission.answers


class _Reader(Generic[AnswerT]):
    """Rows to answers, a batch at a time; every problem is kept with the number of its row."""

    def __init__(self, codec: Codec[AnswerT], cases: Sequence[Case]) -> None:
        self.codec, self.cases = codec, cases
        self.known = {case.id: case for case in cases}
        self.cases_shown = f"{counted(len(self.known), 'case')} {_span(cases)}"
        self.seen: dict[str, str] = {}  # id to the place of its row
        self.strangers: list[str] = []
        self.waiting: list[tuple[Row, Case, tuple[str, ...]]] = []
        self.waiting_size = 0
        self.answers: dict[str, AnswerT] = {}
        self.found: list[tuple[int, Problem]] = []
        self.unlisted = 0  # problems beyond MOST_PROBLEMS

    def add(self, row: Row) -> None:
        """Take one row; its answer is parsed when there are enough of them."""
        noun, id_text = self.codec.id_column, row.cells[0]
        texts = tuple(cell for cell in row.cells[1:] if cell is not None)
        if not all(map(is_utf8, filter(None, row.cells))):
            self.report(row, "the row is not UTF-8 text: save the file as UTF-8")
        elif id_text is None:
            self.report(row, f"{noun} is missing or neither text nor number")
        elif id_text not in self.known:
            if len(self.found) >= MOST_PROBLEMS:
                self.unlisted += 1
                return
            self.strangers.append(id_text)
            self.report(row, f"{noun} {_short(id_text)} is not one of the {self.cases_shown}")
        elif id_text in self.seen:
            self.report(row, f"{noun} {id_text} is duplicated, first at {self.seen[id_text]}")
        elif len(row.cells) != len(self.codec.header):
            self.seen[id_text] = row.place
            what = f"{counted(len(row.cells), 'field')}, the header has {len(self.codec.header)}"
            self.report(row, f"{what}; text with commas goes in double quotes", id_text)
        elif len(texts) != len(self.codec.columns):
            self.seen[id_text] = row.place
            self.report(row, "a value is missing (null) or is neither text nor number", id_text)
        else:
            self.seen[id_text] = row.place
            self.waiting.append((row, self.known[id_text], texts))
            self.waiting_size += sum(map(len, texts))
            if self.waiting_size > BATCH_BYTES:
                self.flush()

    def report(self, row: Row, what: str, id: str = "") -> None:
        """Keep a problem of this row, and of the case where it is a known one; beyond so many they are counted."""
        if len(self.found) >= MOST_PROBLEMS:
            self.unlisted += 1
            return
        name = f"{self.codec.id_column} {id}" if id else ""
        if not row.line:
            name = ", ".join(part for part in (row.place, name) if part)
        self.found.append((row.number, Problem(what, line=row.line, id=name)))

    def flush(self) -> None:
        """Parse the rows that wait."""
        answers = self.codec.parse_all([texts for _, _, texts in self.waiting], [case for _, case, _ in self.waiting])
        for (row, case, _), answer in zip(self.waiting, answers, strict=True):
            if isinstance(answer, ValueError):
                self.report(row, str(answer), case.id)
            else:
                self.answers[case.id] = answer
        self.waiting, self.waiting_size = [], 0

    def problems(self) -> list[Problem]:
        """Those of rows, in the order of the file."""
        found = [problem for _, problem in sorted(self.found, key=lambda pair: pair[0])]
        if self.unlisted:
            found.append(Problem(f"and {counted(self.unlisted, 'row')} more with problems, which are not listed"))
        return found

    def missing(self) -> list[Problem]:
        """Cases without a row, and the challenge's hint about the ids."""
        noun = self.codec.id_column
        missing = [Problem(f"no row for {noun} {_short(case.id)}") for case in self.cases if case.id not in self.seen]
        hint = self.codec.hint([*self.seen, *self.strangers], [case.id for case in self.cases]) if missing else ""
        if hint:
            missing.append(Problem(hint))
        return missing


def _refuse_wrong_columns(header: Row, expected: tuple[str, ...]) -> None:
    found = tuple(_short(cell or "") for cell in header.cells)
    if found != expected:
        advice = ": separate them with commas" if "".join(found).count(";") == len(expected) - 1 else ""
        raise TableError(
            f"the columns are {_listed(found) or 'none'}; expected {_listed(expected)}{advice}", header.line
        )


def _short(text: str) -> str:
    """Text from a stranger's file, made safe for a terminal."""
    text = text[:100]
    clean = re.sub(r"[^\w .,;:/\-\[\]()+]", "?", text.encode("utf-8", "replace").decode())
    clean = clean if clean.strip() == clean and clean else repr(clean)
    return clean if len(clean) <= 60 else clean[:57] + "..."


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:14])
    return ", ".join(shown) + (f" and {len(names) - 14:,} more" if len(names) > 14 else "")


def _span(cases: Sequence[Case]) -> str:
    ids = [_short(case.id) for case in cases]
    if not ids:
        return "(there are none)"
    return f"({', '.join(ids)})" if len(ids) <= 3 else f"({ids[0]} to {ids[-1]})"


# --- solution files -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Solution:
    """A row of an organiser's solution file: id, answer text, and the shape where the file gives one."""

    line: int
    id: str
    text: str
    shape: Shape | None


def read_solutions(path: Path, *, id_column: str, answer_column: str) -> list[Solution]:
    """The rows of a solution file; other columns than id, answer, `shape`, `height` and `width` are left alone.

    `shape` is `[H, W]`; any other word there, such as `authentic`, means unknown.
    """
    try:
        rows = read_rows(path)
        header = next(rows, None)
        names = [cell or "" for cell in header.cells] if header else []
        if id_column not in names or answer_column not in names:
            raise TableError(
                f"the columns are {_listed(names) or 'none'}; a solution has {id_column}, {answer_column}", 1
            )
        if len(set(names)) < len(names):
            raise TableError(f"a column is duplicated: {_listed(names)}", 1)
        solutions = [_read_solution(row, names, id_column, answer_column) for row in rows]
        _refuse_twice(solutions, id_column)
    except TableError as error:
        raise DataError(f"{error.problem}", file=path) from None
    if not solutions:
        raise DataError("no rows under the header", file=path)
    return solutions


def _refuse_twice(solutions: Sequence[Solution], id_column: str) -> None:
    seen: set[str] = set()
    for solution in solutions:
        if solution.id in seen:
            raise TableError(f"{id_column} {_short(solution.id)} is duplicated: every case has one row", solution.line)
        seen.add(solution.id)


def _read_solution(row: Row, names: Sequence[str], id_column: str, answer_column: str) -> Solution:
    if len(row.cells) != len(names):
        raise TableError(f"{counted(len(row.cells), 'field')}, the header has {len(names)}", row.line)
    record = dict(zip(names, row.cells, strict=True))
    id_text, text = record[id_column], record[answer_column]
    if id_text is None or text is None:
        raise TableError(f"{row.place}: a value is missing")
    if not is_utf8(id_text):
        raise TableError("the row is not UTF-8 text: save the file as UTF-8", row.line)
    try:
        shape = _read_shape(record.get("shape") or "", record.get("height") or "", record.get("width") or "")
    except ValueError as error:
        raise TableError(str(error), row.line) from None
    return Solution(row.line, id_text, text, shape)


def _read_shape(text: str, height: str, width: str) -> Shape | None:
    """`[H, W]`, or two columns; None where both are empty or the shape is a word such as `authentic`."""
    if text.isalpha():
        return None
    found = re.fullmatch(r" *[\[(] *([0-9]{1,9}) *, *([0-9]{1,9}) *(?:, *[0-9]{1,9} *)?[\])] *", text)
    if text.strip() and not found:
        raise ValueError(f"shape {_short(text)}; expected [height, width] or nothing")
    numbers = found.groups() if found else (height.strip(), width.strip())
    if not any(numbers):
        return None
    if not all(re.fullmatch(r"[0-9]{1,9}", number) for number in numbers):
        raise ValueError(f"height {_short(numbers[0])}, width {_short(numbers[1])}; expected two whole numbers")
    shape = int(numbers[0]), int(numbers[1])
    if not 0 < shape[0] * shape[1] <= MAX_PIXELS:
        raise ValueError(f"shape {shape[0]}x{shape[1]}; an image has 1 to {MAX_PIXELS:,} pixels")
    return shape


def open_pairs(path: Path, *, id_column: str, answer_column: str, shape: Shape | None) -> Truth[Rle]:
    """A solution file of `start length` pairs as truth; `shape` is that of every image without one."""
    rows = {row.id: row for row in read_solutions(path, id_column=id_column, answer_column=answer_column)}

    def read(case: Case) -> Rle:
        try:
            return parse_pairs(rows[case.id].text, pixels=case.pixels)
        except ValueError as error:
            raise DataError(f"line {rows[case.id].line}, {id_column} {case.id}: {error}", file=path) from None

    return Truth(tuple(Case(row.id, path, row.shape or shape, group=row.id) for row in rows.values()), read)


# --- writing ------------------------------------------------------------------------------------------------------


def write_submission(path: Path, codec: Codec[AnswerT], cases: Sequence[Case], answers: Mapping[str, AnswerT]) -> None:
    """A valid file with one row for every case, in their order: Parquet for `.parquet`, CSV otherwise. Atomic."""
    rows = ((case.id, *codec.format(answers[case.id], case)) for case in cases)
    write_cells(path, codec, rows)


def refuse_format(form: Format) -> None:
    """HandlensError where a file of this format could not be written in the end: to be asked before long work."""
    if form == "parquet":
        need("pyarrow", "a Parquet file")


def write_cells(path: Path, codec: Codec[Any], rows: Iterable[tuple[str, ...]]) -> None:
    """The same from cells that are text already."""
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(temporary, codec, rows)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(codec.header)
                writer.writerows(rows)


def _write_parquet(path: Path, codec: Codec[Any], rows: Iterable[tuple[str, ...]]) -> None:
    pa, pq = need("pyarrow", "a Parquet file"), need("pyarrow.parquet", "a Parquet file")
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in codec.header]
    if codec.numeric:
        columns[1:] = [list(map(float, column)) for column in columns[1:]]
    pq.write_table(pa.table(dict(zip(codec.header, columns, strict=True))), path)
