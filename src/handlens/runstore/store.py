"""What a run leaves in its folder: answers as they come, so that a stopped one can go on; facts of a training."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from handlens.errors import DataError
from handlens.inference.session import is_model, read_plan
from handlens.io.files import write_text

JOURNAL = "answers.jsonl"
ORDER = "order.json"
"""What a training was told: challenge, data folder, settings; written first, so that it can go on."""

RUN = "run.json"
"""What a training was told and what came of it; written last, so a run that has it is whole."""


class Journal:
    """Answered cases in a file of JSON lines: a key first, then `[id, cell, ...]` for each case, each on disk at once.

    A file with another key (other data, other recipe) is begun anew; a line that was cut off by a kill is dropped.
    Nothing is written before the first answer.
    """

    def __init__(self, folder: Path, key: str, name: str = JOURNAL) -> None:
        self.path = folder / name
        self.key = key
        self.done = _read_done(self.path, key)
        self._stream: IO[str] | None = None

    def add(self, id: str, cells: Iterable[str]) -> None:
        """Keep one answer; it is on disk when this returns."""
        if self._stream is None:
            lines = [{"key": self.key}, *([known, *texts] for known, texts in self.done.items())]
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))
            self._stream = self.path.open("a", encoding="utf-8")
        self.done[id] = tuple(cells)
        self._stream.write(json.dumps([id, *self.done[id]]) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def remove(self) -> None:
        """Forget it all, once the submission is written."""
        self.close()
        self.path.unlink(missing_ok=True)


def fingerprint(words: Iterable[str], folder: Path, *, without: Path) -> str:
    """A key that changes with any of the words, and with the name, size or time of any file in the folder.

    `folder` may be a single file. `without` is left out: the run's own folder may lie inside.
    """
    digest = hashlib.sha256("\n".join(words).encode())
    if folder.is_file():
        status = folder.stat()
        digest.update(f"{folder.name} {status.st_size} {status.st_mtime_ns}\n".encode(errors="replace"))
    seen = {without.resolve()}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if Path(place, name).resolve() not in seen)
        seen |= {Path(place, name).resolve() for name in folders}  # links may go in circles
        for name in sorted(names):
            path = Path(place, name)
            status = path.stat() if path.exists() else path.lstat()
            digest.update(
                f"{path.relative_to(folder)} {status.st_size} {status.st_mtime_ns}\n".encode(errors="replace")
            )
    return digest.hexdigest()


def read_run(folder: Path) -> dict[str, Any]:
    """The facts of a finished training."""
    try:
        page = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        what = f"no {RUN} in it: name a folder that `handlens train` wrote to the end"
        raise DataError(what, file=folder) from None
    except ValueError:
        page = None
    if not isinstance(page, dict) or not isinstance(page.get("challenge"), str):
        raise DataError("damaged: train again", file=folder / RUN)
    return page


def read_order(folder: Path) -> dict[str, Any]:
    """What a training was told: `challenge`, `folder`, `settings`, and `data`, the fingerprint of all that."""
    try:
        page = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"no {ORDER} in it: name a folder that `handlens train` began", file=folder) from None
    except ValueError:
        page = None
    expected = {"challenge": str, "folder": str, "settings": dict, "data": str}
    if not isinstance(page, dict) or any(not isinstance(page.get(name), kind) for name, kind in expected.items()):
        raise DataError("damaged: train again in a new folder", file=folder / ORDER)
    return page


def challenge_of(folder: Path) -> str:
    """The challenge that a run is about; a training that was stopped early may have left a model and its plan alone."""
    if not (folder / RUN).exists() and is_model(folder):
        return read_plan(folder).challenge
    return str(read_run(folder)["challenge"])


def _read_done(path: Path, key: str) -> dict[str, tuple[str, ...]]:
    """Answers of the file up to the first line that is damaged; none where the key is another."""
    done: dict[str, tuple[str, ...]] = {}
    if not path.is_file():
        return done
    first, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) or [""]
    if _read_line(first) != {"key": key}:
        return done
    for text in lines:
        row = _read_line(text)
        if not (isinstance(row, list) and row and all(isinstance(cell, str) for cell in row)):
            break
        done[row[0]] = tuple(row[1:])
    return done


def _read_line(text: str) -> object:
    try:
        return json.loads(text) if text.endswith("\n") else None
    except ValueError:
        return None
