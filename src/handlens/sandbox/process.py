"""The process of a model: started in an empty folder and a control group of its own, and ended without taking a lock.

A model that is forgotten is ended by Python's garbage collector, in whatever thread that happens to run, at any place,
perhaps while this very thread holds a lock. So nothing here that ends a process waits for a lock: it calls the system
and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

from handlens.sandbox.guard import Guard

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime would start a thread that writes a file and sends it away
    "GLIBC_TUNABLES": "glibc.malloc.perturb=255:glibc.malloc.tcache_count=0",  # what is allocated is cleared first
}
"""What libraries read when they are loaded, nothing of ours; the process forgets it before the model comes."""

IDLE_MIB = 512
"""Memory that Python and its libraries may take beside the model's, as a control group counts it."""

PROCESSES = 4
"""Most processes in the control group: those of `guard.isolate`, and one to spare while they start."""

_BOOT = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
module, _, function = sys.argv[2].partition(":")
getattr(importlib.import_module(module), function)()
"""
_CGROUP_TRIES, _CGROUP_PAUSE = 100, 0.01


def start_python(entry: str, folder: Path | str) -> subprocess.Popen[bytes]:
    """A new Python in a session of its own that runs `module:function` in a folder, without our environment."""
    places = json.dumps([os.path.abspath(place) for place in sys.path])
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT, places, entry],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=ENVIRONMENT,
        bufsize=0,
        start_new_session=True,
    )


class ModelProcess:
    """A new Python without our environment, in an empty folder, in a session of its own, with three descriptors.

    It is gone when `end` was called, when this object is forgotten, and when our own process ends, however it does.
    """

    def __init__(self, entry: str, *, memory_mib: int) -> None:
        folder = tempfile.mkdtemp(prefix="judge-")
        self.popen = start_python(entry, folder)
        group, self.cgroup = join_cgroup(self.popen.pid, memory_mib=memory_mib)
        self.end = weakref.finalize(self, _end, self.popen, folder, group)
        for pipe in (self.requests, self.answers):
            os.set_blocking(pipe, False)

    @property
    def requests(self) -> int:
        """The descriptor that it reads from."""
        return _number(self.popen.stdin)

    @property
    def answers(self) -> int:
        return _number(self.popen.stdout)


def _number(stream: object) -> int:
    return int(stream.fileno())  # type: ignore[attr-defined]


def _end(popen: subprocess.Popen[bytes], folder: str, group: Path | None) -> None:
    """End a process and all that it may have started, and leave nothing: no lock, no zombie, no folder."""
    with suppress(OSError):
        os.killpg(popen.pid, signal.SIGKILL)
    if popen.returncode is None:  # otherwise somebody has waited for it, and its number may be another's by now
        with suppress(OSError):
            os.kill(popen.pid, signal.SIGKILL)
        with suppress(OSError):
            popen.returncode = os.waitstatus_to_exitcode(os.waitpid(popen.pid, 0)[1])  # Popen.wait would take a lock
        popen.returncode = -signal.SIGKILL if popen.returncode is None else popen.returncode
    for stream in (popen.stdin, popen.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    with suppress(OSError):
        os.rmdir(folder)  # no process of ours can write into it
    if group is not None:
        _remove_cgroup(group)


# --- control groups -----------------------------------------------------------------------------------------------


def join_cgroup(
    process: int, *, memory_mib: int, mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> tuple[Path | None, Guard]:
    """Put a process into a new control group (version 2) with limits of memory and of processes.

    Only where our own group hands these on: that is the administrator's to decide, such as by systemd's `Delegate=yes`.
    """
    try:
        place = _own_cgroup(mounts, own)
        offered = (place / "cgroup.subtree_control").read_text(encoding="ascii").split()
        if missing := {"memory", "pids"} - set(offered):
            return None, Guard("cgroup", False, f"no {' and '.join(sorted(missing))} handed on to groups of ours")
        group = Path(tempfile.mkdtemp(prefix="handlens-", dir=place))
    except OSError as error:
        return None, Guard("cgroup", False, f"no control groups of version 2 for us ({error.strerror})")
    try:
        _write(group / "memory.max", (memory_mib + IDLE_MIB) * 2**20)
        _write(group / "pids.max", PROCESSES)
        with suppress(OSError):
            _write(group / "memory.swap.max", 0)  # where the kernel counts swap
        _write(group / "cgroup.procs", process)
    except OSError as error:
        _remove_cgroup(group)
        return None, Guard("cgroup", False, f"its limits cannot be set ({error.strerror})")
    return group, Guard("cgroup", True, f"{memory_mib:,} MiB and {PROCESSES} processes")


def _own_cgroup(mounts: Path, own: Path) -> Path:
    """Our group's folder; OSError where there is none."""
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            for entry in own.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
                if entry.startswith("0::/"):
                    return Path(before.split()[4]) / entry.removeprefix("0::/")
    raise FileNotFoundError(2, "not mounted")


def _write(path: Path, number: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)  # such a file is there, or the kernel does not offer it
    try:
        os.write(descriptor, str(number).encode())
    finally:
        os.close(descriptor)


def _remove_cgroup(group: Path) -> None:
    """Processes that were killed leave their group a little later."""
    with suppress(OSError):
        _write(group / "cgroup.kill", 1)
    for _ in range(_CGROUP_TRIES):
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_CGROUP_PAUSE)
        else:
            return
