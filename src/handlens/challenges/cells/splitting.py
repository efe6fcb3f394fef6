"""Where touching nuclei are split: a watershed from the h-maxima of the distance to the outline and the probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from skimage.morphology import local_maxima, reconstruction
from skimage.segmentation import watershed

FloatImage = npt.NDArray[np.float32]
BoolImage = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.uint16]
IntImage = npt.NDArray[np.int32]
Box = tuple[slice, slice]

SHEET_WIDTH = 1024
"""Pixels across of the sheet on which many components are laid out, wider where one of them is."""


@dataclass(frozen=True, slots=True)
class Watershed:
    """How a connected component becomes nuclei: one for each maximum that stands out. Lengths are pixels.

    smoothing   standard deviation of the blur of the heights; a ragged outline makes maxima that are none
    doubt       how much a probability of 0.5 lowers a height, as a share: where the model is unsure, there is a valley
    depth       how far a maximum must rise above the saddle to a higher one, as a share of itself: nuclei are of all
                sizes
    smallest    pixels below which a part stays with its neighbour
    """

    smoothing: float = 1.5
    doubt: float = 0.6
    depth: float = 0.1
    smallest: int = 30

    def resized(self, factor: float) -> Watershed:
        """The same for pictures whose sides are `factor` times as long."""
        return replace(
            self, smoothing=max(0.5, self.smoothing * factor), smallest=max(4, round(self.smallest * factor**2))
        )

    def split(self, components: Sequence[tuple[BoolImage, FloatImage]]) -> list[Labels]:
        """For each connected component and its probabilities: labels from 1, 0 outside; every pixel of it gets one.

        All are worked on together, laid out on one sheet: a slide has thousands, and every call of a library has its
        price. None sees another.
        """
        heights = [self._heights(piece, probability) for piece, probability in components]
        several = [index for index, each in enumerate(heights) if _has_several_maxima(each)]
        answers = [piece.astype(np.uint16) for piece, _ in components]
        boxes, shape = _lay_out([heights[index].shape for index in several])
        sheet, owner = np.zeros(shape, np.float32), np.zeros(shape, np.int32)
        for number, (box, index) in enumerate(zip(boxes, several, strict=True), 1):
            sheet[box] = heights[index]
            owner[box] = (heights[index] > 0) * np.int32(number)
        if several:
            labels = self._label(sheet, owner, len(boxes))
            for index, box in zip(several, boxes, strict=True):
                answers[index] = _from_one(labels[box][1:-1, 1:-1])
        return answers

    def _heights(self, piece: BoolImage, probability: FloatImage) -> FloatImage:
        """Distance to the outline, less where the model is unsure, with a frame of zeros; 0 outside."""
        piece, probability = np.pad(piece, 1), np.pad(probability, 1)  # outside of the picture there is nothing
        distance = cv2.distanceTransform(piece.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        certainty = 1 - 2 * self.doubt * (1 - np.maximum(probability, 0.5))
        heights = cv2.GaussianBlur((distance * certainty).astype(np.float32), (0, 0), self.smoothing)
        return np.where(piece, np.maximum(heights, 1e-3), 0).astype(np.float32)

    def _label(self, heights: FloatImage, owner: IntImage, count: int) -> IntImage:
        """Labels over the sheet, no label in two components; `owner` numbers these from 1."""
        maxima = _find_maxima(heights, self.depth).view(np.uint8)
        markers = np.asarray(cv2.connectedComponents(maxima, connectivity=8)[1], np.int32)
        markers[owner == 0] = 0
        large = np.bincount(owner.ravel(), minlength=count + 1) >= 2 * self.smallest
        labels = _flood(heights, markers, owner, several=large & (_count_labels(markers, owner, count) > 1))
        crumbs = np.bincount(labels.ravel()) < self.smallest
        crumbs[0] = False
        if crumbs[labels].any():  # parts that are too small go to the neighbours that reach them first
            touched = np.zeros(count + 1, np.bool_)
            touched[owner[crumbs[labels]]] = True
            labels[crumbs[labels]] = 0
            again = _flood(heights, labels, owner, several=touched & (_count_labels(labels, owner, count) > 0))
            labels = np.where(touched[owner], again, labels)
        whole = labels == 0  # components of one nucleus
        return np.where(whole & (owner > 0), owner + np.int32(labels.max()), labels)


def _lay_out(shapes: Sequence[tuple[int, ...]]) -> tuple[list[Box], tuple[int, int]]:
    """A place for each box, in shelves from the highest to the lowest, and the size of the sheet."""
    width = max([SHEET_WIDTH, *(shape[1] for shape in shapes)])
    boxes: list[Box] = [(slice(0, 0), slice(0, 0))] * len(shapes)
    top = left = shelf = 0
    for index in sorted(range(len(shapes)), key=lambda index: -shapes[index][0]):
        height, across = shapes[index]
        if left + across > width:
            top, left, shelf = top + shelf, 0, 0
        boxes[index] = (slice(top, top + height), slice(left, left + across))
        left, shelf = left + across, max(shelf, height)
    used = max((box[1].stop for box in boxes), default=0)
    return boxes, (top + shelf, used)


def _has_several_maxima(heights: FloatImage) -> bool:
    """Whether there is more than one place that no neighbour exceeds; most components end here, without a sort."""
    peaks = (heights >= cv2.dilate(heights, np.ones((3, 3), np.uint8))) & (heights > 0)
    return bool(cv2.connectedComponents(peaks.view(np.uint8), connectivity=8)[0] > 2)


def _find_maxima(heights: FloatImage, depth: float) -> BoolImage:
    """Where maxima are that rise by `depth`, as a share of themselves, above the saddle to any higher one."""
    # Outside, values that all differ, below all others: sorting millions of equal ones takes ten times as long.
    outside = -np.arange(1, heights.size + 1, dtype=np.float32).reshape(heights.shape)
    limit = np.where(heights > 0, heights, outside)
    lowered = reconstruction(np.where(heights > 0, heights * np.float32(1 - depth), outside), limit)
    return np.asarray(local_maxima(np.maximum(lowered, 0), connectivity=2), np.bool_)


def _flood(heights: FloatImage, markers: IntImage, owner: IntImage, *, several: BoolImage) -> IntImage:
    """Every pixel of the components that have several nuclei to the marker that reaches it first, from the top down."""
    mask = several[owner]
    return np.asarray(watershed(-heights, np.where(mask, markers, 0), mask=mask), np.int32)


def _count_labels(labels: IntImage, owner: IntImage, count: int) -> npt.NDArray[np.int64]:
    """How many labels each component has; the first number is of none."""
    owner_of = np.zeros(int(labels.max()) + 1, np.int64)
    owner_of[labels.ravel()] = owner.ravel()
    owner_of[0] = 0
    return np.bincount(owner_of, minlength=count + 1)


def _from_one(labels: npt.NDArray[Any]) -> Labels:
    """The same labels without gaps, in the same order, from 1."""
    lowest = int(labels[labels > 0].min())
    shifted = np.where(labels > 0, labels - (lowest - 1), 0)
    present = np.bincount(shifted.ravel()) > 0
    present[0] = False
    return (np.cumsum(present) * present).astype(np.uint16)[shifted]
