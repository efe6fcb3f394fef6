"""Files with pages: how many pages a PDF or TIFF has, and each as a picture. The one place that knows PDF libraries."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from handlens.errors import DataError
from handlens.io import images, tiff, tiff_codecs
from handlens.io.images import Array, shown
from handlens.io.tiff import MAX_PAGES

SUFFIXES = (*images.SUFFIXES, ".pdf")
"""Endings of the files that are looked for in a folder."""

DOTS_PER_INCH = 200
"""How finely a PDF page is drawn: an A4 page becomes 1654x2339 pixels."""

MAX_PAGE_PIXELS = 64_000_000
"""A poster is drawn more coarsely, so that it stays within this."""

_PDF_START, _PDF_SEARCHED = b"%PDF-", 1024  # readers allow so much rubbish before the start
_NEEDS_PASSWORD = 4  # PDFium's number for it


def count_pages(path: Path) -> int | None:
    """Pages of a PDF, or of a TIFF that has several; None for a file that is one picture.

    What kind of file it is, its first bytes say, not its name. Reduced copies that a TIFF carries are no pages.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(_PDF_SEARCHED)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path) from None
    if _PDF_START in start:
        with _opened_pdf(path) as document:
            return _checked_count(len(document), path)
    if start.startswith(tiff.STARTS):
        images.read_header(path, channels=False)
        with tiff.opened(path) as first:
            number = _checked_count(len(tiff.list_pages(first)), path)
            return number if number > 1 and not _is_one_picture(first) else None
    return None


def read_page(path: Path, page: int | None) -> Array:
    """A page, counted from 1, as `images.read_image` gives a picture; None where the file is one picture."""
    if page is None:
        return images.read_image(path)
    with path.open("rb") as stream:
        is_pdf = _PDF_START in stream.read(_PDF_SEARCHED)
    return _draw_pdf(path, page) if is_pdf else _read_tiff(path, page)


def read_orientation(path: Path) -> int:
    """How viewers turn the stored pixels before they show them: the EXIF number, 1 where they do not."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=("PNG", "JPEG", "TIFF")) as picture:
                if picture.format == "PNG" and "exif" not in picture.info:  # Pillow would decode all pixels to look
                    return 1
                number = int(picture.getexif().get(0x0112, 1))
    except Exception:  # no picture, or notes that cannot be read: then nothing turns it
        return 1
    return number if 1 <= number <= 8 else 1


def _is_one_picture(first: tiff.Page) -> bool:
    """Whether the pages are the colours of one picture."""
    try:
        return tiff.channels_of(first) is not None
    except DataError:  # other channels than three: each is looked at as a page
        return False


def _checked_count(number: int, path: Path) -> int:
    if not 1 <= number <= MAX_PAGES:
        raise DataError(f"{number:,} pages; expected 1 to {MAX_PAGES:,}: split it", file=path)
    return number


def _refuse_page(page: int, number: int, path: Path) -> None:
    if not 1 <= page <= number:
        raise DataError(f"there is no page {page}, the pages are 1 to {number}", file=path)


@contextmanager
def _opened_pdf(path: Path) -> Iterator[Any]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _NEEDS_PASSWORD:
            raise DataError("the PDF has a password: save it without one", file=path) from None
        raise DataError("not a readable PDF: copy it again, or print it to a new PDF", file=path) from None
    try:
        yield document
    finally:
        document.close()


def _draw_pdf(path: Path, page: int) -> Array:
    """The page on white as (H, W, 3)."""
    import pypdfium2

    with _opened_pdf(path) as document:
        _refuse_page(page, len(document), path)
        try:
            sheet = document[page - 1]
            width, height = sheet.get_size()
            scale = min(DOTS_PER_INCH / 72, (MAX_PAGE_PIXELS / max(width * height, 1.0)) ** 0.5)
            drawn = sheet.render(scale=scale, rev_byteorder=True, force_bitmap_format=pypdfium2.raw.FPDFBitmap_BGR)
            return np.array(drawn.to_numpy()[:, :, :3])
        except (pypdfium2.PdfiumError, ValueError) as error:
            raise DataError(f"page {page} cannot be drawn ({error}): print it to a new PDF", file=path) from None


def _read_tiff(path: Path, number: int) -> Array:
    with tiff.opened(path) as first:
        pages = tiff.list_pages(first)
        _refuse_page(number, len(pages), path)
        page = pages[number - 1]
        if page.shape[0] * page.shape[1] * page.samples * max(1, page.dtype.itemsize) > images.MAX_IMAGE_BYTES:
            raise DataError(f"page {number} is {shown(page.shape)}: too large to be read", file=path)
        try:
            page.refuse_damaged()
            return _as_picture(page)
        except DataError as error:
            raise DataError(f"page {number}: {error.what}", file=path) from None


def _as_picture(page: tiff.Page) -> Array:
    """The page's pixels as grey, RGB or RGBA of 8 or 16 bits; black is 0."""
    tags = page.tags
    tiff_codecs.refuse_unknown(tags, page.path)
    if tags.imagedepth != 1 or page.dtype not in (np.bool_, np.uint8, np.uint16):
        raise DataError(f"{page.dtype} pixels; expected 8 or 16 bits without sign", file=page.path)
    array = page.read()
    if tags.photometric == tiff.PALETTE and tags.colormap is not None:
        array = (np.moveaxis(tags.colormap, 0, -1)[array[:, :, 0]] >> 8).astype(np.uint8)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * np.uint8(255)
    if tags.photometric == tiff.WHITE_IS_ZERO:
        array = np.iinfo(array.dtype).max - array
    if array.shape[2] in (1, 2):  # grey, perhaps with alpha
        array = array[:, :, 0]
    if array.ndim == 2 or array.shape[2] in (3, 4):
        return np.ascontiguousarray(array)
    raise DataError(f"{shown(array.shape)}; expected grey, RGB or RGBA", file=page.path)
