"""How a forgery answer is written and what it is worth: `authentic` or JSON lists along columns, oF1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from handlens.metrics import matched_f1
from handlens.runs import Runs, format_lists, parse_lists
from handlens.types import Case, CaseScore, Codec, Order, Score, Settings, Truth

AUTHENTIC = "authentic"
"""The word for an image without forgery; inside it is the empty tuple of instances."""

ORDER: Order = "columns"
"""Pixels are numbered top to bottom, then right."""

Instances = tuple[Runs, ...]


def codec(settings: Settings) -> Codec:
    """`case_id,annotation`: `authentic`, or one JSON list for each instance joined by `;`."""
    return Codec(
        id_column="case_id",
        columns=("annotation",),
        parse=_parse,
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


def score(answers: Mapping[str, Instances], truth: Truth, settings: Settings) -> Score:
    """Mean over images of 1 or 0 where one side says authentic, and of oF1 where both name instances."""
    cases = tuple(_score_case(case, answers[case.id], truth.read(case)) for case in truth.cases)
    mean = float(np.mean([case.value for case in cases]))
    parts = {"mean oF1": mean}
    for kind in ("authentic", "forged"):
        values = [case.value for case in cases if case.parts["truth"] == kind]
        if values:
            parts |= {f"{kind} images": len(values), f"mean over {kind}": float(np.mean(values))}
    return Score(mean, parts, cases)


def perfect(label: Instances, case: Case, settings: Settings) -> Instances:
    return label


def empty(case: Case, settings: Settings) -> Instances:
    return ()


def _score_case(case: Case, said: Instances, true: Instances) -> CaseScore:
    value = matched_f1(said, true) if said and true else float(not said and not true)
    kind = "forged" if true else AUTHENTIC
    return CaseScore(case.id, value, {"truth": kind, "instances": len(true), "predicted": len(said)})


def _parse(cells: tuple[str, ...], case: Case) -> Instances:
    text = cells[0]
    if text == AUTHENTIC:
        return ()
    if not text.strip():
        raise ValueError(f"an empty cell: write {AUTHENTIC}, or a list [start, length, ...] for each instance")
    if text.strip().lower() == AUTHENTIC:
        raise ValueError(f"{text!r}: the word is {AUTHENTIC}, in small letters and without spaces")
    return parse_lists(text, pixels=case.shape[0] * case.shape[1] if case.shape else None)
