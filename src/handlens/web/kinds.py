"""What an upload is taken for, from a look at its names and colours; a person can say otherwise."""

from __future__ import annotations

from pathlib import Path

from handlens.errors import DataError, HandlensError
from handlens.io.images import SUFFIXES, read_header, read_rgb

LOOKED_AT_AS = {
    "cells": "tissue or cultured cells: find the nuclei",
    "ink": "slices of a scan of papyrus: find the ink",
    "lesions": "a photograph of a skin lesion: name its class",
    "forgery": "a figure or a paper: find copied regions",
}
"""What each challenge does with an upload, in words for people who know of no contest."""

OFFERS = {
    "cells": (
        "Nuclei in tissue",
        "A slide as PNG, JPEG or TIFF, H&E at 40x best. You get outlines for QuPath, a mask, and a table of nuclei.",
    ),
    "ink": (
        "Ink on papyrus",
        "The folder with the slices of a scan. You get the sheet with dark ink, a mask, and its outlines.",
    ),
    "lesions": (
        "Skin lesions",
        "Photographs. You get the likeliest class of each, the runner-up, and where the model looked. No diagnosis.",
    ),
    "forgery": (
        "Copies in figures",
        "Figures, or a paper as PDF. You get the regions that are copies of each other, laid on one another.",
    ),
}
"""What each challenge is good for, and what it gives."""

EXAMPLES = {"cells": (1, 512), "ink": (1, 256), "lesions": (6, 160), "forgery": (4, 512)}
"""How many synthetic cases an example has, and their size in pixels: each is answered in half a minute."""

SIDE = 128
"""Longer side of the picture that is looked at. This and what follows: by hand, a guess that a person may overrule."""

GREY, WHITE, DARK = 12, 235, 60
"""Of 255: difference between colours below which a pixel is grey, level above which it is white, below which dark."""

TINT, LIT = 5, 60
"""Of 255: how much one colour exceeds another where a pixel has a tint, and the least red of lit skin."""

STAINED, SKIN, MOST_WHITE = 0.35, 0.5, 0.3
"""Share of stained pixels of a slide; of skin in a photograph, and of white in it at most."""

ALL_GREY, MOSTLY_DARK, LARGEST_FIELD = 0.9, 0.5, 4096
"""Share of grey pixels of a picture without colours, of dark ones under a fluorescence microscope, and the longest side
of a field of view of one."""

PAPER, SOME_WHITE = 200, 0.25
"""Median level, or share of white pixels, of a figure on white ground."""


def guess(folder: Path) -> tuple[str, str]:
    """The challenge that an upload is probably for, and why."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if any(path.suffix.lower() == ".pdf" for path in files):
        return "forgery", "a paper, whose figures are looked at for copies"
    names = {path.parent.name for path in files}
    if names & {"surface_volume", "layers"} or any(path.suffix == ".zarr" for path in folder.rglob("*.zarr")):
        return "ink", "a stack of slices"
    pictures = [path for path in files if path.suffix.lower() in SUFFIXES]
    if not pictures:
        raise DataError("nothing here can be read: drop images (PNG, JPEG, TIFF), a folder of slices, or a PDF")
    numbered = [path for path in pictures if path.stem.isdigit() and path.suffix.lower().startswith(".tif")]
    if len(numbered) > 2 and len(numbered) == len(pictures):
        return "ink", "numbered slices"
    for path in pictures:
        try:
            return _by_colours(path)
        except HandlensError:
            continue
    return "forgery", "nothing here could be looked at"


def _by_colours(path: Path) -> tuple[str, str]:
    """From the share of pixels that are grey, white, dark, pink to purple, or of the colour of skin."""
    import cv2
    import numpy as np

    header = read_header(path)
    pixels = read_rgb(path)
    scale = SIDE / max(pixels.shape[:2])
    small = cv2.resize(pixels, None, fx=min(1, scale), fy=min(1, scale), interpolation=cv2.INTER_AREA).reshape(-1, 3)
    values = small.astype(int)
    spread = values.max(axis=1) - values.min(axis=1)
    grey, white, dark = (spread < GREY).mean(), (values.min(axis=1) > WHITE).mean(), (values.max(axis=1) < DARK).mean()
    red, green, blue = values.T
    coloured = spread >= GREY
    stained = float((coloured & (blue > green + TINT) & (red > green + TINT)).mean())
    skin = float((coloured & (red > green) & (green >= blue - TINT) & (red > LIT)).mean())
    if stained > STAINED and stained > skin:
        return "cells", "stained tissue"
    if skin > SKIN and white < MOST_WHITE:
        return "lesions", "a photograph of skin"
    if grey > ALL_GREY and dark > MOSTLY_DARK and max(header.shape) <= LARGEST_FIELD:
        return "cells", "bright objects on dark ground"
    if float(np.median(values)) > PAPER or white > SOME_WHITE:
        return "forgery", "a figure with white ground"
    return ("forgery", "a figure") if grey < ALL_GREY else ("forgery", "a grey picture")
