"""What a process gives up before it touches an untrusted file: memory, time, network, files, other processes.

Linux alone has all of it. `isolate`, `limit` and `lock` each give the guards that hold, so that nobody has to believe
them. A filter of system calls keeps everything by itself; namespaces and capabilities are a second layer behind it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

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
_NEW_USER, _NEW_NETWORK, _NEW_IPC, _NEW_MOUNTS, _NEW_PIDS = 0x10000000, 0x40000000, 0x08000000, 0x00020000, 0x20000000
_PRIVATE, _RECURSIVE, _READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS, _DETACH = 1 << 18, 1 << 14, 1, 2, 4, 8, 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITIES_V3, _DROP_BOUNDING, _CAPABILITIES = 0x20080522, 24, 64
_SIGNALLED = 128  # an exit status above this says which signal ended the process, as shells do it
_KILL, _ALLOW, _FAIL = 0x80000000, 0x7FFF0000, 0x00050001  # the last one: EPERM
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that a process cannot do, and how that is kept; `holds` is False where this machine has no way."""

    name: str
    holds: bool
    how: str


def isolate() -> list[Guard]:
    """Namespaces of our own: an empty network, no shared memory, and other processes neither seen nor reached.

    The caller goes on as the second process of a new process namespace; what it was before waits for it, and ends as it
    ends. Call it before any thread is started.
    """
    if sys.platform != "linux":
        return [Guard(name, False, "not on this system") for name in ("network", "IPC", "process ids")]
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    every = _NEW_NETWORK | _NEW_IPC | _NEW_MOUNTS | _NEW_PIDS
    for flags in (_NEW_USER | every, every, _NEW_USER | _NEW_NETWORK | _NEW_IPC, _NEW_NETWORK | _NEW_IPC):
        if libc.unshare(flags) == 0:
            if flags & _NEW_USER:
                _map_user(user, group)
            if flags & _NEW_PIDS:
                _fork_and_wait()  # into the namespace, as its first process
                _fork_and_wait()  # the first process is not ended by signals that end any other
            numbered = Guard("process ids", bool(flags & _NEW_PIDS), "a process namespace of its own")
            return [
                Guard("network", True, "an empty network of its own"),
                Guard("IPC", True, "a namespace of its own"),
                numbered if numbered.holds else Guard("process ids", False, "process namespaces are not allowed here"),
            ]
    return [Guard(name, False, "namespaces are not allowed here") for name in ("network", "IPC", "process ids")]


def check_freed_memory() -> Guard:
    """Whether memory is cleared before it is given out again, as `process.ENVIRONMENT` asks the C library to."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    cleared = True
    for take in (libc.malloc, partial(_take_aligned, libc)):  # tensors are aligned
        for size in (64, 1000, 20_000, 1_000_000):
            for _ in range(4):
                place = take(size)
                cleared = cleared and ctypes.string_at(place, size) == b"\0" * size
                ctypes.memset(place, 0xA5, size)
                libc.free(place)
    return Guard("freed memory", cleared, "is cleared" if cleared else "is not cleared by this system's C library")


def _take_aligned(libc: ctypes.CDLL, size: int) -> int:
    """Memory at a multiple of 64 bytes."""
    place = ctypes.c_void_p()
    if libc.posix_memalign(ctypes.byref(place), ctypes.c_size_t(64), ctypes.c_size_t(size)) or place.value is None:
        raise MemoryError
    return place.value


def limit(*, seconds: int) -> list[Guard]:
    """What can be given up before libraries are loaded: time, core dumps, new files, rights."""
    import resource

    _set_limit(resource.RLIMIT_CPU, seconds, grace=5)  # the first signal tells what it is, the second cannot be held
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, 0)
    guards = [Guard("CPU time", True, f"{seconds} s")]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.prctl(_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PARENT_DEATH_SIGNAL, 9, 0, 0, 0)
    return guards


def lock(*, memory_mib: int, descriptors: int, isolated: Sequence[Guard] = ()) -> list[Guard]:
    """What can be given up once all libraries are loaded: more memory than this, every file, every other process.

    So many `descriptors` stay open, from 0 on. `isolated` is what `isolate` gave: only in a mount namespace of our own,
    which comes with the process namespace, may the file tree be exchanged.
    """
    import resource

    os.closerange(descriptors, 4096)
    mapped = _address_space()
    second = _second_wall(own_mounts=any(guard.name == "process ids" and guard.holds for guard in isolated))
    _set_limit(resource.RLIMIT_NOFILE, descriptors)
    _set_limit(resource.RLIMIT_AS, mapped + memory_mib * MIB)
    _set_limit(resource.RLIMIT_NPROC, 0)  # without effect for root
    filtered = sys.platform == "linux" and _filter_calls(ctypes.CDLL(None, use_errno=True))
    how = "system calls are filtered" if filtered else "no filter of system calls on this machine"
    kept = [Guard(name, filtered, how) for name in ("files", "processes", "sockets")]
    return [Guard("memory", True, f"{memory_mib:,} MiB"), *kept, *second]


def _second_wall(*, own_mounts: bool) -> list[Guard]:
    """An empty folder in place of the file system, and no capabilities."""
    if sys.platform != "linux":
        return [Guard(name, False, "not on this system") for name in ("file tree", "capabilities")]
    libc = ctypes.CDLL(None, use_errno=True)
    tree = own_mounts and _leave_files(libc)
    dropped = _drop_capabilities(libc)
    return [
        Guard("file tree", tree, "an empty one of its own" if tree else "mount namespaces are not allowed here"),
        Guard("capabilities", dropped, "none" if dropped else "they cannot be dropped here"),
    ]


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


def _map_user(user: int, group: int) -> None:
    """Be root in the new user namespace, which has no rights outside of it; a mount needs to know who owns it."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(text)


def _fork_and_wait() -> None:
    """Go on in a child. The parent holds nothing, goes when its own parent goes, and ends as the child ended."""
    import resource  # now: the child will take the file tree away from both

    _set_limit(resource.RLIMIT_CORE, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    libc.prctl(_PARENT_DEATH_SIGNAL, 9, 0, 0, 0)
    if child == 0:
        return
    os.closerange(0, 64)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = status if status >= 0 else _SIGNALLED - status
    if code > _SIGNALLED and os.getpid() != 1:  # the first process of a namespace cannot end itself by a signal
        with suppress(OSError, ValueError):
            signal.signal(code - _SIGNALLED, signal.SIG_DFL)
        os.kill(os.getpid(), code - _SIGNALLED)
    os._exit(code)


def _leave_files(libc: ctypes.CDLL) -> bool:
    """Make the current folder, with nothing in it, the root of the file system; the old one is gone."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        return False
    here = os.getcwd().encode()
    flags = _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_PROGRAMS
    if libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None) or libc.mount(
        b"none", here, b"tmpfs", flags, b"size=4k,mode=555"
    ):
        return False
    os.chdir(here)  # what was mounted lies over the folder that we are in
    if libc.syscall(number, b".", b".") or libc.umount2(b".", _DETACH):
        return False
    os.chdir("/")
    return os.listdir("/") == []


def _drop_capabilities(libc: ctypes.CDLL) -> bool:
    """Give up every right that root has over others, for good."""
    for number in range(_CAPABILITIES):
        libc.prctl(_DROP_BOUNDING, number, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITIES_V3, 0)
    return bool(libc.capset(header, b"\0" * 24) == 0)


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
