"""Files that papyrologists open next: the ink as a mask, and dark on the papyrus as an infrared photograph shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import file_of
from handlens.challenges.ink.maps import enlarge
from handlens.io.png import write_bands
from handlens.io.volumes import Stack
from handlens.masks.rle import Rle, decode_bands
from handlens.types import Case, Prediction

KINDS = ("mask", "overlay")
DARKEST = 0.75
"""How much of a slice's brightness certain ink takes away."""

BAND_ROWS = 256
SAMPLED_BANDS = 8
"""Bands of a slice from which its darkest and brightest grey are taken."""


def write_mask(out: Path, case: Case, _scan: Any, prediction: Prediction[Rle]) -> None:
    """The thresholded mask, white where ink is."""
    if case.shape is not None:
        bands = decode_bands(prediction.answer, case.shape, rows=BAND_ROWS)
        write_bands(file_of(out, case, "mask.png"), case.shape, bands)


def write_overlay(out: Path, case: Case, scan: Any, prediction: Prediction[Rle]) -> None:
    """The middle slice with ink darkened."""
    bands = overlay_bands(scan.stack, prediction.artefacts["mask"], prediction.artefacts["map"])
    write_bands(file_of(out, case, "overlay.png"), scan.stack.shape, bands)


def overlay_bands(
    stack: Stack, mask: npt.NDArray[np.bool_], coarse: npt.NDArray[np.float32]
) -> Iterator[npt.NDArray[np.uint8]]:
    """Grey rows of the middle slice from the top, darkened by the probability of ink; black outside the mask."""
    middle, height = stack.depth // 2, stack.shape[0]
    low, high = _range(stack, mask, middle)
    for top, probability in enlarge(coarse, stack.shape):
        bottom = min(height, top + len(probability))
        grey = stack.read_band(top, bottom, middle, middle + 1)[0].astype(np.float32)
        light = np.clip((grey - low) / max(1e-6, high - low), 0, 1) * (1 - np.float32(DARKEST) * probability)
        yield np.rint(light * 255).astype(np.uint8) * mask[top:bottom]


def _range(stack: Stack, mask: npt.NDArray[np.bool_], slice_: int) -> tuple[float, float]:
    """Percentiles 1 and 99 of a slice inside the mask, from some of its rows."""
    height = stack.shape[0]
    tops = np.linspace(0, max(0, height - BAND_ROWS), SAMPLED_BANDS).astype(int)
    parts = []
    for top in dict.fromkeys(tops.tolist()):
        bottom = min(height, top + BAND_ROWS)
        parts.append(stack.read_band(top, bottom, slice_, slice_ + 1)[0][mask[top:bottom]])
    values = np.concatenate(parts)
    if not len(values):
        return 0.0, 1.0
    low, high = np.percentile(values, (1, 99))
    return float(low), float(high)
