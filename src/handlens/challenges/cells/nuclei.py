"""Synthetic nuclei: where they lie, what outline each has, and how it takes the stain. The outline is a formula."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.tissue import (
    FULL_SIZE,
    BoolImage,
    FloatImage,
    Random,
    Style,
    Tissue,
    blur,
)

Window = tuple[slice, slice]

MOST_SHARE = 0.44
"""Pixels that may be nuclei, the most crowded real slide as the measure."""


@dataclass(frozen=True, slots=True)
class Nucleus:
    """A bent, dented ellipse and what is in it. Lengths in pixels, angles in radians."""

    row: float
    column: float
    long: float
    short: float
    angle: float
    bend: float
    dents: npt.NDArray[np.float64]  # (2, waves): strength and phase of two, three, ... dents
    density: float
    pale: float
    clumps: float
    rim: float
    defocus: float
    nucleoli: npt.NDArray[np.float64]  # (n, 3): position as a share of the axes, strength


def _choose_nucleus(rng: Random, style: Style, row: float, column: float, tissue: Tissue) -> Nucleus:
    """A spindle along the fibres in stroma, a lymphocyte anywhere, else the large nucleus of an epithelial cell."""
    place = _nearest(row, tissue.size), _nearest(column, tissue.size)
    angle = float(tissue.angle[place]) + rng.normal(0, 0.4)
    scale = style.size * min(1.0, tissue.size / FULL_SIZE) * rng.lognormal(0, 0.14)
    density, pale, bend = style.nuclear * rng.lognormal(0, 0.3), 0.0, 0.0
    if rng.random() < style.lymphocytes:
        long, short = 6.8 * scale, 6.0 * scale
        angle, density = rng.uniform(0, np.pi), 1.15 * density
    elif rng.random() < tissue.stroma[place]:
        long, short = rng.uniform(10, 17) * scale, rng.uniform(2.8, 4.5) * scale
        bend = rng.normal(0, 0.18)
    else:
        long = rng.uniform(9, 13) * scale
        short = long * rng.uniform(0.6, 0.95)
        angle, bend = angle + rng.normal(0, 0.5), rng.normal(0, 0.06)
        pale = float(np.clip(style.pale + rng.normal(0, 0.2), 0, 0.75))
    spots = int(rng.integers(0, 4)) if long > 8 * scale and short > 5 * scale else 0
    shape = (row, column, long, short, angle, bend)
    return Nucleus(
        *shape,
        dents=np.stack([rng.normal(0, 0.05, 3), rng.uniform(0, 2 * np.pi, 3)]),
        density=density,
        pale=pale,
        clumps=rng.uniform(0.15, 0.4),
        rim=rng.uniform(0.1, 0.5),
        defocus=rng.uniform(2.0, 3.5) if rng.random() < 0.18 else rng.uniform(0.5, 1.1),
        nucleoli=np.column_stack([rng.uniform(-0.45, 0.45, (spots, 2)), rng.uniform(0.2, 0.7, spots)]),
    )


def _window(nucleus: Nucleus, size: int) -> Window:
    """The square around a nucleus, its blur included, cut at the borders of the picture."""
    reach = nucleus.long * (1.2 + abs(nucleus.bend)) + 4 * nucleus.defocus
    return _span(nucleus.row, reach, size), _span(nucleus.column, reach, size)


def _span(middle: float, reach: float, size: int) -> slice:
    return slice(min(max(int(middle - reach), 0), size), min(max(int(middle + reach + 1), 0), size))


def locate(nucleus: Nucleus, window: Window) -> tuple[FloatImage, FloatImage, FloatImage]:
    """Of every pixel centre: place along and across, as a share of the axes, and share of the way to the outline.

    Up to 1 of the way a pixel centre is in or on the outline.
    """
    rows, columns = np.ogrid[window]
    down, aside = rows - nucleus.row, columns - nucleus.column
    cosine, sine = np.cos(nucleus.angle), np.sin(nucleus.angle)
    along = (aside * cosine + down * sine) / nucleus.long
    across = (down * cosine - aside * sine - nucleus.bend * nucleus.long * along**2) / nucleus.short
    direction = np.arctan2(across, along)
    outline = np.ones_like(direction)
    for waves, (strength, phase) in enumerate(nucleus.dents.T, 2):
        outline += strength * np.cos(waves * direction + phase)
    way = np.hypot(along, across) / outline
    return along.astype(np.float32), across.astype(np.float32), way.astype(np.float32)


def scatter_nuclei(rng: Random, style: Style, tissue: Tissue) -> tuple[list[Nucleus], BoolImage]:
    """Nuclei one by one, many beside another, until their share is reached; they touch and hardly overlap."""
    size = tissue.size
    mask = np.zeros((size, size), np.bool_)
    nuclei: list[Nucleus] = []
    covered = 0
    for _ in range(200 + size * size // 60):
        if covered >= style.share * mask.size:
            break
        row, column = _propose_place(rng, style, tissue, nuclei)
        if mask[_nearest(row, size), _nearest(column, size)]:
            continue  # most proposals in a crowd end here, before any work
        nucleus = _choose_nucleus(rng, style, row, column, tissue)
        window = _window(nucleus, size)
        inside = locate(nucleus, window)[2] <= 1
        area, shared = int(inside.sum()), int((inside & mask[window]).sum())
        bare = float(tissue.glass[window][inside].mean()) if area else 1.0
        fresh = area - shared
        if fresh and shared <= 0.08 * area and bare < 0.3 and covered + fresh <= MOST_SHARE * mask.size:
            mask[window] |= inside
            nuclei.append(nucleus)
            covered += fresh
    return nuclei, mask


def _propose_place(rng: Random, style: Style, tissue: Tissue, nuclei: list[Nucleus]) -> tuple[float, float]:
    """Row and column anywhere, or where a nucleus would touch a neighbour."""
    if not nuclei or rng.random() > style.crowding:
        row, column = rng.uniform(-5, tissue.size + 5, 2).tolist()
        if rng.random() < tissue.stroma[_nearest(row, tissue.size), _nearest(column, tissue.size)]:
            row, column = rng.uniform(-5, tissue.size + 5, 2).tolist()  # stroma has fewer nuclei
        return row, column
    neighbour = nuclei[int(rng.integers(len(nuclei)))]
    direction = rng.uniform(0, 2 * math.pi)
    turned = direction - neighbour.angle
    radius = 1 / math.hypot(math.cos(turned) / neighbour.long, math.sin(turned) / neighbour.short)
    distance = radius + rng.uniform(4, 11) * style.size * min(1.0, tissue.size / FULL_SIZE)
    return neighbour.row + distance * math.sin(direction), neighbour.column + distance * math.cos(direction)


def _nearest(position: float, size: int) -> int:
    return min(max(int(position), 0), size - 1)


def stain_nucleus(tissue: Tissue, nucleus: Nucleus, chromatin: FloatImage) -> None:
    """Add a nucleus to the dyes: rim, pale inside, clumps, nucleoli; blurred where it lies out of focus."""
    window = _window(nucleus, tissue.size)
    along, across, way = locate(nucleus, window)
    depth = (1 - way) * nucleus.short  # pixels below the outline
    presence = np.clip(depth + 0.5, 0, 1)
    filling = 1 - nucleus.pale * np.clip(depth / 3.5, 0, 1) + nucleus.rim * np.exp(-(((depth - 1) / 1.2) ** 2))
    dye = presence * filling * np.exp(nucleus.clumps * chromatin[window])
    for place_along, place_across, strength in nucleus.nucleoli:
        distance = ((along - place_along) * nucleus.long) ** 2 + ((across - place_across) * nucleus.short) ** 2
        dye += strength * np.exp(-distance / 4.5)
    weaker = 1.0 if nucleus.defocus < 2 else 0.75
    dye, presence = (blur(layer, nucleus.defocus) for layer in (dye, presence))
    tissue.haematoxylin[window] *= 1 - 0.8 * presence
    tissue.haematoxylin[window] += weaker * nucleus.density * dye
    tissue.eosin[window] *= 1 - 0.3 * presence
