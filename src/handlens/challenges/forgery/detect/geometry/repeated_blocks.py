"""Blocks of grain that stand in a picture twice, as they are or mirrored or turned by quarters, however few they are.

The signs of a block's waves are its word: a copied block has the word of its source, whatever was done to brightness
and contrast, and two honest ones have the same by chance only. Where many neighbouring blocks have their words again at
the same displacement, something was copied. A mirror or a quarter turn changes words in a way that is known, so that
one table of words answers for all eight turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, IntArray, Matrix, Patch
from handlens.challenges.forgery.detect.geometry.turns import TURNS, Turn, linear_of

SIDE = 10
"""Side of a block in pixels. By hand: the smallest clones are 12 pixels wide."""

COARSEST, FINEST = 2.5, 5.6
"""Half waves across a block that a word is made of: between what grain has at all, and what resampling and JPEG leave.
By hand."""

FREQUENCIES = tuple((u, v) for u in range(SIDE) for v in range(SIDE) if COARSEST <= np.hypot(u, v) <= FINEST)
"""Half waves down and across a block, one for each bit of a word: transposed they are the same ones."""

MOST_EQUAL = 8
"""Most blocks of one word: where there are more, they repeat by nature. By hand."""

STRIDE = 2
"""Pixels between the blocks that are looked up in a turned picture. By hand: bounds the time."""

CELL = 24
"""Side in pixels of the squares in which blocks of one displacement are counted. By hand."""

FEWEST, RIVAL, ABOVE_RIVALS = 6, 20, 3.0
"""Fewest blocks of one displacement in such a square, and how many times as many as those of the displacement that has
so many others before it: there, chance or a texture that repeats is at work. By hand."""

JPEG = 8
"""Side of the squares of JPEG, which packs equal ground equally: displacements that lay them on one another prove
nothing, and those that bring them in line across or down are compared with each other alone. Rule."""

FLATTEST = 0.4
"""Least deviation of a block, in grey levels of the file. By hand: below, most pixels are alike."""

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Blocks that are there again: how many, by which transform, and the pixels of the copy."""

    count: int
    matrix: Matrix
    copy: Patch


def find_repeats(grain: FloatArray, stored: FloatArray, blocked: BoolArray, *, displacement: int) -> list[Repeat]:
    """Where grain, equally strong everywhere, repeats at least `displacement` pixels away, the most blocks first.

    `stored` are the levels of the file; blocks with `blocked` pixels are not looked at.
    """
    places = np.flatnonzero(_uneven(stored) & _inside(~blocked))
    rows, columns = np.divmod(places, grain.shape[1])
    plain = _words(grain)
    order = np.argsort(plain.ravel()[places], kind="stable")
    table = places[order]
    known = plain.ravel()[table]
    found: list[Repeat] = []
    for turn in TURNS:
        straight = turn == (0, False)
        asked = places if straight else places[(rows % STRIDE == 0) & (columns % STRIDE == 0)]
        words = _turned_words(plain.ravel()[asked], turn)
        sources, copies = _equal(words, asked, known, table)
        found += _agreeing(sources, copies, turn, grain.shape, displacement)
    return sorted(found, key=lambda each: -each.count)


def _inside(mask: BoolArray) -> BoolArray:
    """Where a block begins that lies in a mask."""
    inside = cv2.erode(mask.astype(np.uint8), np.ones((SIDE, SIDE)), anchor=(0, 0), borderValue=0)
    inside[1 - SIDE :] = 0
    inside[:, 1 - SIDE :] = 0
    return np.asarray(inside > 0)


def _uneven(stored: FloatArray) -> BoolArray:
    """Where a block begins that shows anything."""
    middle = np.float32(stored.mean())
    mean, square = (
        cv2.boxFilter(each, -1, (SIDE, SIDE), anchor=(0, 0)) for each in (stored - middle, (stored - middle) ** 2)
    )
    return np.asarray(square - mean * mean > FLATTEST**2)


def _words(grain: FloatArray) -> Words:
    """The word of the block that begins at each pixel."""
    waves = [np.cos(np.pi * (np.arange(SIDE) + 0.5) * half / SIDE).astype(np.float32) for half in range(SIDE)]
    words = np.zeros(grain.shape, np.uint32)
    down: dict[int, FloatArray] = {}
    for bit, (u, v) in enumerate(FREQUENCIES):
        if u not in down:
            down[u] = _filtered(grain, waves[u][:, None])
        words |= (_filtered(down[u], waves[v][None]) > 0).astype(np.uint32) << np.uint32(bit)
    return words


def _filtered(picture: FloatArray, kernel: FloatArray) -> FloatArray:
    found = cv2.filter2D(picture, -1, kernel, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
    return np.asarray(found, np.float32)


def _turned_words(words: Words, turn: Turn) -> Words:
    """The words that blocks have after a turn: bits of transposed waves change places, odd ones that are mirrored turn.

    >>> _turned_words(_turned_words(np.arange(4, dtype=np.uint32), (1, False)), (3, False)).tolist()
    [0, 1, 2, 3]
    """
    linear = linear_of(turn)
    transposed, mirrored_down, mirrored_across = linear[0, 0] == 0, linear[1].sum() < 0, linear[0].sum() < 0
    found = np.zeros_like(words)
    for bit, (u, v) in enumerate(FREQUENCIES):
        own = FREQUENCIES.index((v, u)) if transposed else bit
        flipped = (mirrored_down and u % 2) ^ (mirrored_across and v % 2)
        found |= ((words >> np.uint32(own)) & np.uint32(1) ^ np.uint32(flipped)) << np.uint32(bit)
    return found


def _equal(words: Words, places: IntArray, known: Words, table: IntArray) -> tuple[IntArray, IntArray]:
    """Places whose words stand in a sorted table, and where, each pair once; not those of words that are frequent."""
    order = np.argsort(words, kind="stable")
    words, places = words[order], places[order]
    first, last = (np.searchsorted(known, words, side) for side in ("left", "right"))
    counts = last - first
    counts[counts > MOST_EQUAL] = 0
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    sources, copies = np.repeat(places, counts), table[np.repeat(first, counts) + steps]
    once = sources < copies
    return sources[once], copies[once]


def _agreeing(
    sources: IntArray, copies: IntArray, turn: Turn, shape: Sequence[int], displacement: int
) -> Iterator[Repeat]:
    """Displacements that so many neighbouring blocks share as chance does not explain."""
    linear = linear_of(turn)
    here, there = (np.stack([each % shape[1], each // shape[1]], axis=1) for each in (sources, copies))
    far = np.abs(there - here).max(axis=1) >= displacement
    here, there = here[far], there[far]
    middle = np.full(2, (SIDE - 1) / 2)
    moves = np.rint(there + middle - (here + middle) @ linear.T).astype(np.int64)
    edges = moves + np.rint(0.5 - linear @ [0.5, 0.5]).astype(np.int64)  # where pixels begin, not their middles
    in_line = (edges % JPEG == 0).sum(axis=1)
    for chosen in (in_line == 0, in_line == 1):
        if chosen.any():
            yield from _standing_out(there[chosen], moves[chosen], linear, 2 * sum(shape))


def _standing_out(there: IntArray, moves: IntArray, linear: Matrix, size: int) -> Iterator[Repeat]:
    """Displacements that far more neighbouring blocks share than most others; none is as long as `size`."""
    key = (moves[:, 0] + size) * (2 * size) + moves[:, 1] + size
    square = (there[:, 1] // CELL) * size + there[:, 0] // CELL
    _, which, count = np.unique(key * size * size + square, return_inverse=True, return_counts=True)
    order = np.argsort(-count[which], kind="stable")
    known, first = np.unique(key[order], return_index=True)
    best = count[which][order][first]
    rank = np.argsort(-best, kind="stable")
    rival = best[rank[RIVAL]] if len(rank) > RIVAL else 0
    for number in rank:
        if best[number] < max(FEWEST, ABOVE_RIVALS * rival):
            return
        own = key == known[number]
        yield from _parts(there[own], np.column_stack([linear, moves[own][0]]))


def _parts(places: IntArray, matrix: Matrix) -> Iterator[Repeat]:
    """The connected parts of the blocks that begin at some places, without those of a few blocks."""
    corner = places.min(axis=0)
    columns, rows = (places - corner).T
    blocks = np.zeros((int(rows.max()) + SIDE, int(columns.max()) + SIDE), np.uint8)
    blocks[rows, columns] = 1
    blocks = np.asarray(cv2.dilate(blocks, np.ones((SIDE, SIDE)), anchor=(SIDE - 1, SIDE - 1)), np.uint8)
    count, parts, boxes, _ = cv2.connectedComponentsWithStats(blocks)
    held = np.bincount(parts[rows, columns], minlength=count)
    for part in range(1, count):
        if held[part] >= FEWEST:
            left, top, width, height = (int(side) for side in boxes[part, :4])
            mask = parts[top : top + height, left : left + width] == part
            yield Repeat(int(held[part]), matrix, Patch(top + int(corner[1]), left + int(corner[0]), mask))
