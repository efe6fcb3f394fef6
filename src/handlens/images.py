"""PNG, JPEG, TIFF and NPY to arrays and back, headers checked first. The one place that knows image libraries."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.types import Shape

Array = npt.NDArray[Any]

MAX_IMAGE_PIXELS = 500_000_000
"""Largest picture that is decoded whole: three times the largest real label map (14830 x 9506)."""

MAX_IMAGE_BYTES = 4 * 2**30
"""Largest picture in memory once decoded: 16-bit RGBA at the largest size."""

DEFLATE_RATIO = 1_032
"""Deflate cannot pack better than this, so a PNG that claims more pixels is lying."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")

_MODE_BYTES = {
    "1": 1,
    "L": 1,
    "P": 1,
    "LA": 2,
    "PA": 2,
    "RGB": 3,
    "RGBA": 4,
    "CMYK": 4,
    "YCbCr": 3,
}  # bytes a pixel


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of a picture say: (height, width), Pillow's mode, format."""

    shape: Shape
    mode: str
    format: str


def read_header(path: Path) -> Header:
    """Shape and mode without decoding pixels; refuses lying, truncated and oversized files.

    Truncation is found from the file's end (PNG, JPEG) or from where its strips lie (TIFF): no pixel is decoded.
    """
    from PIL import Image

    size = _file_size(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's bomb warning: our own limit follows
            with Image.open(path) as picture:
                header = Header((picture.height, picture.width), picture.mode, picture.format or "")
                segments = _tiff_segments_end(picture) if header.format == "TIFF" else 0
    except Image.DecompressionBombError:
        raise DataError(f"more pixels than the {MAX_IMAGE_PIXELS:,} that are read", file=path) from None
    except Exception as error:  # Pillow's plug-ins raise all kinds on damaged headers
        raise DataError(f"not a readable picture ({error})", file=path) from None
    _refuse_bomb(path, header, size)
    if segments > size:
        raise DataError(
            f"truncated; its pixels end at byte {segments:,}, the file has {size:,}: copy it again", file=path
        )
    if header.format in ("PNG", "JPEG"):
        _refuse_truncated(path, header.format, size)
    return header


def read_image(path: Path) -> Array:
    """A picture as (H, W) grey, (H, W, 3) RGB or (H, W, 4) RGBA; uint8 or uint16 as stored."""
    import cv2

    header = read_header(path)
    picture = None
    if header.mode not in ("1", "P", "PA", "LA", "CMYK"):  # OpenCV expands these to colours
        try:
            picture = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
        except cv2.error:
            picture = None
    if picture is None:
        picture = _read_with_pillow(path)
    elif picture.ndim == 3:
        picture = cv2.cvtColor(picture, cv2.COLOR_BGRA2RGBA if picture.shape[2] == 4 else cv2.COLOR_BGR2RGB)
    if picture.shape[:2] != header.shape:
        raise DataError(f"the header says {shown(header.shape)}, the pixels are {shown(picture.shape[:2])}", file=path)
    return picture


def read_rgb(path: Path) -> npt.NDArray[np.uint8]:
    """A picture as (H, W, 3) uint8: grey repeated, alpha dropped, 16 bits reduced to 8."""
    picture = read_image(path)
    if picture.dtype == np.uint16:
        picture = (picture >> 8).astype(np.uint8)
    if picture.ndim == 2:
        picture = np.repeat(picture[:, :, None], 3, axis=2)
    return np.ascontiguousarray(picture[:, :, :3])


def read_grey(path: Path) -> npt.NDArray[np.uint8]:
    """A picture as (H, W) uint8, colours weighted as Pillow's `L` weighs them."""
    from PIL import Image

    picture = read_image(path)
    if picture.dtype == np.uint16:
        picture = (picture >> 8).astype(np.uint8)
    if picture.ndim == 2:
        return picture
    return np.asarray(Image.fromarray(np.ascontiguousarray(picture[:, :, :3])).convert("L"))


def read_mask(path: Path) -> npt.NDArray[np.bool_]:
    """True where grey is above 127, as the organisers of the mask challenges read their labels."""
    return read_grey(path) > 127


def read_npy_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array file; refuses pickles and files whose size does not fit their header."""
    mapped = _map_npy(path)
    return mapped.shape, mapped.dtype


def read_npy(path: Path) -> Array:
    """The array of a file, checked against its header before anything is allocated."""
    return np.array(_map_npy(path))


def write_png(path: Path, array: Array) -> None:
    """uint8 (H, W), (H, W, 3) or (H, W, 4), uint16 (H, W), or bool (H, W) as 0 and 255."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    Image.fromarray(array).save(path, format="PNG", compress_level=3)


def write_jpeg(path: Path, array: Array, *, quality: int) -> None:
    """uint8 (H, W) or (H, W, 3)."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, format="JPEG", quality=quality)


def shown(shape: tuple[int, ...]) -> str:
    """A shape for people, height first: `1000x666`."""
    return "x".join(map(str, shape))


def _file_size(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path) from None
    if not size:
        raise DataError("the file is empty: copy it again", file=path)
    return size


def _refuse_bomb(path: Path, header: Header, size: int) -> None:
    pixels = header.shape[0] * header.shape[1]
    if pixels > MAX_IMAGE_PIXELS:
        raise DataError(
            f"{shown(header.shape)} is {pixels:,} pixels; more than {MAX_IMAGE_PIXELS:,} are not read",
            file=path,
        )
    bits = 1 if header.mode in ("1", "P") else 8 * _MODE_BYTES.get(header.mode, 2)
    if header.format == "PNG" and pixels * bits // 8 > DEFLATE_RATIO * size + 2**16:
        raise DataError(
            f"the header says {shown(header.shape)}, but {size:,} bytes cannot hold that many pixels: copy it again",
            file=path,
        )


def _refuse_truncated(path: Path, kind: str, size: int) -> None:
    """A PNG ends with its IEND chunk, a JPEG with its end marker; a little padding after it is common."""
    with path.open("rb") as stream:
        stream.seek(max(0, size - 1024))
        tail = stream.read()
    if (b"IEND\xaeB`\x82" if kind == "PNG" else b"\xff\xd9") not in tail:
        raise DataError(f"truncated {kind} of {size:,} bytes, its end is missing: copy it again", file=path)


def _tiff_segments_end(picture: Any) -> int:
    """The byte after the last strip or tile of the first page."""
    tags = picture.tag_v2
    offsets, counts = tags.get(273) or tags.get(324) or (), tags.get(279) or tags.get(325) or ()
    return max((offset + count for offset, count in zip(offsets, counts, strict=False)), default=0)


def _read_with_pillow(path: Path) -> Array:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(path) as picture:
                mode = {"1": "L", "P": "RGB", "PA": "RGBA", "LA": "RGBA"}.get(picture.mode)
                if picture.mode == "P" and picture.palette and _is_grey(picture.getpalette() or []):
                    mode = "L"
                if picture.mode == "CMYK":
                    mode = "RGB"
                return np.asarray(picture.convert(mode) if mode else picture)
        except Exception as error:
            raise DataError(f"damaged, its pixels cannot be decoded ({error}): copy it again", file=path) from None


def _is_grey(palette: list[int]) -> bool:
    return palette[0::3] == palette[1::3] == palette[2::3]


def _map_npy(path: Path) -> Array:
    size = _file_size(path)
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, TypeError, SyntaxError, OverflowError, MemoryError) as error:
        raise DataError(f"not a readable array ({error})", file=path) from None
    if not isinstance(mapped, np.memmap):
        raise DataError("not one .npy array; save a single array with numpy.save", file=path)
    if mapped.offset + mapped.nbytes != size:
        raise DataError(
            f"the header says {shown(mapped.shape)} {mapped.dtype} ({mapped.offset + mapped.nbytes:,} bytes), "
            f"the file has {size:,}: save it again",
            file=path,
        )
    return mapped


def list_images(folder: Path) -> list[Path]:
    """Picture files of a folder, sorted by name; hidden ones left out."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")]
    return [folder / name for name in sorted(names) if name.lower().endswith(SUFFIXES)]
