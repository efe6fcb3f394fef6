"""ONNX files ready to run, in this process or in a sandbox; read and checked before ONNX Runtime sees them.

The one place that knows ONNX Runtime, beside the sandbox's child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from handlens.errors import ModelError, printable
from handlens.inference.executors import usable_cores
from handlens.io.gate import is_there
from handlens.sandbox import onnxfile, runner
from handlens.sandbox.verdicts import RefusedError
from handlens.types import Limits

UNTRUSTED = Limits(memory_mib=4096, load_seconds=120, answer_seconds=600, total_seconds=30 * 86400)
"""What a stranger's model may use for a folder of cases: a tile takes seconds, a large volume days."""

_QUIET = 4  # ONNX Runtime writes nothing to stderr: what goes wrong is reported by us

Slots = Mapping[str, tuple[str, int]]
"""Names of inputs or outputs, each with its type and number of axes."""


class _Engine(Protocol):
    """What runs a file."""

    @property
    def takes(self) -> Slots: ...
    @property
    def gives(self) -> Slots: ...
    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], ...]: ...


class Session:
    """One ONNX file, ready to answer; `untrusted` in a sandbox of its own, with the same answers to the bit.

    A copy that is pickled for another process is opened anew there with one thread: together they have a core each.
    """

    def __init__(self, path: Path, *, threads: int | None = None, untrusted: bool = False) -> None:
        self.path = path
        self.threads = threads or usable_cores()
        self.untrusted = untrusted
        if not is_there(path):
            raise ModelError(f"{path.parent}: no {path.name} in it: name a folder that `handlens train` wrote")
        self._engine: _Engine = _Sandboxed(path) if untrusted else _InProcess(path, self.threads)

    def __reduce__(self) -> tuple[Callable[[Path, bool], Session], tuple[Path, bool]]:
        return _open_in_worker, (self.path, self.untrusted)

    def demand(self, inputs: Slots, outputs: Slots) -> None:
        """ModelError where the file does not take and give these names, each with its type and number of axes."""
        for words, expected, found in (("takes", inputs, self._engine.takes), ("gives", outputs, self._engine.gives)):
            if dict(found) != dict(expected):
                what = f"{words} {_described(found)}; expected {_described(expected)}"
                raise ModelError(f"{self.path}: not a model for this: it {what}")

    def __call__(self, **inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """The outputs in the file's order."""
        try:
            return self._engine.run(inputs)
        except MemoryError:
            raise
        except RefusedError as error:
            raise ModelError(f"{self.path}: {error}") from None
        except Exception as error:  # ONNX Runtime has a class of its own for each status, below RuntimeError
            sizes = ", ".join(f"{name} {array.shape}" for name, array in inputs.items())
            raise ModelError(f"{self.path}: fails on {sizes}: {_first_line(error)}") from None


@dataclass(frozen=True, slots=True)
class Segmenter:
    """The model of a mask challenge: (H, W, 3) uint8 RGB to (H, W) probabilities. H and W are multiples of 32."""

    session: Session

    def __call__(self, tile: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        (answer,) = self.session(image=tile[None])
        if answer.shape != (1, *tile.shape[:2]):
            what = f"answers {answer.shape[1:]} for {tile.shape[:2]} pixels"
            raise ModelError(f"{self.session.path}: {what}; expected one number a pixel")
        check_probabilities(answer, self.session.path)
        plane: npt.NDArray[np.float32] = answer[0]
        return plane


def check_probabilities(answer: npt.NDArray[Any], path: Path) -> None:
    """ModelError where a model answers with anything but numbers from 0 to 1."""
    if not 0 <= float(answer.min()) <= float(answer.max()) <= 1:  # not a number fails too
        raise ModelError(f"{path}: answers with numbers outside of 0 to 1: train again")


def open_segmenter(path: Path, *, threads: int | None = None, untrusted: bool = False) -> Segmenter:
    """The ONNX file of a mask challenge: `image` uint8 (N, H, W, 3) to `probability` float32 (N, H, W)."""
    session = Session(path, threads=threads, untrusted=untrusted)
    session.demand({"image": ("tensor(uint8)", 4)}, {"probability": ("tensor(float)", 3)})
    return Segmenter(session)


class _InProcess:
    """ONNX Runtime here."""

    def __init__(self, path: Path, threads: int) -> None:
        self._session = _open(path, threads)
        self.takes = _named(self._session.get_inputs())
        self.gives = _named(self._session.get_outputs())

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], ...]:
        return tuple(self._session.run(None, dict(inputs)))


class _Sandboxed:
    """A process without rights that ends with this object. It answers one question at a time, whoever asks."""

    def __init__(self, path: Path) -> None:
        self._turn = threading.Lock()  # for asking alone: an end takes no lock
        try:
            self._model = runner.open_for_good(path, UNTRUSTED)
        except RefusedError as error:
            raise ModelError(f"{path}: {error}") from None
        self.takes = _named(self._model.takes)
        self.gives = _named(self._model.gives)

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], ...]:
        with self._turn:
            return self._model.ask(*(inputs[name] for name in self.takes)).outputs


def _named(slots: Any) -> dict[str, tuple[str, int]]:
    return {slot.name: (slot.type, len(slot.shape)) for slot in slots}


def _open(path: Path, threads: int) -> Any:
    """A session of the very bytes that were read and found harmless."""
    try:
        content = runner.read_model(path)
        onnxfile.check(content)
    except RefusedError as error:
        remedy = ": copy it again, or train again" if error.verdict == "not a model" else ""
        raise ModelError(f"{printable(str(path))}: {error}{remedy}") from None
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send events to its makers
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the core to others
    options.enable_mem_pattern = False  # planning memory ahead made nothing faster, and kept a seventh more of it
    options.log_severity_level = _QUIET
    options.add_session_config_entry("session.load_model_format", "ONNX")  # or a file could choose another reader
    try:
        how = {"providers": ["CPUExecutionProvider"], "enable_fallback": False}  # that prints, and tries the same again
        return onnxruntime.InferenceSession(content, options, **how)
    except MemoryError:
        raise
    except Exception as error:
        what = f"not a readable ONNX file ({_first_line(error)})"
        raise ModelError(f"{printable(str(path))}: {what}: copy it again, or train again") from None


def _open_in_worker(path: Path, untrusted: bool) -> Session:
    return Session(path, threads=1, untrusted=untrusted)


def _described(slots: Mapping[str, tuple[str, int]]) -> str:
    names = (f"{name} {kind} of {axes} axes" for name, (kind, axes) in slots.items())
    return ", ".join(names) or "nothing"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
