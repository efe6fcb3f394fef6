"""What no copy shows, however alike it is otherwise: where that is seen, a match is not judged at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlens.challenges.forgery.detect.findings import Match, Panel

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


MOST_BENT_WITHOUT_GRAIN = (0.3, 0.2, 1_000)
"""The same for any region whose grain, where nothing is steep, is less alike than that. In 1,049 made-up figures 190
false matches were so, and two true ones."""

CORNER, SAME_PLACE, IN_PROPORTION = 0.2, 3.0, 0.02
"""Share of a panel's shorter side from its corner within which its letter or scale bar stands, and how far apart those
of two panels stand, seen from there, in pixels or as a share of that side."""

UPRIGHT = 15.0
"""Degrees that letters are turned at most when one is laid on another: all stand upright. B is its own mirror image,
and nearly the same upside down."""


def is_label(match: Match, panels: Sequence[Panel]) -> bool:
    """Whether two small things stand at the same place near the same corner of two panels, as letters and bars do."""
    if match.tier == "panels" or min(abs(match.turn), 180 - abs(match.turn)) > UPRIGHT:
        return False
    places = []
    for patch in (match.source, match.copy):
        x, y = patch.centre
        own = [panel for panel in panels if panel.top <= y < panel.bottom and panel.left <= x < panel.right]
        if not own or max(patch.mask.shape) > CORNER * min(own[0].shape):
            return False
        places.append((own[0], x, y))
    (one, *_), (other, *_) = places
    return one is not other and any(
        _stand_alike(*(_from_corner(*place, right=right, below=below) for place in places))
        for right in (False, True)
        for below in (False, True)
    )


def _from_corner(panel: Panel, x: float, y: float, *, right: bool, below: bool) -> tuple[float, float, float]:
    """How far a place is from a corner of its panel, across and down, and the panel's shorter side."""
    across = panel.right - x if right else x - panel.left
    return across, panel.bottom - y if below else y - panel.top, min(panel.shape)


def _stand_alike(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    for here, there in zip(one[:2], other[:2], strict=True):
        shares = here / one[2], there / other[2]
        if max(shares) > CORNER or (abs(here - there) > SAME_PLACE and abs(shares[0] - shares[1]) > IN_PROPORTION):
            return False
    return True


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
    """Whether enough pixels say that a region is bent, as no copy is; a little will do where its grain is not alike."""
    bend, pixels = MOST_BENT.get(kind, (float("inf"), 0))
    if seen["bend"] > bend and seen["pixels"] >= pixels:
        return True
    bend, quiet, pixels = MOST_BENT_WITHOUT_GRAIN
    return seen["bend"] > bend and seen["quiet"] < quiet and seen["pixels"] >= pixels
