"""Overlapping tiles out, weighted answers back together: a picture of any size through a network, row by row.

The tiles depend on the picture's size alone and their answers are added in one order, so how many rows are read or
given at a time changes nothing, nor who computes them. Memory holds the rows of one line of tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from handlens.inference.tta import average
from handlens.io.row_reader import ByteImage, RowReader
from handlens.types import ALONE, Checkpoints, NoCheckpoints, Progress, Shape, Work, no_progress
from handlens.work import Share

FloatImage = npt.NDArray[np.float32]
Network = Callable[[ByteImage], FloatImage]
"""(H, W, 3) RGB, both sides multiples of `Tiling.multiple`, to (H, W) probabilities."""

Place = tuple[int, int]
"""Top and left of a tile."""

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
    than one tile, each is kept as a checkpoint of `work`, and not computed again; progress counts tiles. With
    `work.share` all tiles are computed elsewhere before the first band is given.
    """
    height, width = source.shape
    rows, columns = cut(height, tiling), cut(width, tiling)
    places = [(top, left) for top in rows.starts for left in columns.starts]
    shape = rows.size, columns.size
    kept, progress = (work.checkpoints, work.progress) if len(places) > 1 else (NoCheckpoints(), no_progress)
    if work.share is not None and len(places) > 1:
        kept = _Answers(kept)
        waiting = [place for place in places if _load(kept, place, shape) is None]
        tiles = _Tiles(_Window(source, rows.size, band_rows), rows, columns, waiting)
        _compute_elsewhere(tiles, partial(_make_answer, network, turns), work.share, kept, progress, len(places))
        progress = no_progress
    sums = np.zeros((rows.size, width), np.float32)
    window, count = _Window(source, rows.size, band_rows), 0
    for top, following in zip(rows.starts, (*rows.starts[1:], height), strict=True):
        high = min(rows.size, height - top)
        for left in columns.starts:
            answer = _load(kept, (top, left), shape)
            if answer is None:
                answer = average(network, _cut(window, rows, columns, (top, left)), orientations=turns)
                kept.save(_name((top, left)), answer)
            count += 1
            progress(count, len(places))
            answer = answer[:high, : width - left] * rows.weights[:high, None]
            answer *= columns.weights[: answer.shape[1]]
            sums[:high, left : left + columns.size] += answer
        done = following - top
        for start in range(0, done, band_rows):
            end = min(done, start + band_rows)
            weight = rows.total[top + start : top + end, None] * columns.total
            yield top + start, np.clip(sums[start:end] / weight, 0, 1)
        sums[:-done] = sums[done:]
        sums[-done:] = 0


def _name(place: Place) -> str:
    return "tile-{}-{}".format(*place)


def _load(kept: Checkpoints, place: Place, shape: Shape) -> npt.NDArray[Any] | None:
    """The answer to a tile that was computed before, of this shape."""
    answer = kept.load(_name(place))
    return None if answer is None or answer.shape != shape else answer


def _cut(window: _Window, rows: Cuts, columns: Cuts, place: Place) -> ByteImage:
    """A tile, mirrored where it reaches past the end."""
    top, left = place
    return _padded(window.move(top)[:, left : left + columns.size], rows.size, columns.size)


def _make_answer(network: Network, turns: int, _folder: Path | None) -> Callable[[ByteImage], FloatImage]:
    return partial(average, network, orientations=turns)


def _compute_elsewhere(
    tiles: _Tiles,
    make: Callable[[Path | None], Callable[[ByteImage], FloatImage]],
    share: Share,
    kept: Checkpoints,
    progress: Progress,
    total: int,
) -> None:
    """Have the tiles computed by others, in any order, and keep the answers."""
    before = total - len(tiles)
    progress(before, total)
    with closing(share(make, tiles)) as results:
        for done, (index, answer) in enumerate(results, before + 1):
            kept.save(_name(tiles.places[index]), answer)
            tiles.forget(index)
            progress(done, total)


class _Answers:
    """Checkpoints that hold in memory what nobody else keeps."""

    def __init__(self, kept: Checkpoints) -> None:
        self.kept, self.folder = kept, kept.folder
        self.held: dict[str, npt.NDArray[Any]] = {}

    def load(self, name: str, /) -> npt.NDArray[Any] | None:
        return self.held.pop(name) if name in self.held else self.kept.load(name)

    def save(self, name: str, array: npt.NDArray[Any], /) -> None:
        if self.folder is None:
            self.held[name] = array
        else:
            self.kept.save(name, array)


class _Tiles(Sequence[ByteImage]):
    """Tiles to give away, cut when they are first asked for, in order, and held until they are answered.

    They may be asked for again, when a worker dies.
    """

    def __init__(self, window: _Window, rows: Cuts, columns: Cuts, places: list[Place]) -> None:
        self.window, self.rows, self.columns, self.places = window, rows, columns, places
        self.held: dict[int, ByteImage] = {}

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int, /) -> ByteImage: ...
    @overload
    def __getitem__(self, index: slice, /) -> Sequence[ByteImage]: ...
    def __getitem__(self, index: int | slice, /) -> ByteImage | Sequence[ByteImage]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if index not in self.held:
            tile = _cut(self.window, self.rows, self.columns, self.places[index])
            self.held[index] = np.array(tile)  # the window moves on
        return self.held[index]

    def forget(self, index: int) -> None:
        del self.held[index]


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
