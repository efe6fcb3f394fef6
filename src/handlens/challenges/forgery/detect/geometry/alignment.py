"""Many supposed copies aligned at once: one call to the picture for all of them costs a tenth of one call for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, Matrix
from handlens.challenges.forgery.detect.geometry.points import HOPELESS, LARGEST_STEP, Points, sample, thinned

TAKEN = 128
"""Pixels of each region that are compared."""

KEPT = {1: 2_400, 2: 1_600, 3: 1_200, 5: 600}
"""How many alignments, the most alike ones, are gone on with after so many steps."""

STEPS = 12
"""Steps of the alignment; most have arrived after four."""

FloatTable = npt.NDArray[np.float64]


def align_many(
    canvas: Canvas, regions: Sequence[Points], matrices: Sequence[Matrix]
) -> tuple[list[Matrix], FloatArray]:
    """For each region the similarity near its matrix under which it is most alike to its copy, and how alike it is."""
    if not regions:
        return [], np.zeros(0, np.float32)
    batch = _Batch(canvas, regions, np.stack(matrices))
    for step in range(STEPS):
        if step in KEPT:
            batch.keep(KEPT[step])
        if not batch.active.any():
            break
        batch.improve(canvas)
    return list(batch.matrices()), batch.best


class _Batch:
    """The state of many alignments: two numbers for turn and size, two for the place, each row its own region."""

    def __init__(self, canvas: Canvas, regions: Sequence[Points], matrices: FloatTable) -> None:
        some = [_exactly(points, TAKEN) for points in regions]
        self.middles = np.array([points.middle for points in regions])
        self.reaches = np.array([points.reach for points in regions])
        x, y = np.stack([each[0] for each in some]), np.stack([each[1] for each in some])
        self.source = canvas.grey[y.astype(int), x.astype(int)]
        self.source = self.source - self.source.mean(axis=1, keepdims=True)
        self.u = ((x - self.middles[:, :1]) / self.reaches[:, None]).astype(np.float32)
        self.v = ((y - self.middles[:, 1:]) / self.reaches[:, None]).astype(np.float32)
        self.sides = np.where(np.linalg.det(matrices[:, :, :2]) < 0, -1.0, 1.0)
        self.state = self._to_state(matrices)
        self.active = np.ones(len(regions), np.bool_)
        self.damping = np.ones(len(regions))
        rows = np.arange(len(regions))
        self.here = self._look(canvas, self.state, rows)
        self.best = self._alike(self.here, rows)

    def keep(self, most: int) -> None:
        """Give up all but the most alike, and those that are hopeless."""
        alive = np.flatnonzero(self.active & (self.best > HOPELESS[1]))
        self.active[:] = False
        self.active[alive[np.argsort(-self.best[alive], kind="stable")[:most]]] = True

    def improve(self, canvas: Canvas) -> None:
        """One step for all that are still on their way; those that do not get better take smaller ones."""
        rows = np.flatnonzero(self.active)
        change = self._newton(canvas, rows)
        tried = self.state[rows] + self.damping[rows, None] * change
        found = self._look(canvas, tried, rows)
        value = self._alike(found, rows)
        better = value > self.best[rows]
        gained = value - self.best[rows]
        won = rows[better]
        self.state[won], self.here[won], self.best[won] = tried[better], found[better], value[better]
        self.damping[rows] = np.where(better, np.minimum(1.0, 2 * self.damping[rows]), 0.4 * self.damping[rows])
        arrived = (better & (gained < 2e-4)) | (self.damping[rows] < 0.1)
        self.active[rows[arrived]] = False

    def matrices(self) -> FloatTable:
        first, second = (self.state[:, :2] / self.reaches[:, None]).T
        linear = np.stack([first, -self.sides * second, second, self.sides * first], axis=1).reshape(-1, 2, 2)
        move = self.state[:, 2:] - np.einsum("kij,kj->ki", linear, self.middles)
        return np.concatenate([linear, move[:, :, None]], axis=2)

    def _to_state(self, matrices: FloatTable) -> FloatTable:
        linear = matrices[:, :, :2]
        place = np.einsum("kij,kj->ki", linear, self.middles) + matrices[:, :, 2]
        first = 0.5 * (linear[:, 0, 0] + self.sides * linear[:, 1, 1]) * self.reaches
        second = 0.5 * (linear[:, 1, 0] - self.sides * linear[:, 0, 1]) * self.reaches
        return np.column_stack([first, second, place])

    def _places(self, state: FloatTable, rows: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        first, second, x, y = (each[:, None].astype(np.float32) for each in state.T)
        u, v, side = self.u[rows], self.v[rows], self.sides[rows, None].astype(np.float32)
        return first * u - side * second * v + x, second * u + side * first * v + y

    def _look(self, canvas: Canvas, state: FloatTable, rows: npt.NDArray[np.int64]) -> FloatArray:
        return _sampled(canvas.grey, *self._places(state, rows))

    def _alike(self, found: FloatArray, rows: npt.NDArray[np.int64]) -> FloatArray:
        source, other = self.source[rows], found - found.mean(axis=1, keepdims=True)
        spread = np.sqrt((source * source).sum(axis=1) * (other * other).sum(axis=1))
        flat = spread < 1e-3 * TAKEN
        return np.asarray(np.where(flat, 0, (source * other).sum(axis=1) / np.where(flat, 1, spread)), np.float32)

    def _newton(self, canvas: Canvas, rows: npt.NDArray[np.int64]) -> FloatTable:
        """The changes that would make each copy like its source if the picture were linear."""
        places = self._places(self.state[rows], rows)
        across, down = _sampled(canvas.across, *places), _sampled(canvas.down, *places)
        u, v, side = self.u[rows], self.v[rows], self.sides[rows, None].astype(np.float32)
        here = self.here[rows]
        columns = [here, np.ones_like(here), across * u + side * down * v, down * u - side * across * v, across, down]
        table = np.stack(columns, axis=1)
        squares = (table @ table.transpose(0, 2, 1)).astype(np.float64) + 1e-2 * np.eye(6)
        answer = np.linalg.solve(squares, (table @ self.source[rows][:, :, None]).astype(np.float64))[:, :, 0]
        gain = np.where(np.abs(answer[:, 0]) < 0.05, np.inf, answer[:, 0])
        change = answer[:, 2:] / gain[:, None]
        largest = np.abs(change).max(axis=1, keepdims=True)
        return np.asarray(change * np.minimum(1.0, LARGEST_STEP / np.maximum(largest, 1e-9)))


def _exactly(points: Points, count: int) -> tuple[FloatArray, FloatArray]:
    """So many of the points; some twice where there are fewer."""
    some = thinned(points, count)
    if not len(some):
        return np.zeros(count, np.float32), np.zeros(count, np.float32)
    chosen = np.arange(count) % len(some)
    return some.x[chosen], some.y[chosen]


def _sampled(picture: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Interpolated values at (regions, pixels) places."""
    found = np.empty(x.shape, np.float32)
    step = 30_000 // x.shape[1]  # OpenCV's remap takes fewer than 32,768 rows
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        found[part] = sample(picture, x[part].ravel(), y[part].ravel(), cubic=False).reshape(x[part].shape)
    return found
