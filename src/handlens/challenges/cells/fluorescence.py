"""Nuclei that shine on a dark ground, or lie dark on a bright one: found by local brightness, without a network.

A nucleus ends where its brightness has fallen to a share of the brightest place around, so that dim nuclei beside
bright ones keep their outlines. All lengths follow from the radius of the nuclei, which is measured first, on samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.score import ORDER
from handlens.challenges.cells.splitting import Watershed
from handlens.io.row_reader import RowReader
from handlens.masks.components import drop_small, fill_holes, join
from handlens.masks.rle import Rle, encode

FloatImage = npt.NDArray[np.float32]
ByteImage = npt.NDArray[np.uint8]

BAND_ROWS = 512
SAMPLE_SIDE = 2048
SAMPLE_CROP = 512
"""An image up to 2048 x 2048 is measured whole, a larger one on 16 crops of 512 x 512."""

LEAST_CONTRAST = 3.0
"""Grey levels between ground and the brightest hundredth below which an image holds nothing but noise."""

DEFAULT_RADIUS, MAX_RADIUS = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What is measured before anything is found: the ground's level, the least signal, the radius of nuclei."""

    ground: float
    least: float
    radius: float


@dataclass(frozen=True, slots=True)
class BrightNuclei:
    """Ground, global threshold, local threshold, clean-up. Chosen on every second of 89 images of BBBC038.

    dark       nuclei are darker than the ground, not brighter
    channel    which channel, from 0; None: the brightest (darkest) of all at each pixel
    smoothing  standard deviation of the blur, pixels
    ground     percentile of the brightness that is taken as ground
    edge       share of the local brightness at which a nucleus ends
    smallest   area of the smallest nucleus, as a share of a disk of the median radius
    top_hat    radius in pixels of what is taken for ground wherever no nucleus of it fits; 0: the ground is even
    power      the global threshold is Otsu's of the brightness to this power: less than 1 finds dim nuclei
    """

    dark: bool = False
    channel: int | None = None
    smoothing: float = 0.7
    ground: float = 20.0
    edge: float = 0.38
    smallest: float = 0.15
    top_hat: int = 0
    power: float = 0.5

    def segment(
        self, image: RowReader, kept: ByteImage | None = None, levels: ByteImage | None = None
    ) -> tuple[Rle, Watershed]:
        """The nuclei of a picture, and how to split them.

        `kept` (H, W) takes brightness as a share of the local one, `levels` how far each pixel is from being
        nucleus: 128 at the thresholds. Memory holds a band of rows. A picture without contrast has no nuclei.
        """
        scene = self.measure(image)
        masks = []
        if scene is not None:
            for top, mask, share, excess in self._bands(image, scene):
                band = encode(mask, order=ORDER)
                masks.append(Rle(band.starts + top * image.shape[1], band.lengths))
                if kept is not None:
                    np.rint(share * 255, out=kept[top : top + len(mask)], casting="unsafe")
                if levels is not None:
                    np.rint(excess / (1 + excess) * 255, out=levels[top : top + len(mask)], casting="unsafe")
        else:
            for picture in (kept, levels):
                if picture is not None:
                    picture[:] = 0
        radius = scene.radius if scene else DEFAULT_RADIUS
        disk = math.pi * radius**2
        least = max(12, int(self.smallest * disk))
        filled = fill_holes(join(masks), image.shape, largest=int(disk))
        watershed = Watershed(smoothing=max(1.0, 0.15 * radius), smallest=least)
        return drop_small(filled, image.shape, smallest=least), watershed

    def measure(self, image: RowReader) -> Scene | None:
        """Ground, threshold and radius, from the picture or samples of it; None where there is no contrast."""
        crops = [self._smooth(crop) for crop in _sample(image)]
        values = np.concatenate([crop.ravel() for crop in crops])
        ground, bright = (float(value) for value in np.percentile(values, [self.ground, 99]))
        highest = float(values.max()) - ground
        if bright - ground < LEAST_CONTRAST:
            return None
        levels = (np.clip((values - ground) / highest, 0, 1) ** self.power * 255).astype(np.uint8)
        threshold, _ = cv2.threshold(levels.reshape(1, -1), 0, 255, cv2.THRESH_OTSU)
        least = ((threshold + 1) / 255) ** (1 / self.power) * highest
        return Scene(ground, least, _median_radius([crop - ground > least for crop in crops]))

    def _bands(
        self, image: RowReader, scene: Scene
    ) -> Iterator[tuple[int, npt.NDArray[np.bool_], FloatImage, FloatImage]]:
        """First row, mask, and brightness as a share of the local one and of the thresholds, of each band."""
        height, radius = image.shape[0], scene.radius
        margin = math.ceil(5 * radius) + 2 * self.top_hat + 8
        around, near = (_disk(math.ceil(reach * radius)) for reach in (1.5, 1.0))
        for top in range(0, height, BAND_ROWS):
            bottom = min(height, top + BAND_ROWS)
            first = max(0, top - margin)
            signal = self._smooth(self._brightness(image.read(first, min(height, bottom + margin)))) - scene.ground
            np.maximum(signal, 0, out=signal)
            local = cv2.dilate(cv2.GaussianBlur(signal, (0, 0), max(1.0, radius / 4)), around)
            local = cv2.GaussianBlur(local, (0, 0), radius / 2)
            needed = np.maximum(scene.least, self.edge * local)
            mask = (signal > needed).view(np.uint8)
            mask = np.asarray(cv2.morphologyEx(mask, cv2.MORPH_OPEN, _disk(1)), np.uint8)
            share = signal / np.maximum(cv2.dilate(signal, near), 1e-6)
            rows = slice(top - first, bottom - first)
            excess = signal[rows] / np.maximum(needed[rows], 1e-6)
            yield top, mask[rows].view(np.bool_), np.asarray(share[rows], np.float32), np.asarray(excess, np.float32)

    def _brightness(self, rows: ByteImage) -> ByteImage:
        """One (rows, width) channel in which nuclei are bright."""
        if self.channel is not None:
            chosen = rows[:, :, self.channel]
        else:
            chosen = rows.min(axis=2) if self.dark else rows.max(axis=2)
        return np.ascontiguousarray(255 - chosen if self.dark else chosen)

    def _smooth(self, rows: ByteImage) -> FloatImage:
        brightness = rows if rows.ndim == 2 else self._brightness(rows)
        smooth = np.asarray(cv2.GaussianBlur(brightness.astype(np.float32), (0, 0), self.smoothing), np.float32)
        if self.top_hat:
            smooth -= cv2.morphologyEx(smooth, cv2.MORPH_OPEN, _disk(self.top_hat))
        return smooth


FLUORESCENCE = BrightNuclei()
SINGLE_STAIN = replace(FLUORESCENCE, dark=True)
"""The same numbers the other way round: none was chosen on stained pictures."""

GREY = BrightNuclei(dark=True, smoothing=1.0, top_hat=12, power=1.0)
"""Dark nuclei in grey cytoplasm, as in smears; the numbers are from the only two such images at hand."""


def _sample(image: RowReader) -> list[ByteImage]:
    """The whole picture, or crops from all over a large one."""
    height, width = image.shape
    if height * width <= SAMPLE_SIDE**2:
        return [image.read(0, height)]
    tops, lefts = (
        np.unique(np.linspace(0, max(0, side - SAMPLE_CROP), 4).astype(int)).tolist() for side in image.shape
    )
    crops = []
    for top in tops:
        rows = image.read(top, min(height, top + SAMPLE_CROP))
        crops += [rows[:, left : left + SAMPLE_CROP].copy() for left in lefts]
    return crops


def _median_radius(masks: list[npt.NDArray[np.bool_]]) -> float:
    """Of the components: the median of their greatest distances to the ground; a component of a pixel counts not."""
    found = []
    for mask in masks:
        distance = cv2.distanceTransform(mask.view(np.uint8), cv2.DIST_L2, 5)
        count, labels = cv2.connectedComponents(mask.view(np.uint8))
        greatest = np.zeros(count, np.float32)
        np.maximum.at(greatest, np.asarray(labels, np.int64).ravel(), distance.ravel())
        found.append(greatest[1:][greatest[1:] > 2])
    radii = np.concatenate(found) if found else np.empty(0, np.float32)
    return float(np.clip(np.median(radii), 2.0, MAX_RADIUS)) if len(radii) else DEFAULT_RADIUS


def _disk(radius: int) -> ByteImage:
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)), np.uint8)
