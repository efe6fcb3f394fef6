"""Ctrl-C and SIGTERM as a flag that the loop checks between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Flag(Protocol):
    """A threading.Event, or that of multiprocessing where other processes ask."""

    def set(self) -> None: ...
    def is_set(self) -> bool: ...


class TrainingStopped(KeyboardInterrupt):
    """The training was stopped between two steps; what it left can be used and resumed."""


@contextmanager
def heard(flag: Flag) -> Iterator[None]:
    """Within, the first Ctrl-C or SIGTERM sets the flag; the second Ctrl-C ends at once."""
    if threading.current_thread() is not threading.main_thread():  # the main thread alone may ask for signals
        yield
        return

    def hear(number: int, _frame: Any) -> None:
        if flag.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        flag.set()

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
