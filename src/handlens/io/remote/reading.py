"""Parts of files on servers: what is known is not asked for again, and what failed is, with growing pauses."""

from __future__ import annotations

import io
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from handlens.errors import DataError
from handlens.io.remote.facts import Body, FileFacts, RemoteStream, Server, Transient
from handlens.io.remote.path import RemotePath
from handlens.io.remote.ring import ring

Result = TypeVar("Result")

TRIES = 6
"""Tries of one thing, before an error; counted from zero again whenever bytes came that had not come before."""

FIRST_WAIT, LONGEST_WAIT, ASKED_WAIT = 0.25, 8.0, 60.0
"""Seconds before it is tried again, doubled each time, and the most that a server's own wish is followed."""

BLOCK = 1 << 14
"""Bytes that are asked for at the least: headers are read in small pieces."""

AHEAD_MOST = 1 << 22
"""Bytes that are read ahead at the most, where one part after the other is read."""

PIECE = 1 << 23
"""Bytes of one request at the most where several are made at a time."""

AT_ONCE = 16
"""Requests at a time: a server far away needs 0.1 s for each, however small."""

KNOWN_SECONDS = 60.0
"""How long what a server told of a file is believed."""

KNOWN_MOST = 100_000

LARGEST_WHOLE = 1 << 31
"""Bytes of a file that is read whole from a server that does not send parts."""


# --- asking -----------------------------------------------------------------------------------------------------------


def server_of(path: RemotePath) -> Server:
    return _server("http" if path.scheme in ("http", "https") else "object")


@lru_cache(maxsize=2)
def _server(kind: str) -> Server:
    if kind == "http":
        from handlens.io.remote.http import HttpServer

        return HttpServer()
    from handlens.io.remote.objects import ObjectServer

    return ObjectServer()


class _Patience:
    """Counts failures, waits after each, and says in the end what to do."""

    def __init__(self, path: RemotePath) -> None:
        self.path, self.failed = path, 0

    def bear(self, failure: Transient) -> None:
        self.failed += 1
        if self.failed >= TRIES:
            what = f"{self.path.host} failed {self.failed} times, the last time with: {failure}"
            raise DataError(f"{what}: try again later, or copy the data to this machine", file=self.path) from None
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (self.failed - 1)) * random.uniform(0.5, 1.0)
        time.sleep(max(wait, min(failure.wait, ASKED_WAIT)))


def persist(path: RemotePath, ask: Callable[[], Result]) -> Result:
    """What it gives, tried again while it fails in ways that pass."""
    patience = _Patience(path)
    while True:
        try:
            return ask()
        except Transient as failure:
            patience.bear(failure)


_looked: OrderedDict[str, tuple[float, FileFacts | None]] = OrderedDict()
_looking = threading.Lock()


def look(path: RemotePath) -> FileFacts | None:
    """What the server tells of a file or folder; None where there is nothing."""
    with _looking:
        known = _looked.get(path.asked)
    if known is not None and time.monotonic() - known[0] < KNOWN_SECONDS:
        return known[1]
    return _note(path, persist(path, partial(server_of(path).look, path)))


def _note(path: RemotePath, facts: FileFacts | None) -> FileFacts | None:
    with _looking:
        _looked[path.asked] = time.monotonic(), facts
        _looked.move_to_end(path.asked)
        while len(_looked) > KNOWN_MOST:
            _looked.popitem(last=False)
    return facts


def entries(path: RemotePath) -> list[tuple[str, bool]]:
    """Names in a folder, sorted, and whether each is a folder."""
    found = persist(path, partial(server_of(path).entries, path))
    for name, facts in found:
        if facts is not None:
            _note(path / name, facts)
    return sorted((name, facts is not None and facts.folder) for name, facts in found)


def write(path: RemotePath, file: Path) -> None:
    """Put a file of this machine on the server."""
    persist(path, partial(server_of(path).write, path, file))
    with _looking:
        _looked.pop(path.asked, None)


def _fetch(
    path: RemotePath, start: int, end: int | None, facts: FileFacts | None, most: int
) -> tuple[FileFacts, int, bytes]:
    """The bytes from `start` to `end`, and where they begin: at 0 where the server sends whole files alone.

    A connection that breaks is taken up where it broke. `facts` is what was told before: another file is refused.
    FileNotFoundError where there is nothing.
    """
    server, patience, got = server_of(path), _Patience(path), bytearray()
    first = reached = start
    while True:
        try:
            with server.read(path, first + len(got), end) as body:
                if body is None:
                    break
                _refuse_other(path, facts, body)
                facts = body.facts
                if body.whole:
                    got, first, most = bytearray(), 0, most if end is None else LARGEST_WHOLE
                    end = None
                if end is None and facts.size - first > most:
                    raise DataError(f"{facts.size:,} bytes; at most {most:,} are read", file=path)
                expected = (facts.size if end is None else min(end, facts.size)) - first
                for part in body.parts:
                    got += part
                    if len(got) > expected:
                        raise DataError(f"{path.host} sent more than was asked for: try again later", file=path)
                    if first + len(got) > reached:  # a server that begins anew each time gets no further
                        reached, patience.failed = first + len(got), 0
            if len(got) < expected:
                raise Transient("the connection ended before the file did")
            return facts, first, bytes(got)
        except Transient as failure:
            patience.bear(failure)
    raise FileNotFoundError(2, "no such file", str(path))


def _refuse_other(path: RemotePath, before: FileFacts | None, body: Body) -> None:
    now = body.facts
    if before is not None and (before.size, before.tag) != (now.size, now.tag):
        with _looking:
            _looked.pop(path.asked, None)
        raise DataError("changed on the server while it was read: start again", file=path)


# --- reading ----------------------------------------------------------------------------------------------------------

_locks = [threading.Lock() for _ in range(64)]


@contextmanager
def _alone(path: RemotePath) -> Iterator[None]:
    """One thread at a time asks for parts of a file, so that none comes twice."""
    with _locks[hash(path.asked) % len(_locks)]:
        yield


@lru_cache(maxsize=1)
def askers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="handlens-read")


@lru_cache(maxsize=1)
def _fetchers() -> ThreadPoolExecutor:
    """Others than `askers`, whose tasks wait for pieces of files: what they wait for must not wait behind them."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="handlens-fetch")


def read_part(path: RemotePath, facts: FileFacts, start: int, end: int) -> bytes:
    """These bytes of a file, from what is kept and from the server."""
    end = min(end, facts.size)
    if start >= end:
        return b""
    with _alone(path):
        return _assemble(path, facts, start, end)


def _assemble(path: RemotePath, facts: FileFacts, start: int, end: int) -> bytes:
    key = (path.asked, facts.tag, facts.size)
    kept, fetched = ring(), list[tuple[int, bytes]]()

    def find(at: int) -> bytes:
        here = (data[at - first : end - first] for first, data in fetched if first <= at < first + len(data))
        return next(here, b"") or kept.find(key, at, end - at)

    for low, high in kept.gaps(key, start, end):
        if any(first <= low and high <= first + len(data) for first, data in fetched):
            continue  # a whole file came before
        first, data = _fetch(path, low, high, facts, PIECE * 1024)[1:]
        kept.keep(key, first, data)
        fetched.append((first, data))
    answer, at = bytearray(), start
    while at < end:
        part = find(at)
        if not part:  # it made room for what came after it
            first, data = _fetch(path, at, end, facts, PIECE * 1024)[1:]
            part = data[at - first : end - first]
        answer += part
        at += len(part)
    return bytes(answer)


def read_parts(path: RemotePath, facts: FileFacts, parts: Iterable[tuple[int, int]]) -> None:
    """Fetch these parts at the same time, neighbours together; they are kept until they are read."""
    key = (path.asked, facts.tag, facts.size)
    with _alone(path):
        wanted = [gap for low, high in _joined(parts) for gap in ring().gaps(key, low, min(high, facts.size))]
        pieces = [(at, min(at + PIECE, high)) for low, high in wanted for at in range(low, high, PIECE)]

        def fetch(piece: tuple[int, int]) -> None:
            _, first, data = _fetch(path, *piece, facts, PIECE * 1024)
            ring().keep(key, first, data)

        if len(pieces) == 1:
            fetch(pieces[0])
        elif pieces:
            list(_fetchers().map(fetch, pieces))


def _joined(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """
    >>> _joined([(10, 20), (0, 10), (30, 40)])
    [(0, 20), (30, 40)]
    """
    joined: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined


def read_whole(path: RemotePath, *, most: int) -> bytes | None:
    """A whole file in one request; None where there is none. DataError where it has more than `most` bytes."""
    with _looking:
        told, facts = _looked.get(path.asked, (float("-inf"), None))
    if time.monotonic() - told < KNOWN_SECONDS:
        if facts is None:
            return None
        if facts.folder:
            raise DataError("a folder, not a regular file: name a file in it", file=path)
        if facts.size > most:
            raise DataError(f"{facts.size:,} bytes; at most {most:,} are read", file=path)
        return read_part(path, facts, 0, facts.size)
    with _alone(path):
        try:
            found, _, data = _fetch(path, 0, None, None, most)
        except FileNotFoundError:
            _note(path, None)
            return None
        _note(path, found)
        ring().keep((path.asked, found.tag, found.size), 0, data)
        return data


class RemoteFile(RemoteStream):
    """A file on a server, open for reading. What is read one after the other is read ahead, further and further."""

    def __init__(self, path: RemotePath, facts: FileFacts) -> None:
        self.path, self.facts = path, facts
        self.at, self.came, self.ahead = 0, -1, BLOCK

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.facts.size}[whence]
        self.at = max(0, start + offset)
        return self.at

    def readinto(self, buffer: Any) -> int:
        end = min(self.at + len(buffer), self.facts.size)
        if self.at >= end:
            return 0
        key = (self.path.asked, self.facts.tag, self.facts.size)
        data = ring().find(key, self.at, end - self.at)
        if not data:
            self.ahead = min(2 * self.ahead, AHEAD_MOST) if self.at == self.came else BLOCK
            until = min(max(end, self.at + self.ahead), self.facts.size)
            until = self.facts.size if self.facts.size - until < BLOCK else until
            data = read_part(self.path, self.facts, self.at, until)
            self.came = until
        taken = min(len(data), end - self.at)
        buffer[:taken] = data[:taken]
        self.at += taken
        return taken


def open_file(path: RemotePath) -> io.BufferedReader:
    """A file, open for reading; DataError where there is none."""
    facts = look(path)
    if facts is None:
        raise DataError(f"no such file on {path.host}: check the address", file=path)
    if facts.folder:
        raise DataError("a folder, not a regular file: name a file in it", file=path)
    return io.BufferedReader(RemoteFile(path, facts))


def warm(paths: Sequence[RemotePath]) -> None:
    """Look at many files at the same time, and read their first bytes; what goes wrong is told when they are read."""

    def touch(path: RemotePath) -> None:
        try:
            with open_file(path) as stream:
                stream.read(1)
        except DataError:
            return

    if len(paths) > 1:
        list(askers().map(touch, paths))
