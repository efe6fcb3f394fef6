"""Where nuclei that touch are parted: at necks of their common outline, and where the model doubts between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatImage = npt.NDArray[np.float32]
BoolImage = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.uint16]

LEVELS = 64
"""Steps in which the heights are flooded from the top down."""


@dataclass(frozen=True, slots=True)
class Splitting:
    """How heights over a piece become nuclei: one for each summit that stands out. Lengths are pixels.

    smoothing   standard deviation of the blur of the heights; a ragged outline makes summits that are none
    doubt       how much a probability of 0.5 lowers a height, as a share: where the model doubts, there is a valley
    depth       how far a summit must rise above the pass to a higher one, as a share of itself: nuclei are of all sizes
    smallest    pixels below which a part stays with its neighbour
    """

    smoothing: float = 1.5
    doubt: float = 0.6
    depth: float = 0.1
    smallest: int = 30

    def split(self, piece: BoolImage, probability: FloatImage) -> Labels:
        """Numbers from 1 for the nuclei of one connected piece, 0 outside; every pixel of it gets one."""
        import cv2

        padded = np.pad(piece, 1)  # outside of the picture there is nothing
        if int(piece.sum()) < 2 * self.smallest:
            return piece.astype(np.uint16)
        heights = self._heights(padded, np.pad(probability, 1))
        summits = _summits(heights, self.depth) & padded
        count, marks = cv2.connectedComponents(summits.view(np.uint8), connectivity=8)
        if count <= 2:  # the first is what lies outside
            return piece.astype(np.uint16)
        labels = _flood(heights, marks.astype(np.uint16), padded)
        return self._without_crumbs(labels, heights, padded)[1:-1, 1:-1]

    def _heights(self, piece: BoolImage, probability: FloatImage) -> FloatImage:
        """Distance to the outline, less where the model doubts."""
        import cv2

        distance = cv2.distanceTransform(piece.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        certainty = 1 - 2 * self.doubt * (1 - np.maximum(probability, 0.5))
        heights = cv2.GaussianBlur((distance * certainty).astype(np.float32), (0, 0), self.smoothing)
        return np.where(piece, np.maximum(heights, 1e-3), 0).astype(np.float32)

    def _without_crumbs(self, labels: Labels, heights: FloatImage, piece: BoolImage) -> Labels:
        """Parts that are too small given to the neighbours that reach them first; then numbered from 1 anew."""
        areas = np.bincount(labels.ravel())
        large = areas >= self.smallest
        large[0] = False
        if not large.any():
            return piece.astype(np.uint16)
        kept = np.where(large[labels], labels, 0).astype(np.uint16)
        kept = _flood(heights, kept, piece)
        order = np.zeros(len(areas), np.uint16)
        order[large] = np.arange(1, int(large.sum()) + 1)
        return order[kept]


def _summits(heights: FloatImage, depth: float) -> BoolImage:
    """Where summits are that rise by `depth`, as a share of themselves, above the pass to any higher one."""
    lowered = _rebuild(heights * np.float32(1 - depth), heights)
    # A summit that stands out keeps a plateau that nothing around it exceeds: lowered a little, it is not rebuilt.
    return lowered > _rebuild(lowered * np.float32(1 - 1e-4), lowered) * np.float32(1 + 5e-5)


def _rebuild(start: FloatImage, limit: FloatImage) -> FloatImage:
    """The start grown into its neighbours as far as the limit lets it (grey reconstruction)."""
    import cv2

    disk = np.ones((3, 3), np.uint8)
    while True:
        grown = np.minimum(cv2.dilate(start, disk), limit).astype(np.float32, copy=False)
        if np.array_equal(grown, start):
            return grown
        start = grown


def _flood(heights: FloatImage, marks: Labels, piece: BoolImage) -> Labels:
    """Every pixel of the piece to the mark that reaches it first, from the top down; of two at once the later one."""
    import cv2

    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    labels = marks
    top = float(heights.max())
    levels = np.minimum((heights * (LEVELS / top)).astype(np.uint8), LEVELS - 1)
    for level in range(LEVELS - 1, -1, -1):
        allowed = piece & (levels >= level)
        while True:
            fresh = allowed & (labels == 0)
            if not fresh.any():
                break
            grown = np.where(fresh, cv2.dilate(labels, cross), labels).astype(np.uint16, copy=False)
            if np.array_equal(grown, labels):
                break
            labels = grown
    return labels
