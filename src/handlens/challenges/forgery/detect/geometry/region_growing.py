"""Where a transform holds: the region around some places in which the warped picture agrees with the picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Matrix, Patch
from handlens.challenges.forgery.detect.geometry.alignment import align
from handlens.challenges.forgery.detect.geometry.correlation import FLAT, fit_tone, local_correlation
from handlens.challenges.forgery.detect.geometry.outline import inverse, trimmed, warp_patch
from handlens.challenges.forgery.detect.geometry.points import FEWEST, shared_interior

GROUND = 2.0
"""How much larger than the objects in it a region is at least of which the ground agrees as well. By hand."""

FEWEST_GROUND = 0.15
"""Least share of a window that must be ground for its grain to be told. By hand."""

SEVERAL, SPECK, REACH = 3, 30, 1.2
"""Fewest objects that agree from which the ground between them was copied too, fewest pixels of each, and how far
around them the region goes at most, in radii of an object. By hand."""

MOST_OVERLAP = 0.1
"""Share of a region that may be its own copy: more, and a texture repeats. By hand."""

LEAST_KEPT = 0.3
"""Share of the seed that the exact region has at least; of less, the seed is taken as it is. By hand."""

CANVAS, NARROWEST_WINDOW, WIDEST_WINDOW = 1_000, 5, 11
"""Side of the canvas for which `window` is given, and the window's limits on others. By hand."""

CHANCE, FEWEST_ELSEWHERE = 0.99, 1_000
"""Quantile of the grain's correlation elsewhere in the figure that chance reaches, told from so many pixels. By
hand."""

HALF = 0.5
"""Rule: at the edge of a region half of the window is copied."""

EVEN_BLUR, EVEN_LEAST = 2.0, 0.25
"""Blur, in pixels, over which the strength of grain is averaged, and the variance added to it: below, there is only
rounding. By hand."""

MAD_TO_DEVIATION = 1.48
"""Standard deviations in a median absolute deviation. Rule: of a normal distribution, 1.4826."""

FEWEST_INNER = 30
"""Pixels that must be left of a region without its edge. By hand."""

LEAST_AROUND = 6
"""Pixels around a region, at least, that are looked at for its ground. By hand."""

LEVELS = 32
"""Bins of the histogram in which the commonest grey level of the ground is sought. By hand."""

CLOSED = 5
"""Pixels across gaps of a region that are closed. By hand: noise alone makes them."""


@dataclass(frozen=True, slots=True)
class RegionGrowing:
    """How alike pixels must be to belong to a copied region."""

    window: int = 9
    """Side of the window in which pixels are correlated, on a canvas of 1,000 pixels; smaller on smaller ones. By
    hand."""
    pixel: float = 0.6
    """Correlation from which a pixel counts as copied: JPEG and resampling lower it, chance stays under 0.5. By
    hand."""
    overall: float = 0.65
    """Mean correlation a whole region must reach. By hand."""
    grain_window: int = 17
    """Side of the window in which grain is correlated. Rule: noise of n pixels agrees by 1 / sqrt(n), here 0.06."""
    grain_pixel: float = 0.35
    """Correlation of the grain from which a pixel counts as copied. By hand."""
    error: float = 3.0
    """How much more than in the middle of a region the pixels at its edge may differ. By hand."""
    rounding: float = 1.0
    """Grey levels that they may differ besides. By hand: rounding of source and copy."""
    smallest: int = 60
    """Fewest pixels of a region. By hand."""

    def grow(self, canvas: Canvas, matrix: Matrix, places: npt.NDArray[np.int64]) -> tuple[Patch, Patch, Matrix] | None:
        """Source, copy and exact transform where warped pixels agree around the places (x, y of the copy), or None."""
        seed = self._roughly(canvas, matrix, places)
        return None if seed is None else self.grow_seed(canvas, matrix, seed)

    def grow_seed(self, canvas: Canvas, matrix: Matrix, seed: BoolArray) -> tuple[Patch, Patch, Matrix] | None:
        """The same where the copy is known roughly."""
        source = _back(seed, matrix, canvas)
        if source is None:
            return None
        points = shared_interior(source, matrix, canvas.blocked)
        if len(points) < FEWEST:
            return None
        matrix, _ = align(canvas, points, matrix)
        found = self.outline(canvas, matrix, seed)
        return (*found, matrix) if found else None

    def outline(self, canvas: Canvas, matrix: Matrix, seed: BoolArray) -> tuple[Patch, Patch] | None:
        """Source and copy to the pixel, where the copy is known roughly; None where a texture repeats."""
        for copy in self._exactly(canvas, matrix, seed):
            patch = trimmed(0, 0, copy if copy.sum() >= LEAST_KEPT * seed.sum() else seed)
            source = warp_patch(patch, inverse(matrix), canvas.shape) if patch else None
            if patch is not None and source is not None and patch.overlap(source) <= MOST_OVERLAP * patch.area:
                return source, patch
        return None

    def _roughly(self, canvas: Canvas, matrix: Matrix, places: npt.NDArray[np.int64]) -> BoolArray | None:
        """The region around the places whose pixels correlate, a few pixels too wide."""
        warped, free = _warped(canvas, canvas.grey, matrix)
        window = round(self.window * max(canvas.shape) / CANVAS)
        window = int(np.clip(window, NARROWEST_WINDOW, WIDEST_WINDOW)) | 1
        alike = local_correlation(canvas.grey, warped, window)
        alike[~free] = 0
        agreed = clean(alike > self.pixel, window)
        copy = parts_holding(agreed, places)
        if copy.sum() < self.smallest or alike[copy].mean() < self.overall:
            return None
        return copy

    def _exactly(self, canvas: Canvas, matrix: Matrix, seed: BoolArray) -> Iterator[BoolArray]:
        """The region to the pixel: where both show the same, and that is no chance. Larger ones first.

        After the same change of brightness pixels must differ by little more than they do in the middle of the region.
        On ground as bright as what is around, that says nothing: there the grain must agree.
        """
        warped, free = _warped(canvas, canvas.grey, matrix)
        middle = _eroded(seed, 2)
        gain, bias, error = _fit(canvas.grey[middle], warped[middle])
        there = gain * warped + bias
        apart = np.sqrt(np.maximum(cv2.blur((canvas.grey - there) ** 2, (3, 3)), 0))  # sums may round below 0
        most = self.error * error + self.rounding
        around = canvas.grey[_around(seed) & free]
        shown, either = np.ones(canvas.shape, np.bool_), np.ones(canvas.shape, np.bool_)
        for ground in (_commonest(around), float(np.median(around))) if around.size else ():
            here, moved = np.abs(canvas.grey - ground) > most, np.abs(there - ground) > most
            shown &= here & moved
            either &= here | moved
        same = (apart < most) & free
        inside = _opened(_closed(same & (shown | self._alike_grain(canvas, matrix, free & ~shown, seed))))
        exact = parts_holding(inside, _places(seed & inside))
        objects = _opened(_closed(same & shown))
        if exact.sum() < GROUND * (exact & objects).sum():  # else the ground speaks for itself
            whole = surroundings(objects, _opened(free & either & ~same), _places(seed & objects))
            if whole is not None:
                yield whole & free
        yield exact | (_wider(exact) & free)

    def _alike_grain(self, canvas: Canvas, matrix: Matrix, ground: BoolArray, seed: BoolArray) -> BoolArray:
        """Where the grain of the ground agrees more than it does by chance in this figure, far from the region.

        Objects are left out: a copied one would speak for the ground around it.
        """
        window = (self.grain_window, self.grain_window)
        warped, _ = _warped(canvas, canvas.grain, matrix)
        both = np.where(ground, even(canvas.grain) * even(warped), 0).astype(np.float32)
        share = cv2.blur(ground.astype(np.float32), window)
        alike = np.where(share > FEWEST_GROUND, cv2.blur(both, window) / np.maximum(share, FEWEST_GROUND), 0)
        alike[~ground] = 0
        reach = 2 * int(np.sqrt(seed.sum())) + 1
        elsewhere = ground & (cv2.dilate(seed.astype(np.uint8), np.ones((reach, reach))) == 0)
        chance = float(np.quantile(alike[elsewhere], CHANCE)) if elsewhere.sum() > FEWEST_ELSEWHERE else 0.0
        inside = seed & ground
        usual = float(np.median(alike[inside])) if inside.any() else np.inf
        return np.asarray(alike > max(self.grain_pixel, chance, HALF * usual))


def _warped(canvas: Canvas, picture: FloatArray, matrix: Matrix) -> tuple[FloatArray, BoolArray]:
    """A picture of the canvas brought over itself, and where neither it nor what lies below is blocked."""
    size = (canvas.shape[1], canvas.shape[0])
    warped = np.asarray(cv2.warpAffine(picture, matrix, size, flags=cv2.INTER_CUBIC), np.float32)
    free = cv2.warpAffine((~canvas.blocked).astype(np.uint8), matrix, size, flags=cv2.INTER_NEAREST) > 0
    return warped, np.asarray(free & ~canvas.blocked)


def even(grain: FloatArray) -> FloatArray:
    """Grain equally strong everywhere, so that an object does not outshout the ground beside it; 0 where is none."""
    strength = cv2.GaussianBlur(grain * grain, (0, 0), EVEN_BLUR)
    return np.asarray(grain / np.sqrt(strength + EVEN_LEAST), np.float32)


def _back(copy: BoolArray, matrix: Matrix, canvas: Canvas) -> Patch | None:
    patch = trimmed(0, 0, copy)
    return warp_patch(patch, inverse(matrix), canvas.shape) if patch else None


def _fit(one: FloatArray, other: FloatArray) -> tuple[float, float, float]:
    """Gain and bias that make the second sample like the first, and the deviation of what is left, of most pixels.

    Of a flat sample, which has no gain, the bare median.
    """
    gain, bias = fit_tone(one, other)
    median = float(np.median(np.abs(one - gain * other - bias)))
    return gain, bias, median if other.std() < FLAT else MAD_TO_DEVIATION * median


def _eroded(mask: BoolArray, steps: int) -> BoolArray:
    """A region without its edge, unless nothing were left."""
    inner = cv2.erode(mask.astype(np.uint8), np.ones((3, 3)), iterations=steps, borderValue=0) > 0
    return np.asarray(inner) if inner.sum() > FEWEST_INNER else mask


def _around(mask: BoolArray) -> BoolArray:
    """What lies around a region, several times as much as the region itself."""
    reach = 2 * max(LEAST_AROUND, int(np.sqrt(mask.sum()))) + 1
    return np.asarray((cv2.dilate(mask.astype(np.uint8), np.ones((reach, reach))) > 0) & ~mask)


def _commonest(values: FloatArray) -> float:
    """The grey level that most of the ground has."""
    counts, edges = np.histogram(values, bins=LEVELS)
    best = int(counts.argmax())
    return float(np.median(values[(values >= edges[best]) & (values <= edges[best + 1])]))


def _closed(mask: BoolArray) -> BoolArray:
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (CLOSED, CLOSED))
    return np.asarray(cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, disc) > 0)


def _wider(mask: BoolArray) -> BoolArray:
    """The mask and the pixels beside it: at its edge a copy is mixed with what it lies on, so that it agrees less."""
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    return np.asarray(cv2.dilate(mask.astype(np.uint8), cross) > 0)


def _opened(mask: BoolArray) -> BoolArray:
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3))
    return np.asarray(cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, disc) > 0)


def clean(agreed: BoolArray, window: int) -> BoolArray:
    """Specks removed and gaps closed; chance agreement comes in specks smaller than the window."""
    small = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (window // 2, window // 2))
    large = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (window, window))
    opened = cv2.morphologyEx(agreed.astype(np.uint8), cv2.MORPH_OPEN, small)
    return np.asarray(cv2.morphologyEx(opened, cv2.MORPH_CLOSE, large) > 0)


def _places(mask: BoolArray) -> npt.NDArray[np.int64]:
    """Columns and rows of the pixels of a mask."""
    rows, columns = np.nonzero(mask)
    return np.stack([columns, rows], axis=1)


def surroundings(agreed: BoolArray, other: BoolArray, places: npt.NDArray[np.int64]) -> BoolArray | None:
    """The region around several objects that agree, up to half the way to what is `other`; None around fewer.

    Bare ground between them is alike everywhere and says nothing, but who copies three nuclei copies what is between.
    What they enclose belongs to it, whatever it shows: regions have no holes.
    """
    count, parts, boxes, _ = cv2.connectedComponentsWithStats(agreed.astype(np.uint8))
    sizes = boxes[:, cv2.CC_STAT_AREA]
    held = np.unique(parts[places[:, 1], places[:, 0]])
    held = held[held > 0]
    if not len(held) or count < 1 + SEVERAL:
        return None
    reach = REACH * float(np.sqrt(np.median(sizes[held]) / np.pi)) + 2
    apart, beyond = (
        cv2.distanceTransform((~each).astype(np.uint8), cv2.DIST_L2, 3) for each in (agreed, other & ~agreed)
    )
    near = parts_holding((apart < np.minimum(reach, beyond)) | agreed, places)
    chosen = np.unique(parts[near & agreed])
    chosen = chosen[(chosen > 0) & (sizes[chosen] >= SPECK)]
    if len(chosen) < SEVERAL:
        return None
    hull = np.zeros(agreed.shape, np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(_places(np.isin(parts, chosen)).astype(np.int32)), 1)
    whole = (near | ((hull > 0) & (apart < beyond))).astype(np.float32)
    return parts_holding(np.asarray(cv2.GaussianBlur(whole, (0, 0), reach / 2) > HALF), places)


def parts_holding(agreed: BoolArray, places: npt.NDArray[np.int64]) -> BoolArray:
    """The connected parts that hold one of the places, without their holes."""
    _count, parts = cv2.connectedComponents(agreed.astype(np.uint8))
    height, width = agreed.shape
    inside = (places[:, 0] >= 0) & (places[:, 0] < width) & (places[:, 1] >= 0) & (places[:, 1] < height)
    numbers = np.unique(parts[places[inside, 1], places[inside, 0]])
    chosen = np.isin(parts, numbers[numbers > 0]).astype(np.uint8)
    outlines, _tree = cv2.findContours(chosen, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(chosen, outlines, -1, 1, cv2.FILLED)
    return np.asarray(chosen > 0)
