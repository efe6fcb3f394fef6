"""Keypoints of a figure that match its own keypoints elsewhere, or mirrored: regions with texture, of any shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, IntArray, Match, Matrix, TierName
from handlens.challenges.forgery.detect.geometry.outline import inverse
from handlens.challenges.forgery.detect.geometry.region_growing import RegionGrowing
from handlens.challenges.forgery.detect.verifier.tier import TIERS, Tier

BLOCK = 1_000
"""Rows of the table of similarities held at once: it has as many columns as there are keypoints. By hand: bounds the
memory."""

SMALLEST_SIDE = 48
"""Pixels of the shorter side of a working picture that can be searched. By hand."""

ROUGH, NEIGHBOURHOOD = 0.08, 3
"""Error of a pair's turn and scale, which are rough, as a share of the distance from it; and what part of the working
side, one over this, others may be away that are asked. By hand."""

SAME_PLACE = 3
"""Pixels within which two keypoints are at one place. By hand."""

CELLS, ORIENTATIONS, LENGTH = 4, 8, 128
"""Rule: a SIFT descriptor is 4 x 4 cells of 8 orientations."""


@dataclass(frozen=True, slots=True)
class Keypoints:
    """Keypoints: (N, 2) positions as x, y; sizes; angles in radians; (N, 128) descriptors of length 1."""

    places: FloatArray
    sizes: FloatArray
    angles: FloatArray
    descriptors: FloatArray


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of places (M, 2), and the turn and size that each pair alone suggests."""

    sources: FloatArray
    targets: FloatArray
    turns: FloatArray
    scales: FloatArray

    def take(self, chosen: BoolArray) -> Pairs:
        return Pairs(self.sources[chosen], self.targets[chosen], self.turns[chosen], self.scales[chosen])


@dataclass(frozen=True, slots=True)
class KeypointFinder:
    """RootSIFT against itself and its mirror image. Lengths are pixels of the working picture."""

    tier: ClassVar[Tier] = TIERS[TierName.KEYPOINTS]

    working_side: int = 1024
    """Longer side that pictures are brought to: larger ones cost time, smaller ones have too few keypoints. By hand."""
    enlargement: float = 2.0
    """Most a small picture is enlarged. SIFT doubles it again: at 4 a few more copies are found, in twice the time. By
    hand."""
    smoothing: float = 1.0
    """Blur of the working picture, by its enlargement less, which blurs too: keypoints of camera noise crowd out those
    that a turned copy keeps. By hand."""
    contrast: float = 0.004
    """SIFT's contrast threshold, a tenth of its default: nuclei are smooth. By hand."""
    keypoints: int = 4_000
    """Strongest keypoints kept: time and memory grow with their square. By hand: bounds the time."""
    ratio: float = 0.75
    """A match is at most this much of the distance to the next candidate: lower is stricter. By hand, near
    Lowe's 0.8."""
    displacement: float = 24.0
    """Nearest that a copy can be to its source: nearer, keypoints match because they share pixels. By hand."""
    most_matches: int = 1_500
    """Closest matches kept: the vote compares each with each, both ways. By hand: bounds the time."""
    tolerance: float = 3.0
    """How far a match may be from the place the transform says: 1 to 2 pixels of a small original. By hand."""
    inliers: int = 4
    """Fewest matches that must agree: unrelated textures reach 4 to 6, and are told apart by their pixels. By hand."""
    smallest: int = 160
    """Fewest pixels of a region on the canvas: JPEG makes smaller ones of bare ground alike. By hand."""
    largest_scale: float = 1.8
    """Largest change of size believed, either way. By hand."""
    groups: int = 8
    """Most transforms looked for, direct and mirrored each. By hand: bounds the time."""
    growing: RegionGrowing = field(default_factory=RegionGrowing)
    """How the region around the matches is found."""

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Regions whose keypoints lie elsewhere again, and whose pixels agree, direct ones first."""
        factor = min(self.working_side / max(canvas.shape), self.enlargement)
        if min(canvas.shape) * factor < SMALLEST_SIDE:
            return []
        points = self._describe(canvas, factor)
        width = round(canvas.shape[1] * factor) - 1
        mirror = np.array([[-1.0, 0.0, width], [0.0, 1.0, 0.0]])
        matches: list[Match] = []
        for others, back in ((points, np.eye(2, 3)), (mirrored(points, width), mirror)):
            pairs = self._pair(points, others, back)
            for transform, inliers in self._transforms(pairs, back):
                if not clock.allows(self.tier.name, share=self.tier.confirm):
                    return matches
                full = to_canvas(_after(back, transform), factor)
                places = (_moved(inliers.sources, _after(back, transform)) + 0.5) / factor - 0.5
                found = self.growing.grow(canvas, full, np.rint(places).astype(np.int64))
                if found is not None and min(found[0].area, found[1].area) >= self.smallest:
                    matches.append(Match(*found, self.tier.name, {"inliers": float(len(places))}))
        return matches

    def _describe(self, canvas: Canvas, factor: float) -> Keypoints:
        """Keypoints outside the blocked pixels with RootSIFT descriptors."""
        size = (round(canvas.shape[1] * factor), round(canvas.shape[0] * factor))
        method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        blur = self.smoothing / max(1.0, factor)
        picture = cv2.GaussianBlur(cv2.resize(canvas.grey, size, interpolation=method), (0, 0), blur)
        free = cv2.resize((~canvas.blocked).astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
        sift = cv2.SIFT.create(nfeatures=self.keypoints, contrastThreshold=self.contrast)
        found, descriptors = sift.detectAndCompute(np.clip(picture, 0, 255).astype(np.uint8), free)
        if descriptors is None or not len(found):
            nothing = np.zeros((0, 2), np.float32)
            return Keypoints(nothing, nothing[:, 0], nothing[:, 0], np.zeros((0, LENGTH), np.float32))
        found, descriptors = found[: self.keypoints], descriptors[: self.keypoints]
        descriptors = np.sqrt(descriptors / np.maximum(descriptors.sum(axis=1, keepdims=True), 1e-6))
        return Keypoints(
            np.array([point.pt for point in found], np.float32),
            np.array([point.size for point in found], np.float32),
            np.deg2rad(np.array([point.angle for point in found], np.float32)),
            descriptors.astype(np.float32),
        )

    # --- matches and transforms -------------------------------------------------------------------------------

    def _pair(self, points: Keypoints, others: Keypoints, back: Matrix) -> Pairs:
        """Pairs that are clearly closer than the next candidate; two may be equally close, as of two copies.

        `back` brings the places of `others` to the picture, where pairs must lie apart.
        """
        seen = (others.places @ back[:, :2].T + back[:, 2]).astype(np.float32)
        pairs: list[tuple[IntArray, IntArray, FloatArray]] = []
        for start in range(0, len(points.places), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(points.places)))
            near = _near(points.places[rows], seen, self.displacement)
            distances, columns = _closest(points.descriptors[rows], others.descriptors, near)
            first = distances[:, 0] < self.ratio * distances[:, 1]
            both = ~first & (distances[:, 1] < self.ratio * distances[:, 2])
            for rank, chosen in ((0, first | both), (1, both)):
                pairs.append((rows[chosen], columns[chosen, rank], distances[chosen, rank]))
        if not pairs:
            pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
        left, right, distance = (np.concatenate(each) for each in zip(*pairs, strict=True))
        best = np.argsort(distance, kind="stable")[: self.most_matches]
        left, right = np.unique(np.concatenate([[left[best], right[best]], [right[best], left[best]]], axis=1), axis=1)
        return Pairs(
            points.places[left],
            others.places[right],
            others.angles[right] - points.angles[left],
            others.sizes[right] / points.sizes[left],
        )

    def _transforms(self, pairs: Pairs, back: Matrix) -> Iterator[tuple[Matrix, Pairs]]:
        """Transforms that enough pairs agree on, the one with most votes first, and those pairs.

        Pairs are there both ways; of a transform and its inverse one is given.
        """
        for _group in range(self.groups):
            if len(pairs.sources) < self.inliers:
                return
            agreeing = self._vote(pairs)
            if agreeing.sum() < self.inliers:
                return
            some = pairs.take(agreeing)
            transform, _inside = cv2.estimateAffinePartial2D(
                some.sources, some.targets, ransacReprojThreshold=self.tolerance
            )
            if transform is not None:
                matrix = np.asarray(transform, np.float64)
                fitting = self._fitting(pairs, matrix)
                backwards = self._fitting(pairs, _after(back, _after(inverse(matrix), back)))
                inliers = pairs.take(fitting)
                if (fitting & backwards).sum() > fitting.sum() / 2:  # a half turn, or a mirror, is its own inverse
                    inliers = _one_side(inliers, back)
                scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
                if 1 / self.largest_scale < scale < self.largest_scale and self._enough(inliers):
                    yield matrix, inliers
                agreeing |= fitting | backwards
            pairs = pairs.take(~agreeing)

    def _fitting(self, pairs: Pairs, matrix: Matrix) -> BoolArray:
        """The pairs that the transform brings together."""
        errors = np.linalg.norm(_moved(pairs.sources, matrix) - pairs.targets, axis=1)
        return np.asarray(errors < self.tolerance)

    def _vote(self, pairs: Pairs) -> BoolArray:
        """The pairs that agree with the pair most others agree with; a pair alone fixes a transform."""
        best = np.zeros(len(pairs.sources), np.bool_)
        for start in range(0, len(pairs.sources), BLOCK):
            rows = slice(start, start + BLOCK)
            steps = pairs.sources[None, :, :] - pairs.sources[rows, None, :]
            turned = _turned(steps, pairs.turns[rows], pairs.scales[rows])
            errors = np.linalg.norm(pairs.targets[rows, None, :] + turned - pairs.targets[None, :, :], axis=2)
            length = np.linalg.norm(steps, axis=2)
            agree = (errors < self.tolerance + ROUGH * length) & (length < self.working_side / NEIGHBOURHOOD)
            winner = agree[int(agree.sum(axis=1).argmax())]
            best = winner if winner.sum() > best.sum() else best
        return best

    def _enough(self, pairs: Pairs) -> bool:
        """Whether pairs at different places suffice: one place often gives several keypoints."""
        for places in (pairs.sources, pairs.targets):
            if len(np.unique(np.rint(places / SAME_PLACE), axis=0)) < self.inliers:
                return False
        return True


def _one_side(pairs: Pairs, back: Matrix) -> Pairs:
    """Of pairs that are there both ways those whose source lies where that of the longest pair does."""
    there = _moved(pairs.targets, back)
    longest = int(np.linalg.norm(pairs.sources - there, axis=1).argmax())
    near, far = (np.linalg.norm(pairs.sources - place, axis=1) for place in (pairs.sources[longest], there[longest]))
    return pairs.take(near < far)


def mirrored(points: Keypoints, width: float) -> Keypoints:
    """The keypoints that the picture's mirror image has: the same ones, their descriptors turned over."""
    places = points.places.copy()
    places[:, 0] = width - places[:, 0]
    backwards = -np.arange(ORIENTATIONS) % ORIENTATIONS
    grid = points.descriptors.reshape(-1, CELLS, CELLS, ORIENTATIONS)[:, ::-1, :, backwards]
    return Keypoints(places, points.sizes, np.pi - points.angles, np.ascontiguousarray(grid.reshape(-1, LENGTH)))


def _near(places: FloatArray, others: FloatArray, distance: float) -> BoolArray:
    across = places[:, None, 0] - others[None, :, 0]
    down = places[:, None, 1] - others[None, :, 1]
    across *= across
    down *= down
    across += down
    return np.asarray(across < distance * distance)


def _closest(descriptors: FloatArray, others: FloatArray, near: BoolArray) -> tuple[FloatArray, IntArray]:
    """Distances and numbers of the three closest descriptors, near ones left out; (rows, 3) each."""
    table = descriptors @ others.T
    table[near] = -1
    rows = np.arange(len(table))
    distances, columns = np.zeros((len(table), 3), np.float32), np.zeros((len(table), 3), np.int64)
    for rank in range(3):
        columns[:, rank] = table.argmax(axis=1)
        cosine = table[rows, columns[:, rank]]
        distances[:, rank] = np.sqrt(np.maximum(2 - 2 * cosine, 1e-9))
        table[rows, columns[:, rank]] = -1
    return distances, columns


def _turned(steps: FloatArray, turns: FloatArray, scales: FloatArray) -> FloatArray:
    cosine, sine = (scales * np.cos(turns))[:, None], (scales * np.sin(turns))[:, None]
    x, y = steps[:, :, 0], steps[:, :, 1]
    return np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=2)


def _moved(places: FloatArray, matrix: Matrix) -> Matrix:
    return np.asarray(places @ matrix[:, :2].T + matrix[:, 2])


def _after(second: Matrix, first: Matrix) -> Matrix:
    """One transform for two: `first`, then `second`."""
    return np.column_stack([second[:, :2] @ first[:, :2], second[:, :2] @ first[:, 2] + second[:, 2]])


def to_canvas(matrix: Matrix, factor: float) -> Matrix:
    """A transform of the working picture in pixels of the canvas."""
    shift = 0.5 * (1 / factor - 1)
    linear = matrix[:, :2]
    return np.column_stack([linear, matrix[:, 2] / factor + shift - linear @ np.array([shift, shift])])
