"""Matches of a group that one transform explains, as one: a copied picture of forty cells is one copy, not forty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from handlens.challenges.forgery.detect.findings import Group, Match, Matrix, Patch

TURN_ALIKE, SCALE_ALIKE = 10.0, 0.1
"""Degrees, and share of the size, that transforms of one copy may differ by: those of small regions are rough."""

PLACE_ALIKE, PLACE_LEAST = 0.15, 3.0
"""How far apart two transforms may put a region, as a share of its size and in pixels."""


def bundle(group: Group) -> Group:
    """The group with matches joined that were copied together; the evidence is that of the surest.

    A match stays as it is where no other has its transform.
    """
    bundles: list[list[Match]] = []
    for match in sorted(group.matches, key=lambda each: -each.source.area):
        for joined in bundles:
            if alike := _as_in(joined[0], match):
                joined.append(alike)
                break
        else:
            bundles.append([match])
    return replace(group, matches=tuple(_join(joined) if len(joined) > 1 else joined[0] for joined in bundles))


def _as_in(leader: Match, match: Match) -> Match | None:
    """The match, perhaps with source and copy exchanged, if the leader's transform explains it."""
    for each in (match, _exchanged(match)):
        turn = abs((each.turn - leader.turn + 180) % 360 - 180)
        if each.mirrored != leader.mirrored or turn > TURN_ALIKE:
            continue
        if abs(np.log(each.scale / leader.scale)) > SCALE_ALIKE:
            continue
        here = leader.matrix @ [*each.source.centre, 1.0]
        there = each.matrix @ [*each.source.centre, 1.0]
        if np.hypot(*(here - there)) <= PLACE_ALIKE * max(each.source.mask.shape) + PLACE_LEAST:
            return each
    return None


def _exchanged(match: Match) -> Match:
    back = np.linalg.inv(np.vstack([match.matrix, [0, 0, 1]]))[:2]
    return replace(match, source=match.copy, copy=match.source, matrix=back)


def _join(matches: Sequence[Match]) -> Match:
    surest = max(matches, key=lambda match: match.probability)
    return replace(
        surest,
        source=_unite([match.source for match in matches]),
        copy=_unite([match.copy for match in matches]),
        matrix=_fit(matches),
        evidence={**surest.evidence, "pieces": float(len(matches))},
    )


def _unite(patches: Sequence[Patch]) -> Patch:
    top, left = min(patch.top for patch in patches), min(patch.left for patch in patches)
    bottom = max(patch.window[0].stop for patch in patches)
    right = max(patch.window[1].stop for patch in patches)
    mask = np.zeros((bottom - top, right - left), np.bool_)
    for patch in patches:
        Patch(patch.top - top, patch.left - left, patch.mask).paint(mask)
    return Patch(top, left, mask)


def _fit(matches: Sequence[Match]) -> Matrix:
    """The transform nearest to those of all matches at their corners; large regions count more."""
    corners, places, weights = [], [], []
    for match in matches:
        rows, columns = match.source.window
        box = [(x, y, 1.0) for x in (columns.start, columns.stop - 1) for y in (rows.start, rows.stop - 1)]
        corners += box
        places += [match.matrix @ corner for corner in box]
        weights += [match.source.area**0.5] * len(box)
    weight = np.array(weights)[:, None]
    solved = np.linalg.lstsq(np.array(corners) * weight, np.array(places) * weight, rcond=None)[0]
    return np.asarray(solved.T, np.float64)
