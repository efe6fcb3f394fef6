"""PDF files made by hand, so that every byte of their images is known."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Image = tuple[bytes, bytes, Sequence[float]]
"""Entries of its dictionary, its packed bytes, and where it lies: a, b, c, d, e, f."""


def packed(pixels: np.ndarray, place: Sequence[float], extra: bytes = b"") -> Image:
    """Grey, RGB or CMYK without loss."""
    space = {1: b"/DeviceGray", 3: b"/DeviceRGB", 4: b"/DeviceCMYK"}[1 if pixels.ndim == 2 else pixels.shape[2]]
    return entries(pixels.shape, space, b"/FlateDecode", extra), zlib.compress(pixels.tobytes()), place


def entries(shape: Sequence[int], space: bytes, packing: bytes, extra: bytes = b"") -> bytes:
    size = b"/Width %d /Height %d" % (shape[1], shape[0])
    return b"%s /ColorSpace %s /BitsPerComponent 8 /Filter %s %s" % (size, space, packing, extra)


def write_pdf(path: Path, pages: Sequence[Any], *, more: Sequence[bytes] = (), rotate: int = 0) -> Path:
    """Pages as lists of images, or (images, drawing); `more` are objects from number 3 on, which images may name."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", *more]
    kids, numbers = [], {}
    for page in pages:
        images, drawing = page if isinstance(page, tuple) else (page, b"")
        names, content = b"", b""
        for index, (head, data, place) in enumerate(images):
            if (head, data) not in numbers:  # the same image is stored once
                head_line = b"<< /Type /XObject /Subtype /Image %s /Length %d >>" % (head, len(data))
                objects.append(head_line + b"\nstream\n" + data + b"\nendstream")
                numbers[head, data] = len(objects)
            names += b"/I%d %d 0 R " % (index, numbers[head, data])
            content += b"q %s cm /I%d Do Q\n" % (" ".join(f"{number:.6f}" for number in place).encode(), index)
        content += drawing
        objects.append(b"<< /Length %d >>\nstream\n" % len(content) + content + b"\nendstream")
        resources = b"/Contents %d 0 R /Resources << /XObject << %s>> >>" % (len(objects), names)
        box = b"/MediaBox [0 0 600 800] /Rotate %d" % rotate
        objects.append(b"<< /Type /Page /Parent 2 0 R %s %s >>" % (box, resources))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    path.write_bytes(_file(objects))
    return path


def _file(objects: Sequence[bytes]) -> bytes:
    out, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end
