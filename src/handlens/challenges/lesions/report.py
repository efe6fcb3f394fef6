"""What the report shows of photographs of lesions: confusion, calibration, classes, subgroups, and each error."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import file_of
from handlens.challenges.lesions.result import ANSWERS
from handlens.challenges.lesions.score import Probabilities
from handlens.challenges.lesions.subgroups import group_cases, group_row
from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.errors import DataError
from handlens.io.images import read_rgb
from handlens.types import Case, CaseScore
from handlens.views import CaseView, Chart, Layer, Matrix, Reason, Section, Table

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SHOWN_SIDE = 640
"""Longer side of a photograph on the page: it shows the lesion, and hundreds of them must fit."""

LOOKED = "where the model looked"
"""The picture of `--write occlusion`."""

BINS = 10
"""Of the reliability diagram."""

SUBGROUP_COLUMNS = ("subgroup", "examples", "accuracy", "Weighted-F1", "macro-F1 of its classes", "malignant found")
PROBABILITIES_SHOWN = 5


def view(out: Path, case: Case, answer: Probabilities, label: str | None, settings: LesionsSettings) -> CaseView:
    """The photograph, where the model looked if that was written, the probabilities, and what it was taken for."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    said = taxonomy.classes[int(np.argmax(answer))]
    ranked = sorted(zip(taxonomy.classes, answer.tolist(), strict=True), key=lambda item: -item[1])
    facts: dict[str, Any] = {"likeliest class": _name(said, taxonomy), "risk group": _group(said, taxonomy)}
    facts |= {"runner-up": _name(ranked[1][0], taxonomy)}
    facts |= {f"probability of {name}": chance for name, chance in ranked[:PROBABILITIES_SHOWN]}
    facts |= {name: value for name, value in case.details.items() if value is not None and name in ("age", "gender")}
    tags = [f"said {said}"]
    words = f"{_name(said, taxonomy)}, probability {answer.max():.2f}"
    reasons = []
    if label is not None:
        tags = [f"truth {label}", *tags, "right" if said == label else "wrong"]
        words = f"{label}, said {said} {answer.max():.2f}"
        if said != label:
            chance = dict(ranked)[label]
            text = f"{_name(label, taxonomy)} taken for {_name(said, taxonomy)}; the truth had probability {chance:.2f}"
            reasons.append(Reason(_kind(label, said, taxonomy), text))
    if case.path == Path():
        return CaseView(reasons=tuple(reasons), words=words, facts=facts, tags=tuple(tags))
    if not case.path.is_file():
        raise DataError("no such photograph", file=case.path)
    pixels = _reduced(read_rgb(case.path))
    layers = [_picture("photograph", pixels)]
    looked = file_of(out, case, "occlusion.png")
    if looked.is_file():
        layers.append(_picture(LOOKED, _reduced(read_rgb(looked))))
    slide = tuple(layer.name for layer in layers) if len(layers) > 1 else ()
    return CaseView(tuple(layers), tuple(reasons), slide=slide, words=words, facts=facts, tags=tuple(tags))


def found(answers: Mapping[str, Probabilities], settings: LesionsSettings) -> str:
    """How many photographs look most like each class, the commonest first."""
    classes = TAXONOMIES[settings.taxonomy].classes
    counts = Counter(classes[int(np.argmax(answer))] for answer in answers.values())
    return "Likeliest classes: " + ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _picture(name: str, pixels: Bytes) -> Layer:
    return Layer(name, (pixels.shape[0], pixels.shape[1]), lambda top, bottom: pixels[top:bottom])


def _reduced(pixels: Bytes) -> Bytes:
    """A picture no larger than a page needs it."""
    import cv2

    scale = min(1.0, SHOWN_SIDE / max(pixels.shape[:2]))
    if scale == 1:
        return pixels
    size = round(pixels.shape[1] * scale), round(pixels.shape[0] * scale)
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def _group(short: str, taxonomy: Taxonomy) -> str:
    return next(group for group, names in taxonomy.groups.items() if short in names)


def _name(short: str, taxonomy: Taxonomy) -> str:
    return f"{taxonomy.names[taxonomy.classes.index(short)]} ({short})"


def _kind(label: str, said: str, taxonomy: Taxonomy) -> str:
    """What kind of error it is: the worst is a malignant lesion that was taken for another."""
    malignant = taxonomy.groups["malignant"]
    if label in malignant and said not in malignant:
        return "malignant missed"
    return "false alarm" if said in malignant and label not in malignant else "another class"


def sections(
    cases: Sequence[Case], answers: Mapping[str, Probabilities], labels: Mapping[str, str], settings: LesionsSettings
) -> list[Section]:
    """Of all photographs with a label."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    known = [case for case in cases if case.id in labels and case.id in answers]
    if not known:
        return []
    rows = np.array([answers[case.id] for case in known], np.float64)
    true = np.array([taxonomy.classes.index(labels[case.id]) for case in known])
    said = rows.argmax(axis=1)
    counts = np.bincount(true * len(taxonomy.classes) + said, minlength=len(taxonomy.classes) ** 2)
    matrix = counts.reshape(len(taxonomy.classes), -1)
    table = [_class_row(number, name, rows, true, matrix) for number, name in enumerate(taxonomy.classes)]
    error, chart = reliability(rows.max(axis=1), said == true)
    columns = ("class", "name", "examples", "said", "precision", "recall", "F1", "AUC")
    return [
        Section(
            "Classes",
            "AUC: the chance that a photograph of the class gets a higher probability for it than one of another.",
            [
                Matrix("Confusion matrix", taxonomy.classes, taxonomy.classes, matrix.tolist()),
                Table("Each class", columns, [(row[0], taxonomy.names[i], *row[1:]) for i, row in enumerate(table)]),
            ],
        ),
        Section(
            "How far the probabilities can be trusted",
            f"Photographs by the probability of the answered class, and the share of them that are right. The expected "
            f"calibration error is {error:.3f}.",
            [chart],
        ),
        Section("Subgroups", "", [Table("", SUBGROUP_COLUMNS, _subgroups(known, labels, said, taxonomy))]),
    ]


def _class_row(number: int, name: str, rows: Floats, true: Ints, matrix: Ints) -> tuple[Any, ...]:
    right, there, named = int(matrix[number, number]), int(matrix[number].sum()), int(matrix[:, number].sum())
    precision = right / named if named else None
    recall = right / there if there else None
    f1 = 2 * right / (there + named) if there + named else None
    return name, there, named, precision, recall, f1, area_under_curve(rows[:, number], true == number)


def area_under_curve(scores: Floats, positive: npt.NDArray[np.bool_]) -> float | None:
    """Of the receiver operating characteristic; equal scores count half. None without both kinds.

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return None
    values, places, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[places]
    del values
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


def reliability(confidence: Floats, right: npt.NDArray[np.bool_]) -> tuple[float, Chart]:
    """Expected calibration error, and the share that is right for each band of confidence."""
    band = np.minimum((confidence * BINS).astype(int), BINS - 1)
    points, error = [], 0.0
    for number in range(BINS):
        inside = band == number
        if inside.any():
            mean, share = float(confidence[inside].mean()), float(right[inside].mean())
            points.append((mean, share))
            error += abs(mean - share) * inside.sum() / len(right)
    return float(error), Chart(
        "Reliability", "probability of the answer", "share that is right", {"this run": points}, diagonal=True
    )


def _subgroups(
    cases: Sequence[Case], labels: Mapping[str, str], said: Ints, taxonomy: Taxonomy
) -> list[tuple[Any, ...]]:
    guesses = {case.id: taxonomy.classes[number] for case, number in zip(cases, said.tolist(), strict=True)}
    return [
        (kind, *group_row([labels[id] for id in members], [guesses[id] for id in members], taxonomy))
        for kind, members in group_cases(cases, {})
    ]


def rescore(scores: Sequence[CaseScore], chosen: Ints, settings: LesionsSettings) -> Floats:
    """The Prediction Score of each row of chosen photographs, as `score.score_classes` has it."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    place = {name: number for number, name in enumerate(taxonomy.classes)}
    true = np.array([place[str(score.parts["truth"])] for score in scores])
    said = np.array([place[str(score.parts["predicted"])] for score in scores])
    count, right = len(taxonomy.classes), true == said

    def counts(numbers: Ints) -> Floats:
        """(rows, classes): how often each class occurs among the chosen."""
        offsets = np.arange(len(numbers))[:, None] * count
        return np.bincount((numbers + offsets).ravel(), minlength=len(numbers) * count).reshape(-1, count).astype(float)

    hits = np.stack([((true[chosen] == number) & right[chosen]).sum(axis=1) for number in range(count)], axis=1)
    f1 = 2 * hits / np.maximum(counts(true[chosen]) + counts(said[chosen]), 1)
    weights = np.zeros(count)
    for group, names in taxonomy.groups.items():
        weights[[place[name] for name in names]] = taxonomy.weights[group] / len(names)
    weighted = f1 @ weights / sum(taxonomy.weights.values())
    values: Floats = (right[chosen].mean(axis=1) + weighted) / 2
    return values


def usual_sensitivity(_model: Path | None) -> float:
    """At which the likeliest of both kinds is answered."""
    return 0.5


def adjusted(
    out: Path, case: Case, _said: Probabilities, value: float, _model: Path | None, settings: LesionsSettings
) -> Probabilities:
    """The likeliest malignant class where malignant ones together exceed 1 less the sensitivity, else another."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    page = json.loads((out / ANSWERS).read_text(encoding="utf-8"))
    row = next(entry["probabilities"] for entry in page["answers"] if entry["photograph"] == case.id)
    chances = np.array([row[name] for name in taxonomy.classes])
    malignant = np.array([name in taxonomy.groups["malignant"] for name in taxonomy.classes])
    alarm = chances[malignant].sum() > 1 - value
    kept = np.where(malignant == alarm, chances, 0)
    total = kept.sum()
    found: Probabilities = kept / total if total else (malignant == alarm) / (malignant == alarm).sum()
    return found


def write_adjusted(out: Path, target: Path, case: Case, _answer: Probabilities, _settings: LesionsSettings) -> None:
    """Where the model looked does not depend on the sensitivity."""
    looked = file_of(out, case, "occlusion.png")
    if looked.is_file():
        shutil.copyfile(looked, file_of(target, case, "occlusion.png"))
