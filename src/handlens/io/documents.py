"""Files with several pages: how many a TIFF has, and each as a picture; and which files are PDFs."""

from __future__ import annotations

from pathlib import Path

from handlens.errors import DataError
from handlens.io import images, tiff, tiff_pixels
from handlens.io.gate import open_file
from handlens.io.images import Array, shown
from handlens.io.tiff import MAX_PAGES

SUFFIXES = (*images.SUFFIXES, ".pdf")
"""Endings of the files that are looked for in a folder."""

_PDF_START, _PDF_SEARCHED = b"%PDF-", 1024  # readers allow so much rubbish before the start


def is_pdf(path: Path) -> bool:
    """Whether it starts like a PDF: its first bytes say so, not its name."""
    with open_file(path) as stream:
        return _PDF_START in stream.read(_PDF_SEARCHED)


def count_pages(path: Path) -> int | None:
    """Pages of a TIFF that has several; None for a file that is one picture. Reduced copies in it are no pages."""
    with open_file(path) as stream:
        start = stream.read(4)
    if not start.startswith(tiff.STARTS):
        return None
    images.read_header(path, channels=False)
    with tiff.opened(path) as first:
        number = _checked_count(len(tiff.list_pages(first)), path)
        return number if number > 1 and not _is_one_picture(first) else None


def read_page(path: Path, page: int | None) -> Array:
    """A page, counted from 1, as `images.read_image` gives a picture; None where the file is one picture."""
    if page is not None:
        return _read_tiff(path, page)
    try:
        return images.read_image(path)
    except DataError as error:
        if path.name.lower().endswith(".pdf") and error.what.startswith("not an image"):
            raise DataError("not a readable PDF: copy it again", file=path) from None
        what = error.what.replace(", ".join(images.SUFFIXES), ", ".join(SUFFIXES))
        raise DataError(what, file=path) from None


def read_orientation(path: Path, page: int | None) -> int:
    """How viewers turn the stored pixels of a picture, or of a page of a TIFF: EXIF's number, 1 where they do not."""
    if page is None:
        return images.read_header(path).orientation
    with tiff.opened(path) as first:
        return tiff_pixels.orientation_of(_page(first, page))


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


def _read_tiff(path: Path, number: int) -> Array:
    with tiff.opened(path) as first:
        page = _page(first, number)
        if page.shape[0] * page.shape[1] * page.samples * max(1, page.dtype.itemsize) > images.MAX_IMAGE_BYTES:
            raise DataError(f"page {number} is {shown(page.shape)}: too large to be read", file=path)
        try:
            page.refuse_damaged()
            return tiff_pixels.as_picture(page)
        except DataError as error:
            raise DataError(f"page {number}: {error.what}", file=path) from None


def _page(first: tiff.Page, number: int) -> tiff.Page:
    pages = tiff.list_pages(first)
    _refuse_page(number, len(pages), first.path)
    return pages[number - 1]
