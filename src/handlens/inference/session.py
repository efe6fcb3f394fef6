"""ONNX files ready to run. The one place that knows ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError, ModelError
from handlens.inference.executors import usable_cores
from handlens.io.gate import file_size, is_there

_QUIET = 4  # ONNX Runtime writes nothing to stderr: what goes wrong is reported by us


class Session:
    """One ONNX file, ready to answer.

    A copy that is pickled for another process is opened anew there with one thread: together they have a core each.
    """

    def __init__(self, path: Path, *, threads: int | None = None) -> None:
        self.path = path
        self.threads = threads or usable_cores()
        self._session = _open(path, self.threads)

    def __reduce__(self) -> tuple[Callable[[Path], Session], tuple[Path]]:
        return _open_in_worker, (self.path,)

    def demand(self, inputs: Mapping[str, tuple[str, int]], outputs: Mapping[str, tuple[str, int]]) -> None:
        """ModelError where the file does not take and give these names, each with its type and number of axes."""
        for words, expected, have in (
            ("takes", inputs, self._session.get_inputs()),
            ("gives", outputs, self._session.get_outputs()),
        ):
            found = {slot.name: (slot.type, len(slot.shape)) for slot in have}
            if found != dict(expected):
                what = f"{words} {_described(found)}; expected {_described(expected)}"
                raise ModelError(f"{self.path}: not a model for this: it {what}")

    def __call__(self, **inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """The outputs in the file's order."""
        try:
            return tuple(self._session.run(None, inputs))
        except MemoryError:
            raise
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


def open_segmenter(path: Path, *, threads: int | None = None) -> Segmenter:
    """The ONNX file of a mask challenge: `image` uint8 (N, H, W, 3) to `probability` float32 (N, H, W)."""
    session = Session(path, threads=threads)
    session.demand({"image": ("tensor(uint8)", 4)}, {"probability": ("tensor(float)", 3)})
    return Segmenter(session)


def _open(path: Path, threads: int) -> Any:
    if not is_there(path):
        raise ModelError(f"{path.parent}: no {path.name} in it: name a folder that `handlens train` wrote")
    try:
        file_size(path)
    except DataError as error:
        raise ModelError(str(error)) from None
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send events to its makers
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the core to others
    options.enable_mem_pattern = False  # planning memory ahead made nothing faster, and kept a seventh more of it
    options.log_severity_level = _QUIET
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except MemoryError:
        raise
    except Exception as error:
        what = f"not a readable ONNX file ({_first_line(error)})"
        raise ModelError(f"{path}: {what}: copy it again, or train again") from None


def _open_in_worker(path: Path) -> Session:
    return Session(path, threads=1)


def _described(slots: Mapping[str, tuple[str, int]]) -> str:
    names = (f"{name} {kind} of {axes} axes" for name, (kind, axes) in slots.items())
    return ", ".join(names) or "nothing"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
