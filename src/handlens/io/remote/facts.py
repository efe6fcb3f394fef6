"""What a server tells of a file, what goes wrong with servers, and what every kind of server can be asked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from handlens.io.remote.path import RemotePath


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Of a file: bytes, seconds since 1970 and a tag that changes with its content, as far as they are told."""

    size: int = 0
    modified: float = 0.0
    tag: str = ""
    folder: bool = False


FOLDER = FileFacts(folder=True)


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes of a file as they come: those that were asked for, or the whole of it, where a server knows no parts."""

    facts: FileFacts
    whole: bool
    parts: Iterator[bytes]


class RemoteStream(io.RawIOBase):
    """An open file of a server, which knows what was told of it."""

    facts: FileFacts


class Transient(Exception):  # noqa: N818 - no error yet: it is tried again
    """What may go well the next time; `wait` are the seconds that the server asks for."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class Server(Protocol):
    """One kind of server. Each call may raise Transient, and DataError where trying again is of no use."""

    def look(self, path: RemotePath) -> FileFacts | None:
        """None where there is nothing."""

    def read(self, path: RemotePath, start: int, end: int | None) -> AbstractContextManager[Body | None]:
        """The bytes from `start` to `end`, the latter excluded; None where there is nothing."""

    def entries(self, path: RemotePath) -> list[tuple[str, FileFacts | None]]:
        """What lies in a folder, in any order; None where nothing more is told of a file."""

    def write(self, path: RemotePath, file: Path) -> None:
        """Put a file of this machine there."""
