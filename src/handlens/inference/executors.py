"""Who does the work: this process, or several of this machine. `inference.cluster` has those of other machines.

Each process does one item at a time, so that it is known what a process died of.
"""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from handlens.errors import HandlensError
from handlens.types import Progress

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
"""Variables of the environment that keep libraries to one thread; they are read when a library is loaded, so they are
set before a process starts."""


@dataclass(frozen=True, slots=True)
class MapJob(Generic[Item, Result]):
    """What `Executor.map` is asked for."""

    make: Callable[[Path | None], Callable[[Item], Result]]
    items: Sequence[Item]
    out: Path | None
    name: Callable[[Item], str]
    survive: Callable[[Item, HandlensError], Result] | None


class Executor(ABC):
    """Who does the work. Results do not depend on it, nor the files that are left."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_here(self) -> bool:
        """Whether all is done in this process, which can then report parts of an item."""

    @abstractmethod
    def run(self, job: MapJob[Item, Result]) -> Generator[tuple[int, Result], None, None]:
        """`map`, for those who implement it."""

    def map(
        self,
        make: Callable[[Path | None], Callable[[Item], Result]],
        items: Sequence[Item],
        *,
        out: Path | None = None,
        name: Callable[[Item], str] = str,
        survive: Callable[[Item, HandlensError], Result] | None = None,
    ) -> Generator[tuple[int, Result], None, None]:
        """Index and result of every item, once, as they come.

        `make` is given the folder for the files of items and gives the function, once in each process. Files are in
        `out` before their item's result is. That folder is another one where the process has another disk: they are
        brought to `out`. Errors, `name`, `survive` and closing are as in `map_in_processes`.
        """
        return self.run(MapJob(make, items, out, name, survive))

    def each(
        self, work: Callable[[Path, Item], Result], items: Sequence[Item], folder: Path, progress: Progress
    ) -> list[Result]:
        """Results in the order of the items, whose work writes files into the folder that it is given."""
        results: dict[int, Result] = {}
        progress(0, len(items))
        with closing(self.map(partial(_in_folder, work), items, out=folder)) as found:
            for index, result in found:
                results[index] = result
                progress(len(results), len(items))
        return [results[index] for index in range(len(items))]


@dataclass(frozen=True, slots=True)
class Processes(Executor):
    """So many processes of this machine; one is this process itself."""

    workers: int = 1

    @property
    def is_here(self) -> bool:
        return self.workers <= 1

    def run(self, job: MapJob[Item, Result]) -> Generator[tuple[int, Result], None, None]:
        make = partial(job.make, job.out)
        return map_in_processes(make, job.items, workers=self.workers, name=job.name, survive=job.survive)


def _in_folder(work: Callable[[Path, Item], Result], folder: Path | None) -> Callable[[Item], Result]:
    assert folder is not None  # `each` gives one
    return partial(work, folder)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process and our end of the pipe to it."""

    process: SpawnProcess
    pipe: Connection[Any, Any]


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(
    make: Callable[[], Callable[[Item], Result]],
    items: Sequence[Item],
    *,
    workers: int,
    name: Callable[[Item], str] = str,
    survive: Callable[[Item, HandlensError], Result] | None = None,
) -> Generator[tuple[int, Result], None, None]:
    """Index and result of every item, as they come; `make` gives the function, once in each process.

    An exception of the function is raised here. A process that ends before its answer raises HandlensError with the
    `name` of its item; with `survive` it is given that error and says what the item's result is, and a new process goes
    on with the rest. With one worker all is done in this process, in order. Close the generator to stop early.
    """
    if workers <= 1:
        function = make()
        for index, item in enumerate(items):
            yield index, function(item)
        return
    payload = pickled(make)
    started: list[Worker] = []

    def start(number: int) -> list[Worker]:
        with threads_each(1), held_interrupt():
            started.extend(start_worker(payload) for _ in range(number))
        return started[-number:]

    try:
        yield from _share(items, start(min(workers, len(items))) if items else [], name, survive, start)
    finally:
        end_workers(started)


def _share(
    items: Sequence[Item],
    workers: Sequence[Worker],
    name: Callable[[Item], str],
    survive: Callable[[Item, HandlensError], Any] | None,
    start: Callable[[int], list[Worker]],
) -> Iterator[tuple[int, Any]]:
    from multiprocessing.connection import wait

    processes: dict[Any, SpawnProcess] = {worker.pipe: worker.process for worker in workers}
    waiting = iter(range(len(items)))
    busy: dict[Any, int] = {pipe: next(waiting) for pipe in processes}  # there are no more processes than items
    for pipe, index in busy.items():
        _send(pipe, items[index])
    while busy:
        ready: list[Any] = wait(list(busy))
        for pipe in ready:
            index = busy.pop(pipe)
            try:
                done, value = pickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                death = death_of(processes[pipe], name(items[index]))
                if survive is None:
                    raise death from None
                done, value = True, survive(items[index], death)
                (fresh,) = start(1)
                processes[fresh.pipe], pipe = fresh.process, fresh.pipe
            following = next(waiting, None)
            if following is not None:
                busy[pipe] = following
                _send(pipe, items[following])  # before the result is used: nobody waits for that
            if not done:
                raise value
            yield index, value


def pickled(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:  # whatever the value's own code raises
        what = f"this predictor cannot be pickled ({type(error).__name__}: {error})"
        raise HandlensError(f"{what}: use one worker") from error


def _send(pipe: Connection[Any, Any], item: object) -> None:
    """Hand over an item; a process that is gone is noticed when its answer is read."""
    content = pickled(item)
    with suppress(OSError):
        pipe.send_bytes(content)


def death_of(process: SpawnProcess, name: str) -> HandlensError:
    """What became of a process that closed its pipe without an answer."""
    process.join()
    if process.exitcode == -9:
        what = "the process working on it was killed, most likely because memory ran out: use fewer workers"
    else:
        what = f"the process working on it ended with exit status {process.exitcode}: use one worker to see why"
    return HandlensError(f"{name}: {what}")


def start_worker(payload: bytes) -> Worker:
    """A new process; never forked: OpenCV's threads do not survive that."""
    import logging
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, payload, logging.root.manager.disable), daemon=True)
    try:
        process.start()
    finally:
        theirs.close()  # so that the pipe ends when the process does
    return Worker(process, ours)


def end_workers(workers: Sequence[Worker]) -> None:
    """End them at once, whatever they do: an unfinished item leaves nothing."""
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


@contextmanager
def threads_each(count: int) -> Iterator[None]:
    """Processes started meanwhile use so many threads."""
    before = {variable: os.environ.get(variable) for variable in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(count)))
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                del os.environ[variable]
            else:
                os.environ[variable] = value


@contextmanager
def held_interrupt() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end; processes started meanwhile never hear Ctrl-C: we end them ourselves."""
    import signal
    import threading

    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # the main thread alone hears Ctrl-C
        with _blocked_interrupt():
            yield
        return
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    before = {number: signal.signal(number, lambda number, _frame: heard.append(number)) for number in numbers}
    try:
        with _blocked_interrupt():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in heard:
            signal.raise_signal(told)


@contextmanager
def _blocked_interrupt() -> Iterator[None]:
    """Processes inherit what this thread blocks. Blocking alone does not help us: any other thread may be told."""
    import signal
    from multiprocessing import resource_tracker

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would end the blocking when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the other process -----------------------------------------------------------------------------------------


def _work(pipe: Connection[Any, Any], payload: bytes, silenced: int) -> None:
    """Answer items until the pipe is closed; an error is an answer too."""
    import logging
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(silenced)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    function: Callable[[Any], Any] | None = None
    while True:
        try:
            content = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            function = function or pickle.loads(payload)()
            answer = pickle.dumps((True, function(pickle.loads(content))))
        except Exception as error:
            answer = packed_error(error)
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


def _leave_with_parent() -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def packed_error(error: Exception) -> bytes:
    """The error as it is, where it can travel; otherwise its words. One of ours needs no traceback, others do."""
    import traceback

    words = "".join(traceback.format_exception(error)).rstrip()
    if not isinstance(error, HandlensError):
        error.add_note(words)
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)
        return packed
    except Exception:
        spoken = HandlensError(str(error)) if isinstance(error, HandlensError) else RuntimeError(words)
        return pickle.dumps((False, spoken))
