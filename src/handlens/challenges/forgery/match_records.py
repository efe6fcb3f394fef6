"""A figure's matches as text, so that what was found is on disk before the next figure is looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.masks.rle import Rle, decode, encode
from handlens.types import Shape


def to_text(shape: Shape, matches: Sequence[Match]) -> str:
    """The shape of a figure and its matches as JSON; probabilities are left out, they are not yet known."""
    rows = [
        {
            "source": _patch_to_json(match.source),
            "copy": _patch_to_json(match.copy),
            "matrix": match.matrix.tolist(),
            "tier": match.tier,
            "evidence": dict(match.evidence),
        }
        for match in matches
    ]
    return json.dumps({"shape": list(shape), "matches": rows}, separators=(",", ":"))


def from_text(text: str) -> tuple[Shape, tuple[Match, ...]]:
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
    return (page["shape"][0], page["shape"][1]), tuple(matches)


def _patch_to_json(patch: Patch) -> list[Any]:
    runs = encode(patch.mask, order="rows")
    return [patch.top, patch.left, *patch.mask.shape, runs.starts.tolist(), runs.lengths.tolist()]


def _patch_from_json(row: list[Any]) -> Patch:
    top, left, height, width, starts, lengths = row
    runs = Rle(np.array(starts, np.int64), np.array(lengths, np.int64))
    return Patch(top, left, decode(runs, (height, width), order="rows"))
