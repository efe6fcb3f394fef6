"""How a lesions answer is written and what it is worth: a probability for each class; accuracy and Weighted-F1."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.errors import HandlensError
from handlens.masks.metrics import Counts, class_f1
from handlens.types import Case, CaseScore, Codec, Score, Truth
from handlens.views import Mark

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings

SUM_TOLERANCE = 1e-3
"""How far probabilities may be from summing to 1."""

FREE_MIB, MAX_MIB = 50.0, 150.0
"""Model size that costs nothing, and the size that costs everything; linear between."""

_ROUNDING = 1e-9
"""Error of adding floats, so that a sum of just 0.999 counts as within 0.001."""

PREDICTION_SHARE, EFFICIENCY_SHARE = 0.9, 0.1

Probabilities = npt.NDArray[np.float64]
MAX_NUMBER_LENGTH = 400
"""Longest number that is looked at: a float has at most 1,075 decimals, and nobody writes a third of them."""

_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

MARKS = (Mark("frozen features", 0.52),)
MARKS_ABOUT = (
    "Frozen features: EfficientNet-Lite0 and a logistic regression on MILK10k; a yardstick, other photographs."
)


def codec(settings: LesionsSettings) -> Codec[Probabilities]:
    """`filename` and one column for each class, in output order."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    count = len(taxonomy.classes)
    rest = ("0",) * (count - 2)

    def parse(cells: tuple[str, ...], case: Case) -> Probabilities:
        return _parse(cells, taxonomy)

    return Codec(
        id_column="filename",
        columns=taxonomy.classes,
        parse=parse,
        format=lambda answer, case: tuple(map(repr, np.asarray(answer, np.float64).tolist())),
        refused={
            "empty": ("",) * count,
            "not a number": ("nan", "1", *rest),
            "word": ("BCC", "0", *rest),
            "negative": ("-0.5", "1.5", *rest),
            "above one": ("1.5", "0", *rest),
            "sum is not one": ("0.5", "0.4", *rest),
            "all zero": ("0", "0", *rest),
            "infinite": ("inf", "0", *rest),
            "underscore": ("1_0", "0", *rest),
        },
        numeric=True,
    )


def score(answers: Mapping[str, Probabilities], truth: Truth[str], settings: LesionsSettings) -> Score:
    """Prediction Score; the final score where the model's size and time are given."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    pairs = [(case.id, truth.read(case), taxonomy.classes[int(np.argmax(answers[case.id]))]) for case in truth.cases]
    cases = tuple(CaseScore(id, float(true == said), {"truth": true, "predicted": said}) for id, true, said in pairs)
    parts = score_classes([true for _, true, _ in pairs], [said for _, _, said in pairs], taxonomy)
    value = parts["Prediction Score"]
    if (worth := _efficiency(settings)) is not None:
        value = PREDICTION_SHARE * value + EFFICIENCY_SHARE * worth
        parts |= {"Efficiency": worth, "Final Score": value}
    return Score(value, parts, cases)


def score_classes(true: Sequence[str], said: Sequence[str], taxonomy: Taxonomy) -> dict[str, float]:
    """Accuracy, F1 of every class and group, Weighted-F1 and Prediction Score. A class nobody has or names counts 0."""
    f1 = {name: class_f1(_count(true, said, name)) for name in taxonomy.classes}
    groups = {group: math.fsum(f1[name] for name in names) / len(names) for group, names in taxonomy.groups.items()}
    weighted = sum(taxonomy.weights[group] * mean for group, mean in groups.items()) / sum(taxonomy.weights.values())
    accuracy = sum(a == b for a, b in zip(true, said, strict=True)) / len(true)
    return {
        "Prediction Score": (accuracy + weighted) / 2,
        "accuracy": accuracy,
        "Weighted-F1": weighted,
        **{f"F1 {group}": mean for group, mean in groups.items()},
        **{f"F1 {name}": value for name, value in f1.items()},
    }


def size_worth(mib: float) -> float:
    """1 up to 50 MiB, then linear to 0 at 150.

    >>> size_worth(20), size_worth(75), size_worth(500)
    (1.0, 0.75, 0.0)
    """
    return min(1.0, max(0.0, (MAX_MIB - mib) / (MAX_MIB - FREE_MIB)))


def time_worth(ms: float, field: Sequence[float]) -> float:
    """1 for the fastest of the field, 0 for the slowest; 1 when all are equal or alone.

    >>> time_worth(20, [10, 20, 50]), time_worth(20, [20])
    (0.75, 1.0)
    """
    slowest, fastest = max(field), min(field)
    return min(1.0, max(0.0, (slowest - ms) / (slowest - fastest))) if slowest > fastest else 1.0


def efficiency(mib: float, ms: float | None, *, field: Sequence[float]) -> float:
    """Half size, half time within the field; the size alone where `ms` is None."""
    return size_worth(mib) if ms is None else 0.5 * size_worth(mib) + 0.5 * time_worth(ms, field)


def perfect(label: str, case: Case, settings: LesionsSettings) -> Probabilities:
    classes = TAXONOMIES[settings.taxonomy].classes
    return np.array([float(name == label) for name in classes])


def empty(case: Case, settings: LesionsSettings) -> Probabilities:
    """All classes alike; the first one is what is scored."""
    count = len(TAXONOMIES[settings.taxonomy].classes)
    return np.full(count, 1 / count)


def _efficiency(settings: LesionsSettings) -> float | None:
    """None where no size is given. A model scored alone is its whole field."""
    size, time = settings.size_mb, settings.time_ms
    for name, value in (("size_mb", size), ("time_ms", time)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise HandlensError(f"{name} is {value}; expected a number from 0 on")
    if settings.efficiency == "size-only":
        if size is None:
            raise HandlensError("--efficiency size-only needs --size-mb")
        return efficiency(size, None, field=())
    if (size is None) != (time is None):
        raise HandlensError("the final score needs both --size-mb and --time-ms, or --efficiency size-only")
    return None if size is None or time is None else efficiency(size, time, field=(time,))


def _parse(cells: tuple[str, ...], taxonomy: Taxonomy) -> Probabilities:
    for name, text in zip(taxonomy.classes, cells, strict=True):
        if len(text) > MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text.strip(" ")):
            raise ValueError(f"{name} is {text[:20]!r}; expected a number from 0 to 1")
    values = np.array([float(text) for text in cells])
    for name, text, value in zip(taxonomy.classes, cells, values, strict=True):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {text[:20]}; expected a number from 0 to 1")
    total = math.fsum(values)
    if abs(total - 1) > SUM_TOLERANCE + _ROUNDING:
        raise ValueError(f"the probabilities sum to {total:.6g}; expected 1 within {SUM_TOLERANCE}")
    return values


def _count(true: Sequence[str], said: Sequence[str], name: str) -> Counts:
    tp = sum(a == name and b == name for a, b in zip(true, said, strict=True))
    return Counts(tp, fp=said.count(name) - tp, fn=true.count(name) - tp)
