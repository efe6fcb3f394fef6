"""Prefetching: items are computed ahead by a background thread that ends with its consumer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True)
class WaitTime:
    """Seconds spent waiting for values."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, so that it cannot be taken for an error or for the end."""

    value: Any


def prefetch(
    make: Callable[[threading.Event], Iterable[Value]], *, room: int, waiting: WaitTime | None = None
) -> Generator[Value, None, None]:
    """The values of `make`, in order, made by a thread that keeps at most `room` of them ready.

    `make` is given an event that is set when no more are wanted, for those whose values take long. What it raises is
    raised where the value is asked for. Close the generator to end the thread.

    >>> list(prefetch(lambda _ended: map(abs, (-3, 2)), room=1))
    [3, 2]
    """
    waiting = WaitTime() if waiting is None else waiting
    ready: queue.Queue[_Value | BaseException | None] = queue.Queue(room)
    ended = threading.Event()
    thread = threading.Thread(target=_fill, args=(make, ready, ended), daemon=True)
    thread.start()
    try:
        while (got := _get(ready, waiting)) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got.value
    finally:
        ended.set()
        while thread.is_alive():  # it may be waiting for room
            try:
                ready.get(timeout=0.01)
            except queue.Empty:
                thread.join(0.01)


def _get(ready: queue.Queue[_Value | BaseException | None], waiting: WaitTime) -> _Value | BaseException | None:
    before = time.perf_counter()
    got = ready.get()
    waiting.seconds += time.perf_counter() - before
    return got


def _fill(
    make: Callable[[threading.Event], Iterable[Any]],
    ready: queue.Queue[_Value | BaseException | None],
    ended: threading.Event,
) -> None:
    """Put value after value, then None for the end; or the error."""
    try:
        for value in make(ended):
            ready.put(_Value(value))
            if ended.is_set():
                return
        ready.put(None)
    except BaseException as error:  # raised where the value is asked for
        ready.put(error)
