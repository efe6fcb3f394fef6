"""In namespaces of its own: builds the files of a container, moves into it, gives up all rights, starts the program.

Run by its path, with the description of the container as its one argument: it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import stat
import struct
import sys

BIND, RECURSIVE, READ_ONLY, REMOUNT, PRIVATE, NO_SUID, NO_DEVICES = 4096, 16384, 1, 32, 1 << 18, 2, 4
NO_NEW_PRIVILEGES, CAPABILITY_DROP, DETACH = 38, 24, 2
SET_FLAGS, UP = 0x8914, 0x41
ROOT = "/tmp"
DEVICES = ("null", "zero", "full", "random", "urandom")


def mount(libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [text.encode() if text is not None else None for text in (source, target, kind)]
    if libc.mount(*words, flags, None):
        error = ctypes.get_errno()
        raise OSError(error, f"{os.strerror(error)}: {source} at {target}")


def bind(libc: ctypes.CDLL, source: int, target: str, *, writable: bool) -> None:
    """`source` is a descriptor: what it had as a path may lie under the container by now."""
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    mount(libc, f"/proc/self/fd/{source}", target, None, BIND | RECURSIVE)
    os.close(source)
    if not writable:
        mount(libc, None, target, None, BIND | REMOUNT | READ_ONLY | NO_SUID)


def raise_loopback() -> None:
    """A new network has a loopback that is down; a kernel of Jupyter talks over it with whoever started it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        fcntl.ioctl(opened, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))


def main() -> None:
    spec = json.loads(sys.argv[1])
    raise_loopback()
    libc = ctypes.CDLL(None, use_errno=True)
    mount(libc, None, "/", None, RECURSIVE | PRIVATE)
    real = {place: source for kind in ("readable", "writable") for place, source in spec[kind].items()}
    opened = {place: os.open(os.path.realpath(source), os.O_PATH) for place, source in real.items()}
    links = {place: os.readlink(place) for place in real if os.path.islink(place) and real[place] == place}
    mount(libc, "tmpfs", ROOT, "tmpfs", NO_SUID | NO_DEVICES)
    inside = "/container"
    os.makedirs(ROOT + inside)
    for place in spec["empty"]:
        os.makedirs(ROOT + inside + place)
    for place, source in opened.items():
        if place in links:  # such as /bin, which is a link to usr/bin
            os.makedirs(os.path.dirname(ROOT + inside + place), exist_ok=True)
            os.symlink(links[place], ROOT + inside + place)
        else:
            bind(libc, source, ROOT + inside + place, writable=place in spec["writable"])
    for device in DEVICES:
        bind(libc, os.open(f"/dev/{device}", os.O_PATH), f"{ROOT}{inside}/dev/{device}", writable=True)
    os.makedirs(f"{ROOT}{inside}/dev/shm")
    os.makedirs(f"{ROOT}{inside}/proc")
    mount(libc, "proc", f"{ROOT}{inside}/proc", "proc", NO_SUID | NO_DEVICES)
    os.chdir(ROOT + inside)
    mount(libc, ROOT + inside, ROOT + inside, None, BIND | RECURSIVE)
    os.chdir(ROOT + inside)
    number = {"x86_64": 155, "aarch64": 41}[os.uname().machine]  # pivot_root: the old tree cannot be gone back to
    if libc.syscall(number, b".", b".") or libc.umount2(b".", DETACH):
        raise OSError(ctypes.get_errno(), "pivot_root")
    os.chdir(spec["start_in"])
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for capability in range(64):
        libc.prctl(CAPABILITY_DROP, capability, 0, 0, 0)
    os.execve(spec["command"][0], spec["command"], spec["variables"])


if __name__ == "__main__":
    main()
