"""What a file is by its first bytes, so that a picture of a kind we do not read is named and not called damaged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from handlens.errors import DataError
from handlens.io.gate import open_file

LOOKED_AT = 1024
"""Bytes from the start of a file that are enough to tell."""

AS_PICTURE = "save it as PNG or TIFF"
_EXPORT = "export its pictures as PNG or TIFF"


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: its name, the usual endings, what to do with it, and how it starts.

    `start` is matched from the first byte on; `endings` are in lower case. What is `read` here needs no remedy.
    """

    name: str
    endings: tuple[str, ...]
    start: re.Pattern[bytes]
    remedy: str = AS_PICTURE
    read: bool = False


def _format(name: str, endings: str, start: bytes, remedy: str = AS_PICTURE, *, read: bool = False) -> Format:
    return Format(name, tuple(endings.split()), re.compile(start, re.DOTALL), remedy, read)


FORMATS = (
    _format("PNG", ".png", rb"\x89PNG\r\n\x1a\n", read=True),
    _format("JPEG", ".jpg .jpeg", rb"\xff\xd8\xff", read=True),
    _format("TIFF", ".tif .tiff", rb"II[*+]\0|MM\0[*+]", read=True),
    _format("BMP", ".bmp .dib", rb"BM.{4}\0{4}"),
    _format("GIF", ".gif", rb"GIF8[79]a"),
    _format("WebP", ".webp", rb"RIFF.{4}WEBP"),
    _format("JPEG 2000", ".jp2 .j2k .jpx .j2c", rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51"),
    _format("JPEG XL", ".jxl", rb"\0\0\0\x0cJXL \r\n\x87\n|\xff\x0a"),
    _format("JPEG XR", ".jxr .wdp", rb"II\xbc\x01"),
    _format("AVIF", ".avif", rb".{4}ftyp(avif|avis)"),
    _format("HEIC", ".heic .heif", rb".{4}ftyp(hei[cxms]|hev[cxms]|mif1|msf1)"),
    _format("SVG", ".svg", rb"(\xef\xbb\xbf)?\s*(<\?xml|<!--|<!DOCTYPE svg|<svg).*<?svg"),
    _format("PSD", ".psd .psb", rb"8BPS"),
    _format("PNM", ".ppm .pgm .pbm .pnm", rb"P[1-7]\s"),
    _format("OpenEXR", ".exr", rb"v/1\x01"),
    _format("EPS", ".eps .ps", rb"%!PS|\xc5\xd0\xd3\xc6"),
    _format("PDF", ".pdf", rb"%PDF-", _EXPORT),
    _format("DICOM", ".dcm .dicom", rb".{128}DICM", _EXPORT),
    _format("HDF5", ".h5 .hdf5 .he5 .ims", rb"\x89HDF\r\n\x1a\n", _EXPORT),
    _format("Zeiss CZI", ".czi", rb"ZISRAWFILE", _EXPORT),
    _format("NIfTI", ".nii", rb".{344}n(\+|i)1\0", _EXPORT),
    _format("NumPy array", "", rb"\x93NUMPY"),  # labels and forgeries come so: no ending of a picture
)


def recognise(start: bytes) -> Format | None:
    """The kind of a file that starts like this; None where nothing is known that does.

    >>> recognise(b"GIF89a...").name
    'GIF'
    """
    return next((each for each in FORMATS if each.start.match(start)), None)


def named_like(ending: str) -> Format | None:
    """The kind of files whose names end so, dot included."""
    return next((each for each in FORMATS if ending.lower() in each.endings), None)


def of_file(path: Path) -> Format | None:
    """The kind of a regular file by its first bytes; None where it is another, or cannot be read."""
    try:
        with open_file(path) as stream:
            return recognise(stream.read(LOOKED_AT))
    except (DataError, OSError):
        return None


def why_unread(path: Path) -> str:
    """Why a file that has no ending of ours is not read as a picture; empty where it is none."""
    kind = of_file(path) or (named_like(path.suffix) if path.is_file() else None)
    if kind is None or not kind.endings:
        return ""
    if kind.read:
        return f"a {kind.name} without the ending {kind.endings[0]}: rename it"
    return f"{kind.name} is not read here: {kind.remedy}"
