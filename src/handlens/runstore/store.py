"""One folder of one run: its fingerprint, lock, manifest, journals and checkpoints. The only place that resumes.

`run.json` is written when a run begins and again, with `finished`, when it ends: a folder whose manifest says so is
whole. Until then journals and checkpoints lie beside it; a run with the same fingerprint finds them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from handlens.errors import DataError
from handlens.io.files import named_full_disk, named_place, replacing, sweep, write_text
from handlens.io.gate import RemotePath, is_there, read_text

if TYPE_CHECKING:
    import numpy.typing as npt

MANIFEST = "run.json"
LOCK = ".lock"
UNFINISHED = "unfinished"
"""Sub-folder for journals and checkpoints of a run at work; gone when it has finished."""


@dataclass(frozen=True, slots=True)
class RunStore:
    """A run's folder, locked. `resumed` says whether an unfinished run of the same fingerprint lay there."""

    folder: Path
    fingerprint: str
    about: Mapping[str, Any]
    resumed: bool

    def journal(self, name: str = "answers") -> Journal:
        """Rows of text by id, each on disk as soon as it is added."""
        return Journal(self.folder / UNFINISHED / f"{name}.jsonl")

    def arrays(self, name: str) -> ArrayFolder:
        """Checkpoints of one case or stage: arrays by name."""
        return ArrayFolder(self.folder / UNFINISHED / _safe(name))

    def finish(self, results: Mapping[str, Any] | None = None) -> None:
        """Write that the run is whole, then remove what was kept to resume it."""
        write_manifest(self.folder, {**self.about, **(results or {})}, self.fingerprint, finished=True)
        shutil.rmtree(self.folder / UNFINISHED, ignore_errors=True)


@contextmanager
def open_store(
    folder: Path,
    fingerprint: str,
    about: Mapping[str, Any],
    *,
    results: Sequence[str] = (),
    reads: Iterable[Path] = (),
    overwrite: bool = False,
    again: bool = True,
) -> Iterator[RunStore]:
    """The folder of a run, made or found, locked while the block runs.

    A folder of another run (other data, settings, model or version) is refused unless `overwrite` is set; then what
    it kept to resume is removed, and its results are replaced as the new ones are written. A finished run of the same
    fingerprint is done `again`, or refused. `results` are names of files that a run writes: where they are in a folder
    without a run, they are somebody else's, and the folder is refused too. So is one that holds a file that the run
    `reads`: results would stand among a person's own files, and be read as such the next time. `about` goes into the
    manifest, for people and for `--resume`.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError("this is a file: name a folder", file=folder)
    _refuse_folder_of_inputs(folder, reads)
    _refuse_finished_or_other(folder, fingerprint, overwrite=overwrite, again=again)
    if not overwrite:
        _refuse_files_of_others(folder, results)
    before = set(os.listdir(folder)) if folder.exists() else None
    with named_place(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        _sweep_all(folder)
        _refuse_finished_or_other(folder, fingerprint, overwrite=overwrite, again=again)  # it may have come meanwhile
        earlier = _earlier_manifest(folder, overwrite=overwrite)
        resumed = earlier is not None and earlier["fingerprint"] == fingerprint and not earlier["finished"]
        if not resumed:
            shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
            write_manifest(folder, about, fingerprint, finished=False)
        try:
            yield RunStore(folder, fingerprint, about, resumed)
        except Exception:  # not Ctrl-C: what was begun is resumed
            _forget(folder, before)
            raise


def _sweep_all(folder: Path) -> None:
    """Remove what writers left that were killed; the folder is ours alone now."""
    for place, _, _ in os.walk(folder):
        sweep(Path(place))


def _refuse_finished_or_other(folder: Path, fingerprint: str, *, overwrite: bool, again: bool) -> None:
    earlier = _earlier_manifest(folder, overwrite=overwrite)
    if earlier is None:
        return
    same = earlier["fingerprint"] == fingerprint
    if same and earlier["finished"] and not again:
        raise DataError("this run is finished: name a new folder, or remove it first", file=folder)
    if not same and not overwrite and (earlier["finished"] or not _is_bare(folder)):
        state = "holds the results of" if earlier["finished"] else "was begun by"
        what = f"{state} another run (other data, settings, model or version of handlens)"
        remedy = "or pass --overwrite" if again else "or handlens train --resume, which keeps the settings of that run"
        raise DataError(f"{what}: name a new folder, {remedy}", file=folder)


def _refuse_folder_of_inputs(folder: Path, reads: Iterable[Path]) -> None:
    """Results go elsewhere than where the files lie that they are made of; `overwrite` does not change that."""
    ours = folder.resolve()
    resolved: dict[Path, Path] = {}
    for path in reads:
        if isinstance(path, RemotePath):
            continue
        parent = path.parent
        above = resolved[parent] if parent in resolved else resolved.setdefault(parent, parent.resolve())
        if above / path.name == ours or (above == ours and not path.is_dir()):
            what = f"{path.name or path} is read and lies here: results would stand among your files"
            raise DataError(f"{what}; name a new folder", file=folder)


def _refuse_files_of_others(folder: Path, results: Sequence[str]) -> None:
    """What no run of ours wrote is not replaced unasked."""
    if not (folder / MANIFEST).exists():
        for name in results:
            if os.path.lexists(folder / name):
                raise DataError("already there: name a new folder, or pass --overwrite", file=folder / name)


def _earlier_manifest(folder: Path, *, overwrite: bool) -> dict[str, Any] | None:
    """The manifest of an earlier run; None where there is none, or a damaged one that may be overwritten."""
    if not (folder / MANIFEST).exists():
        return None
    try:
        return read_manifest(folder)
    except DataError:
        if overwrite:
            return None
        raise


def _forget(folder: Path, before: set[str] | None) -> None:
    """Leave no trace of a run that was refused before it wrote anything, so that it can be started again.

    `before` are the names that it found in its folder; None where it made the folder.
    """
    if not _is_bare(folder, before or set()):
        return
    if before is None or MANIFEST not in before or _is_bare(folder):
        (folder / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    if before is None:
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def _is_bare(folder: Path, besides: set[str] | frozenset[str] = frozenset()) -> bool:
    """Whether a folder holds nothing that a run made, besides these names."""
    made = set(os.listdir(folder)) - {MANIFEST, LOCK, UNFINISHED} - besides
    return not made and not any((folder / UNFINISHED).rglob("*"))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. The kernel gives it back when the process dies, so a killed run leaves none behind."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there nothing is locked
        yield
        return
    path = folder / LOCK
    while True:
        with named_place(folder):
            stream = path.open("a+", encoding="utf-8")
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                stream.seek(0)
                owner = stream.read(100).strip() or "unknown"
                what = f"another handlens (process {owner}) is writing here: wait for it, or name another folder"
                raise DataError(what, file=folder) from None
            if not _is_at(stream, path):  # its owner removed it between our opening and locking it
                continue
            stream.seek(0)
            stream.truncate()
            stream.write(f"{os.getpid()}\n")
            stream.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(stream: IO[str], path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


# --- manifest -------------------------------------------------------------------------------------------------------


def write_manifest(folder: Path, about: Mapping[str, Any], fingerprint: str, *, finished: bool) -> None:
    page = {**about, "fingerprint": fingerprint, "finished": finished}
    write_text(folder / MANIFEST, json.dumps(page, indent=1, default=str) + "\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a run was started with and, where it is finished, what came of it."""
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    if not is_there(folder / MANIFEST):
        raise DataError(f"no {MANIFEST} in it: name a folder that handlens wrote", file=folder)
    try:
        page = json.loads(read_text(folder / MANIFEST))
    except (ValueError, RecursionError):
        page = None
    expected = {"fingerprint": str, "finished": bool}
    if not isinstance(page, dict) or any(not isinstance(page.get(name), kind) for name, kind in expected.items()):
        raise DataError("damaged, or of another version: start again in a new folder", file=folder / MANIFEST)
    return page


def fingerprint_of(words: Iterable[str], folder: Path, *, without: Path, times: bool = True) -> str:
    """A key that changes with any of the words, and with the name, size or time of any file in the folder.

    `folder` may be a single file. A folder on a server is known by its address alone: listing it may take hours.
    `without` is left out: the run's own folder may lie inside. Without `times` a copy of
    the folder has the same key.
    """
    digest = hashlib.sha256("\n".join(words).encode())
    if folder.is_file():
        status = folder.stat()
        digest.update(_line(folder.name, status, times))
    if isinstance(folder, RemotePath):
        digest.update(str(folder).encode())
        return digest.hexdigest()
    seen = {without.resolve()}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if Path(place, name).resolve() not in seen)
        seen |= {Path(place, name).resolve() for name in folders}  # links may go in circles
        for name in sorted(names):
            path = Path(place, name)
            status = path.stat() if path.exists() else path.lstat()
            digest.update(_line(str(path.relative_to(folder)), status, times))
    return digest.hexdigest()


def _line(name: str, status: os.stat_result, times: bool) -> bytes:
    return f"{name} {status.st_size} {status.st_mtime_ns if times else ''}\n".encode(errors="replace")


# --- journals and checkpoints ---------------------------------------------------------------------------------------


class Journal:
    """A file of JSON lines, `[id, cell, ...]` for each finished item, each on disk when `add` returns.

    A line that was cut off by a kill is dropped. Nothing is written before the first item.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done = _read_done(path)
        self._stream: IO[str] | None = None

    def add(self, id: str, cells: Iterable[str]) -> None:
        """Keep one item; it is on disk when this returns."""
        if self._stream is None:
            lines = [[known, *texts] for known, texts in self.done.items()]
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))
            self._stream = self.path.open("a", encoding="utf-8")
        self.done[id] = tuple(cells)
        with named_full_disk(self.path):
            self._stream.write(json.dumps([id, *self.done[id]]) + "\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


@dataclass(frozen=True, slots=True)
class ArrayFolder:
    """Arrays by name in one folder, each file whole or absent; what cannot be read counts as absent."""

    folder: Path

    def load(self, name: str, /) -> npt.NDArray[Any] | None:
        import numpy as np

        try:
            array: npt.NDArray[Any] = np.load(self._path(name), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return array

    def save(self, name: str, array: npt.NDArray[Any], /) -> None:
        import numpy as np

        with replacing(self._path(name)) as temporary:
            np.save(temporary, array)

    def has(self, name: str) -> bool:
        return self._path(name).is_file()

    def remove(self) -> None:
        """Remove all of them, and the folder above where that is empty then."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:
            return

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


def _safe(name: str) -> str:
    """A name as one path component: whatever a case is called, its checkpoints stay in the run's folder."""
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:60]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _read_done(path: Path) -> dict[str, tuple[str, ...]]:
    """Items of the file up to the first line that is damaged."""
    done: dict[str, tuple[str, ...]] = {}
    if not path.is_file():
        return done
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
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
