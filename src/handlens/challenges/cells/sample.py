"""Synthetic tissue under the microscope, in the true layout: nuclei in cytoplasm, stroma and blood, with their masks.

A slide is three maps of optical density (haematoxylin, eosin, blood). They add up, as dyes do, and light is sent
through them. A nucleus is a formula, so its mask is exact: a pixel is a cell if its centre lies in or on the outline.
Lengths are pixels at 40x whatever the picture's size, as in the real images; only tiny pictures get smaller nuclei.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.nuclei import scatter_nuclei, stain_nucleus
from handlens.challenges.cells.tissue import (
    BoolImage,
    Random,
    Style,
    Tissue,
    above,
    blur,
    choose_style,
    clouds,
    lay_tissue,
)
from handlens.io import images
from handlens.work import Each, one_by_one

if TYPE_CHECKING:
    from handlens.challenges.cells.options import CellsSettings

PARTS = ("train", "test")
LEAST_TRAIN = 2


BLOOD = np.array([0.13, 0.82, 0.62])  # red cells take eosin too, but look more orange


def write_sample(
    folder: Path, /, *, seed: int, cases: int, size: int, settings: CellsSettings, each: Each = one_by_one
) -> None:
    """Labelled slides for training, `cases` without labels for testing, and the labels of these under `truth`."""
    training = max(cases, LEAST_TRAIN)
    slides = [("train", index) for index in range(training)] + [("test", index) for index in range(cases)]
    each(partial(_write_slide, seed, size), slides, folder)


def _write_slide(seed: int, size: int, folder: Path, slide: tuple[str, int]) -> None:
    part, index = slide
    picture, mask = make_slide(np.random.default_rng([seed, PARTS.index(part), index]), size)
    masks = folder / ("train" if part == "train" else "truth") / "mask"
    images.write_png(folder / part / "im" / f"{index:02d}.png", picture)
    images.write_png(masks / f"{index:02d}.png", mask)


def make_slide(rng: Random, size: int) -> tuple[npt.NDArray[np.uint8], BoolImage]:
    """A square slide as (H, W, 3) RGB and the mask of its nuclei."""
    style = choose_style(rng)
    tissue = lay_tissue(rng, style, size)
    nuclei, mask = scatter_nuclei(rng, style, tissue)
    _shape_cells(style, tissue, mask)
    _add_blood(rng, style, tissue, mask)
    _add_debris(rng, style, tissue)
    chromatin = clouds(rng, size, 3.0) + 0.6 * clouds(rng, size, 7.0)
    for nucleus in nuclei:
        stain_nucleus(tissue, nucleus, chromatin)
    return _photograph(rng, style, tissue), mask


def _shape_cells(style: Style, tissue: Tissue, mask: BoolImage) -> None:
    """Every nucleus gets a cell: cytoplasm thins out away from it, and shrunken cells part along their borders."""
    outside = (~mask).astype(np.uint8)
    distance, owner = cv2.distanceTransformWithLabels(outside, cv2.DIST_L2, 5)
    border = cv2.morphologyEx(owner.astype(np.float32), cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    seam = blur(border & ~mask, 1.3) * (1 - tissue.stroma)
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
    specks = blur(specks, 1.4)
    smears = above(clouds(rng, size, 26), 0.985, 0.15) * np.exp(0.4 * clouds(rng, size, 4))
    tissue.haematoxylin[:] += style.nuclear * (0.5 * np.clip(specks, 0, 1) + 0.45 * smears) * (1 - tissue.glass)


def _photograph(rng: Random, style: Style, tissue: Tissue) -> npt.NDArray[np.uint8]:
    """Light through the dyes (Beer and Lambert), uneven and tinted, through a lens onto a noisy sensor."""
    size = tissue.size
    density = (
        tissue.haematoxylin[:, :, None] * style.haematoxylin.astype(np.float32)
        + tissue.eosin[:, :, None] * style.eosin.astype(np.float32)
        + tissue.blood[:, :, None] * (BLOOD / np.linalg.norm(BLOOD)).astype(np.float32)
    )
    thickness = 1 + 0.06 * clouds(rng, size, 250)
    light = np.exp(-density * 1.25 * thickness[:, :, None])
    slope = rng.normal(0, 0.04, 2)
    rows, columns = np.mgrid[-0.5 : 0.5 : size * 1j, -0.5 : 0.5 : size * 1j]
    lamp = 1 + slope[0] * rows + slope[1] * columns
    white = rng.uniform(0.93, 1.0) * (1 - rng.uniform(0, 0.04, 3))
    light = blur(light * lamp[:, :, None] * white, rng.uniform(0.6, 1.0))
    noise = blur(rng.standard_normal(light.shape, dtype=np.float32), 0.6)  # scanners compress, which smooths it
    levels = 255 * (light + rng.uniform(0.01, 0.03) * noise)
    return np.clip(levels + 0.5, 0, 255).astype(np.uint8)
