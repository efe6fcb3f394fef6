"""Writes that are atomic: a temporary file beside the target, fsync, rename. What a killed process left is swept.

The name of what is temporary tells which process of which machine made it, so that another one sees that it is gone.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from handlens.errors import DataError, DiskFullError
from handlens.io.gate import RemotePath

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_LITTLE = 1 << 20  # bytes that are free on a disk that counts as full where a library does not say why it failed
_MARK = re.compile(r"\.tmp-([0-9a-f]{8})-([0-9]+)-")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends well, and vanishes when it does not.

    DiskFullError where there is no room for it.
    """
    _refuse_server(path)
    temporary: Path | None = None
    try:
        with named_place(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_prefix(path.name), suffix=path.suffix, dir=path.parent)
        temporary = Path(name)
        os.close(handle)
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        temporary.replace(path)
    except BaseException as error:
        full = as_full_disk(error, path, temporary)
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if full is not None:
            raise full from error
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes `path` when the block ends well. What is there already is never touched."""
    _refuse_server(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path} is already there and not empty: name a new folder, or remove it first")
    path = path.resolve()  # a folder cannot take the place of a link, nor of `.`
    with named_place(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, path.name)
        temporary = Path(tempfile.mkdtemp(prefix=_prefix(path.name), dir=path.parent))
    try:
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, DiskFullError):  # of a file in it
            full: DiskFullError | None = DiskFullError(
                path, error.written + _size(temporary), error.free, error.limited
            )
        else:
            full = as_full_disk(error, path, temporary)
        shutil.rmtree(temporary, ignore_errors=True)
        if full is not None:
            raise full from error
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder at once, if it is there: nobody sees half of it, not even where the process is killed."""
    if path.is_dir():
        temporary = Path(tempfile.mkdtemp(prefix=_prefix(path.name), dir=path.parent))
        path.replace(temporary / path.name)
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def named_place(path: Path) -> Iterator[None]:
    """Within, a place where nothing can be written is told with what to do, such as a disk that is read-only."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise
        what = f"nothing can be written here ({error.strerror or error})"
        raise DataError(f"{what}: name a place on a disk that you may write to", file=path) from None


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """An empty folder where the system keeps such, gone at the end; those of killed processes are removed first."""
    place = Path(tempfile.gettempdir())
    sweep(place, f"handlens-{purpose}")
    with tempfile.TemporaryDirectory(prefix=_prefix(f"handlens-{purpose}"), dir=place) as folder:
        yield Path(folder)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove temporary files and folders in a folder whose process is gone; with `name`, those of this name alone."""
    with suppress(OSError):
        for entry in os.listdir(folder):
            found = _MARK.search(entry)
            if found and entry.startswith("." if name is None else f".{name}.tmp-") and _is_gone(*found.groups()):
                left = folder / entry
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    with suppress(OSError):
                        left.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; parts of names that are no UTF-8 are written as escapes."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


@contextmanager
def named_full_disk(path: Path) -> Iterator[None]:
    """Within, a full disk is told with the file that was written to."""
    try:
        yield
    except OSError as error:
        full = as_full_disk(error, path, path)
        if full is None:
            raise
        raise full from error


def as_full_disk(error: BaseException, path: Path, partial: Path | None = None) -> DiskFullError | None:
    """What to say where an error means that the disk is full; None where it does not."""
    if isinstance(error, DiskFullError) or not isinstance(error, OSError):
        return None
    place = next((each for each in path.absolute().parents if each.exists()), Path("/"))
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        free = 0
    if error.errno not in (*_FULL, errno.EFBIG) and not (error.errno is None and free < _LITTLE):
        return None
    written = _size(partial) if partial is not None else 0
    return DiskFullError(path, written, free, limited=error.errno == errno.EFBIG)


def _size(path: Path) -> int:
    """Bytes of a file, or of everything in a folder."""
    with suppress(OSError):
        if not path.is_dir():
            return path.stat().st_size
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return 0


def _prefix(name: str) -> str:
    """How the name of something temporary begins; a long name is cut, for there is a limit."""
    short = os.fsdecode(os.fsencode(name)[:100])
    return f".{short}.tmp-{_machine()}-{os.getpid()}-"


def _machine() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_gone(machine: str, process: str) -> bool:
    """Whether the process of a temporary name does not run any more; one of another machine may."""
    if machine != _machine() or int(process) == os.getpid():
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def _refuse_server(path: Path) -> None:
    if isinstance(path, RemotePath):
        raise path.closed()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
