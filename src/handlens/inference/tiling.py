"""Overlapping tiles out, weighted answers back together: a picture of any size through a network, row by row.

The tiles depend on the picture's size alone and their answers are added in one order, so how many rows are read or
given at a time changes nothing. Memory holds the rows of one line of tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.inference.tta import average
from handlens.io.row_reader import ByteImage, RowReader
from handlens.types import ALONE, Work

FloatImage = npt.NDArray[np.float32]
Network = Callable[[ByteImage], FloatImage]
"""(H, W, 3) RGB, both sides multiples of `Tiling.multiple`, to (H, W) probabilities."""

BAND_ROWS = 256
"""Rows that are read and given at a time."""

LEAST_WEIGHT = 1e-3
"""Weight of a tile's outermost pixels, where its network sees least: not 0, for a picture's edge has no other tile."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a picture is cut. Lengths in pixels.

    largest    most of a tile's side; fewer, larger tiles waste less on overlaps, and take more memory
    overlap    least that neighbours share, so that every pixel has half of it around it in some tile
    multiple   what sides and places of tiles are multiples of: the network halves them five times, and a picture
               moved by less than that gets a slightly different answer
    """

    largest: int = 1024
    overlap: int = 192
    multiple: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.overlap <= self.largest // 2 or self.largest % self.multiple or self.overlap % self.multiple:
            what = f"tiles of {self.largest} that share {self.overlap}"
            raise ValueError(f"{what}; expected multiples of {self.multiple}, the second at most half of the first")


@dataclass(frozen=True, slots=True)
class Cuts:
    """One side of a picture: where its tiles begin, how long each is, and the summed weight of every pixel.

    The last tile may reach past the end.
    """

    size: int
    starts: tuple[int, ...]
    weights: npt.NDArray[np.float32]
    total: npt.NDArray[np.float32]


def cut(length: int, tiling: Tiling) -> Cuts:
    """Tiles for a side of this length: as few as can be, all of one size, evenly spread, no longer than needed.

    >>> [(cuts.size, cuts.starts) for cuts in (cut(1000, Tiling()), cut(2000, Tiling()))]
    [(1024, (0,)), (800, (0, 608, 1216))]
    """
    step = tiling.multiple
    parts, shared = -(-length // step), tiling.overlap // step  # all in steps from here on
    count = max(1, -(-(parts - shared) // (tiling.largest // step - shared)))
    size = -(-(parts + (count - 1) * shared) // count)
    starts = tuple((parts - size) * index // max(1, count - 1) * step for index in range(count))
    size *= step
    weights = _weights(size, tiling.overlap)
    total = np.zeros(length, np.float32)
    for start in starts:
        total[start : start + size] += weights[: length - start]
    return Cuts(size, starts, weights, total)


def _weights(size: int, overlap: int) -> npt.NDArray[np.float32]:
    """1 in the middle, falling as a cosine over the overlap: where two tiles meet, both count alike."""
    distance = np.minimum(np.arange(size), np.arange(size)[::-1]) + 0.5
    ramp = 0.5 - 0.5 * np.cos(np.pi * np.minimum(distance / overlap, 1))
    return np.maximum(ramp, LEAST_WEIGHT).astype(np.float32)


def predict(
    source: RowReader,
    network: Network,
    *,
    tiling: Tiling,
    turns: int,
    work: Work = ALONE,
    band_rows: int = BAND_ROWS,
) -> Iterator[tuple[int, FloatImage]]:
    """First row and (rows, width) probabilities of each band, from the top, at most `band_rows` high.

    With 8 `turns` the mean over all orientations of a tile, with 1 the answer to the tile as it is. Where there is more
    than one tile, each is kept as a checkpoint of `work`, and not computed again; progress counts tiles.
    """
    height, width = source.shape
    rows, columns = cut(height, tiling), cut(width, tiling)
    sums = np.zeros((rows.size, width), np.float32)
    window = _Window(source, rows.size, band_rows)
    count, total = 0, len(rows.starts) * len(columns.starts)
    for top, following in zip(rows.starts, (*rows.starts[1:], height), strict=True):
        picture = window.move(top)
        for left in columns.starts:
            tile = _padded(picture[:, left : left + columns.size], rows.size, columns.size)
            answer = work.checkpoints.load(name := f"tile-{top}-{left}") if total > 1 else None
            if answer is None or answer.shape != tile.shape[:2]:
                answer = average(network, tile, orientations=turns)
                if total > 1:
                    work.checkpoints.save(name, answer)
            count += 1
            if total > 1:
                work.progress(count, total)
            answer = answer[: len(picture), : width - left] * rows.weights[: len(picture), None]
            answer *= columns.weights[: answer.shape[1]]
            sums[: len(picture), left : left + columns.size] += answer
        done = following - top
        for start in range(0, done, band_rows):
            end = min(done, start + band_rows)
            weight = rows.total[top + start : top + end, None] * columns.total
            yield top + start, np.clip(sums[start:end] / weight, 0, 1)
        sums[:-done] = sums[done:]
        sums[-done:] = 0


class _Window:
    """The rows that a line of tiles looks at; rows that the line above has seen are kept, so that all are read once."""

    def __init__(self, source: RowReader, size: int, step: int) -> None:
        self.source, self.size, self.step = source, size, step
        self.top = self.bottom = 0
        self.rows = np.empty((min(size, source.shape[0]), source.shape[1], 3), np.uint8)

    def move(self, top: int) -> ByteImage:
        """Rows from `top` on, as many as a tile has or the picture leaves; never back."""
        bottom = min(top + self.size, self.source.shape[0])
        kept = self.bottom - top
        if kept > 0 and top > self.top:
            self.rows[:kept] = self.rows[top - self.top : self.bottom - self.top]
        for start in range(max(self.bottom, top), bottom, self.step):
            end = min(bottom, start + self.step)
            self.rows[start - top : end - top] = self.source.read(start, end)
        self.top, self.bottom = top, bottom
        return self.rows[: bottom - top]


def _padded(tile: ByteImage, height: int, width: int) -> ByteImage:
    """The tile mirrored at its lower and right edge up to this size."""
    down, across = height - tile.shape[0], width - tile.shape[1]
    return np.pad(tile, ((0, down), (0, across), (0, 0)), mode="symmetric") if down or across else tile
