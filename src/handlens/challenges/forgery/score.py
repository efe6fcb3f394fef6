"""How a forgery answer is written and what it is worth: `authentic` or JSON lists along columns, oF1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from handlens.masks.metrics import matched_f1_of_many
from handlens.masks.rle import Rle, decode, encode, format_lists, parse_many_lists
from handlens.types import Case, CaseScore, Codec, Order, Score, Shape, Truth
from handlens.views import Mark

if TYPE_CHECKING:
    from handlens.challenges.forgery.options import ForgerySettings

AUTHENTIC = "authentic"
"""The word for an image without forgery; inside it is the empty tuple of instances."""

ORDER: Order = "columns"
"""Pixels are numbered top to bottom, then right."""

Instances = tuple[Rle, ...]

MARKS = (Mark("1st of 1,564", 0.550), Mark("6th", 0.336), Mark("72nd", 0.189))
MARKS_ABOUT = "Private scores of the contest on its own figures: a yardstick, other figures."


def codec(settings: ForgerySettings) -> Codec[tuple[Rle, ...]]:
    """`case_id,annotation`: `authentic`, or one JSON list for each instance joined by `;`."""
    return Codec(
        id_column="case_id",
        columns=("annotation",),
        parse=_parse,
        parse_many=parse_annotations,
        format=lambda instances, case: (format_lists(instances) if instances else AUTHENTIC,),
        refused={
            "empty": ("",),
            "capital": ("Authentic",),
            "dash": ("-",),
            "not a number": ("nan",),
            "no list": ("1 1",),
            "empty list": ("[]",),
            "trailing separator": ("[1, 1];",),
            "trailing comma": ("[1, 1,]",),
            "missing comma": ("[1 1]",),
            "nested list": ("[[1, 1]]",),
            "odd count": ("[1, 1, 5]",),
            "start 0": ("[0, 1]",),
            "length 0": ("[1, 0]",),
            "negative": ("[1, -1]",),
            "not sorted": ("[5, 1, 1, 1]",),
            "overlap inside an instance": ("[1, 3, 2, 1]",),
            "past the end": ("[1, 999999999999]",),
            "huge number": ("[1, 99999999999999999999999]",),
            "fraction": ("[1.0, 1]",),
            "leading zero": ("[01, 1]",),
            "authentic and a mask": ("authentic;[1, 1]",),
        },
    )


def score(answers: Mapping[str, Instances], truth: Truth[tuple[Rle, ...]], settings: ForgerySettings) -> Score:
    """Mean over images of 1 or 0 where one side says authentic, and of oF1 where both name instances."""
    pairs = [(answers[case.id], truth.read(case)) for case in truth.cases]
    values = iter(matched_f1_of_many([(said, true) for said, true in pairs if said and true]))
    cases = tuple(
        CaseScore(
            case.id,
            next(values) if said and true else float(not said and not true),
            {"truth": "forged" if true else AUTHENTIC, "instances": len(true), "predicted": len(said)},
        )
        for case, (said, true) in zip(truth.cases, pairs, strict=True)
    )
    mean = float(np.mean([case.value for case in cases]))
    parts = {"mean oF1": mean}
    for kind in ("authentic", "forged"):
        some = [case.value for case in cases if case.parts["truth"] == kind]
        if some:
            parts |= {f"{kind} images": len(some), f"mean over {kind}": float(np.mean(some))}
    return Score(mean, parts, cases)


def perfect(label: Instances, case: Case, settings: ForgerySettings) -> Instances:
    return label


def empty(case: Case, settings: ForgerySettings) -> Instances:
    return ()


def _parse(cells: tuple[str, ...], case: Case) -> Instances:
    (found,) = parse_annotations([cells], [case])
    if isinstance(found, ValueError):
        raise found
    return found


def parse_annotations(rows: Sequence[tuple[str, ...]], cases: Sequence[Case]) -> list[Instances | ValueError]:
    """The instances of many rows at once, or what is wrong with them."""
    found = [_parse_word(text) for (text,) in rows]
    masks = [number for number, answer in enumerate(found) if answer is None]
    texts, pixels = [rows[number][0] for number in masks], [cases[number].pixels for number in masks]
    parsed = parse_many_lists(texts, pixels=pixels)
    answers = dict(zip(masks, parsed, strict=True))
    return [answers[number] if answer is None else answer for number, answer in enumerate(found)]


def _parse_word(text: str) -> Instances | ValueError | None:
    """The answer where there are no lists: the word, or what is wrong with it; None where there should be lists."""
    if text == AUTHENTIC:
        return ()
    if not text.strip():
        return ValueError(f"an empty cell: write {AUTHENTIC}, or a list [start, length, ...] for each instance")
    if text[:20].strip().lower() == AUTHENTIC:
        return ValueError(f"{text[:20]!r}: the word is {AUTHENTIC}, in small letters and without spaces")
    return None


def from_masks(masks: Sequence[npt.NDArray[np.bool_]], settings: ForgerySettings) -> Instances:
    """An instance for each mask that is not empty; none is `authentic`."""
    return tuple(encode(mask, order=ORDER) for mask in masks if mask.any())


def to_masks(answer: Instances, shape: Shape, settings: ForgerySettings) -> list[npt.NDArray[np.bool_]]:
    return [decode(instance, shape, order=ORDER) for instance in answer]
