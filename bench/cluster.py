"""What a Dask cluster costs: overhead for small cases, throughput, time to the first result, memory of the client.

python bench/cluster.py             ten minutes; --quick does a tenth of the work
python bench/cluster.py --only memory     the client's memory after 1,000 to 100,000 cases; --only http: bytes

Both sides are measured in one run, in turn, on this machine: two processes of this machine against two workers of a
scheduler on loopback. Scheduler and workers are processes of their own, so that the client's memory is the client's.
Processor time does not depend on what else the machine does; the time of a clock does.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handlens.inference.cluster_spec import open_cluster
from handlens.inference.executors import Executor, Processes

WORKERS = 2
CHUNK = bytes(1 << 20)
CLUSTER = """
import sys
import dask
from distributed import LocalCluster
from handlens.inference.cluster_spec import STARTED_HERE
dask.config.set(STARTED_HERE)
if __name__ == "__main__":
    options = dict(threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    with LocalCluster(n_workers=int(sys.argv[1]), **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def make_nothing(_folder: Path | None) -> Callable[[int], int]:
    return abs


def make_busy(_folder: Path | None) -> Callable[[int], str]:
    return busy


def busy(item: int) -> str:
    """Some 250 ms of one core: a small picture."""
    found = hashlib.sha256(str(item).encode())
    for _ in range(384):
        found.update(CHUNK)
    return found.hexdigest()


@contextmanager
def running_cluster(workers: int = WORKERS) -> Iterator[tuple[str, int]]:
    """Address of a scheduler with its workers, and the process that they are children of."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-W", "ignore", "-c", CLUSTER, str(workers)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield process.stdout.readline().strip(), process.pid
            process.stdin.write("\n")
        finally:
            process.stdin.close()


def seconds_each(executor: Executor, make: Any, count: int) -> tuple[float, float]:
    """Until the first result, and for each of the others."""
    started = time.perf_counter()
    results: Iterator[Any] = iter(executor.map(make, range(count)))
    next(results)
    first = time.perf_counter()
    assert sum(1 for _ in results) == count - 1
    return first - started, (time.perf_counter() - first) / (count - 1)


def compare(dask: Executor, make: Any, count: int, rounds: int) -> tuple[list[tuple[float, float]], ...]:
    """Rounds of both, in turn."""
    here, there = [], []
    for _ in range(rounds):
        here.append(seconds_each(Processes(WORKERS), make, count))
        there.append(seconds_each(dask, make, count))
    return here, there


def cpu_seconds(tree: int) -> float:
    """Of this process and those that it started and waited for, and of a process and its children."""
    import psutil

    there = psutil.Process(tree)
    times = [process.cpu_times() for process in (there, *there.children(recursive=True))]
    own = os.times()
    return sum(each.user + each.system for each in times) + sum(own[:4])


def cpu_each(executor: Executor, make: Any, count: int, tree: int) -> float:
    """Processor time of all processes for a case, without what starting costs."""
    used = []
    for number in (4, count):
        before = cpu_seconds(tree)
        seconds_each(executor, make, number)
        used.append(cpu_seconds(tree) - before)
    return (used[1] - used[0]) / (count - 4)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure_memory(dask: Executor, make: Any, share: int) -> None:
    for count in (1000, 10_000 // share, 100_000 // share):
        seconds_each(dask, make, count)
        print(f"memory of the client after {count:,} more cases: {resident_mib():.0f} MiB", flush=True)


def compare_bytes(share: int) -> None:
    """A stack over HTTP, by the passes that ink makes over it, against the bytes of its files."""
    import tempfile

    import numpy as np
    import tifffile
    import zarr

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from range_server import serving

    from handlens.challenges.ink.window import Window, find_surface
    from handlens.io import volumes
    from handlens.io.gate import place

    side = 2400 // share * 2
    planes = np.random.default_rng(0).integers(0, 2**16, (24, side, side), np.uint16)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "layers").mkdir()
        for number, plane in enumerate(planes):
            tifffile.imwrite(root / "layers" / f"{number:02d}.tif", plane, rowsperstrip=16)
        zarr.create_array(root / "scan.zarr", data=planes, chunks=(8, 128, 128), zarr_format=2)
        for kind in ("layers", "scan.zarr"):
            size = sum(path.stat().st_size for path in (root / kind).rglob("*") if path.is_file())
            with serving(root) as server:
                started = time.perf_counter()
                stack = volumes.open_stack(place(f"{server.address}/{kind}"))
                stack.read_band(0, min(64, side), 0, stack.depth)
                first = time.perf_counter() - started
                surface = find_surface(stack, np.ones(stack.shape, bool), Window())
                for top in range(0, side, 256):
                    surface.read(top, min(top + 256, side))
                print(
                    f"{kind} over HTTP: {server.sent / size:.4f} times its {size:,} bytes (bar: 1.1),"
                    f" {server.requests:,} requests, first rows after {first:.2f} s",
                    flush=True,
                )


def main() -> None:
    import cluster as cases  # by the name that workers know

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["costs", "memory", "http"], help="one part alone")
    given = parser.parse_args()
    share = 10 if given.quick else 1
    if given.only in (None, "http"):
        compare_bytes(share)
    if given.only == "http":
        return
    nothing, work = cases.make_nothing, cases.make_busy
    started = time.perf_counter()
    with running_cluster() as (address, tree), open_cluster(address) as dask:
        next(dask.map(nothing, [1, 2]))
        if given.only == "memory":
            measure_memory(dask, nothing, share)
            return
        print(f"scheduler and workers, from nothing to the first result: {time.perf_counter() - started:.2f} s")
        here, there = compare(dask, nothing, 3000 // share, 3)
        before, after = (statistics.median(each for _, each in side) * 1000 for side in (here, there))
        print(f"a case that does nothing: {before:.2f} ms by processes, {after:.2f} ms by Dask")
        print(f"overhead of a small case: {after - before:.2f} ms (bar: 5)")
        before, after = (cpu_each(side, nothing, 3000 // share, tree) * 1000 for side in (Processes(WORKERS), dask))
        print(f"  in processor time of all processes: {before:.2f} and {after:.2f} ms")
        first = [statistics.median(first for first, _ in side) for side in (here, there)]
        print(f"first result: {first[0]:.2f} s by new processes, {first[1]:.2f} s by workers that run already")
        here, there = compare(dask, work, 200 // share, 3)
        ratios = sorted(ours / theirs for (_, ours), (_, theirs) in zip(here, there, strict=True))
        print(f"throughput against processes: {statistics.median(ratios):.2f} (bar: 0.9)")
        print("  rounds:", ", ".join(f"{ratio:.2f}" for ratio in ratios))
        before, after = (cpu_each(side, work, 200 // share, tree) * 1000 for side in (Processes(WORKERS), dask))
        print(f"  in processor time: {before / after:.2f}; a case has {before:.1f} and {after:.1f} ms")
        if given.only is None:
            measure_memory(dask, nothing, share)


if __name__ == "__main__":
    main()
