"""What no copy shows, however alike it is otherwise: where that is seen, a match is not judged at all."""

from __future__ import annotations

from collections.abc import Mapping

from handlens.challenges.forgery.detect.findings import Match

ALL = 1_000_000
"""More pixels than are ever measured."""

DRAWN = 36.0
"""Spread of the grain, of 255, that only letters and lines have: a lens blurs what is finer than its pixels."""

SHALLOW, FEW_SHALLOW = 1.5, 1_500
"""Grey levels of the file over which pixels spread, and how many pixels, below which they prove nothing: on even
ground JPEG leaves the same few patterns everywhere."""

LEAST_EVEN: Mapping[str, tuple[float, int]] = {
    "objects": (0.6, ALL),
    "key points": (0.6, ALL),
    "shifts": (0.6, ALL),
    "panels": (0.4, 2_500),
}
"""Least likeness of the quarter that is least alike, as a share of that of the whole, of regions of up to so many
pixels: a copy is one everywhere. Large panels and lanes have empty quarters."""

MOST_BENT: Mapping[str, tuple[float, int]] = {
    "objects": (0.4, 300),
    "regions": (0.65, 1_000),
    "key points": (0.65, 1_000),
    "panels": (1.2, 1_000),
    "blots": (0.8, 1_000),
}
"""Most pixels that parts of a region lie beside where the transform says, where so many pixels tell: of nearly all
copies it is less than half of that, of the next section of a tissue and of squares on a ruler more. `regions` are those
around objects."""


def proves_nothing(match: Match, *, shrunk: bool) -> bool:
    """Whether a match is drawn, shallow or uneven; `shrunk` is whether its figure was made smaller for matching."""
    seen = match.evidence
    if seen.get("busy", DRAWN + 1) > DRAWN:  # or there were too few pixels to measure anything
        return True
    few = match.source.area < FEW_SHALLOW and not shrunk  # what was made smaller has lost its noise
    if few and seen["depth"] < SHALLOW:
        return True
    even, most = LEAST_EVEN.get(match.tier, (0.0, 0))
    return max(seen["even"], seen["even weave"]) < even and seen["pixels"] <= most


def is_bent(kind: str, seen: Mapping[str, float]) -> bool:
    """Whether enough pixels say that a region of a kind is bent, as no copy is."""
    bend, pixels = MOST_BENT.get(kind, (float("inf"), 0))
    return seen["bend"] > bend and seen["pixels"] >= pixels
