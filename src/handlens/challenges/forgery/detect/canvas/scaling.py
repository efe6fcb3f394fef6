"""From pixels of the canvas to pixels of the figure: all that is needed of a canvas once its matches are found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import Group, Match, Matrix, Patch
from handlens.types import Shape


@dataclass(frozen=True, slots=True)
class Scaling:
    """`figure` is the shape of the figure, `factor` canvas pixels for one figure pixel."""

    figure: Shape
    factor: float

    def patch_to_figure(self, patch: Patch) -> Patch:
        """The same region in pixels of the figure."""
        if self.factor == 1:
            return patch
        (height, width), scale = patch.mask.shape, 1 / self.factor
        top, left = int(patch.top * scale), int(patch.left * scale)
        bottom = min(self.figure[0], int(np.ceil((patch.top + height) * scale)))
        right = min(self.figure[1], int(np.ceil((patch.left + width) * scale)))
        rows, columns = np.arange(top, bottom) + 0.5, np.arange(left, right) + 0.5
        y = (rows * self.factor - 0.5 - patch.top).astype(np.float32)
        x = (columns * self.factor - 0.5 - patch.left).astype(np.float32)
        grid = np.meshgrid(x, y)
        mask = cv2.remap(patch.mask.astype(np.float32), grid[0], grid[1], cv2.INTER_LINEAR)
        return Patch(top, left, np.asarray(mask > 0.5))

    def matrix_to_figure(self, matrix: Matrix) -> Matrix:
        """The same transform in pixels of the figure; pixel centres lie at whole numbers in both."""
        shift = 0.5 * (1 / self.factor - 1)
        linear = matrix[:, :2]
        move = matrix[:, 2] / self.factor + shift - linear @ np.array([shift, shift])
        return np.column_stack([linear, move])

    def match_to_figure(self, match: Match) -> Match:
        """The same match in pixels of the figure."""
        source, copy = self.patch_to_figure(match.source), self.patch_to_figure(match.copy)
        return replace(match, source=source, copy=copy, matrix=self.matrix_to_figure(match.matrix))

    def group_to_figure(self, found: Group) -> Group:
        """The same group in pixels of the figure."""
        return replace(found, matches=tuple(self.match_to_figure(match) for match in found.matches))
