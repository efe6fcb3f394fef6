"""What an upload is taken for, from a look at its names and colours; a person can say otherwise."""

from __future__ import annotations

from pathlib import Path

from handlens.errors import HandlensError
from handlens.io.images import SUFFIXES, read_header, read_rgb

SIDE = 128
"""Longer side of the picture that is looked at."""

GREY = 12
"""Difference between colours below which a pixel is grey, of 255."""


def guess(folder: Path) -> tuple[str, str]:
    """The challenge that an upload is probably for, and why."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if any(path.suffix.lower() == ".pdf" for path in files):
        return "forgery", "a paper: its figures are looked at for copies"
    names = {path.parent.name for path in files}
    if names & {"surface_volume", "layers"} or any(path.suffix == ".zarr" for path in folder.rglob("*.zarr")):
        return "ink", "a stack of slices"
    pictures = [path for path in files if path.suffix.lower() in SUFFIXES]
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
    grey, white, dark = (spread < GREY).mean(), (values.min(axis=1) > 235).mean(), (values.max(axis=1) < 60).mean()
    red, green, blue = values.T
    coloured = spread >= GREY
    stained = float((coloured & (blue > green + 5) & (red > green + 5)).mean())
    skin = float((coloured & (red > green) & (green >= blue - 5) & (red > 60)).mean())
    if stained > 0.35 and stained > skin:
        return "cells", "stained tissue"
    if skin > 0.5 and white < 0.3:
        return "lesions", "a photograph of skin"
    if grey > 0.9 and dark > 0.5 and max(header.shape) <= 4096:
        return "cells", "bright objects on dark ground"
    if float(np.median(values)) > 200 or white > 0.25:
        return "forgery", "a figure with white ground"
    return ("forgery", "a figure") if grey < 0.9 else ("forgery", "a grey picture")
