"""PNG, JPEG, TIFF and NPY to arrays and back, headers checked first. How TIFFs lie on the disk, `io.tiff` knows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError, Problem, counted
from handlens.io import gate, jpeg, tiff, tiff_codecs, tiff_pixels
from handlens.io.damage import (
    PNG_SAMPLES,
    refuse_damaged_png,
    refuse_many_parts,
    refuse_truncated,
    without_comments,
)
from handlens.io.formats import of_file, why_unread
from handlens.io.gate import file_size, open_file
from handlens.io.orientation import UPRIGHT, of_exif, shown_shape, turn
from handlens.types import Case, Shape

Array = npt.NDArray[Any]

MAX_IMAGE_PIXELS = 500_000_000
"""Largest picture that is decoded whole: three times the largest real label map (14830 x 9506)."""

MAX_IMAGE_BYTES = 1_300_000_000
"""Largest picture in memory, decoded: an RGB slide of 20,000 x 20,000, with some to spare."""

SLACK_BYTES = 256 * 2**20
"""How much larger than its pixels a picture file may be: telephones put a film behind theirs."""

DEFLATE_RATIO = 1_032
"""Deflate cannot pack better than this, so a PNG that claims more pixels is lying."""

JPEG_RATIO = 512
"""Most pixels in a byte of a JPEG: a block of 64 takes a bit at the least."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")

_FORMATS = ("PNG", "JPEG", "TIFF")  # Pillow knows dozens more; one of them (EPS) starts another program
_EXPANDED = ("1", "P", "PA", "LA")  # modes that OpenCV turns into colours
_SHOWN_AS = {"1": "L", "P": "RGB", "PA": "RGBA", "LA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB", "YCCK": "RGB"}
_RARE_OF_TIFF = ("RGB", "YCbCr")  # modes in which Pillow reads colours that `tiff_pixels` does not know
_ANY = 1 << 62  # bytes: `_refuse_bomb` has looked at the size


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of a picture say: (height, width) as shown, Pillow's mode, format, and how it is turned."""

    shape: Shape
    mode: str
    format: str
    orientation: int = UPRIGHT


def read_header(path: Path, *, channels: bool = True) -> Header:
    """Shape and mode without decoding pixels; refuses lying, truncated and oversized files.

    Truncation is found from the file's end (PNG, JPEG) or from where its strips lie (TIFF): no pixel is decoded.
    Three channels that ImageJ keeps in pages of their own are colours; without `channels`, every page is a picture.
    """
    size = file_size(path)
    refuse_many_parts(path, size)
    try:
        with _opened(path) as picture:
            kind = "JPEG" if picture.format == "MPO" else picture.format  # MPO: a JPEG with more after it
            header = Header((picture.height, picture.width), picture.mode, kind or "")
            turned = of_exif(picture.info.get("exif", b"")) if kind == "JPEG" else UPRIGHT
    except DataError:
        raise
    except Exception as error:  # Pillow's plug-ins raise all kinds on damaged headers
        rare, turned = _read_rare_header(path), UPRIGHT
        if rare is None:
            raise _not_a_picture(path, error) from None
        header = rare
    _refuse_bomb(path, header, size)
    if header.format != "TIFF":
        turned = max(turned, refuse_truncated(path, header.format, size))
        return replace(header, shape=shown_shape(header.shape, turned), orientation=turned)
    with tiff.opened(path) as first:
        if first.shape not in (header.shape, header.shape[::-1]):  # Pillow gives the sides as a viewer turns them
            what = f"readers take it for {shown(header.shape)} and {shown(first.shape)}: save it again"
            raise DataError(what, file=path)
        first.refuse_damaged()
        coloured = channels and tiff.channels_of(first) is not None
        turned = tiff_pixels.orientation_of(first)
        return Header(shown_shape(first.shape, turned), "RGB" if coloured else header.mode, "TIFF", turned)


def picture_case(id: str, path: Path) -> Case:
    """A case that is one picture, a group of its own; one that cannot be read keeps its fault for whoever asks."""
    try:
        return Case(id, path, read_header(path).shape, group=path.stem)
    except DataError as error:
        return Case(id, path, group=path.stem, fault=str(error))


def read_image(path: Path) -> Array:
    """A picture as a viewer shows it: (H, W) grey, (H, W, 3) RGB or (H, W, 4) RGBA; uint8 or uint16 as stored.

    It is turned as its orientation asks. What is done with other kinds of pixels: docs/reference/file-formats.md.
    """
    header = read_header(path)
    picture = _READERS[header.format](path, header)
    if picture.dtype not in (np.uint8, np.uint16):
        raise DataError(f"{picture.dtype} pixels; expected 8 or 16 bits without sign: convert it", file=path)
    if picture.shape[:2] != header.shape:
        raise DataError(f"the header says {shown(header.shape)}, the pixels are {shown(picture.shape[:2])}", file=path)
    return picture


@contextmanager
def remembering_picture() -> Iterator[None]:
    """While it lasts, a picture that `read_rgb` is asked for again, and is not too large, is not decoded again."""
    token = _REMEMBERED.set([])
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


REMEMBERED_PIXELS = 40_000_000
"""Of the largest picture that is remembered, 120 MB."""

_REMEMBERED: ContextVar[list[tuple[Path, npt.NDArray[np.uint8]]] | None] = ContextVar("remembered", default=None)
"""The last picture and where it was; None where pictures are not remembered."""


def read_rgb(path: Path) -> npt.NDArray[np.uint8]:
    """A picture as (H, W, 3) uint8: grey repeated, alpha dropped, 16 bits reduced to 8."""
    remembered = _REMEMBERED.get()
    if remembered is None:
        return _read_rgb(path)
    if not remembered or remembered[0][0] != path:
        remembered.clear()
        picture = _read_rgb(path)
        if picture.size > 3 * REMEMBERED_PIXELS:
            return picture
        picture.flags.writeable = False
        remembered.append((path, picture))
    return remembered[0][1]


def _read_rgb(path: Path) -> npt.NDArray[np.uint8]:
    picture = read_image(path)
    if picture.dtype == np.uint16:
        picture = (picture >> 8).astype(np.uint8)
    if picture.ndim == 2:
        picture = np.repeat(picture[:, :, None], 3, axis=2)
    return np.ascontiguousarray(picture[:, :, :3])


def read_grey(path: Path) -> npt.NDArray[np.uint8]:
    """A picture as (H, W) uint8, colours weighted as Pillow's `L` weighs them."""
    return _as_grey(read_image(path))


def read_mask(path: Path) -> npt.NDArray[np.bool_]:
    """True where grey is above 127, as the organisers of the mask challenges read their labels.

    Grey of 16 bits is not reduced first: 255 is white there too, as in Pillow's `L`.
    """
    picture = read_image(path)
    return (picture if picture.ndim == 2 else _as_grey(picture)) > 127


def write_png(path: Path, array: Array, *, level: int = 3) -> None:
    """uint8 (H, W), (H, W, 3) or (H, W, 4), uint16 (H, W), or bool (H, W) as 0 and 255; deflated at a level to 9."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    Image.fromarray(array).save(path, format="PNG", compress_level=level)


def write_jpeg(path: Path, array: Array, *, quality: int) -> None:
    """uint8 (H, W) or (H, W, 3)."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, format="JPEG", quality=quality)


def shown(shape: tuple[int, ...]) -> str:
    """A shape for people, height first: `1000x666`."""
    return "x".join(map(str, shape))


def _as_grey(picture: Array) -> npt.NDArray[np.uint8]:
    from PIL import Image

    if picture.dtype == np.uint16:
        picture = (picture >> 8).astype(np.uint8)
    if picture.ndim == 2:
        return picture
    return np.asarray(Image.fromarray(np.ascontiguousarray(picture[:, :, :3])).convert("L"))


def _reason(error: Exception, path: Path) -> str:
    """What a library said, without the path, which stands before it, nor the stream that it was handed."""
    said = getattr(error, "strerror", None) or str(error)
    return re.sub(r" ?<_io\.[^>]*>", "", said).replace(repr(str(path)), "").replace(str(path), "it").strip()


def _not_a_picture(path: Path, error: Exception) -> DataError:
    """Of a kind that is not read here, or damaged."""
    kind = of_file(path)
    if kind and not kind.read:
        return DataError(f"{kind.name} is not read here: {kind.remedy}", file=path)
    if kind is None and not path.name.lower().endswith(SUFFIXES):
        return DataError(f"not an image; expected one of {', '.join(SUFFIXES)}", file=path)
    return DataError(f"not a readable image ({_reason(error, path)}): copy it again", file=path)


def _refuse_bomb(path: Path, header: Header, size: int) -> None:
    pixels = header.shape[0] * header.shape[1]
    if pixels > MAX_IMAGE_PIXELS:
        raise DataError(
            f"{shown(header.shape)} is {pixels:,} pixels; more than {MAX_IMAGE_PIXELS:,} are not read",
            file=path,
        )
    bits = _png_bits(path) if header.format == "PNG" else 64
    if header.format == "PNG" and pixels * bits // 8 > MAX_IMAGE_BYTES:
        raise DataError(
            f"{shown(header.shape)} of {bits} bits; more than {MAX_IMAGE_BYTES:,} bytes are not read", file=path
        )
    if size > pixels * bits // 8 + SLACK_BYTES:
        raise DataError(
            f"{size:,} bytes for {shown(header.shape)} pixels: it holds something else; save it again", file=path
        )
    ratios = {"PNG": DEFLATE_RATIO * 8 / bits, "JPEG": JPEG_RATIO}
    if pixels > ratios.get(header.format, np.inf) * size + 2**16:
        raise DataError(
            f"the header says {shown(header.shape)}, but {size:,} bytes cannot hold that many pixels: copy it again",
            file=path,
        )


def _png_bits(path: Path) -> int:
    """Bits a pixel, from the header chunk: Pillow's mode hides that grey may have 2 or 4."""
    with open_file(path) as stream:
        start = stream.read(26)
    return max(1, start[24] * PNG_SAMPLES.get(start[25], 1))


def _read_rare_header(path: Path) -> Header | None:
    """Of a TIFF whose compression Pillow does not know: DataError says what to install; None for any other file."""
    kind = of_file(path)
    if kind is None or kind.name != "TIFF":
        return None
    with ExitStack() as stack:
        try:
            first = stack.enter_context(tiff.opened(path))
        except DataError:
            return None
        tiff_codecs.refuse_unknown(first.tags, path)
        mode = {1: "I;16" if first.dtype == np.uint16 else "L", 3: "RGB"}.get(first.samples)
        return Header(first.shape, mode, "TIFF") if mode and first.is_direct else None


def _read_png(path: Path, header: Header) -> Array:
    import cv2

    content = gate.read_bytes(path, most=_ANY)
    refuse_damaged_png(path, content)
    how = cv2.IMREAD_GRAYSCALE if header.mode in _EXPANDED else cv2.IMREAD_UNCHANGED
    picture = _decode(without_comments(path, content), how)
    if picture is None:  # Pillow would fill missing rows with black
        raise DataError("damaged, its pixels cannot be decoded: copy it again", file=path)
    if header.mode in _EXPANDED:
        return _turned(_read_with_pillow(path), header)
    if picture.ndim == 3:
        picture = cv2.cvtColor(picture, cv2.COLOR_BGRA2RGBA if picture.shape[2] == 4 else cv2.COLOR_BGR2RGB)
    return _turned(picture, header)


def _read_jpeg(path: Path, header: Header) -> Array:
    """Pillow gives the very pixels that OpenCV does, and prints nothing."""
    jpeg.refuse_corrupt(path, gate.read_bytes(path, most=_ANY))
    picture = _read_with_pillow(path)
    return _turned(picture, header)


def _read_tiff(path: Path, header: Header) -> Array:
    """By the meaning of its samples; Pillow knows some rarer ones, and turns them itself."""
    with tiff.opened(path) as first:
        page = tiff.channels_of(first) or first
        if page is not first or tiff_pixels.is_known(first) or not tiff_codecs.is_known(first.tags):
            return tiff_pixels.as_picture(page)
    if header.mode not in _RARE_OF_TIFF:
        with tiff.opened(path) as first:
            tiff_pixels.refuse_meaning(first)
    return _read_with_pillow(path)


_READERS = {"PNG": _read_png, "JPEG": _read_jpeg, "TIFF": _read_tiff}


def _turned(picture: Array, header: Header) -> Array:
    return picture if header.orientation == UPRIGHT else turn(picture, header.orientation)


def _decode(content: bytes, how: int) -> Array | None:
    """What OpenCV makes of the file; None where it is damaged or of a kind that it does not know."""
    import cv2

    try:
        picture: Array | None = cv2.imdecode(np.frombuffer(content, np.uint8), how | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        return None
    return picture if picture is None or picture.ndim == 2 or picture.shape[2] in (3, 4) else None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The picture as Pillow sees it, nothing decoded yet; Pillow's own limit of pixels is lifted and put back."""
    from PIL import Image

    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_file(path) as stream, Image.open(stream, formats=_FORMATS) as picture:
                yield picture
    finally:
        Image.MAX_IMAGE_PIXELS = before


def _read_with_pillow(path: Path) -> Array:
    try:
        with _opened(path) as picture:
            mode = _SHOWN_AS.get(picture.mode)
            if picture.mode == "P" and picture.palette and _is_grey(picture.getpalette() or []):
                mode = "L"
            return np.asarray(picture.convert(mode) if mode else picture)
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"damaged, its pixels cannot be decoded ({error}): copy it again", file=path) from None


def _is_grey(palette: list[int]) -> bool:
    return palette[0::3] == palette[1::3] == palette[2::3]


def list_images(folder: Path) -> list[Path]:
    """Picture files of a folder, sorted by name; hidden ones left out. A broken link is one: a case is never lost."""
    if not folder.is_dir():
        return []
    names = (name for name, is_folder in gate.list_folder(folder) if not is_folder)
    return [folder / name for name in names if name.lower().endswith(SUFFIXES) and not name.startswith(".")]


def skipped(folder: Path, *, within: Path | None = None) -> list[Problem]:
    """What `list_images` leaves out though it may be a picture: other formats, other endings, sub-folders; sorted.

    Files that are no pictures, such as tables and notes, are not mentioned; hidden ones neither. Names are as seen from
    `within`, where that is given.
    """
    if not folder.is_dir():
        return []
    names = [name for name, _ in gate.list_folder(folder) if not name.startswith(".")]
    place = within or folder
    found = ((folder / name, _why_skipped(folder / name)) for name in names)
    return [Problem(why, file=str(path.relative_to(place))) for path, why in found if why]


def _why_skipped(path: Path) -> str:
    if path.is_dir():
        number = len(list_images(path))
        return f"a sub-folder with {counted(number, 'picture')}, not read: move its pictures up" if number else ""
    return "" if path.name.lower().endswith(SUFFIXES) else why_unread(path)


def describe_skipped(problems: Sequence[Problem]) -> str:
    """
    >>> describe_skipped([Problem("BMP is not read here: save it as PNG", file="a.bmp")] * 5)
    'a.bmp: BMP is not read here: save it as PNG; and 4 more files that are not read'
    """
    if not problems:
        return ""
    count = len(problems) - 1
    more = f"; and {counted(count, 'more file')} that {'is' if count == 1 else 'are'} not read" if count else ""
    return f"{problems[0].file}: {problems[0].what}{more}"
