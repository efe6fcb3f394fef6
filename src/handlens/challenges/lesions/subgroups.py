"""How well each class, and each kind of person, is served: tables for the model card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from handlens.challenges.lesions.score import score_classes
from handlens.challenges.lesions.taxonomy import LOCATIONS, Taxonomy
from handlens.types import Case, Score

AGE_BANDS = (0, 30, 50, 65, 80, 121)
"""Where bands of age begin; the last is beyond all."""

UNKNOWN = "unknown"

BINS = 10
"""Bins of the reliability table."""


def tables(
    score: Score, cases: Sequence[Case], taxonomy: Taxonomy, columns: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Markdown of predictions out of fold. `columns` are more subgroups by name: the group of each case's id."""
    true = {case.id: str(case.parts["truth"]) for case in score.cases}
    said = {case.id: str(case.parts["predicted"]) for case in score.cases}
    lines = ["", "All numbers are of predictions out of fold.", "", "| class | examples | named | F1 | taken for |"]
    lines.append("|---|---|---|---|---|")
    for name in taxonomy.classes:
        wrong = Counter(said[id] for id in true if true[id] == name != said[id])
        others = ", ".join(f"{other} {count}" for other, count in wrong.most_common(3)) or "-"
        there = sum(label == name for label in true.values())
        named = sum(label == name for label in said.values())
        lines.append(f"| {name} | {there} | {named} | {score.parts[f'F1 {name}']:.3f} | {others} |")
    lines += ["", "| subgroup | examples | accuracy | Weighted-F1 | macro-F1 of its classes | malignant found |"]
    lines.append("|---|---|---|---|---|---|")
    for kind, members in group_cases(cases, columns):
        lines.append(_row(kind, [true[id] for id in members], [said[id] for id in members], taxonomy))
    return lines


def calibration(sure: Mapping[str, float], right: Mapping[str, bool]) -> list[str]:
    """Markdown of a reliability table: how often the likeliest class is right, by how probable it is said to be."""
    if not sure:
        return []
    edges = [step / BINS for step in range(BINS + 1)]
    lines = ["", "| probability of the predicted class | examples | mean probability | right |", "|---|---|---|---|"]
    error = 0.0
    for low, high in pairwise(edges):
        members = [id for id, chance in sure.items() if low < chance <= high or (low == 0 == chance)]
        if members:
            said = sum(sure[id] for id in members) / len(members)
            true = sum(right[id] for id in members) / len(members)
            error += abs(said - true) * len(members) / len(sure)
            lines.append(f"| {low:.1f} to {high:.1f} | {len(members)} | {said:.3f} | {true:.3f} |")
    return ["", f"Expected calibration error: {error:.3f} ({BINS} bins of equal width).", *lines]


def macro_f1(parts: Mapping[str, float], names: Sequence[str]) -> float:
    """The mean F1 of these classes."""
    return sum(parts[f"F1 {name}"] for name in names) / len(names) if names else 0.0


def group_row(true: Sequence[str], said: Sequence[str], taxonomy: Taxonomy) -> tuple[int, float, float, float, str]:
    """Of a subgroup: examples, accuracy, Weighted-F1, macro-F1 of the classes in it, and malignant ones found."""
    parts = score_classes(true, said, taxonomy)
    present = [name for name in taxonomy.classes if name in true]
    dangerous = taxonomy.groups["malignant"]
    found = [guess in dangerous for label, guess in zip(true, said, strict=True) if label in dangerous]
    caught = f"{sum(found) / len(found):.3f} of {len(found)}" if found else "-"
    return len(true), parts["accuracy"], parts["Weighted-F1"], macro_f1(parts, present), caught


def _row(kind: str, true: Sequence[str], said: Sequence[str], taxonomy: Taxonomy) -> str:
    examples, accuracy, weighted, macro, caught = group_row(true, said, taxonomy)
    return f"| {kind} | {examples} | {accuracy:.3f} | {weighted:.3f} | {macro:.3f} | {caught} |"


def group_cases(cases: Sequence[Case], columns: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    """Name and case ids of each, the largest kinds first within sex, age, site and the other columns."""
    found: dict[tuple[str, str], list[str]] = {("all", ""): [case.id for case in cases]}
    for case in cases:
        places = {
            "sex": str(case.details.get("gender") or UNKNOWN),
            "age": age_band(case.details.get("age")),
            "site": _site(case.details.get("location")),
            **{name: values.get(case.id, UNKNOWN) for name, values in columns.items() if values},
        }
        for kind, value in places.items():
            found.setdefault((kind, value), []).append(case.id)
    kinds = ["all", "sex", "age", "site", *columns]
    order = sorted(found, key=lambda key: (kinds.index(key[0]), key[1] if key[0] == "age" else -len(found[key])))
    return [(f"{kind} {value}".strip(), found[kind, value]) for kind, value in order]


def age_band(age: float | None) -> str:
    """
    >>> age_band(49), age_band(50), age_band(95), age_band(None)
    ('30 to 49', '50 to 64', '80 to 120', 'unknown')
    """
    if age is None:
        return UNKNOWN
    return next(f"{low:02d} to {high - 1}" for low, high in pairwise(AGE_BANDS) if age < high)


def _site(location: int | None) -> str:
    return UNKNOWN if location is None else LOCATIONS[location - 1]
