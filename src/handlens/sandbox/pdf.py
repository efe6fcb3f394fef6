"""An untrusted PDF, queried through a pipe: its figures and their pixels. Started, watched and ended from here.

PDFium runs in a process without privileges, with limits of time and memory. A page that ends that process, or that it
does not finish, is that page's error; the next one goes to a new process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from handlens.errors import DataError
from handlens.io import gate, pdf
from handlens.io.files import scratch_folder
from handlens.io.pdf import PdfFigure
from handlens.io.tiff import MAX_PAGES
from handlens.sandbox.frames import pack_frame, unpack_arrays
from handlens.sandbox.process import start_python

MAX_BYTES = 1 << 30
"""Largest PDF that is read: it is held in memory whole."""

SECONDS = 60.0
"""Of processor for one page or one image, so that a busy machine reads what an idle one does; the slowest of a thousand
real ones took three."""

PATIENCE = 5
"""So many times as long by the clock, for a process that waits for something."""

MEMORY_MIB = 2_048
"""Beyond what Python and its libraries take."""

ENTRY = "handlens.sandbox.pdf_child:main"

_START_SECONDS = 120.0  # for Python and its libraries, on a busy machine
_LOOK_SECONDS = 0.2  # between two looks at what a process has used
_MAX_HEADER = 1 << 24
_MAX_CONTENT = 4 * pdf.MAX_PIXELS
_CHUNK = 1 << 20


def list_figures(path: Path, *, seconds: float = SECONDS) -> list[PdfFigure | tuple[int, str]]:
    """The figures of all pages in order, an image that is used again once; page and error of those that cannot be read.

    A document in which nothing is found has its pages as figures, to be drawn. DataError where it cannot be opened.
    """
    content = gate.read_bytes(path, most=MAX_BYTES)
    found: list[PdfFigure | tuple[int, str]] = []
    seen: set[str] = set()
    page, pages = 1, 1
    while page <= pages:
        with _process(path, content, seconds) as (process, pages):
            while page <= pages:
                try:
                    listed = _figures(process.ask({"list": page}, seconds))
                except (_DeadError, DataError) as error:  # the rest goes to a new process
                    found.append((page, str(error)))
                    page += 1
                    break
                found += [each for each in listed if not each.digest or each.digest not in seen]
                seen |= {each.digest for each in listed}
                page += 1
    return found or _all_pages(path, content, pages, seconds)


def read_figure(path: Path, figure: PdfFigure, *, seconds: float = SECONDS) -> npt.NDArray[Any]:
    """Its pixels as the page shows them; DataError where they cannot be had."""
    content = gate.read_bytes(path, most=MAX_BYTES)
    asked = [figure.page, figure.number, figure.box, figure.shape, figure.digest, figure.pieces]
    with _process(path, content, seconds) as (process, _):
        try:
            header, payload = process.exchange({"read": asked}, seconds)
            (pixels,) = unpack_arrays(header.get("arrays"), payload)
        except _DeadError as error:
            raise DataError(f"page {figure.page}: {error}", file=path) from None
        except ValueError:
            raise DataError(f"page {figure.page}: cannot be read: print it to a new PDF", file=path) from None
    return pixels


def _all_pages(path: Path, content: bytes, pages: int, seconds: float) -> list[PdfFigure | tuple[int, str]]:
    with _process(path, content, seconds) as (process, _):
        return [figure for page in range(1, pages + 1) for figure in _figures(process.ask({"page": page}, seconds))]


def _figures(answer: dict[str, Any]) -> list[PdfFigure]:
    """What the process says, believed as far as it has the right form."""
    try:
        found = []
        for page, number, box, shape, digest, pieces in answer["figures"]:
            left, top, right, bottom = map(float, box)
            places = tuple((int(index), int(y), int(x)) for index, y, x in pieces)
            size = (int(shape[0]), int(shape[1]))
            found.append(PdfFigure(int(page), int(number), (left, top, right, bottom), size, str(digest), places))
        return found
    except (KeyError, TypeError, ValueError, IndexError):
        raise _DeadError("cannot be read: print it to a new PDF") from None


class _DeadError(Exception):
    """The process died, or took too long, or answered nonsense."""


@contextmanager
def _process(path: Path, content: bytes, seconds: float) -> Iterator[tuple[_Process, int]]:
    """A process that has read the document, and the number of its pages."""
    with scratch_folder("pdf") as folder:
        process = _Process(folder)
        try:
            process.exchange({"cpu_seconds": int(20 * seconds) + 60, "memory_mib": MEMORY_MIB}, _START_SECONDS)
            header, _ = process.exchange({}, seconds, content)
            pages = header.get("pages")
            if type(pages) is not int or not 1 <= pages <= MAX_PAGES:
                raise DataError(f"{pages} pages; expected 1 to {MAX_PAGES:,}: split it", file=path)
            yield process, pages
        except _DeadError as error:
            raise DataError(str(error), file=path) from None
        except DataError as error:
            raise DataError(error.what, file=path) from None
        finally:
            process.end()


class _Process:
    """A new Python without our environment, in an empty folder and a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.popen = start_python(ENTRY, folder)
        self.requests, self.answers = self.popen.stdin, self.popen.stdout
        for stream in (self.requests, self.answers):
            os.set_blocking(stream.fileno(), False)  # type: ignore[union-attr]

    def ask(self, order: dict[str, Any], seconds: float) -> dict[str, Any]:
        return self.exchange(order, seconds)[0]

    def exchange(self, order: dict[str, Any], seconds: float, content: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a frame and take the answer; DataError where it refuses, _DeadError where it dies or takes too long."""
        limit = _Limit(self.popen.pid, seconds)
        try:
            with suppress(BrokenPipeError):  # it may have left a refusal before it went
                for part in pack_frame(order, content):
                    self._write(memoryview(part), limit)
            (length,) = struct.unpack("<I", self._read(4, limit))
            header = json.loads(self._read(min(length, _MAX_HEADER), limit))
            if not isinstance(header, dict) or type(size := header.pop("bytes", None)) is not int:
                raise ValueError
            payload = self._read(min(max(size, 0), _MAX_CONTENT), limit)
        except TimeoutError:
            raise _DeadError(f"PDFium did not finish it in {seconds:g} s of processor: print it to a new PDF") from None
        except (ValueError, EOFError):
            raise _DeadError(f"{self._death()}: print it to a new PDF") from None
        if "refused" in header:
            raise DataError(str(header["refused"])[:300])
        return header, payload

    def end(self) -> None:
        """End the process, and whatever it may have started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.kill()
        self.popen.wait()
        for stream in (self.requests, self.answers):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def _death(self) -> str:
        self.end()
        status = self.popen.returncode
        if status == -signal.SIGXCPU:
            return "PDFium used up its time"
        return f"PDFium died of it ({signal.Signals(-status).name if status < 0 else f'exit status {status}'})"

    def _write(self, content: memoryview, limit: _Limit) -> None:
        while content:
            limit.wait([], [self.requests])
            content = content[os.write(self.requests.fileno(), content[:_CHUNK]) :]  # type: ignore[union-attr]

    def _read(self, size: int, limit: _Limit) -> bytes:
        parts, left = [], size
        while left:
            limit.wait([self.answers], [])
            part = os.read(self.answers.fileno(), min(left, _CHUNK))  # type: ignore[union-attr]
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class _Limit:
    """What a process may take from now on."""

    def __init__(self, process: int, seconds: float) -> None:
        self.process, self.end = process, time.monotonic() + PATIENCE * seconds
        self.most = _processor_seconds(process) + seconds

    def wait(self, readable: list[Any], writable: list[Any]) -> None:
        """Until the stream can be used; TimeoutError where the process has taken too much."""
        while not any(select.select(readable, writable, [], _LOOK_SECONDS)):
            if time.monotonic() > self.end or _processor_seconds(self.process) > self.most:
                raise TimeoutError


def _processor_seconds(process: int) -> float:
    """What it has used; 0 where the system does not say, or it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
