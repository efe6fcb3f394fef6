"""Run-length masks: text, runs and pixels, and overlaps without pixels.

The one place that knows how pixels are numbered. Inside, a run starts at a pixel counted from 0; in text from 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.types import Order, Shape

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_CELL_BYTES = 64 * 2**20
"""Longest cell that is parsed: twenty times the label of the largest real fragment (3 MB)."""

MAX_RUNS = 8_000_000
"""Most runs in one mask: 128 MB of integers; the largest real label has 150,000."""

MAX_INSTANCES = 1_000
"""Most instances in one answer: matching grows with their square; the most ever seen in a truth is 5."""

MAX_PIXELS = 10**10
"""Largest pixel number where the image's size is unknown: a 100,000 x 100,000 image."""

_MAX_DIGITS = 18  # fits int64, and so does the sum of two of them
_DIGITS = b"0123456789"
_SPACES = b" \t\r\n"
_DIGITS_TO_ZERO = bytes.maketrans(_DIGITS, b"0" * 10)
_TOO_MANY_DIGITS = b"0" * (_MAX_DIGITS + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A mask as two int64 arrays: first pixels (from 0), ascending, and lengths (positive). No pixel is in two runs."""

    starts: IntArray
    lengths: IntArray

    @property
    def area(self) -> int:
        return int(self.lengths.sum())

    @property
    def ends(self) -> IntArray:
        return self.starts + self.lengths


EMPTY = Runs(np.empty(0, np.int64), np.empty(0, np.int64))


# --- text ---------------------------------------------------------------------------------------------------------


def parse_pairs(text: str, *, pixels: int | None) -> Runs:
    """`start length start length ...`, numbered from 1. No text is no pixel. ValueError says what is wrong.

    `pixels` is how many the image has; None where unknown.

    >>> parse_pairs("1 3 10 5", pixels=20).area
    8
    """
    data = _to_bytes(text)
    _refuse_other_bytes(data, _DIGITS + _SPACES, text)
    return _to_runs(_read_numbers(data), pixels)


def parse_lists(text: str, *, pixels: int | None) -> tuple[Runs, ...]:
    """JSON lists `[start, length, ...]` joined by `;`, one for each instance. ValueError says what is wrong.

    >>> [instance.area for instance in parse_lists("[1, 2, 5, 1];[3, 1]", pixels=9)]
    [3, 1]
    """
    data = _to_bytes(text)
    pieces = data.split(b";", MAX_INSTANCES)
    if len(pieces) > MAX_INSTANCES:
        raise ValueError(f"more than {MAX_INSTANCES:,} instances")
    instances = []
    for number, piece in enumerate(pieces, 1):
        try:
            instances.append(_parse_list(piece, pixels))
        except ValueError as error:
            raise ValueError(f"instance {number}: {error}" if len(pieces) > 1 else str(error)) from None
    return tuple(instances)


def format_pairs(runs: Runs) -> str:
    """The space-separated text of a mask; no pixel is the empty text."""
    return " ".join(map(str, _interleave(runs).tolist()))


def format_lists(instances: Sequence[Runs]) -> str:
    """The JSON lists of some masks, joined by `;`."""
    return ";".join(str(_interleave(runs).tolist()) for runs in instances)


def _interleave(runs: Runs) -> IntArray:
    return np.stack([runs.starts + 1, runs.lengths], axis=1).ravel()


def _to_bytes(text: str) -> bytes:
    if len(text) > MAX_CELL_BYTES:
        raise ValueError(f"{len(text):,} characters in one cell; the most is {MAX_CELL_BYTES:,}")
    return text.encode("utf-8", "surrogateescape")


def _refuse_other_bytes(data: bytes, allowed: bytes, text: str) -> None:
    if data.translate(None, allowed):
        token = re.search(r"[^\s,;\[\]]*[^\d\s,;\[\]][^\s,;\[\]]*|[,;\[\]]", text)
        shown = token.group()[:20] if token else text[:20]
        raise ValueError(f"{shown!r} is not a whole number of digits 0 to 9")


def _parse_list(piece: bytes, pixels: int | None) -> Runs:
    inner = piece.strip(_SPACES)
    shown = inner[:20].decode("utf-8", "replace")
    if not inner:
        raise ValueError("empty text where a list [start, length, ...] was expected")
    if len(inner) < 2 or not (inner.startswith(b"[") and inner.endswith(b"]")):
        raise ValueError(f"{shown!r} is not a list [start, length, ...]")
    inner = inner[1:-1]
    if not inner.strip(_SPACES):
        raise ValueError("an empty list [] is no instance: leave it out, or answer authentic")
    _refuse_other_bytes(inner, _DIGITS + _SPACES + b",", inner.decode("utf-8", "replace"))
    _refuse_bad_commas(inner)
    return _to_runs(_read_numbers(inner.replace(b",", b" ")), pixels)


def _refuse_bad_commas(inner: bytes) -> None:
    """Between two numbers stands exactly one comma, and no number starts with a needless 0 (it would not be JSON)."""
    text = np.frombuffer(inner, np.uint8)
    digit = text - ord("0") < 10  # uint8 wraps: everything below '0' is large
    first = np.flatnonzero(digit & ~np.concatenate(([False], digit[:-1])))
    commas = np.flatnonzero(text == ord(","))
    if len(commas) != len(first) - 1 or np.any(commas < first[:-1]) or np.any(commas > first[1:]):
        raise ValueError("numbers in a list are separated by one comma each")
    followed = first[first + 1 < len(text)]
    if np.any((text[followed] == ord("0")) & digit[followed + 1]):
        raise ValueError("a number starts with 0, which is not JSON")


def _read_numbers(data: bytes) -> IntArray:
    """Digits and white space to integers, in C."""
    if _TOO_MANY_DIGITS in data.translate(_DIGITS_TO_ZERO):
        raise ValueError(f"a number of more than {_MAX_DIGITS} digits; no image has that many pixels")
    if not data.strip(_SPACES):
        return np.empty(0, np.int64)
    numbers: IntArray = np.fromstring(data.decode("ascii"), dtype=np.int64, sep=" ")
    return numbers


def _to_runs(numbers: IntArray, pixels: int | None) -> Runs:
    if len(numbers) % 2:
        raise ValueError(f"{len(numbers):,} number{'s' * (len(numbers) > 1)}, so the last start has no length")
    starts, lengths = numbers[0::2] - 1, numbers[1::2].copy()
    if len(starts) > MAX_RUNS:
        raise ValueError(f"{len(starts):,} pairs; the most is {MAX_RUNS:,}")
    if not len(starts):
        return EMPTY
    ends = starts + lengths
    limit = MAX_PIXELS if pixels is None else pixels
    if (bad := _first(starts < 0)) is not None:
        raise ValueError(f"pair {bad + 1} starts at pixel 0; pixels are numbered from 1")
    if (bad := _first(lengths < 1)) is not None:
        raise ValueError(f"pair {bad + 1} has length 0; a length is at least 1")
    if (bad := _first(starts[1:] < starts[:-1])) is not None:
        raise ValueError(
            f"pair {bad + 2} starts at pixel {starts[bad + 1] + 1}, pair {bad + 1} at {starts[bad] + 1}: "
            "starts must ascend"
        )
    if (bad := _first(starts[1:] < ends[:-1])) is not None:
        raise ValueError(
            f"pair {bad + 2} starts at pixel {starts[bad + 1] + 1}, pair {bad + 1} ends at {ends[bad]}: "
            "a pixel is there twice"
        )
    if (bad := _first(ends > limit)) is not None:
        has = f"the image has {limit}" if pixels is not None else f"no image has more than {limit}"
        raise ValueError(f"pair {bad + 1} ends at pixel {ends[bad]}, {has}")
    return Runs(starts, lengths)


def _first(condition: BoolArray) -> int | None:
    return int(condition.argmax()) if condition.any() else None


# --- pixels -------------------------------------------------------------------------------------------------------


def encode(mask: BoolArray, *, order: Order) -> Runs:
    """Runs of the true pixels of a 2-D mask, numbered along `order`.

    >>> encode(np.array([[True, True], [True, False]]), order="columns").starts
    array([0])
    """
    flat = mask.ravel(order="C" if order == "rows" else "F").astype(bool, copy=False)
    if not flat.size:
        return EMPTY
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate([[0] if flat[0] else [], changes, [flat.size] if flat[-1] else []]).astype(np.int64)
    return Runs(edges[0::2], edges[1::2] - edges[0::2])


def decode(runs: Runs, shape: Shape, *, order: Order) -> BoolArray:
    """The 2-D mask of some runs, which must lie within the shape."""
    size = shape[0] * shape[1]
    if len(runs.starts) and int(runs.ends[-1]) > size:
        raise ValueError(f"runs end at pixel {int(runs.ends[-1])}, the image has {size}")
    steps = np.zeros(size + 1, np.int8)
    steps[runs.starts] += 1
    steps[runs.ends] -= 1
    flat = np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)
    return flat.reshape(shape, order="C" if order == "rows" else "F")


# --- overlaps -----------------------------------------------------------------------------------------------------


def overlap(first: Runs, second: Runs) -> int:
    """Pixels in both masks, without making pixels.

    >>> overlap(parse_pairs("1 5", pixels=9), parse_pairs("3 9", pixels=None))
    3
    """
    return int(overlaps([first], [second])[0, 0])


def union(first: Runs, second: Runs) -> int:
    """Pixels in either mask."""
    return first.area + second.area - overlap(first, second)


def overlaps(rows: Sequence[Runs], columns: Sequence[Runs]) -> IntArray:
    """Pixels in both, for every pair of masks: shape (rows, columns).

    The pixels of a mask below position x are a piecewise linear function of x; the overlap with a run is the
    function's rise over the run. All runs of all rows are looked up at once.
    """
    table = np.zeros((len(rows), len(columns)), np.int64)
    sizes = np.array([len(runs.starts) for runs in rows], np.int64)
    if not sizes.sum():
        return table
    starts = np.concatenate([runs.starts for runs in rows])
    ends = starts + np.concatenate([runs.lengths for runs in rows])
    owners = np.repeat(np.arange(len(rows)), sizes)
    for number, runs in enumerate(columns):
        if len(runs.starts):
            near = (ends > runs.starts[0]) & (starts < runs.starts[-1] + runs.lengths[-1])
            rise = _pixels_below(runs, ends[near]) - _pixels_below(runs, starts[near])
            # float64 sums are exact here: a mask has fewer than 2**53 pixels
            table[:, number] = np.bincount(owners[near], rise, minlength=len(rows)).astype(np.int64)
    return table


def _pixels_below(runs: Runs, positions: IntArray) -> IntArray:
    total = np.concatenate(([0], np.cumsum(runs.lengths)))
    last = np.searchsorted(runs.starts, positions, side="right") - 1
    inside = np.minimum(positions - runs.starts[last], runs.lengths[last])
    below: IntArray = np.where(last >= 0, total[last] + inside, 0)
    return below
