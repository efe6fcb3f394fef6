"""Files on HTTP and HTTPS servers: which answers mean what. Connections are urllib3's, and stay open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from handlens.errors import DataError
from handlens.io.remote.facts import FOLDER, Body, FileFacts, Transient
from handlens.io.remote.path import decoded, encoded

if TYPE_CHECKING:
    import urllib3

    from handlens.io.remote.path import RemotePath

CONNECT_SECONDS = 10.0
QUIET_SECONDS = 20.0
"""Without a byte, after which a connection counts as lost."""

LEAST_RATE = 1024
"""Bytes a second over QUIET_SECONDS; below it another connection is tried."""

REDIRECTS = 5
LARGEST_LISTING = 64 << 20
STEP = 1 << 18

_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_NOTHING = (404, 410)
_PART = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")
MARKS = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
"""Files that show a folder where the server shows none: Zarr arrays lie on servers that list nothing."""

FILES = (".json", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".csv", ".parquet", ".pdf", ".npy", *MARKS[1:])
"""Endings of names that are no folders'."""


class HttpServer:
    """All of them: connections are kept by host."""

    def look(self, path: RemotePath) -> FileFacts | None:
        found = self._look(_url(path))
        if found is not None or path.name.lower().endswith(FILES):
            return found
        return FOLDER if any(self._look(_url(path / mark)) is not None for mark in MARKS) else None

    def _look(self, url: str) -> FileFacts | None:
        with _asked("HEAD", url, {}) as answer:
            if answer.status in (403, 405, 501):  # as addresses that are signed for reading alone answer
                return self._look_by_reading(url)
            if answer.status in _NOTHING:
                return None
            _refuse(answer, url)
            if _is_folder(answer, url):
                return FOLDER
            if "content-length" not in answer.headers:
                return self._look_by_reading(url)
            return _facts(answer, _length(answer.headers["content-length"], url))

    def _look_by_reading(self, url: str) -> FileFacts | None:
        with _asked("GET", url, {"Range": "bytes=0-0"}) as answer:
            if answer.status in _NOTHING:
                return None
            _refuse(answer, url)
            if _is_folder(answer, url):
                return FOLDER
            return _facts(answer, _total(answer, url, 0, 1))

    @contextmanager
    def read(self, path: RemotePath, start: int, end: int | None) -> Iterator[Body | None]:
        url = _url(path)
        whole = start == 0 and end is None
        asked = {} if whole else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        with _asked("GET", url, asked) as answer:
            if answer.status in _NOTHING:
                yield None
                return
            _refuse(answer, url)
            if answer.status >= 300:
                raise DataError("a folder, not a regular file: name a file in it", file=path)
            yield Body(_facts(answer, _total(answer, url, start, end)), answer.status != 206, _parts(answer))

    def entries(self, path: RemotePath) -> list[tuple[str, FileFacts | None]]:
        url = _url(path, "/")
        with _asked("GET", url, {}, listed=True) as answer:
            url = answer.url or url
            kind = answer.headers.get("content-type", "")
            if answer.status in (*_NOTHING, 403) or (answer.status < 400 and "html" not in kind):
                what = "the server does not list what lies in this folder"
                raise DataError(f"{what}: name a file or a Zarr array in it, or copy it to this machine", file=path)
            _refuse(answer, url)
            text = b""
            for part in _parts(answer):
                text += part
                if len(text) > LARGEST_LISTING:
                    raise DataError(f"a list of more than {LARGEST_LISTING:,} bytes: name a folder in it", file=path)
        return list(_links(text.decode("utf-8", "replace"), url).items())

    def write(self, path: RemotePath, file: Path) -> None:  # noqa: ARG002
        raise DataError("nothing is written over HTTP: name a folder of this machine, or s3://", file=path)


def _url(path: RemotePath, slash: str = "") -> str:
    return f"{path.scheme}://{path.host}/{encoded(path.key)}{slash}{'?' * bool(path.query)}{path.query}"


@contextmanager
def _asked(
    method: str, url: str, headers: dict[str, str], *, listed: bool = False
) -> Iterator[urllib3.BaseHTTPResponse]:
    """The answer, its body not read yet; redirections are followed, but for one to the same name as a folder.

    That one is followed too where the folder is `listed`.
    """
    from urllib3.exceptions import HTTPError, SSLError

    answer: Any = None
    known = _authorised(urlsplit(url).hostname or "")
    try:
        for _ in range(REDIRECTS + 1):
            how = {**headers, **known}
            answer = _connections(urlsplit(url).scheme, urlsplit(url).hostname or "").request(
                method, url, headers=how, preload_content=False, redirect=False, decode_content=False
            )
            target = answer.get_redirect_location()
            if not target or (_is_folder(answer, url) and not listed):
                break
            before, url = urlsplit(url), _redirected(url, target)
            _leave(answer)
            if urlsplit(url).netloc != before.netloc:  # nobody meant the password for another host, nor what it says
                known = {}
        answer.url = url
        yield answer
    except SSLError as error:
        raise _fault(url, f"no safe connection ({_words(error)})", "is its certificate valid?") from None
    except HTTPError as error:
        raise Transient(_words(error)) from None
    except OSError as error:
        raise Transient(error.strerror or type(error).__name__) from None
    finally:
        if answer is not None:
            _leave(answer)


def _redirected(url: str, target: str) -> str:
    """Where an answer leads; DataError where no file is read from there, or what is read could be seen on the way."""
    try:
        new = urljoin(url, target)
        allowed = urlsplit(new).scheme in ("https", urlsplit(url).scheme) and bool(urlsplit(new).hostname)
    except ValueError:
        allowed = False
    if not allowed:
        raise _fault(url, "a redirection to a place that is not safe", "check the address")
    return new


def _leave(answer: Any) -> None:
    """Keep the connection where nothing is left of the answer, for it would be taken for the next one."""
    if answer.closed or getattr(answer, "length_remaining", None) == 0:
        answer.drain_conn()  # of nothing: only then the next answer is waited for
        answer.release_conn()
    else:
        answer.close()


@lru_cache(maxsize=64)
def _connections(scheme: str, host: str) -> Any:
    """Connections to a host, through the proxy that the system names for it."""
    import urllib.request

    import urllib3

    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=QUIET_SECONDS)
    how: dict[str, Any] = {"retries": False, "timeout": timeout, "maxsize": 32, "headers": _agent()}
    proxy = urllib.request.getproxies().get(scheme)
    if proxy and not urllib.request.proxy_bypass(host):
        return urllib3.ProxyManager(proxy, **how)
    return urllib3.PoolManager(**how)


def _agent() -> dict[str, str]:
    from importlib.metadata import version

    return {"User-Agent": f"handlens/{version('handlens')}", "Accept-Encoding": "identity"}


@lru_cache(maxsize=64)
def _authorised(host: str) -> dict[str, str]:
    """What ~/.netrc says for a host, as curl and git do; we keep no passwords."""
    import netrc

    import urllib3

    with suppress(OSError, netrc.NetrcParseError):
        known = netrc.netrc(os.path.expanduser("~/.netrc")).authenticators(host)
        if known:
            return dict(urllib3.make_headers(basic_auth=f"{known[0]}:{known[2]}"))
    return {}


def _parts(answer: Any) -> Iterator[bytes]:
    """The body as it comes; Transient where it stops coming."""
    import time

    since, got = time.monotonic(), 0
    while part := answer.read1(STEP):
        yield part
        got += len(part)
        passed = time.monotonic() - since
        if passed > QUIET_SECONDS:
            if got < LEAST_RATE * passed:
                raise Transient(f"{got:,} bytes in {passed:.0f} s")
            since, got = time.monotonic(), 0
    if answer.length_remaining:
        raise Transient("the connection ended before the file did")


def _refuse(answer: Any, url: str) -> None:
    """Raise for an answer that is no success."""
    status = answer.status
    if status < 400 and status not in (301, 302, 303, 307, 308):
        return
    if status in _AGAIN:
        wait = answer.headers.get("retry-after", "")
        raise Transient(f"status {status}", float(wait) if _is_number(wait) else 0.0)
    if status < 400:
        if _is_folder(answer, url):
            return
        raise _fault(url, f"more than {REDIRECTS} redirections", "check the address")
    remedies = {
        401: "put user and password for this host into ~/.netrc",
        403: "it may need a password (~/.netrc) or a signed address, or the file is not there",
        407: "the proxy wants a password",
        416: "the file is shorter than it was: start again",
    }
    raise _fault(url, f"status {status} {answer.reason or ''}".rstrip(), remedies.get(status, "check the address"))


def _fault(url: str, what: str, remedy: str) -> DataError:
    from handlens.io.remote.path import place

    return DataError(f"{urlsplit(url).netloc} answered: {what}: {remedy}", file=place(url))


def _is_folder(answer: Any, url: str) -> bool:
    """Whether the server leads to the same name with a slash after it, or shows a page in place of a file."""
    target = answer.get_redirect_location()
    if target:
        return urlsplit(_redirected(url, target)).path == f"{urlsplit(url).path}/"
    name = urlsplit(url).path.rpartition("/")[2]
    page = answer.headers.get("content-type", "").startswith("text/html")
    return bool(answer.status < 300 and page and not name.lower().endswith((".html", ".htm")))


def _facts(answer: Any, size: int) -> FileFacts:
    modified = 0.0
    with suppress(ValueError, TypeError, KeyError):
        modified = parsedate_to_datetime(answer.headers["last-modified"]).timestamp()
    return FileFacts(size, modified, answer.headers.get("etag") or answer.headers.get("last-modified", ""))


def _total(answer: Any, url: str, start: int, end: int | None) -> int:
    """Bytes of the whole file; DataError where the part is not of those that were asked for."""
    if answer.status == 206:
        part = _PART.fullmatch(answer.headers.get("content-range", "").strip())
        if part is None:
            raise _fault(url, "not which part of the file it sends", "copy it to this machine")
        first, last = int(part[1]), int(part[2])
        if first != start or not first <= last or (end is not None and last >= end):
            raise _fault(url, f"bytes {first:,} to {last:,}, which were not asked for", "copy it to this machine")
        total = part[3]
    else:
        total = answer.headers.get("content-length", "")
    return _length(total, url)


def _length(text: str, url: str) -> int:
    if not _is_number(text):
        raise _fault(url, "not how long the file is", "copy it to this machine")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _links(text: str, url: str) -> dict[str, FileFacts | None]:
    """What a page that lists a folder leads to in it, as every usual server writes one."""
    parser = _Links()
    try:
        parser.feed(text)
    except AssertionError:  # of a library that takes pages to be well-formed
        raise _fault(url, "a page that is none", "name a file in this folder") from None
    base, found = urlsplit(url), dict[str, FileFacts | None]()
    for link in parser.found:
        try:
            target = urlsplit(urljoin(url, link))
        except ValueError:  # no address
            continue
        below = target.path.removeprefix(base.path)
        if target.netloc != base.netloc or target.query not in ("", base.query) or below == target.path:
            continue
        name = decoded(below.removesuffix("/"))
        if name and not {"/", "\0"} & set(name) and name not in (".", ".."):
            found[name] = FOLDER if below.endswith("/") else None
    return found


def _words(error: Exception) -> str:
    """The first line of what a library says, without its objects."""
    reason = getattr(error, "reason", None) or error
    text = re.sub(r"<[^>]*>:? ?|\w+\([^)]*\): |\?\S+", "", str(reason)).strip() or type(error).__name__
    return text.splitlines()[0][:160]
