"""An address as a path: whatever takes a path takes it too, and asks it as it would ask any other.

Nothing is loaded for it before a server is asked.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PosixPath
from typing import Any
from urllib.parse import quote, unquote

from handlens.errors import DataError

SCHEMES = ("https", "http", "s3", "gs", "az")

DEEPEST = 64
"""Folders in each other at the most: a server can list one as lying in itself."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?!/)(.+)", re.DOTALL)
_FILE = re.compile(r"file:(?://(?:localhost)?)?(/.*)", re.DOTALL)
_KEPT = re.compile(r"(%(?:2F|3F|25(?=2F|3F)))", re.IGNORECASE)
_SAFE = "/-._~!$&'()*+,;=:@"
_SINGLE = re.compile(rf"^({'|'.join(SCHEMES)}):/(?!/)")


class RemotePath(PosixPath):
    """A file or folder on a server. It can be looked at, listed and read; nothing is written to it as to a disk."""

    _query: str = ""  # paths that are made of this one, such as its parent, have none

    def __str__(self) -> str:
        """Without the query: it may be a password, as in signed addresses, and this is written to reports."""
        return _SINGLE.sub(r"\1://", super().__str__())

    def __eq__(self, other: object) -> bool:
        same = super().__eq__(other)
        return same and self.query == other.query if isinstance(other, RemotePath) else same

    __hash__ = PosixPath.__hash__

    def __truediv__(self, name: str | os.PathLike[str]) -> RemotePath:
        """What lies in a folder is asked for with the folder's query, as a token is for all of it."""
        return with_query(str(super().__truediv__(name)), self.query)

    def joinpath(self, *names: str | os.PathLike[str]) -> RemotePath:
        return with_query(str(super().joinpath(*names)), self.query)

    def __reduce__(self) -> tuple[Any, ...]:
        return with_query, (str(self), self.query)

    @property
    def query(self) -> str:
        """What follows the question mark: for the request alone, never shown."""
        return self._query

    @property
    def asked(self) -> str:
        """With the query, to tell files apart in memory; never shown."""
        return f"{self}?{self.query}" if self.query else str(self)

    @property
    def scheme(self) -> str:
        return self.parts[0].removesuffix(":")

    @property
    def host(self) -> str:
        """The server, or the bucket."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """What follows the host, without a slash before it."""
        return "/".join(self.parts[2:])

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        """Size, time, and whether it is a folder. FileNotFoundError; DataError where the server does not tell."""
        from handlens.io.remote.reading import look

        facts = look(self)
        if facts is None:
            raise FileNotFoundError(2, "no such file", str(self))
        mode = stat.S_IFDIR | 0o555 if facts.folder else stat.S_IFREG | 0o444
        times = (facts.modified,) * 3
        names = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")
        exact = dict.fromkeys(names, int(facts.modified * 10**9))
        return os.stat_result((mode, 0, 0, 1, 0, 0, facts.size, *map(int, times)), exact)

    def lstat(self) -> os.stat_result:
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return self._mode() is not None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return stat.S_ISDIR(self._mode() or 0)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return stat.S_ISREG(self._mode() or 0)

    def is_symlink(self) -> bool:
        return False

    def is_absolute(self) -> bool:
        return True

    def absolute(self) -> RemotePath:
        return self

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002
        return self

    def iterdir(self) -> Generator[RemotePath, None, None]:
        for name, _ in self.entries():
            yield self / name

    def entries(self) -> list[tuple[str, bool]]:
        """Names of what lies in the folder, sorted, and whether each is a folder; DataError where it is not told."""
        from handlens.io.remote.reading import entries

        return entries(self)

    def glob(self, pattern: str, **_how: Any) -> Generator[RemotePath, None, None]:
        """One level, as `*.csv`, or folders, as `*/`."""
        only_folders, plain = pattern.endswith("/"), pattern.removesuffix("/")
        if "/" in plain or "**" in plain:
            raise NotImplementedError(pattern)
        for name, folder in self.entries():
            if fnmatchcase(name, plain) and (folder or not only_folders):
                yield self / name

    def rglob(self, pattern: str, **_how: Any) -> Generator[RemotePath, None, None]:
        for place, _, names in self.levels():
            for name in names:
                if fnmatchcase(name, pattern):
                    yield place / name

    def levels(self, depth: int = 0) -> Iterator[tuple[RemotePath, list[str], list[str]]]:
        """As `os.walk`: a folder, the folders in it, which may be taken out, and the files."""
        if depth > DEEPEST:
            raise DataError(
                f"more than {DEEPEST} folders in each other: name one that does not lie in itself", file=self
            )
        found = self.entries()
        below = [name for name, folder in found if folder]
        yield self, below, [name for name, folder in found if not folder]
        for name in below:
            yield from (self / name).levels(depth + 1)

    def open(self, mode: str = "r", *_args: Any, **_how: Any) -> Any:
        from handlens.io.remote.reading import open_file

        if mode not in ("r", "rb"):
            raise self.closed()
        stream = open_file(self)
        return stream if mode == "rb" else io.TextIOWrapper(stream, encoding="utf-8")

    def mkdir(self, *_args: Any, **_how: Any) -> None:
        raise self.closed()

    def unlink(self, *_args: Any, **_how: Any) -> None:
        raise self.closed()

    def closed(self) -> DataError:
        """What is said to whoever would write to it."""
        return DataError("nothing is written to a server here: name a folder of this machine", file=self)

    def _mode(self) -> int | None:
        from handlens.io.remote.reading import look

        facts = look(self)
        return None if facts is None else (stat.S_IFDIR if facts.folder else stat.S_IFREG)


def decoded(text: str) -> str:
    """A path of an address for people: without percents, but for those of a slash and a question mark in a name.

    >>> decoded("a%20b%2Fc"), encoded("a b%2Fc 100%")
    ('a b%2Fc', 'a%20b%2Fc%20100%25')
    """
    return "".join(part if number % 2 else unquote(part) for number, part in enumerate(_KEPT.split(text)))


def encoded(text: str) -> str:
    """What `decoded` was made from."""
    return "".join(part if number % 2 else quote(part, safe=_SAFE) for number, part in enumerate(_KEPT.split(text)))


def with_query(address: str, query: str) -> RemotePath:
    path = RemotePath(address)
    path._query = query
    return path


def place(given: str | os.PathLike[str]) -> Path:
    """What a person means by a path: a file or folder of this machine, or one on a server where it is an address.

    >>> place("slides/test"), str(place("s3://bucket/slides/"))
    (PosixPath('slides/test'), 's3://bucket/slides')
    """
    text = os.fspath(given)
    if local := _FILE.fullmatch(text):
        return Path(unquote(local.group(1)))
    found = _ADDRESS.fullmatch(text)
    if found is None or isinstance(given, RemotePath):
        return given if isinstance(given, Path) else Path(text)
    scheme, rest = found.group(1).lower(), found.group(2)
    if scheme not in SCHEMES:
        if isinstance(given, Path) and "://" not in text:  # a folder that is called so
            return given
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise DataError(f"{text.partition('?')[0]}: {scheme}:// is not read; expected {known} or file://")
    query = ""
    if scheme in ("http", "https"):
        rest, _, query = rest.partition("?")
    host, slash, key = rest.partition("/")
    if "@" in host:
        what = "user and password in an address would be written to reports"
        raise DataError(f"{scheme}://{host.rpartition('@')[2]}: {what}: leave them out, and put them into ~/.netrc")
    if scheme in ("http", "https"):
        key = decoded(key)
    if "\0" in key:
        raise DataError("a zero byte in an address", file=None)
    return with_query(f"{scheme}://{host}{slash}{key}", query)
