"""The exact outline of a region and of its copy."""

from __future__ import annotations

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import BoolArray, Matrix, Patch
from handlens.types import Shape


def warp_patch(patch: Patch, matrix: Matrix, shape: Shape) -> Patch | None:
    """Where a transform brings a region, cut at the border of the picture; None where nothing is left."""
    height, width = patch.mask.shape
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]]) + np.array([patch.left, patch.top]) - 0.5
    there = corners @ matrix[:, :2].T + matrix[:, 2]
    left, top = np.maximum(np.floor(there.min(axis=0)).astype(int) - 1, 0)
    right, bottom = np.minimum(np.ceil(there.max(axis=0)).astype(int) + 2, [shape[1], shape[0]])
    if right <= left or bottom <= top:
        return None
    local = np.array(matrix, np.float64)
    local[:, 2] += matrix[:, :2] @ [patch.left, patch.top] - [left, top]
    size = (int(right - left), int(bottom - top))
    mask = cv2.warpAffine(patch.mask.astype(np.float32), local, size, flags=cv2.INTER_LINEAR) > 0.5
    return trimmed(int(top), int(left), np.asarray(mask, np.bool_))


def inverse(matrix: Matrix) -> Matrix:
    """The transform back."""
    return np.asarray(cv2.invertAffineTransform(np.asarray(matrix, np.float64)), np.float64)


def trimmed(top: int, left: int, mask: BoolArray) -> Patch | None:
    """A region without empty margins; None where the mask is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    inner = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Patch(top + int(rows[0]), left + int(columns[0]), np.ascontiguousarray(inner))


def solidity(patch: Patch) -> float:
    """The share of its convex hull that a region fills, up to 1: a copy is cut out in one piece; scraps are chance."""
    outlines, _ = cv2.findContours(patch.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not outlines:
        return 0.0
    edge = np.concatenate(outlines)[:, 0].astype(np.float32)
    corners = np.concatenate([edge + step for step in ((-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5))])
    return min(1.0, patch.area / float(cv2.contourArea(cv2.convexHull(corners.astype(np.float32)))))


def deepest(patch: Patch, *, deep: int, side: int, most: int) -> list[Patch]:
    """Squares of `side` pixels around the places of a region that lie deepest in it, at least `deep`, and apart."""
    left, found = np.pad(patch.mask, 1).astype(np.uint8), list[Patch]()
    while len(found) < most:
        depth = cv2.distanceTransform(left, cv2.DIST_L2, 3)
        row, column = (int(place) for place in np.unravel_index(int(depth.argmax()), depth.shape))
        if depth[row, column] < deep:
            break
        top, start = patch.top + row - 1 - side // 2, patch.left + column - 1 - side // 2
        found.append(Patch(top, start, np.ones((side, side), np.bool_)))
        left[max(0, row - side) : row + side, max(0, column - side) : column + side] = 0
    return found
