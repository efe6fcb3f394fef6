"""Labels that are shifted from what they show: by how much, and predictions that are shifted likewise.

Who draws outlines with a program whose pixels begin elsewhere, or whose hand is steady but not quite in place, moves
all nuclei of a slide alike. Half a pixel costs a hundredth of Dice on small nuclei. A network that learns from turned
and mirrored crops cannot learn it: to it, labels moved to the right in one crop are moved to the left in the next.

Nuclei at the border of a picture are outlined the less often the nearer they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from handlens.types import Shape

FloatImage = npt.NDArray[np.float32]
ByteImage = npt.NDArray[np.uint8]
Band = tuple[int, FloatImage]
"""First row of some rows of a picture, and the rows."""

MAX_OFFSET = 4
"""Pixels that labels are looked for around their places."""

FINEST, COARSEST = 1.0, 12.0
"""Blurs, in pixels, between which outlines of nuclei lie: finer is noise, coarser is how crowded a region is."""

MAX_CROP = 2048
"""Side of the middle of a slide that is looked at: all labels of a slide lie beside it alike."""

MIN_CORRELATION = 0.2
"""Correlation of labels and stain below which nothing can be said; of 37 real slides it is 0.33 to 0.88."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Pixels by which labels lie lower, and farther to the right, than what they show."""

    down: float = 0.0
    right: float = 0.0


NO_OFFSET = Offset()


def measure_offset(slide: ByteImage, mask: ByteImage) -> Offset:
    """How far the mask (0 or more) of an (H, W, 3) slide lies beside its nuclei, to a small part of a pixel.

    Nuclei are where red light is absorbed: haematoxylin is blue, eosin lets red through. Where the two are not alike,
    or most alike at the end of what is searched, or the slide is too small, the offset is 0.
    """
    if min(mask.shape) < 8 * MAX_OFFSET:
        return NO_OFFSET
    top, left = (max(0, side - MAX_CROP) // 2 for side in mask.shape)
    slide, mask = (each[top : top + MAX_CROP, left : left + MAX_CROP] for each in (slide, mask))
    density = _outlines(-np.log((slide[:, :, 0].astype(np.float32) + 1) / 256))
    labels = _outlines((mask > 0).astype(np.float32))
    middle = density[MAX_OFFSET:-MAX_OFFSET, MAX_OFFSET:-MAX_OFFSET]
    if middle.std() < 1e-6 or labels.std() < 1e-6:
        return NO_OFFSET
    alike = np.asarray(cv2.matchTemplate(labels, np.ascontiguousarray(middle), cv2.TM_CCOEFF_NORMED))
    row, column = divmod(int(alike.argmax()), alike.shape[1])
    last = 2 * MAX_OFFSET
    if alike[row, column] < MIN_CORRELATION or row in (0, last) or column in (0, last):
        return NO_OFFSET
    down = row + _subpixel_peak(*alike[row - 1 : row + 2, column].tolist()) - MAX_OFFSET
    right = column + _subpixel_peak(*alike[row, column - 1 : column + 2].tolist()) - MAX_OFFSET
    return Offset(down, right)


def median_offset(offsets: Iterable[Offset]) -> Offset:
    """The median of several, down and right each by itself; none at all is 0.

    >>> median_offset([Offset(0.25, 0.5), Offset(0.5, 1.0), Offset(4.0, 0.75)])
    Offset(down=0.5, right=0.75)
    """
    table = np.array([(each.down, each.right) for each in offsets]).reshape(-1, 2)
    if not len(table):
        return NO_OFFSET
    down, right = np.median(table, axis=0).tolist()
    return Offset(down, right)


def move(picture: npt.NDArray[np.generic], offset: Offset) -> FloatImage:
    """An (H, W) picture moved down and to the right, between pixels by straight lines; its edges are repeated."""
    rows = np.asarray(picture, np.float32)
    return next(move_bands([(0, rows)], (rows.shape[0], rows.shape[1]), offset))[1]


def move_bands(bands: Iterable[Band], shape: Shape, offset: Offset) -> Iterator[Band]:
    """The same for a picture that comes in bands of rows, from its top; how high they are changes nothing."""
    if offset == NO_OFFSET:
        yield from bands
        return
    height, width = shape
    below, above = max(0, -int(np.floor(offset.down))), max(0, int(np.ceil(offset.down)))  # rows that one row needs
    held, first, given = np.empty((0, width), np.float32), 0, 0
    for top, band in bands:
        held = np.concatenate([held, _along(band, np.arange(width), offset.right, (0, width - 1), axis=1)])
        end = top + len(band)
        ready = height if end == height else end - below
        if ready <= given:
            continue
        yield given, _along(held, np.arange(given, ready) - first, offset.down, (-first, height - 1 - first), axis=0)
        given = ready
        kept = max(first, given - above)
        held, first = held[kept - first :], kept


def fade_margin(rows: FloatImage, shape: Shape, *, top: int, margin: int) -> None:
    """Lower the probabilities of a picture towards its border: from `margin` pixels on, where they stay, to 0.

    The picture's `rows` from `top` on are given, and changed.
    """
    if margin:
        down, across = (
            np.minimum(1, (np.minimum(places, side - 1 - places) + 0.5) / margin).astype(np.float32)
            for places, side in ((np.arange(top, top + len(rows)), shape[0]), (np.arange(shape[1]), shape[1]))
        )
        rows *= np.minimum(down[:, None], across)


def _along(
    values: FloatImage, places: npt.NDArray[np.int64], offset: float, ends: tuple[int, int], *, axis: int
) -> FloatImage:
    """Values at places of one axis, moved; beyond the two ends of the picture they stay what they are there."""
    whole = int(np.floor(offset))
    part = np.float32(offset - whole)
    near = np.take(values, np.clip(places - whole, *ends), axis=axis)
    near *= 1 - part
    if part:  # otherwise what lies one step farther may not be held any more
        far = np.take(values, np.clip(places - whole - 1, *ends), axis=axis)
        far *= part
        near += far
    return near


def _outlines(picture: FloatImage) -> FloatImage:
    fine, coarse = (cv2.GaussianBlur(picture, (0, 0), blur) for blur in (FINEST, COARSEST))
    return np.asarray(fine - coarse, np.float32)


def _subpixel_peak(before: float, here: float, after: float) -> float:
    """Where the parabola through three neighbours is highest, from -0.5 to 0.5; the middle one is not the least.

    >>> _subpixel_peak(1.0, 2.0, 1.0), _subpixel_peak(1.0, 2.0, 2.0)
    (0.0, 0.5)
    """
    bend = before - 2 * here + after
    return 0.0 if bend >= 0 else (after - before) / (-2 * bend)
