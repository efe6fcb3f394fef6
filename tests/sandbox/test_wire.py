"""Protobuf fields: read as protobuf reads them, refused where they are damaged, never more than the limit."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens.sandbox.verdicts import RefusedError
from handlens.sandbox.wire import BYTES, FIXED32, FIXED64, VARINT, Reader


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


numbers = st.integers(0, 2**64 - 1)
tags = st.integers(1, 2**29 - 1)
entries = st.one_of(
    st.tuples(tags, st.just(VARINT), numbers),
    st.tuples(tags, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
    st.tuples(tags, st.just(BYTES), st.binary(max_size=300)),
    st.tuples(tags, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
)


def written(number, kind, value):
    content = varint(value) if kind == VARINT else value
    return varint(number << 3 | kind) + (varint(len(content)) if kind == BYTES else b"") + content


@given(st.lists(entries, max_size=20))
def test_fields_are_read_back(fields):
    content = b"".join(written(*field) for field in fields)
    found = list(Reader(content).fields())
    assert [(field.number, field.kind) for field in found] == [(number, kind) for number, kind, _ in fields]
    for field, (_, kind, value) in zip(found, fields, strict=True):
        assert (field.value if kind == VARINT else content[field.start : field.end]) == value


@given(st.lists(numbers, max_size=20))
def test_packed_numbers_are_read_back(values):
    content = written(1, BYTES, b"".join(map(varint, values)))
    reader = Reader(content)
    (field,) = reader.fields()
    assert list(reader.numbers(field)) == values


@given(st.binary(max_size=400))
def test_any_bytes_are_fields_or_refused(content):
    reader = Reader(content)
    with suppress(RefusedError):
        for field in reader.fields():
            assert 0 <= field.start <= field.end <= len(content)
            list(reader.numbers(field))


@pytest.mark.parametrize(
    "content",
    [
        b"\x0b",  # a group begins
        b"\x0c",  # a group ends
        b"\x0e\x00",  # a wire type that is none
        b"\x00\x00",  # field number 0
        b"\x0a\x05abcd",  # five bytes promised, four there
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # nearly 2^64 bytes promised
        b"\x08",  # a number without a byte
        b"\x08" + b"\x80" * 20,  # a number without an end
        b"\x0d\x00\x00\x00",  # three bytes of four
        b"\xff\xff\xff\xff\xff\x01",  # a tag beyond 32 bits
    ],
)
def test_damage_is_refused(content):
    with pytest.raises(RefusedError, match="damaged at byte"):
        list(Reader(content).fields())


def test_fields_are_counted():
    assert len(list(Reader(b"\x08\x01" * 10, fields=10).fields())) == 10
    with pytest.raises(RefusedError) as caught:
        list(Reader(b"\x08\x01" * 11, fields=10).fields())
    assert caught.value.verdict == "too large"
    reader = Reader(b"\x0a\x0b" + b"\x01" * 11, fields=10)
    (field,) = reader.fields()
    with pytest.raises(RefusedError):
        list(reader.numbers(field))
