"""Copies of single objects: a nucleus, a cell or a grain that stands in the figure twice, turned, mirrored or scaled.

Keypoints miss what is small and smooth. Here every object is compared with every other object of its size, and with
places beside its middle, as one may lie on top of another: first by polar pictures, in which a turn is a shift, then
pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import FloatArray, Match, Matrix, TierName
from handlens.challenges.forgery.detect.geometry.alignment import align, align_many
from handlens.challenges.forgery.detect.geometry.outline import warp_patch
from handlens.challenges.forgery.detect.geometry.points import FEWEST, Points, core, interior, thinned
from handlens.challenges.forgery.detect.tiers.blob_detection import ANGLES, Blob, BlobDetection, polar
from handlens.challenges.forgery.detect.verifier.evidence import compare, measure
from handlens.challenges.forgery.detect.verifier.tier import TIERS, Tier

COMPARED, ALIGNED, ALIGNED_STEPS = 200, 500, 4
"""Pixels of an object that are compared before it is aligned once more, and that are aligned then, in so many steps;
all of them are measured. By hand."""

LOOKS = 64
"""Matches between two looks at the clock. By hand: bounds the time."""

MOSTLY_THERE = 0.8
"""Share of an object that must lie in the figure where its copy is. By hand."""

PEAKS_APART, PEAKS_SEEN = 0.6, 12
"""Radii between two places that are kept for an object, and how many times as many are looked through. By hand."""

ALIGNED_AT_ONCE = 6_000
"""Candidates that are aligned together, between two looks at the clock. By hand: bounds the memory."""

WAVES = 9
"""How many waves around a polar picture are compared: the alignment finds the exact turn. By hand."""

_PHASES = np.exp(-2j * np.pi * np.outer(np.arange(ANGLES), np.arange(1, WAVES + 1)) / ANGLES)
_WAVES = _PHASES.astype(np.complex64)
_BASIS = np.concatenate([_PHASES.real, _PHASES.imag], axis=1).astype(np.float32)
_COSINES, _SINES = (part[: ANGLES // 2 + 1].astype(np.float32) for part in (_PHASES.real, _PHASES.imag))

AT_ONCE = 4_096
"""Pairs of polar pictures that are compared together: what they need fits into a core's cache. By hand."""

CLASS = 1.19
"""Ratio of two neighbouring sizes of objects that are compared together. By hand."""

STEP = 1.12
"""Ratio of two neighbouring sizes at which a place is looked at. By hand."""

LARGEST = 1.33
"""Largest change of size believed, either way: copies are sized by a quarter at most, alignment adds a little. By
hand."""

APART = 1.7
"""Radii between an object and its copy: nearer, a thing that is symmetric in itself looks like two. By hand."""

WAYS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
BESIDE = 0.3
"""Places beside the middle of an object, in radii: a copy is seldom cut out quite like its source. By hand."""

SCALES = (-2, -1, 0, 1, 2)
"""Steps of size between a source and its copy: 0.8 to 1.25."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object and where a copy of it may lie: place, turn, size; `value` is how alike the polar pictures are.

    `margin` is how much more alike they are than at the last of the best places of this object.
    """

    blob: Blob
    x: float
    y: float
    turn: float
    scale: float
    mirrored: bool
    value: float
    margin: float

    def matrix(self) -> Matrix:
        cosine, sine = np.cos(self.turn) * self.scale, np.sin(self.turn) * self.scale
        flip = -1.0 if self.mirrored else 1.0
        linear = np.array([[cosine, -sine * flip], [sine, cosine * flip]])
        return np.column_stack([linear, np.array([self.x, self.y]) - linear @ [self.blob.x, self.blob.y]])


@dataclass(frozen=True, slots=True)
class ObjectFinder:
    """Finds copied objects; lengths are pixels of the canvas."""

    tier: ClassVar[Tier] = TIERS[TierName.OBJECTS]

    detection: BlobDetection = field(default_factory=BlobDetection)
    each: int = 6
    """Candidates kept for each object, direct and mirrored. By hand."""
    candidates: int = 6_000
    """Candidates that are aligned, those with the most similar polar pictures. By hand: bounds the time."""
    promising: float = 0.8
    """Least correlation after the first, rough alignment. By hand."""
    band_pass: float = 0.7
    """Least correlation of their band-pass then; of most copies it is 0.9 and more, under much noise less. By hand."""

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Pairs of alike objects, with evidence; most of them are honest, the decision knows which are not."""
        blobs = self.detection.find(canvas)
        if len(blobs) < 1:
            return []
        candidates = sorted(self._candidates(canvas, blobs, clock), key=lambda found: -found.value)
        inside = cache(lambda blob: interior(blob.patch, canvas.saturated))
        cores = cache(lambda blob: core(canvas, blob.patch, canvas.saturated))
        matches: list[Match] = []
        for start in range(0, min(len(candidates), self.candidates), ALIGNED_AT_ONCE):
            if not self._has_time(clock):
                break
            some = candidates[start : start + ALIGNED_AT_ONCE]
            regions = [inside(candidate.blob) for candidate in some]
            matrices, values = align_many(canvas, regions, [candidate.matrix() for candidate in some])
            for turn, number in enumerate(np.argsort(-values, kind="stable")):  # most alike first: time may run out
                if values[number] < self.promising or (turn % LOOKS == LOOKS - 1 and not self._has_time(clock)):
                    break
                match = self._match(canvas, some[number], regions[number], cores, matrices[number])
                if match is not None:
                    matches.append(match)
        return matches

    def _has_time(self, clock: Clock) -> bool:
        return clock.allows(self.tier.name, share=self.tier.confirm)

    # --- candidates -----------------------------------------------------------------------------------------------

    def _candidates(self, canvas: Canvas, blobs: list[Blob], clock: Clock) -> Iterator[Candidate]:
        radii = np.array([blob.radius for blob in blobs])
        sizes = np.rint(np.log(radii) / np.log(CLASS)).astype(int)
        for size in np.unique(sizes):
            if not clock.allows(self.tier.name, share=self.tier.search):
                return
            sources = [blob for blob, own in zip(blobs, sizes, strict=True) if own == size]
            near = [blob for blob, own in zip(blobs, sizes, strict=True) if abs(own - size) <= 2]
            radius = float(CLASS**size)
            middles = np.array([(blob.x, blob.y) for blob in near], np.float32)
            places = middles[None] + radius * BESIDE * np.array(WAYS, np.float32)[:, None]
            yield from self._alike(canvas, sources, places[..., 0].ravel(), places[..., 1].ravel(), radius)

    def _alike(
        self, canvas: Canvas, sources: list[Blob], x: FloatArray, y: FloatArray, radius: float
    ) -> Iterator[Candidate]:
        """The most alike places of each source, by the waves around polar pictures at several sizes."""
        own = np.array([(blob.x, blob.y, blob.radius) for blob in sources], np.float32)
        first = _waves(polar(canvas.grey, own[:, 0], own[:, 1], own[:, 2]))
        apart = np.hypot(own[:, :1] - x, own[:, 1:2] - y) > APART * own[:, 2:]
        seen = [_waves(polar(canvas.grey, x, y, np.full(len(x), radius * STEP**power, np.float32))) for power in SCALES]
        best = np.full((2, *apart.shape), -1, np.float32)
        best_power = np.zeros(best.shape, np.int8)
        for number, waves in enumerate(seen):
            found = _best_correlations(first, waves)
            better = (found > best) & apart
            best[better], best_power[better] = found[better], number
        for mirrored, values, powers in ((False, best[0], best_power[0]), (True, best[1], best_power[1])):
            for row, blob in enumerate(sources):
                peaks = _peaks(values[row], x, y, PEAKS_APART * blob.radius, self.each)
                for column in peaks:
                    power, alike = int(powers[row, column]), float(values[row, column])
                    turn = _best_turn(first[:, row], seen[power][:, column], mirrored)
                    margin = alike - float(values[row, peaks[-1]])
                    place = float(x[column]), float(y[column])
                    scale = STEP ** SCALES[power]
                    yield Candidate(blob, *place, turn, scale, mirrored, alike, margin)

    # --- matches ----------------------------------------------------------------------------------------------------

    def _match(
        self, canvas: Canvas, candidate: Candidate, points: Points, cores: Callable[[Blob], Points], matrix: Matrix
    ) -> Match | None:
        """The pair aligned with more of its pixels, and measured; None where it is nothing like a copy."""
        blob = candidate.blob
        own = cores(blob)
        if min(len(points), len(own)) < FEWEST:
            return None
        if compare(canvas.band_pass, thinned(own, COMPARED), matrix) < self.band_pass:
            return None
        matrix, found = align(canvas, thinned(points, ALIGNED), matrix, steps=ALIGNED_STEPS)
        if found < self.promising or not self._agrees_where_saturated(canvas, blob, matrix):
            return None
        scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
        place = matrix[:, :2] @ [blob.x, blob.y] + matrix[:, 2]
        gone = np.hypot(place[0] - blob.x, place[1] - blob.y)
        if not 1 / LARGEST < scale < LARGEST or gone < APART * blob.radius * max(1.0, scale):
            return None
        copy = warp_patch(blob.patch, matrix, canvas.shape)
        if copy is None or copy.area < MOSTLY_THERE * scale**2 * blob.area or not canvas.is_free(copy):
            return None
        evidence = measure(canvas, own, matrix) | {"margin": candidate.margin}
        return Match(blob.patch, copy, matrix, self.tier.name, evidence)

    def _agrees_where_saturated(self, canvas: Canvas, blob: Blob, matrix: Matrix) -> bool:
        """Whether an object that is partly too bright to compare is like its copy there too: white must fall on white.

        Saturated pixels prove nothing and are not compared, but where a copy has a hole in its white it is none.
        """
        if not (canvas.saturated[blob.patch.window] & blob.patch.mask).any():
            return True
        return abs(compare(canvas.denoised, interior(blob.patch), matrix)) >= self.promising


def _waves(pictures: FloatArray) -> npt.NDArray[np.complex64]:
    """The waves around polar pictures, from the first on, of unit length: (waves, places, rings)."""
    waves = (pictures.transpose(0, 2, 1) @ _WAVES).transpose(2, 0, 1)
    length = np.sqrt((waves.real**2 + waves.imag**2).sum(axis=(0, 2)))
    return np.ascontiguousarray(waves / np.maximum(length, 1e-3)[:, None], np.complex64)


def _best_correlations(first: npt.NDArray[np.complex64], second: npt.NDArray[np.complex64]) -> FloatArray:
    """For each source and place the highest correlation over all turns: (2, sources, places), as it is and mirrored.

    A turn and the same turn backwards share their cosines, and their sines but for the sign.
    """
    values = np.empty((2, first.shape[1], second.shape[1]), np.float32)
    other = second.transpose(0, 2, 1)
    right = np.ascontiguousarray(other.real), np.ascontiguousarray(other.imag)
    left = np.ascontiguousarray(first.real), np.ascontiguousarray(first.imag)
    step = max(1, AT_ONCE // max(1, second.shape[1]))
    for start in range(0, first.shape[1], step):
        part = slice(start, start + step)
        real, imaginary = (np.matmul(one[:, part], two) for one, two in zip(left, right, strict=True))
        across, back = (np.matmul(one[:, part], two) for one, two in zip(left, right[::-1], strict=True))
        for number, (even, odd) in enumerate(((real + imaginary, across - back), (real - imaginary, across + back))):
            table = _SINES @ odd.reshape(WAVES, -1)
            np.abs(table, out=table)
            table += _COSINES @ even.reshape(WAVES, -1)
            values[number, part] = table.max(axis=0).reshape(values[number, part].shape)
    return values


def _best_turn(first: npt.NDArray[np.complex64], second: npt.NDArray[np.complex64], mirrored: bool) -> float:
    """The turn, in radians, at which two polar pictures are most alike."""
    shared = (first.conj() * (second.conj() if mirrored else second)).sum(axis=1)
    best = int((_BASIS @ np.concatenate([shared.real, shared.imag])).argmax())
    return best * (2 * np.pi / ANGLES) * (-1 if mirrored else 1)  # a mirror turns turns round


def _peaks(values: FloatArray, x: FloatArray, y: FloatArray, apart: float, most: int) -> list[int]:
    """The highest places, none near a higher one."""
    chosen: list[int] = []
    for column in np.argsort(-values)[: PEAKS_SEEN * most]:
        if values[column] <= 0 or len(chosen) == most:
            break
        if all(np.hypot(x[column] - x[other], y[column] - y[other]) > apart for other in chosen):
            chosen.append(int(column))
    return chosen
