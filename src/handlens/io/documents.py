"""Files with pages: how many pages a PDF or TIFF has, and each as a picture. The one place that knows PDF libraries."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handlens.errors import DataError
from handlens.io import images
from handlens.io.images import Array, shown

if TYPE_CHECKING:
    import tifffile

SUFFIXES = (*images.SUFFIXES, ".pdf")
"""Endings of the files that are looked for in a folder."""

DOTS_PER_INCH = 200
"""How finely a PDF page is drawn: an A4 page becomes 1654x2339 pixels."""

MAX_PAGE_PIXELS = 64_000_000
"""A poster is drawn more coarsely, so that it stays within this."""

MAX_PAGES = 10_000
"""More pages than a book has: such a file is a mistake or a trap."""

_PDF_START, _PDF_SEARCHED = b"%PDF-", 1024  # readers allow so much rubbish before the start
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
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
    if start.startswith(_TIFF_STARTS):
        images.read_header(path)
        with _opened_tiff(path) as pages:
            number = _checked_count(len(pages), path)
        return number if number > 1 else None
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


@contextmanager
def _opened_tiff(path: Path) -> Iterator[list[tifffile.TiffPage]]:
    """The pages that are pictures of their own, nothing decoded yet."""
    import tifffile

    try:
        with tifffile.TiffFile(path) as file:
            pages = []
            for number in range(MAX_PAGES + 1):
                try:
                    page = file.pages[number]
                except IndexError:
                    break
                if isinstance(page, tifffile.TiffPage) and not page.is_reduced and not page.is_mask:
                    pages.append(page)
            yield pages
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged headers and codecs raise all kinds
        raise DataError(f"not a readable TIFF ({error}): copy it again", file=path) from None


def _read_tiff(path: Path, page: int) -> Array:
    with _opened_tiff(path) as pages:
        _refuse_page(page, len(pages), path)
        sheet = pages[page - 1]
        height, width = sheet.imagelength, sheet.imagewidth
        samples = sheet.samplesperpixel
        if height * width * samples * max(1, sheet.bitspersample // 8) > images.MAX_IMAGE_BYTES:
            raise DataError(f"page {page} is {shown((height, width))}: too large to be read", file=path)
        if max(map(int.__add__, sheet.dataoffsets, sheet.databytecounts), default=0) > path.stat().st_size:
            raise DataError(f"page {page} is truncated: copy it again", file=path)
        return _as_picture(sheet, path, page)


def _as_picture(sheet: tifffile.TiffPage, path: Path, page: int) -> Array:
    """The page's pixels as grey, RGB or RGBA of 8 or 16 bits; black is 0."""
    import tifffile

    array: Array = np.asarray(sheet.asarray())
    if sheet.planarconfig == tifffile.PLANARCONFIG.SEPARATE and array.ndim == 3:
        array = np.moveaxis(array, 0, -1)
    if sheet.photometric == tifffile.PHOTOMETRIC.PALETTE and sheet.colormap is not None:
        array = np.moveaxis(sheet.colormap, 0, -1)[array] >> 8
        array = array.astype(np.uint8)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    if array.dtype not in (np.uint8, np.uint16):
        raise DataError(f"page {page} has {array.dtype} pixels; expected 8 or 16 bits without sign", file=path)
    if sheet.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
        array = np.iinfo(array.dtype).max - array
    if array.ndim == 3 and array.shape[2] in (1, 2):  # grey, perhaps with alpha
        array = array[:, :, 0]
    if array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4)):
        return np.ascontiguousarray(array)
    raise DataError(f"page {page} is {shown(array.shape)}; expected grey, RGB or RGBA", file=path)
