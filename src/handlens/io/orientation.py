"""How a file asks to be turned before it is shown: one rule for JPEG, PNG and TIFF, as web browsers have it.

The number is that of EXIF (JPEG, PNG) or of the TIFF tag 274, 1 to 8; any other counts as 1, upright. What XMP says is
not asked. Pixels, sizes, masks and coordinates are everywhere those of the picture as it is shown.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.types import Shape

Array = npt.NDArray[Any]

TAG = 274
"""Of EXIF and TIFF."""

UPRIGHT = 1
_SHORT = 3
_PREFIX = b"Exif\0\0"  # before the TIFF structure in a JPEG


def turn(pixels: Array, number: int) -> Array:
    """(H, W) or (H, W, C) as stored, to how it is shown.

    >>> turn(np.array([[1, 2]]), 6).tolist()  # the right of what is stored is shown below
    [[1], [2]]
    """
    if number in (3, 4, 6, 7):
        pixels = pixels[::-1]
    if number in (2, 3, 7, 8):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels.swapaxes(0, 1) if swaps(number) else pixels)


def shown_shape(stored: Shape, number: int) -> Shape:
    """Height and width as shown."""
    return (stored[1], stored[0]) if swaps(number) else stored


def swaps(number: int) -> bool:
    """Whether rows become columns."""
    return 5 <= number <= 8


def checked(number: object) -> int:
    """The number where it is one, otherwise upright."""
    return number if isinstance(number, int) and 1 <= number <= 8 else UPRIGHT


def of_exif(block: bytes) -> int:
    """What a block of EXIF says: the first directory's tag; upright where there is none, or it is damaged."""
    data = block.removeprefix(_PREFIX)
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None:
        return UPRIGHT
    try:
        (place,) = struct.unpack_from(f"{order}I", data, 4)
        (count,) = struct.unpack_from(f"{order}H", data, place)
        for entry in range(count):
            tag, kind, values, value = struct.unpack_from(f"{order}HHIH", data, place + 2 + 12 * entry)
            if tag == TAG:
                return checked(value) if (kind, values) == (_SHORT, 1) else UPRIGHT
    except struct.error:
        return UPRIGHT
    return UPRIGHT
