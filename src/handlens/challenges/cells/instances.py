"""Every nucleus by itself: touching ones split, a label image and a table of objects for other programs."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.splitting import Watershed
from handlens.io import label_tiff
from handlens.io.files import replacing
from handlens.masks.components import Components, label_components, number_in_order
from handlens.masks.rle import Rle, encode
from handlens.types import Shape

INSTANCES = "instances"
"""Sub-folder of a run: `NAME.tif` and `NAME.csv` for each picture."""

COLUMNS = ("object", "area", "centre_x", "centre_y", "left", "top", "width", "height")
"""Pixels, counted from 0; the centre is the mean of the object's pixels."""

BLOCK = 2048
"""Side of the blocks into which a component over a very large box is cut first; a nucleus on an edge is cut too."""

LARGEST_BOX = BLOCK * BLOCK
"""Pixels of the box around a component from which that is done: 440 MB of arrays lie over it, 106 bytes a pixel."""

BATCH_PIXELS = 1_000_000
"""Pixels of the boxes that are split together: enough that calls cost nothing, few enough to stay in the cache."""

BAND_ROWS = 256
TILE = 256
LARGE = 4096
"""Pixels of a side above which a label image is a pyramid: halved until it is no longer above."""

MOST_IN_16_BITS = 65_535

ByteImage = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
Piece = tuple[int, int, npt.NDArray[np.bool_]]
"""Top and left of a connected component, and its mask."""


def write_instances(stem: Path, cells: Rle, certainty: ByteImage, watershed: Watershed | None = None) -> Components:
    """Split the cells of a picture into nuclei and write `stem.tif` and `stem.csv`; gives the objects.

    `cells` go along rows; `certainty` is the probability of every pixel in 255 steps.
    """
    objects = split_cells(cells, certainty, watershed or Watershed())
    write_labels(stem.with_name(f"{stem.name}.tif"), objects)
    write_table(stem.with_name(f"{stem.name}.csv"), objects)
    return objects


def split_cells(cells: Rle, certainty: ByteImage, watershed: Watershed) -> Components:
    """The cells as objects: the same pixels, every one in exactly one object; touching nuclei are different ones.

    Objects are numbered in the order of their first pixels, along the rows.
    """
    width = certainty.shape[1]
    pieces = label_components(cells, certainty.shape)
    alone = pieces.areas < 2 * watershed.smallest  # too small for two; a slide has very many of them
    mine = alone[pieces.number]
    starts, lengths, numbers = [pieces.runs.starts[mine]], [pieces.runs.lengths[mine]], [pieces.number[mine]]
    count = pieces.count
    for batch in _batches(_pieces(pieces, ~alone)):
        boxes = [certainty[top : top + piece.shape[0], left : left + piece.shape[1]] for top, left, piece in batch]
        found = watershed.split(
            [(piece, box.astype(np.float32) / np.float32(255)) for (_, _, piece), box in zip(batch, boxes, strict=True)]
        )
        for (top, left, _), labels in zip(batch, found, strict=True):
            rows, columns, spans, values = _label_runs(labels)
            starts.append((rows + top) * width + columns + left)
            lengths.append(spans)
            numbers.append(values + count)
            count += int(labels.max()) + 1
    order = np.argsort(np.concatenate(starts))
    runs = Rle(np.concatenate(starts)[order], np.concatenate(lengths)[order])
    return Components(runs, *number_in_order(np.concatenate(numbers)[order]), certainty.shape)


def write_labels(path: Path, objects: Components) -> None:
    """A tiled TIFF in which object 1 has the value 1 and so on; of a large image an OME-TIFF with smaller copies.

    16 bits, or 32 where there are more than 65,535 objects. In a smaller copy a pixel has the value of the first of
    those that it stands for.
    """
    kind = np.dtype(np.uint16 if objects.count <= MOST_IN_16_BITS else np.uint32)
    levels = 1
    while is_large((objects.shape[0] >> (levels - 1), objects.shape[1] >> (levels - 1))):
        levels += 1
    pages = (_packed_tiles(objects, kind, 1 << level) for level in range(levels))
    with replacing(path) as temporary:
        label_tiff.write_labels(temporary, pages, objects.shape, kind, levels=levels, tile=TILE)


def is_large(shape: Shape) -> bool:
    """Whether a label image of this shape has smaller copies for viewers."""
    return max(shape) > LARGE


def _packed_tiles(objects: Components, kind: np.dtype[Any], step: int) -> Iterator[bytes]:
    """The tiles of the label image, every `step`-th pixel of it, line by line, packed."""
    held: list[npt.NDArray[Any]] = []
    last = -(-objects.shape[0] // TILE) - 1
    for number, band in enumerate(label_bands(objects, kind, rows=TILE)):  # steps are powers of 2, as TILE is
        held.append(band[::step, ::step].copy())
        if len(held) < step and number < last:
            continue
        rows = np.concatenate(held)
        held.clear()
        padded = np.pad(rows, ((0, -len(rows) % TILE), (0, -rows.shape[1] % TILE)))
        for left in range(0, padded.shape[1], TILE):
            yield zlib.compress(padded[:, left : left + TILE].tobytes(), 1)


def write_table(path: Path, objects: Components) -> None:
    """One line for each object, numbered as in the label image."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for index, area, x, y, *box in objects_table(objects):
            writer.writerow((index, area, f"{x:.2f}", f"{y:.2f}", *box))


def objects_table(objects: Components) -> Iterator[tuple[Any, ...]]:
    """A row for each object, its numbers in the order of COLUMNS."""
    rows = zip(objects.areas.tolist(), objects.centres.tolist(), objects.boxes.tolist(), strict=True)
    for index, (area, (y, x), (top, left, bottom, right)) in enumerate(rows, 1):
        yield index, area, x, y, left, top, right - left, bottom - top


def paint_labels(objects: Components) -> npt.NDArray[np.uint32]:
    """The whole label image in memory."""
    bands = list(label_bands(objects, np.dtype(np.uint32)))
    return np.concatenate(bands) if bands else np.zeros(objects.shape, np.uint32)


def _batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Components whose boxes together have no more than BATCH_PIXELS, or one that has more."""
    batch: list[Piece] = []
    pixels = 0
    for piece in pieces:
        if batch and pixels + piece[2].size > BATCH_PIXELS:
            yield batch
            batch, pixels = [], 0
        batch.append(piece)
        pixels += piece[2].size
    if batch:
        yield batch


def _pieces(pieces: Components, chosen: npt.NDArray[np.bool_] | None = None) -> Iterator[Piece]:
    """Top, left and mask of each connected piece that is chosen; one over a very large box comes in blocks."""
    rows, columns = np.divmod(pieces.runs.starts, max(1, pieces.shape[1]))
    order = np.argsort(pieces.number, kind="stable")
    cuts = pieces.number[order].searchsorted(np.arange(pieces.count + 1))
    boxes = pieces.boxes
    for index in range(pieces.count) if chosen is None else np.flatnonzero(chosen):
        top, left, bottom, right = boxes[index].tolist()
        mine = order[cuts[index] : cuts[index + 1]]
        down, across, spans = rows[mine] - top, columns[mine] - left, pieces.runs.lengths[mine]
        if (bottom - top) * (right - left) <= LARGEST_BOX:
            yield top, left, _paint((bottom - top, right - left), down, across, spans).view(np.bool_)
            continue
        for y in range(0, bottom - top, BLOCK):
            for x in range(0, right - left, BLOCK):
                block = _paint_block(down, across, spans, y, x)
                inner = label_components(encode(block, order="rows"), block.shape)
                yield from ((top + y + t, left + x + s, mask) for t, s, mask in _pieces(inner))


def _paint_block(down: IntArray, across: IntArray, spans: IntArray, y: int, x: int) -> npt.NDArray[np.bool_]:
    """What of a piece lies in one block of it."""
    first, last = np.maximum(across, x), np.minimum(across + spans, x + BLOCK)
    there = (down >= y) & (down < y + BLOCK) & (last > first)
    painted = _paint((BLOCK, BLOCK), down[there] - y, first[there] - x, (last - first)[there])
    return painted.view(np.bool_)


def _paint(shape: Shape, rows: IntArray, columns: IntArray, spans: IntArray) -> ByteImage:
    flat = np.zeros(shape[0] * shape[1], np.uint8)
    flat[_pixels(rows * shape[1] + columns, spans)] = 1
    return flat.reshape(shape)


def _pixels(starts: IntArray, lengths: IntArray) -> IntArray:
    """The number of every pixel in some runs."""
    within = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    pixels: IntArray = np.repeat(starts, lengths) + within
    return pixels


def _label_runs(labels: npt.NDArray[np.uint16]) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Row, column, length and label of every stretch of one label along a row."""
    padded = np.pad(labels.astype(np.int64), ((0, 0), (1, 1)))
    rows, columns = np.nonzero(padded[:, 1:] != padded[:, :-1])
    values = padded[rows, columns + 1]  # after a change; a stretch ends at the next one, which is in the same row
    starts = np.flatnonzero(values)
    return rows[starts], columns[starts], columns[starts + 1] - columns[starts], values[starts]


def label_bands(objects: Components, kind: np.dtype[Any], rows: int = BAND_ROWS) -> Iterator[npt.NDArray[Any]]:
    """The label image from the top, a strip at a time."""
    height, width = objects.shape
    for top in range(0, height, rows):
        bottom = min(height, top + rows)
        first, last = objects.runs.starts.searchsorted([top * width, bottom * width])
        lengths = objects.runs.lengths[first:last]
        flat = np.zeros((bottom - top) * width, kind)
        pixels = _pixels(objects.runs.starts[first:last] - top * width, lengths)
        flat[pixels] = np.repeat(objects.number[first:last] + 1, lengths)
        yield flat.reshape(bottom - top, width)
