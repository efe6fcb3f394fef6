"""Sections and photographs of one thing: their parts match under transforms that are nearly, but not quite, the same.

Who copies a region moves all of it alike, and who copies two objects moves them as it pleases. Tissue that was cut
twice, or a dish seen twice, is bent in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import Match
from handlens.challenges.forgery.detect.geometry.outline import inverse

SAME = 1.5
"""Pixels by which two matches may disagree that were moved in one go. By hand."""

NEAR, BENT = 4.0, 0.08
"""Pixels, and share of the distance between them, by which neighbours in bent tissue disagree at most. By hand."""

TWISTED = 0.25
"""Most that turn and size of two such matches differ, in units of size. By hand."""

APART = 6.0
"""Pixels between the middles of two objects; nearer, it is one that was cut out twice. By hand."""

Table = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def with_drift(matches: Sequence[Match], witnesses: Sequence[Match] = ()) -> list[Match]:
    """The matches with `drift`: how many others, elsewhere, nearly agree with each; fewer where others quite agree.

    `witnesses` are further matches that are asked, and not given back.
    """
    if not matches:
        return []
    asked = [*matches, *witnesses]
    ways = [(match.source.centre, match.matrix) for match in asked]
    ways += [(match.copy.centre, inverse(match.matrix)) for match in asked]  # a match holds both ways
    places = np.array([[*centre, 1.0] for centre, _ in ways])
    matrices = np.stack([matrix for _, matrix in ways])
    targets = np.einsum("nij,nj->ni", matrices, places)
    reaches = np.tile([np.sqrt(match.source.area / np.pi) for match in asked], 2)
    once = np.linalg.norm(places[:, None, :2] - places[None, :, :2], axis=2) <= APART
    found = []
    for number, match in enumerate(matches):
        beside = _beside(number, places[:, :2], targets, reaches)
        nearly, quite = _agreeing(number, places, matrices, targets)
        drift = _count(nearly & beside, once) / (1 + _count(quite & beside, once))
        found.append(replace(match, evidence={**match.evidence, "drift": drift}))
    return found


def _beside(own: int, places: Table, targets: Table, reaches: Table) -> Flags:
    """Those that begin at another place. The way back does too, and is no witness: after half a turn it is like the way
    there."""
    reach = np.maximum(reaches, reaches[own])
    back = (np.linalg.norm(places - targets[own], axis=1) < reach) & (
        np.linalg.norm(targets - places[own], axis=1) < reach
    )
    return np.asarray((np.linalg.norm(places - places[own], axis=1) > reach) & ~back)


def _agreeing(own: int, places: Table, matrices: Table, targets: Table) -> tuple[Flags, Flags]:
    """Those that nearly, but not quite, agree with the transform of one, and those that quite do."""
    away = np.linalg.norm(places[:, :2] - places[own, :2], axis=1)
    wrong = np.linalg.norm(places @ matrices[own].T - targets, axis=1)
    alike = np.linalg.norm(matrices[:, :, :2] - matrices[own, :, :2], axis=(1, 2)) < TWISTED
    near = alike & (wrong < NEAR + BENT * away)
    return near & (wrong > SAME), near & (wrong <= SAME)


def _count(chosen: Flags, once: npt.NDArray[np.bool_]) -> int:
    """How many different places are chosen; `once` says which of them are one."""
    left, count = chosen.copy(), 0
    while left.any():
        left &= ~once[int(left.argmax())]
        count += 1
    return count
