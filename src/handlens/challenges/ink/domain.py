"""Whether a scan looks like what the model was made for: grey levels and fibres of the sheet, and where the air is.

The limits lie between papyrus (generated fragments, a layer and a crop of real segments, a real fragment at a fifth of
its size) and other pictures (stained slides, skin, blots, microscopy), as measured on those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.window import FEW, Surface

BANDS, ROWS = 6, 96
"""Bands of the sheet that are looked at, and rows of each: a few percent of a large fragment."""

LEAST_PIXELS = 64 * 64
"""Pixels inside the mask below which a picture is too small to tell."""

LEAST_CONTRAST = 12.0
"""Deviation of grey, of 255, below which there is nothing to see; papyrus has 40 to 80, evenly lit skin 11."""

LEAST_FIBRES = 0.07
"""Least agreement of slopes with two directions at right angles; papyrus has 0.10 to 0.16, slides and skin to 0.05."""

MOST_FIBRES = 0.4
"""Most of it; bands of a blot have 0.5."""

ENDS = 6
"""The first and the last of so many parts of a stack are compared: one should be papyrus, the other air."""

DENSER = 1.15
"""How much denser the air's end must be than the other to be called the wrong one."""


@dataclass(frozen=True, slots=True)
class SheetStatistics:
    """What is measured of a sheet: deviation of grey, and how far slopes agree with two directions, 0 to 1."""

    pixels: int
    contrast: float
    fibres: float


def check(surface: Surface, *, coloured: bool) -> tuple[str, ...]:
    """Sentences for a person about a scan that is unlike papyrus; empty where it looks as it should.

    `coloured` says that its slices are pictures in colours.
    """
    sentences = []
    if coloured:
        sentences.append("a picture in colours: the model reads grey X-ray slices, so this answer means little")
    if surface.stack.depth >= FEW and _is_reversed(surface):
        sentences.append("the stack is denser where air was expected: if the sheet is seen from behind, say --reverse")
        return tuple(sentences)  # no sheet was found, so its statistics are not its own
    found = measure(surface)
    if found.pixels < LEAST_PIXELS:
        return tuple(sentences)
    if found.contrast < LEAST_CONTRAST:
        sentences.append("hardly any contrast: stretch the grey levels, or check the scan")
    elif not LEAST_FIBRES <= found.fibres <= MOST_FIBRES:
        sentences.append("no fibres of papyrus are to be seen: the model was made for X-ray scans of papyrus sheets")
    return tuple(sentences)


def measure(surface: Surface) -> SheetStatistics:
    """Statistics of the layer under the surface, from some bands."""
    thin = replace(surface, window=replace(surface.window, below=1, above=1, spare=0))
    slopes, weight, greys = 0j, 0.0, []
    for top in _tops(surface.shape[0]):
        bottom = min(surface.shape[0], top + ROWS)
        grey = thin.read(top, bottom)[0].astype(np.float32)
        inside = cv2.erode(surface.mask[top:bottom].astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
        across, down = (cv2.Sobel(grey, cv2.CV_32F, *order)[inside] for order in ((1, 0), (0, 1)))
        steep = np.hypot(across, down)
        slopes += complex((steep * np.exp(4j * np.arctan2(down, across))).sum())
        weight += float(steep.sum())
        greys.append(grey[inside])
    values: npt.NDArray[Any] = np.concatenate(greys)
    contrast = float(values.std()) if len(values) else 0.0
    return SheetStatistics(len(values), contrast, abs(slopes) / weight if weight else 0.0)


def _tops(height: int) -> list[int]:
    return list(dict.fromkeys(np.linspace(0, max(0, height - ROWS), BANDS).astype(int).tolist()))


def _is_reversed(surface: Surface) -> bool:
    """Whether the end of the stack where air should be is denser than the other."""
    depth = surface.stack.depth
    part = max(1, depth // ENDS)
    means = []
    for first in (0, depth - part):
        total, count = 0.0, 0
        for top in _tops(surface.shape[0]):
            bottom = min(surface.shape[0], top + ROWS)
            inside = surface.mask[top:bottom]
            band = surface.stack.read_band(top, bottom, first, first + part)
            total += float(band.mean(axis=0, dtype=np.float32)[inside].sum())
            count += int(inside.sum())
        means.append(total / max(count, 1))
    papyrus, air = means if surface.window.side == "last" else means[::-1]
    return air > DENSER * papyrus
