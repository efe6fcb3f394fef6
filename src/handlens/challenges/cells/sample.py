"""Made-up tissue under the microscope, in the true layout: nuclei in cytoplasm, stroma and blood, with their masks.

A slide is three maps of optical density (haematoxylin, eosin, blood). They add up, as dyes do, and light is sent
through them. A nucleus is a formula, so its mask is exact: a pixel is a cell if its centre lies in or on the outline.
Lengths are pixels at 40x whatever the picture's size, as in the real images; only tiny pictures get smaller nuclei.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens import images

FloatImage = npt.NDArray[np.float32]
BoolImage = npt.NDArray[np.bool_]
Window = tuple[slice, slice]
Random = np.random.Generator

PARTS = ("train", "test")
LEAST_TRAIN = 2
FULL_SIZE = 160
"""Side from which nuclei have their true size; below, they shrink with the picture, so that several fit."""

MOST_SHARE = 0.44
"""Pixels that may be nuclei, the most crowded real slide as the measure."""

HAEMATOXYLIN = np.array([0.62, 0.70, 0.34])
EOSIN = np.array([0.16, 0.84, 0.46])
BLOOD = np.array([0.13, 0.82, 0.62])  # red cells take eosin too, but look more orange


def write_sample(folder: Path, *, seed: int, cases: int, size: int) -> None:
    """Labelled slides for training, `cases` without labels for testing, and the labels of these under `truth`."""
    for number, part in enumerate(PARTS):
        masks = folder / ("train" if part == "train" else "truth") / "mask"
        for index in range(max(cases, LEAST_TRAIN) if part == "train" else cases):
            picture, mask = make_slide(np.random.default_rng([seed, number, index]), size)
            images.write_png(folder / part / "im" / f"{index:02d}.png", picture)
            images.write_png(masks / f"{index:02d}.png", mask)


def make_slide(rng: Random, size: int) -> tuple[npt.NDArray[np.uint8], BoolImage]:
    """A square slide as (H, W, 3) RGB and the mask of its nuclei."""
    style = _choose_style(rng)
    tissue = _lay_tissue(rng, style, size)
    nuclei, mask = _scatter_nuclei(rng, style, tissue)
    _shape_cells(style, tissue, mask)
    _add_blood(rng, style, tissue, mask)
    _add_debris(rng, style, tissue)
    chromatin = _clouds(rng, size, 3.0) + 0.6 * _clouds(rng, size, 7.0)
    for nucleus in nuclei:
        _stain_nucleus(tissue, nucleus, chromatin)
    return _photograph(rng, style, tissue), mask


# --- what differs from slide to slide ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """How a slide was cut, stained and scanned."""

    share: float  # of the pixels that shall be nuclei
    crowding: float  # of the nuclei that touch another
    size: float  # of nuclei
    lymphocytes: float  # share of small, round, dark nuclei
    pale: float  # how empty the inside of large nuclei is
    nuclear: float  # haematoxylin of nuclei
    basophilia: float  # haematoxylin of cytoplasm: what makes nuclei hard to see
    cytoplasm: float  # eosin of cytoplasm
    stroma: float  # eosin of fibres
    stroma_share: float
    glass_share: float  # holes and cracks
    shrinkage: float  # white rims around cells
    blood: int  # red cells
    haematoxylin: npt.NDArray[np.float64]  # absorption of red, green, blue
    eosin: npt.NDArray[np.float64]


def _choose_style(rng: Random) -> Style:
    return Style(
        share=rng.uniform(0.15, 0.40),
        crowding=rng.uniform(0.4, 0.8),
        size=rng.uniform(0.85, 1.2),
        lymphocytes=rng.choice([0.05, 0.2, 0.6]),
        pale=rng.uniform(0.1, 0.65),
        nuclear=rng.uniform(0.75, 1.35),
        basophilia=rng.uniform(0.1, 0.42),
        cytoplasm=rng.uniform(0.2, 0.75),
        stroma=rng.uniform(0.35, 0.85),
        stroma_share=rng.uniform(0.1, 0.5),
        glass_share=rng.choice([0.01, 0.05, 0.14]),
        shrinkage=rng.choice([0.0, 0.15, 0.5]),
        blood=int(rng.choice([0, 3, 12])),
        haematoxylin=_shift_hue(rng, HAEMATOXYLIN),
        eosin=_shift_hue(rng, EOSIN),
    )


def _shift_hue(rng: Random, stain: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted: npt.NDArray[np.float64] = np.clip(stain + rng.normal(0, 0.045, 3), 0.03, 1)
    return shifted / np.linalg.norm(shifted)


# --- tissue without nuclei --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tissue:
    """Maps of one slide, all (H, W): densities of three dyes, shares of stroma and of bare glass, fibre angles."""

    haematoxylin: FloatImage
    eosin: FloatImage
    blood: FloatImage
    stroma: FloatImage
    glass: FloatImage
    angle: FloatImage

    @property
    def size(self) -> int:
        return len(self.eosin)


def _lay_tissue(rng: Random, style: Style, size: int) -> Tissue:
    """Islands of cytoplasm in fibrous stroma, with holes."""
    islands = _clouds(rng, size, 140) + 0.25 * _clouds(rng, size, 25)
    stroma = _above(islands, 1 - style.stroma_share, 0.12)
    holes = _clouds(rng, size, 90) + 0.3 * _clouds(rng, size, 14) - 0.5 * stroma
    glass = _above(holes, 1 - style.glass_share, 0.06)
    angle = (rng.uniform(0, np.pi) + 0.5 * _clouds(rng, size, 160)).astype(np.float32)
    grain = 0.5 * _clouds(rng, size, 3) + 0.5 * _clouds(rng, size, 12) + 0.5 * _clouds(rng, size, 45)
    cytoplasm = style.cytoplasm * np.exp(0.22 * grain)
    fibres = style.stroma * np.exp(0.2 * _fibres(rng, angle) + 0.25 * grain)
    foam = _clouds(rng, size, 5) + 0.5 * _clouds(rng, size, 30)
    basophilia = style.basophilia * np.exp(0.35 * foam) * (1 - 0.75 * stroma)
    return Tissue(
        haematoxylin=(basophilia * (1 - glass)).astype(np.float32),
        eosin=((cytoplasm * (1 - stroma) + fibres * stroma) * (1 - glass)).astype(np.float32),
        blood=np.zeros((size, size), np.float32),
        stroma=stroma,
        glass=glass,
        angle=angle,
    )


def _clouds(rng: Random, size: int, grain: float) -> FloatImage:
    """Smooth noise of mean 0 and deviation about 1, its spots about `grain` pixels apart."""
    import cv2

    points = int(np.ceil(size / grain)) + 3
    coarse = rng.standard_normal((points, points), dtype=np.float32)
    side = int(np.ceil(points * grain))
    fine = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
    start = (side - size) // 2
    return fine[start : start + size, start : start + size] * np.float32(1.4)


def _blur(layer: npt.NDArray[Any], deviation: float) -> FloatImage:
    import cv2

    return cv2.GaussianBlur(layer.astype(np.float32), (0, 0), deviation).astype(np.float32, copy=False)


def _above(field: FloatImage, quantile: float, softness: float) -> FloatImage:
    """Near 1 where the field is among its highest values, near 0 elsewhere, with soft borders."""
    level = np.quantile(field, quantile)
    share: FloatImage = 1 / (1 + np.exp(np.clip((level - field) / softness, -30, 30)))
    return share.astype(np.float32)


def _fibres(rng: Random, angle: FloatImage) -> FloatImage:
    """Wavy streaks along the angle: noise smeared, step by step, in its direction."""
    import cv2

    size = len(angle)
    rows, columns = np.mgrid[0:size, 0:size].astype(np.float32)
    streaks = _clouds(rng, size, 2.5) + _clouds(rng, size, 6)
    for step in (1.0, 2.0, 4.0, 8.0):
        aside, down = step * np.cos(angle), step * np.sin(angle)
        ahead = cv2.remap(streaks, columns + aside, rows + down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        behind = cv2.remap(streaks, columns - aside, rows - down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        streaks = ((streaks + ahead + behind) / 3).astype(np.float32)
    streaks -= streaks.mean()
    return streaks / np.float32(streaks.std() + 0.05)  # a pixel alone has no deviation


# --- nuclei -----------------------------------------------------------------------------------------------------------


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


def _locate(nucleus: Nucleus, window: Window) -> tuple[FloatImage, FloatImage, FloatImage]:
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


def _scatter_nuclei(rng: Random, style: Style, tissue: Tissue) -> tuple[list[Nucleus], BoolImage]:
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
        inside = _locate(nucleus, window)[2] <= 1
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


def _stain_nucleus(tissue: Tissue, nucleus: Nucleus, chromatin: FloatImage) -> None:
    """Add a nucleus to the dyes: rim, pale inside, clumps, nucleoli; blurred where it lies out of focus."""
    window = _window(nucleus, tissue.size)
    along, across, way = _locate(nucleus, window)
    depth = (1 - way) * nucleus.short  # pixels below the outline
    presence = np.clip(depth + 0.5, 0, 1)
    filling = 1 - nucleus.pale * np.clip(depth / 3.5, 0, 1) + nucleus.rim * np.exp(-(((depth - 1) / 1.2) ** 2))
    dye = presence * filling * np.exp(nucleus.clumps * chromatin[window])
    for place_along, place_across, strength in nucleus.nucleoli:
        distance = ((along - place_along) * nucleus.long) ** 2 + ((across - place_across) * nucleus.short) ** 2
        dye += strength * np.exp(-distance / 4.5)
    weaker = 1.0 if nucleus.defocus < 2 else 0.75
    dye, presence = (_blur(layer, nucleus.defocus) for layer in (dye, presence))
    tissue.haematoxylin[window] *= 1 - 0.8 * presence
    tissue.haematoxylin[window] += weaker * nucleus.density * dye
    tissue.eosin[window] *= 1 - 0.3 * presence


# --- what is not a nucleus --------------------------------------------------------------------------------------------


def _shape_cells(style: Style, tissue: Tissue, mask: BoolImage) -> None:
    """Every nucleus gets a cell: cytoplasm thins out away from it, and shrunken cells part along their borders."""
    import cv2

    outside = (~mask).astype(np.uint8)
    distance, owner = cv2.distanceTransformWithLabels(outside, cv2.DIST_L2, 5)
    border = cv2.morphologyEx(owner.astype(np.float32), cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    seam = _blur(border & ~mask, 1.3) * (1 - tissue.stroma)
    thinning = np.exp(-np.clip(distance - 8, 0, 30) / 60) * (1 - style.shrinkage * np.clip(2 * seam, 0, 1))
    tissue.eosin[:] *= thinning
    tissue.haematoxylin[:] *= thinning


def _add_blood(rng: Random, style: Style, tissue: Tissue, mask: BoolImage) -> None:
    """A huddle of red cells, darker at the edge, where there are few nuclei."""
    size = tissue.size
    middle = rng.uniform(0, size, 2)
    rows, columns = np.ogrid[0:size, 0:size]
    for _ in range(style.blood):
        row, column = middle + rng.normal(0, 22, 2)
        radius = rng.uniform(7, 10)
        way = np.hypot((rows - row) * rng.uniform(0.85, 1.2), columns - column) / radius
        disk = np.clip((1 - way) * radius, 0, 1) * (0.7 + 0.5 * np.clip(way, 0, 1) ** 2) * ~mask
        tissue.eosin[:] *= 1 - 0.7 * np.clip(disk, 0, 1)
        tissue.haematoxylin[:] *= 1 - 0.9 * np.clip(disk, 0, 1)
        np.maximum(tissue.blood, 1.1 * disk, out=tissue.blood, casting="same_kind")


def _add_debris(rng: Random, style: Style, tissue: Tissue) -> None:
    """Blue smears, specks and crushed chromatin that nobody would outline."""
    size = tissue.size
    specks = np.zeros((size, size), np.float32)
    places = rng.integers(0, size, (max(1, size * size // 4000), 2))
    specks[tuple(places.T)] = rng.uniform(2, 14, len(places))
    specks = _blur(specks, 1.4)
    smears = _above(_clouds(rng, size, 26), 0.985, 0.15) * np.exp(0.4 * _clouds(rng, size, 4))
    tissue.haematoxylin[:] += style.nuclear * (0.5 * np.clip(specks, 0, 1) + 0.45 * smears) * (1 - tissue.glass)


# --- light ------------------------------------------------------------------------------------------------------------


def _photograph(rng: Random, style: Style, tissue: Tissue) -> npt.NDArray[np.uint8]:
    """Light through the dyes (Beer and Lambert), uneven and tinted, through a lens onto a noisy sensor."""
    size = tissue.size
    density = (
        tissue.haematoxylin[:, :, None] * style.haematoxylin.astype(np.float32)
        + tissue.eosin[:, :, None] * style.eosin.astype(np.float32)
        + tissue.blood[:, :, None] * (BLOOD / np.linalg.norm(BLOOD)).astype(np.float32)
    )
    thickness = 1 + 0.06 * _clouds(rng, size, 250)
    light = np.exp(-density * 1.25 * thickness[:, :, None])
    slope = rng.normal(0, 0.04, 2)
    rows, columns = np.mgrid[-0.5 : 0.5 : size * 1j, -0.5 : 0.5 : size * 1j]
    lamp = 1 + slope[0] * rows + slope[1] * columns
    white = rng.uniform(0.93, 1.0) * (1 - rng.uniform(0, 0.04, 3))
    light = _blur(light * lamp[:, :, None] * white, rng.uniform(0.6, 1.0))
    noise = _blur(rng.standard_normal(light.shape, dtype=np.float32), 0.6)  # scanners compress, which smooths it
    levels = 255 * (light + rng.uniform(0.01, 0.03) * noise)
    return np.clip(levels + 0.5, 0, 255).astype(np.uint8)
