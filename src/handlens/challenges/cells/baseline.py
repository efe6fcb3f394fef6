"""The baseline for nuclei, without training: how blue a pixel is, compared with its surroundings, against Otsu.

Haematoxylin is unmixed from eosin in optical density, where stains add up. No label is used: a threshold shift chosen
on some real slides cost 0.003 of Dice on the others.

A picture is read in bands, each several times: what is held of a slide is a copy of an eighth of its sides, and runs.
Where the bands end changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.score import ORDER
from handlens.io.row_reader import RowReader, in_memory
from handlens.masks.components import drop_small, fill_holes, join
from handlens.masks.rle import EMPTY, Rle, decode, decode_rows, encode

FloatImage = npt.NDArray[np.float32]
ByteImage = npt.NDArray[np.uint8]

BoolImage = npt.NDArray[np.bool_]
Bands = Callable[[], Iterator[tuple[int, FloatImage]]]
"""First row and contrast of every band, from the top, as often as they are asked for."""

BAND_PIXELS = 8_000_000
"""Pixels of a band: about 150 MB of arrays lie over them. A smaller picture is one band, which is worked out once."""

SHRINK = 8
"""The surroundings change slowly, so that a copy of an eighth of the sides loses nothing."""

SAMPLE_PIXELS = 100_000
"""Pixels at which the extremes of the contrast are measured."""


@dataclass(frozen=True, slots=True)
class Otsu:
    """Haematoxylin, smoothing, background, Otsu, clean-up. Lengths are pixels at 40x (a quarter of a micrometre).

    eosin_red       what eosin absorbs of red, as a share of what it absorbs of green: subtracted, it leaves the nuclei
                    (the vectors of Ruifrok and Johnston scored 0.003 less on real slides)
    smoothing       standard deviation of the blur; enough to join chromatin clumps, too little to move outlines
    surroundings    width of the window whose mean is taken as background: a few nuclei wide
    background      share of that mean subtracted; all of it would make pale stroma look like nuclei
    brightest       share of pixels that may not pull the threshold up: a few black nuclei would hide the pale ones
    least_contrast  optical density between the palest and darkest pixels below which a picture holds nothing but noise
    glass           green from which a pixel is bare glass, which is bluer than eosin; inside a rim it is filled again
    closing         closes the rims of pale, vesicular nuclei before their inside is filled
    largest_hole    pixels of a hole that is filled; gaps between nuclei are larger
    opening         cuts thin fibres off
    smallest        pixels of the smallest nucleus: the smallest lymphocytes cut by an edge
    """

    eosin_red: float = 0.3
    smoothing: float = 1.2
    surroundings: int = 200
    background: float = 0.5
    brightest: float = 0.05
    least_contrast: float = 0.1
    glass: int = 215
    closing: int = 5
    largest_hole: int = 400
    opening: int = 7
    smallest: int = 80

    def segment(self, picture: ByteImage) -> BoolImage:
        """The nuclei of an (H, W, 3) RGB picture as an (H, W) mask; a picture without contrast has none."""
        image = in_memory(picture)
        return decode(self.find(image), image.shape, order=ORDER)

    def find(self, image: RowReader) -> Rle:
        """The same as runs, of a picture that is read in bands."""
        contrast = self._contrast(image)
        low, high = _extremes(contrast, image.shape)
        if high - low < self.least_contrast:
            return EMPTY
        counts = np.zeros(256, np.int64)
        for _, band in contrast():
            counts += np.bincount(_levels(band, low, high).ravel(), minlength=256)
        threshold = self._threshold(counts)
        masks = []
        for top, band in contrast():
            mask = (_levels(band, low, high) > threshold) & self._stained(image, top, len(band))
            masks.append(_encode_band(mask, top, image.shape[1]))
        return self._clean(join(masks), image.shape)

    def _contrast(self, image: RowReader) -> Bands:
        """Haematoxylin above a part of what surrounds it."""
        height, width = image.shape
        small = _surroundings(image, self.surroundings, self.eosin_red)

        def bands() -> Iterator[tuple[int, FloatImage]]:
            for top, bottom in _bands(image.shape):
                first, last, rows = _with_margin(top, bottom, _blur_margin(self.smoothing), height)
                stain = haematoxylin(image.read(first, last), eosin_red=self.eosin_red)
                contrast = _enlarged(small, top, bottom, width)
                contrast *= -self.background
                contrast += cv2.GaussianBlur(stain, (0, 0), self.smoothing)[rows]
                yield top, contrast

        if len(list(_bands(image.shape))) > 1:
            return bands
        whole = list(bands())
        return lambda: iter(whole)

    def _stained(self, image: RowReader, top: int, count: int) -> BoolImage:
        """Where a pixel of some rows is darker than bare glass."""
        first, last, rows = _with_margin(top, top + count, _blur_margin(self.smoothing), image.shape[0])
        return cv2.GaussianBlur(image.read(first, last)[:, :, 1], (0, 0), self.smoothing)[rows] < self.glass

    def _threshold(self, counts: npt.NDArray[np.int64]) -> int:
        """Otsu's threshold of the levels, the brightest counted as if they were less bright."""
        cap = int(np.searchsorted(np.cumsum(counts), (1 - self.brightest) * counts.sum()))
        capped = counts[: cap + 1].copy()
        capped[cap] += counts[cap + 1 :].sum()
        return _otsu(capped)

    def _clean(self, cells: Rle, shape: tuple[int, int]) -> Rle:
        """Rims closed, holes filled, fibres cut, specks removed."""
        closed = _morph(cells, shape, cv2.MORPH_CLOSE, self.closing)
        filled = fill_holes(closed, shape, largest=self.largest_hole - 1, at_border=True)
        return drop_small(_morph(filled, shape, cv2.MORPH_OPEN, self.opening), shape, smallest=self.smallest)


def haematoxylin(picture: ByteImage, *, eosin_red: float) -> FloatImage:
    """Optical density of haematoxylin for every pixel: the red absorbed, less what eosin absorbs of it.

    >>> white = np.full((1, 1, 3), 255, np.uint8)
    >>> bool(haematoxylin(white, eosin_red=0.3)[0, 0] == 0)
    True
    """
    density = -np.log(np.arange(1, 257, dtype=np.float32) / np.float32(256))  # 1 to 256: black stays finite
    stain: FloatImage = density[picture[:, :, 0]]
    stain -= (eosin_red * density)[picture[:, :, 1]]
    return stain


def _bands(shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """First and last row of every band; bands begin at rows of the small copy."""
    height, width = shape
    rows = max(1, BAND_PIXELS // max(1, width) // SHRINK) * SHRINK
    return ((top, min(height, top + rows)) for top in range(0, height, rows))


def _with_margin(top: int, bottom: int, margin: int, height: int) -> tuple[int, int, slice]:
    """Rows to be read so that those between top and bottom see enough around them, and where these lie among them."""
    first, last = max(0, top - margin), min(height, bottom + margin)
    return first, last, slice(top - first, bottom - first)


def _blur_margin(smoothing: float) -> int:
    return int(4 * smoothing) + 2


def _surroundings(image: RowReader, width: int, eosin_red: float) -> FloatImage:
    """The mean stain around every pixel, on the small copy; at the right and below, the last pixels are repeated."""
    across = image.shape[1]
    parts = []
    for top, bottom in _bands(image.shape):
        stain = haematoxylin(image.read(top, bottom), eosin_red=eosin_red)
        stain = np.pad(stain, ((0, -len(stain) % SHRINK), (0, -across % SHRINK)), "edge")
        size = stain.shape[1] // SHRINK, stain.shape[0] // SHRINK
        parts.append(cv2.resize(stain, size, interpolation=cv2.INTER_AREA).reshape(size[1], size[0]))
    small = np.concatenate(parts).astype(np.float32, copy=False)
    window = max(1, width // (2 * SHRINK))  # two boxes of half the width make a triangle of the whole
    for _ in range(2):
        small = cv2.blur(small, (window, window)).reshape(small.shape).astype(np.float32, copy=False)
    return small


def _enlarged(small: FloatImage, top: int, bottom: int, width: int) -> FloatImage:
    """Some rows of the small copy at full size."""
    first, last = max(0, top // SHRINK - 1), min(len(small), -(-bottom // SHRINK) + 1)
    size = small.shape[1] * SHRINK, (last - first) * SHRINK
    large = cv2.resize(small[first:last], size, interpolation=cv2.INTER_LINEAR).astype(np.float32, copy=False)
    return large[top - first * SHRINK : bottom - first * SHRINK, :width].copy()


def _extremes(contrast: Bands, shape: tuple[int, int]) -> tuple[float, float]:
    """The least and the greatest contrast, a few stray pixels aside."""
    step = max(1, int(np.sqrt(shape[0] * shape[1] / SAMPLE_PIXELS)))
    sample = np.concatenate([band[-top % step :: step, ::step].ravel() for top, band in contrast()])
    low, high = (float(value) for value in np.percentile(sample, [0.5, 99.5]))
    return low, high


def _levels(contrast: FloatImage, low: float, high: float) -> ByteImage:
    """The contrast as 256 levels between its extremes."""
    levels = contrast - np.float32(low)
    levels *= 255 / (high - low)
    return np.clip(levels, 0, 255, out=levels).astype(np.uint8)


def _otsu(counts: npt.NDArray[np.int64]) -> int:
    """The level up to which pixels are ground: the two classes differ most in their means.

    >>> _otsu(np.array([5, 9, 0, 0, 8]))
    1
    """
    level = np.arange(len(counts))
    below, total = np.cumsum(counts), counts.sum()
    moment = np.cumsum(counts * level)
    above = total - below
    apart = moment / np.maximum(below, 1) - (moment[-1] - moment) / np.maximum(above, 1)
    return int(np.argmax(below * above / total**2 * apart**2))


def _morph(cells: Rle, shape: tuple[int, int], operation: int, width: int) -> Rle:
    """A closing or opening with a disk."""
    disk = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (width, width))
    bands = []
    for top, bottom in _bands(shape):
        first, last, rows = _with_margin(top, bottom, 2 * width, shape[0])
        mask = decode_rows(cells, shape, first, last).view(np.uint8)
        changed = cv2.morphologyEx(mask, operation, disk).reshape(mask.shape)[rows]
        bands.append(_encode_band(changed > 0, top, shape[1]))
    return join(bands)


def _encode_band(mask: BoolImage, top: int, width: int) -> Rle:
    band = encode(mask, order=ORDER)
    return Rle(band.starts + top * width, band.lengths)
