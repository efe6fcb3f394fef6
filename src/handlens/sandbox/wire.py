"""The fields of a protobuf message, one after the other, with limits: nothing is copied, nothing is believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from handlens.sandbox.verdicts import RefusedError

MAX_FIELDS = 1_000_000
"""Fields that are read of one file: a large network has a hundred thousand; more is made to keep us busy."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. 3 and 4, groups, are not used by ONNX and refused."""

_MAX_TAG = 2**32 - 1
_VARINT_BYTES = 10


class WireField(NamedTuple):
    """A field of a message: its number, how it is written, its value where it has one, and where its content lies."""

    number: int
    kind: int
    value: int
    start: int
    end: int


class Reader:
    """Bytes of one file, and how many more fields of it will be read."""

    def __init__(self, content: bytes | memoryview, *, fields: int = MAX_FIELDS) -> None:
        self.content = memoryview(content)
        self.left = fields

    def fields(self, start: int = 0, end: int | None = None) -> Iterator[WireField]:
        """The fields between two places; RefusedError where they do not fill that stretch exactly."""
        content, position = self.content, start
        end = len(content) if end is None else end
        while position < end:
            self.left -= 1
            if self.left < 0:
                raise RefusedError("too large", f"more than {MAX_FIELDS:,} fields in the file")
            tag, position = self._varint(position, end)
            number, kind = tag >> 3, tag & 7
            if number == 0 or tag > _MAX_TAG:
                raise _damaged(position)
            value, begun = 0, position
            if kind == VARINT:
                value, position = self._varint(position, end)
            elif kind == BYTES:
                length, begun = self._varint(position, end)
                position = begun + length
            elif kind in (FIXED64, FIXED32):
                position += 8 if kind == FIXED64 else 4
            else:
                raise _damaged(position)
            if position > end:
                raise _damaged(begun)
            yield WireField(number, kind, value, begun, position)

    def text(self, field: WireField) -> str:
        """The content of a field as text; what is not UTF-8 is replaced."""
        return bytes(self.content[field.start : field.end]).decode("utf-8", "replace")

    def numbers(self, field: WireField) -> Iterator[int]:
        """The whole numbers of a repeated field, which may be packed; each counts as a field."""
        if field.kind == VARINT:
            yield field.value
        elif field.kind == BYTES:
            position = field.start
            while position < field.end:
                self.left -= 1
                if self.left < 0:
                    raise RefusedError("too large", f"more than {MAX_FIELDS:,} fields in the file")
                value, position = self._varint(position, field.end)
                yield value

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """A number and the place after it; seven bits a byte, the lowest first."""
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            if position >= end:
                break
            byte = self.content[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (2**64 - 1), position
        raise _damaged(position)


def _damaged(position: int) -> RefusedError:
    return RefusedError("not a model", f"not a readable ONNX file: damaged at byte {position:,}")
