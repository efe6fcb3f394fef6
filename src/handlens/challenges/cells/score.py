"""How a cells answer is written and what it is worth: run-length pairs, mean Dice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from handlens.masks.metrics import compare, dice
from handlens.masks.rle import EMPTY, Rle, decode, encode, format_pairs, parse_pairs
from handlens.types import Case, CaseScore, Codec, Order, Score, Shape, Truth
from handlens.views import Mark

if TYPE_CHECKING:
    from handlens.challenges.cells.options import CellsSettings

EMPTY_DICE = 1.0
"""Dice where mask and answer are both empty (the text; the organiser's own code gives NaN)."""

ORDER: Order = "rows"
"""How pixels are numbered: the published encoder goes along rows, though the text says columns."""

MUCH_HIGHER = 0.1
"""How much better the transposed reading must score before we speak of it."""

MAX_TRANSPOSED = 100_000_000
"""Largest image, in pixels, that is turned to see whether the hint applies: a hundred times the contest's."""

MARKS = (Mark("HoVer-Net", 0.826), Mark("Otsu", 0.77))
MARKS_ABOUT = (
    "HoVer-Net and Otsu: what papers report on MoNuSeg, of which the contest's data are; a yardstick, other images."
)


def codec(settings: CellsSettings) -> Codec[Rle]:
    """`img,pixels`; an empty cell is an empty mask."""
    return Codec(
        id_column="img",
        columns=("pixels",),
        parse=_parse,
        format=lambda runs, case: (format_pairs(runs),),
        refused={
            "odd count": ("1 1 5",),
            "start 0": ("0 1",),
            "length 0": ("1 0",),
            "negative": ("-1 5",),
            "not sorted": ("5 1 1 1",),
            "pixel twice": ("1 3 2 1",),
            "past the end": ("1 999999999999",),
            "huge number": ("1 99999999999999999999999",),
            "fraction": ("1.0 1",),
            "not a number": ("nan",),
            "JSON list": ("[1, 1]",),
        },
        hint=_hint_about_ids,
    )


def score(answers: Mapping[str, Rle], truth: Truth[Rle], settings: CellsSettings) -> Score:
    """Mean Dice, and a hint when the answers look transposed."""
    order: Order = settings.order
    cases, turned = [], []
    for case in truth.cases:
        true, said = truth.read(case), answers[case.id]
        counts = compare(said, true)
        value = dice(counts, empty=EMPTY_DICE)
        cases.append(CaseScore(case.id, value, {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn}))
        turned.append(dice(compare(_transposed(said, case, order), true), empty=EMPTY_DICE))
    mean, other = (math.fsum(values) / len(values) for values in ([c.value for c in cases], turned))
    notes = (_hint(order, other),) if other > mean + MUCH_HIGHER else ()
    return Score(mean, {"mean Dice": mean}, tuple(cases), notes)


def perfect(label: Rle, case: Case, settings: CellsSettings) -> Rle:
    return label


def empty(case: Case, settings: CellsSettings) -> Rle:
    return EMPTY


def _parse(cells: tuple[str, ...], case: Case) -> Rle:
    return parse_pairs(cells[0], pixels=case.pixels)


def _transposed(runs: Rle, case: Case, order: Order) -> Rle:
    """The same text read in the other order."""
    if not len(runs.starts) or case.shape is None or (case.pixels or 0) > MAX_TRANSPOSED:
        return runs
    return encode(decode(runs, case.shape, order="columns" if order == "rows" else "rows"), order=order)


def _hint_about_ids(given: Sequence[str], expected: Sequence[str]) -> str:
    """The two usual mistakes: counting from 1, and the file name's zeros."""
    if not all(id.isascii() and id.isdigit() and len(id) < 19 for id in (*given, *expected)):
        return ""
    ours, theirs = sorted(map(int, expected)), sorted(map(int, given))
    if theirs == [number + 1 for number in ours]:
        return f"img counts from {theirs[0]} here, but ids start at {ours[0]}"
    return "img is a plain number: 00.png is img 0, not 00" if theirs == ours else ""


def _hint(order: Order, other: float) -> str:
    wrong = "columns" if order == "rows" else "rows"
    return (
        f"read with pixels numbered along {wrong}, this file would score {other:.4f}: "
        f"it seems to be written that way; write it along {order}, "
        f"or score it with --order {wrong} where the truth is masks"
    )


def from_masks(masks: Sequence[npt.NDArray[np.bool_]], settings: CellsSettings) -> Rle:
    """The answer that a mask is."""
    return encode(masks[0], order=settings.order)


def to_masks(answer: Rle, shape: Shape, settings: CellsSettings) -> list[npt.NDArray[np.bool_]]:
    return [decode(answer, shape, order=settings.order)]
