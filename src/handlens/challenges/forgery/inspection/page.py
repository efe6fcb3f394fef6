"""Records and pictures as pages for a browser: one file each, nothing fetched from elsewhere, made to be printed."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
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

GENERATOR = '<meta name="generator" content="handlens inspect">'
"""Tells our pages from those of others."""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1c21; --soft: #63636e; --line: #d9d9e0; --card: #f5f5f8;
  --found: #b45309; --foundback: #fef3e2; --doubt: #6b5d00; --doubtback: #fbf8dc; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ground: #16161a; --ink: #e8e8ee; --soft: #a0a0ad; --line: #36363f;
  --card: #202027; --found: #ffb454; --foundback: #33240f; --doubt: #e5d96c; --doubtback: #2b2811; --link: #7fb8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 28px 24px 60px; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 40px 0 8px; }
h3 { font-size: 1rem; margin: 26px 0 6px; }
p { margin: 6px 0; max-width: 82ch; }
a { color: var(--link); }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.verdict { margin: 16px 0; padding: 12px 16px; border-left: 6px solid var(--line); background: var(--card);
  font-size: 1.15rem; font-weight: 600; }
.verdict.found { border-color: var(--found); background: var(--foundback); color: var(--found); }
.verdict.doubtful { border-color: var(--doubt); background: var(--doubtback); color: var(--doubt); }
.note { margin: 8px 0; padding: 8px 14px; border-left: 4px solid var(--doubt); background: var(--doubtback); }
figure { margin: 14px 0; }
img { max-width: 100%; height: auto; display: block; border: 1px solid var(--line); border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; vertical-align: top; padding: 7px 10px 7px 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; }
td.name { overflow-wrap: anywhere; min-width: 12em; }
td.found { color: var(--found); font-weight: 600; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
summary { cursor: pointer; margin: 12px 0; color: var(--link); }
.swatch { display: inline-block; width: .85em; height: .85em; margin-right: .4em; border: 1px solid #0009;
  border-radius: 3px; vertical-align: -.05em; }
.bar { display: block; width: 72px; height: 5px; margin-top: 5px; background: var(--line); border-radius: 3px; }
.bar i { display: block; height: 100%; background: var(--ink); border-radius: 3px; }
code { font-size: .85em; overflow-wrap: anywhere; }
td img { max-width: 150px; max-height: 110px; }
@media print { :root { color-scheme: light; } body { max-width: none; padding: 0; font-size: 11pt; }
  figure, tr, .verdict { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .verdict, .note, .swatch, .bar, .bar i { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

HOW_TO_READ = """<h2>How to read this</h2>
<p>Regions of one group have one colour and are joined by lines. Which of them came first cannot be told from pixels.
Each comparison shows the first region as it is, the second turned, mirrored and resized back onto it, and what is
left between the two inside the outline: dark where they agree, bright where they differ as much as unrelated regions
would. The surroundings help: in an honest picture what lies around a region goes on as it should.</p>
<p>The confidence is the program's own estimate and not a proof. Equal regions can have honest reasons: a reused loading
control that the legend names, neighbouring slices, a magnified inset, a repeated logo. That nothing was found does not
show that a figure is sound. This page is a starting point for a person's own look, not a finding of misconduct.</p>"""


@dataclass(frozen=True, slots=True)
class Strip:
    """The picture of one match: a file, the group's and match's place in the record, and how it is shown."""

    path: Path
    group: str
    match: int
    words: tuple[str, ...]


def figure_page(
    record: Record, overview: Path, strips: Sequence[Strip], colours: Mapping[str, str], back: str = ""
) -> str:
    """Everything about one figure; `colours` has each group's, `back` is where the summary is."""
    facts = f"{record['width']}x{record['height']} pixels · SHA-256 <code>{record['sha256']}</code>"
    parts = [
        f'<p class="soft"><a href="{escape(back)}">All figures</a></p>' if back else "",
        f"<h1>{escape(record['figure'])}</h1>",
        f'<p class="soft">{facts}</p>',
        f'<div class="verdict {state(record)}">{_capital(record["verdict"])}</div>',
        *(f'<div class="note">{escape(_capital(note))}</div>' for note in notes(record)),
        f"<figure>{_image(overview, 'The figure with its matched regions outlined')}"
        f"<figcaption>{_overview_words(record)}</figcaption></figure>",
    ]
    if groups := record["groups"]:
        parts += ["<h2>Matched groups</h2>", _group_table(groups, colours), *_comparisons(groups, strips, colours)]
    if groups := record["doubtful"]:
        drawn = "".join(_comparisons(groups, strips, colours))
        parts += ["<h2>Worth a look, not counted</h2>", _group_table(groups, colours)]
        parts += [f"<details><summary>Show them side by side</summary>{drawn}</details>" if drawn else ""]
    parts += [_panels(record), HOW_TO_READ, _made_by(record)]
    return _page(record["figure"], parts)


def summary_page(records: Sequence[Record], thumbnails: Mapping[str, Path], total: int) -> str:
    """All figures in one table, the most suspicious first; `thumbnails` by the figures' folders."""
    states = [state(record) for record in records]
    counts = [
        f"{states.count(name)} {words}"
        for name, words in (
            ("found", "with copied regions"),
            ("doubtful", "worth a look"),
            ("nothing", "nothing found"),
            ("error", "that could not be looked at"),
        )
        if name in states
    ]
    stopped = f'<div class="note">Stopped: {len(records)} of {total} figures were looked at.</div>'
    parts = [
        f"<h1>{counted(total, 'figure')}</h1>",
        f'<div class="verdict {"found" if "found" in states else ""}">{" · ".join(counts)}</div>',
        stopped if len(records) < total else "",
        '<div class="wide"><table><tr><th></th><th>figure</th><th>verdict</th><th>confidence</th><th>notes</th></tr>',
        *(_summary_row(record, thumbnails.get(record["folder"])) for record in rank(records)),
        "</table></div>",
        HOW_TO_READ,
        *([_made_by(records[0])] if records else []),
    ]
    return _page(f"{counted(total, 'figure')} inspected", parts)


def _page(title: str, parts: Sequence[str]) -> str:
    head = (
        f'<meta charset="utf-8">{GENERATOR}<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style>"
    )
    body = "\n".join(part for part in parts if part)
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _image(path: Path, words: str) -> str:
    kind = "jpeg" if path.suffix == ".jpg" else "png"
    content = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(words)}" src="data:image/{kind};base64,{content}">'


def _group_table(groups: Sequence[Record], colours: Mapping[str, str]) -> str:
    heads = ("group", "confidence", "regions", "from one to the other", "evidence", "pixels")
    rows = [
        _match_row(group, index, match, colours) for group in groups for index, match in enumerate(group["matches"])
    ]
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _match_row(group: Record, index: int, match: Record, colours: Mapping[str, str]) -> str:
    boxes = {region["name"]: region["box"] for region in group["regions"]}
    places = "<br>".join(f"<b>{name}</b> {describe_box(boxes[name])}" for name in (match["source"], match["copy"]))
    cells = [
        f"{_swatch(group, colours)}{group['name']}" if index == 0 else "",
        _confidence(group) if index == 0 else "",
        f'<span class="number">{places}</span>',
        escape(match["transform"]),
        escape(describe_evidence(match)),
        escape(_agreement_words(match["agreement"])),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _confidence(group: Record) -> str:
    share = round(100 * min(1.0, max(0.0, group["probability"])))
    words = f"{group['probability']:.2f} {group['confidence']}"
    return f'<span class="number">{words}</span><span class="bar"><i style="width:{share}%"></i></span>'


def _comparisons(groups: Sequence[Record], strips: Sequence[Strip], colours: Mapping[str, str]) -> list[str]:
    parts = []
    for group in groups:
        drawn = [strip for strip in strips if strip.group == group["name"]]
        for strip in drawn:
            match = group["matches"][strip.match]
            title = f"{match['source']} and {match['copy']}"
            words = escape(_capital("; ".join([*strip.words, _agreement_words(match["agreement"])])))
            parts.append(
                f"<h3>{_swatch(group, colours)}{title}: {escape(match['transform'])}</h3><figure>"
                f"{_image(strip.path, f'Regions {title} side by side and their difference')}"
                f"<figcaption>{words}.</figcaption></figure>"
            )
        if len(drawn) < len(group["matches"]):
            left = counted(len(group["matches"]) - len(drawn), "match").replace("matchs", "matches")
            parts.append(f'<p class="soft">{left} of group {group["name"]} not drawn, to keep the page small.</p>')
    return parts


def _agreement_words(agreement: Record | None) -> str:
    if agreement is None:
        return "not compared"
    if agreement["correlation"] is None:
        return "flat region, nothing to compare"
    return f"correlation {agreement['correlation']:.3f}, mean difference {agreement['mean_difference']:.1f} grey levels"


def _overview_words(record: Record) -> str:
    if not record["groups"] and not record["doubtful"]:
        return "The figure as it was looked at."
    dashed = " Dashed: worth a look, not counted." if record["doubtful"] else ""
    return f"Regions of one colour match; lines join the pairs that were compared.{dashed}"


def _panels(record: Record) -> str:
    if not record["panels"]:
        return ""
    rows = "".join(
        f"<tr><td>{escape(panel['kind'])}</td><td>{describe_box(panel['box'])}</td></tr>" for panel in record["panels"]
    )
    return f"<details><summary>{counted(len(record['panels']), 'panel')} seen</summary><table>{rows}</table></details>"


def _summary_row(record: Record, thumbnail: Path | None) -> str:
    picture = _image(thumbnail, "") if thumbnail else ""
    name = escape(record["figure"])
    if thumbnail:
        name = f'<a href="{quote(record["folder"])}/index.html">{name}</a>'
    top = (record.get("groups") or record.get("doubtful") or [None])[0]
    remarks = [record["error"]] if "error" in record else notes(record)
    cells = [
        f"<td>{picture}</td>",
        f'<td class="name">{name}</td>',
        f'<td class="{state(record)}">{escape(_capital(verdict(record)))}</td>',
        f"<td>{_confidence(top) if top else ''}</td>",
        f'<td class="name">{"<br>".join(escape(_capital(remark)) for remark in remarks)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _swatch(group: Record, colours: Mapping[str, str]) -> str:
    return f'<span class="swatch" style="background:{colours[group["name"]]}"></span>'


def _made_by(record: Record) -> str:
    return f'<p class="soft">Made by handlens {escape(record["handlens"])}, {escape(record["settings"])}.</p>'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
