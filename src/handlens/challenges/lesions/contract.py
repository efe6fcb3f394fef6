"""What a lesions model takes and gives: photograph and demographics as numbers, probabilities back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from handlens.challenges.lesions.score import SUM_TOLERANCE
from handlens.challenges.lesions.taxonomy import Taxonomy
from handlens.io.images import read_rgb
from handlens.sandbox.runner import Slot
from handlens.sandbox.verdicts import RefusedError

Floats = npt.NDArray[np.float32]

SIDE = 512
"""Photographs become SIDE x SIDE pixels, whatever their aspect ratio."""

PIXEL_RANGES: Mapping[str, float] = {"0-1": 1.0, "0-255": 255.0}
"""Names and upper ends of the ranges that pixels may be fed in."""

UNKNOWN_AGE, UNKNOWN_GENDER, UNKNOWN_LOCATION = 0.0, -1.0, -1.0
GENDERS: Mapping[str, float] = {"m": 1.0, "f": 0.0}

ROUNDING = 1e-6
"""How far below 0 or above 1 a probability may be by the rounding of 32-bit floats."""

OUTPUT_TYPES = ("tensor(float)", "tensor(float16)", "tensor(double)")


def image_input(path: Path, *, top: float) -> Floats:
    """(3, 512, 512) RGB from 0 to `top` of a photograph's file."""
    return resized_input(read_rgb(path), top=top)


def resized_input(photograph: npt.NDArray[np.uint8], *, top: float) -> Floats:
    """The same of (H, W, 3) pixels, resized as the contest's runner does: Pillow, bicubic."""
    picture = Image.fromarray(photograph).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(np.asarray(picture, np.float32).transpose(2, 0, 1)) / np.float32(255 / top)


def demographics_input(details: Mapping[str, Any]) -> Floats:
    """Age (0 unknown), gender (1 m, 0 f, -1 unknown), location (1 to 7, -1 unknown).

    >>> demographics_input({"age": 40.0, "gender": "m", "location": None}).tolist()
    [40.0, 1.0, -1.0]
    """
    age, gender, location = details.get("age"), details.get("gender"), details.get("location")
    return np.array(
        [
            UNKNOWN_AGE if age is None else age,
            GENDERS.get(str(gender), UNKNOWN_GENDER),
            UNKNOWN_LOCATION if location is None else location,
        ],
        np.float32,
    )


def check_slots(takes: Sequence[Slot], gives: Sequence[Slot], taxonomy: Taxonomy) -> None:
    """RefusedError where the file does not declare the contract's two inputs and one output, with N free."""
    expected = (("image", (3, SIDE, SIDE)), ("demographics", (3,)))
    shapes = "tensor(float)[N,3,512,512] and tensor(float)[N,3]"
    if len(takes) != 2:
        raise RefusedError("wrong inputs", f"it takes {_listed(takes)}; expected {shapes}")
    for slot, (what, sizes) in zip(takes, expected, strict=True):
        fits = len(slot.shape) == len(sizes) + 1 and all(map(_may_be, slot.shape[1:], sizes))
        if slot.type != "tensor(float)" or not fits:
            raise RefusedError("wrong inputs", f"as {what} it takes {slot}; expected {shapes}, in this order")
        if slot.shape[0] is not None:
            raise RefusedError("wrong inputs", f"as {what} it takes {slot}: N is fixed, it must be free")
    count = len(taxonomy.classes)
    wanted = f"one tensor(float)[N,{count}]"
    if len(gives) != 1 or gives[0].type not in OUTPUT_TYPES:
        raise RefusedError("wrong outputs", f"it gives {_listed(gives)}; expected {wanted}")
    (slot,) = gives
    if slot.shape and not (len(slot.shape) == 2 and _may_be(slot.shape[1], count)):
        raise RefusedError("wrong outputs", f"it gives {slot}; expected {wanted}")


def check_answer(
    outputs: Sequence[npt.NDArray[Any]], cases: Sequence[str], taxonomy: Taxonomy
) -> npt.NDArray[np.float64]:
    """A row of probabilities for each case; RefusedError where they are none, with the first case's id and class."""
    count = len(taxonomy.classes)
    if len(outputs) != 1 or outputs[0].shape != (len(cases), count):
        shapes = ", ".join(str(list(output.shape)) for output in outputs)
        raise RefusedError("wrong outputs", f"it answers with {shapes}; expected [{len(cases)}, {count}]")
    rows = np.asarray(outputs[0], np.float64)
    for case, row in zip(cases, rows, strict=True):
        for name, value in zip(taxonomy.classes, row.tolist(), strict=True):
            said = f"for {case} it gives {name} a probability of {value:g}"
            if not np.isfinite(value):
                raise RefusedError("not a number", said)
            if value < -ROUNDING:
                raise RefusedError("negative", said)
            if value > 1 + ROUNDING:
                raise RefusedError("above one", said)
        if abs(row.sum() - 1) > SUM_TOLERANCE:
            what = f"for {case} the probabilities sum to {row.sum():.6g}; expected 1 within {SUM_TOLERANCE}"
            raise RefusedError("not normalised", what)
    return rows


def _may_be(size: int | None, wanted: int) -> bool:
    return size is None or size == wanted


def _listed(slots: Sequence[Slot]) -> str:
    return " and ".join(f"{slot.name} {slot}" for slot in slots[:4]) or "nothing"
