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
from handlens.challenges.forgery.detect.outline import inverse

SAME = 1.5
"""Pixels by which two matches may disagree that were moved in one go."""

NEAR, BENT = 4.0, 0.08
"""Pixels, and share of the distance between them, by which neighbours in bent tissue disagree at most."""

TWISTED = 0.25
"""Most that turn and size of two such matches differ, in units of size."""


APART = 6.0
"""Pixels between the middles of two objects; nearer, it is one that was cut out twice."""


def with_drift(matches: Sequence[Match]) -> list[Match]:
    """The matches with `drift`: how many others, elsewhere, nearly agree with each, for every one that quite agrees."""
    if not matches:
        return []
    ways = [(match.source.centre, match.matrix) for match in matches]
    ways += [(match.copy.centre, inverse(match.matrix)) for match in matches]
    places = np.array([[*centre, 1.0] for centre, _ in ways])
    matrices = np.stack([matrix for _, matrix in ways])
    targets = np.einsum("nij,nj->ni", matrices, places)
    reaches = np.tile([np.sqrt(match.source.area / np.pi) for match in matches], 2)
    found = []
    for number, match in enumerate(matches):
        near, same = _count(number, places, matrices, targets, reaches)
        found.append(replace(match, evidence={**match.evidence, "drift": near / (1 + same)}))
    return found


def _count(
    own: int,
    places: npt.NDArray[np.float64],
    matrices: npt.NDArray[np.float64],
    targets: npt.NDArray[np.float64],
    reaches: npt.NDArray[np.float64],
) -> tuple[int, int]:
    """Matches beside one that nearly agree with its transform, and those that quite do."""
    away = np.linalg.norm(places[:, :2] - places[own, :2], axis=1)
    beside = away > np.maximum(reaches, reaches[own])
    wrong = np.linalg.norm(places @ matrices[own].T - targets, axis=1)
    alike = np.linalg.norm(matrices[:, :, :2] - matrices[own, :, :2], axis=(1, 2)) < TWISTED
    near = beside & alike & (wrong < NEAR + BENT * away)
    return _different(places[near & (wrong > SAME)]), _different(places[near & (wrong <= SAME)])


def _different(places: npt.NDArray[np.float64]) -> int:
    """How many different places there are: an object is cut out several times."""
    kept: list[npt.NDArray[np.float64]] = []
    for place in places:
        if all(np.hypot(*(place - other)[:2]) > APART for other in kept):
            kept.append(place)
    return len(kept)
