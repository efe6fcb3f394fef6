"""What travels to a worker of a cluster, and what a worker does with it.

The predictor is pickled with the bytes of its networks, and its client's version: another one may have other classes.
It is unpacked once by each thread, and let go when its client needs it no more.
"""

from __future__ import annotations

import errno
import hashlib
import io
import pickle
import shutil
import tempfile
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlens.errors import DiskFullError, HandlensError
from handlens.inference.executors import packed_error
from handlens.io.files import replacing

if TYPE_CHECKING:
    from handlens.inference.session import Session

Files = tuple[tuple[str, bytes], ...]


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


_KEPT: dict[int, tuple[str, Callable[[Any], Any], Path]] = {}
"""By thread its token, function and folder: predictors are not asked by two threads at once."""


def same(payload: bytes) -> bytes:
    return payload


def work_on(payload: bytes, token: str, content: bytes) -> bytes:
    """State, value and more of one item, pickled: `done` with files, `full` with this worker's address, `error`."""
    folder: Path | None = None
    try:
        function, folder = _kept(payload, token)
        value = function(pickle.loads(content))
        return pickle.dumps(("done", value, _collect(folder)))
    except Exception as error:
        full = isinstance(error, DiskFullError)
        full = full or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT))
        _, told = pickle.loads(packed_error(error))
        return pickle.dumps(("full", told, _address()) if full else ("error", told, None))
    finally:
        if folder is not None:
            _empty(folder)


def _kept(payload: bytes, token: str) -> tuple[Callable[[Any], Any], Path]:
    """The function and the folder that its files go to; made when this thread first sees the token."""
    thread = threading.get_ident()
    kept = _KEPT.get(thread)
    if kept is None or kept[0] != token:
        _drop(thread)
        folder = Path(tempfile.mkdtemp(prefix="handlens-", dir=_local_directory()))
        make = _unpack(payload)
        kept = _KEPT[thread] = token, make(folder), folder
    return kept[1], kept[2]


async def forget(token: str) -> None:
    """Let a predictor go, and its folders, when its client needs it no more. Dask waits for all but coroutines."""
    for thread, kept in list(_KEPT.items()):
        if kept[0] == token:
            _drop(thread)


def _drop(thread: int) -> None:
    kept = _KEPT.pop(thread, None)
    if kept is not None:
        shutil.rmtree(kept[2], ignore_errors=True)


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
