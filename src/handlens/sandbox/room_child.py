"""In namespaces of its own: builds the files of a room, moves into it, gives up all rights, and becomes the program.

Run by its path, with the description of the room as its one argument: it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

BIND, RECURSIVE, READ_ONLY, REMOUNT, PRIVATE, NO_SUID, NO_DEVICES = 4096, 16384, 1, 32, 1 << 18, 2, 4
NO_NEW_PRIVILEGES, CAPABILITY_DROP, DETACH = 38, 24, 2
ROOT = "/tmp"
DEVICES = ("null", "zero", "full", "random", "urandom")


def mount(libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [text.encode() if text is not None else None for text in (source, target, kind)]
    if libc.mount(*words, flags, None):
        error = ctypes.get_errno()
        raise OSError(error, f"{os.strerror(error)}: {source} at {target}")


def bind(libc: ctypes.CDLL, source: str, target: str, *, writable: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    mount(libc, source, target, None, BIND | RECURSIVE)
    if not writable:
        mount(libc, None, target, None, BIND | REMOUNT | READ_ONLY | NO_SUID)


def main() -> None:
    spec = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    mount(libc, None, "/", None, RECURSIVE | PRIVATE)
    mount(libc, "tmpfs", ROOT, "tmpfs", NO_SUID | NO_DEVICES)
    inside = "/room"
    os.makedirs(ROOT + inside)
    for place in spec["empty"]:
        os.makedirs(ROOT + inside + place)
    real = {place: source for kind in ("readable", "writable") for place, source in spec[kind].items()}
    for place, source in real.items():
        source = os.path.realpath(source)
        if os.path.islink(place) and place == real[place]:  # such as /bin, which is a link to usr/bin
            os.makedirs(os.path.dirname(ROOT + inside + place), exist_ok=True)
            os.symlink(os.readlink(place), ROOT + inside + place)
        else:
            bind(libc, source, ROOT + inside + place, writable=place in spec["writable"])
    for device in DEVICES:
        bind(libc, f"/dev/{device}", f"{ROOT}{inside}/dev/{device}", writable=True)
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


main()
