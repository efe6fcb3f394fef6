"""What the report shows of a figure: groups of copies with lines between them, aligned crops, and missed instances."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import REPORT_DATA, choose, file_of
from handlens.challenges.forgery.detect.findings import Group
from handlens.challenges.forgery.detect.verifier.decision import FILE, SENSITIVITIES, included, read_decision
from handlens.challenges.forgery.inspection import aligning
from handlens.challenges.forgery.inspection.drawing import COLOURS, SAME_FIELD, colour_of
from handlens.challenges.forgery.inspection.naming import Named, name_groups
from handlens.challenges.forgery.inspection.strips import draw_strip
from handlens.challenges.forgery.inspection.words import confidence, describe_transform
from handlens.challenges.forgery.predictor import FINDINGS, KINDS
from handlens.challenges.forgery.score import ORDER, Instances
from handlens.errors import DataError, counted
from handlens.io.files import replacing, write_text
from handlens.io.images import read_image, read_rgb, write_jpeg
from handlens.io.png import write_bands
from handlens.masks.metrics import compare, dice
from handlens.masks.rle import decode, encode, format_lists, parse_lists
from handlens.types import Case, Prediction, Shape
from handlens.views import EXTRA, MISSED, TRUTH, CaseView, Layer, Line, Name, Reason, Strip

if TYPE_CHECKING:
    from handlens.challenges.forgery.options import ForgerySettings

BoolArray = npt.NDArray[np.bool_]
Box = tuple[int, int, int, int]

STRIPS_MOST = 4
"""Pairs of a figure that are shown side by side, the surest first; `handlens inspect` shows them all."""

STRIP_SIDE = 320
"""Longest side of a crop in such a pair."""


def keep_findings(out: Path, case: Case, image: npt.NDArray[Any], prediction: Prediction[Instances]) -> None:
    """Lines between the regions of each group, and the surest pairs side by side; nothing where nothing was found."""
    found = prediction.artefacts[FINDINGS]
    named = name_groups(found)
    whole = (*found.groups, *found.doubtful)  # in the order of their names; fields come after them
    shown = [(group, _runs(each, found.shape)) for group, each in zip(named, whole, strict=False)]
    page: dict[str, Any] = {
        "probability": round(float(found.probability), 4),
        "doubtful": len(found.doubtful),
        "same_field": len(found.fields),
        "fields": [_runs(group, found.shape) for group in found.fields],
        "lines": [{**line, "runs": runs} for group, runs in shown for line in _lines(group)],
        "names": [
            {"text": group.region_name(index), "place": list(region.centre), "runs": runs}
            for group, runs in shown
            for index, region in enumerate(group.regions)
        ],
        "strips": [],
        "groups": [
            {
                "probability": float(group.probability),
                "runs": _runs(group, found.shape),
            }
            for group in found.candidates
        ],
    }
    pairs = [(each, index) for each in shown if each[0].counted for index in range(len(each[0].group.matches))]
    if pairs:
        display = aligning.as_display(image)
        for number, ((group, runs), index) in enumerate(pairs[:STRIPS_MOST], 1):
            page["strips"].append({**_keep_strip(out, case, display, group, index, number), "runs": runs})
    write_text(file_of(out / REPORT_DATA, case, "findings.json"), json.dumps(page) + "\n")


def _runs(group: Group, shape: Shape) -> str:
    return format_lists([encode(group.mask(shape), order=ORDER)])


def _lines(group: Named) -> list[dict[str, Any]]:
    return [{"start": list(match.source.centre), "end": list(match.copy.centre)} for match in group.tree()]


def _keep_strip(
    out: Path, case: Case, display: npt.NDArray[np.uint8], group: Named, index: int, number: int
) -> dict[str, Any]:
    match = group.group.matches[index]
    source, copy = (group.region_name(region) for region in group.joined[index])
    aligned = aligning.align(display, match, side=STRIP_SIDE)
    agreement = aligning.compare(aligned)
    picture, _ = draw_strip(aligned, agreement, colour_of(group), (source, f"{copy} laid on {source}"))
    path = file_of(out / REPORT_DATA, case, f"pair-{number}.jpg")
    with replacing(path) as temporary:
        write_jpeg(temporary, picture, quality=85)
    alike = "flat" if agreement.correlation is None else f"correlation {agreement.correlation:.3f}"
    words = (
        f"{describe_transform(match)}; {alike}; confidence {match.probability:.2f} ({confidence(match.probability)})"
    )
    return {"title": f"{source} and {copy}", "caption": words, "file": path.name}


def view(out: Path, case: Case, answer: Instances, label: Instances | None, _settings: ForgerySettings) -> CaseView:
    """The figure with every answered group in a colour of its own, the truth, and what differs."""
    if case.shape is None:
        raise DataError(case.fault or "no figure: only a solution file was given", file=case.path)
    pixels = aligning.as_display(read_image(case.path))
    shape: Shape = pixels.shape[0], pixels.shape[1]
    said = [decode(instance, shape, order=ORDER) for instance in answer]
    layers = [Layer("figure", shape, lambda top, bottom: pixels[top:bottom])]
    reasons: list[Reason] = []
    if label is not None:
        there = [decode(instance, shape, order=ORDER) for instance in label]
        layers += [_marks("truth", _edges(there, shape), (TRUTH,) * max(1, len(there)))] if there else []
        reasons = explain(answer, label, said, there)
        tags = ["forged" if label else "authentic"]
    layers += [_marks("answer", _edges(said, shape), COLOURS[: len(said)])] if said else []
    if label is not None and (said or label):
        layers.append(_disagreement(_union(said, shape), _union(there, shape)))
    kept = _kept(out, case)
    if runs := kept.get("fields"):
        shown = [decode(parse_lists(each, pixels=case.pixels)[0], shape, order=ORDER) for each in runs]
        layers.append(
            _marks("same field twice, not counted", _edges(shown, shape), (SAME_FIELD,) * len(shown), on=False)
        )
    colours = {format_lists([each]): COLOURS[place % len(COLOURS)] for place, each in enumerate(answer)}
    lines, names, strips = (
        [each for each in kept.get(what, ()) if each.get("runs") in colours] for what in ("lines", "names", "strips")
    )
    facts = {"probability of a copy": kept["probability"], "doubtful groups": kept["doubtful"]} if kept else {}
    facts |= {"fields shown twice": kept["same_field"]} if kept.get("same_field") else {}
    return CaseView(
        tuple(layers),
        tuple(reasons),
        tuple(Line(tuple(line["start"]), tuple(line["end"]), colours[line["runs"]]) for line in lines),
        tuple(Name(name["text"], tuple(name["place"])) for name in names),
        tuple(_strip(out, strip) for strip in strips),
        words="" if label is not None else f"{counted(len(said), 'group')} of copies" if said else "no copy found",
        facts=facts,
        tags=(*([] if label is None else tags), f"answered {'forged' if said else 'authentic'}"),
    )


def found(answers: Mapping[str, Instances], _settings: ForgerySettings) -> str:
    """In how many figures there are copies."""
    some = sum(bool(answer) for answer in answers.values())
    return f"Copied regions in {some} of {counted(len(answers), 'figure')}"


def explain(answer: Instances, label: Instances, said: Sequence[BoolArray], there: Sequence[BoolArray]) -> list[Reason]:
    """What each missed, surplus or inexact instance costs; together 1 less the score of the figure."""
    if not answer and not label:
        return []
    if not label:
        text = f"an authentic figure, answered with {counted(len(answer), 'instance')}"
        return [Reason("extra", text, 1.0, _box(said[0]))]
    if not answer:
        share = 1 / len(label)
        return [
            Reason("missed", f"instance of {mask.area:,} pixels, answered as authentic", share, _box(pixels))
            for mask, pixels in zip(label, there, strict=True)
        ]
    return _compare_instances(answer, label, said, there)


def _compare_instances(
    answer: Instances, label: Instances, said: Sequence[BoolArray], there: Sequence[BoolArray]
) -> list[Reason]:
    from scipy.optimize import linear_sum_assignment

    f1 = np.array([[dice(compare(mine, true), empty=0.0) for true in label] for mine in answer])
    share = 1 / max(f1.shape)
    rows, columns = linear_sum_assignment(f1, maximize=True)
    pairs = [(row, column) for row, column in zip(rows.tolist(), columns.tolist(), strict=True) if f1[row, column] > 0]
    found = [
        Reason("missed", f"instance of {label[column].area:,} pixels", share, _box(there[column]))
        for column in range(len(label))
        if column not in [pair[1] for pair in pairs]
    ]
    surplus = [row for row in range(len(answer)) if row not in [pair[0] for pair in pairs]]
    costly = max(0, len(answer) - len(label))  # beyond these a surplus instance took the place of a missed one
    found += [
        Reason("extra", f"instance of {answer[row].area:,} pixels", share if place < costly else 0.0, _box(said[row]))
        for place, row in enumerate(surplus)
    ]
    for row, column in pairs:
        if f1[row, column] < 1:
            wrong = compare(answer[row], label[column])
            text = f"{wrong.fn:,} pixels missed, {wrong.fp:,} too many"
            found.append(Reason("extent", text, share * (1 - float(f1[row, column])), _box(there[column])))
    return found


def _box(mask: BoolArray) -> Box:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return 0, 0, 1, 1
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def _edges(masks: Sequence[BoolArray], shape: Shape) -> npt.NDArray[np.uint8]:
    """Borders of masks, two pixels wide, each numbered by its place."""
    import cv2

    drawn = np.zeros(shape, np.uint8)
    for number, mask in enumerate(masks):
        inner = cv2.erode(mask.view(np.uint8), np.ones((5, 5), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0)
        drawn[mask & (np.asarray(inner) == 0)] = number % len(COLOURS) + 1
    return drawn


def _marks(
    name: str, numbers: npt.NDArray[np.uint8], palette: Sequence[tuple[int, int, int]], *, on: bool = True
) -> Layer:
    shape = numbers.shape[0], numbers.shape[1]
    return Layer(name, shape, lambda top, bottom: numbers[top:bottom], tuple(palette[: len(COLOURS)]), on)


def _union(masks: Sequence[BoolArray], shape: Shape) -> BoolArray:
    found: BoolArray = np.logical_or.reduce([np.zeros(shape, np.bool_), *masks])
    return found


def _disagreement(said: BoolArray, there: BoolArray) -> Layer:
    numbers = (there & ~said).astype(np.uint8) + 2 * (said & ~there).astype(np.uint8)
    shape = numbers.shape[0], numbers.shape[1]
    return Layer("missed, too much", shape, lambda top, bottom: numbers[top:bottom], (MISSED, EXTRA), on=False)


def _kept(out: Path, case: Case) -> dict[str, Any]:
    path = file_of(out / REPORT_DATA, case, "findings.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def _strip(out: Path, strip: dict[str, Any]) -> Strip:
    return Strip(strip["title"], strip["caption"], read_rgb(out / REPORT_DATA / strip["file"]))


def usual_sensitivity(_model: Path | None) -> float:
    return SENSITIVITIES["normal"]


def adjusted(
    out: Path, case: Case, _said: Instances, value: float, model: Path | None, _settings: ForgerySettings
) -> Instances:
    """What `solve` answers at this sensitivity: 0.25, 0.5 and 0.75 are low, normal and high."""
    groups = _kept(out, case).get("groups", ())
    decision = included() if model is None else read_decision(model / FILE)
    count = decision.at(value).count_answered([group["probability"] for group in groups])
    return tuple(parse_lists(group["runs"], pixels=case.pixels)[0] for group in groups[:count])


def write_adjusted(_out: Path, target: Path, case: Case, answer: Instances, settings: ForgerySettings) -> None:
    """The figure with every group of a changed answer outlined, where `--write` names it; nothing for an honest one."""
    if not answer or "overlay" not in choose(settings.write, KINDS, KINDS):
        return
    pixels = aligning.as_display(read_image(case.path))
    shape = pixels.shape[0], pixels.shape[1]
    edges = _edges([decode(instance, shape, order=ORDER) for instance in answer], shape)
    drawn = np.where((edges > 0)[..., None], np.array((COLOURS[0], *COLOURS), np.uint8)[edges], pixels)
    write_bands(file_of(target, case, "overlay.png"), shape, [drawn])
