"""Masks as layers of a report: outlines, areas, where two of them disagree, and why that cost points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from handlens.masks.differences import Difference, differences
from handlens.masks.rle import Rle, decode, decode_rows, encode
from handlens.types import Order, Shape
from handlens.views import ANSWER, EXTRA, MISSED, TRUTH, Colour, Layer, Reason

Bytes = npt.NDArray[np.uint8]

LEAST_LOST = 0.00005
"""Points below which a difference is a speck: with the four places that are shown it would cost 0.0000. Rule."""

REASONS_MOST = 200
"""Differences of a case that are named, the largest first; the rest of each kind is one reason together."""


def along_rows(runs: Rle, shape: Shape, order: Order) -> Rle:
    """The same mask with its pixels numbered along rows."""
    return runs if order == "rows" else encode(decode(runs, shape, order=order), order="rows")


def outlines(name: str, mask: Rle, shape: Shape, colour: Colour, *, on: bool = True) -> Layer:
    """The inner border of a mask, a pixel wide."""

    def read(top: int, bottom: int) -> Bytes:
        above, below = max(0, top - 1), min(shape[0], bottom + 1)
        rows = decode_rows(mask, shape, above, below)
        inner = rows.copy()
        inner[:-1] &= rows[1:]
        inner[1:] &= rows[:-1]
        inner[:, :-1] &= rows[:, 1:]
        inner[:, 1:] &= rows[:, :-1]
        edge: Bytes = (rows & ~inner)[top - above : bottom - above].view(np.uint8)
        return edge

    return Layer(name, shape, read, (colour,), on)


def areas(name: str, mask: Rle, shape: Shape, colour: Colour, *, on: bool = True) -> Layer:
    """The whole of a mask."""
    return Layer(name, shape, lambda top, bottom: decode_rows(mask, shape, top, bottom).view(np.uint8), (colour,), on)


def disagreement(predicted: Rle, true: Rle, shape: Shape, *, on: bool = False) -> Layer:
    """What was missed in one colour, what was answered too much in another."""

    def read(top: int, bottom: int) -> Bytes:
        said, there = (decode_rows(mask, shape, top, bottom).view(np.uint8) for mask in (predicted, true))
        found: Bytes = np.where(said == there, 0, np.where(there, 1, 2)).astype(np.uint8)
        return found

    return Layer("missed, too much", shape, read, (MISSED, EXTRA), on)


def mask_layers(answer: Rle, label: Rle | None, shape: Shape, *, filled: bool = False) -> list[Layer]:
    """Answer and, where there is one, truth and disagreement; rows first."""
    draw = areas if filled else outlines
    layers = [draw("answer", answer, shape, ANSWER)]
    if label is not None:
        layers = [draw("truth", label, shape, TRUTH, on=not filled), *layers, disagreement(answer, label, shape)]
    return layers


def reasons(answer: Rle, label: Rle, shape: Shape, lost: float, words: Mapping[str, str]) -> list[Reason]:
    """Why points were lost: `lost` of them, shared among the wrong pixels.

    `words` has a sentence for each word of a `Difference`.
    """
    found = differences(answer, label, shape)
    wrong = sum(each.pixels for each in found)
    if not wrong:
        return []
    named = sum(lost * each.pixels >= LEAST_LOST * wrong for each in found[:REASONS_MOST])
    shown = [
        Reason(each.kind, f"{words[each.word]}, {each.pixels:,} pixels", lost * each.pixels / wrong, each.box)
        for each in found[:named]
    ]
    return [*shown, *_rest(found[named:], lost / wrong)]


def _rest(left: Sequence[Difference], worth: float) -> list[Reason]:
    """A reason for each kind; specks that cost next to nothing are told, but not counted as errors."""
    found: dict[str, list[Difference]] = {}
    for each in left:
        found.setdefault(each.kind, []).append(each)
    reasons = []
    for kind, some in found.items():
        pixels = sum(each.pixels for each in some)
        count = sum(worth * each.pixels >= LEAST_LOST for each in some)
        text = f"{len(some):,} smaller, {pixels:,} pixels together"
        reasons.append(Reason(kind, text, worth * pixels, count=count))
    return reasons
