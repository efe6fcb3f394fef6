"""What is lost of an image in a PDF: PDFium draws what is there, and the rest grey or white."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handlens.errors import DataError
from handlens.io import jpeg

_END = b"\xff\xd9"


def refuse_lost_pixels(image: Any) -> None:
    """DataError where data of an image are missing or corrupt. PDFium itself refuses JPEG 2000 and fax with a fault."""
    packings = image.get_filters(skip_simple=True)
    if packings == ["DCTDecode"]:
        content = bytes(image.get_data(decode_simple=True))
        start = max(0, content.find(jpeg.START))
        jpeg.refuse_corrupt(Path(), content[start:] + _END)  # that alone some PDFs leave out: nothing is lost by it
    elif not packings:
        _refuse_short(image)


def _refuse_short(image: Any) -> None:
    """A row may be missing: some programs count the last one short, and it does not show."""
    width, height = image.get_px_size()
    row = (width * image.get_metadata().bits_per_pixel + 7) // 8
    found = len(image.get_data(decode_simple=True))
    if found < row * (height - 1):
        lost = height - found // row
        raise DataError(f"damaged: {lost:,} of the image's {height:,} rows are missing: copy the PDF again")
