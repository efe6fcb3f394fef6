"""The plain solver: key points of a figure matched with its own and with its mirror image's, then verified.

A copy is answered only where many matches agree on one turn, size and shift, and the pixels agree too: a picture
rightly called authentic is worth 1, a false alarm 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.evidence import (
    clean,
    correlate,
    find_marks,
    join_shared,
    parts_holding,
    resize,
    round_out,
)
from handlens.challenges.forgery.objects import ObjectMatching
from handlens.challenges.forgery.score import ORDER
from handlens.images import read_image
from handlens.runs import Runs, encode
from handlens.types import Case, Context, Model

FloatArray = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float64]
ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]

BLOCK = 1_000
"""Rows of the table of similarities held at once: it has as many columns as there are key points."""


@dataclass(frozen=True, slots=True)
class Points:
    """Key points: (N, 2) positions as x, y; sizes; angles in radians; (N, 128) descriptors of length 1."""

    places: FloatArray
    sizes: FloatArray
    angles: FloatArray
    features: FloatArray


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of places (M, 2), and the turn and size that each pair alone suggests."""

    sources: FloatArray
    targets: FloatArray
    turns: FloatArray
    scales: FloatArray

    def take(self, chosen: BoolArray) -> Matches:
        return Matches(self.sources[chosen], self.targets[chosen], self.turns[chosen], self.scales[chosen])


@dataclass(frozen=True, slots=True)
class SelfMatching:
    """SIFT against itself and its mirror image. Lengths are pixels of the working picture."""

    working_side: int = 1024
    """Longer side that pictures are brought to: larger ones cost time, smaller ones have too few key points."""
    enlargement: float = 4.0
    """Most a small picture is enlarged: beyond, interpolation adds key points but nothing new."""
    smoothing: float = 1.0
    """Blur of the working picture: key points of camera noise crowd out those that a turned copy keeps."""
    contrast: float = 0.004
    """SIFT's contrast threshold, a tenth of its default: nuclei are smooth."""
    keypoints: int = 4_000
    """Strongest key points kept: time and memory grow with their square."""
    ratio: float = 0.75
    """A match is at most this much of the distance to the next candidate: lower is stricter."""
    displacement: float = 24.0
    """Nearest that a copy can be to its source: nearer, key points match because they share pixels."""
    most_matches: int = 1_500
    """Closest matches kept: the vote compares each with each."""
    tolerance: float = 3.0
    """How far a match may be from the place the transform says: 1 to 2 pixels of a small original."""
    inliers: int = 8
    """Fewest matches that must agree: unrelated textures reach 4 to 6."""
    largest_scale: float = 1.6
    """Largest change of size believed, either way: real copies stay within 1.25."""
    groups: int = 6
    """Most transforms looked for, direct and mirrored each."""
    window: int = 11
    """Side of the window in which pixels are correlated: a few grains of texture."""
    agreement: float = 0.6
    """Correlation from which a pixel counts as copied: JPEG and resampling lower it, chance stays under 0.5."""
    overall: float = 0.7
    """Mean correlation a whole region must reach."""
    smallest: int = 300
    """Fewest pixels of a region that is answered."""
    objects: ObjectMatching = field(default_factory=ObjectMatching)
    """What looks for copies too small and smooth for key points."""
    object_side: int = 1600
    """Longer side of the picture in which objects are compared; smaller pictures are not enlarged."""

    def prepare(self, _context: Context, /) -> Model:
        """Nothing is learned: the model is this recipe's `answer`."""
        return self.answer

    def answer(self, case: Case, /) -> tuple[Runs, ...]:
        """One mask for each group of copies, source and copies together; none is `authentic`."""
        import cv2

        cv2.setRNGSeed(0)  # the same case gets the same answer, whatever was answered before
        picture = read_image(case.path)
        shape = (picture.shape[0], picture.shape[1])
        masks = [resize(mask, shape) for mask in self._find_regions(picture)]
        masks += [resize(mask, shape) for mask in self._find_objects(picture)]
        return tuple(encode(mask, order=ORDER) for mask in join_shared(masks) if mask.any())

    def _find_regions(self, picture: AnyArray) -> list[BoolArray]:
        opened = self._open(picture)
        return join_shared(list(self._find(*opened))) if opened else []

    def _find_objects(self, picture: AnyArray) -> list[BoolArray]:
        factor = min(1.0, self.object_side / max(picture.shape[:2]))
        grey = _to_grey(picture, factor)
        marks = find_marks(grey, _white(picture), max(grey.shape) // 16)
        return self.objects.find(grey, marks)

    # --- the picture ------------------------------------------------------------------------------------------

    def _open(self, picture: AnyArray) -> tuple[ByteArray, BoolArray] | None:
        """The picture grey, stretched and at working size, and its marks; None where it is tiny or flat."""
        import cv2

        factor = min(self.working_side / max(picture.shape[:2]), self.enlargement)
        if min(picture.shape[:2]) * factor < 4 * self.window:
            return None
        grey = _to_grey(picture, factor)
        low, high = np.percentile(grey, [0.5, 99.8])
        if high - low < 2:  # not two grey levels: rounding errors, nothing to see
            return None
        marks = find_marks(grey, _white(picture), self.working_side // 16)
        stretched = np.clip((grey - low) * (255 / (high - low)), 0, 255)
        smooth = cv2.GaussianBlur(stretched.astype(np.float32), (0, 0), self.smoothing)
        return np.asarray(smooth, np.uint8), marks

    def _describe(self, picture: ByteArray, marks: BoolArray) -> Points:
        """Key points outside the marks with RootSIFT features."""
        import cv2

        sift = cv2.SIFT.create(nfeatures=self.keypoints, contrastThreshold=self.contrast)
        found, features = sift.detectAndCompute(picture, (~marks).astype(np.uint8))
        if features is None or not len(found):
            nothing = np.zeros((0, 2), np.float32)
            return Points(nothing, nothing[:, 0], nothing[:, 0], np.zeros((0, 128), np.float32))
        found, features = found[: self.keypoints], features[: self.keypoints]
        features = np.sqrt(features / np.maximum(features.sum(axis=1, keepdims=True), 1e-6))
        return Points(
            np.array([point.pt for point in found], np.float32),
            np.array([point.size for point in found], np.float32),
            np.deg2rad(np.array([point.angle for point in found], np.float32)),
            features.astype(np.float32),
        )

    # --- matches and transforms -------------------------------------------------------------------------------

    def _find(self, picture: ByteArray, marks: BoolArray) -> Iterator[BoolArray]:
        """Masks of verified copies, each with its source; direct ones first, then mirrored ones."""
        points = self._describe(picture, marks)
        last = picture.shape[1] - 1
        mirror = np.array([[-1.0, 0.0, last], [0.0, 1.0, 0.0]])
        mirrored = self._describe(np.ascontiguousarray(picture[:, ::-1]), marks[:, ::-1])
        for others, back in ((points, np.eye(2, 3)), (mirrored, mirror)):
            matches = self._match(points, others, back)
            for transform, inliers in self._transforms(matches):
                full = _after(back, transform)
                mask = self._verify(picture, marks, full, inliers)
                if mask is not None:
                    yield mask

    def _match(self, points: Points, others: Points, back: Matrix) -> Matches:
        """Pairs that are clearly closer than the next candidate; two may be equally close, as of two copies.

        `back` brings the places of `others` to the picture, where pairs must lie apart.
        """
        seen = (others.places @ back[:, :2].T + back[:, 2]).astype(np.float32)
        pairs: list[tuple[IntArray, IntArray, FloatArray]] = []
        for start in range(0, len(points.places), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(points.places)))
            near = _near(points.places[rows], seen, self.displacement)
            distances, columns = _closest(points.features[rows], others.features, near)
            first = distances[:, 0] < self.ratio * distances[:, 1]
            both = ~first & (distances[:, 1] < self.ratio * distances[:, 2])
            for rank, chosen in ((0, first | both), (1, both)):
                pairs.append((rows[chosen], columns[chosen, rank], distances[chosen, rank]))
        if not pairs:
            pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
        left, right, distance = (np.concatenate(each) for each in zip(*pairs, strict=True))
        best = np.argsort(distance, kind="stable")[: self.most_matches]
        left, right = left[best], right[best]
        return Matches(
            points.places[left],
            others.places[right],
            others.angles[right] - points.angles[left],
            others.sizes[right] / points.sizes[left],
        )

    def _transforms(self, matches: Matches) -> Iterator[tuple[Matrix, Matches]]:
        """Transforms that enough matches agree on, the one with most votes first, and those matches."""
        import cv2

        for _group in range(self.groups):
            if len(matches.sources) < self.inliers:
                return
            agreeing = self._vote(matches)
            if agreeing.sum() < self.inliers:
                return
            some = matches.take(agreeing)
            transform, _inside = cv2.estimateAffinePartial2D(
                some.sources, some.targets, ransacReprojThreshold=self.tolerance
            )
            if transform is not None:
                matrix = np.asarray(transform, np.float64)
                errors = np.linalg.norm(_moved(matches.sources, matrix) - matches.targets, axis=1)
                fitting = errors < self.tolerance
                scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
                if 1 / self.largest_scale < scale < self.largest_scale and self._enough(matches.take(fitting)):
                    yield matrix, matches.take(fitting)
                agreeing |= fitting
            matches = matches.take(~agreeing)

    def _vote(self, matches: Matches) -> BoolArray:
        """The matches that agree with the match most others agree with; a match alone fixes a transform."""
        best = np.zeros(len(matches.sources), np.bool_)
        for start in range(0, len(matches.sources), BLOCK):
            rows = slice(start, start + BLOCK)
            steps = matches.sources[None, :, :] - matches.sources[rows, None, :]
            turned = _turned(steps, matches.turns[rows], matches.scales[rows])
            errors = np.linalg.norm(matches.targets[rows, None, :] + turned - matches.targets[None, :, :], axis=2)
            # turn and size of one match are rough, so the error allowed grows with the distance
            agree = errors < self.tolerance + 0.08 * np.linalg.norm(steps, axis=2)
            agree &= np.linalg.norm(steps, axis=2) < self.working_side / 3
            winner = agree[int(agree.sum(axis=1).argmax())]
            best = winner if winner.sum() > best.sum() else best
        return best

    def _enough(self, matches: Matches) -> bool:
        """Whether matches at different places suffice: one place often gives several key points."""
        for places in (matches.sources, matches.targets):
            if len(np.unique(np.rint(places / 3), axis=0)) < self.inliers:
                return False
        return True

    # --- pixels -----------------------------------------------------------------------------------------------

    def _verify(self, picture: ByteArray, marks: BoolArray, transform: Matrix, inliers: Matches) -> BoolArray | None:
        """The source and the copy where warped pixels agree around the inliers; None where they do not."""
        import cv2

        size = (picture.shape[1], picture.shape[0])
        grey = picture.astype(np.float32)
        warped = np.asarray(cv2.warpAffine(grey, transform, size, flags=cv2.INTER_LINEAR), np.float32)
        covered = cv2.warpAffine((~marks).astype(np.uint8), transform, size) > 0
        likeness = correlate(grey, warped, self.window)
        likeness[~covered | marks] = 0
        agreed = clean(likeness > self.agreement, self.window)
        places = np.rint(_moved(inliers.sources, transform)).astype(int)
        copy = parts_holding(agreed, places)
        if copy.sum() < self.smallest or likeness[copy].mean() < self.overall:
            return None
        copy = round_out(copy, likeness > self.agreement, grey, warped, self.window)
        source = np.asarray(
            cv2.warpAffine(copy.astype(np.uint8), cv2.invertAffineTransform(transform), size) > 0, np.bool_
        )
        if (source & copy).sum() > 0.1 * copy.sum():  # a texture that repeats, not a copy
            return None
        return source | copy


def _to_grey(picture: AnyArray, factor: float) -> FloatArray:
    """Grey and resized; a large picture is made small first, for in floats it would fill the memory."""
    import cv2

    size = (max(1, round(picture.shape[1] * factor)), max(1, round(picture.shape[0] * factor)))
    if factor < 1:
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    grey = picture.astype(np.float32)
    if grey.ndim == 3:
        grey = grey[:, :, :3] @ np.array([0.299, 0.587, 0.114], np.float32)
    if factor > 1:
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_CUBIC), np.float32)
    return grey


def _white(picture: AnyArray) -> float:
    return 255.0 if picture.dtype == np.uint8 else 65535.0


def _near(places: FloatArray, others: FloatArray, distance: float) -> BoolArray:
    across = places[:, None, 0] - others[None, :, 0]
    down = places[:, None, 1] - others[None, :, 1]
    return np.asarray(across * across + down * down < distance * distance)


def _closest(features: FloatArray, others: FloatArray, near: BoolArray) -> tuple[FloatArray, IntArray]:
    """Distances and numbers of the three closest features, near ones left out; (rows, 3) each."""
    table = features @ others.T
    table[near] = -1
    rows = np.arange(len(table))
    distances, columns = np.zeros((len(table), 3), np.float32), np.zeros((len(table), 3), np.int64)
    for rank in range(3):
        columns[:, rank] = table.argmax(axis=1)
        likeness = table[rows, columns[:, rank]]
        distances[:, rank] = np.sqrt(np.maximum(2 - 2 * likeness, 1e-9))
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


RECIPE = SelfMatching()
