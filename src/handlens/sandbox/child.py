"""The process that holds an untrusted model: locks itself, reads requests, writes answers, knows nothing else.

It is started in an empty folder, and empties its environment. Requests come on its standard input and answers leave on
its standard output, as frames.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import IO, Any

from handlens.sandbox import guard
from handlens.sandbox.frames import KINDS, MAX_ANSWER, pack_arrays, read_frame, take_streams, unpack_arrays, write_frame
from handlens.sandbox.verdicts import RefusedError, Verdict, harmless

_QUIET = 4
_LACK = ("failed to allocate", "bad_alloc", "bad allocation", "cannot allocate")


def main() -> None:
    """Serve one model until the requests end. What goes wrong is an answer too, unless the process dies of it."""
    requests, answers = take_streams()
    try:
        lock_up(requests, answers)
        _serve(requests, answers)
    except RefusedError as error:
        write_frame(answers, {"refused": [error.verdict, error.why]})
    except MemoryError:
        write_frame(answers, {"refused": ["out of memory", "it needs more memory than is allowed"]})
    except Exception as error:  # such as a name that is no text
        write_frame(answers, {"refused": ["fails", f"it cannot be handled ({harmless(str(error))})"]})


def lock_up(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Give up everything that the first request says, and say what holds."""
    order, _ = read_frame(requests)
    limits = order["limits"]
    isolated = guard.isolate()
    guards = [*isolated, guard.check_freed_memory(), *guard.limit(seconds=int(limits["cpu_seconds"]))]
    load_libraries()
    guards += guard.lock(memory_mib=int(limits["memory_mib"]), descriptors=4, isolated=isolated)
    write_frame(answers, {"guards": [[g.name, g.holds, g.how] for g in guards]})


def load_libraries() -> None:
    """Load all that is needed later, and forget what was said to the libraries: afterwards no file can be opened."""
    import onnxruntime

    from handlens.sandbox import onnxfile  # noqa: F401

    onnxruntime.get_available_providers()
    os.environ.clear()


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    from handlens.sandbox import onnxfile

    _, content = read_frame(requests)
    onnxfile.check(content)
    session = _open(content)
    del content
    slots = {
        "takes": [_slot(slot) for slot in session.get_inputs()],
        "gives": [_slot(slot) for slot in session.get_outputs()],
    }
    write_frame(answers, slots)
    names = [slot.name for slot in session.get_inputs()]
    while (frame := read_frame(requests))[0]:
        header, payload = frame
        write_frame(answers, *_answer(session, names, header, payload))


def _open(content: bytes) -> Any:
    """A session that gives all memory back after every operator, to an allocator that clears it.

    Some operators do not fill their output, such as `MatMulInteger` over no columns: what lay there would be what the
    model left in an earlier question, and it could count them.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = _QUIET
    options.add_session_config_entry("session.load_model_format", "ONNX")  # or a file could choose another reader
    try:
        how = {"providers": ["CPUExecutionProvider"], "enable_fallback": False}  # that prints, and tries the same again
        return onnxruntime.InferenceSession(content, options, **how)
    except Exception as error:
        raise _refusal("not a model", "cannot be loaded", error) from None


def _answer(session: Any, names: Sequence[str], header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Run once. Nobody asks how long it took: who measures, waits for the answer."""
    import numpy as np

    arrays = unpack_arrays(header["arrays"], payload)
    try:
        outputs = session.run(None, dict(zip(names, arrays, strict=True)))
    except Exception as error:
        shapes = " and ".join(" x ".join(map(str, array.shape)) for array in arrays)
        raise _refusal("fails", f"fails on {shapes}", error) from None
    if not all(isinstance(output, np.ndarray) and output.dtype.str in KINDS for output in outputs):
        raise RefusedError("wrong outputs", "it gives something that is no array of numbers")
    if (size := sum(output.nbytes for output in outputs)) > MAX_ANSWER:
        raise RefusedError("wrong outputs", f"it gives {size:,} bytes for one question; at most {MAX_ANSWER:,}")
    described, content = pack_arrays(outputs)
    return {"arrays": described}, content


def _refusal(verdict: Verdict, what: str, error: Exception) -> RefusedError:
    """The runtime's error in our words."""
    text = str(error)
    if isinstance(error, MemoryError) or any(word in text.lower() for word in _LACK):
        return RefusedError("out of memory", f"{what}: it needs more memory than is allowed")
    return RefusedError(verdict, f"{what} ({harmless(_plain(text))})")


def _plain(text: str) -> str:
    """An error of the runtime without its number, the place in its source and the signature of a function there.

    >>> _plain("[ONNXRuntimeError] : 1 : FAIL : /src/model.cc:256 Model::Model(Proto&&, const Path&) Unsupported IR")
    'Unsupported IR'
    """
    said = (text.partition("Status Message:")[2] or text).strip()
    said = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", said)
    return re.sub(r"^/\S+:\d+ .*?\) (?=\S)", "", said)


def _slot(slot: Any) -> list[Any]:
    shape = [size if isinstance(size, int) else None for size in slot.shape]
    return [harmless(slot.name), harmless(slot.type), shape]
