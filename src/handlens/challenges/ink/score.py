"""How an ink answer is written and what it is worth: run-length pairs along rows, F0.5."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from handlens.masks.metrics import Counts, compare, fbeta, precision, recall
from handlens.masks.rle import Rle, decode, encode, format_pairs, parse_pairs
from handlens.types import Case, CaseScore, Codec, Order, Score, Shape, Truth
from handlens.views import Mark

if TYPE_CHECKING:
    from handlens.challenges.ink.options import InkSettings

BETA = 0.5
"""Precision counts more than recall."""

EMPTY_F = 0.0
"""F0.5 where there is no ink and none was said."""

ORDER: Order = "rows"
"""Pixels are numbered left to right, then down."""

ONE_PIXEL = Rle(np.array([0], np.int64), np.array([1], np.int64))
"""What is written where no ink was found: an empty cell is read as missing."""

MARKS = (Mark("1st of 1,249", 0.6827), Mark("top 10 %", 0.621), Mark("median", 0.372))
MARKS_ABOUT = "Private scores of the contest on its own fragments: a yardstick, other papyrus."


def codec(settings: InkSettings) -> Codec[Rle]:
    """`Id,Predicted`; an empty cell is refused."""
    return Codec(
        id_column="Id",
        columns=("Predicted",),
        parse=_parse,
        format=lambda runs, case: (format_pairs(runs if len(runs.starts) else ONE_PIXEL),),
        refused={
            "empty": ("",),
            "only spaces": ("  ",),
            "odd count": ("1 1 5",),
            "start 0": ("0 1",),
            "length 0": ("1 0",),
            "negative": ("1 -1",),
            "not sorted": ("5 1 1 1",),
            "pixel twice": ("1 3 3 1",),
            "past the end": ("1 999999999999",),
            "huge number": ("1 99999999999999999999999",),
            "fraction": ("1.5 1",),
            "not a number": ("ink",),
        },
    )


def score(answers: Mapping[str, Rle], truth: Truth[Rle], settings: InkSettings) -> Score:
    """F0.5 a fragment and their mean; or of all pixels at once with `average="pooled"`."""
    cases = []
    pooled = Counts(0, 0, 0)
    for case in truth.cases:
        counts = compare(answers[case.id], truth.read(case))
        pooled += counts
        parts = {"precision": precision(counts), "recall": recall(counts)}
        parts |= {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn}
        cases.append(CaseScore(case.id, fbeta(counts, beta=BETA, empty=EMPTY_F), parts))
    mean = math.fsum(case.value for case in cases) / len(cases)
    together = fbeta(pooled, beta=BETA, empty=EMPTY_F)
    value = together if settings.average == "pooled" else mean
    return Score(value, {"mean F0.5": mean, "pooled F0.5": together}, tuple(cases))


def perfect(label: Rle, case: Case, settings: InkSettings) -> Rle:
    return label


def empty(case: Case, settings: InkSettings) -> Rle:
    return ONE_PIXEL


def _parse(cells: tuple[str, ...], case: Case) -> Rle:
    if not cells[0].strip():
        raise ValueError("an empty cell, which scorers read as missing: write one pixel, such as 1 1")
    return parse_pairs(cells[0], pixels=case.pixels)


def from_masks(masks: Sequence[npt.NDArray[np.bool_]], settings: InkSettings) -> Rle:
    """The answer that a mask is; one pixel where there is no ink, as an empty cell is read as missing."""
    return encode(masks[0], order=ORDER) if masks[0].any() else ONE_PIXEL


def to_masks(answer: Rle, shape: Shape, settings: InkSettings) -> list[npt.NDArray[np.bool_]]:
    return [decode(answer, shape, order=ORDER)]
