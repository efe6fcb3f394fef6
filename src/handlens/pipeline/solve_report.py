"""The report of what a solve left in its folder, and one page of several."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from handlens.artefacts import REPORT_DATA, files_of_cases
from handlens.errors import DataError, HandlensError, counted
from handlens.io.files import new_folder
from handlens.io.gate import place
from handlens.io.images import remembering_picture
from handlens.io.submissions import require_submission, write_submission
from handlens.pipeline.folders import find_truth, read_cases
from handlens.pipeline.loading import load, training_truth
from handlens.pipeline.notes import warning_notes
from handlens.pipeline.reporting import (
    ReportedCases,
    about_file,
    about_score,
    changed_settings,
    constant_scores,
    folders_of_files,
    interval_of,
    marks_of,
    open_pictures,
    options_of,
    own_sections,
    parts_of,
    show_case,
    verdict_of,
    versions,
    where_lost,
)
from handlens.pipeline.runs import package_version
from handlens.report.page import FILES, PAGE, Report, ShownCase, order_cases, write_report
from handlens.types import AnyChallenge, Case, CaseScore, Part, Predictor, Truth, Work
from handlens.views import Section, Table

SCORE_FILE = "score.json"

FILES_OF_ALL = {
    "submission.csv": "the contest's format",
    "submission.parquet": "the contest's format",
    SCORE_FILE: "numbers and notes, for programs",
}


def report_solve(
    challenge: AnyChallenge, out: Path, data: Path | None = None, *, baseline: bool = False, back: str = ""
) -> tuple[Path, Report]:
    """Write `report.html` and `report.json` of what a solve left in its folder.

    `data` is the data folder, where it has moved since. `baseline`: score the baseline too, to compare with. `back` is
    the address of a page about several reports.
    """
    page = read_score(out)
    settings = challenge.settings(**page["settings"])
    part: Part = page["part"]
    folder = data or place(page["data"])
    said = warning_notes(page.get("warnings", {}), page["count"])  # the page numbers them
    notes = [note for note in page["notes"] if note not in said]
    known, lost = _solved(challenge, page, out, folder, part, settings)
    notes += [lost] if lost else []
    shutil.rmtree(out / FILES, ignore_errors=True)
    store = open_pictures(known, out / FILES)
    scores = [known.scores[case.id] for case in known.cases if case.id in known.scores]
    references = {} if page["empty_score"] is None else {"empty answer": page["empty_score"]}
    constants = constant_scores(challenge, known, settings) if scores else {}
    reporting = challenge.report
    cheap = reporting is not None and reporting.cheap_baseline and page["solver"] == "model"
    beside = _Baseline(challenge, known, folder, settings) if scores and (baseline or cheap) else None
    score = page["score"]
    interval = interval_of(challenge, scores, settings) if scores else None
    files = files_of_cases(out, known.cases, folders_of_files(challenge))
    cases = []
    with remembering_picture():
        for number, case in enumerate(known.cases):
            cases.append(show_case(challenge, out, known, number, settings, store, files[case.id]))
            if beside is not None:
                beside.answer(case)
    references |= constants | (beside.scores() if beside else {})
    report = Report(
        kind="solve",
        title=f"{challenge.title}: {_name_of(known.cases[0]) if len(cases) == 1 else counted(page['count'], 'case')}",
        subtitle=f"{folder.name or folder} · {challenge.asks.replace('`', '')}",
        verdict=verdict_of(
            challenge, score, page["empty_score"], interval, cases, constants, _found(challenge, known, settings)
        ),
        state="scored" if score is not None else "",
        challenge=challenge.name,
        metric=challenge.metric,
        score=score,
        interval=interval,
        references=references | marks_of(reporting, score),
        score_about=about_score(challenge, len(scores), score),
        notes=list(dict.fromkeys(notes)),
        sections=[*parts_of(page.get("parts")), *where_lost(cases), *own_sections(challenge, known, settings)],
        cases=cases,
        facts=_facts(page, folder, settings, page["seconds"]),
        command=_command(challenge, page, folder, out, settings),
        files=[(name, name, FILES_OF_ALL.get(name) or about_file(challenge, name)) for name in _files(out)],
        handlens=package_version(),
    )
    write_report(report, out / PAGE, back=back)
    return out / PAGE, report


def report_adjusted(challenge: AnyChallenge, out: Path, value: float, target: Path, *, files: bool = True) -> Path:
    """Answers with another threshold as a page in a new folder; nothing is predicted again.

    `files`: with the submission and the files of the changed answer, which take several times as long as the page.
    """
    adjusting = challenge.report.adjust if challenge.report else None
    if adjusting is None:
        raise HandlensError(f"{challenge.name} has no threshold to change")
    page = read_score(out)
    settings = challenge.settings(**page["settings"])
    folder, part = place(page["data"]), page["part"]
    known, lost = _solved(challenge, page, out, folder, part, settings)
    if lost:
        raise DataError(lost)
    model = Path(page["model"]) if page.get("model") else None
    answers = {
        case.id: adjusting.answer(out, case, known.answers[case.id], value, model, settings) for case in known.cases
    }
    score = None
    if known.labels:
        score = challenge.score(answers, Truth(tuple(known.cases), lambda case: known.labels[case.id]), settings)
    scores = {case.id: case for case in score.cases} if score else {}
    changed = ReportedCases(known.cases, answers, known.labels, scores, known.warnings)
    with new_folder(target) as temporary:
        if (out / REPORT_DATA).is_dir():
            (temporary / REPORT_DATA).symlink_to(os.path.relpath(out / REPORT_DATA, target))
        if files:
            _write_adjusted(challenge, out, temporary, changed, settings)
        cases = _show_adjusted(challenge, temporary, changed, settings)
        report = Report(
            kind="adjusted",
            title=f"{challenge.title}: {adjusting.name} {value:.2f}",
            subtitle=f"{folder.name} · the fitted {adjusting.name} is {adjusting.start(model):.2f}",
            verdict=verdict_of(
                challenge,
                score.value if score else None,
                page["empty_score"],
                cases=cases,
                found=_found(challenge, changed, settings),
            ),
            challenge=challenge.name,
            metric=challenge.metric,
            score=score.value if score else None,
            references={} if score is None or page["score"] is None else {"as fitted": page["score"]},
            score_about="A threshold that is chosen by looking at the score says little about other cases."
            if score
            else "",
            sections=where_lost(cases),
            cases=cases,
            facts={"data": str(folder), adjusting.name: value, **versions()},
            files=[(name, name, FILES_OF_ALL.get(name) or about_file(challenge, name)) for name in _files(temporary)],
            handlens=package_version(),
        )
        write_report(report, temporary / PAGE)
    return target / PAGE


def _write_adjusted(challenge: AnyChallenge, out: Path, target: Path, changed: ReportedCases, settings: Any) -> None:
    """Submission and files of a changed answer."""
    write_submission(target / "submission.csv", challenge.codec(settings), changed.cases, changed.answers)
    if challenge.report is not None and challenge.report.adjust is not None:
        for case in changed.cases:
            challenge.report.adjust.write(out, target, case, changed.answers[case.id], settings)
    challenge.summarise(target, changed.answers, settings)


def _show_adjusted(challenge: AnyChallenge, target: Path, changed: ReportedCases, settings: Any) -> list[ShownCase]:
    store = open_pictures(changed, target / FILES)
    files = files_of_cases(target, changed.cases, folders_of_files(challenge))
    return [
        show_case(challenge, target, changed, number, settings, store, files[case.id])
        for number, case in enumerate(changed.cases)
    ]


def read_score(out: Path) -> dict[str, Any]:
    """What a solve wrote down about itself."""
    path = out / SCORE_FILE
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"no {SCORE_FILE} in it: name a folder that `handlens solve` wrote", file=out) from None
    except ValueError:
        page = None
    expected = {"challenge": str, "settings": dict, "part": str, "data": str, "notes": list, "count": int}
    if not isinstance(page, dict) or any(not isinstance(page.get(name), kind) for name, kind in expected.items()):
        raise DataError("damaged, or of another version: solve again", file=path)
    found: dict[str, Any] = page
    return found


def _solved(
    challenge: AnyChallenge, page: Mapping[str, Any], out: Path, folder: Path, part: Part, settings: Any
) -> tuple[ReportedCases, str]:
    """Cases, answers and labels of a solve, and why some of that is not there."""
    scores = {case["id"]: CaseScore(case["id"], case["value"], case["parts"]) for case in page.get("cases", ())}
    warnings = page.get("warnings", {})
    try:
        cases: Sequence[Case] = read_cases(challenge, folder, part)
    except DataError as error:
        ids = scores or warnings
        return ReportedCases(
            [Case(id, Path()) for id in ids], {}, {}, scores, warnings
        ), f"no pictures, because {error}"
    answers = require_submission(out / page["submission"], challenge.codec(settings), cases)
    truth = _truth(challenge, folder, part, settings) if scores else None
    labels = {case.id: truth.read(case) for case in truth.cases if case.id in answers} if truth else {}
    return ReportedCases(cases, answers, labels, scores, warnings), ""


def _truth(challenge: AnyChallenge, folder: Path, part: Part | None, settings: Any) -> Truth[Any] | None:
    place = find_truth(challenge, folder, settings, part) if folder.is_dir() else None
    return challenge.open_truth(place, settings) if place else None


class _Baseline:
    """What the baseline scores on the same cases; nothing where there is none, or a case cannot be read."""

    def __init__(self, challenge: AnyChallenge, known: ReportedCases, folder: Path, settings: Any) -> None:
        self.challenge, self.known, self.settings = challenge, known, settings
        self.answers: dict[str, Any] = {}
        self.predictor: Predictor[Any, Any] | None = None
        if challenge.baseline is None or not known.labels:
            return
        training = partial(training_truth, challenge.open_truth, challenge.read_cases, folder, settings)
        with suppress(HandlensError):
            self.predictor = load(challenge, settings=settings, solver="baseline", training=training)

    def answer(self, case: Case) -> None:
        if self.predictor is None:
            return
        try:
            with self.predictor.decode(case) as decoded:
                self.answers[case.id] = self.predictor.predict(decoded, Work()).answer
        except HandlensError:
            self.predictor = None

    def scores(self) -> dict[str, float]:
        if self.predictor is None:
            return {}
        truth = Truth(tuple(self.known.cases), lambda case: self.known.labels[case.id])
        return {"baseline": self.challenge.score(self.answers, truth, self.settings).value}


def _facts(page: Mapping[str, Any], folder: Path, settings: Any, seconds: float | None) -> dict[str, Any]:
    changed = changed_settings(settings, "solve")
    facts: dict[str, Any] = {"data": str(folder), "part": page["part"], "cases": page["count"]}
    facts["predictor"] = page.get("model") or ("included model" if page["solver"] == "model" else page["solver"])
    facts |= {"settings": ", ".join(f"{name} {value}" for name, value in changed.items()) or "defaults"}
    if seconds is not None:
        facts |= {"seconds": f"{seconds:.1f}", "seconds a case": f"{seconds / max(1, page['count']):.2f}"}
    if page.get("peak_mib"):
        facts["peak memory"] = f"{page['peak_mib']:,.0f} MiB"
    return facts | versions()


def _command(challenge: AnyChallenge, page: Mapping[str, Any], folder: Path, out: Path, settings: Any) -> str:
    words = ["handlens", "solve", challenge.name, str(folder), "-o", str(out)]
    words += ["--model", page["model"]] if page.get("model") else []
    words += ["--solver", page["solver"]] if page["solver"] != "model" else []
    words += ["--part", page["part"]]
    return shlex.join([*words, *options_of(settings, "solve")])


def _name_of(case: Case) -> str:
    """As its file is called, not by the number that it stands for."""
    return case.path.name or case.id


def _found(challenge: AnyChallenge, known: ReportedCases, settings: Any) -> str:
    return challenge.report.found(known.answers, settings) if challenge.report and known.answers else ""


def _files(out: Path) -> list[str]:
    """What lies beside the page and is about all cases."""
    names = ("submission.csv", "submission.parquet", "score.json", "objects.csv", "summary.csv", "predictions.csv")
    return [name for name in names if (out / name).is_file()]


def report_several(reports: Mapping[str, tuple[Path, Report]], page: Path) -> Path:
    """One page with the cases of several reports, by the name of each; links lead to their own pages.

    Their data is drawn, and what predictors say of drawn pictures is for people with others: it stays on those pages.
    """
    rows = [
        (name, report.metric, len(report.cases), report.score, *(report.interval or (None, None)))
        for name, (_, report) in reports.items()
    ]
    several = [(name, case) for name, (_, report) in reports.items() for case in order_cases(report.cases)]
    cases = [
        replace(
            case,
            id=f"{name} {case.id}",
            place=place,
            tags=(name, *case.tags),
            warnings=(),
            pictures=_moved(case.pictures, name),
            files=[(file, f"{quote(name)}/{address}", about) for file, address, about in case.files],
        )
        for place, (name, case) in enumerate(several)
    ]
    columns = ("challenge", "metric", "cases", "score", "95 % interval from", "to")
    report = Report(
        kind="demo",
        title=f"{counted(len(reports), 'challenge')}, solved and scored",
        subtitle="Drawn by handlens, no real data. Choose a challenge under Show, and click on a case to look at it.",
        verdict=" · ".join(f"{name} {one.score:.3f}" for name, (_, one) in reports.items() if one.score is not None),
        state="scored",
        sections=[Section("Scores", "", [Table("", columns, rows)])],
        cases=cases,
        facts=versions(),
        command=shlex.join(["handlens", "demo", "-o", str(page.parent)]),
        files=[(f"{name}: its own report", quote(f"{name}/{path.name}"), "") for name, (path, _) in reports.items()],
        handlens=package_version(),
    )
    write_report(report, page)
    return page


def _moved(value: Any, folder: str) -> Any:
    """Addresses of pictures as seen from the folder above."""
    if isinstance(value, dict):
        return {
            key: f"{quote(folder)}/{each}"
            if key in ("src", "path", "thumbnail") and not each.startswith("data:")
            else _moved(each, folder)
            for key, each in value.items()
        }
    return [_moved(each, folder) for each in value] if isinstance(value, list) else value
