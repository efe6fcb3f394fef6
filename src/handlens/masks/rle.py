"""Run-length masks: text, runs and pixels, and overlaps without pixels.

The one place that knows how pixels are numbered. Inside, a run starts at a pixel counted from 0; in text from 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from handlens.types import Order, Shape

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_CELL_BYTES = 128 * 2**20
"""Longest cell that is parsed: the nuclei of a crowded slide of 20,000 x 20,000 take 84 MB, a real fragment 3 MB."""

MAX_RUNS = 8_000_000
"""Most runs in one mask: 128 MB of integers; the largest real label has 150,000."""

MAX_INSTANCES = 1_000
"""Most instances in one answer: matching grows with their square; the most ever seen in a truth is 5."""

BATCH = 64
"""Cells that are read at once: enough to spare most of the overhead, few enough that one odd cell slows few others."""

MAX_PIXELS = 10**10
"""Largest pixel number where the image's size is unknown: a 100,000 x 100,000 image."""

_MAX_DIGITS = 18  # fits int64, and so does the sum of two of them
_DIGITS = b"0123456789"
_SPACES = b" \t\r\n"
_DIGITS_TO_ZERO = bytes.maketrans(_DIGITS, b"0" * 10)
_MARKS_TO_SPACE = bytes.maketrans(b"[],;", b"    ")
_TOO_MANY_DIGITS = b"0" * (_MAX_DIGITS + 1)
_LEADING_ZEROS = re.compile(rb"(?<![0-9])0+(?=[0-9])")
_TOO_LARGE = f"a number of more than {_MAX_DIGITS} digits; no image has that many pixels"


@dataclass(frozen=True, slots=True, eq=False)
class Rle:
    """A mask as two int64 arrays: first pixels (from 0), ascending, and lengths (positive). No pixel is in two runs."""

    starts: IntArray
    lengths: IntArray

    @property
    def area(self) -> int:
        return int(self.lengths.sum())

    @property
    def ends(self) -> IntArray:
        return self.starts + self.lengths


EMPTY = Rle(np.empty(0, np.int64), np.empty(0, np.int64))


def whole(shape: Shape) -> Rle:
    """Every pixel of a picture, in either order."""
    pixels = shape[0] * shape[1]
    return Rle(np.array([0], np.int64), np.array([pixels], np.int64)) if pixels else EMPTY


# --- text ---------------------------------------------------------------------------------------------------------


def parse_pairs(text: str, *, pixels: int | None) -> Rle:
    """`start length start length ...`, numbered from 1. No text is no pixel. ValueError says what is wrong.

    `pixels` is how many the image has; None where unknown.

    >>> parse_pairs("1 3 10 5", pixels=20).area
    8
    """
    if len(text) > MAX_CELL_BYTES:
        raise ValueError(f"{len(text):,} characters in one cell; the most is {MAX_CELL_BYTES:,}")
    data = text.encode("utf-8", "surrogateescape")
    if data.translate(None, _DIGITS + _SPACES):
        word = next((word for word in text.split(" ") if word.encode("utf-8", "replace").strip(_DIGITS)), text)
        raise ValueError(f"{word[:20]!r} is not a whole number of digits 0 to 9")
    return _to_runs(_read_numbers(data), pixels)


def parse_lists(text: str, *, pixels: int | None) -> tuple[Rle, ...]:
    """JSON lists `[start, length, ...]` joined by `;`, one for each instance. ValueError says what is wrong.

    >>> [instance.area for instance in parse_lists("[1, 2, 5, 1];[3, 1]", pixels=9)]
    [3, 1]
    """
    (found,) = parse_many_lists([text], pixels=[pixels])
    if isinstance(found, ValueError):
        raise found
    return found


def parse_many_lists(texts: Sequence[str], *, pixels: Sequence[int | None]) -> list[tuple[Rle, ...] | ValueError]:
    """The same for many texts at once, several times as fast; an error stands in the place of its text."""
    found: list[tuple[Rle, ...] | ValueError] = []
    for first in range(0, len(texts), BATCH):
        some, limits = texts[first : first + BATCH], pixels[first : first + BATCH]
        found += _parse_plain_texts(some, limits) or map(_parse_any_lists, some, limits)
    return found


def format_pairs(runs: Rle) -> str:
    """The space-separated text of a mask; no pixel is the empty text."""
    return " ".join(map(str, _interleave(runs).tolist()))


def format_lists(instances: Sequence[Rle]) -> str:
    """The JSON lists of some masks, joined by `;`."""
    return ";".join(str(_interleave(runs).tolist()) for runs in instances)


def _interleave(runs: Rle) -> IntArray:
    return np.stack([runs.starts + 1, runs.lengths], axis=1).ravel()


def _parse_plain_texts(texts: Sequence[str], pixels: Sequence[int | None]) -> list[tuple[Rle, ...]] | None:
    """Lists as programs write them, `[1, 2];[3, 4]` or `[1,2];[3,4]`, all at once; None where anything is unusual.

    Without the digits such a text is `[, , ];[, ]`, and where these marks are not torn apart by digits each place
    between commas holds one number at most: as many numbers as places means that none is empty.
    """
    if sum(map(len, texts)) > MAX_CELL_BYTES:
        return None
    data = ";".join(texts).encode("utf-8", "surrogateescape")
    gaps = data.translate(None, _DIGITS)
    comma = b", " if b" " in gaps else b","
    places = [len(piece) // len(comma) + 1 for piece in gaps[1:-1].split(b"];[")]
    plain_gaps = b"[" + b"];[".join([comma * (count - 1) for count in places]) + b"]"
    plain_marks = data.count(comma) == sum(places) - len(places) and data.count(b"];[") == len(places) - 1
    if gaps != plain_gaps or not plain_marks or data[:1] != b"[" or data[-1:] != b"]":
        return None
    spaced = data.translate(_MARKS_TO_SPACE)
    if b" 0" in spaced or any(count % 2 for count in places):  # 0 is no pixel, 01 is no JSON
        return None
    numbers: IntArray = np.fromstring(spaced.decode("ascii"), dtype=np.int64, sep=" ")
    counts = [text.count(";") + 1 for text in texts]
    if len(numbers) != sum(places) or numbers.max() >= 10**_MAX_DIGITS or max(counts) > MAX_INSTANCES:
        return None  # too large a number is read as the largest there is
    limits = np.repeat([MAX_PIXELS if limit is None else limit for limit in pixels], counts)
    instances = _cut_runs(numbers, np.cumsum([0, *places]) // 2, limits)
    if instances is None:
        return None
    return [tuple(instances[a:b]) for a, b in pairwise(accumulate(counts, initial=0))]


def _cut_runs(numbers: IntArray, cuts: IntArray, limits: IntArray) -> list[Rle] | None:
    """Pairs of positive numbers to the masks that begin and end at these pairs; None where one is not valid."""
    starts, lengths = numbers[0::2] - 1, numbers[1::2].copy()
    ends = starts + lengths
    rising = starts[1:] >= ends[:-1]
    rising[cuts[1:-1] - 1] = True  # from one mask to the next anything goes
    if len(starts) > MAX_RUNS or not rising.all() or (ends[cuts[1:] - 1] > limits).any():
        return None
    return [Rle(starts[a:b], lengths[a:b]) for a, b in pairwise(cuts.tolist())]


def _parse_any_lists(text: str, pixels: int | None) -> tuple[Rle, ...] | ValueError:
    """One list after the other, or a sentence about what is wrong."""
    pieces = text.split(";", MAX_INSTANCES)
    if len(text) > MAX_CELL_BYTES:
        return ValueError(f"{len(text):,} characters in one cell; the most is {MAX_CELL_BYTES:,}")
    if len(pieces) > MAX_INSTANCES:
        return ValueError(f"more than {MAX_INSTANCES:,} instances")
    instances = []
    for number, piece in enumerate(pieces, 1):
        try:
            instances.append(_to_runs(_read_any_list(piece), pixels))
        except ValueError as error:
            return ValueError(f"instance {number}: {error}" if len(pieces) > 1 else str(error))
    return tuple(instances)


def _read_any_list(piece: str) -> IntArray:
    """Any JSON list of whole numbers; ValueError with a sentence for everything else."""
    text = piece.strip(_SPACES.decode())
    if not text:
        raise ValueError("empty text where a list [start, length, ...] was expected")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:20]!r} is not a JSON list [start, length, ...]") from None
    if not isinstance(values, list):
        raise ValueError(f"{text[:20]!r} is not a list [start, length, ...]")
    if not values:
        raise ValueError("an empty list [] is no instance: leave it out, or answer authentic")
    for value in values:
        if type(value) is not int:
            raise ValueError(f"{str(value)[:20]!r} is not a whole number")
        if abs(value) >= 10**_MAX_DIGITS:
            raise ValueError(_TOO_LARGE)
    return np.array(values, np.int64)


def _read_numbers(data: bytes) -> IntArray:
    """Digits and white space to integers, in C."""
    if _TOO_MANY_DIGITS in data.translate(_DIGITS_TO_ZERO):
        data = _LEADING_ZEROS.sub(b"", data)
        if _TOO_MANY_DIGITS in data.translate(_DIGITS_TO_ZERO):
            raise ValueError(_TOO_LARGE)
    if not data.strip(_SPACES):
        return np.empty(0, np.int64)
    numbers: IntArray = np.fromstring(data.decode("ascii"), dtype=np.int64, sep=" ")
    return numbers


def _to_runs(numbers: IntArray, pixels: int | None) -> Rle:
    if len(numbers) % 2:
        raise ValueError(f"{len(numbers):,} number{'s' * (len(numbers) > 1)}, so the last start has no length")
    starts, lengths = numbers[0::2] - 1, numbers[1::2].copy()
    if len(starts) > MAX_RUNS:
        raise ValueError(f"{len(starts):,} pairs; the most is {MAX_RUNS:,}")
    if not len(starts):
        return EMPTY
    ends = starts + lengths
    limit = MAX_PIXELS if pixels is None else pixels
    ascending = starts[0] >= 0 and lengths.min() >= 1 and (starts[1:] >= ends[:-1]).all()
    if not ascending or ends[-1] > limit:
        raise ValueError(_find_fault(starts, lengths, limit, pixels is not None))
    return Rle(starts, lengths)


def _find_fault(starts: IntArray, lengths: IntArray, limit: int, limit_is_known: bool) -> str:
    """The first thing that is wrong with these pairs, for the user."""
    ends = starts + lengths
    if (bad := _first(starts < 0)) is not None:
        return f"pair {bad + 1} starts at pixel {starts[bad] + 1}; pixels are numbered from 1"
    if (bad := _first(lengths < 1)) is not None:
        return f"pair {bad + 1} has length {lengths[bad]}; a length is at least 1"
    if (bad := _first(starts[1:] < starts[:-1])) is not None:
        before, after = starts[bad] + 1, starts[bad + 1] + 1
        return f"pair {bad + 2} starts at pixel {after}, pair {bad + 1} at {before}: starts must ascend"
    if (bad := _first(starts[1:] < ends[:-1])) is not None:
        start, end = starts[bad + 1] + 1, ends[bad]
        return f"pair {bad + 2} starts at pixel {start}, pair {bad + 1} ends at {end}: a pixel is duplicated"
    bad = int((ends > limit).argmax())
    has = f"the image has {limit}" if limit_is_known else f"no image has more than {limit}"
    return f"pair {bad + 1} ends at pixel {ends[bad]}, {has}"


def _first(condition: BoolArray) -> int | None:
    return int(condition.argmax()) if condition.any() else None


# --- pixels -------------------------------------------------------------------------------------------------------


def encode(mask: BoolArray, *, order: Order) -> Rle:
    """Run lengths of the true pixels of a 2-D mask, numbered along `order`.

    >>> encode(np.array([[True, True], [True, False]]), order="columns").starts
    array([0])
    """
    flat = mask.ravel(order="C" if order == "rows" else "F").astype(bool, copy=False)
    if not flat.size:
        return EMPTY
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate([[0] if flat[0] else [], changes, [flat.size] if flat[-1] else []]).astype(np.int64)
    return Rle(edges[0::2], edges[1::2] - edges[0::2])


def decode(runs: Rle, shape: Shape, *, order: Order) -> BoolArray:
    """The 2-D mask of some runs, which must lie within the shape."""
    size = shape[0] * shape[1]
    if len(runs.starts) and int(runs.ends[-1]) > size:
        raise ValueError(f"runs end at pixel {int(runs.ends[-1])}, the image has {size}")
    steps = np.zeros(size + 1, np.int8)
    steps[runs.starts] += 1
    steps[runs.ends] -= 1
    flat = np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)
    return flat.reshape(shape, order="C" if order == "rows" else "F")


def decode_bands(runs: Rle, shape: Shape, *, rows: int) -> Iterator[BoolArray]:
    """The mask of runs along rows, from the top, so many rows at a time: for masks too large to be held.

    >>> [band.tolist() for band in decode_bands(encode(np.eye(3, dtype=bool), order="rows"), (3, 3), rows=2)]
    [[[True, False, False], [False, True, False]], [[False, False, True]]]
    """
    for top in range(0, shape[0], rows):
        yield decode_rows(runs, shape, top, min(shape[0], top + rows))


def decode_rows(runs: Rle, shape: Shape, top: int, bottom: int) -> BoolArray:
    """Some rows of the mask of runs along rows, the end excluded."""
    width = shape[1]
    begin, end = top * width, bottom * width
    first, last = int(np.searchsorted(runs.ends, begin, side="right")), int(np.searchsorted(runs.starts, end))
    starts = np.maximum(runs.starts[first:last], begin) - begin
    ends = np.minimum(runs.ends[first:last], end) - begin
    return decode(Rle(starts, ends - starts), (bottom - top, width), order="rows")


# --- overlaps -----------------------------------------------------------------------------------------------------


def overlap(first: Rle, second: Rle) -> int:
    """Pixels in both masks, without making pixels.

    >>> overlap(parse_pairs("1 5", pixels=9), parse_pairs("3 9", pixels=None))
    3
    """
    return int(overlaps([first], [second])[0])


def areas(masks: Sequence[Rle]) -> IntArray:
    """Pixels of each mask."""
    _, lengths, cuts = _join(masks)
    return np.diff(np.concatenate(([0], lengths.cumsum()))[cuts])


def overlaps(firsts: Sequence[Rle], seconds: Sequence[Rle]) -> IntArray:
    """Pixels in both, for each pair of masks: the first with the first, the second with the second, and so on.

    The pixels of a mask below position x are a piecewise linear function of x; the overlap with a run is the
    function's rise over the run. The pairs are laid behind each other, so that all is looked up at once.
    """
    starts, lengths, cuts = _join(firsts)
    other_starts, other_lengths, other_cuts = _join(seconds)
    if not len(starts) or not len(other_starts):
        return np.zeros(len(firsts), np.int64)
    span = max(int((starts + lengths).max()), int((other_starts + other_lengths).max())) + 1
    shifts = np.arange(len(firsts)) * span
    starts += np.repeat(shifts, np.diff(cuts))
    other_starts += np.repeat(shifts, np.diff(other_cuts))
    rise = _pixels_below(other_starts, other_lengths, starts + lengths)
    rise -= _pixels_below(other_starts, other_lengths, starts)
    sums = np.concatenate(([0], rise.cumsum()))
    return np.diff(sums[cuts])


def _join(masks: Sequence[Rle]) -> tuple[IntArray, IntArray, IntArray]:
    """Starts and lengths of all masks, and where each mask begins and ends among them."""
    cuts = np.cumsum([0, *(len(runs.starts) for runs in masks)])
    masks = masks or (EMPTY,)
    return np.concatenate([runs.starts for runs in masks]), np.concatenate([runs.lengths for runs in masks]), cuts


def _pixels_below(starts: IntArray, lengths: IntArray, positions: IntArray) -> IntArray:
    """How many pixels of a mask that is not empty lie before each position."""
    last = starts.searchsorted(positions, side="right")
    before = np.concatenate(([0], lengths.cumsum()))
    # All of the runs begun, less what of the last one lies beyond; there is none for last = 0, where both ends are 0.
    beyond = np.concatenate(([0], starts + lengths))[last] - positions
    below: IntArray = before[last] - np.maximum(beyond, 0)
    return below
