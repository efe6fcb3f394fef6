"""What goes through the pipe between a judge and a model's process: a JSON header, and bytes whose number it says.

The length of the header comes first. Nothing is pickled: a process that was taken over must not run code in ours.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

KINDS = ("<f2", "<f4", "<f8", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "|b1")
"""Types of arrays that may pass."""

MAX_AXES = 8

MAX_ANSWER = 2**24
"""Bytes of outputs for one question."""


def take_streams() -> tuple[IO[bytes], IO[bytes]]:
    """In a child process, requests and answers on descriptors of their own: what a library prints is no answer."""
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.dup2(answers, 3)
    os.set_inheritable(3, False)
    return open(0, "rb", closefd=False), open(3, "wb", closefd=False)


def pack_head(header: dict[str, Any], size: int) -> bytes:
    """The head of a frame with so many bytes of content."""
    text = json.dumps({**header, "bytes": size}).encode()
    return struct.pack("<I", len(text)) + text


def pack_frame(header: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[bytes, bytes | memoryview]:
    """A frame's head and its content."""
    return pack_head(header, len(payload)), payload


def write_frame(stream: IO[bytes], header: dict[str, Any], payload: bytes = b"") -> None:
    head, content = pack_frame(header, payload)
    stream.write(head)
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """The next frame of a stream that is trusted; an empty header at its end."""
    head = stream.read(4)
    if len(head) < 4:
        return {}, b""
    header = json.loads(stream.read(struct.unpack("<I", head)[0]))
    return header, stream.read(header.pop("bytes"))


def pack_arrays(arrays: Sequence[npt.NDArray[Any]]) -> tuple[list[Any], bytes]:
    """Types and shapes of arrays, and their bytes one after the other."""
    whole = [np.ascontiguousarray(array) for array in arrays]
    described = [[array.dtype.str, list(array.shape)] for array in whole]
    return described, b"".join(array.tobytes() for array in whole)


def unpack_arrays(described: Any, content: bytes) -> list[npt.NDArray[Any]]:
    """The opposite; ValueError where anything does not fit, whoever wrote it."""
    arrays: list[npt.NDArray[Any]] = []
    position = 0
    for item in described if isinstance(described, list) else [None]:
        if not isinstance(item, list) or len(item) != 2 or item[0] not in KINDS or not _is_shape(item[1]):
            raise ValueError("not an array of numbers")
        dtype, shape = np.dtype(item[0]), item[1]
        count = prod(shape)
        if count * dtype.itemsize > len(content) - position:
            raise ValueError("too few bytes")
        arrays.append(np.frombuffer(content, dtype, count, position).reshape(shape))
        position += count * dtype.itemsize
    return arrays


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_AXES
        and all(type(size) is int and 0 <= size < 2**31 for size in value)
    )
