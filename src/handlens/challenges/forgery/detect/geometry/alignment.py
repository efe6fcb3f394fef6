"""The one alignment: the similarity near a first guess under which a region is most alike to its supposed copy.

Gauss and Newton's way: the gradients of the picture say how turn, scale and place must change, gain and bias are
fitted along. There are two drivers around the same step: `align` for one region, with bicubic samples and a line
search, to the last hundredth of a pixel; `align_many` for thousands of candidates at once, bilinear, of a few pixels
each, giving up the worst as it goes: one call to the picture for all of them costs a tenth of one call for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.findings import FloatArray, Matrix
from handlens.challenges.forgery.detect.geometry.correlation import centred, correlation, cosine, row_sum, sign_of
from handlens.challenges.forgery.detect.geometry.points import REMAP_ROWS, Points, sample, thinned

LARGEST_STEP = 3.0
"""Pixels that one step may move a region's edge; further, the gradients are no guide. By hand."""

LEAST_GAIN = 0.05
"""Gain of the copy below which source and copy have nothing in common. By hand."""

ARRIVED = 2e-4
"""Gain in correlation below which an alignment has arrived. By hand."""

GIVEN_UP_AFTER, GIVEN_UP_BELOW = 3, 0.5
"""After so many steps an alignment that is less alike than this is given up. By hand."""

RIDGE, RIDGE_MANY = 1e-3, 1e-2
"""Added to the normal equations, of all pixels in double precision and of a few in single, so that a flat region has a
solution. By hand."""

STEPS = 12
"""Most steps; most have arrived after four. By hand."""

LINE_SEARCH = (1.0, 0.5, 0.2)
"""Parts of a step that `align` tries. By hand."""

DAMPED, LEAST_DAMPING = 0.4, 0.1
"""Factor by which `align_many` shortens the steps of a region after one that made it worse, and the length at which it
gives up. By hand."""

TAKEN = 128
"""Pixels of each region that `align_many` compares. By hand."""

KEPT = {1: 2_400, 2: 1_600, 3: 1_200, 5: 600}
"""How many of many alignments, the most alike ones, are gone on with after so many steps. By hand: bounds the time."""

FloatTable = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


# --- one step, for one region or for a stack of them ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """Coordinates of regions in their own scale: (N, 2) `middles` and (N,) `reaches`; `sides` are -1 where mirrored.

    A similarity is then four numbers: two for turn and scale times the reach, two for where the middle comes to lie.
    `applied` multiplies matrices (N, 2, 2) by places (N, 2): `_by_blas` for one region, `_by_sums` for many. The last
    digit of a place depends on which, and answers are to stay the same to the last digit.
    """

    middles: FloatTable
    reaches: FloatTable
    sides: FloatTable
    applied: Callable[[FloatTable, FloatTable], FloatTable]

    def to_state(self, matrices: FloatTable) -> FloatTable:
        """Of (N, 2, 3) transforms the (N, 4) numbers."""
        linear = matrices[:, :, :2]
        place = self.applied(linear, self.middles) + matrices[:, :, 2]
        first = 0.5 * (linear[:, 0, 0] + self.sides * linear[:, 1, 1]) * self.reaches
        second = 0.5 * (linear[:, 1, 0] - self.sides * linear[:, 0, 1]) * self.reaches
        return np.column_stack([first, second, place])

    def to_matrices(self, state: FloatTable) -> FloatTable:
        first, second = (state[:, :2] / self.reaches[:, None]).T
        linear = np.stack([first, -self.sides * second, second, self.sides * first], axis=1).reshape(-1, 2, 2)
        move = state[:, 2:] - self.applied(linear, self.middles)
        return np.concatenate([linear, move[:, :, None]], axis=2)


def _by_blas(linear: FloatTable, places: FloatTable) -> FloatTable:
    return np.asarray(np.matmul(linear, places[:, :, None])[:, :, 0])


def _by_sums(linear: FloatTable, places: FloatTable) -> FloatTable:
    return np.asarray(np.einsum("kij,kj->ki", linear, places))


def _placed(state: FloatTable, u: FloatArray, v: FloatArray, sides: FloatTable) -> tuple[FloatArray, FloatArray]:
    """Where the states (N, 4) bring pixels (N, P), given in the scale of their regions."""
    first, second, x, y = (each[:, None].astype(np.float32) for each in state.T)
    side = sides[:, None].astype(np.float32)
    return first * u - side * second * v + x, second * u + side * first * v + y


def _jacobian(
    here: FloatArray, gradients: Sequence[FloatArray], u: FloatArray, v: FloatArray, sides: FloatTable
) -> list[FloatArray]:
    """How the copy's pixels change with gain, bias, turn and scale, and place; six of (N, P)."""
    (across, down), side = gradients, sides[:, None].astype(np.float32)
    return [here, np.ones_like(here), across * u + side * down * v, down * u - side * across * v, across, down]


def _step(squares: FloatTable, products: FloatTable, ridge: float) -> FloatTable:
    """The change of the four numbers that would make copies like their sources if the picture were linear.

    From the normal equations (N, 6, 6) and (N, 6); 0 where a copy has nothing in common with its source.
    """
    answer = np.linalg.solve(squares + ridge * np.eye(6), products[:, :, None])[:, :, 0]
    gain = np.where(np.abs(answer[:, 0]) < LEAST_GAIN, np.inf, answer[:, 0])
    change = answer[:, 2:] / gain[:, None]
    largest = np.abs(change).max(axis=1, keepdims=True)
    return np.asarray(change * np.minimum(1.0, LARGEST_STEP / np.maximum(largest, 1e-9)))


# --- one region -------------------------------------------------------------------------------------------------------


def align(canvas: Canvas, points: Points, matrix: Matrix, *, steps: int = STEPS) -> tuple[Matrix, float]:
    """The similarity near `matrix` under which the region and its copy are most alike, and their correlation.

    A copy with dark and bright exchanged is aligned too; its correlation is negative.
    """
    source = canvas.grey[points.y.astype(int), points.x.astype(int)]
    side = np.array([-1.0 if float(np.linalg.det(matrix[:, :2])) < 0 else 1.0])
    frame = Frame(np.array([points.middle]), np.array([points.reach]), side, _by_blas)
    u = ((points.x - points.middle[0]) / points.reach)[None]
    v = ((points.y - points.middle[1]) / points.reach)[None]
    state = frame.to_state(np.asarray(matrix, np.float64)[None])
    places = _placed(state, u, v, side)
    here = sample(canvas.grey, places[0][0], places[1][0])
    best = correlation(source, here)
    sign = sign_of(best)
    source, best = source * np.float32(sign), best * sign
    for step in range(steps):
        if step == GIVEN_UP_AFTER and best < GIVEN_UP_BELOW:
            break
        gradients = [sample(each, places[0][0], places[1][0], cubic=False)[None] for each in canvas.gradients]
        table = np.stack([each[0] for each in _jacobian(here[None], gradients, u, v, side)], axis=1).astype(np.float64)
        try:
            change = _step((table.T @ table)[None], (table.T @ source.astype(np.float64))[None], RIDGE)
        except np.linalg.LinAlgError:
            break
        for part in LINE_SEARCH:
            tried = state + part * change
            there = _placed(tried, u, v, side)
            found = sample(canvas.grey, there[0][0], there[1][0])
            value = correlation(source, found)
            if value > best:
                break
        else:
            break
        gained = value - best
        state, places, here, best = tried, there, found, value
        if gained < ARRIVED:
            break
    return frame.to_matrices(state)[0], best * sign


# --- many regions -----------------------------------------------------------------------------------------------------


def align_many(
    canvas: Canvas, regions: Sequence[Points], matrices: Sequence[Matrix]
) -> tuple[list[Matrix], FloatArray]:
    """For each region the similarity near its matrix under which it is most alike to its copy, and the correlation."""
    if not regions:
        return [], np.zeros(0, np.float32)
    batch = _Batch(canvas, regions, np.stack(matrices))
    for step in range(STEPS):
        if step in KEPT:
            batch.keep(KEPT[step])
        if not batch.active.any():
            break
        batch.improve(canvas)
    return list(batch.frame.to_matrices(batch.state)), batch.best


class _Batch:
    """The state of many alignments, each row its own region."""

    def __init__(self, canvas: Canvas, regions: Sequence[Points], matrices: FloatTable) -> None:
        some = [_exactly(points, TAKEN) for points in regions]
        middles = np.array([points.middle for points in regions])
        reaches = np.array([points.reach for points in regions])
        x, y = np.stack([each[0] for each in some]), np.stack([each[1] for each in some])
        self.source = centred(canvas.grey[y.astype(int), x.astype(int)])
        self.u = ((x - middles[:, :1]) / reaches[:, None]).astype(np.float32)
        self.v = ((y - middles[:, 1:]) / reaches[:, None]).astype(np.float32)
        sides = np.where(np.linalg.det(matrices[:, :, :2]) < 0, -1.0, 1.0)
        self.frame = Frame(middles, reaches, sides, _by_sums)
        self.state = self.frame.to_state(matrices)
        self.active = np.ones(len(regions), np.bool_)
        self.damping = np.ones(len(regions))
        rows = np.arange(len(regions))
        self.here = self._look(canvas, self.state, rows)
        self.best = self._alike(self.here, rows)

    def keep(self, most: int) -> None:
        """Give up all but the most alike, and those that are hopeless."""
        alive = np.flatnonzero(self.active & (self.best > GIVEN_UP_BELOW))
        self.active[:] = False
        self.active[alive[np.argsort(-self.best[alive], kind="stable")[:most]]] = True

    def improve(self, canvas: Canvas) -> None:
        """One step for all that are still on their way; those that do not get better take smaller ones."""
        rows = np.flatnonzero(self.active)
        tried = self.state[rows] + self.damping[rows, None] * self._change(canvas, rows)
        found = self._look(canvas, tried, rows)
        value = self._alike(found, rows)
        better = value > self.best[rows]
        gained = value - self.best[rows]
        won = rows[better]
        self.state[won], self.here[won], self.best[won] = tried[better], found[better], value[better]
        self.damping[rows] = np.where(better, np.minimum(1.0, 2 * self.damping[rows]), DAMPED * self.damping[rows])
        arrived = (better & (gained < ARRIVED)) | (self.damping[rows] < LEAST_DAMPING)
        self.active[rows[arrived]] = False

    def _places(self, state: FloatTable, rows: Rows) -> tuple[FloatArray, FloatArray]:
        return _placed(state, self.u[rows], self.v[rows], self.frame.sides[rows])

    def _look(self, canvas: Canvas, state: FloatTable, rows: Rows) -> FloatArray:
        return _sampled(canvas.grey, *self._places(state, rows))

    def _alike(self, found: FloatArray, rows: Rows) -> FloatArray:
        return np.asarray(cosine(self.source[rows], centred(found), inner=row_sum), np.float32)

    def _change(self, canvas: Canvas, rows: Rows) -> FloatTable:
        places = self._places(self.state[rows], rows)
        gradients = [_sampled(each, *places) for each in canvas.gradients]
        columns = _jacobian(self.here[rows], gradients, self.u[rows], self.v[rows], self.frame.sides[rows])
        table = np.stack(columns, axis=1)
        squares = (table @ table.transpose(0, 2, 1)).astype(np.float64)
        return _step(squares, (table @ self.source[rows][:, :, None]).astype(np.float64)[:, :, 0], RIDGE_MANY)


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
    step = REMAP_ROWS // x.shape[1]
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        found[part] = sample(picture, x[part].ravel(), y[part].ravel(), cubic=False).reshape(x[part].shape)
    return found
