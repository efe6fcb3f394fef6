"""What `--cluster` may say: a scheduler's address, `local`, or a YAML file that names a class of Dask clusters."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from handlens.errors import DataError, HandlensError
from handlens.inference.executors import Executor, Item, MapJob, Result, held_interrupt, threads_each, usable_cores
from handlens.io.extras import need
from handlens.io.gate import read_text

if TYPE_CHECKING:
    from handlens.inference.cluster import DaskExecutor

JOIN_SECONDS = 60
"""How long workers of a running scheduler may take to join before it is said that there are none."""

CONNECT_SECONDS = 10
"""How long a scheduler may take to answer."""

STARTED_HERE = {
    "distributed.scheduler.allowed-failures": 0,  # how often an item is tried is decided by the executor
    "distributed.worker.profile.enabled": False,  # it looks at every thread a hundred times a second, for a dashboard
}
"""Settings of Dask for schedulers and workers that a command starts."""

LOG = logging.getLogger("handlens")

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://\S+")


class ClusterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"kind": "class"}):
    """A YAML file: which class makes the cluster, with which arguments, and how many workers it gets."""

    kind: str
    arguments: dict[str, Any] = {}
    workers: int | None = None


@contextmanager
def open_executor(
    cluster: str | None, workers: int | None, tell: Callable[[str], None] = LOG.warning
) -> Iterator[Executor | None]:
    """What `--cluster` names, started when it is first needed; None where it was not said, for this machine.

    `tell` is for what a person should know meanwhile, such as that all workers have left.
    """
    if cluster is None:
        yield None
        return
    need("distributed", "--cluster")
    _refuse_workers(cluster, workers)
    if cluster != "local" and not _ADDRESS.fullmatch(cluster):
        read_cluster_file(Path(cluster))
    with ExitStack() as stack:
        yield _Later(lambda: stack.enter_context(open_cluster(cluster, workers=workers, tell=tell)))


class _Later(Executor):
    """A cluster that is started, or joined, when there is work for it: until then arguments and data are checked."""

    def __init__(self, start: Callable[[], Executor]) -> None:
        self.start = start
        self.started: Executor | None = None

    @property
    def is_here(self) -> bool:
        return False

    def run(self, job: MapJob[Item, Result]) -> Generator[tuple[int, Result], None, None]:
        self.started = self.started or self.start()
        return self.started.run(job)


@contextmanager
def open_cluster(
    where: str, *, workers: int | None = None, tell: Callable[[str], None] = LOG.warning
) -> Iterator[DaskExecutor]:
    """The executor that `--cluster` names, with what was started for it ended at the end.

    `workers` is how many are started: one for each core for `local`, what the file says for a file. A running
    scheduler has those that it has.
    """
    distributed = need("distributed", "--cluster")
    _refuse_workers(where, workers)
    import dask

    from handlens.inference.cluster import DaskExecutor

    with ExitStack() as stack:
        stack.enter_context(dask.config.set(STARTED_HERE))
        with held_interrupt(), threads_each(1):
            target: Any = where
            if where == "local":
                target = stack.enter_context(_start_local(distributed, workers or usable_cores()))
            elif not _ADDRESS.fullmatch(where):
                target = stack.enter_context(_start_from(Path(where), workers))
            client = _connect(distributed, target, where)
            stack.enter_context(client)
        if isinstance(target, str):
            _wait_for_workers(client, where, tell)
        yield DaskExecutor(client, tell)


def _refuse_workers(where: str, workers: int | None) -> None:
    if _ADDRESS.fullmatch(where) and workers is not None:
        raise HandlensError(f"{where} has the workers that it has: leave --workers out")


def _start_local(distributed: Any, workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


def _connect(distributed: Any, target: Any, where: str) -> Any:
    try:
        return distributed.Client(target, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        words = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise HandlensError(
            f"no Dask scheduler answers at {where} ({words}): start one with `dask scheduler`"
        ) from None


def _wait_for_workers(client: Any, where: str, tell: Callable[[str], None]) -> None:
    if not client.nthreads():
        tell(f"the scheduler {where} has no workers yet: waiting for some, {JOIN_SECONDS} s at the most")
    try:
        client.wait_for_workers(1, timeout=JOIN_SECONDS)
    except TimeoutError:
        what = f"the scheduler {where} has no workers after {JOIN_SECONDS} s"
        raise HandlensError(f"{what}: start some with `dask worker {where} --nthreads 1`") from None


def _start_from(path: Path, workers: int | None) -> Any:
    """The cluster of a YAML file, asked for its workers."""
    from distributed.deploy.cluster import Cluster

    spec = read_cluster_file(path)
    kind = _find_class(path, spec.kind)
    if not (isinstance(kind, type) and issubclass(kind, Cluster)):
        raise DataError(f"class: {spec.kind} is no Dask cluster", file=path)
    try:
        cluster = kind(**spec.arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"arguments: {spec.kind} refuses them ({error})", file=path) from None
    count = workers or spec.workers
    if count is not None:
        try:
            cluster.scale(count)
        except BaseException:
            cluster.close()
            raise
    return cluster


def read_cluster_file(path: Path) -> ClusterFile:
    """A checked file; DataError says which field is wrong."""
    yaml = need("yaml", "--cluster")
    if path.suffix not in (".yaml", ".yml"):
        raise HandlensError(f"--cluster {path}: expected tcp://HOST:PORT, local, or a file ending with .yaml")
    try:
        spec = msgspec.convert(yaml.safe_load(read_text(path)), ClusterFile)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        words = " ".join(str(error).split())
        raise DataError(f"{words}; expected class, and perhaps arguments and workers", file=path) from None
    if spec.workers is not None and spec.workers < 1:
        raise DataError(f"workers: {spec.workers}; expected 1 or more", file=path)
    return spec


def _find_class(path: Path, name: str) -> Any:
    module, dot, last = name.rpartition(".")
    try:
        return getattr(import_module(module), last) if dot else None
    except ModuleNotFoundError as error:
        raise DataError(f"class: {name} is not installed here ({error})", file=path) from None
    except (AttributeError, ValueError):
        raise DataError(f"class: no {last} in {module}", file=path) from None
