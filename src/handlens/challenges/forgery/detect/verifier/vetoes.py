"""What no copy shows, however alike it is otherwise: where that is seen, a match is not scored at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlens.challenges.forgery.detect.findings import Match, Panel
from handlens.challenges.forgery.detect.verifier.tier import TIERS

DRAWN = 36.0
"""Standard deviation of the grain, of 255, that only letters and lines have: a lens blurs what is finer than its
pixels. By hand."""

SHALLOW, FEW_SHALLOW = 1.5, 1_500
"""Grey levels of the file over which pixels spread, and how many pixels, below which they prove nothing: on even
ground JPEG leaves the same few patterns everywhere. By hand."""

FLAT = 0.5
"""The same, below which any number of pixels prove nothing. Rule: rounding alone leaves up to half a level, as in a box
that a program filled with one colour."""

DEFORMED_WITHOUT_GRAIN = (0.3, 0.2, 1_000)
"""Most deformation of any region whose grain, where the picture is flat, is less alike than that, from so many pixels
on. Measured: in 1,049 synthetic figures 190 false matches were so, and two true ones."""

CORNER, SAME_PLACE, IN_PROPORTION = 0.2, 3.0, 0.02
"""Share of a panel's shorter side from its corner within which its letter or scale bar stands, and how far apart those
of two panels stand, seen from there, in pixels or as a share of that side. By hand."""

UPRIGHT = 15.0
"""Degrees that letters are turned at most when one is laid on another: all stand upright. B is its own mirror image,
and nearly the same upside down. By hand."""


def is_label(match: Match, panels: Sequence[Panel]) -> bool:
    """Whether two small things stand at the same place near the same corner of two panels, as letters and bars do."""
    if not TIERS[match.tier].label or min(abs(match.turn), 180 - abs(match.turn)) > UPRIGHT:
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
    """Whether a match is drawn, shallow, made of edges or uneven; `shrunk`: its figure was made smaller."""
    seen, tier = match.evidence, TIERS[match.tier]
    if seen.get("grain_deviation", DRAWN + 1) > DRAWN:  # or there were too few pixels to measure anything
        return True
    shallow = SHALLOW if match.source.area < FEW_SHALLOW and not tier.shallow else FLAT
    if seen["stored_contrast"] < shallow and not shrunk:  # what was made smaller has lost its noise
        return True
    if tier.flat and seen["flat_grain"] < tier.flat * seen["grain"]:
        return True
    even = max(seen["worst_quadrant"], seen["worst_quadrant_denoised"])
    return even < tier.worst_quadrant and seen["pixels"] <= tier.worst_quadrant_up_to


def is_deformed(seen: Mapping[str, float], *, most: float, least_pixels: int) -> bool:
    """Whether enough pixels say that a region is deformed, as no copy is; a little will do without alike grain.

    `most` is the deformation, in pixels, that copies stay under where `least_pixels` or more were measured.
    """
    if seen["deformation"] > most and seen["pixels"] >= least_pixels:
        return True
    most, flat_grain, least_pixels = DEFORMED_WITHOUT_GRAIN
    return seen["deformation"] > most and seen["flat_grain"] < flat_grain and seen["pixels"] >= least_pixels


def is_deformed_match(match: Match) -> bool:
    """The same by the limits of the match's tier."""
    tier = TIERS[match.tier]
    return is_deformed(match.evidence, most=tier.deformation, least_pixels=tier.deformation_from)
