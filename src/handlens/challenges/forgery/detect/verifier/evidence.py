"""What the pixels say about a supposed copy: how alike source and copy are, and how alike chance would make them.

The shape of two nuclei, cells or bands proves nothing, all are alike in it. What proves a copy is the interior and,
above all, the grain: the finest texture and the noise, which no two honest objects share.
"""

from __future__ import annotations

import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, IntArray, Matrix
from handlens.challenges.forgery.detect.geometry.alignment import LEAST_GAIN
from handlens.challenges.forgery.detect.geometry.correlation import correlation, correlations, sign_of
from handlens.challenges.forgery.detect.geometry.points import FEWEST, Points, moved, sample

FEWEST_IN_QUADRANT = 8
"""Pixels of a quadrant of a region below which its correlation is chance. By hand."""

PART, MOST_PARTS, MOST_DEFORMED, PART_RIDGE = 150, 4, 4.0, 1e-2
"""Pixels of a part of a region whose place is measured on its own, most parts along a side, the most, in pixels, that
one can lie beside its place, and what is added to its normal equations. By hand."""

SMALL, DEGREE, DEGREE_OF_SMALL = 300, 4, 3
"""Pixels below which a region is small, and the degree of the polynomial that is taken for the shape of a region. By
hand: a polynomial of more terms than half the pixels explains everything."""

LEVEL = 1e-9
"""Share of the trace added to the normal equations of the polynomial: a region one pixel high has no slope down. Rule:
only against rounding."""


def measure(canvas: Canvas, points: Points, matrix: Matrix) -> dict[str, float]:
    """How alike source and copy are, by name; every one but the last six is a correlation or made of some.

    `correlation` is that of the pixels. `detail` is that of what is left when a smooth surface is taken away, `grain`
    and `residual_noise` of what blurs of two widths take away. Noise and JPEG hide detail and grain: then `denoised` is
    the detail and `band_pass` the grain that is left under them.

    `detail_autocorrelation` and its like say how much a pixel's detail is its neighbour's: then few pixels speak for
    themselves.

    `worst_quadrant` is how alike the quarter of the region is that is least alike, relative to the whole: an arrow or a
    cut edge that two honest regions have in common makes them alike in one corner. `worst_quadrant_denoised` is the
    same without noise.

    `flat_grain` is how alike the grain is where no gradient is steep: outlines of cells are grain too, and those of the
    next section of a tissue lie alike.

    `deformation` is how far its parts would have to be shifted, in pixels: tissue grows and is cut crooked, a copy is
    not.

    `stored_contrast` is the standard deviation of the pixels, in grey levels of the file: on ground of one or two
    levels JPEG leaves the same few patterns everywhere. `grain_deviation` is that of the grain, on the canvas.

    A copy with dark and bright exchanged is as alike as it is unlike: `inverted` is 1 for it. `pixels` were measured.
    """
    rows, columns = points.y.astype(int), points.x.astype(int)
    beside = np.minimum(columns + 1, canvas.shape[1] - 1)
    x, y = moved(points, matrix)
    pictures = (canvas.grey, canvas.denoised, canvas.grain, canvas.band_pass, canvas.residual_noise)
    source = np.stack([picture[rows, columns] for picture in pictures])
    copy = np.stack([sample(picture, x, y) for picture in pictures])
    following = np.stack([picture[rows, beside] for picture in pictures[:-1]])
    plain = correlation(source[0], copy[0])
    sign = sign_of(plain)
    left = without_shape(points, *source[:2], *copy[:2], *following[:2])
    source[:2], copy[:2], following[:2] = left[:2], left[2:4], left[4:]
    copy *= np.float32(sign)
    detail, denoised, grain, band_pass, noise = (float(value) for value in correlations(source, copy))
    alike = [float(value) for value in np.maximum(correlations(source[:-1], following), 0)]
    worst_detail, worst_denoised, worst_grain, worst_band_pass = _worst_quadrants(points, source[:-1], copy[:-1])
    return {
        "correlation": sign * plain,
        "detail": detail,
        "grain": grain,
        "residual_noise": noise,
        "denoised": denoised,
        "band_pass": band_pass,
        "worst_quadrant": min(worst_detail, worst_grain),
        "worst_quadrant_denoised": min(worst_denoised, worst_band_pass),
        "flat_grain": _flat_grain(canvas, (rows, columns), (x, y), source[2], copy[2]),
        "detail_autocorrelation": alike[0],
        "grain_autocorrelation": alike[2],
        "denoised_autocorrelation": alike[1],
        "band_pass_autocorrelation": alike[3],
        "deformation": deformation(canvas, points, matrix),
        "stored_contrast": float(min(canvas.stored[rows, columns].std(), sample(canvas.stored, x, y).std())),
        "inverted": float(sign < 0),
        "pixels": float(len(points)),
        "grain_deviation": float(min(source[2].std(), copy[2].std())),
    }


def _flat_grain(
    canvas: Canvas, here: tuple[IntArray, IntArray], there: tuple[FloatArray, FloatArray], *grain: FloatArray
) -> float:
    """How alike the grain of source and copy is in the half of the pixels that is least steep in either."""
    steep_there = np.hypot(*(sample(each, *there, cubic=False) for each in canvas.gradients))
    steep = np.maximum(np.hypot(canvas.gradient_x[here], canvas.gradient_y[here]), steep_there)
    flat = steep <= np.median(steep)
    return correlation(*(each[flat] for each in grain))


def deformation(canvas: Canvas, points: Points, matrix: Matrix) -> float:
    """By how many pixels parts of a region lie beside where the transform says: the root of their mean square.

    One step of Gauss and Newton for each part, its place alone, with gain and bias of its own; parts with edges say
    more. Of a small region there is one part, and this is what the alignment left. Of a flat one nothing is known: the
    most.
    """
    x, y = moved(points, matrix)
    source = canvas.denoised[points.y.astype(int), points.x.astype(int)]
    copy = sample(canvas.denoised, x, y, cubic=False)
    gradients = [sample(each, x, y, cubic=False) for each in canvas.gradients]
    table = np.stack([copy, np.ones_like(copy), *gradients]).astype(np.float64)
    side = int(np.clip(np.sqrt(len(points) / PART), 1, MOST_PARTS))
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
        solved = np.linalg.solve(squares + PART_RIDGE * np.eye(len(table)), own @ source[part == number])
        gain, _, across, down = (float(value) for value in solved)
        weight = float(np.trace(squares[2:, 2:]))
        shift = min(MOST_DEFORMED, float(np.hypot(across, down)) / max(abs(gain), LEAST_GAIN))
        total, weights = total + weight * shift**2, weights + weight
    return float(np.sqrt(total / weights)) if weights > 0 else MOST_DEFORMED


def _worst_quadrants(points: Points, ones: FloatArray, others: FloatArray) -> list[float]:
    """Correlation of the least alike quadrant as a share of that of the whole, from 0 to 1; 0 where nothing is alike.

    For each row of samples. Quadrants of a few pixels do not count; of a region with fewer than two others nothing can
    be said, and it is 0.
    """
    whole = correlations(ones, others)
    right, below = points.x > points.x.mean(), points.y > points.y.mean()
    quadrants = [np.flatnonzero(across & down) for across in (right, ~right) for down in (below, ~below)]
    found = [correlations(ones[:, each], others[:, each]) for each in quadrants if len(each) >= FEWEST_IN_QUADRANT]
    if len(found) < 2:
        return [0.0] * len(ones)
    shares = np.min(found, axis=0) / np.where(whole > 0, whole, np.inf)
    return [float(share) for share in np.clip(shares, 0, 1)]


def compare(picture: FloatArray, points: Points, matrix: Matrix) -> float:
    """Correlation of source and copy in a picture of the canvas."""
    here = picture[points.y.astype(int), points.x.astype(int)]
    return correlation(here, sample(picture, *moved(points, matrix)))


def without_shape(points: Points, *samples: FloatArray) -> list[FloatArray]:
    """What is left of samples when a smooth surface is taken from each: two honest objects share nothing there.

    The surface is a polynomial: what shape explains. Of too few pixels nothing is left.
    """
    degree = DEGREE_OF_SMALL if len(points) < SMALL else DEGREE
    lines = [line.astype(np.float64) - centre for line, centre in zip((points.x, points.y), points.middle, strict=True)]
    lines = [line / max(1.0, float(np.abs(line).max(initial=0.0))) for line in lines]  # else high powers drown the low
    across, down = (np.vander(line, degree + 1, increasing=True).T for line in lines)
    terms = np.stack([across[one] * down[other] for one in range(degree + 1) for other in range(degree + 1 - one)])
    values = np.stack(samples).astype(np.float64)
    if len(points) < 2 * len(terms):
        return [np.zeros_like(each) for each in samples]
    squares = terms @ terms.T
    squares.flat[:: len(terms) + 1] += LEVEL * np.trace(squares)
    values -= np.linalg.solve(squares, terms @ values.T).T @ terms
    return list(values.astype(np.float32))
