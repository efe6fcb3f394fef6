"""Findings as words and numbers: verdict, transforms, table for the terminal, record for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import Findings, Match, Patch
from handlens.challenges.forgery.detect.verifier.features import significance
from handlens.challenges.forgery.inspection.naming import Named, outlines
from handlens.challenges.forgery.predictor import DRAWN, LEAST_SEARCHED
from handlens.errors import counted

Record = dict[str, Any]

WIDTH = 80
"""Columns of the terminal's table: what the narrowest usual terminal has."""

CONFIDENCE = ((0.9, "high"), (0.7, "medium"), (0.0, "low"))
"""Words for a probability: the first whose bound it reaches."""

MATCHES_SHOWN = 10
"""Matches of a group in the terminal before the rest is only counted."""

OUTLINE_ERROR = 0.7
"""How far an outline in the record may be from the mask's own, in pixels: keeps records short."""

TURN_SHOWN, SCALE_SHOWN, STRETCH_SHOWN = 0.5, 0.01, 0.03
"""Degrees, and shares of the size, below which a transform is not spoken of: nobody sees them."""


def verdict(record: Record) -> str:
    """One careful sentence."""
    if "error" in record:
        return "could not be looked at"
    if record["groups"]:
        return f"copied regions found ({counted(len(record['groups']), 'group')})"
    if record["doubtful"]:
        return f"no copied region found ({counted(len(record['doubtful']), 'doubtful group')})"
    if record.get("same_field"):
        return f"no copied region found (the same field shown twice: {counted(len(record['same_field']), 'group')})"
    return "no copied region found"


def state(record: Record) -> str:
    """`found`, `doubtful`, `nothing` or `error`."""
    if "error" in record:
        return "error"
    return "found" if record["groups"] else "doubtful" if record["doubtful"] else "nothing"


def confidence(probability: float) -> str:
    """The word for a probability.

    >>> confidence(0.97), confidence(0.7), confidence(0.2)
    ('high', 'medium', 'low')
    """
    return next(word for bound, word in CONFIDENCE if probability >= bound)


def describe_transform(match: Match) -> str:
    """How the copy was made from the source, the shift measured between the middles of the two.

    >>> import numpy as np
    >>> patch = Patch(0, 0, np.ones((11, 11), bool))
    >>> describe_transform(Match(patch, patch, np.array([[0, -1.12, 20], [1.12, 0, 30.0]]), "keypoints"))
    'turned 90 degrees clockwise, 1.12x, moved by (9, 31)'
    """
    parts = [*_turn_words(match)]
    if abs(match.scale - 1) >= SCALE_SHOWN:
        parts.append(f"{match.scale:.2f}x")
    if (stretch := _stretch(match)) >= 1 + STRETCH_SHOWN:
        parts.append(f"stretched {stretch:.2f}:1")
    x, y = shift(match)
    return ", ".join([*parts, f"moved by ({round(x)}, {round(y)})"])


def shift(match: Match) -> tuple[float, float]:
    """Where the middle of the source comes to lie, less where it was: x to the right, y down."""
    middle = np.array(match.source.centre)
    moved = match.matrix[:, :2] @ middle + match.matrix[:, 2] - middle
    return float(moved[0]), float(moved[1])


def describe_evidence(match: Record) -> str:
    """What was measured, in short: `keypoints: inliers 34, correlation 0.97`."""
    measured = ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in match["evidence"].items())
    return f"{match['tier']}: {measured}" if measured else str(match["tier"])


def describe_facts(match: Match, names: tuple[str, str], agreement: Record | None) -> list[str]:
    """What was measured, in a few words for a person: how alike, how unlikely by chance in this figure, and the seam.

    `names` are those of the source and of the copy.
    """
    seen, facts = match.evidence, [f"found by {match.tier}"]
    alike = seen.get("correlation") if agreement is None else agreement["correlation"]
    facts.append("flat, nothing to compare" if alike is None else f"correlation {alike:.3f} once aligned")
    if seen.get("typical_significance", 0) > 0:
        times = significance(seen) / seen["typical_significance"]
        facts.append(f"{times:.1f} times as far beyond chance as a usual pair of this figure")
    if "seam" in seen:
        facts.append(_seam_words(seen, names))
    return facts


def _seam_words(seen: Mapping[str, float], names: tuple[str, str]) -> str:
    sharp = seen["sharpest_seam"]
    if seen["seam"] < sharp:
        return "no seam"
    if seen["other_seam"] >= sharp:
        return f"a seam around {names[0]} and {names[1]}"
    return f"a seam around {names[1] if seen.get('seam_of_copy') else names[0]}, none around the other"


def record_group(named: Named, agreements: Sequence[Record | None]) -> Record:
    """A group for programs; `agreements` has for each match what a comparison of its pixels gave, or None."""
    group = named.group
    matches = []
    for match, joined, agreement in zip(group.matches, named.joined, agreements, strict=True):
        source, copy = (named.region_name(region) for region in joined)
        matches.append(
            {
                "source": source,
                "copy": copy,
                "transform": describe_transform(match),
                "mirrored": match.mirrored,
                "turn_degrees": round(match.turn, 2),
                "scale": round(match.scale, 4),
                "moved": [round(value, 1) for value in shift(match)],
                "matrix": [[round(float(value), 6) for value in row] for row in match.matrix],
                "facts": describe_facts(match, (source, copy), agreement),
                "tier": match.tier,
                "probability": round(float(match.probability), 4),
                "evidence": {name: round(float(value), 4) for name, value in match.evidence.items()},
                "agreement": agreement,
            }
        )
    return {
        "name": named.name,
        "probability": round(float(group.probability), 4),
        "confidence": confidence(group.probability),
        "regions": [_record_region(named.region_name(i), patch) for i, patch in enumerate(named.regions)],
        "matches": matches,
    }


def record_findings(findings: Findings, groups: Sequence[tuple[Named, Record]]) -> Record:
    """The part of a figure's record that the detector is answerable for."""
    record: Record = {
        "probability": round(float(findings.probability), 4),
        "groups": [group for named, group in groups if named.counted],
        "doubtful": [group for named, group in groups if named.doubtful],
        "same_field": [group for named, group in groups if named.same_field],
        "panels": [
            {**_box(panel.top, panel.left, panel.bottom - panel.top, panel.right - panel.left), "kind": panel.kind}
            for panel in findings.panels
        ],
        "cut": list(findings.cut),
        "searched": round(findings.searched, 4),
    }
    return {"verdict": verdict(record), "copies_found": bool(record["groups"]), **record}


def notes(record: Record) -> list[str]:
    """What a reader must know before trusting the verdict."""
    found = list(record.get("notes", ()))
    if record.get("cut"):
        found.append(
            f"time ran out in: {', '.join(record['cut'])}. Copies may have been missed; give it more with --seconds"
        )
    if record.get("searched", 1.0) < LEAST_SEARCHED:
        found.append(DRAWN)
    return found


def table(record: Record, *, all_numbers: bool = False) -> str:
    """Verdict and matches of one figure as plain text of at most 80 columns; all that was measured if you say so."""
    if "error" in record:
        return "\n".join(_wrap(f"{record['figure']}: {verdict(record)}: {record['error']}", ""))
    lines = _wrap(f"{record['figure']} ({record['width']}x{record['height']} pixels): {record['verdict']}", "")
    for group in record["groups"]:
        lines += _group_lines(group, all_numbers)
    if record["doubtful"]:
        lines.append("  worth a look, not counted:")
        for group in record["doubtful"]:
            lines += _wrap(f"group {group['name']}: confidence {group['probability']:.2f}: {_places(group)}", "    ")
    if record.get("same_field"):
        lines.append("  the same field shown twice, as channels beside their merge; not counted:")
        for group in record["same_field"]:
            lines += _wrap(f"group {group['name']}: {_places(group)}", "    ")
    for note in notes(record):
        lines += _wrap(f"note: {note}", "  ")
    return "\n".join(lines)


def rank(records: Sequence[Record]) -> list[Record]:
    """The most suspicious first: counted groups, doubtful ones, fields shown twice, nothing found, unreadable."""
    return sorted(
        records,
        key=lambda r: ("error" in r, not r.get("groups"), -_top(r), not r.get("same_field"), r["figure"]),
    )


def _top(record: Record) -> float:
    found = [group["probability"] for group in (*record.get("groups", ()), *record.get("doubtful", ()))]
    return max(found, default=-1.0)


def _group_lines(group: Record, all_numbers: bool) -> list[str]:
    lines = [f"  group {group['name']}: confidence {group['probability']:.2f} ({group['confidence']})"]
    lines += _wrap(_places(group), "    ")
    for match in group["matches"][:MATCHES_SHOWN]:
        lines += _wrap(f"{match['source']} and {match['copy']}: {match['transform']}", "    ")
        lines += _wrap("; ".join(match["facts"]), "      ")
        lines += _wrap(describe_evidence(match), "      ") if all_numbers else []
    if (more := len(group["matches"]) - MATCHES_SHOWN) > 0:
        lines.append(f"    and {more} more; the pages of -o and --json have them all")
    return lines


def _places(group: Record) -> str:
    return "; ".join(f"{region['name']} {describe_box(region['box'])}" for region in group["regions"])


def describe_box(box: Record) -> str:
    """Width, height and upper left corner."""
    return f"{box['width']}x{box['height']} at ({box['left']}, {box['top']})"


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    ) or [indent]


def _record_region(name: str, patch: Patch) -> Record:
    x, y = patch.centre
    polygons = [cv2.approxPolyDP(outline[:, None, :], OUTLINE_ERROR, True)[:, 0, :] for outline in outlines(patch)]
    return {
        "name": name,
        **_box(patch.top, patch.left, *patch.mask.shape),
        "area": patch.area,
        "centre": [round(x, 1), round(y, 1)],
        "outline": [polygon.tolist() for polygon in polygons],
    }


def _box(top: int, left: int, height: int, width: int) -> Record:
    return {"box": {"left": int(left), "top": int(top), "width": int(width), "height": int(height)}}


def _turn_words(match: Match) -> list[str]:
    turn, size = match.turn, abs(match.turn)
    side = " clockwise" if turn > 0 else " anticlockwise"
    whole = f"{turn if turn > 0 else -turn:.1f}".removesuffix(".0")
    turned = [] if size < TURN_SHOWN else [f"turned {whole} degrees{side if size <= 180 - TURN_SHOWN else ''}"]
    if not match.mirrored:
        return turned
    if size < TURN_SHOWN:
        return ["mirrored left to right"]
    return ["mirrored top to bottom"] if size > 180 - TURN_SHOWN else ["mirrored", *turned]


def _stretch(match: Match) -> float:
    larger, smaller = np.linalg.svd(match.matrix[:, :2], compute_uv=False)
    return float(larger / max(smaller, 1e-9))


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 1e-9 else f"{value:.3g}"
