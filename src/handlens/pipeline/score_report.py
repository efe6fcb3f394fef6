"""The report of a submission that was scored, and of one that was refused."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handlens.errors import Problem, SubmissionError, counted
from handlens.io.gate import open_file
from handlens.io.submissions import require_submission
from handlens.pipeline.folders import open_truth
from handlens.pipeline.reporting import (
    ReportedCases,
    about_score,
    constant_scores,
    interval_of,
    marks_of,
    open_pictures,
    own_sections,
    parts_of,
    show_case,
    verdict_of,
    versions,
    where_lost,
)
from handlens.pipeline.runs import package_version
from handlens.report.page import Report, write_report
from handlens.types import AnyChallenge, Case, Part, Score, Truth

PROBLEMS_SHOWN, TEXT_SHOWN = 200, 160
"""Problems of a refused file, and letters of a line of it."""


def report_score(
    challenge: AnyChallenge, file: Path, truth: Path, score: Score, settings: Any, part: Part | None, page: Path
) -> Path:
    """The report of a submission that was scored, written to `page` and its twin."""
    cases = _pictured(challenge, truth, score, part)
    answers = require_submission(file, challenge.codec(settings), cases)
    opened = open_truth(challenge, truth, settings, part)
    labels = {case.id: opened.read(case) for case in opened.cases if case.id in answers}
    scores = {case.id: case for case in score.cases}
    known = ReportedCases(cases, answers, labels, scores, {})
    store = open_pictures(known, page.with_name(f"{page.stem}_files"))
    shutil.rmtree(store.folder, ignore_errors=True)
    shown = [show_case(challenge, page.parent, known, number, settings, store) for number in range(len(cases))]
    empty = {case.id: challenge.empty(case, settings) for case in cases}
    empty_score = challenge.score(empty, Truth(tuple(cases), lambda case: labels[case.id]), settings).value
    constants = constant_scores(challenge, known, settings)
    interval = interval_of(challenge, list(score.cases), settings)
    report = Report(
        kind="score",
        title=f"{challenge.title}: {file.name}",
        subtitle=f"scored against {truth}",
        verdict=verdict_of(challenge, score.value, empty_score, interval, constants=constants),
        state="scored",
        challenge=challenge.name,
        metric=challenge.metric,
        score=score.value,
        interval=interval,
        references={"empty answer": empty_score, **constants, **marks_of(challenge.report, score.value)},
        score_about=about_score(challenge, len(score.cases), score.value),
        notes=list(score.notes),
        sections=[*parts_of(score.parts), *where_lost(shown), *own_sections(challenge, known, settings)],
        cases=shown,
        facts={"submission": str(file), "truth": str(truth), "cases": len(score.cases), **versions()},
        command=_command(challenge, file, truth),
        handlens=package_version(),
    )
    write_report(report, page)
    return page


def _command(challenge: AnyChallenge, file: Path, truth: Path) -> str:
    return shlex.join(["handlens", "score", challenge.name, str(file), "--truth", str(truth)])


def _pictured(challenge: AnyChallenge, truth: Path, score: Score, part: Part | None) -> list[Case]:
    """The scored cases as the data folder has them, with their pictures; bare ones where it has them not."""
    ids = [case.id for case in score.cases]
    parts: tuple[Part, ...] = (part,) if part else ("test", "train")
    for each in parts if truth.is_dir() else ():
        found = {case.id: case for case in challenge.read_cases(truth, each)}
        if set(ids) <= set(found):
            return [found[id] for id in ids]
    return [Case(id, Path()) for id in ids]


def report_refused(challenge: AnyChallenge, file: Path, truth: Path, error: SubmissionError, page: Path) -> Path:
    """The report of a submission that cannot be scored: every problem, with the line as it is written."""
    problems = list(error.problems)
    lines = _lines(file, {problem.line for problem in problems[:PROBLEMS_SHOWN] if problem.line})
    left = len(problems) - PROBLEMS_SHOWN
    report = Report(
        kind="refused",
        title=f"{challenge.title}: {file.name}",
        subtitle="This file cannot be scored. Nothing was compared with the truth.",
        verdict=f"Refused: {counted(len(problems), 'problem')}",
        state="refused",
        challenge=challenge.name,
        metric=challenge.metric,
        problems=[_problem(problem, lines) for problem in problems[:PROBLEMS_SHOWN]],
        problems_left=f"and {left:,} more: handlens check lists them all" if left > 0 else "",
        facts={"submission": str(file), "truth": str(truth), **versions()},
        command=_command(challenge, file, truth),
        handlens=package_version(),
    )
    write_report(report, page)
    return page


def _problem(problem: Problem, lines: Mapping[int, str]) -> dict[str, Any]:
    return {
        "line": problem.line or None,
        "id": problem.id,
        "what": problem.what,
        "text": lines.get(problem.line or 0, ""),
    }


def _lines(file: Path, wanted: set[int]) -> dict[int, str]:
    """Some lines of a text file, each cut to what a page shows; none of a file that is no text."""
    found: dict[int, str] = {}
    if not wanted or file.suffix == ".parquet" or not file.is_file():
        return found
    with open_file(file) as stream:
        for number in range(1, max(wanted) + 1):
            text = stream.readline(TEXT_SHOWN * 4)
            whole = text
            while whole and not whole.endswith(b"\n"):
                whole = stream.readline(2**20)
            if number in wanted:
                shown = text.decode("utf-8", "replace").rstrip("\r\n")
                found[number] = shown if len(shown) <= TEXT_SHOWN else shown[: TEXT_SHOWN - 1] + "…"
    return found
