"""The figures of a PDF: every embedded image at its own pixels, and pages drawn where a figure is vector or in pieces.

The one place that knows PDFium. It is called in a process of its own (`sandbox.pdf`): the library is large, written in
C++, and the file is a stranger's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.pdf_damage import refuse_lost_pixels

Array = npt.NDArray[Any]
Box = tuple[float, float, float, float]

DOTS_PER_INCH = 200
"""How finely a page is drawn at the least; as finely as its sharpest image where that is finer."""

MAX_DOTS_PER_INCH = 600
"""And at the most: what journals print."""

MAX_PIXELS = 64_000_000
"""A poster is drawn more coarsely, so that it stays within this; a larger image is an error."""

SMALLEST_SIDE = 48
"""Pixels: the smallest figure of the contest has 64 and 74, smaller images are icons."""

MOST_IMAGES = 1_000
"""Images of one page that are taken one by one; a page of more is drawn."""

FEW_PATHS = 30
"""Lines and areas of a page without a vector figure: rules of tables, frames, a logo. By hand."""

MAX_DEPTH = 8
"""Of forms within forms."""

_NEEDS_PASSWORD = 4  # PDFium's number for it
_TOUCHING = 1.0  # pixels between two strips of one figure
_IMAGE, _PATH, _SHADING, _FORM = 3, 2, 4, 5  # PDFium's numbers for kinds of objects


@dataclass(frozen=True, slots=True)
class PdfFigure:
    """A figure of a page: `number` counts the images of the page from 1; 0 is what was drawn of the page.

    `box` is left, top, right, bottom in points from the page's upper left corner; `shape` is in pixels. `digest` tells
    an image that is used again. `pieces` are places among the page's images and where each lies: (index, top, left).
    """

    page: int
    number: int
    box: Box
    shape: tuple[int, int]
    digest: str = ""
    pieces: tuple[tuple[int, int, int], ...] = ()


@contextmanager
def opened(content: bytes) -> Iterator[Any]:
    """The document of these bytes; DataError where it is none."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _NEEDS_PASSWORD:
            raise DataError("the PDF has a password: save it without one") from None
        raise DataError("not a readable PDF: copy it again, or print it to a new PDF") from None
    try:
        yield document
    finally:
        document.close()


def list_figures(document: Any, page: int) -> list[PdfFigure]:
    """The figures of a page, counted from 1: images from the top, then what must be drawn of it. Decodes no pixel."""
    with _named(page):
        return _list_figures(document[page - 1], page)


@contextmanager
def _named(page: int) -> Iterator[None]:
    """Whatever PDFium says of a page is a DataError."""
    import pypdfium2

    try:
        yield
    except (pypdfium2.PdfiumError, ValueError, OverflowError, ArithmeticError) as error:
        raise DataError(f"page {page} cannot be read ({error}): print it to a new PDF") from None


def _list_figures(sheet: Any, page: int) -> list[PdfFigure]:
    found, lines = _survey(sheet)
    images = _joined([each for each in found if min(each.shape) > 1]) if len(found) <= MOST_IMAGES else []
    large = [each for each in images if min(each.shape) >= SMALLEST_SIDE]
    large.sort(key=lambda each: (round(each.box[1]), round(each.box[0])))
    figures = [
        replace(each, page=page, number=number, digest=_digest(sheet, each)) for number, each in enumerate(large, 1)
    ]
    parts = [each.box for each in found] if len(large) != 1 and found else []
    if len(lines) > FEW_PATHS:
        parts = [*(each.box for each in found), *lines]
    if not parts or (len(large) == 1 and len(lines) <= FEW_PATHS):
        return figures
    box = _union(parts, _page_box(sheet))
    shape = _drawn_shape(box, _finest(found))  # not a number is a ValueError
    return [*figures, PdfFigure(page, 0, box, shape)] if min(shape) >= SMALLEST_SIDE else figures


def whole_page(document: Any, page: int) -> PdfFigure:
    """The page itself as a figure, to be drawn: for documents in which nothing else is found."""
    with _named(page):
        box = _page_box(document[page - 1])
        return PdfFigure(page, 0, box, _drawn_shape(box, 0.0))


def read_figure(document: Any, figure: PdfFigure, *, masked: bool) -> Array:
    """The pixels as the page shows them, upright: (H, W) or (H, W, 3) uint8; transparent ones on white.

    `masked`: the file has images with masks. Then each is asked for its own.
    """
    with _named(figure.page):
        return _read_figure(document[figure.page - 1], figure, masked)


def _read_figure(sheet: Any, figure: PdfFigure, masked: bool) -> Array:
    if figure.number == 0:
        return _draw(sheet, figure)
    if figure.shape[0] * figure.shape[1] > MAX_PIXELS:
        raise DataError(f"an image of {figure.shape[0]}x{figure.shape[1]} pixels; at most {MAX_PIXELS:,} are read")
    objects = list(_images(sheet))
    parts = [(_pixels(*objects[index], sheet, masked=masked), top, left) for index, top, left in figure.pieces]
    if len(parts) == 1:
        return parts[0][0]
    canvas = np.full((*figure.shape, 3), 255, np.uint8)
    for part, top, left in parts:
        colours = np.repeat(part[:, :, None], 3, axis=2) if part.ndim == 2 else part
        room = canvas[top : top + colours.shape[0], left : left + colours.shape[1]]
        room[:] = colours[: room.shape[0], : room.shape[1]]
    return canvas


def has_masks(content: bytes) -> bool:
    """Whether any image can have a mask: dictionaries of images are never packed, so the word is there to be found."""
    return b"/SMask" in content or b"/Mask" in content


# --- what lies on a page ------------------------------------------------------------------------------------------


def _survey(sheet: Any) -> tuple[list[PdfFigure], list[Box]]:
    """Images with their places, and the boxes of lines and areas."""
    found = []
    for index, (image, matrix) in enumerate(_images(sheet)):
        if index > MOST_IMAGES:
            break
        width, height = image.get_px_size()
        shape = (width, height) if _is_quarter(matrix) != _quarters(sheet) % 2 else (height, width)
        found.append(PdfFigure(0, 0, _box(matrix, sheet), shape, "", ((index, 0, 0),)))
    lines = [_box(matrix, sheet, item) for item, matrix in _walk(sheet, None, _IDENTITY, (_PATH, _SHADING), 0)]
    page = _page_box(sheet)
    return found, [box for box in lines if _area(_overlap(box, page)) < 0.9 * _area(page)]  # not the white background


_IDENTITY = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
Matrix = tuple[float, float, float, float, float, float]


def _images(sheet: Any) -> Iterator[tuple[Any, Matrix]]:
    return _walk(sheet, None, _IDENTITY, (_IMAGE,), 0)


def _walk(sheet: Any, form: Any, outer: Matrix, kinds: Sequence[int], depth: int) -> Iterator[tuple[Any, Matrix]]:
    """Objects of a page, those inside forms too, each with the matrix from its own unit to the page."""
    for item in sheet.get_objects(max_depth=1, form=form):
        matrix = _times(item.get_matrix().get(), outer) if item.type in (_IMAGE, _FORM) else outer
        if item.type in kinds:
            yield item, matrix
        if item.type == _FORM and depth < MAX_DEPTH:
            yield from _walk(sheet, item, matrix, kinds, depth + 1)


def _times(first: Sequence[float], second: Matrix) -> Matrix:
    """The first transform, then the second."""
    a, b, c, d, e, f = first
    p, q, r, s, t, u = second
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def _box(matrix: Matrix, sheet: Any, item: Any = None) -> Box:
    """Where the unit square, or an object of a form, lies on the page as it is shown; from the upper left corner."""
    corners = ((0, 0), (1, 0), (0, 1), (1, 1))
    if item is not None:
        left, bottom, right, top = item.get_bounds()
        corners = ((left, bottom), (right, bottom), (left, top), (right, top))
    a, b, c, d, e, f = matrix
    points = [_shown_point(a * x + c * y + e, b * x + d * y + f, sheet) for x, y in corners]
    across, down = zip(*points, strict=True)
    return min(across), min(down), max(across), max(down)


def _shown_point(x: float, y: float, sheet: Any) -> tuple[float, float]:
    left, bottom, right, top = sheet.get_cropbox()
    turns = _quarters(sheet)
    if turns == 1:
        return y - bottom, x - left
    if turns == 2:
        return right - x, y - bottom
    if turns == 3:
        return top - y, right - x
    return x - left, top - y


def _quarters(sheet: Any) -> int:
    return int(sheet.get_rotation()) // 90 % 4


def _page_box(sheet: Any) -> Box:
    width, height = sheet.get_size()
    return 0.0, 0.0, float(width), float(height)


def _is_quarter(matrix: Matrix) -> bool:
    """Whether rows of the image go down the page."""
    a, b, c, d, _, _ = matrix
    return abs(b) + abs(c) > abs(a) + abs(d)


def _digest(sheet: Any, figure: PdfFigure) -> str:
    """Of the packed bytes of its pieces: the same image on another page has the same."""
    wanted = {index for index, _, _ in figure.pieces}
    digest = hashlib.sha256(repr(figure.shape).encode())
    for index, (image, matrix) in enumerate(_images(sheet)):
        if index in wanted:
            digest.update(bytes(image.get_data()))
            digest.update(repr([matrix[0] < 0, matrix[3] < 0, _is_quarter(matrix)]).encode())
    return digest.hexdigest()


# --- strips of one figure -----------------------------------------------------------------------------------------


def _joined(images: list[PdfFigure]) -> list[PdfFigure]:
    """Strips and tiles that touch along a whole side, at the same scale, as one figure."""
    blocks = list(images)
    joined = True
    while joined:
        joined = False
        for first in range(len(blocks)):
            for second in range(len(blocks)):
                merged = _merge(blocks[first], blocks[second]) if first != second else None
                if merged is not None:
                    blocks[first] = merged
                    del blocks[second]
                    joined = True
                    break
            if joined:
                break
    return blocks


def _merge(first: PdfFigure, second: PdfFigure) -> PdfFigure | None:
    """The second below or to the right of the first, or None."""
    scales = [_scale(each) for each in (first, second)]
    if any(not 0.98 < scales[0][axis] / scales[1][axis] < 1.02 for axis in (0, 1)):
        return None
    down, across = (abs(scales[0][axis]) * _TOUCHING for axis in (0, 1))
    (l1, t1, r1, b1), (l2, t2, r2, b2) = first.box, second.box
    height, width = first.shape
    if width == second.shape[1] and abs(l1 - l2) < across and abs(r1 - r2) < across and abs(b1 - t2) < down:
        top, left, shape = height, 0, (height + second.shape[0], width)
    elif height == second.shape[0] and abs(t1 - t2) < down and abs(b1 - b2) < down and abs(r1 - l2) < across:
        top, left, shape = 0, width, (height, width + second.shape[1])
    else:
        return None
    moved = tuple((index, y + top, x + left) for index, y, x in second.pieces)
    return replace(first, box=_union([first.box, second.box]), shape=shape, pieces=(*first.pieces, *moved))


def _scale(figure: PdfFigure) -> tuple[float, float]:
    """Points of a pixel, down and across."""
    left, top, right, bottom = figure.box
    return max(bottom - top, 1e-9) / figure.shape[0], max(right - left, 1e-9) / figure.shape[1]


def _union(boxes: Sequence[Box], within: Box | None = None) -> Box:
    left, top, right, bottom = (choose(box[side] for box in boxes) for side, choose in enumerate((min, min, max, max)))
    return _overlap((left, top, right, bottom), within) if within else (left, top, right, bottom)


def _overlap(box: Box, other: Box) -> Box:
    left, top = max(box[0], other[0]), max(box[1], other[1])
    return left, top, max(left, min(box[2], other[2])), max(top, min(box[3], other[3]))


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


# --- pixels -------------------------------------------------------------------------------------------------------


def _pixels(image: Any, matrix: Matrix, sheet: Any, *, masked: bool) -> Array:
    """An image as the page shows it, at its own size."""
    refuse_lost_pixels(image)
    pixels = _colours(image.get_bitmap())
    if masked:
        pixels = _on_white(pixels, image)
    a, b, c, d, _, _ = matrix
    if _is_quarter(matrix):
        pixels = pixels.swapaxes(0, 1)[:: -1 if b > 0 else 1, :: -1 if c > 0 else 1]
    else:
        pixels = pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]
    return np.ascontiguousarray(np.rot90(pixels, -_quarters(sheet)))


def _colours(bitmap: Any) -> Array:
    """Grey or RGB of a bitmap, copied: the library takes its own away."""
    array = np.array(bitmap.to_numpy())
    if array.ndim == 3 and array.shape[2] == 1:
        return array[:, :, 0]
    return array if array.ndim == 2 else np.ascontiguousarray(array[:, :, 2::-1])


def _on_white(pixels: Array, image: Any) -> Array:
    """Where a mask makes the image transparent, the white of the page."""
    from PIL import Image

    drawn = np.array(image.get_bitmap(render=True).to_numpy())
    if drawn.ndim != 3 or drawn.shape[2] != 4 or drawn[:, :, 3].min() == 255:
        return pixels
    seen, height, width = drawn[:, :, 3], pixels.shape[0], pixels.shape[1]
    a, b, c, d, _, _ = image.get_matrix().get()
    if abs(b) + abs(c) > abs(a) + abs(d):
        return pixels  # what is drawn is turned already: shown without its mask
    seen = seen[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]
    if seen.shape != (height, width):
        seen = np.asarray(Image.fromarray(np.ascontiguousarray(seen)).resize((width, height)))
    weight = seen.astype(np.uint16)[:, :, None] if pixels.ndim == 3 else seen.astype(np.uint16)
    return ((pixels * weight + 255 * (255 - weight) + 127) // 255).astype(np.uint8)


def _finest(images: Sequence[PdfFigure]) -> float:
    """Pixels an inch of the sharpest image that is large enough to count; 0 without any."""
    return max((72 / min(_scale(each)) for each in images if min(each.shape) >= SMALLEST_SIDE // 2), default=0.0)


def _drawn_shape(box: Box, finest: float) -> tuple[int, int]:
    width, height = box[2] - box[0], box[3] - box[1]
    scale = min(max(finest, DOTS_PER_INCH), MAX_DOTS_PER_INCH) / 72
    scale = min(scale, (MAX_PIXELS / max(width * height, 1.0)) ** 0.5)
    return max(1, round(height * scale)), max(1, round(width * scale))


def _draw(sheet: Any, figure: PdfFigure) -> Array:
    """A part of the page on white as (H, W, 3)."""
    import pypdfium2

    for image, _ in islice(_images(sheet), MOST_IMAGES):
        refuse_lost_pixels(image)
    left, top, right, bottom = figure.box
    width, height = sheet.get_size()
    scale = figure.shape[0] / max(bottom - top, 1e-9)
    drawn = sheet.render(
        scale=scale,
        crop=(max(0.0, left), max(0.0, height - bottom), max(0.0, width - right), max(0.0, top)),
        rev_byteorder=True,
        force_bitmap_format=pypdfium2.raw.FPDFBitmap_BGR,
    )
    return np.array(drawn.to_numpy()[:, :, :3])
