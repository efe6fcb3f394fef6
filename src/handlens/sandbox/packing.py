"""One ONNX file of a model whose constants lie in other files: copied in, with bounds, from the model's folder only.

Works on the messages themselves, with the reader of `wire`: what is not a constant in another file stays as it is, byte
for byte, and nothing of ONNX has to be installed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from math import prod
from pathlib import Path, PurePosixPath

from handlens.errors import ModelError
from handlens.io.files import replacing
from handlens.sandbox import onnxfile
from handlens.sandbox.runner import MAX_MODEL_MIB, read_model
from handlens.sandbox.verdicts import RefusedError, harmless
from handlens.sandbox.wire import BYTES, VARINT, Reader, WireField

PARTS: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Which fields of a message are messages in which a constant may be."""

BITS = {
    **dict.fromkeys((21, 22, 23), 4),
    **dict.fromkeys((2, 3, 9, 17, 18, 19, 20), 8),
    **dict.fromkeys((4, 5, 10, 16), 16),
    **dict.fromkeys((1, 6, 12), 32),
    **dict.fromkeys((7, 11, 13, 14), 64),
    15: 128,
}
"""Bits of an element, by ONNX's number of its type; text has none and cannot lie in another file."""

_DIMS, _TYPE, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 13, 14
_MIB = 2**20


def pack_model(path: Path, out: Path) -> int:
    """Write `out`, one file, of the model at `path` and the files that it names; the number of constants copied in.

    ModelError where a file lies outside of the model's folder, is not regular or too short, or all is too large.
    """
    try:
        packer = _WeightPacker(path.parent, read_model(path))
        content = packer.rewrite("model", 0, len(packer.reader.content), depth=0)
        onnxfile.check(content)
    except RefusedError as error:
        raise ModelError(f"{path}: {error}") from None
    with replacing(out) as temporary:
        temporary.write_bytes(content)
    return packer.packed


class _WeightPacker:
    def __init__(self, folder: Path, content: bytes) -> None:
        self.folder = folder
        self.reader = Reader(content)
        self.left = MAX_MODEL_MIB * _MIB - len(content)
        self.packed = 0

    def rewrite(self, kind: str, start: int, end: int, *, depth: int) -> bytes:
        """The content of a message, constants of other files copied in."""
        if depth > 8 * onnxfile.MAX_DEPTH:
            raise RefusedError("too large", "graphs within graphs without end")
        pieces: list[bytes] = []
        for begun, field in self._placed(start, end):
            inner = PARTS[kind].get(field.number) if field.kind == BYTES else None
            if inner is None:
                pieces.append(bytes(self.reader.content[begun : field.end]))
                continue
            new = (
                self._tensor(field)
                if inner == "tensor"
                else self.rewrite(inner, field.start, field.end, depth=depth + 1)
            )
            pieces.append(_field(field.number, new))
        return b"".join(pieces)

    def _placed(self, start: int, end: int) -> list[tuple[int, WireField]]:
        """The fields of a message, each with the place where its tag begins: where the one before it ends."""
        found, place = [], start
        for field in self.reader.fields(start, end):
            found.append((place, field))
            place = field.end
        return found

    def _tensor(self, tensor: WireField) -> bytes:
        fields = self._placed(tensor.start, tensor.end)
        reader = self.reader
        entries = [field for _, field in fields if field.number == _EXTERNAL and field.kind == BYTES]
        external = any(field.number == _LOCATION and field.value for _, field in fields)
        if not entries and not external:
            return bytes(reader.content[tensor.start : tensor.end])
        name = next((harmless(reader.text(field)) for _, field in fields if field.number == _NAME), "without name")
        dims = [number for _, field in fields if field.number == _DIMS for number in reader.numbers(field)]
        kinds = [field.value for _, field in fields if field.number == _TYPE and field.kind == VARINT]
        bits = BITS.get(kinds[-1] if kinds else 0)
        if bits is None or any(dim >= 2**63 for dim in dims):
            raise RefusedError("not a model", f"tensor {name!r} has no size that a file could hold")
        size = -(-prod(dims) * bits // 8)
        content = self._read(dict(map(self._entry, entries)), size, name)
        kept = (
            bytes(reader.content[begun : each.end])
            for begun, each in fields
            if each.number not in (_RAW, _EXTERNAL, _LOCATION)
        )
        self.packed += 1
        return b"".join([*kept, _field(_RAW, content)])

    def _entry(self, entry: WireField) -> tuple[str, str]:
        texts = {field.number: self.reader.text(field) for field in self.reader.fields(entry.start, entry.end)}
        return texts.get(1, ""), texts.get(2, "")

    def _read(self, where: Mapping[str, str], size: int, name: str) -> bytes:
        """The bytes of a constant; every number and path is a stranger's."""
        location = where.get("location", "")
        offset, length = (
            _whole(where.get(key, usual), name) for key, usual in (("offset", "0"), ("length", str(size)))
        )
        if length != size:
            raise RefusedError(
                "not a model", f"tensor {name!r} needs {size:,} bytes, its file is said to hold {length:,}"
            )
        if size > self.left:
            raise RefusedError("too large", f"more than {MAX_MODEL_MIB} MiB with all that it names")
        self.left -= size
        shown = harmless(location)
        file = self._open(location, shown)
        try:
            whole = offset + size <= os.fstat(file).st_size
            content = _read_exactly(file, offset, size) if whole else b""
        finally:
            os.close(file)
        if len(content) < size:
            what = f"{shown} ends before tensor {name!r} does, at byte {offset + size:,}"
            raise RefusedError("external data", f"{what}: copy it again")
        return content

    def _open(self, location: str, shown: str) -> int:
        """A regular file in the model's folder, wherever links lead."""
        folder = self.folder.resolve()
        if not location or "\0" in location or PurePosixPath(location).is_absolute():
            raise RefusedError("external data", f"{shown!r} is no file beside the model")
        path = (folder / location).resolve()
        if not path.is_relative_to(folder):
            raise RefusedError("external data", f"{shown!r} is not in the model's folder")
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            what = f"{shown} is not beside the model ({error.strerror})"
            raise RefusedError("external data", f"{what}: copy it there") from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise RefusedError("external data", f"{shown} is not a regular file")
        return file


def _read_exactly(file: int, offset: int, size: int) -> bytes:
    os.lseek(file, offset, os.SEEK_SET)
    parts = bytearray()
    while len(parts) < size and (part := os.read(file, min(size - len(parts), 1 << 24))):
        parts += part
    return bytes(parts)


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RefusedError("not a model", f"tensor {name!r} lies at {harmless(text)!r}; expected a whole number")
    return int(text)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first.

    >>> _varint(300)
    b'\\xac\\x02'
    """
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])
