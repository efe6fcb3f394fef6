"""Whether a picture looks like a photograph of skin at all: how far its colours and textures are from those learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
import numpy.typing as npt

from handlens.settings import Settings

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

SIDE = 128
PROTOTYPES = 200
USUAL = 0.99
"""Share of training photographs that is within the threshold: one in a hundred is warned about without need."""

FIELD = "domain"
"""Where the plan of a model has it."""

WARNING = (
    "this does not look like the photographs of skin lesions that the model was trained on: its answer means nothing "
    "unless it is one"
)


class LesionsDomain(Settings, frozen=True, kw_only=True):
    """Typical photographs as points among statistics that are scaled to be independent, and how near is usual.

    `centre` and `whitening` bring statistics to that space; `prototypes` are the means of clusters there.
    """

    centre: list[float]
    whitening: list[list[float]]
    prototypes: list[list[float]]
    threshold: float

    def distance(self, picture: Bytes) -> float:
        """How far an (H, W, 3) picture is from the nearest prototype."""
        return float(_nearest(self._points(statistics(picture)[None]), np.array(self.prototypes))[0])

    def warnings(self, picture: Bytes) -> tuple[str, ...]:
        """A sentence where the picture is of another kind."""
        return (WARNING,) if self.distance(picture) > self.threshold else ()

    def _points(self, found: Floats) -> Floats:
        return np.asarray((found - np.array(self.centre)) @ np.array(self.whitening), np.float64)


def fit_domain(pictures: Sequence[Bytes], *, seed: int = 0) -> LesionsDomain:
    """The domain of some photographs; half of them make the prototypes, the other half the threshold."""
    order = np.random.default_rng(seed).permutation(len(pictures))
    found = np.stack([statistics(pictures[index]) for index in order])
    centre, spread = found.mean(axis=0), found.std(axis=0) + 1e-6
    shared = np.cov(((found - centre) / spread).T) + 0.02 * np.eye(found.shape[1])
    values, vectors = np.linalg.eigh(shared)
    whitening = vectors / np.sqrt(values) / spread[:, None]
    points = (found - centre) @ whitening
    one, other = points[::2], points[1::2] if len(points) > 1 else points
    prototypes = _clusters(one, min(PROTOTYPES, len(one)), seed)
    threshold = float(np.quantile(_nearest(other, prototypes), USUAL))
    return LesionsDomain(
        centre=_rounded(centre),
        whitening=[_rounded(row) for row in whitening],
        prototypes=[_rounded(row) for row in prototypes],
        threshold=round(threshold, 3),
    )


def statistics(picture: Bytes) -> Floats:
    """(16,) numbers: colour ratios, lightness, details of four sizes, white, black, and colour against light."""
    small = np.asarray(cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32) / 255
    red, green, blue = (np.log(small[:, :, channel] + 0.05) for channel in range(3))
    warm, cool = red - green, blue - green
    light = small.mean(axis=2)
    dark = np.log(light + 0.05)
    blurred = [light, *(cv2.GaussianBlur(light, (0, 0), sigma) for sigma in (1.0, 4.0, 12.0))]
    details = [fine - coarse for fine, coarse in pairwise(blurred)] + [blurred[-1]]
    together = float(np.cov(dark.ravel(), cool.ravel())[0, 1] / (dark.std() * cool.std() + 1e-4))
    return np.array(
        [
            warm.mean(),
            cool.mean(),
            np.log(warm.std() + 0.01),
            np.log(cool.std() + 0.01),
            np.percentile(warm, 5),
            np.percentile(cool, 5),
            np.percentile(cool, 95),
            dark.mean(),
            np.log(dark.std() + 0.01),
            *(np.log(part.std() + 0.002) for part in details),
            (light > 0.92).mean(),
            (light < 0.08).mean(),
            together,
        ],
        np.float64,
    )


def _nearest(points: Floats, prototypes: Floats) -> Floats:
    """The distance of each point to the nearest prototype."""
    squares = (points**2).sum(1)[:, None] + (prototypes**2).sum(1)[None] - 2 * points @ prototypes.T
    return np.asarray(np.sqrt(np.maximum(squares.min(axis=1), 0)), np.float64)


def _clusters(points: Floats, count: int, seed: int) -> Floats:
    cv2.setRNGSeed(seed)
    stop = (cv2.TERM_CRITERIA_MAX_ITER, 30, 0.0)
    _, _, centres = cv2.kmeans(points.astype(np.float32), count, np.array([]), stop, 1, cv2.KMEANS_PP_CENTERS)
    return np.asarray(centres, np.float64)


def _rounded(values: Floats) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
