"""Files that papyrologists open next: the ink as a mask, as contours, and dark on the sheet as under infrared light."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.artefacts import file_of
from handlens.challenges.ink.maps import enlarge
from handlens.challenges.ink.score import ORDER
from handlens.challenges.ink.window import Surface
from handlens.io.files import replacing
from handlens.io.png import write_bands
from handlens.io.reduction import overlay_factor, reduce_bands, reduced_shape
from handlens.masks.rle import Rle, decode, decode_bands
from handlens.types import Case, Prediction

KINDS = ("mask", "overlay", "contours")

DARKEST = 0.8
"""How much of the sheet's brightness certain ink takes away."""

PALEST = 0.35
"""Brightness of the darkest papyrus: under infrared light it is pale, and ink alone is dark."""

UNDER, OVER = 2, 2
"""Layers below and above the surface whose mean is shown as the sheet."""

BAND_ROWS = 256
SAMPLED_BANDS = 8
"""Bands of the sheet from which its darkest and brightest grey are taken."""


def write_mask(out: Path, case: Case, _scan: Any, prediction: Prediction[Rle]) -> None:
    """The thresholded mask, white where ink is."""
    if case.shape is not None:
        bands = decode_bands(prediction.answer, case.shape, rows=BAND_ROWS)
        write_bands(file_of(out, case, "mask.png"), case.shape, bands)


def write_overlay(out: Path, case: Case, _scan: Any, prediction: Prediction[Rle]) -> None:
    """The flattened sheet with ink darkened, of a large fragment at a smaller scale."""
    found = prediction.artefacts
    surface: Surface = found["sheet"]
    factor = overlay_factor(surface.shape)
    bands = reduce_bands(overlay_bands(surface, found["map"], found["threshold"]), factor)
    write_bands(file_of(out, case, "overlay.png"), reduced_shape(surface.shape, factor), bands)


def write_contours(out: Path, case: Case, _scan: Any, prediction: Prediction[Rle]) -> None:
    """Outlines of the ink as GeoJSON: polygons with holes, in pixels, x to the right and y down."""
    if case.shape is None:
        return
    features = [
        {
            "type": "Feature",
            "properties": {"name": "ink"},
            "geometry": {"type": "Polygon", "coordinates": rings},
        }
        for rings in trace_ink(prediction.answer, case.shape)
    ]
    with replacing(file_of(out, case, "contours.geojson")) as temporary:
        temporary.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def trace_ink(ink: Rle, shape: tuple[int, int]) -> list[list[list[list[int]]]]:
    """Rings of every piece of ink, the outer one first, then its holes; each closed, through the pixels at its edge."""
    mask = decode(ink, shape, order=ORDER).view(np.uint8)
    found, ranks = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    if ranks is None:
        return []
    rings = [[*(ring := contour[:, 0].tolist()), ring[0]] for contour in found]
    pieces: dict[int, list[list[list[int]]]] = {
        number: [rings[number]] for number, rank in enumerate(ranks[0]) if rank[3] < 0
    }
    for number, rank in enumerate(ranks[0]):
        if rank[3] >= 0:
            pieces[int(rank[3])].append(rings[number])
    return [piece for piece in pieces.values() if len(piece[0]) > 3]  # a polygon has four corners, the last the first


def overlay_bands(
    surface: Surface, coarse: npt.NDArray[np.float32], threshold: float
) -> Iterator[npt.NDArray[np.uint8]]:
    """Grey rows of the flattened sheet from the top, darkened where ink is likely; black outside the mask.

    Where the probability is that of the threshold, ink is half as dark as it can be.
    """
    thin = replace(surface, window=replace(surface.window, below=UNDER, above=OVER, spare=0))
    low, high = _range(thin)
    for top, probability in enlarge(coarse, surface.shape):
        bottom = min(surface.shape[0], top + len(probability))
        grey = thin.read(top, bottom).mean(axis=0, dtype=np.float32)
        light = PALEST + (1 - PALEST) * np.clip((grey - low) / max(1e-6, high - low), 0, 1)
        ink = np.clip(probability / max(2 * threshold, 1e-6), 0, 1)
        light = light * (1 - np.float32(DARKEST) * ink)
        yield np.rint(light * 255).astype(np.uint8) * surface.mask[top:bottom]


def _range(thin: Surface) -> tuple[float, float]:
    """Percentiles 1 and 99 of the sheet inside the mask, from some of its rows."""
    height = thin.shape[0]
    tops = np.linspace(0, max(0, height - BAND_ROWS), SAMPLED_BANDS).astype(int)
    parts = []
    for top in dict.fromkeys(tops.tolist()):
        bottom = min(height, top + BAND_ROWS)
        parts.append(thin.read(top, bottom).mean(axis=0, dtype=np.float32)[thin.mask[top:bottom]])
    values = np.concatenate(parts)
    if not len(values):
        return 0.0, 1.0
    low, high = np.percentile(values, (1, 99))
    return float(low), float(high)
