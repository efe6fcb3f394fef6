"""submission.csv and .parquet to answers and back. Rows are joined by id as raw text; pixels are never made here."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from handlens.errors import DataError, Problem, SubmissionError
from handlens.files import replacing
from handlens.runs import MAX_CELL_BYTES
from handlens.types import Answer, Case, Codec, Shape

Format = Literal["csv", "parquet"]

MAX_FILE_BYTES = 2 * 2**30
"""Largest table that is read: 5,000 rows of the densest real masks are a quarter of it."""

BATCH_BYTES = 256 * 2**20
"""Text of a Parquet file that is unpacked at a time."""

MAX_ROWS = 1_000_000
"""Most rows that are read: a hundred times the largest of the four test sets."""

_NOT_CSV = {
    b"\x1f\x8b": "a gzip archive: unpack it first",
    b"PK": "a zip archive or a spreadsheet: save the table as CSV",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One record: where it starts (`line` from 1; 0 in Parquet, which has none), its number, its cells as text.

    A cell is None where Parquet has a null; CSV has no such thing.
    """

    line: int
    number: int
    cells: tuple[str | None, ...]


class TableError(Exception):
    """The table itself is broken from this line on."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.problem = Problem(what, line=line)


@dataclass(slots=True)
class Submission:
    """The answers that could be read, by id, and every problem; answers are complete where there is no problem."""

    answers: dict[str, Answer] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


# --- reading ------------------------------------------------------------------------------------------------------


def read_submission(path: Path, codec: Codec, cases: Sequence[Case]) -> Submission:
    """All answers of a file and all its problems. Needs no truth, and tells nothing about it."""
    submission = Submission()
    try:
        rows = read_rows(path)
        header = next(rows, None)
        if header is None:
            raise TableError(f"the file has no header; expected {_listed(codec.header)}")
        _refuse_wrong_columns(header, codec.header)
        _read_answers(rows, codec, cases, submission)
    except TableError as error:
        submission.problems.append(error.problem)
    return submission


def require_submission(path: Path, codec: Codec, cases: Sequence[Case]) -> dict[str, Answer]:
    """The answers of a valid file; SubmissionError with every problem otherwise."""
    submission = read_submission(path, codec, cases)
    if submission.problems:
        raise SubmissionError(path.name, submission.problems)
    return submission.answers


def read_rows(path: Path, *, delimiters: str = ",") -> Iterator[Row]:
    """The records of a CSV or Parquet file, the header first; blank lines are passed over.

    With several `delimiters` the one that the header uses more often is taken. TableError where the file is no table.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as error:
        raise TableError(f"cannot be read ({error.strerror})") from None
    if size > MAX_FILE_BYTES:
        raise TableError(f"{size:,} bytes; the most is {MAX_FILE_BYTES:,}")
    for magic, what in _NOT_CSV.items():
        if start.startswith(magic):
            raise TableError(f"this is {what}")
    rows = _parquet_rows(path) if start == b"PAR1" else _csv_rows(path, delimiters)
    for row in rows:
        if row.number > MAX_ROWS:
            raise TableError(f"more than {MAX_ROWS:,} rows", row.line)
        yield row


def _csv_rows(path: Path, delimiters: str) -> Iterator[Row]:
    # Bytes that are no UTF-8 come through as lone surrogates, so that the row that holds them can be named.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream, _long_fields():
        first = stream.readline(MAX_CELL_BYTES)
        delimiter = max(delimiters, key=first.count)
        stream.seek(0)
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        line, number = 1, 0
        try:
            for cells in reader:
                if cells:
                    yield Row(line, number, tuple(cells))
                    number += 1
                line = reader.line_num + 1
        except csv.Error as error:
            raise TableError(f"broken CSV ({error}); a quote may be missing or too many", line) from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Lift the csv module's limit of 128 KiB a field, and put it back."""
    before = csv.field_size_limit(MAX_CELL_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            if size > MAX_FILE_BYTES or file.metadata.num_rows > MAX_ROWS:
                raise TableError(f"{file.metadata.num_rows:,} rows, {size:,} bytes unpacked; too large to be read")
            yield Row(0, 0, tuple(file.schema_arrow.names))
            number = 0
            few = min(1024, max(1, BATCH_BYTES // max(size, 1)))  # a dictionary expands to `size` in every row
            for batch in file.iter_batches(batch_size=few):
                for cells in zip(*(map(_as_text, column.to_pylist()) for column in batch.columns), strict=True):
                    number += 1
                    yield Row(0, number, cells)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(f"broken Parquet file ({str(error).splitlines()[0]})") from None


def _as_text(value: object) -> str | None:
    """Text as it is, numbers as Python writes them; a null or anything else has no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return None


def _read_answers(rows: Iterable[Row], codec: Codec, cases: Sequence[Case], into: Submission) -> None:
    known = {case.id: case for case in cases}
    seen: dict[str, Row] = {}
    strangers: list[str] = []
    for row in rows:
        id_text = row.cells[0]
        where = _Where(row, codec.id_column)
        if any(cell is not None and not _is_utf8(cell) for cell in row.cells):
            into.problems.append(where("the row is not UTF-8 text: save the file as UTF-8"))
        elif id_text is None:
            into.problems.append(where(f"{codec.id_column} is missing or neither text nor number"))
        elif id_text not in known:
            strangers.append(id_text)
            into.problems.append(
                where(f"{codec.id_column} {_short(id_text)} is not one of the {len(known):,} cases {_span(cases)}")
            )
        elif id_text in seen:
            first = seen[id_text]
            at = f"line {first.line}" if first.line else f"row {first.number}"
            into.problems.append(where(f"{codec.id_column} {id_text} is there twice, first at {at}"))
        else:
            seen[id_text] = row
            _read_answer(row, codec, known[id_text], where, into)
    missing = [case.id for case in cases if case.id not in seen]
    into.problems.extend(Problem(f"no row for {codec.id_column} {_short(id)}") for id in missing)
    if missing and strangers and _counts_from_one(strangers, cases):
        into.problems.insert(0, Problem(f"{codec.id_column} counts from 1 here, but ids start at 0"))


def _read_answer(row: Row, codec: Codec, case: Case, where: _Where, into: Submission) -> None:
    cells = row.cells[1:]
    if len(cells) != len(codec.columns):
        into.problems.append(
            where(
                f"{len(row.cells)} fields, the header has {len(codec.header)}; text with commas goes in double quotes",
                case.id,
            )
        )
        return
    texts = tuple(cell for cell in cells if cell is not None)
    if len(texts) != len(cells):
        into.problems.append(where("a value is missing (null) or is neither text nor number", case.id))
        return
    try:
        into.answers[case.id] = codec.parse(texts, case)
    except ValueError as error:
        into.problems.append(where(str(error), case.id))


@dataclass(frozen=True, slots=True)
class _Where:
    """Makes problems that say where their row is."""

    row: Row
    noun: str

    def __call__(self, what: str, id: str = "") -> Problem:
        name = f"{self.noun} {id}" if id else ""
        if not self.row.line:
            name = ", ".join(part for part in (f"row {self.row.number}", name) if part)
        return Problem(what, line=self.row.line, id=name)


def _refuse_wrong_columns(header: Row, expected: tuple[str, ...]) -> None:
    found = tuple(_short(cell or "") for cell in header.cells)
    if found != expected:
        raise TableError(f"the columns are {_listed(found)}; expected {_listed(expected)}", header.line)


def _counts_from_one(strangers: Sequence[str], cases: Sequence[Case]) -> bool:
    """True where the unknown id is the one just past the last: 14 where the cases are 0 to 13."""
    ids = [case.id for case in cases]
    return ids == [str(number) for number in range(len(ids))] and set(strangers) == {str(len(ids))}


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _short(text: str) -> str:
    """Text from a stranger's file, made safe for a terminal."""
    clean = re.sub(r"[^\w .,;:/\-\[\]()+]", "?", text.encode("utf-8", "replace").decode())
    clean = clean if clean.strip() == clean and clean else repr(clean)
    return clean if len(clean) <= 60 else clean[:57] + "..."


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:14])
    return ", ".join(shown) + (f" and {len(names) - 14:,} more" if len(names) > 14 else "")


def _span(cases: Sequence[Case]) -> str:
    ids = [case.id for case in cases]
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
        solutions = [_read_solution(row, names, id_column, answer_column) for row in rows]
    except TableError as error:
        raise DataError(f"{error.problem}", file=path) from None
    ids = [solution.id for solution in solutions]
    if not ids:
        raise DataError("no rows under the header", file=path)
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise DataError(f"{id_column} {_short(twice)} is there twice: every case has one row", file=path)
    return solutions


def _read_solution(row: Row, names: Sequence[str], id_column: str, answer_column: str) -> Solution:
    if len(row.cells) != len(names):
        raise TableError(f"{len(row.cells)} fields, the header has {len(names)}", row.line)
    record = dict(zip(names, row.cells, strict=True))
    id_text, text = record[id_column], record[answer_column]
    if id_text is None or text is None:
        raise TableError("a value is missing", row.line)
    shape = _read_shape(record.get("shape"))
    if shape is None and (record.get("height") or "").isdigit() and (record.get("width") or "").isdigit():
        shape = (int(record["height"] or 0), int(record["width"] or 0))
    return Solution(row.line, id_text, text, shape)


def _read_shape(text: str | None) -> Shape | None:
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    if isinstance(value, list) and len(value) >= 2 and all(isinstance(n, int) and n > 0 for n in value[:2]):
        return value[0], value[1]
    return None


# --- writing ------------------------------------------------------------------------------------------------------


def write_submission(path: Path, codec: Codec, cases: Sequence[Case], answers: Mapping[str, Answer]) -> None:
    """A valid file with one row for every case, in their order: Parquet for `.parquet`, CSV otherwise. Atomic."""
    rows = ((case.id, *codec.format(answers[case.id], case)) for case in cases)
    write_cells(path, codec, rows)


def write_cells(path: Path, codec: Codec, rows: Iterable[tuple[str, ...]]) -> None:
    """The same from cells that are text already."""
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(temporary, codec, rows)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(codec.header)
                writer.writerows(rows)


def _write_parquet(path: Path, codec: Codec, rows: Iterable[tuple[str, ...]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in codec.header]
    if codec.numeric:
        columns[1:] = [list(map(float, column)) for column in columns[1:]]
    pq.write_table(pa.table(dict(zip(codec.header, columns, strict=True))), path)
