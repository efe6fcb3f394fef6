"""A report as a value, as JSON and as a page: whatever stands on the page stands in the JSON too."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from handlens.errors import DataError
from handlens.io.files import write_text
from handlens.io.gate import open_file
from handlens.report import SCRIPT, render, shown
from handlens.report.charts import draw_chart, draw_scale
from handlens.views import Chart, Matrix, Reason, Section, Table

PAGE, TWIN, FILES = "report.html", "report.json", "report_files"
GENERATOR = "handlens report"
"""Tells our pages from those of others."""

_HEAD = 200
"""Bytes at the beginning of a page and of its twin: both say there who made them, the page within 80."""

WITH_WARNINGS = "with warnings"

GROUP_SIZE = 60
"""Cards that a browser lays out together when they come near the screen: rows of up to six are full to the last."""


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case on the page: what it is worth, why, what was odd, and its pictures as `pictures.draw_case` made them.

    `losses` are the number and the cost of all reasons of each kind; `reasons` may be the costliest alone. `files` are
    those of the case that lie beside the page: name, address, and what each is for.
    """

    id: str
    place: int
    value: float | None = None
    words: str = ""
    reasons: Sequence[Reason] = ()
    losses: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    warnings: Sequence[str] = ()
    pictures: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    files: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a page says. `references` are other scores by name; `problems` those of a refused submission."""

    kind: str
    title: str
    subtitle: str
    verdict: str
    state: str = ""
    challenge: str = ""
    metric: str = ""
    score: float | None = None
    interval: tuple[float, float] | None = None
    references: Mapping[str, float] = field(default_factory=dict)
    score_about: str = ""
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    cases: Sequence[ShownCase] = ()
    problems: Sequence[Mapping[str, Any]] = ()
    problems_left: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    files: Sequence[tuple[str, str, str]] = ()
    handlens: str = ""

    @property
    def scored(self) -> bool:
        return any(case.value is not None for case in self.cases)

    @property
    def warnings(self) -> dict[str, list[str]]:
        """The ids of the cases that each warning is about, the commonest warning first."""
        about: dict[str, list[str]] = {}
        for case in self.cases:
            for warning in dict.fromkeys(case.warnings):
                about.setdefault(warning, []).append(case.id)
        return dict(sorted(about.items(), key=lambda item: -len(item[1])))

    def as_json(self) -> dict[str, Any]:
        """The twin: all but the pixels; who made it stands first."""
        bare = asdict(replace(self, cases=(), sections=()))  # these follow, without a copy of their pictures
        page = {"handlens": self.handlens} | bare | {"warnings": self.warnings}
        page["sections"] = [
            {"title": part.title, "text": part.text, "items": [_item_json(item) for item in part.items]}
            for part in self.sections
        ]
        page["cases"] = [{**_case_json(case), "pictures": _without_pixels(case.pictures)} for case in self.cases]
        return page


def refuse_foreign_page(path: Path) -> None:
    """DataError where writing a page here, and its twin beside it, would replace a file that no report of ours is."""
    if path.suffix not in (".html", ".htm"):
        raise DataError("a page is an HTML file: name one that ends in .html", file=path)
    for place, mark in ((path, f'content="{GENERATOR}"'), (path.with_suffix(".json"), '"handlens":')):
        if os.path.lexists(place):
            with open_file(place) as stream:
                head = stream.read(_HEAD)
            if mark.encode() not in head:
                raise DataError("already there, and not a report of handlens: name another page", file=place)


def write_report(report: Report, path: Path, *, back: str = "") -> None:
    """Write the twin, then the page; `back` is where a page about several of them lies."""
    twin = path.with_suffix(".json")
    write_text(twin, json.dumps(_finite(report.as_json()), indent=1) + "\n")
    write_text(path, page_of(report, twin=twin.name, back=back))


def page_of(report: Report, *, twin: str, back: str = "") -> str:
    """The page as text."""
    mixed = report.kind == "demo"  # scores of several challenges: the worst of all would be of one alone
    about = report.warnings
    numbers = {warning: number for number, warning in enumerate(about, 1)}
    cards = [_case(case, numbers) for case in (report.cases if mixed else order_cases(report.cases))]
    scale = None
    if report.score is not None:
        scale = draw_scale(report.score, report.interval, list(report.references.items()))
    return render(
        "report.html",
        script=SCRIPT if report.cases else "",
        pictures="data: 'self' file:" if report.cases else "data:",
        generator=GENERATOR,
        report=report,
        scale=scale,
        marks=_marks(report),
        listed=[*(report.cases[0].files if len(report.cases) == 1 else ()), *report.files],
        sections=[_section(part) for part in report.sections],
        cards=cards,
        mixed=mixed,
        warnings=[(warning, len(ids)) for warning, ids in about.items()],
        group_size=GROUP_SIZE,
        tags=_tags(cards),
        twin=twin,
        back=back,
    )


def order_cases(cases: Sequence[ShownCase]) -> list[ShownCase]:
    """The worst first; those without a score in the order of the data."""
    return sorted(cases, key=lambda case: (math.inf if case.value is None else case.value, case.place))


def _case(case: ShownCase, numbers: Mapping[str, int]) -> dict[str, Any]:
    """What a card shows; `numbers` are those of the warnings, which stand at the top of the page."""
    pictures = dict(case.pictures)
    thumbnail = pictures.pop("thumbnail", "")
    tags = [*case.tags, *case.losses]
    tags += [WITH_WARNINGS] if case.warnings or case.fault else []
    warnings = sorted({numbers[warning] for warning in case.warnings})
    tags += [f"warning {number}" for number in warnings]
    data = {**_case_json(case), **pictures}
    return {
        "id": case.id,
        "place": case.place,
        "value": case.value,
        "words": case.words,
        "warnings": warnings,
        "fault": case.fault,
        "opens": bool(pictures.get("layers") or case.reasons or case.facts or case.warnings),
        "thumbnail": thumbnail,
        "size": (pictures.get("width", 1), pictures.get("height", 1)),
        "tags": list(dict.fromkeys(tag for tag in tags if tag)),
        "data": _finite(data),
    }


def _case_json(case: ShownCase) -> dict[str, Any]:
    return {
        "id": case.id,
        "value": case.value,
        "words": case.words,
        "reasons": [_reason_json(reason) for reason in case.reasons],
        "losses": {kind: {"count": count, "lost": lost} for kind, (count, lost) in case.losses.items()},
        "facts": dict(case.facts),
        "tags": list(case.tags),
        "warnings": list(case.warnings),
        "fault": case.fault,
        "files": list(case.files),
    }


def _reason_json(reason: Reason) -> dict[str, Any]:
    """As `asdict` has it, which takes a tenth of the time of a page."""
    return {"kind": reason.kind, "text": reason.text, "lost": reason.lost, "box": reason.box}


def _without_pixels(pictures: Mapping[str, Any]) -> dict[str, Any]:
    """The same with pictures that lie in the page itself left out: what they are stands there still."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: bare(each) for name, each in value.items() if name not in ("src", "thumbnail") or _is_file(each)
            }
        return [bare(each) for each in value] if isinstance(value, list) else value

    found: dict[str, Any] = bare(dict(pictures))
    return found


def _is_file(address: Any) -> bool:
    return not str(address).startswith("data:")


def _marks(report: Report) -> list[tuple[str, float]]:
    """The score among those that it is compared with, the best first."""
    marks = [] if report.score is None else [("this run", report.score), *report.references.items()]
    return sorted(marks, key=lambda mark: -mark[1])


def _tags(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Words to filter by: kinds of reasons and the challenge's own, in the order of first sight, warnings last."""
    found = list(dict.fromkeys(tag for card in cards for tag in card["tags"]))
    return [*(tag for tag in found if tag != WITH_WARNINGS), *([WITH_WARNINGS] if WITH_WARNINGS in found else [])]


NARROW_COLUMNS = 5
"""Of a table that has room beside another."""


def _section(part: Section) -> dict[str, Any]:
    broad = len(part.items) != 1 or not isinstance(part.items[0], Table) or len(part.items[0].columns) > NARROW_COLUMNS
    return {"title": part.title, "text": part.text, "broad": broad, "drawn": [_item(item) for item in part.items]}


def _item(item: Chart | Matrix | Table) -> dict[str, Any]:
    if isinstance(item, Chart):
        return {"kind": "chart", "title": item.title, "svg": draw_chart(item)}
    if isinstance(item, Table):
        return _table(item)
    lines = []
    for name, counts in zip(item.rows, item.counts, strict=True):
        most = sum(counts) or 1
        lines.append((name, [(count, math.ceil(4 * count / most)) for count in counts]))
    return {"kind": "matrix", "title": item.title, "columns": item.columns, "lines": lines}


def _table(table: Table) -> dict[str, Any]:
    """Cells as text; numbers stand flush right, those of a column of small ones with as many places."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    texts = [_column(cells) for cells in columns]
    names = [(name, any(map(_is_number, cells))) for name, cells in zip(table.columns, columns, strict=True)]
    return {"kind": "table", "title": table.title, "columns": names, "rows": list(zip(*texts, strict=True))}


def _column(cells: Sequence[Any]) -> list[tuple[str, bool]]:
    fractions = [cell for cell in cells if isinstance(cell, float) and math.isfinite(cell)]
    alike = any(cell != round(cell) for cell in fractions) and max(map(abs, fractions)) < SMALL
    return [
        (f"{cell:.4f}" if alike and isinstance(cell, float) else shown(cell), _is_number(cell) or cell in (None, "-"))
        for cell in cells
    ]


SMALL = 10
"""Below this all numbers of a column are written with four places, so that they can be compared at a glance."""


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _item_json(item: Chart | Matrix | Table) -> dict[str, Any]:
    return {"kind": type(item).__name__.lower(), **asdict(item)}


def _finite(value: Any) -> Any:
    """The same with numbers that JSON does not know as null, and numpy's as Python's."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | None):
        return value
    return _finite(value.item()) if hasattr(value, "item") else str(value)
