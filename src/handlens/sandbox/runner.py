"""A stranger's ONNX model, asked through a pipe: started, watched and ended from here. Believes nothing it is told."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from handlens.errors import HandlensError
from handlens.sandbox.frames import MAX_ANSWER, pack_arrays, pack_frame, pack_head, unpack_arrays
from handlens.sandbox.guard import Guard
from handlens.sandbox.verdicts import VERDICTS, RefusedError, harmless
from handlens.types import Limits

MAX_MODEL_MIB = 512
"""Size of a file that is looked at: three times the size that is worth nothing in any contest here."""

MAX_HEADER = 2**16
"""Bytes of the words that a model's process says about an answer."""

START_SECONDS = 120
"""Time for Python and its libraries to load, on a busy machine."""

CHILD = "handlens.sandbox.child:main"
"""What the process runs: module and function."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime would start a thread that writes a file and sends it away
}
"""What libraries read when they are loaded, nothing of ours; the process forgets it before the model comes."""

_BOOT = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
module, _, function = sys.argv[2].partition(":")
getattr(importlib.import_module(module), function)()
"""
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
    """Outputs in the file's order, the seconds that the process says it took, and those that we waited for it."""

    outputs: tuple[npt.NDArray[Any], ...]
    seconds: float
    waited: float


@contextmanager
def opened(path: Path, limits: Limits, *, entry: str = CHILD) -> Iterator[GuardedModel]:
    """The model, loaded in a process of its own, which is gone at the end. RefusedError where it cannot be loaded."""
    if sys.platform == "win32":
        raise HandlensError("models are judged on Linux and macOS alone: this system cannot limit a process")
    for name in ("load_seconds", "answer_seconds", "total_seconds"):
        if not 0 < getattr(limits, name) < math.inf:  # not a number is refused too
            raise HandlensError(f"{name} is {getattr(limits, name)}; expected a number above 0")
    with tempfile.TemporaryDirectory(prefix="judge-") as folder, _model_file(path) as (file, size):
        process = _start(entry, Path(folder))
        try:
            model = GuardedModel(process, limits)
            model.load(file, size)
            yield model
        finally:
            _end(process)


class GuardedModel:
    """Our end of the pipe.

    `size` is the file's in bytes, `guards` say what the process cannot do, `takes` and `gives` what
    the file declares.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self.process = process
        self.limits = limits
        self.left = float(START_SECONDS)  # of waiting: what we do between two questions is not its time
        self.size = 0
        self.guards: tuple[Guard, ...] = ()
        self.takes: tuple[Slot, ...] = ()
        self.gives: tuple[Slot, ...] = ()
        for stream in (process.stdin, process.stdout):
            os.set_blocking(_number(stream), False)

    @property
    def unguarded(self) -> tuple[str, ...]:
        """What the process could do on this machine; without sockets it needs no network of its own."""
        held = {guard.name for guard in self.guards if guard.holds}
        return tuple(
            f"{guard.name}: {guard.how}"
            for guard in self.guards
            if not guard.holds and not (guard.name == "network" and "sockets" in held)
        )

    def load(self, file: int, size: int) -> None:
        """Lock the process, then hand over the file."""
        order = {"cpu_seconds": math.ceil(self.limits.total_seconds), "memory_mib": self.limits.memory_mib}
        try:
            header, _ = self._exchange(pack_frame({"limits": order}), START_SECONDS)
            self.guards = tuple(Guard(str(name), bool(holds), str(how)) for name, holds, how in header["guards"])
        except (RefusedError, KeyError) as error:
            raise HandlensError(f"the sandbox for models does not start here ({error})") from None
        self.left = self.limits.total_seconds
        self.size = size
        header, _ = self._exchange((pack_head({}, size), file), self.limits.load_seconds)
        self.takes, self.gives = _slots(header.get("takes")), _slots(header.get("gives"))

    def ask(self, *arrays: npt.NDArray[Any]) -> Answer:
        """Run the model once; inputs are bound by position. RefusedError where that fails in any way."""
        described, content = pack_arrays(arrays)
        begun = time.perf_counter()
        header, payload = self._exchange(pack_frame({"arrays": described}, content), self.limits.answer_seconds)
        waited = time.perf_counter() - begun
        seconds = header.get("seconds")
        try:
            outputs = unpack_arrays(header.get("arrays"), payload)
        except ValueError:
            raise _nonsense() from None
        if not isinstance(seconds, float) or not 0 <= seconds <= waited:
            raise _nonsense()
        return Answer(tuple(outputs), seconds, waited)

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
            header, payload = self._receive(end)
        except TimeoutError:
            raise RefusedError("hang", words) from None
        finally:
            self.left -= time.monotonic() - begun
        refused = header.get("refused")
        if refused is None:
            return header, payload
        if not (isinstance(refused, list) and len(refused) == 2 and refused[0] in VERDICTS):
            raise _nonsense()
        raise RefusedError(refused[0], harmless(str(refused[1])))

    def _send(self, frame: tuple[bytes, bytes | memoryview | int], end: float) -> None:
        head, content = frame
        self._write(memoryview(head), end)
        if not isinstance(content, int):
            self._write(memoryview(content), end)
            return
        left = self.size
        while left and (chunk := os.read(content, min(left, _CHUNK))):
            self._write(memoryview(chunk), end)
            left -= len(chunk)
        if left:
            raise RefusedError("not a model", "the file became shorter while it was read")

    def _write(self, content: memoryview, end: float) -> None:
        pipe = _number(self.process.stdin)
        while content:
            _wait(pipe, end, writing=True)
            with suppress(BlockingIOError):
                content = content[os.write(pipe, content[:_CHUNK]) :]

    def _receive(self, end: float) -> tuple[dict[str, Any], bytes]:
        length = struct.unpack("<I", self._read(4, end))[0]
        if length > MAX_HEADER:
            raise _nonsense()
        try:
            header = json.loads(self._read(length, end))
            size = header.pop("bytes")
        except (ValueError, AttributeError, KeyError, RecursionError):
            raise _nonsense() from None
        if type(size) is not int or not 0 <= size <= MAX_ANSWER:
            raise _nonsense()
        return header, self._read(size, end)

    def _read(self, size: int, end: float) -> bytes:
        pipe = _number(self.process.stdout)
        content = bytearray()
        while len(content) < size:
            _wait(pipe, end, writing=False)
            with suppress(BlockingIOError):
                chunk = os.read(pipe, min(size - len(content), _CHUNK))
                if not chunk:
                    raise self._death(end)
                content += chunk
        return bytes(content)

    def _death(self, end: float) -> RefusedError:
        """What became of a process that closed its pipe."""
        try:
            status = self.process.wait(max(0.0, end - time.monotonic()))
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
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError("not a model", "not a file")
        if found.st_size > MAX_MODEL_MIB * _MIB:
            raise RefusedError("too large", f"{found.st_size / _MIB:,.0f} MiB; at most {MAX_MODEL_MIB}")
        yield file, found.st_size
    finally:
        os.close(file)


def _start(entry: str, folder: Path) -> subprocess.Popen[bytes]:
    """A new Python without our environment, in an empty folder, in a session of its own, with three descriptors."""
    places = json.dumps([os.path.abspath(place) for place in sys.path])
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT, places, entry],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=ENVIRONMENT,
        bufsize=0,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it may have started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()


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
        raise _nonsense() from None


def _number(stream: Any) -> int:
    return int(stream.fileno())


def _nonsense() -> RefusedError:
    return RefusedError("forbidden", "its process answers with something that no model says")
