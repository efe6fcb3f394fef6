"""What a process finds when it starts, made usable: closed streams, terminals without UTF-8, signals, little memory."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any

_LACK = ("cannot allocate memory", "failed to map", "can't start new thread", "bad_alloc", "insufficient memory")
"""How libraries say that memory ran out, where they do not raise MemoryError."""


LEAST_MEMORY = 1 << 30
"""Address space in bytes: with 350 MiB OpenBLAS dies by a signal when it is loaded, with 500 a thread pool hangs."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: everything that hears Ctrl-C stops in the same way."""


def prepare() -> None:
    """Open what is closed, let every letter be printed, and hear SIGTERM as Ctrl-C is heard."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal does not have is shown as an escape
            stream.reconfigure(errors="backslashreplace")
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _terminate)
    _refuse_little_memory()


def exit_status(error: BaseException) -> int:
    """As shells count it: 128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error of a library means that there is not enough memory."""
    if isinstance(error, MemoryError):
        return True
    said = f"{error}".lower()
    return isinstance(error, ImportError | RuntimeError | OSError) and any(words in said for words in _LACK)


def flush() -> bool:
    """Write what is still kept for stdout; False where that is not possible, which Python would only mention."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python does not try again
        return False
    return True


def _open_streams() -> None:
    """A closed descriptor is opened, to nothing: the next file would get its number, and what libraries print to it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115


def _refuse_little_memory() -> None:
    """Libraries die or hang, without a word, where the address space is limited to little."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
        found, needed = f"{limit >> 20:,} MiB (ulimit -v)", f"{LEAST_MEMORY >> 20:,} MiB"
        print(f"handlens: memory is limited to {found}; expected at least {needed}: raise the limit", file=sys.stderr)
        raise SystemExit(1)


def _terminate(_number: int, _frame: Any) -> None:
    raise Terminated
