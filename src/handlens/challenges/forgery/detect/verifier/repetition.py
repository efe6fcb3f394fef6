"""What repeats by nature: how alike the other pairs of a figure are, and the other places around a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, Match, Matrix, Patch
from handlens.challenges.forgery.detect.geometry.correlation import template_correlation
from handlens.challenges.forgery.detect.geometry.outline import deepest, inverse
from handlens.challenges.forgery.detect.verifier.features import significance
from handlens.challenges.forgery.detect.verifier.tier import TIERS

TYPICAL, FEW = 8.0, 8
"""How significant honest pairs usually are, in a figure with too few of them to say: that counts for so many pairs.
By hand."""

TYPICAL_QUANTILE = 0.7
"""Quantile of the significance of a tier's pairs that is taken for that of an honest one. By hand."""

ABOUT = 0.8
"""Share of a match's significance from which another is about as significant. By hand."""

MIDDLE = 64
"""Pixels across the middle of a region that is compared with other places. By hand: bounds the time."""

FITTING = 0.5
"""Correlation from which a region fits anywhere at all: under much noise a copy does not even fit on its source. By
hand."""

DEEP, FEWEST_ASKED, ASKED = 4, 2, 3
"""Pixels from the edge of a region to a place in it that is asked by itself, and how few and how many of them. By
hand."""

FITTING_HERE, AS_WELL = 0.6, 0.035
"""Correlation of such a place with its copy, and by how much less it may be elsewhere, where a texture repeats. By
hand."""

LEAST_HALF, LEAST_AROUND, AROUND = 4, 12, 4
"""Fewest pixels from the middle of a template to its edge, and from there to that of the window; usually so many times
the former, twice the object's size, as an object is often half a period of what repeats. By hand."""

LEAST_BESIDE, BESIDE = 3, 4
"""Pixels around the copy that are the copy itself, at least, and its half as a multiple of them. By hand."""


def compare_within_figure(canvas: Canvas, matches: Sequence[Match]) -> Iterator[Match]:
    """Each match with how alike the other pairs of this figure are, without what repeats by nature."""
    for name in sorted({match.tier for match in matches}):
        tier, some = TIERS[name], [match for match in matches if match.tier == name]
        if len(some) > tier.most_alike:
            continue
        values = np.array([significance(match.evidence) for match in some])
        typical = (float(np.quantile(values, TYPICAL_QUANTILE)) * len(some) + TYPICAL * FEW) / (len(some) + FEW)
        peers = _count_peers(some, values)
        for number in np.argsort(-values, kind="stable")[: tier.most_scored]:
            match, count = some[number], float(peers[number])
            second_best = find_second_best(canvas.grain, match.source, match.matrix)
            alone = second_best < tier.repeats_from and not repeats(canvas, match)
            if alone and count <= tier.most_peers:
                more = {"typical_significance": typical, "peers": count, "candidates": float(len(some))}
                yield replace(match, evidence=match.evidence | more | {"second_best": second_best})


def repeats(canvas: Canvas, match: Match) -> bool:
    """Whether a region fits beside its copy better than there: a plate, an array, a blot without anything of its own.

    A region is also asked at a few places of its own, as it may have gutters in it: where all of them fit on the copy,
    and elsewhere as well, it is a plate too.
    """
    if not TIERS[match.tier].repeats_inside:
        return False
    picture = canvas.band_pass
    if find_second_best(picture, match.source, match.matrix) >= max(match.evidence.get("band_pass", 1.0), FITTING):
        return True
    places = deepest(match.source, deep=DEEP, side=MIDDLE, most=ASKED)
    found = [here_and_elsewhere(picture, place, match.matrix) for place in places]
    return len(found) >= FEWEST_ASKED and all(
        here > FITTING_HERE and elsewhere > here - AS_WELL for here, elsewhere in found
    )


def find_second_best(picture: FloatArray, patch: Patch, matrix: Matrix) -> float:
    """Highest correlation of the source with other places around the copy: what repeats is as alike there."""
    return here_and_elsewhere(picture, patch, matrix)[1]


def here_and_elsewhere(picture: FloatArray, patch: Patch, matrix: Matrix, *, most: int = MIDDLE) -> tuple[float, float]:
    """Correlation of the middle of the source, at most `most` pixels wide, with the copy, and with any place around."""
    height, width = (min(most, side) for side in patch.mask.shape)
    x, y = patch.centre
    back = inverse(matrix)
    middle = matrix[:, :2] @ np.array([x, y]) + matrix[:, 2]
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    half = (max(LEAST_HALF, int(0.5 * scale * height)), max(LEAST_HALF, int(0.5 * scale * width)))
    reach = (half[0] + max(LEAST_AROUND, AROUND * half[0]), half[1] + max(LEAST_AROUND, AROUND * half[1]))
    around = cv2.remap(picture, *_grid(middle, reach), cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    small = _grid(middle, half)
    source = (
        (back[0, 0] * small[0] + back[0, 1] * small[1] + back[0, 2]).astype(np.float32),
        (back[1, 0] * small[0] + back[1, 1] * small[1] + back[1, 2]).astype(np.float32),
    )
    template = cv2.remap(picture, *source, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    table = template_correlation(np.asarray(around, np.float32), np.asarray(template, np.float32))
    if table is None:
        return 0.0, 1.0
    row, column = table.shape[0] // 2, table.shape[1] // 2
    beside = max(LEAST_BESIDE, min(half) // BESIDE)
    here = table[max(0, row - beside) : row + beside + 1, max(0, column - beside) : column + beside + 1].max()
    across, down = round(x - float(middle[0])), round(y - float(middle[1]))
    for y, x, near in ((row, column, beside), (row + down, column + across, max(half))):
        rows, columns = (slice(max(0, place - near), max(0, place + near + 1)) for place in (y, x))
        table[rows, columns] = -1  # the copy itself, and the source if it lies near
    return float(here), float(table.max())


def _grid(middle: npt.NDArray[np.float64], half: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    rows = np.arange(-half[0], half[0] + 1, dtype=np.float32) + np.float32(middle[1])
    columns = np.arange(-half[1], half[1] + 1, dtype=np.float32) + np.float32(middle[0])
    x, y = np.meshgrid(columns, rows)
    return x.astype(np.float32), y.astype(np.float32)


def _count_peers(matches: Sequence[Match], values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """For each match how many others, between other places, are about as significant: many where a texture repeats.

    Those that share one of its places are further copies of the same.
    """
    places = np.array([[match.source.centre, match.copy.centre] for match in matches])
    reaches = np.array([np.sqrt(match.source.area / np.pi) for match in matches])
    counts = np.zeros(len(matches), np.int64)
    for number, (place, reach) in enumerate(zip(places, reaches, strict=True)):
        apart = np.abs(places[:, :, None] - place[None, None]).max(axis=3) > reach
        counts[number] = int((apart.all(axis=(1, 2)) & (values > ABOUT * values[number])).sum())
    return counts
