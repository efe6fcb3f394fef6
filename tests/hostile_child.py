"""What a model's process would do if its runtime were taken over: locked as always, it then tries to get out."""

from __future__ import annotations

import os
import socket
import struct

from handlens.sandbox import child, guard
from handlens.sandbox.frames import read_frame, take_streams, write_frame


def locked():
    """The streams of a process that has given up what every model's process gives up."""
    requests, answers = take_streams()
    child.lock_up(requests, answers)
    read_frame(requests)
    return requests, answers


def tell(answers, what):
    """Send a word home, as the name of an input."""
    write_frame(answers, {"takes": [[what, "", []]], "gives": []})


def fork_bomb():
    locked()
    while True:
        os.fork()


def shell():
    locked()
    os.execv("/bin/sh", ["/bin/sh", "-c", "true"])


def network():
    locked()
    socket.socket().connect(("127.0.0.1", 80))


def signal_the_parent():
    locked()
    os.kill(os.getppid(), 9)


def read_a_file():
    _, answers = locked()
    try:
        os.open("/etc/passwd", os.O_RDONLY)
        tell(answers, "open")
    except OSError as error:
        tell(answers, type(error).__name__)


def write_a_file():
    _, answers = locked()
    try:
        os.open("mine", os.O_CREAT | os.O_WRONLY)
        tell(answers, "open")
    except OSError as error:
        tell(answers, type(error).__name__)


def look_around():
    """What is left: environment, descriptors, threads' right to raise limits."""
    _, answers = locked()
    found = [f"{len(os.environ)} variables"]
    for descriptor in range(4, 64):
        try:
            os.fstat(descriptor)
            found.append(f"descriptor {descriptor}")
        except OSError:
            pass
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        found.append("limit raised")
    except (OSError, ValueError):
        pass
    tell(answers, ", ".join(found))


def memory():
    _, answers = locked()
    try:
        bytearray(8 * 10**9)
        tell(answers, "have it")
    except MemoryError:
        tell(answers, "MemoryError")


def spin():
    locked()
    while True:
        pass


def spin_with_little_time():
    """The judge's clock is not needed."""
    limit = guard.limit
    guard.limit = lambda *, seconds: limit(seconds=1)
    spin()


def silence():
    """Reads nothing, says nothing."""
    import time

    take_streams()
    time.sleep(3600)


def long_header():
    _, answers = locked()
    answers.write(struct.pack("<I", 2**31) + b"x" * 100)
    answers.flush()


def deep_header():
    _, answers = locked()
    text = b"[" * 60_000
    answers.write(struct.pack("<I", len(text)) + text)
    answers.flush()


def much_to_say():
    _, answers = locked()
    write = b'{"bytes": 1000000000000}'
    answers.write(struct.pack("<I", len(write)) + write)
    answers.flush()


def escape_codes():
    _, answers = locked()
    write_frame(answers, {"refused": ["crash", "\x1b[2Jgone\nmore"]})


def unknown_word():
    _, answers = locked()
    write_frame(answers, {"refused": ["scored", "well"]})


def leave():
    locked()
    os._exit(3)


def without_network_of_its_own():
    guard.isolate = lambda: [guard.Guard("network", False, "namespaces are not allowed here")]
    child.main()


def without_reader():
    """The static reader lets everything through."""
    from handlens.sandbox import onnxfile

    onnxfile.check = lambda _content: None
    child.main()


def behind_the_filter():
    """What is there where the filter of system calls fails: the second layer of defence."""
    guard._filter_calls = lambda libc: False
    _, answers = locked()
    os.close(2)  # no more than four may be open
    found = [f"process {os.getpid()}", f"parent {os.getppid()}", f"{len(os.listdir('/'))} files"]
    try:
        os.open("/etc/passwd", os.O_RDONLY)
        found.append("open")
    except OSError as error:
        found.append(type(error).__name__)
    try:
        socket.socket().connect(("127.0.0.1", 9))
    except OSError as error:
        found.append(type(error).__name__)
    try:
        os.mkdir("/here")
        found.append("written")
    except OSError as error:
        found.append(type(error).__name__)
    tell(answers, ", ".join(found))


def without_filter():
    guard._filter_calls = lambda libc: False
    child.main()
