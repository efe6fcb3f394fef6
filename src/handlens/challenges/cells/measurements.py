"""Measurements of single nuclei, from run lengths and outlines: area, perimeter, eccentricity, stain, place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.baseline import haematoxylin
from handlens.io.row_reader import RowReader
from handlens.masks.components import Components

Floats = npt.NDArray[np.float64]
EOSIN_RED = 0.3
"""What eosin absorbs of red, as a share of what it absorbs of green; as for the baseline."""

BAND_ROWS = 512
ROWS_AT_ONCE = 4096
RUNS_AT_ONCE = 500_000
"""What is made at a time: a slide may have a million nuclei, in twenty million runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """A column for each measurement, a row for each object, lengths in pixels or, with `unit` "um", micrometres."""

    columns: Mapping[str, npt.NDArray[np.generic]]
    unit: str

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The values of every object; some thousands are made at a time."""
        columns = list(self.columns.values())
        for first in range(0, len(columns[0]), ROWS_AT_ONCE):
            yield from zip(*(column[first : first + ROWS_AT_ONCE].tolist() for column in columns), strict=True)


def measure(objects: Components, image: RowReader | None, *, mpp: float | None) -> Measurements:
    """Measure every object; `mpp` are micrometres per pixel, `image` gives the mean stain."""
    scale, unit = (mpp, "um") if mpp else (1.0, "px")
    boxes = objects.boxes
    columns: dict[str, npt.NDArray[np.generic]] = {
        "object": np.arange(1, objects.count + 1),
        f"area_{unit}2": objects.areas * scale**2,
        f"perimeter_{unit}": _perimeters(objects) * scale,
        "eccentricity": _eccentricity(objects),
        f"centre_x_{unit}": (objects.centres[:, 1] + 0.5) * scale,
        f"centre_y_{unit}": (objects.centres[:, 0] + 0.5) * scale,
        f"width_{unit}": (boxes[:, 3] - boxes[:, 1]) * scale,
        f"height_{unit}": (boxes[:, 2] - boxes[:, 0]) * scale,
    }
    if image is not None:
        columns["mean_haematoxylin_od"] = _mean_stain(objects, image)
    return Measurements(columns, unit)


def _perimeters(objects: Components) -> Floats:
    """Length of the outlines by Cauchy and Crofton: edges of pixels times pi / 4, right on average over all turns.

    A run has an edge at either end, and one above and below each pixel that has no pixel of the same object there.
    """
    starts, lengths, number = objects.runs.starts, objects.runs.lengths, objects.number
    ends, width = starts + lengths, objects.shape[1]
    edges = np.bincount(number, 2 + 2 * lengths, minlength=objects.count).astype(np.float64)
    for first in range(0, len(starts), RUNS_AT_ONCE):
        part = slice(first, first + RUNS_AT_ONCE)
        begin, end = starts[part] + width, ends[part] + width  # the same columns, a row below
        lowest, beyond = ends.searchsorted(begin, "right"), starts.searchsorted(end, "left")
        counts = np.maximum(beyond - lowest, 0)
        above = np.repeat(np.arange(len(counts)), counts)
        below = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts) + lowest[above]
        shared = np.minimum(end[above], ends[below]) - np.maximum(begin[above], starts[below])
        same = number[part][above] == number[below]
        edges -= np.bincount(number[below[same]], 2 * shared[same], minlength=objects.count)
    edges *= np.pi / 4
    return edges


def _eccentricity(objects: Components) -> Floats:
    """Of the ellipse with the same second moments: 0 for a disk, towards 1 for a line."""
    width = max(1, objects.shape[1])
    rows, columns = np.divmod(objects.runs.starts.astype(np.float64), width)
    n = objects.runs.lengths.astype(np.float64)
    number, count = objects.number, objects.count
    area = np.maximum(np.bincount(number, n, minlength=count), 1)
    x1 = n * columns + n * (n - 1) / 2
    x2 = n * columns**2 + columns * n * (n - 1) + (n - 1) * n * (2 * n - 1) / 6
    sums = {
        "x": x1,
        "y": n * rows,
        "xx": x2,
        "yy": n * rows**2,
        "xy": rows * x1,
    }
    mean = {name: np.bincount(number, values, minlength=count) / area for name, values in sums.items()}
    xx = mean["xx"] - mean["x"] ** 2 + 1 / 12  # a pixel is a square, not a point
    yy = mean["yy"] - mean["y"] ** 2 + 1 / 12
    xy = mean["xy"] - mean["x"] * mean["y"]
    spread = np.sqrt(np.maximum((xx - yy) ** 2 + 4 * xy**2, 0))
    long, short = (xx + yy + spread) / 2, np.maximum((xx + yy - spread) / 2, 1e-9)
    found: Floats = np.sqrt(np.maximum(1 - short / long, 0))
    return found


def _mean_stain(objects: Components, image: RowReader) -> Floats:
    """Mean optical density of haematoxylin of every object; the image is read in bands."""
    height, width = objects.shape
    total = np.zeros(objects.count)
    for top in range(0, height, BAND_ROWS):
        bottom = min(height, top + BAND_ROWS)
        stain = haematoxylin(image.read(top, bottom), eosin_red=EOSIN_RED).astype(np.float64)
        sums = np.concatenate([[0.0], np.cumsum(stain.ravel())])
        first, last = objects.runs.starts.searchsorted([top * width, bottom * width])
        starts = objects.runs.starts[first:last] - top * width
        values = sums[starts + objects.runs.lengths[first:last]] - sums[starts]
        total += np.bincount(objects.number[first:last], values, minlength=objects.count)
    return total / np.maximum(objects.areas, 1)
