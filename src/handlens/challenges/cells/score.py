"""How a cells answer is written and what it is worth: run-length pairs, mean Dice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

from handlens.metrics import compare, dice
from handlens.runs import EMPTY, Runs, decode, encode, format_pairs, parse_pairs
from handlens.types import Case, CaseScore, Codec, Option, Order, Score, Settings, Truth

EMPTY_DICE = 1.0
"""Dice where mask and answer are both empty (the text; the organiser's own code gives NaN)."""

ORDER: Order = "rows"
"""How pixels are numbered: the published encoder goes along rows, though the text says columns."""

MUCH_HIGHER = 0.1
"""How much better the transposed reading must score before we speak of it."""

OPTIONS = (Option("order", "How pixels are numbered.", choices=get_args(Order), default=ORDER),)


def codec(settings: Settings) -> Codec:
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
    )


def score(answers: Mapping[str, Runs], truth: Truth, settings: Settings) -> Score:
    """Mean Dice, and a hint when the answers look transposed."""
    order: Order = settings["order"]
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


def perfect(label: Runs, case: Case, settings: Settings) -> Runs:
    return label


def empty(case: Case, settings: Settings) -> Runs:
    return EMPTY


def _parse(cells: tuple[str, ...], case: Case) -> Runs:
    return parse_pairs(cells[0], pixels=case.pixels)


def _transposed(runs: Runs, case: Case, order: Order) -> Runs:
    """The same text read in the other order."""
    if not len(runs.starts) or case.shape is None:
        return runs
    return encode(decode(runs, case.shape, order="columns" if order == "rows" else "rows"), order=order)


def _hint(order: Order, other: float) -> str:
    wrong = "columns" if order == "rows" else "rows"
    return (
        f"read with pixels numbered along {wrong}, this file would score {other:.4f}: "
        f"it seems to be written that way; write it along {order}, "
        f"or score it with --order {wrong} where the truth is masks"
    )
