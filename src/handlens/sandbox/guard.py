"""What a process gives up before it touches a stranger's file: memory, time, network, files, other processes.

Linux alone has all of it. `limit` and `lock` each give the guards that hold, so that nobody has to believe them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIB = 2**20

CALLS: Mapping[str, tuple[int, int, Mapping[str, int], Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        317,
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
            "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25,
            "madvise": 28, "nanosleep": 35, "getpid": 39, "exit": 60, "gettimeofday": 96, "getrusage": 98,
            "sigaltstack": 131, "gettid": 186, "futex": 202, "sched_getaffinity": 204, "clock_gettime": 228,
            "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "getcpu": 309, "getrandom": 318,
            "rseq": 334,
        },
        {
            "socket": 41, "connect": 42, "sendto": 44, "bind": 49, "socketpair": 53, "clone": 56, "fork": 57,
            "vfork": 58, "execve": 59, "kill": 62, "ptrace": 101, "tkill": 200, "unshare": 272, "setns": 308,
            "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321, "execveat": 322, "io_uring_setup": 425,
            "clone3": 435,
        },
    ),
    "aarch64": (
        0xC00000B7,
        277,
        {
            "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98,
            "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
            "sched_getaffinity": 123, "sched_yield": 124, "sigaltstack": 132, "rt_sigaction": 134,
            "rt_sigprocmask": 135, "rt_sigreturn": 139, "getrusage": 165, "getcpu": 168, "gettimeofday": 169,
            "getpid": 172, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
            "madvise": 233, "getrandom": 278, "rseq": 293,
        },
        {
            "unshare": 97, "ptrace": 117, "kill": 129, "tkill": 130, "socket": 198, "socketpair": 199, "bind": 200,
            "connect": 203, "sendto": 206, "clone": 220, "execve": 221, "setns": 268, "process_vm_readv": 270,
            "process_vm_writev": 271, "bpf": 280, "execveat": 281, "io_uring_setup": 425, "clone3": 435,
        },
    ),
}  # fmt: skip
"""Of each machine: its mark, the number of `seccomp`, calls that are let through, and calls that end the process.

Every other call fails with "not permitted": a library that only asks, such as for the time zone, goes on without.
"""

_NO_NEW_PRIVILEGES, _DUMPABLE, _PARENT_DEATH_SIGNAL = 38, 4, 1
_NEW_USER, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000
_KILL, _ALLOW, _FAIL = 0x80000000, 0x7FFF0000, 0x00050001  # the last one: EPERM
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that a process cannot do, and how that is kept; `holds` is False where this machine has no way."""

    name: str
    holds: bool
    how: str


def limit(*, seconds: int) -> list[Guard]:
    """What can be given up before libraries are loaded: time, core dumps, new files, rights, the network."""
    import resource

    _set_limit(resource.RLIMIT_CPU, seconds, grace=5)  # the first signal tells what it is, the second cannot be held
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, 0)
    guards = [Guard("CPU time", True, f"{seconds} s")]
    if sys.platform != "linux":
        return [*guards, Guard("network", False, "not on this system")]
    libc = ctypes.CDLL(None, use_errno=True)
    network = _leave_network(libc)  # first: new rights would undo the rest
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PARENT_DEATH_SIGNAL, 9, 0, 0, 0)
    return [*guards, network]


def lock(*, memory_mib: int, descriptors: int) -> list[Guard]:
    """What can be given up once all libraries are loaded: more memory than this, every file, every other process.

    So many `descriptors` stay open, from 0 on.
    """
    import resource

    os.closerange(descriptors, 4096)
    _set_limit(resource.RLIMIT_NOFILE, descriptors)
    _set_limit(resource.RLIMIT_AS, _address_space() + memory_mib * MIB)
    _set_limit(resource.RLIMIT_NPROC, 0)  # without effect for root
    filtered = sys.platform == "linux" and _filter_calls(ctypes.CDLL(None, use_errno=True))
    how = "system calls are filtered" if filtered else "no filter of system calls on this machine"
    kept = [Guard(name, filtered, how) for name in ("files", "processes", "sockets")]
    return [Guard("memory", True, f"{memory_mib:,} MiB"), *kept]


def _set_limit(which: int, value: int, *, grace: int = 0) -> None:
    """Lower a limit; one that is lower already stays."""
    import resource

    _, most = resource.getrlimit(which)
    soft, hard = (bound if most == resource.RLIM_INFINITY else min(bound, most) for bound in (value, value + grace))
    resource.setrlimit(which, (soft, hard))


def _address_space() -> int:
    """Bytes that this process has mapped now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 512 * MIB


def _leave_network(libc: ctypes.CDLL) -> Guard:
    """A network of our own, with nothing in it. A user namespace gives the right to that, where it is allowed."""
    for flags in (_NEW_NETWORK | _NEW_IPC, _NEW_USER | _NEW_NETWORK | _NEW_IPC):
        if libc.unshare(flags) == 0:
            return Guard("network", True, "an empty network of its own")
    return Guard("network", False, "namespaces are not allowed here")


def _filter_calls(libc: ctypes.CDLL) -> bool:
    """Let the kernel refuse all system calls but those of CALLS, for every thread; False where it cannot."""
    if (found := CALLS.get(platform.machine())) is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    mark, seccomp, allowed, fatal = found
    program = _program(mark, sorted(allowed.values()), sorted(fatal.values()))
    steps = ctypes.create_string_buffer(program, len(program))
    order = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps)))
    set_filter, all_threads = 1, 1
    return bool(libc.syscall(seccomp, set_filter, all_threads, order) == 0)


def _program(mark: int, allowed: Sequence[int], fatal: Sequence[int]) -> bytes:
    """The filter in the kernel's small language: load, compare, answer."""
    load_number, load_machine, equal, at_least, answer = 0x20, 0x20, 0x15, 0x35, 0x06
    steps = [
        (load_machine, 0, 0, 4),
        (equal, 1, 0, mark),
        (answer, 0, 0, _KILL),
        (load_number, 0, 0, 0),
        (at_least, 0, 1, _X32),
        (answer, 0, 0, _KILL),
    ]
    for numbers, action in ((allowed, _ALLOW), (fatal, _KILL)):
        for number in numbers:
            steps += [(equal, 0, 1, number), (answer, 0, 0, action)]
    steps.append((answer, 0, 0, _FAIL))
    return b"".join(struct.pack("HBBI", *step) for step in steps)
