"""CSV and Parquet files as rows of text, with the line where each begins. What the text means is not known here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlens.errors import DataError, Problem
from handlens.io.extras import need
from handlens.io.gate import open_file, read_bytes, status_of

MAX_FILE_BYTES = 2**30
"""Largest table that is read: 5,000 rows of the densest real masks are half of it."""

BATCH_BYTES = 64 * 2**20
"""Text that is unpacked and parsed at a time."""

MAX_FIELD_BYTES = 256 * 2**20
"""Longest field: what it means has a limit of its own, a quarter of this."""

MAX_FIELDS = 1_000
"""Most fields in a row: a lesions table has eleven or twelve."""

MAX_ROWS = 1_000_000
MAX_ROW_GROUPS = 10_000  # of a Parquet file: each takes a tenth of a millisecond, though it may hold one row
"""Most rows that are read: a hundred times the largest of the four test sets."""

_PARQUET_ROWS = 1024  # that are unpacked at a time

_BLANK = re.compile(rb"[\r\n]+")

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

    @property
    def place(self) -> str:
        return f"line {self.line}" if self.line else f"row {self.number}"


class TableError(Exception):
    """The table itself is broken from this line on."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.problem = Problem(what, line=line)


def is_utf8(text: str) -> bool:
    """False for text with bytes in it that could not be decoded, from a file or a file's name."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def read_rows(path: Path, *, delimiters: str = ",") -> Iterator[Row]:
    """The records of a CSV or Parquet file, the header first; blank lines are passed over.

    With several `delimiters` the one that the header uses more often is taken. TableError where the file is no table.
    """
    try:
        with open_file(path) as stream:
            start, size = stream.read(4), status_of(stream)[0]
    except DataError as error:
        raise TableError(error.what) from None
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
    try:
        data = read_bytes(path, most=MAX_FILE_BYTES).removeprefix(b"\xef\xbb\xbf")
    except DataError as error:
        raise TableError(error.what) from None
    first = data[: data.find(b"\n")]
    delimiter = max(delimiters, key=lambda mark: first.count(mark.encode()))
    for number, (line, fields) in enumerate(split_records(data, delimiter.encode())):
        # Bytes that are no UTF-8 come through as lone surrogates, so that the row that holds them can be named.
        yield Row(line, number, tuple(field.decode("utf-8", "surrogateescape") for field in fields))


def split_records(data: bytes, delimiter: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """The records of a CSV file with the line where each begins; blank lines are passed over.

    The same as Python's strict csv reader, but it jumps from mark to mark instead of walking over every character,
    which counts for cells of megabytes, and has no limit on a field that would be lifted for the whole program.

    >>> list(split_records(b'id,text\\n1,"a ""b"", c"\\n', b","))
    [(1, [b'id', b'text']), (2, [b'1', b'a "b", c'])]
    """
    size, position, line = len(data), 0, 1
    marks = dict.fromkeys((delimiter, b"\n", b"\r"), -1)  # where each comes next; looked up again once passed

    def next_mark() -> int:
        for mark, place in marks.items():
            if place < position:
                found = data.find(mark, position)
                marks[mark] = size if found < 0 else found
        return min(marks.values())

    while position < size:
        if data[position] in b"\r\n":
            blank = _BLANK.match(data, position)
            lines = blank.group() if blank else b""
            line += lines.count(b"\n") + lines.count(b"\r") - lines.count(b"\r\n")
            position += len(lines)
            continue
        began, fields = line, []
        while True:
            if data[position : position + 1] == b'"':
                field, position = _read_quoted(data, position, line)
                if b"\n" in field or b"\r" in field:
                    line += field.count(b"\n") + field.count(b"\r") - field.count(b"\r\n")
            else:
                start, position = position, next_mark()
                field = data[start:position]
            fields.append(field)
            if len(field) > MAX_FIELD_BYTES:
                raise TableError(f"a field of {len(field):,} bytes; the most is {MAX_FIELD_BYTES:,}", line)
            if data[position : position + 1] != delimiter:
                break
            if len(fields) == MAX_FIELDS:
                raise TableError(f"more than {MAX_FIELDS:,} fields", line)
            position += 1
        if position < size and data[position] not in b"\r\n":
            raise TableError("broken CSV: text follows a closing quote; quotes inside a cell are doubled", line)
        position += 2 if data[position : position + 2] == b"\r\n" else 1
        line += 1
        yield began, fields


def _read_quoted(data: bytes, position: int, line: int) -> tuple[bytes, int]:
    """The text of the quoted field that begins here, and the place after its closing quote."""
    end = data.find(b'"', position + 1)
    while data[end + 1 : end + 2] == b'"' and end > 0:
        end = data.find(b'"', end + 2)
    if end < 0:
        raise TableError("broken CSV: a quote is opened here and never closed", line)
    field = data[position + 1 : end]
    return field.replace(b'""', b'"') if b'"' in field else field, end + 1


def _parquet_rows(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file. What its footer says of sizes may be false: what really comes out is counted.

    Texts are read as dictionaries, so that one of megabytes that stands in every row is in memory once.
    """
    pa, pq = need("pyarrow", "a Parquet file"), need("pyarrow.parquet", "a Parquet file")
    try:
        with open_file(path) as stream, pq.ParquetFile(stream, page_checksum_verification=True) as first:
            schema, metadata = first.schema_arrow, first.metadata
            if metadata.num_rows > MAX_ROWS or metadata.num_row_groups > MAX_ROW_GROUPS:
                raise TableError(f"{metadata.num_rows:,} rows in {metadata.num_row_groups:,} groups; too many")
            texts = _refuse_odd_columns(schema)
            yield Row(0, 0, tuple(schema.names))
            _refuse_other_counts(metadata)
            with pq.ParquetFile(
                stream, metadata=metadata, read_dictionary=texts, page_checksum_verification=True
            ) as file:
                yield from _counted_rows(file)
    except DataError as error:
        raise TableError(error.what) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        why = re.sub(r"[^ -~]", "?", (str(error).splitlines() or [""])[0][:200])  # it quotes bytes of the file
        raise TableError(f"broken Parquet file ({why})") from None


def _refuse_other_counts(metadata: Any) -> None:
    """The footer tells the number of rows twice; readers believe one or the other.

    Arrow aborts the process where it is asked about a column whose histograms are false: they are not asked for.
    """
    rows = sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise TableError(f"broken Parquet file ({metadata.num_rows:,} rows, but {rows:,} in its groups)")


def _counted_rows(file: Any) -> Iterator[Row]:
    number = unpacked = rows = 0
    for group in range(file.metadata.num_row_groups):
        _refuse_large_pages(file, group)
        rows += file.metadata.row_group(group).num_rows
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS, row_groups=[group]):
            for cells in zip(*map(_column_texts, batch.columns), strict=True):
                number += 1
                unpacked += sum(len(cell) for cell in cells if cell)
                if unpacked > MAX_FILE_BYTES:
                    raise TableError(f"more than {MAX_FILE_BYTES:,} bytes unpacked; too large to be read")
                yield Row(0, number, cells)
        if number != rows:
            raise TableError(f"broken Parquet file ({number:,} rows where the footer tells of {rows:,})")


def _refuse_large_pages(file: Any, group: int) -> None:
    """Unpack the first page of each column by itself: together they may not take more than a table may."""
    memory = need("pyarrow", "a Parquet file").total_allocated_bytes
    before, most = memory(), 0
    for column in file.schema_arrow.names:
        for _ in file.iter_batches(batch_size=1, row_groups=[group], columns=[column]):
            most += memory() - before
            break
        if most > MAX_FILE_BYTES:
            raise TableError(f"its columns unpack to more than {MAX_FILE_BYTES:,} bytes; too large to be read")


def _column_texts(column: Any) -> list[str | None]:
    """A column's cells as text; equal texts of a dictionary are one object. Arrow does not check its indices."""
    if not hasattr(column, "dictionary"):
        return [_as_text(value) for value in column.to_pylist()]
    texts, indices = [_as_text(value) for value in column.dictionary.to_pylist()], column.indices.to_pylist()
    if any(index is not None and not 0 <= index < len(texts) for index in indices):
        raise TableError("broken Parquet file (a cell names a text that its dictionary does not have)")
    return [None if index is None else texts[index] for index in indices]


def _refuse_odd_columns(schema: Any) -> list[str]:
    """Text and numbers are read; dates, lists and the rest have no text of their own. Gives the columns of text."""
    kinds = need("pyarrow.types", "a Parquet file")

    if len(schema) > MAX_FIELDS:
        raise TableError(f"more than {MAX_FIELDS:,} columns")
    texts = []
    for column in schema:
        kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
        readable = (
            kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind) or kinds.is_null(kind)
        )
        if not (readable or kinds.is_integer(kind) or kinds.is_floating(kind)):
            raise TableError(f"column {column.name[:40]!a} is of type {column.type}; expected text or numbers")
        if readable and not kinds.is_null(kind):
            texts.append(column.name)
    return texts


def _as_text(value: object) -> str | None:
    """Text as it is, numbers as Python writes them; a null has no text."""
    return value if value is None or isinstance(value, str) else repr(value)
