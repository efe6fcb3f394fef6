"""A figure's candidates as text, so that what was found is on disk before the next figure is looked at.

All that the detector would score is kept, in pixels of the canvas and to the last digit: with the canvas made again
from the picture, a record is the proposal it was made of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from handlens.challenges.forgery.detect import Proposal
from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.canvas.scaling import Scaling
from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.masks.rle import Rle, decode, encode


@dataclass(frozen=True, slots=True, eq=False)
class MatchRecord:
    """A proposal without its canvas: `matches` in pixels of the canvas, and the time that was used."""

    scaling: Scaling
    matches: tuple[Match, ...]
    seconds: float
    used: float
    cut: tuple[str, ...] = ()

    @classmethod
    def of(cls, proposal: Proposal) -> MatchRecord:
        return cls(proposal.canvas.scaling, proposal.matches, proposal.seconds, proposal.used, proposal.cut)

    def to_proposal(self, canvas: Canvas) -> Proposal:
        """The proposal, with the canvas of the same picture made by the same detector."""
        return Proposal(canvas, self.matches, self.seconds, self.used, self.cut)

    def in_figure(self) -> list[Match]:
        """The matches in pixels of the figure."""
        return [self.scaling.match_to_figure(match) for match in self.matches]


def to_text(record: MatchRecord) -> str:
    """A record as one line of JSON; probabilities are left out, they are not yet known."""
    rows = [
        {
            "source": _patch_to_json(match.source),
            "copy": _patch_to_json(match.copy),
            "matrix": match.matrix.tolist(),
            "tier": match.tier,
            "evidence": dict(match.evidence),
        }
        for match in record.matches
    ]
    page = {
        "figure": list(record.scaling.figure),
        "factor": record.scaling.factor,
        "seconds": record.seconds,
        "used": record.used,
        "cut": list(record.cut),
        "matches": rows,
    }
    return json.dumps(page, separators=(",", ":"))


def from_text(text: str) -> MatchRecord:
    """What `to_text` was given."""
    page = json.loads(text)
    matches = (
        Match(
            _patch_from_json(row["source"]),
            _patch_from_json(row["copy"]),
            np.array(row["matrix"]),
            row["tier"],
            row["evidence"],
        )
        for row in page["matches"]
    )
    scaling = Scaling((page["figure"][0], page["figure"][1]), page["factor"])
    return MatchRecord(scaling, tuple(matches), page["seconds"], page["used"], tuple(page["cut"]))


def _patch_to_json(patch: Patch) -> list[Any]:
    runs = encode(patch.mask, order="rows")
    return [patch.top, patch.left, *patch.mask.shape, runs.starts.tolist(), runs.lengths.tolist()]


def _patch_from_json(row: list[Any]) -> Patch:
    top, left, height, width, starts, lengths = row
    runs = Rle(np.array(starts, np.int64), np.array(lengths, np.int64))
    return Patch(top, left, decode(runs, (height, width), order="rows"))
