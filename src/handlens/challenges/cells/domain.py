"""What kind of picture an image is: stained tissue as the network knows it, fluorescence, or something else.

Told by the colours of a few thousand pixels. Of 65 slides of H&E from two collections the median of the brightest
channel is 110 to 242 and the 90th percentile of the colour's spread 44 to 119; of 89 fluorescence images these are at
most 40 and 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from handlens.io.row_reader import RowReader

Kind = Literal["stained", "single stain", "fluorescence", "grey"]

SAMPLE_BANDS = 16
SAMPLE_ROWS = 4
SAMPLE_COLUMNS = 512
"""What is looked at: 16 times 4 rows, of each row 512 pixels; an image of any size costs the same."""

DARK_GROUND = 75
"""Median of the brightest channel below which the ground is dark, as in fluorescence."""

GREY = 25
"""99.9th percentile of brightest less darkest channel below which an image has no colours, not even a few nuclei."""

RED_OF_GREEN = (0.2, 0.95)
BLUE_OF_GREEN = (0.1, 0.85)
"""What H&E absorbs of red and blue, as a share of green, in the darker half: 0.29 to 0.82, 0.19 to 0.66 were seen."""

GLASS = 0.3
"""Optical density, all channels together, by which tissue exceeds the brightest tenth; less is glass."""

COLOURED = 0.15
COLOURED_SHARE = 0.5
"""Optical density of green from which a pixel has a colour that can be told; share of a picture that must have one."""

SAME_HUE = 0.02
"""By how much red, as a share of green, may rise from pale to dark by noise alone."""

PALE, DARK = 30, 90
"""Percentiles of the green absorbed, among coloured pixels: up to the first they are pale, from the second on dark."""

EOSINLESS = 0.74
"""Red absorbed by pale pixels, as a share of green, from which there is no eosin in them: of 65 slides of H&E it is at
most 0.733, of 18 pictures with a stain of the nuclei alone at least 0.752."""

FLUORESCENCE_WARNING = (
    "looks like fluorescence (dark ground), not H&E: nuclei are taken to be bright and found by local brightness,"
    " without the network"
)
GREY_WARNING = (
    "looks like grey bright-field, not H&E: nuclei are taken to be darker than the ground and found by local darkness,"
    " without the network"
)
SINGLE_WARNING = (
    "looks like one stain without eosin, not H&E: nuclei are taken to be darker than the ground and outlined by local"
    " darkness; the network only helps to split those that touch"
)
COLOURS_WARNING = (
    "its colours are not those of H&E: the network was trained on H&E alone, so look at the overlay before you use this"
)


@dataclass(frozen=True, slots=True)
class Domain:
    """The kind of an image, and what a person should be told about it."""

    kind: Kind
    warnings: tuple[str, ...] = ()


def look(image: RowReader, *, contest: bool = False) -> Domain:
    """The domain of an image, from a sample of its pixels. Slides of the contest are H&E, however little eosin shows.

    >>> from handlens.io.row_reader import in_memory
    >>> look(in_memory(np.zeros((40, 40, 3), np.uint8))).kind
    'fluorescence'
    """
    pixels = _sample(image)
    brightest, darkest = pixels.max(axis=1).astype(np.int64), pixels.min(axis=1).astype(np.int64)
    if np.median(brightest) < DARK_GROUND:
        return Domain("fluorescence", (FLUORESCENCE_WARNING,))
    if np.percentile(brightest - darkest, 99.9) < GREY:
        return Domain("grey", (GREY_WARNING,))
    density = -np.log((pixels.astype(np.float32) + 1) / 256)
    if not contest and _is_single_stain(density):
        return Domain("single stain", (SINGLE_WARNING,))
    return Domain("stained", () if _is_stain(density) else (COLOURS_WARNING,))


def _sample(image: RowReader) -> npt.NDArray[np.uint8]:
    """(n, 3) pixels from all over the image."""
    height, width = image.shape
    tops = np.unique(np.linspace(0, max(0, height - SAMPLE_ROWS), SAMPLE_BANDS).astype(int)).tolist()
    step = max(1, width // SAMPLE_COLUMNS)
    bands = [image.read(top, min(height, top + SAMPLE_ROWS))[:, ::step] for top in tops]
    return np.concatenate([band.reshape(-1, 3) for band in bands])


def _is_single_stain(density: npt.NDArray[np.float32]) -> bool:
    """Whether what is pale absorbs as much of red, against green, as what is dark: eosin makes it absorb much less."""
    red, green = density[:, 0], density[:, 1]
    coloured = green > COLOURED
    if coloured.mean() < COLOURED_SHARE:
        return False  # glass between the nuclei would be colourless in H&E too
    red, green = red[coloured], green[coloured]
    low, high = np.percentile(green, [PALE, DARK])
    pale, dark = (float((red[where] / green[where]).mean()) for where in (green <= low, green >= high))
    return pale >= EOSINLESS and dark <= pale + SAME_HUE


def _is_stain(density: npt.NDArray[np.float32]) -> bool:
    """Whether the darker half, glass aside, absorbs green most, then red and blue, as haematoxylin and eosin do."""
    total = density.sum(axis=1)
    tissue = total >= max(float(np.median(total)), float(np.percentile(total, 10)) + GLASS)
    if not tissue.any():
        return True  # bare glass
    red, green, blue = (float(value) for value in density[tissue].mean(axis=0))
    return RED_OF_GREEN[0] <= red / green <= RED_OF_GREEN[1] and BLUE_OF_GREEN[0] <= blue / green <= BLUE_OF_GREEN[1]
