"""Work shared among machines by Dask: what is sent, what comes back, and who is asked again when a worker dies.

The predictor travels once to each worker, with the bytes of its network, so that a worker needs handlens and the data
but none of the client's files. What a worker writes comes back with its result. Dask computes a result anew that was
lost with its worker; here it is decided what a case did that workers died of.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
import time
import uuid
from asyncio import CancelledError
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from handlens.errors import HandlensError
from handlens.inference.cluster_worker import Files, forget, packed, same, work_on
from handlens.inference.executors import Executor, MapJob, pickled
from handlens.io.files import replacing

if TYPE_CHECKING:
    from distributed import Client, Future


Item = TypeVar("Item")
Result = TypeVar("Result")
Key = tuple[str, int, int]

TRIES = 3
"""Workers that may die of an item; the last try is made while nothing else is under way, so that it is not another's
fault."""

AHEAD = 2
"""Items given out for each thread: one to work on, one that is there when that is done."""

AHEAD_SECONDS = 0.1
"""More are given out where they end so fast: messages are collected for up to 10 ms at each of their stations."""

AHEAD_MOST = 32
"""For each thread."""

PACE_SECONDS = 0.1
"""Over which it is counted how many items end."""

LEFT_SECONDS = 10.0
"""How long there may be no worker before it is said."""

LOOK_AGAIN = 2.0
"""Seconds after which it is asked again how many threads there are: workers come and go."""


class DaskExecutor(Executor):
    """The workers of a Dask scheduler."""

    @property
    def is_here(self) -> bool:
        return False

    def __init__(self, client: Client, tell: Callable[[str], None]) -> None:
        self.client, self.tell = client, tell

    def run(self, job: MapJob[Item, Result]) -> Generator[tuple[int, Result], None, None]:
        run = _Run(self.client, packed(job.make), job.items, job.name, job.survive, self.tell)
        try:
            for index, files, value in run.results():
                if job.out is not None:
                    for path, content in files:
                        with replacing(job.out / path) as temporary:
                            temporary.write_bytes(content)
                yield index, value
        finally:
            run.close()


class _Pace:
    """How many items end in a second, lately."""

    def __init__(self) -> None:
        self.rate, self.ended, self.since = 0.0, 0, time.monotonic()

    def count(self, ended: int) -> None:
        self.ended += ended
        passed = time.monotonic() - self.since
        if passed > PACE_SECONDS:
            self.rate, self.ended, self.since = self.ended / passed, 0, time.monotonic()


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        return error


class _Run:
    """One call of `map`: what waits, what is under way, and how often workers died of each item."""

    def __init__(
        self,
        client: Client,
        payload: bytes,
        items: Sequence[Any],
        name: Callable[[Any], str],
        survive: Callable[[Any, HandlensError], Any] | None,
        tell: Callable[[str], None],
    ) -> None:
        from distributed import as_completed

        self.client, self.payload, self.items, self.name, self.survive = client, payload, items, name, survive
        self.tell = tell
        self.token = f"handlens-{hashlib.sha256(payload).hexdigest()[:12]}-{uuid.uuid4().hex[:8]}"
        self.function: Future[Any] | None = None
        self.fresh: Iterator[int] = iter(range(len(items)))
        self.waiting: deque[int] = deque()  # the next one, and those that are asked again: a list of all would grow
        self.suspects: deque[int] = deque()
        self.deaths: Counter[int] = Counter()
        self.tries = 0
        self.under_way: dict[Key, tuple[Future[Any], int, bool]] = {}
        self.shunned: set[str] = set()
        self.completed: Any = as_completed(loop=client.loop, raise_errors=False)
        self.threads, self.looked = 1, float("-inf")
        self.known: set[str] = set()
        self.pace = _Pace()
        self.bound: dict[Key, set[str]] = {}
        self.watched = time.monotonic()
        self.ended = threading.Event()
        threading.Thread(target=self._say_when_all_leave, daemon=True).start()

    def results(self) -> Generator[tuple[int, Files, Any], None, None]:
        while True:
            self._give_out()
            if not self.under_way:
                return
            found: list[tuple[int, Files, Any]] = []
            failure: BaseException | None = None
            for key, content in self._finished():
                if key not in self.under_way:  # it was given out anew
                    continue
                _, index, alone = self.under_way.pop(key)
                self.bound.pop(key, None)
                try:
                    taken = self._take(index, key, content, alone)
                except Exception as error:
                    failure = failure or error
                    continue
                found += [(index, *taken)] if taken is not None else []
            if failure is None:
                self._give_out()  # before results are used: nobody waits for that
            yield from found
            if failure is not None:
                raise failure

    def _finished(self) -> list[tuple[Key, Any]]:
        """What has ended since: bytes, or the error in their place. At least one; together, for each asking costs."""
        while not self.completed.has_ready():
            with self.completed.thread_condition:
                self.completed.thread_condition.wait(0.05)
            self._watch()
        futures = self.completed.next_batch(block=False)
        self.pace.count(len(futures))
        try:
            contents = self.client.gather(futures)
        except (Exception, CancelledError):
            contents = [_outcome(future) for future in futures]
        for future in futures:
            future.release()
        return list(zip((future.key for future in futures), contents, strict=True))

    def _say_when_all_leave(self) -> None:
        """A thread's work, for to gather what was lost with a worker waits until another computes it again."""
        seen, told = time.monotonic(), False
        while not self.ended.wait(LOOK_AGAIN):
            try:
                there = bool(self.client.nthreads())
            except (Exception, CancelledError):  # what is under way tells that the scheduler is gone
                return
            if there:
                seen, told = time.monotonic(), False
            elif time.monotonic() - seen > LEFT_SECONDS and not told:
                told = True
                address = self.client.scheduler.address if self.client.scheduler else "ADDRESS"
                remedy = f"start some with `dask worker {address} --nthreads 1`, or stop and resume later"
                self.tell(f"all workers have left the cluster: it goes on when some join; {remedy}")

    def _watch(self) -> None:
        """Give out anew what waits for workers that have left."""
        if time.monotonic() - self.watched < LOOK_AGAIN:
            return
        self.watched = time.monotonic()
        try:
            there = set(self.client.nthreads())
        except (Exception, CancelledError):  # what is under way tells that the scheduler is gone
            return
        for key, (future, index, alone) in list(self.under_way.items()):
            bound = self.bound.get(key)
            if bound and there and not bound & there:
                self.client.cancel([future], force=True)
                future.release()
                del self.under_way[key], self.bound[key]
                if there <= self.shunned:
                    raise HandlensError("no worker has room on its disk, and those that had have left: free some space")
                (self.suspects if alone else self.waiting).appendleft(index)
                self._give_out()

    def close(self) -> None:
        """Nothing is left to do on the cluster, whatever is under way, and nothing of the predictor."""
        self.ended.set()
        with suppress(Exception):  # the scheduler may be gone
            self.client.cancel([future for future, *_ in self.under_way.values()], force=True)
        for future, *_ in self.under_way.values():
            future.release()
        if self.function is not None:
            self.function.release()
        with suppress(Exception):
            self.client.run(forget, self.token, wait=False, on_error="ignore")

    def _give_out(self) -> None:
        room = self._room() if self._has_more() else 0
        while len(self.under_way) < room and self._has_more():
            self._submit(self.waiting.popleft())
        if self.suspects and not self.under_way:
            self._submit(self.suspects.popleft(), alone=True)

    def _room(self) -> int:
        threads = self._count_threads()
        return min(AHEAD_MOST * threads, AHEAD * threads + int(self.pace.rate * AHEAD_SECONDS))

    def _has_more(self) -> bool:
        if not self.waiting:
            self.waiting.extend(islice(self.fresh, 1))
        return bool(self.waiting)

    def _count_threads(self) -> int:
        if time.monotonic() - self.looked > LOOK_AGAIN:
            with suppress(Exception, CancelledError):  # what is under way tells that the scheduler is gone
                known = self.client.nthreads()
                self.threads = sum(count for address, count in known.items() if address not in self.shunned) or 1
                if known.keys() - self.known:  # or Dask would ask the one that has the predictor, before all others
                    self.client.replicate([self._function()])
                self.known |= known.keys()
            self.looked = time.monotonic()
        return self.threads

    def _submit(self, index: int, *, alone: bool = False) -> None:
        self.tries += 1
        key = self.token, index, self.tries  # Dask counts what has the same first word together
        where = {"workers": self._others()} if self.shunned else {}
        if where:
            self.bound[key] = set(where["workers"])
        future = self.client.submit(
            work_on, self._function(), self.token, pickled(self.items[index]), key=key, pure=False, **where
        )
        self.under_way[key] = future, index, alone
        self.completed.add(future)

    def _function(self) -> Future[Any]:
        """The predictor on the cluster: as a task, so that Dask makes it anew where the workers that had it died."""
        import dask

        if self.function is None:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
                self.function = self.client.submit(
                    same, self.payload, key=(f"{self.token}-function", self.tries), pure=False
                )
        return self.function

    def _others(self) -> list[str]:
        return [address for address in self.client.nthreads() if address not in self.shunned]

    def _take(self, index: int, key: Key, content: Any, alone: bool) -> tuple[Files, Any] | None:
        """Files and result of an item; None where it is tried again."""
        from distributed.scheduler import KilledWorker

        if isinstance(content, bytes):
            state, value, extra = pickle.loads(content)
            if state == "done":
                return extra, value
            if state == "full":
                self._exclude_worker(index, extra, value)
                return None
            raise value
        if isinstance(content, KilledWorker):
            return self._handle_death(index, content, alone, own=content.task == key)
        if isinstance(content, CancelledError | FutureCancelled):
            raise self._gone()
        if isinstance(content, ModuleNotFoundError) and (content.name or "").split(".")[0] == "handlens":
            raise HandlensError("a worker of the cluster has no handlens: install the same version there")
        raise content

    def _handle_death(self, index: int, error: Any, alone: bool, *, own: bool) -> tuple[Files, Any] | None:
        """A worker died. Items that only waited there are not told from the one that it worked on: ask again."""
        if not own:  # it died with the predictor, before it began
            self.function = None
        self.deaths[index] += error.allowed_failures + 1
        if alone and self.deaths[index] >= TRIES:
            what = f"{self.deaths[index]} workers died while they worked on it, the last with nothing else to do"
            death = HandlensError(f"{self.name(self.items[index])}: {what}: look for its memory and at their logs")
            if self.survive is None:
                raise death
            return (), self.survive(self.items[index], death)
        (self.suspects if self.deaths[index] >= TRIES - 1 else self.waiting).append(index)
        return None

    def _exclude_worker(self, index: int, address: str, error: BaseException) -> None:
        """A worker's disk is full: others do what it cannot."""
        self.shunned.add(address)
        if not self._others():
            raise HandlensError(f"no worker has room on its disk; the last, {address}: {error}")
        self.looked = float("-inf")
        self.waiting.appendleft(index)

    def _gone(self) -> HandlensError:
        where = self.client.scheduler.address if self.client.scheduler else "of the cluster"
        what = f"the scheduler {where} is gone, and with it what was under way"
        return HandlensError(f"{what}: start it again, then say the same again: what is finished is kept")
