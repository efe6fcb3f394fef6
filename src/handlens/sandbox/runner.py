"""An untrusted ONNX model, queried through a pipe and watched from here. Believes nothing it is told, nor its clock."""

from __future__ import annotations

import hashlib
import json
import math
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from handlens.errors import DataError, HandlensError
from handlens.io.gate import refuse_other
from handlens.sandbox.frames import MAX_ANSWER, pack_arrays, pack_frame, pack_head, unpack_arrays
from handlens.sandbox.guard import Guard
from handlens.sandbox.process import ModelProcess
from handlens.sandbox.verdicts import VERDICTS, RefusedError, harmless
from handlens.types import Limits

MAX_MODEL_MIB = 512
"""Size of a file that is looked at: three times the size that is worth nothing in any contest here."""

MAX_HEADER = 2**16
"""Bytes of the words that a model's process says about an answer."""

START_SECONDS = 120
"""Time for Python and its libraries to load, on a busy machine."""

STAND_INS = {
    "network": ("sockets",),
    "IPC": ("files",),
    "process ids": ("processes",),
    "file tree": ("files",),
    "capabilities": ("files",),
    "cgroup": ("memory",),
}
"""A second layer that is missing is no gap where the first one holds: without sockets nobody needs an empty network."""

CHILD = "handlens.sandbox.child:main"
"""What the process runs: module and function."""

_CHUNK = 2**20
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output: its name, type as ONNX Runtime writes it, and sizes, None where they are free."""

    name: str
    type: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ",".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.type}[{sizes}]"


@dataclass(frozen=True, slots=True)
class Answer:
    """Outputs in the file's order, and the seconds from when the question was sent until the answer was here."""

    outputs: tuple[npt.NDArray[Any], ...]
    seconds: float


@contextmanager
def opened(path: Path, limits: Limits, *, entry: str = CHILD) -> Iterator[GuardedModel]:
    """The model, loaded in a process of its own, which is gone at the end. RefusedError where it cannot be loaded."""
    refuse_limits(limits)
    with _model_file(path) as (file, size):
        model = GuardedModel(file, size, limits, entry)
        try:
            model.restart()
            yield model
        finally:
            model.close()


def open_for_good(path: Path, limits: Limits) -> GuardedModel:
    """The same without an end: the process goes when the model is closed or forgotten. It cannot be restarted."""
    refuse_limits(limits)
    with _model_file(path) as (file, size):
        model = GuardedModel(file, size, limits, CHILD)
        try:
            model.restart()
        except BaseException:
            model.close()
            raise
        return model


def read_model(path: Path) -> bytes:
    """The bytes of a model's file, a regular one of bounded size; RefusedError otherwise."""
    with _model_file(path) as (file, size):
        parts = bytearray()
        while len(parts) < size and (chunk := os.read(file, min(size - len(parts), 16 * _CHUNK))):
            parts += chunk
    return bytes(parts)


def missing_here() -> tuple[str, ...]:
    """What this machine cannot keep a model from; `GuardedModel.unguarded` without a model."""
    model = GuardedModel(-1, 0, Limits(), CHILD)
    try:
        model.start()
        return model.unguarded
    finally:
        model.close()


def refuse_limits(limits: Limits) -> None:
    """HandlensError for limits that are none, and for a system that cannot keep any."""
    if sys.platform == "win32":
        raise HandlensError("models are judged on Linux and macOS alone: this system cannot limit a process")
    for name in ("load_seconds", "answer_seconds", "total_seconds"):
        if not 0 < getattr(limits, name) < math.inf:  # not a number is refused too
            raise HandlensError(f"{name} is {getattr(limits, name)}; expected a number above 0")


class GuardedModel:
    """Our end of the pipe.

    `size` is the file's in bytes, `guards` say what the process cannot do, `takes` and `gives` what the file declares.
    """

    def __init__(self, file: int, size: int, limits: Limits, entry: str) -> None:
        self.file = file
        self.size = size
        self.limits = limits
        self.entry = entry
        self.left = limits.total_seconds  # of waiting: what we do between two questions is not its time
        self.process: ModelProcess | None = None
        self.digest = b""
        self.guards: tuple[Guard, ...] = ()
        self.takes: tuple[Slot, ...] = ()
        self.gives: tuple[Slot, ...] = ()
        self._sent = 0.0

    @property
    def missing(self) -> tuple[str, ...]:
        """Every guard that this machine does not have."""
        return tuple(f"{guard.name}: {guard.how}" for guard in self.guards if not guard.holds)

    @property
    def unguarded(self) -> tuple[str, ...]:
        """What the process could do on this machine: those that are missing and that no other stands in for."""
        held = {guard.name for guard in self.guards if guard.holds}
        return tuple(
            f"{guard.name}: {guard.how}"
            for guard in self.guards
            if not guard.holds and not set(STAND_INS.get(guard.name, ())) & held
        )

    def start(self) -> None:
        """A new process, locked; an old one is ended. Nothing of the model is in it yet."""
        self.close()
        self.process = ModelProcess(self.entry, memory_mib=self.limits.memory_mib)
        order = {"cpu_seconds": math.ceil(self.limits.total_seconds), "memory_mib": self.limits.memory_mib}
        before, self.left = self.left, float(START_SECONDS)
        try:
            header, _ = self._exchange(pack_frame({"limits": order}), START_SECONDS)
            found = [Guard(str(name), bool(holds), str(how)) for name, holds, how in header["guards"]]
        except (RefusedError, KeyError) as error:
            raise HandlensError(f"the sandbox for models does not start here ({error})") from None
        finally:
            self.left = before
        self.guards = (*found, self.process.cgroup)

    def restart(self) -> None:
        """Hand the file over to a new process, which knows nothing of what the one before was asked.

        RefusedError where the file is another by now: what is judged is one model.
        """
        self.start()
        os.lseek(self.file, 0, os.SEEK_SET)
        before = self.digest
        header, _ = self._exchange((pack_head({}, self.size), self.file), self.limits.load_seconds)
        if before and before != self.digest:
            raise RefusedError("not a model", "the file was changed while it was judged")
        self.takes, self.gives = _slots(header.get("takes")), _slots(header.get("gives"))

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.end()
            self.process = None

    def ask(self, *arrays: npt.NDArray[Any]) -> Answer:
        """Run the model once; inputs are bound by position. RefusedError where that fails in any way."""
        described, content = pack_arrays(arrays)
        header, payload = self._exchange(pack_frame({"arrays": described}, content), self.limits.answer_seconds)
        seconds = time.perf_counter() - self._sent
        try:
            outputs = unpack_arrays(header.get("arrays"), payload)
        except ValueError:
            raise _malformed_answer() from None
        return Answer(tuple(outputs), seconds)

    def _exchange(self, frame: tuple[bytes, bytes | memoryview | int], seconds: float) -> tuple[dict[str, Any], bytes]:
        """Send a frame, whose content may be an open file, and take the answer; a refusal is raised."""
        begun = time.monotonic()
        if seconds <= self.left:
            end, words = begun + seconds, f"no answer within {seconds:g} s"
        else:
            end, words = begun + self.left, f"not done within {self.limits.total_seconds:g} s"
        try:
            with suppress(BrokenPipeError):  # it may have left a refusal before it went
                self._send(frame, end)
            self._sent = time.perf_counter()  # all of the question is in the pipe: from here on it is the model's time
            header, payload = self._receive(end)
        except TimeoutError:
            raise RefusedError("hang", words) from None
        finally:
            self.left -= time.monotonic() - begun
        refused = header.get("refused")
        if refused is None:
            return header, payload
        if not (isinstance(refused, list) and len(refused) == 2 and refused[0] in VERDICTS):
            raise _malformed_answer()
        raise RefusedError(refused[0], harmless(str(refused[1])))

    def _send(self, frame: tuple[bytes, bytes | memoryview | int], end: float) -> None:
        head, content = frame
        self._write(memoryview(head), end)
        if not isinstance(content, int):
            self._write(memoryview(content), end)
            return
        left, digest = self.size, hashlib.sha256()
        while left and (chunk := os.read(content, min(left, _CHUNK))):
            self._write(memoryview(chunk), end)
            digest.update(chunk)
            left -= len(chunk)
        self.digest = digest.digest()
        if left:
            raise RefusedError("not a model", "the file became shorter while it was read")

    def _write(self, content: memoryview, end: float) -> None:
        pipe = self._running().requests
        while content:
            _wait(pipe, end, writing=True)
            with suppress(BlockingIOError):
                content = content[os.write(pipe, content[:_CHUNK]) :]

    def _receive(self, end: float) -> tuple[dict[str, Any], bytes]:
        length = struct.unpack("<I", self._read(4, end))[0]
        if length > MAX_HEADER:
            raise _malformed_answer()
        try:
            header = json.loads(self._read(length, end))
            size = header.pop("bytes")
        except (ValueError, AttributeError, KeyError, RecursionError):
            raise _malformed_answer() from None
        if type(size) is not int or not 0 <= size <= MAX_ANSWER:
            raise _malformed_answer()
        return header, self._read(size, end)

    def _read(self, size: int, end: float) -> bytes:
        pipe = self._running().answers
        content = bytearray()
        while len(content) < size:
            _wait(pipe, end, writing=False)
            with suppress(BlockingIOError):
                chunk = os.read(pipe, min(size - len(content), _CHUNK))
                if not chunk:
                    raise self._death(end)
                content += chunk
        return bytes(content)

    def _running(self) -> ModelProcess:
        if self.process is None:
            raise HandlensError("the model was closed")
        return self.process

    def _death(self, end: float) -> RefusedError:
        """What became of a process that closed its pipe."""
        try:
            status = self._running().popen.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return RefusedError("hang", "it stopped responding")
        if status == -signal.SIGSYS:
            return RefusedError("forbidden", "it asked the system for a process, a socket or the like, and was ended")
        if status == -signal.SIGXCPU:
            return RefusedError("hang", f"more than {self.limits.total_seconds:g} s of computing")
        if status == -signal.SIGKILL:
            return RefusedError("out of memory", "the system ended its process, most likely because memory ran out")
        if status < 0:
            return RefusedError("crash", f"its process died of {signal.Signals(-status).name}")
        return RefusedError("crash", f"its process ended with exit status {status}")


@contextmanager
def _model_file(path: Path) -> Iterator[tuple[int, int]]:
    """The file, open, and its size; a pipe or device is not opened for good."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise RefusedError("not a model", f"cannot be opened: {error.strerror}") from None
    try:
        found = os.fstat(file)
        try:
            refuse_other(path, found)
        except DataError as error:
            raise RefusedError("not a model", error.what) from None
        if found.st_size > MAX_MODEL_MIB * _MIB:
            raise RefusedError("too large", f"{found.st_size / _MIB:,.0f} MiB; at most {MAX_MODEL_MIB}")
        yield file, found.st_size
    finally:
        os.close(file)


def _wait(pipe: int, end: float, *, writing: bool) -> None:
    """Until the pipe is ready, or the time is over; then it does not help to be ready."""
    left = end - time.monotonic()
    if left <= 0 or not any(select.select([] if writing else [pipe], [pipe] if writing else [], [], left)):
        raise TimeoutError


def _slots(described: Any) -> tuple[Slot, ...]:
    """What the process says about inputs or outputs."""
    try:
        return tuple(
            Slot(harmless(str(name)), harmless(str(kind)), tuple(None if size is None else int(size) for size in shape))
            for name, kind, shape in described
        )
    except (TypeError, ValueError):
        raise _malformed_answer() from None


def _malformed_answer() -> RefusedError:
    return RefusedError("forbidden", "its process answers with something that no model says")
