"""What the samples of a TIFF page mean, the same for its first page and any other: grey, colours, palette, ink, alpha.

What comes out is how a viewer shows the page: black is 0, and it is turned as its orientation tag asks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io import orientation, tiff, tiff_codecs
from handlens.io.tiff_codecs import JPEG

Array = npt.NDArray[Any]

CMYK = 5
"""TIFF's number for inks, which it calls separated."""

_ASSOCIATED = 1  # ExtraSamples: colours were multiplied with alpha
_GREYS = (tiff.WHITE_IS_ZERO, tiff.BLACK_IS_ZERO)


def orientation_of(page: tiff.Page | tiff.Channels) -> int:
    """How the page asks to be turned, 1 where it does not."""
    first = page.pages[0] if isinstance(page, tiff.Channels) else page
    return orientation.checked(first.tags.tags.valueof(orientation.TAG, default=1))


def refuse_meaning(page: tiff.Page) -> None:
    """DataError for samples that are no grey, RGB, palette or CMYK of 1 to 16 bits without sign."""
    tags = page.tags
    tiff_codecs.refuse_unknown(tags, page.path)
    if tags.imagedepth != 1 or page.dtype not in (np.bool_, np.uint8, np.uint16):
        raise DataError(f"{page.dtype} pixels; expected 8 or 16 bits without sign: convert it", file=page.path)
    if not is_known(page):
        kind = getattr(tags.photometric, "name", tags.photometric)
        what = f"{page.samples} samples of {tags.bitspersample} bits ({kind})"
        raise DataError(f"{what}; expected grey, RGB, RGBA, palette or CMYK: convert it", file=page.path)


def is_known(page: tiff.Page) -> bool:
    """Whether `as_picture` knows what the samples mean."""
    meaning, samples = page.tags.photometric, page.samples
    if meaning in _GREYS:
        return samples in (1, 2)
    if meaning == tiff.PALETTE:
        return samples in (1, 2) and page.tags.colormap is not None
    if meaning == tiff.RGB or (meaning == tiff.YCBCR and page.tags.compression == JPEG):
        return samples in (3, 4)
    return meaning == CMYK and samples == 4


def as_picture(page: tiff.Page | tiff.Channels) -> Array:
    """The pixels as (H, W) grey, (H, W, 3) RGB or (H, W, 4) RGBA, uint8 or uint16, as a viewer shows them."""
    pixels = page.read() if isinstance(page, tiff.Channels) else _upright_colours(page)
    return orientation.turn(pixels, orientation_of(page))


def _upright_colours(page: tiff.Page) -> Array:
    refuse_meaning(page)
    tags, bits = page.tags, int(page.tags.bitspersample)
    array = page.read()
    if tags.photometric == tiff.PALETTE:
        return _from_palette(array[:, :, 0], tags.colormap)
    if bits < 8:
        array = array.astype(np.uint8) * np.uint8(255 // (2**bits - 1))
    if tags.photometric in _GREYS:
        grey = array[:, :, 0]  # alpha beside grey is dropped
        return np.iinfo(grey.dtype).max - grey if tags.photometric == tiff.WHITE_IS_ZERO else grey
    if tags.photometric == CMYK:
        return _from_ink(array)
    return _undo_alpha(array) if is_multiplied(page) else array


def is_multiplied(page: tiff.Page) -> bool:
    """Whether the colours were multiplied with their alpha."""
    return page.samples == 4 and page.tags.photometric == tiff.RGB and _ASSOCIATED in page.tags.extrasamples


def _from_palette(indices: Array, colours: Any) -> Array:
    """Colours of 16 bits reduced to 8; a palette of greys gives grey."""
    table = (np.moveaxis(np.asarray(colours), 0, -1) >> 8).astype(np.uint8)
    if np.array_equal(table[:, 0], table[:, 1]) and np.array_equal(table[:, 0], table[:, 2]):
        table = table[:, 0]
    picture: Array = table[indices.astype(np.intp)]
    return picture


def _from_ink(array: Array) -> Array:
    """CMYK without a colour profile, as viewers do that know none."""
    from PIL import Image

    inks = (array >> 8).astype(np.uint8) if array.dtype == np.uint16 else array
    picture = Image.frombytes("CMYK", (inks.shape[1], inks.shape[0]), np.ascontiguousarray(inks).tobytes())
    return np.asarray(picture.convert("RGB"))


def _undo_alpha(array: Array) -> Array:
    """Colours that were multiplied with their alpha, divided by it again; black where nothing is left of them."""
    alpha = array[:, :, 3:].astype(np.uint32)
    most = int(np.iinfo(array.dtype).max)
    colours = np.minimum(array[:, :, :3].astype(np.uint32) * most // np.maximum(alpha, 1), most) * (alpha > 0)
    return np.concatenate([colours.astype(array.dtype), array[:, :, 3:]], axis=2)
