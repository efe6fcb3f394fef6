"""Processes that work on one attempt at a time and can be ended while they do, for work that must not take too long."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from handlens.errors import HandlensError
from handlens.inference.cost_model import Attempt
from handlens.inference.executors import (
    Worker,
    death_of,
    end_workers,
    held_interrupt,
    pickled,
    start_worker,
    threads_each,
)
from handlens.inference.schedule import Outcome

LoadedT = TypeVar("LoadedT", covariant=True)

DEATHS_AT_START = 3
"""So many processes may die before they are loaded; then there is no use in starting another."""


class TaskWorker(Protocol[LoadedT]):
    """What a process does: says what it loaded, then works on attempts."""

    def loaded(self) -> LoadedT: ...
    def __call__(self, attempt: Attempt, /) -> Any: ...


@dataclass(slots=True)
class _Slot:
    worker: Worker
    loaded: bool = False
    busy: bool = True


class ProcessPool(Generic[LoadedT]):
    """A `schedule.WorkerPool` of processes; `make` gives the worker, once in each of them.

    Close it to end them all. What fails while a worker is made is raised by `wait`.
    """

    def __init__(self, make: Callable[[], TaskWorker[LoadedT]], *, size: int, threads: int) -> None:
        self.size, self.threads = size, threads
        self.first: LoadedT | None = None
        """What the first process said that it had loaded; None until it did."""
        self._payload = pickled(_Starter(make))
        self._deaths = 0
        self._slots: list[_Slot] = []
        try:
            for _ in range(size):
                self._slots.append(_Slot(self._start()))
        except BaseException:
            self.close()
            raise

    def ready(self) -> list[int]:
        return [number for number, slot in enumerate(self._slots) if slot.loaded and not slot.busy]

    def submit(self, slot: int, attempt: Attempt, /) -> None:
        self._slots[slot].busy = True
        self._send(self._slots[slot].worker, attempt)

    def wait(self, seconds: float, /) -> list[Outcome]:
        from multiprocessing.connection import wait

        pipes = {slot.worker.pipe: number for number, slot in enumerate(self._slots) if slot.busy}
        found = [self._receive(pipes[pipe]) for pipe in wait(list(pipes), seconds)]  # type: ignore[index]
        return [outcome for outcome in found if outcome is not None]

    def kill(self, slot: int, /) -> None:
        self._restart(slot)

    def close(self) -> None:
        end_workers([slot.worker for slot in self._slots])
        self._slots = []

    def _receive(self, number: int) -> Outcome | None:
        slot = self._slots[number]
        try:
            done, value = pickle.loads(slot.worker.pipe.recv_bytes())
        except (EOFError, OSError):
            return self._handle_death(number)
        slot.busy = False
        if slot.loaded:
            return Outcome(number, done, value) if done else Outcome(number, False, why=_words(value))
        if not done:
            raise value
        slot.loaded = True
        self.first = value if self.first is None else self.first
        return None

    def _handle_death(self, number: int) -> Outcome | None:
        """Restart a process that died; one that dies while loading too often ends the run."""
        slot = self._slots[number]
        if slot.loaded:
            self._restart(number)
            return Outcome(number, False, died=True)
        self._deaths += 1
        if self._deaths >= DEATHS_AT_START:
            raise death_of(slot.worker.process, "loading")
        self._restart(number)
        return None

    def _restart(self, number: int) -> None:
        end_workers([self._slots[number].worker])
        self._slots[number] = _Slot(self._start())

    def _start(self) -> Worker:
        with threads_each(self.threads), held_interrupt():
            worker = start_worker(self._payload)
        self._send(worker, None)
        return worker

    @staticmethod
    def _send(worker: Worker, item: Attempt | None) -> None:
        content = pickled(item)
        try:
            worker.pipe.send_bytes(content)
        except OSError:  # it is gone, which is noticed when its answer is read
            return


def _words(error: BaseException) -> str:
    """One line for the user; the kind of error too, where it is none of ours."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first if isinstance(error, HandlensError) else f"{type(error).__name__}: {first}"


@dataclass(frozen=True, slots=True)
class _Starter:
    """The function of a process: with None it says what it loaded."""

    make: Callable[[], TaskWorker[Any]]

    def __call__(self) -> Callable[[Attempt | None], Any]:
        worker = self.make()
        return lambda attempt: worker.loaded() if attempt is None else worker(attempt)
