"""The gate: how every file from outside is opened. Regular files alone, links to them followed; nothing waits.

A named pipe would wait for ever, a device may never end. So each is refused by name before it is opened, and looked at
again once it is open, for what a name means can change between the two.
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from handlens.errors import DataError

MAX_TEXT_BYTES = 16 * 2**20
"""Largest text that is read whole where a caller names no other bound: plans and decisions have some kilobytes."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def open_file(path: Path) -> BufferedReader:
    """A regular file, open for reading; DataError at once where it is anything else, or cannot be opened."""
    try:
        refuse_other(path, os.stat(path))
        return open(path, "rb", opener=_open_without_waiting)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:  # a name with a zero byte in it
        raise DataError(f"cannot be read ({error})", file=path) from None


def read_bytes(path: Path, *, most: int) -> bytes:
    """The whole content; DataError where there are more bytes than `most`."""
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise DataError(f"{size:,} bytes; at most {most:,} are read", file=path)
        try:
            return stream.read(size)
        except OSError as error:
            raise unreadable(path, error) from None


def read_text(path: Path, *, most: int = MAX_TEXT_BYTES) -> str:
    """The whole content as UTF-8; bytes that are none become question marks."""
    return read_bytes(path, most=most).decode("utf-8", "replace")


def file_size(path: Path) -> int:
    """Bytes of a regular file that is not empty."""
    try:
        found = os.stat(path)
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
    return os.path.lexists(path) and not os.path.isdir(path)


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
