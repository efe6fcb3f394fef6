"""Records and pictures as pages for a browser: what the templates of `handlens.report` show of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from handlens.challenges.forgery.inspection.words import (
    Record,
    describe_box,
    describe_evidence,
    notes,
    rank,
    state,
    verdict,
)
from handlens.errors import counted
from handlens.report import image_url, render, sentence

GENERATOR = "handlens inspect"
"""Tells our pages from those of others."""

DOUBTFUL = {
    "high": "Some pairs are worth a look: honest regions are seldom as alike.",
    "medium": "Some pairs are worth a look: they are more likely to be copied than not.",
    "low": "Some pairs are worth a look, but are as likely to be honest.",
}
"""What is said of doubtful groups, by the confidence in the surest."""


@dataclass(frozen=True, slots=True)
class MatchPicture:
    """The picture of one match: a file, the group's and match's place in the record, and how it is shown."""

    path: Path
    group: str
    match: int
    words: tuple[str, ...]


def figure_page(
    record: Record, overview: Path, strips: Sequence[MatchPicture], colours: Mapping[str, str], back: str = ""
) -> str:
    """Everything about one figure; `colours` has each group's, `back` is where the summary is."""
    return render(
        "inspect_figure.html",
        generator=GENERATOR,
        record=record,
        back=back,
        banner=banner(record),
        plain=plain_words(record),
        notes=notes(record),
        overview=image_url(overview),
        overview_caption=_overview_caption(record),
        groups=_match_rows(record["groups"], colours),
        drawn=_comparisons(record["groups"], strips, colours),
        doubtful=_match_rows(record["doubtful"], colours),
        doubtful_drawn=_comparisons(record["doubtful"], strips, colours),
        fields=_match_rows(record["same_field"], colours),
        fields_drawn=_comparisons(record["same_field"], strips, colours),
        panels=[(panel["kind"], describe_box(panel["box"])) for panel in record["panels"]],
        panels_title=f"{counted(len(record['panels']), 'panel')} seen",
    )


def summary_page(records: Sequence[Record], thumbnails: Mapping[str, Path], total: int) -> str:
    """All figures in one table, the most suspicious first; `thumbnails` by the figures' folders."""
    states = [state(record) for record in records]
    ranked = rank(records)
    kinds = (
        ("found", "with copied regions"),
        ("doubtful", "worth a look"),
        ("nothing", "with nothing found"),
        ("error", "that could not be read"),
    )
    return render(
        "inspect_summary.html",
        generator=GENERATOR,
        title=counted(total, "figure"),
        banner=banner(ranked[0]) if ranked else "",
        plain=_plain_summary(states),
        counts=[f"{states.count(name)} {words}" for name, words in kinds if name in states],
        stopped=f"Stopped: {len(records)} of {total} figures were inspected." if len(records) < total else "",
        papers=_papers(ranked, thumbnails),
        made_by=records[0] if records else None,
    )


def banner(record: Record) -> str:
    """What colours the banner: the confidence in the surest group; `doubtful` where none counts; else nothing."""
    if "error" not in record and record["groups"]:
        return max(record["groups"], key=lambda group: float(group["probability"]))["confidence"]  # type: ignore[no-any-return]
    return "doubtful" if state(record) == "doubtful" else ""


def plain_words(record: Record) -> tuple[str, str]:
    """Two sentences for a reader who wants no numbers."""
    if record["groups"]:
        group = record["groups"][0]
        names = " and ".join(region["name"] for region in group["regions"][:2])
        return (
            f"Regions {names} are alike as honest regions seldom are; the confidence is {group['confidence']}.",
            "Compare them below: a person has to judge why.",
        )
    if record["doubtful"]:
        surest = max(record["doubtful"], key=lambda group: float(group["probability"]))
        return "No region stands out as a copy.", DOUBTFUL[surest["confidence"]]
    return "No region of this figure was found to be a copy of another.", "That does not show that the figure is sound."


def _plain_summary(states: Sequence[str]) -> tuple[str, str]:
    if "found" in states:
        return "Some figures have regions that look copied; the surest come first.", "Open a figure to compare them."
    if not {"doubtful", "nothing"} & set(states):
        return "No figure could be read.", "Nothing can be said about them."
    return "No figure has a region that was found to be copied.", "That does not show that the figures are sound."


def _papers(ranked: Sequence[Record], thumbnails: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Figures by the paper that they are pages of, the most suspicious paper first; single pictures in a row."""
    papers: list[tuple[str, list[Record]]] = []
    place: dict[str, int] = {}
    for record in ranked:
        paper = record["file"] if record.get("page") else ""
        if paper and paper in place:
            papers[place[paper]][1].append(record)
            continue
        if paper or not papers or papers[-1][0]:
            place[paper] = len(papers)
            papers.append((paper, []))
        papers[-1][1].append(record)
    names = Counter(record["figure"] for record in ranked)
    return [
        {
            "title": each[0]["figure"].rpartition("#")[0] if paper else "",
            "rows": [_summary_row(record, thumbnails.get(record["folder"]), names) for record in each],
        }
        for paper, each in papers
    ]


def _match_rows(groups: Sequence[Record], colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row for each match of each group."""
    rows = []
    for group in groups:
        boxes = {region["name"]: region["box"] for region in group["regions"]}
        for index, match in enumerate(group["matches"]):
            rows.append(
                {
                    "first": index == 0,
                    "group": group,
                    "colour": colours[group["name"]],
                    "places": [(name, describe_box(boxes[name])) for name in (match["source"], match["copy"])],
                    "transform": match["transform"],
                    "facts": sentence("; ".join(match["facts"])),
                    "evidence": describe_evidence(match),
                    "agreement": _agreement_words(match["agreement"]),
                }
            )
    return rows


def _comparisons(
    groups: Sequence[Record], strips: Sequence[MatchPicture], colours: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Each match that was drawn, and a note where some of a group were not."""
    items: list[dict[str, Any]] = []
    for group in groups:
        drawn = [strip for strip in strips if strip.group == group["name"]]
        for strip in drawn:
            match = group["matches"][strip.match]
            caption = sentence("; ".join(strip.words))
            items.append(
                {
                    "note": "",
                    "colour": colours[group["name"]],
                    "title": f"{match['source']} and {match['copy']}",
                    "transform": match["transform"],
                    "facts": f"{sentence('; '.join(match['facts']))}.",
                    "image": image_url(strip.path),
                    "caption": f"{caption}.",
                }
            )
        left = len(group["matches"]) - len(drawn)
        if left:
            noun = "match" if left == 1 else "matches"
            items.append({"note": f"{left} {noun} of group {group['name']} not drawn, to keep the page small."})
    return items


def _summary_row(record: Record, thumbnail: Path | None, names: Mapping[str, int]) -> dict[str, Any]:
    """A figure in the list; where several have its name, with the folder that it was in."""
    folder = Path(record["file"]).parent.name if names[record["figure"]] > 1 else ""
    return {
        "thumbnail": image_url(thumbnail) if thumbnail else "",
        "name": f"{folder}/{record['figure']}" if folder else record["figure"],
        "link": f"{quote(record['folder'])}/index.html" if thumbnail else "",
        "banner": banner(record),
        "verdict": verdict(record),
        "top": (record.get("groups") or record.get("doubtful") or [None])[0],
        "remarks": [record["error"]] if "error" in record else notes(record),
    }


def _agreement_words(agreement: Record | None) -> str:
    if agreement is None:
        return "not compared"
    if agreement["correlation"] is None:
        return "flat region, nothing to compare"
    return f"correlation {agreement['correlation']:.3f}, mean difference {agreement['mean_difference']:.1f} grey levels"


def _overview_caption(record: Record) -> str:
    if not record["groups"] and not record["doubtful"] and not record["same_field"]:
        return "The figure as it was inspected."
    dashed = " Dashed: worth a look, not counted." if record["doubtful"] else ""
    dashed += " Dashed in blue: the same field shown twice, not counted." if record["same_field"] else ""
    return f"Regions of one colour match; lines join the pairs that were compared.{dashed}"
