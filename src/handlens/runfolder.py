"""What a run leaves in its folder while it works: answers as they come, so that a stopped run can go on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from handlens.files import write_text
from handlens.types import Case

JOURNAL = "answers.jsonl"


class Journal:
    """Answered cases in a file of JSON lines: a key first, then `[id, cell, ...]` for each case, each on disk at once.

    A file with another key (other data, other recipe) is begun anew; a line that was cut off by a kill is dropped.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / JOURNAL
        self.done: dict[str, tuple[str, ...]] = {}
        lines = _whole_lines(self.path)
        if not lines or lines[0] != {"key": key}:
            lines = [{"key": key}]
        for id, *cells in lines[1:]:
            self.done[id] = tuple(cells)
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))
        self._stream = self.path.open("a", encoding="utf-8")

    def add(self, id: str, cells: Iterable[str]) -> None:
        """Keep one answer; it is on disk when this returns."""
        self.done[id] = tuple(cells)
        self._stream.write(json.dumps([id, *self.done[id]]) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()

    def remove(self) -> None:
        """Forget it all, once the submission is written."""
        self.close()
        self.path.unlink(missing_ok=True)


def fingerprint(words: Iterable[str], cases: Iterable[Case]) -> str:
    """A key that changes with any of the words, a case's id, or its file's size or time."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(f"{word}\n".encode())
    for case in cases:
        stat = case.path.stat() if case.path.exists() else None
        digest.update(
            f"{case.id} {stat and (stat.st_size, stat.st_mtime_ns)} {sorted(case.details.items())}\n".encode()
        )
    return digest.hexdigest()


def _whole_lines(path: Path) -> list[Any]:
    """JSON lines up to the first that is damaged."""
    lines: list[Any] = []
    if not path.is_file():
        return lines
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
        if not text.endswith("\n"):
            lines.pop()
    return lines
