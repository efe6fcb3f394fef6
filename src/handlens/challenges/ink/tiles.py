"""A fragment of any size through a network: windows read ahead, tiles shared by threads, finished lines kept.

The network answers for squares of STRIDE pixels. Tiles depend on the fragment's size alone, each is computed by one
thread, and their answers are added in one order: neither the height of bands nor the number of threads changes the
answer. Memory holds a few lines of tiles and one number for every square.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.window import Bytes, Mask
from handlens.inference.prefetch import prefetch
from handlens.inference.tiling import Cuts, Tiling, cut
from handlens.inference.tta import average
from handlens.types import ALONE, Shape, Work
from handlens.work import Share

Map = npt.NDArray[np.float32]
Network = Callable[[Bytes], Map]
"""A window (layers, H, W), both sides multiples of 32, to probabilities (H / STRIDE, W / STRIDE)."""

STRIDE = 4
"""Side in pixels of the squares that the network answers for."""

TILING = Tiling(largest=80, overlap=16, multiple=8)
"""In squares: tiles of at most 320 pixels that share 64, their places multiples of 32 pixels.

Tiles of 512 pixels took as long and twice the memory: what a small tile needs stays in the processor's cache.
"""

BAND_BYTES = 48 << 20
"""Bytes of a stack that are read at a time, nearly: a column of it has about 64."""


class WindowReader(Protocol):
    """A flattened window whose rows can be read, such as a `Surface`."""

    @property
    def shape(self) -> Shape: ...
    @property
    def mask(self) -> Mask: ...
    @property
    def grain(self) -> int:
        """Rows that are decoded together."""

    def read(self, top: int, bottom: int) -> Bytes: ...


@dataclass(frozen=True, slots=True)
class Resources:
    """How a fragment is worked on; none of it but `turns` changes the answer.

    turns    quarter turns of a tile whose answers are averaged, 1 or 4
    threads  tiles that are computed at the same time; 0 for one after the other, by the calling thread
    rows     rows that are read at a time; None for about BAND_BYTES
    """

    turns: int = 4
    threads: int = 1
    rows: int | None = None


def predict(source: WindowReader, network: Network, resources: Resources, work: Work = ALONE) -> Map:
    """Probability of ink in every square, (rows / STRIDE, columns / STRIDE) rounded up; 0 where no mask is near.

    Lines of tiles that are done are kept as checkpoints of `work`; its progress counts lines.
    """
    height, width = (-(-side // STRIDE) for side in source.shape)
    rows, columns = cut(height, TILING), cut(width, TILING)
    lines = range(len(rows.starts))
    answers = {line: kept for line in lines if (kept := work.checkpoints.load(_name(line))) is not None}
    left = [line for line in lines if line not in answers]
    work.progress(len(answers), len(lines))
    if work.share is None:
        computed = _compute(source, network, resources, rows, columns, left)
    else:
        computed = _compute_elsewhere(source, network, resources, rows, columns, left, work.share)
    with closing(computed):
        for line, answer in computed:
            work.checkpoints.save(_name(line), answer)
            answers[line] = answer
            work.progress(len(answers), len(lines))
    return _blend(answers, rows, columns, (height, width))


def _name(line: int) -> str:
    return f"line{line:04d}"


def _blend(answers: dict[int, Map], rows: Cuts, columns: Cuts, shape: Shape) -> Map:
    """Lines of tiles as one map: weighted sums, divided by the summed weights."""
    total = np.zeros(shape, np.float32)
    for line, start in enumerate(rows.starts):
        answer = answers[line][: shape[0] - start]
        total[start : start + len(answer)] += answer * rows.weights[: len(answer), None]
    total /= rows.total[:, None] * columns.total
    return np.clip(total, 0, 1, out=total)


def _compute_elsewhere(
    source: WindowReader,
    network: Network,
    resources: Resources,
    rows: Cuts,
    columns: Cuts,
    lines: Sequence[int],
    share: Share,
) -> Generator[tuple[int, Map], None, None]:
    """Lines of tiles and their answers, as they come: each is read and computed by some worker."""
    one = replace(resources, threads=0)
    with closing(share(partial(_make_line, source, network, one, rows, columns), lines)) as results:
        for index, answer in results:
            yield lines[index], answer


def _make_line(
    source: WindowReader, network: Network, resources: Resources, rows: Cuts, columns: Cuts, _folder: Path | None
) -> Callable[[int], Map]:
    return partial(_compute_line, source, network, resources, rows, columns)


def _compute_line(
    source: WindowReader, network: Network, resources: Resources, rows: Cuts, columns: Cuts, line: int
) -> Map:
    ((_, answer),) = _compute(source, network, resources, rows, columns, [line])
    return answer


def _compute(
    source: WindowReader, network: Network, resources: Resources, rows: Cuts, columns: Cuts, lines: Sequence[int]
) -> Generator[tuple[int, Map], None, None]:
    """Lines of tiles and their answers, weighted across; the next line is begun before one is finished."""
    waiting: deque[tuple[int, list[tuple[int, Future[Map]]]]] = deque()
    pool = ThreadPoolExecutor(resources.threads) if resources.threads else _SameThread()
    windows = partial(_windows, source, rows, lines, resources.rows)
    with pool as threads, closing(prefetch(windows, room=1)) as ahead:
        try:
            for line, window in ahead:
                waiting.append((line, list(_submit(threads, window, source, network, resources, rows, columns, line))))
                if len(waiting) > 1:
                    yield _gather(*waiting.popleft(), rows, columns)
            while waiting:
                yield _gather(*waiting.popleft(), rows, columns)
        finally:
            threads.shutdown(cancel_futures=True)


class _SameThread(Executor):
    """Does work at once, in the calling thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*args, **options))
        return done


def _submit(
    threads: Executor,
    window: Bytes,
    source: WindowReader,
    network: Network,
    resources: Resources,
    rows: Cuts,
    columns: Cuts,
    line: int,
) -> Iterator[tuple[int, Future[Map]]]:
    """Tiles of a line that have some of the mask in them, and their answers to come."""
    top, high, wide = rows.starts[line] * STRIDE, rows.size * STRIDE, columns.size * STRIDE
    for left in columns.starts:
        begin = left * STRIDE
        if source.mask[top : top + high, begin : begin + wide].any():
            yield left, threads.submit(_answer, network, window, begin, (high, wide), resources.turns)


def _answer(network: Network, window: Bytes, left: int, shape: Shape, turns: int) -> Map:
    """The mean answer to a tile in some quarter turns; beyond the fragment there is nothing."""
    tile = window[:, :, left : left + shape[1]]
    down, across = shape[0] - tile.shape[1], shape[1] - tile.shape[2]
    if down or across:
        tile = np.pad(tile, ((0, 0), (0, down), (0, across)))
    return average(network, tile, orientations=turns, axes=(1, 2))


def _gather(line: int, tiles: list[tuple[int, Future[Map]]], rows: Cuts, columns: Cuts) -> tuple[int, Map]:
    """The answers of a line side by side, weighted across."""
    answer = np.zeros((rows.size, len(columns.total)), np.float32)
    for left, future in tiles:
        part = answer[:, left : left + columns.size]
        part += (future.result() * columns.weights)[:, : part.shape[1]]
    return line, answer


def _windows(
    source: WindowReader, rows: Cuts, lines: Sequence[int], step: int | None, ended: threading.Event
) -> Iterator[tuple[int, Bytes]]:
    """Lines and their windows, until it has ended; rows that the line before has seen are copied from it."""
    height, width = source.shape
    high = rows.size * STRIDE
    step = step or max(1, BAND_BYTES // (width * 64) // source.grain) * source.grain
    window, top, bottom = np.empty((0, 0, width), np.uint8), 0, 0
    for line in lines:
        start = rows.starts[line] * STRIDE
        end = min(start + high, height)
        known = window[:, start - top :] if top <= start < bottom else window[:, :0]
        parts = [known] if known.shape[1] else []
        begin = start + known.shape[1]
        while begin < end and not ended.is_set():
            stop = min((begin // step + 1) * step, end)
            parts.append(source.read(begin, stop))
            begin = stop
        if ended.is_set():
            return
        window, top, bottom = np.concatenate(parts, axis=1), start, end
        yield line, window


@dataclass(frozen=True, slots=True)
class InMemory:
    """A window that is there already, (layers, H, W), as a source."""

    window: Bytes
    mask: Mask
    grain: int = 1

    @property
    def shape(self) -> Shape:
        return self.mask.shape[0], self.mask.shape[1]

    def read(self, top: int, bottom: int) -> Bytes:
        return self.window[:, top:bottom]
