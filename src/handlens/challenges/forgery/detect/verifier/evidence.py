"""What the pixels say about a supposed copy: how alike source and copy are, and how alike chance would make them.

The shape of two nuclei, cells or bands proves nothing, all are alike in it. What proves a copy is the interior and,
above all, the grain: the finest texture and the noise, which no two honest objects share.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, IntArray, Matrix, Patch
from handlens.challenges.forgery.detect.geometry.points import FEWEST, Points, correlation, moved, sample

FEWEST_IN_QUARTER = 8
"""Pixels of a quarter of a region below which their likeness is chance."""

BENT_PART, MOST_PARTS, MOST_BENT = 150, 4, 4.0
"""Pixels of a part of a region whose place is measured on its own, most parts along a side, and the most, in pixels,
that one can lie beside its place."""


def measure(canvas: Canvas, points: Points, matrix: Matrix) -> dict[str, float]:
    """How alike source and copy are: all of it, its detail, its grain; how many pixels, how busy they are.

    Noise and JPEG hide detail and grain: then `calm` is the detail and `weave` the grain that is left under them.

    `smooth`, `coarse`, `slow` and `loose` say how much a pixel's detail, grain, calm and weave are its neighbour's:
    then few pixels speak for themselves.

    `even` is how alike the quarter of the region is that is least alike, relative to the whole: an arrow or a cut edge
    that two honest regions have in common makes them alike in one corner. `even weave` is the same without noise.

    `quiet` is how alike the grain is where nothing is steep: outlines of cells are grain too, and those of the next
    section of a tissue lie alike.

    `bend` is how far its parts would have to be shifted, in pixels: tissue grows and is cut crooked, a copy is not.

    `depth` is how far the pixels spread, in grey levels of the file: on ground of one or two levels JPEG leaves the
    same few patterns everywhere.

    A copy with dark and bright exchanged is as alike as it is unlike: `inverted` is 1 for it.
    """
    rows, columns = points.y.astype(int), points.x.astype(int)
    beside = np.minimum(columns + 1, canvas.shape[1] - 1)
    x, y = moved(points, matrix)
    pictures = (canvas.grey, canvas.calm, canvas.grain, canvas.weave, canvas.noise)
    source = np.stack([picture[rows, columns] for picture in pictures])
    copy = np.stack([sample(picture, x, y) for picture in pictures])
    following = np.stack([picture[rows, beside] for picture in pictures[:-1]])
    likeness = correlation(source[0], copy[0])
    sign = -1.0 if likeness < -0.3 else 1.0
    left = without_shape(points, *source[:2], *copy[:2], *following[:2])
    source[:2], copy[:2], following[:2] = left[:2], left[2:4], left[4:]
    copy *= np.float32(sign)
    detail, calm, grain, weave, noise = (float(value) for value in correlations(source, copy))
    smooth, slow, coarse, loose = np.maximum(correlations(source[:-1], following), 0)
    even_detail, even_calm, even_grain, even_weave = _evenness(points, source[:-1], copy[:-1])
    return {
        "likeness": sign * likeness,
        "detail": detail,
        "grain": grain,
        "noise": noise,
        "calm": calm,
        "weave": weave,
        "even": min(even_detail, even_grain),
        "even weave": min(even_calm, even_weave),
        "quiet": _quiet(canvas, (rows, columns), (x, y), source[2], copy[2]),
        "smooth": float(smooth),
        "coarse": float(coarse),
        "slow": float(slow),
        "loose": float(loose),
        "bend": bend(canvas, points, matrix),
        "depth": float(min(canvas.stored[rows, columns].std(), sample(canvas.stored, x, y).std())),
        "inverted": float(sign < 0),
        "pixels": float(len(points)),
        "busy": float(min(source[2].std(), copy[2].std())),
    }


def _quiet(
    canvas: Canvas, here: tuple[IntArray, IntArray], there: tuple[FloatArray, FloatArray], *grain: FloatArray
) -> float:
    """How alike the grain of source and copy is in the half of the pixels that is least steep in either."""
    steep = np.maximum(np.hypot(canvas.across[here], canvas.down[here]), _steepness(canvas, *there))
    calmest = steep <= np.median(steep)
    return correlation(*(each[calmest] for each in grain))


def _steepness(canvas: Canvas, x: FloatArray, y: FloatArray) -> FloatArray:
    across, down = (sample(picture, x, y, cubic=False) for picture in (canvas.across, canvas.down))
    return np.hypot(across, down)


def bend(canvas: Canvas, points: Points, matrix: Matrix) -> float:
    """By how many pixels parts of a region lie beside where the transform says: the root of their mean square.

    One step of Gauss and Newton for each part, with brightness and contrast of its own; parts with edges say more. Of a
    small region there is one part, and this is what the alignment left. Of a flat one nothing is known: the most.
    """
    x, y = moved(points, matrix)
    source, copy = canvas.calm[points.y.astype(int), points.x.astype(int)], sample(canvas.calm, x, y, cubic=False)
    slopes = [sample(picture, x, y, cubic=False) for picture in (canvas.across, canvas.down)]
    table = np.stack([copy, np.ones_like(copy), *slopes]).astype(np.float64)
    side = int(np.clip(np.sqrt(len(points) / BENT_PART), 1, MOST_PARTS))
    part = np.zeros(len(points), np.int64)
    for line in (points.x, points.y):
        low, high = float(line.min()), float(line.max()) + 1
        part = side * part + ((line - low) * (side / (high - low))).astype(np.int64)
    total, weights = 0.0, 0.0
    for number in range(side * side):
        own = table[:, part == number]
        if own.shape[1] < FEWEST:
            continue
        squares = own @ own.T
        gain, _, across, down = np.linalg.solve(squares + 1e-2 * np.eye(4), own @ source[part == number])
        weight = float(squares[2, 2] + squares[3, 3])
        shift = min(MOST_BENT, float(np.hypot(across, down)) / max(abs(float(gain)), 0.05))
        total, weights = total + weight * shift**2, weights + weight
    return float(np.sqrt(total / weights)) if weights > 0 else MOST_BENT


def _evenness(points: Points, ones: FloatArray, others: FloatArray) -> list[float]:
    """Likeness of the least alike quarter as a share of that of the whole, from 0 to 1; 0 where nothing is alike.

    For each row of samples. Quarters of a few pixels do not count; of a region with fewer than two others nothing can
    be said, and it is 0.
    """
    whole = correlations(ones, others)
    right, below = points.x > points.x.mean(), points.y > points.y.mean()
    quarters = [np.flatnonzero(across & down) for across in (right, ~right) for down in (below, ~below)]
    found = [correlations(ones[:, each], others[:, each]) for each in quarters if len(each) >= FEWEST_IN_QUARTER]
    if len(found) < 2:
        return [0.0] * len(ones)
    shares = np.min(found, axis=0) / np.where(whole > 0, whole, np.inf)
    return [float(share) for share in np.clip(shares, 0, 1)]


def correlations(ones: FloatArray, others: FloatArray) -> FloatArray:
    """Of each row of samples with the same row of others; 0 where one is flat."""
    ones, others = (each - each.mean(axis=1, keepdims=True) for each in (ones, others))
    spread = np.sqrt(np.einsum("ij,ij->i", ones, ones) * np.einsum("ij,ij->i", others, others))
    flat = spread <= 1e-3 * ones.shape[1]
    return np.asarray(np.where(flat, 0, np.einsum("ij,ij->i", ones, others) / np.where(flat, 1, spread)), np.float32)


def compare(picture: FloatArray, points: Points, matrix: Matrix) -> float:
    """How alike source and copy are in a picture of the canvas."""
    here = picture[points.y.astype(int), points.x.astype(int)]
    return correlation(here, sample(picture, *moved(points, matrix)))


def without_shape(points: Points, *samples: FloatArray) -> list[FloatArray]:
    """What is left of samples when a smooth surface is taken from each: two honest objects share nothing there.

    The surface is a polynomial of third degree, of fourth where there are pixels enough: what shape explains. Of too
    few pixels nothing is left.
    """
    degree = 3 if len(points) < 300 else 4
    lines = [line.astype(np.float64) - centre for line, centre in zip((points.x, points.y), points.middle, strict=True)]
    lines = [line / max(1.0, float(np.abs(line).max(initial=0.0))) for line in lines]  # else high powers drown the low
    across, down = (np.vander(line, degree + 1, increasing=True).T for line in lines)
    terms = np.stack([across[one] * down[other] for one in range(degree + 1) for other in range(degree + 1 - one)])
    values = np.stack(samples).astype(np.float64)
    if len(points) < 2 * len(terms):
        return [np.zeros_like(each) for each in samples]
    squares = terms @ terms.T
    squares.flat[:: len(terms) + 1] += 1e-9 * np.trace(squares)  # a region one pixel high has no slope down
    values -= np.linalg.solve(squares, terms @ values.T).T @ terms
    return list(values.astype(np.float32))


def find_rival(picture: FloatArray, patch: Patch, matrix: Matrix, *, most: int = 64) -> float:
    """How alike the source is, in grain or weave, to other places around the copy: what repeats is as alike there."""
    return here_and_elsewhere(picture, patch, matrix, most=most)[1]


def here_and_elsewhere(picture: FloatArray, patch: Patch, matrix: Matrix, *, most: int = 64) -> tuple[float, float]:
    """How alike the middle of the source, at most `most` pixels wide, is to the copy, and to any place around it."""
    import cv2

    height, width = (min(most, side) for side in patch.mask.shape)
    x, y = patch.centre
    back = cv2.invertAffineTransform(np.asarray(matrix, np.float64))
    middle = matrix[:, :2] @ np.array([x, y]) + matrix[:, 2]
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    half = (max(4, int(0.5 * scale * height)), max(4, int(0.5 * scale * width)))
    # twice the object's size: an object is often half a period of what repeats
    reach = (half[0] + max(12, 4 * half[0]), half[1] + max(12, 4 * half[1]))
    window = _grid(middle, reach)
    around = cv2.remap(picture, *window, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    small = _grid(middle, half)
    source = (
        (back[0, 0] * small[0] + back[0, 1] * small[1] + back[0, 2]).astype(np.float32),
        (back[1, 0] * small[0] + back[1, 1] * small[1] + back[1, 2]).astype(np.float32),
    )
    template = cv2.remap(picture, *source, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    if template.std() < 1e-3 or around.std() < 1e-3:
        return 0.0, 1.0
    table = np.asarray(cv2.matchTemplate(around, template, cv2.TM_CCOEFF_NORMED))
    table = np.clip(np.nan_to_num(table, nan=0.0, posinf=0.0, neginf=0.0), -1, 1)
    row, column = table.shape[0] // 2, table.shape[1] // 2
    beside = max(3, min(half) // 4)
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
