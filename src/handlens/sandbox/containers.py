"""A container for a whole program: its own files, no network, nothing of ours. Bubblewrap, bare namespaces, or Docker.

A container has what is bound into it and empty folders besides; nothing else of the machine can be seen.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from handlens.errors import HandlensError

Engine = Literal["bubblewrap", "namespaces", "docker"]
ENGINES: tuple[Engine, ...] = ("bubblewrap", "namespaces", "docker")

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl")
"""What programs of the machine need, where it is there. Nothing of it is secret."""

EMPTY = ("/tmp", "/home", "/run", "/var/tmp")


@dataclass(frozen=True, slots=True)
class Container:
    """What a program finds: folders of ours at other places, to read or (`writable`) to write, and its variables."""

    readable: Mapping[str, Path]
    writable: Mapping[str, Path]
    variables: Mapping[str, str] = field(default_factory=dict)
    start_in: str = "/"
    image: str = ""
    """For Docker: the image whose files the container has."""
    memory_mib: int | None = None
    """For Docker, which limits by itself."""


def find_engine(wanted: Engine | None = None) -> Engine:
    """The engine that was asked for, or the first that works here; HandlensError where none does."""
    tried = []
    for engine in (wanted,) if wanted else ENGINES[:2]:
        why = _why_not(engine)
        if not why:
            return engine
        tried.append(f"{engine}: {why}")
    raise HandlensError(
        "no sandbox works here (" + "; ".join(tried) + "): install bubblewrap, or allow user namespaces"
    )


def _why_not(engine: Engine) -> str:
    """Why an engine cannot be used; nothing where it can."""
    program = {"bubblewrap": "bwrap", "namespaces": "unshare", "docker": "docker"}[engine]
    if shutil.which(program) is None:
        return f"no program {program}"
    probe = {
        "bubblewrap": ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
        "namespaces": [*_unshare(), "true"],
        "docker": ["docker", "info"],
    }[engine]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it fails"])[-1]


def command_in(container: Container, command: Sequence[str], engine: Engine) -> list[str]:
    """The command line that runs a command in a container. Killing its process ends all that was started in it."""
    return {"bubblewrap": _bubblewrap, "namespaces": _namespaces, "docker": _docker}[engine](container, command)


def _bubblewrap(container: Container, command: Sequence[str]) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "contest"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for place in EMPTY:
        words += ["--tmpfs", place]
    for place in _system():
        words += ["--ro-bind", place, place]
    for place, source in container.readable.items():
        words += ["--ro-bind", str(source), place]
    for place, source in container.writable.items():
        words += ["--bind", str(source), place]
    for name, value in container.variables.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", container.start_in, "--", *command]


def _unshare() -> list[str]:
    kinds = ["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    return ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), *kinds]


def _namespaces(container: Container, command: Sequence[str]) -> list[str]:
    spec = {
        "readable": {
            **{place: place for place in _system()},
            **{place: str(path) for place, path in container.readable.items()},
        },
        "writable": {place: str(path) for place, path in container.writable.items()},
        "empty": EMPTY,
        "variables": dict(container.variables),
        "start_in": container.start_in,
        "command": list(command),
    }
    program = Path(__file__).with_name("container_child.py")
    return [*_unshare(), sys.executable, "-I", str(program), json.dumps(spec)]


def _docker(container: Container, command: Sequence[str]) -> list[str]:
    if not container.image:
        raise HandlensError("docker needs the name of an image: --image NAME")
    words = ["docker", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    words += ["--security-opt", "no-new-privileges", "--tmpfs", "/tmp", "--tmpfs", "/home"]
    if container.memory_mib:
        words += ["--memory", f"{container.memory_mib}m", "--memory-swap", f"{container.memory_mib}m"]
    for place, source in container.readable.items():
        words += ["--volume", f"{source}:{place}:ro"]
    for place, source in container.writable.items():
        words += ["--volume", f"{source}:{place}"]
    for name, value in container.variables.items():
        words += ["--env", f"{name}={value}"]
    return [*words, "--workdir", container.start_in, container.image, *command]


def _system() -> list[str]:
    return [place for place in SYSTEM if Path(place).exists()]
