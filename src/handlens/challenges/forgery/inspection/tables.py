"""What was found in many figures as tables to query: Parquet files of figures and of matches, shard after shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from handlens.challenges.forgery.inspection.words import Record
from handlens.io.extras import need
from handlens.io.files import replacing

FOLDER = "findings"
SHARD = 100_000
"""Rows of a file: some megabytes, read in one go by every program."""

FIGURES = {
    **dict.fromkeys(("figure", "folder", "file", "sha256", "verdict", "error"), "string"),
    **dict.fromkeys(("page", "height", "width", "groups", "doubtful"), "int32"),
    **dict.fromkeys(("probability", "seconds"), "double"),
}
MATCHES = {
    **dict.fromkeys(("figure", "folder", "sha256", "group", "source", "copy", "transform", "tier"), "string"),
    **dict.fromkeys(("counted", "mirrored"), "bool"),
    **dict.fromkeys(("group_probability", "probability", "turn_degrees", "scale", "moved_x", "moved_y"), "double"),
}


def refuse_missing() -> None:
    """HandlensError where the library is not there: before hours of work."""
    need("pyarrow", "--parquet")


def write_tables(out: Path, records: Sequence[Record]) -> None:
    """`findings/figures-00000.parquet`, one row a figure, and `findings/matches-00000.parquet`, one row a match."""
    _write(out / FOLDER, "figures", FIGURES, map(_figure, records))
    _write(out / FOLDER, "matches", MATCHES, (row for record in records for row in _matches(record)))


def _figure(record: Record) -> Record:
    counts = {name: len(record[name]) if name in record else None for name in ("groups", "doubtful")}
    return {**{name: record.get(name) for name in FIGURES}, **counts}


def _matches(record: Record) -> Iterator[Record]:
    for kind in ("groups", "doubtful"):
        for group in record.get(kind, ()):
            for match in group["matches"]:
                yield {
                    **{name: record.get(name, match.get(name)) for name in MATCHES},
                    "group": group["name"],
                    "group_probability": group["probability"],
                    "probability": match["probability"],
                    "counted": kind == "groups",
                    "moved_x": match["moved"][0],
                    "moved_y": match["moved"][1],
                }


def _write(folder: Path, name: str, columns: dict[str, str], rows: Iterator[Record]) -> None:
    pyarrow: Any = need("pyarrow", "--parquet")
    parquet: Any = need("pyarrow.parquet", "--parquet")
    types = {"string": pyarrow.string(), "int32": pyarrow.int32(), "double": pyarrow.float64(), "bool": pyarrow.bool_()}
    schema = pyarrow.schema([(column, types[kind]) for column, kind in columns.items()])
    number = 0
    while (some := list(islice(rows, SHARD))) or not number:
        with replacing(folder / f"{name}-{number:05d}.parquet") as temporary:
            parquet.write_table(pyarrow.Table.from_pylist(some, schema=schema), temporary)
        number += 1
    for path in folder.glob(f"{name}-*.parquet"):  # of an earlier run that had more
        if int(path.stem.rpartition("-")[2]) >= number:
            path.unlink()
