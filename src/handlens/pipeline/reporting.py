"""What all reports of answers share: cases as they are shown, what they lost, and the score among others."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from handlens.artefacts import file_of
from handlens.errors import DataError, counted
from handlens.report.interval import bootstrap
from handlens.report.page import ShownCase
from handlens.report.pictures import PictureStore, draw_case
from handlens.settings import fields_of
from handlens.types import AnyChallenge, Case, CaseScore, Reporting, Truth
from handlens.views import CaseView, Reason, Section, Table

INLINE_PIXELS = 40_000_000
"""Pixels of all pictures together up to which they lie in the page itself, about 15 MB; more lie in a folder beside."""

MEANINGS = {
    "missed": "is there, was not answered",
    "extra": "was answered, is not there",
    "merged": "are apart, answered as one",
    "split": "is one, answered as several",
    "extent": "was found, its outline differs",
}
"""What kinds of errors are, for who meets the words first."""

REASONS_SHOWN = 40
"""Reasons of a case on the page, the costliest first, what stands for several last."""


@dataclass(frozen=True, slots=True)
class ReportedCases:
    """What is to be shown: cases with their answers, labels, scores and warnings, by id."""

    cases: Sequence[Case]
    answers: Mapping[str, Any]
    labels: Mapping[str, Any]
    scores: Mapping[str, CaseScore]
    warnings: Mapping[str, Sequence[str]]


def open_pictures(known: ReportedCases, folder: Path) -> PictureStore:
    return PictureStore(folder, inline=sum(case.pixels or 0 for case in known.cases) <= INLINE_PIXELS)


def show_case(
    challenge: AnyChallenge,
    out: Path,
    known: ReportedCases,
    number: int,
    settings: Any,
    store: PictureStore,
    files: Sequence[str] = (),
) -> ShownCase:
    """One case on the page; what is wrong with its file stands in the place of its picture.

    `files` are names of those that were written for it beside the page.
    """
    case = known.cases[number]
    score = known.scores.get(case.id)
    view, fault = CaseView(), ""
    pictures: dict[str, Any] = {}
    if challenge.report is not None and case.id in known.answers:
        try:
            view = challenge.report.view(out, case, known.answers[case.id], known.labels.get(case.id), settings)
            pictures = draw_case(view, store)
        except (DataError, OSError) as error:
            fault = "" if case.path == Path() else str(error)
    reasons = sorted(view.reasons, key=lambda reason: -reason.lost)
    together = [reason for reason in reasons if reason.count != 1]
    single = [reason for reason in reasons if reason.count == 1]
    return ShownCase(
        id=case.id,
        place=number,
        value=score.value if score else None,
        words=view.words or _words(losses_of(reasons)),
        losses=losses_of(reasons),
        reasons=[*single[: max(0, REASONS_SHOWN - len(together))], *together],
        facts={**(score.parts if score else {}), **view.facts},
        tags=view.tags,
        warnings=list(known.warnings.get(case.id, ())),
        pictures=pictures,
        fault=fault,
        files=[(name, quote(name), about_file(challenge, name, case)) for name in files],
    )


def about_file(challenge: AnyChallenge, name: str, case: Case | None = None) -> str:
    """What a file of a solve is for, where its challenge says it."""
    known = challenge.report.files if challenge.report else {}
    ending = name if case is None else name.replace(file_of(Path(), case, "").name, "", 1)
    return known.get(ending, "")


def folders_of_files(challenge: AnyChallenge) -> set[str]:
    """Folders of an output folder in which files of cases lie."""
    known = challenge.report.files if challenge.report else {}
    return {name.rpartition("/")[0] for name in known if "/" in name}


def losses_of(reasons: Sequence[Reason]) -> dict[str, tuple[int, float]]:
    """How many reasons there are of each kind and what they cost together, the costliest kind first."""
    kinds: dict[str, tuple[int, float]] = {}
    for reason in reasons:
        count, lost = kinds.get(reason.kind, (0, 0.0))
        kinds[reason.kind] = count + reason.count, lost + reason.lost
    return dict(sorted(kinds.items(), key=lambda item: -item[1][1]))


def _words(losses: Mapping[str, tuple[int, float]]) -> str:
    return ", ".join(
        f"{count} {kind}" + (f" ({lost:.3f})" if lost else "") for kind, (count, lost) in losses.items() if count
    )


def where_lost(cases: Sequence[ShownCase]) -> list[Section]:
    """A table of what all cases lost, by kind, where that is known."""
    totals: dict[str, tuple[int, float, int]] = {}
    for case in cases:
        for kind, (count, lost) in case.losses.items():
            before = totals.get(kind, (0, 0.0, 0))
            totals[kind] = before[0] + count, before[1] + lost, before[2] + 1
    if not any(lost for _, lost, _ in totals.values()):
        return []
    ordered = sorted(totals.items(), key=lambda item: -item[1][1])
    rows = [
        (kind, count, lost / len(cases), several, MEANINGS.get(kind, "")) for kind, (count, lost, several) in ordered
    ]
    text = "Points that each kind of error costs, as a mean over all cases."
    columns = ("kind", "errors", "points lost", "cases", "what it is")
    return [Section("Where points were lost", text, [Table("", columns, rows)])]


def parts_of(parts: Mapping[str, float] | None) -> list[Section]:
    if not parts or len(parts) < 2:
        return []
    return [Section("The score and its parts", "", [Table("", ("part", "value"), list(parts.items()))])]


def own_sections(challenge: AnyChallenge, known: ReportedCases, settings: Any) -> list[Section]:
    if challenge.report is None or not known.answers:
        return []
    return list(challenge.report.sections(known.cases, known.answers, known.labels, settings))


def interval_of(challenge: AnyChallenge, scores: Sequence[CaseScore], settings: Any) -> tuple[float, float] | None:
    reporting = challenge.report
    return bootstrap(len(scores), lambda chosen: reporting.rescore(scores, chosen, settings)) if reporting else None


def constant_scores(challenge: AnyChallenge, known: ReportedCases, settings: Any) -> dict[str, float]:
    """What answers that look at nothing score on the same cases; none where the size of a case is not known."""
    constants = challenge.report.constants if challenge.report else {}
    cases = [case for case in known.cases if case.id in known.labels]
    if len(cases) < len(known.cases) or any(case.shape is None for case in cases):
        return {}
    truth = Truth(tuple(cases), lambda case: known.labels[case.id])
    try:
        return {
            name: challenge.score({case.id: answer(case, settings) for case in cases}, truth, settings).value
            for name, answer in constants.items()
        }
    except DataError:  # of a picture that was named already
        return {}


def marks_of(reporting: Reporting[Any, Any, Any] | None, score: float | None) -> dict[str, float]:
    return {mark.name: mark.value for mark in reporting.marks} if reporting and score is not None else {}


def about_score(challenge: AnyChallenge, cases: int, score: float | None) -> str:
    if score is None:
        return ""
    words = f"{challenge.metric}. The bar is a 95 % bootstrap interval over {counted(cases, 'case')}."
    if cases < 2:
        words = f"{challenge.metric}. One case gives no interval."
    about = challenge.report.marks_about if challenge.report else ""
    return f"{words} {about}".strip()


def verdict_of(
    challenge: AnyChallenge,
    score: float | None,
    empty: float | None,
    interval: tuple[float, float] | None = None,
    cases: Sequence[ShownCase] = (),
    constants: Mapping[str, float] | None = None,
    found: str = "",
) -> str:
    """The score and those of looking at nothing; without one what was found, in a single case or in all."""
    if score is None:
        if len(cases) == 1 and cases[0].words:
            return cases[0].words[:1].upper() + cases[0].words[1:]
        return f"{found or counted(len(cases), 'case') + ' answered'}. No score: there are no labels for them."
    metric = challenge.metric.partition(",")[0].partition(":")[0]
    bounds = f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
    nothing = {} if empty is None else {"predicting nothing": empty}
    beside = ", ".join(f"{name} gives {value:.4f}" for name, value in {**nothing, **(constants or {})}.items())
    return f"{metric} {score:.4f}{bounds}" + (f"; {beside}" if beside else "")


def changed_settings(settings: Any, command: str) -> dict[str, Any]:
    """The settings for a command that are not at their defaults."""
    plain, usual = settings.plain(), type(settings)().plain()
    return {
        field.path: plain[field.path]
        for field in fields_of(settings)
        if command in field.commands and field.path in plain and plain[field.path] != usual[field.path]
    }


def options_of(settings: Any, command: str) -> list[str]:
    """The words on a command line that give these settings."""
    words: list[str] = []
    for name, value in changed_settings(settings, command).items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [flag, str(value)]
    return words


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    from importlib.metadata import version

    names = ("numpy", "onnxruntime", "opencv-python-headless")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "packages": packages,
    }
