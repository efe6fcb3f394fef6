"""What a notebook passes to a predictor: numpy arrays, PIL images and paths, brought to one form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError
from handlens.io.gate import place
from handlens.io.images import read_image, read_rgb

ByteImage = npt.NDArray[np.uint8]

_SHAPES = "expected (H, W), (H, W, 3) or (H, W, 4)"


def as_picture(value: Any) -> npt.NDArray[Any]:
    """An array, a PIL image or the path of a picture as files are read: (H, W) or (H, W, 3 or 4), 8 or 16 bits.

    >>> as_picture(np.zeros((4, 6, 1), np.uint16)).shape
    (4, 6)
    """
    if isinstance(value, str | Path):
        return read_image(place(value))
    array = _as_array(value)
    if array.dtype not in (np.uint8, np.uint16) or array.ndim != 3:
        return array if array.dtype in (np.uint8, np.uint16) and array.ndim == 2 else as_rgb(array)
    if array.shape[2] not in (1, 3, 4):
        raise DataError(f"an array of shape {array.shape} is no image: {_SHAPES}")
    return array[:, :, 0] if array.shape[2] == 1 else array


def _as_array(value: Any) -> npt.NDArray[Any]:
    """An array or a PIL image as an array of numbers."""
    if hasattr(value, "convert") and hasattr(value, "getbands"):  # a PIL image, without importing Pillow
        return np.asarray(value.convert("RGB") if value.mode not in ("L", "RGB", "RGBA", "I;16") else value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise DataError("rows of unequal lengths are no image: pass an array of (H, W) or (H, W, 3) numbers") from None
    if array.dtype.kind not in "buif" or array.ndim < 2 or not array.size:
        what = f"an array of {array.dtype} with shape {array.shape}"
        raise DataError(f"{what} is no image: expected (H, W) or (H, W, 3) numbers, a PIL image, or a path")
    return array


def as_rgb(value: Any) -> ByteImage:
    """The same as (H, W, 3) uint8 RGB: grey is repeated, alpha dropped, 16 bits reduced, floats from 0 to 1 scaled.

    >>> as_rgb(np.array([[0.0, 1.0]])).tolist()
    [[[0, 0, 0], [255, 255, 255]]]
    """
    if isinstance(value, str | Path):
        return read_rgb(place(value))
    array = _as_array(value)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise DataError(f"an array of shape {np.shape(value)} is no image: {_SHAPES}")
    array = array[:, :, :3]
    if array.dtype == np.bool_:
        array = array.view(np.uint8) * np.uint8(255)
    elif array.dtype == np.uint16:
        array = (array >> 8).astype(np.uint8)
    elif array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise DataError("an array of floats outside of 0 to 1: scale it, or pass uint8")
        array = np.rint(array * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise DataError(f"an array of {array.dtype}: pass uint8, uint16, or floats from 0 to 1")
    return np.ascontiguousarray(np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array)
