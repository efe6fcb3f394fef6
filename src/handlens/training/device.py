"""Torch settings for this machine: threads, precision, memory, determinism."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

import torch
from lightning_fabric import Fabric

from handlens.inference.executors import usable_cores

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Numbers of glibc's mallopt."""


def keep_memory() -> bool:
    """Let glibc keep freed memory instead of giving every large block back; false where there is no glibc.

    Otherwise each step maps its memory anew: measured, a training step takes 8 to 20 % longer, a forward pass 40 %.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        large = 2**31 - 1
        return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, large) and mallopt(_TOP_PAD, 64 << 20))
    return False


def choose_accelerator(wanted: str) -> str:
    """`cuda` where there is one, otherwise `cpu`."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted


def choose_precision(wanted: str, accelerator: str) -> str:
    """What the device is fast at. On a CPU never bf16: without its own instructions it is ten times slower."""
    if wanted != "auto":
        return wanted
    if accelerator != "cuda":
        return "32-true"
    return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "16-mixed"


def choose_threads(wanted: int, accelerator: str, devices: int) -> int:
    """Threads of each process; together they have one for each core."""
    return wanted or max(1, usable_cores() // (devices if accelerator == "cpu" else 1))


def make_fabric(accelerator: str, precision: str, devices: int, nodes: int) -> Fabric:
    """Fabric for this run; several devices are processes that it starts."""
    several = devices * nodes > 1
    given: Any = {"accelerator": accelerator, "precision": precision, "devices": devices, "num_nodes": nodes}
    return Fabric(strategy="ddp_spawn" if several else "auto", **given)


@contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """Within, the same steps give the same bits: a fixed number of threads, and no algorithm that differs each time.

    OpenCV has one thread, so that making crops does not push the network off its cores.
    """
    import cv2

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), cv2.getNumThreads()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        cv2.setNumThreads(before[2])


def versions() -> dict[str, str]:
    """What was trained with."""
    return {name: version(name) for name in ("handlens", "torch", "lightning-fabric", "onnx", "numpy")}
