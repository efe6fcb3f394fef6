"""The gate: how every file from outside is opened, on this machine or on a server. Regular files alone; nothing waits.

Links are followed. A named pipe would wait for ever, a device may never end. So each is refused by name before it is
opened, and looked at again once it is open, for what a name means can change between the two. An address is a path like
any other; what servers need beside that is asked for here: parts that are announced, and files that are read side by
side.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from handlens.errors import DataError
from handlens.io.remote.facts import RemoteStream
from handlens.io.remote.path import RemotePath, place

__all__ = [
    "MAX_TEXT_BYTES",
    "RemotePath",
    "announce",
    "file_size",
    "is_there",
    "list_folder",
    "open_file",
    "place",
    "read_bytes",
    "read_if_there",
    "read_text",
    "refuse_other",
    "refuse_parts",
    "side_by_side",
    "status_of",
    "threads_for",
    "unreadable",
    "walk",
    "warm",
    "whole_path",
]

if TYPE_CHECKING:
    from concurrent.futures import Executor

Item = TypeVar("Item")

MAX_TEXT_BYTES = 16 * 2**20
"""Largest text that is read whole where a caller names no other bound: plans and decisions have some kilobytes."""

_SPARE_PARTS, _BYTES_A_PART = 100_000, 1024
"""Chunks or segments that a file may have at any size, and one more for so many bytes: each costs time and memory, even
an empty one. Programs write pixels in chunks of 4 kB and more."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def open_file(path: Path) -> BufferedReader:
    """A regular file, open for reading; DataError at once where it is anything else, or cannot be opened."""
    if isinstance(path, RemotePath):
        from handlens.io.remote import reading

        return reading.open_file(path)
    try:
        refuse_other(path, os.stat(path))
        return open(path, "rb", opener=_open_without_waiting)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:  # a name with a zero byte in it
        raise DataError(f"cannot be read ({error})", file=path) from None


def read_bytes(path: Path, *, most: int) -> bytes:
    """The whole content; DataError where there are more bytes than `most`."""
    if isinstance(path, RemotePath):
        content = read_if_there(path, most=most)
        if content is None:
            raise DataError(f"no such file on {path.host}: check the address", file=path)
        return content
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise DataError(f"{size:,} bytes; at most {most:,} are read", file=path)
        try:
            return stream.read(size)
        except OSError as error:
            raise unreadable(path, error) from None


def read_if_there(path: Path, *, most: int) -> bytes | None:
    """The same; None where there is no file of this name. Of a server it is asked for once, without looking first."""
    if isinstance(path, RemotePath):
        from handlens.io.remote import reading

        return reading.read_whole(path, most=most)
    return read_bytes(path, most=most) if os.path.lexists(path) else None


def read_text(path: Path, *, most: int = MAX_TEXT_BYTES) -> str:
    """The whole content as UTF-8; bytes that are none become question marks."""
    return read_bytes(path, most=most).decode("utf-8", "replace")


def file_size(path: Path) -> int:
    """Bytes of a regular file that is not empty."""
    try:
        found = path.stat()
        refuse_other(path, found)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise DataError(f"cannot be read ({error})", file=path) from None
    if not found.st_size:
        raise DataError("the file is empty: copy it again", file=path)
    return found.st_size


def is_there(path: Path) -> bool:
    """Whether there is anything but a folder of this name, be it a pipe or a broken link: then opening it says so.

    Where `Path.is_file` would be asked about a file from outside, a pipe would count as absent, in silence.
    """
    if isinstance(path, RemotePath):
        return path.is_file()
    return os.path.lexists(path) and not os.path.isdir(path)


def status_of(stream: Any) -> tuple[int, int]:
    """Bytes of an open file, and the time of its last change in nanoseconds, 0 where a server does not tell."""
    if isinstance(stream, BufferedReader) and isinstance(stream.raw, RemoteStream):
        return stream.raw.facts.size, int(stream.raw.facts.modified * 10**9)
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns


def announce(path: Path, parts: Sequence[tuple[int, int]]) -> None:
    """These bytes of a file, from and to, are read next: from a server they come together."""
    if isinstance(path, RemotePath):
        from handlens.io.remote import reading

        facts = reading.look(path)
        if facts is not None:
            reading.read_parts(path, facts, parts)


def threads_for(path: Path) -> Executor | None:
    """Threads that read files of a server at the same time; None where reading does not wait for a network."""
    if not isinstance(path, RemotePath):
        return None
    from handlens.io.remote import reading

    return reading.askers()


def side_by_side(work: Callable[[Item], object], items: Iterable[Item], paths: Sequence[Path]) -> None:
    """Do the work of every item: where the files lie on a server, many at a time, for each is waited for."""
    if not any(isinstance(path, RemotePath) for path in paths):
        for item in items:
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    from handlens.io.remote.reading import AT_ONCE

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in threads.map(work, items):
            pass


def warm(paths: Sequence[Path]) -> None:
    """The starts of many files are read next, one after the other: from a server they come together."""
    far = [path for path in paths if isinstance(path, RemotePath)]
    if far:
        from handlens.io.remote import reading

        reading.warm(far)


def list_folder(folder: Path) -> list[tuple[str, bool]]:
    """Names in a folder, sorted, and whether each is a folder, or a link to one. OSError where it cannot be listed."""
    if isinstance(folder, RemotePath):
        return folder.entries()
    with os.scandir(folder) as entries:
        return sorted((entry.name, os.path.isdir(entry)) for entry in entries)


def walk(folder: Path, *, failed: Callable[[OSError], object]) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As `os.walk`: a folder, the folders in it, which may be taken out, and the files."""
    if isinstance(folder, RemotePath):
        yield from folder.levels()
        return
    for place_, below, names in os.walk(folder, onerror=failed):
        yield Path(place_), below, names


def whole_path(path: Path) -> Path:
    """The path from the root on, without `.` and `..`; a link keeps its name."""
    return path if isinstance(path, RemotePath) else Path(os.path.abspath(path))


def refuse_other(path: Path, found: os.stat_result) -> None:
    """DataError for what is no regular file."""
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        remedy = "name a file in it" if kind == "a folder" else "write it to a file first"
        raise DataError(f"{kind}, not a regular file: {remedy}", file=path)


def unreadable(path: Path, error: OSError) -> DataError:
    """What the system said, in one line."""
    if isinstance(error, FileNotFoundError):
        return DataError("no such file", file=path)
    return DataError(f"cannot be read ({error.strerror or error})", file=path)


def _open_without_waiting(name: str, flags: int) -> int:
    handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        refuse_other(Path(name), os.fstat(handle))
    except DataError:
        os.close(handle)
        raise
    return handle


def refuse_parts(number: int, size: int, what: str, path: Path) -> None:
    """DataError where a file of this size has so many parts that no program wrote it."""
    if number > _SPARE_PARTS + size // _BYTES_A_PART:
        raise DataError(f"more than {number - 1:,} {what} in {size:,} bytes: save it again", file=path)
