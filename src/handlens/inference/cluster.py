"""Work shared among machines by Dask: what is sent, what comes back, and who is asked again when a worker dies.

The predictor travels once to each worker, with the bytes of its network, so that a worker needs handlens and the data
but none of the client's files. What a worker writes comes back with its result. Dask computes a result anew that was
lost with its worker; here it is decided what a case did that workers died of.
"""

from __future__ import annotations

import errno
import hashlib
import io
import pickle
import shutil
import tempfile
import threading
import time
import uuid
from asyncio import CancelledError
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from handlens.errors import DiskFullError, HandlensError
from handlens.inference.executors import packed_error, pickled
from handlens.io.files import replacing

if TYPE_CHECKING:
    from distributed import Client, Future

    from handlens.inference.session import Session

Item = TypeVar("Item")
Result = TypeVar("Result")
Files = tuple[tuple[str, bytes], ...]
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

LOOK_AGAIN = 2.0
"""Seconds after which it is asked again how many threads there are: workers come and go."""


class DaskExecutor:
    """An `Executor`: the workers of a Dask scheduler."""

    is_here = False

    def __init__(self, client: Client) -> None:
        self.client = client

    def map(
        self,
        make: Callable[[Path | None], Callable[[Item], Result]],
        items: Sequence[Item],
        *,
        out: Path | None = None,
        name: Callable[[Item], str] = str,
        survive: Callable[[Item, HandlensError], Result] | None = None,
    ) -> Generator[tuple[int, Result], None, None]:
        run = _Run(self.client, packed(make), items, name, survive)
        try:
            for index, files, value in run.results():
                if out is not None:
                    for path, content in files:
                        with replacing(out / path) as temporary:
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
    ) -> None:
        from distributed import as_completed

        self.client, self.payload, self.items, self.name, self.survive = client, payload, items, name, survive
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

    def results(self) -> Generator[tuple[int, Files, Any], None, None]:
        while True:
            self._give_out()
            if not self.under_way:
                return
            found: list[tuple[int, Files, Any]] = []
            failure: BaseException | None = None
            for key, content in self._finished():
                _, index, alone = self.under_way.pop(key)
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
        futures = self.completed.next_batch(block=True)
        self.pace.count(len(futures))
        try:
            contents = self.client.gather(futures)
        except (Exception, CancelledError):
            contents = [_outcome(future) for future in futures]
        for future in futures:
            future.release()
        return list(zip((future.key for future in futures), contents, strict=True))

    def close(self) -> None:
        """Nothing is left to do on the cluster, whatever is under way."""
        with suppress(Exception):  # the scheduler may be gone
            self.client.cancel([future for future, *_ in self.under_way.values()], force=True)
        for future, *_ in self.under_way.values():
            future.release()
        if self.function is not None:
            self.function.release()

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
                    _same, self.payload, key=(f"{self.token}-function", self.tries), pure=False
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
                self._shun(index, extra, value)
                return None
            raise value
        if isinstance(content, KilledWorker):
            return self._bury(index, content, alone, own=content.task == key)
        if isinstance(content, CancelledError | FutureCancelled):
            raise self._gone()
        if isinstance(content, ModuleNotFoundError) and (content.name or "").split(".")[0] == "handlens":
            raise HandlensError("a worker of the cluster has no handlens: install the same version there")
        raise content

    def _bury(self, index: int, error: Any, alone: bool, *, own: bool) -> tuple[Files, Any] | None:
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

    def _shun(self, index: int, address: str, error: BaseException) -> None:
        """A worker's disk is full: others do what it cannot."""
        self.shunned.add(address)
        if not self._others():
            raise HandlensError(f"no worker has room on its disk; the last, {address}: {error}")
        self.looked = float("-inf")
        self.waiting.appendleft(index)

    def _gone(self) -> HandlensError:
        where = getattr(self.client.scheduler, "address", None) or "of the cluster"
        what = f"the scheduler {where} is gone, and with it what was under way"
        return HandlensError(f"{what}: start it again, then say the same again: what is finished is kept")


def packed(make: object) -> bytes:
    """Pickled with the bytes of networks in place of their paths, and the version that must be there."""
    stream = io.BytesIO()
    try:
        _Packer(stream, protocol=5).dump(make)
    except HandlensError:
        raise
    except Exception as error:
        raise HandlensError(
            f"this predictor cannot be pickled ({type(error).__name__}: {error}): leave --cluster out"
        ) from error
    return pickle.dumps((version("handlens"), stream.getvalue()))


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any, /) -> Any:
        from handlens.inference.session import Session

        if isinstance(value, Session):
            from handlens.sandbox.runner import read_model

            return _open_network, (value.path.name, read_model(value.path), value.untrusted)
        return NotImplemented


# --- on a worker --------------------------------------------------------------------------------------------------


_KEPT = threading.local()
"""The function of this thread, its token and its folder: predictors are not asked by two threads at once."""


def _same(payload: bytes) -> bytes:
    return payload


def work_on(payload: bytes, token: str, content: bytes) -> bytes:
    """State, value and more of one item, pickled: `done` with files, `full` with this worker's address, `error`."""
    folder: Path | None = None
    try:
        function, folder = _kept(payload, token)
        value = function(pickle.loads(content))
        return pickle.dumps(("done", value, _collect(folder)))
    except Exception as error:
        full = isinstance(error, DiskFullError) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        _, told = pickle.loads(packed_error(error))
        return pickle.dumps(("full", told, _address()) if full else ("error", told, None))
    finally:
        if folder is not None:
            _empty(folder)


def _kept(payload: bytes, token: str) -> tuple[Callable[[Any], Any], Path]:
    """The function and the folder that its files go to; made when this thread first sees the token."""
    if getattr(_KEPT, "token", None) != token:
        folder = Path(tempfile.mkdtemp(prefix="handlens-", dir=_local_directory()))
        if getattr(_KEPT, "folder", None):
            shutil.rmtree(_KEPT.folder, ignore_errors=True)
        _KEPT.token, _KEPT.folder, _KEPT.function = None, folder, None
        make = _unpack(payload)
        _KEPT.function, _KEPT.token = make(folder), token
    return _KEPT.function, _KEPT.folder


def _unpack(payload: bytes) -> Callable[[Path], Callable[[Any], Any]]:
    theirs, content = pickle.loads(payload)
    if theirs != version("handlens"):  # before the rest: another version may have no such classes
        what = f"the worker {_address()} has handlens {version('handlens')}, the client {theirs}"
        raise HandlensError(f"{what}: install the same there")
    make: Callable[[Path], Callable[[Any], Any]] = pickle.loads(content)
    return make


def _collect(folder: Path) -> Files:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple((path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths)


def _empty(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _open_network(name: str, content: bytes, untrusted: bool) -> Session:
    """A network from its bytes; a file of it stays beside the worker's others, for messages and for the sandbox."""
    from handlens.inference.session import Session

    path = Path(_local_directory()) / f"model-{hashlib.sha256(content).hexdigest()[:16]}" / name
    if not path.is_file():
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return Session(path, threads=1, untrusted=untrusted)


def _local_directory() -> str:
    from distributed import get_worker

    return str(get_worker().local_directory)


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
