"""Made-up scroll fragments in the contest's layout: crossed fibres, a wavy sheet, ink that is hardly denser.

A fragment is described by maps of the sheet (where its surface lies, how thick it is, what its fibre layers look
like); every slice is computed from the maps alone and written at once, so that no volume is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens import files, runs
from handlens.images import write_png
from handlens.types import Settings, Shape

Map = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

SLICES = 24
"""Slices of a made-up stack; real ones have 65, and the same sheet in the middle of them."""

SHEET = 8.0  # thickness of the papyrus, in slices
SURFACE = 14.5  # slice in which the written surface lies on average; the sheet is below it, air above
DRIFT = 2.2  # how far, in slices, the surface wanders over the fragment (one standard deviation)
STACKED = ("across", "across", "across", "along", "along")  # fibre layers from the surface down
VOID, PAPYRUS, FULL = 0.30, 0.52, 65535  # grey of air and of papyrus as shares of the full 16 bits

# Letter shapes on a unit square, x to the right and y down: chains of points, and arcs.
_LINES: dict[str, list[list[tuple[float, float]]]] = {
    "alpha": [[(0.0, 1.0), (0.5, 0.0), (1.0, 1.0)], [(0.2, 0.65), (0.8, 0.65)]],
    "gamma": [[(0.1, 1.0), (0.1, 0.0), (0.9, 0.0)]],
    "delta": [[(0.0, 1.0), (0.5, 0.0), (1.0, 1.0), (0.0, 1.0)]],
    "epsilon": [[(0.1, 0.5), (0.75, 0.5)]],
    "eta": [[(0.1, 0.0), (0.1, 1.0)], [(0.9, 0.0), (0.9, 1.0)], [(0.1, 0.5), (0.9, 0.5)]],
    "theta": [[(0.1, 0.5), (0.9, 0.5)]],
    "iota": [[(0.5, 0.0), (0.5, 1.0)]],
    "kappa": [[(0.1, 0.0), (0.1, 1.0)], [(0.9, 0.0), (0.1, 0.5), (0.9, 1.0)]],
    "lambda": [[(0.0, 1.0), (0.45, 0.1)], [(0.3, 0.0), (1.0, 1.0)]],
    "mu": [[(0.0, 1.0), (0.2, 0.0), (0.5, 0.7), (0.8, 0.0), (1.0, 1.0)]],
    "nu": [[(0.1, 1.0), (0.1, 0.0), (0.9, 1.0), (0.9, 0.0)]],
    "pi": [[(0.2, 1.0), (0.2, 0.0)], [(0.8, 0.0), (0.8, 1.0)], [(0.0, 0.0), (1.0, 0.0)]],
    "rho": [[(0.2, 1.0), (0.2, 0.0)]],
    "tau": [[(0.0, 0.0), (1.0, 0.0)], [(0.5, 0.0), (0.5, 1.0)]],
    "upsilon": [[(0.0, 0.0), (0.5, 0.5), (1.0, 0.0)], [(0.5, 0.5), (0.5, 1.0)]],
    "phi": [[(0.5, -0.2), (0.5, 1.2)]],
    "chi": [[(0.0, 0.0), (1.0, 1.0)], [(1.0, 0.0), (0.0, 1.0)]],
}
_ARCS: dict[str, list[tuple[float, float, float, float, float, float]]] = {  # centre, radii, first and last degree
    "epsilon": [(0.55, 0.5, 0.45, 0.5, 40, 320)],
    "theta": [(0.5, 0.5, 0.45, 0.5, 0, 360)],
    "omicron": [(0.5, 0.5, 0.4, 0.4, 0, 360)],
    "rho": [(0.45, 0.25, 0.35, 0.25, -120, 120)],
    "sigma": [(0.55, 0.5, 0.45, 0.5, 50, 310)],
    "phi": [(0.5, 0.5, 0.45, 0.35, 0, 360)],
    "omega": [(0.27, 0.55, 0.27, 0.45, -10, 240), (0.73, 0.55, 0.27, 0.45, -60, 190)],
}
LETTERS = tuple(sorted({*_LINES, *_ARCS}))


def write_sample(folder: Path, /, *, seed: int, cases: int, size: int, settings: Settings) -> None:
    """Write `cases` test fragments, at least one training fragment, and the test's truth; `size` is the height."""
    shape = (size, size + size // 4)
    for index in range(max(1, cases)):
        fragment = _make_fragment(np.random.default_rng([seed, 0, index]), shape)
        place = folder / "train" / str(index + 1)
        _write_volume(place, fragment, seed=[seed, 1, index])
        _write_truth(place, fragment)
        text = runs.format_pairs(runs.encode(fragment.label, order="rows"))
        files.write_text(place / "inklabels_rle.csv", f"Id,Predicted\n{index + 1},{text}\n")
        write_png(place / "ir.png", _photograph(fragment, np.random.default_rng([seed, 2, index])))
    names = [_name(index) for index in range(cases)]
    for index, name in enumerate(names):
        fragment = _make_fragment(np.random.default_rng([seed, 3, index]), shape)
        _write_volume(folder / "test" / name, fragment, seed=[seed, 4, index])
        _write_truth(folder / "truth" / name, fragment)
    rows = "".join(f"{name},1 1\n" for name in names)
    files.write_text(folder / "sample_submission.csv", f"Id,Predicted\n{rows}")


def _name(index: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    first, last = divmod(index, 26)
    return (_name(first - 1) if first else "") + chr(ord("a") + last)


# --- the sheet ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fragment:
    """The sheet as maps: heights in slices, fibre layers around 0, presence from 0 (air) to 1."""

    mask: Mask
    label: Mask
    ink: Map
    surface: Map
    bottom: Map
    layers: tuple[Map, ...]
    presence: Map
    crumbs: Map


def _make_fragment(random: np.random.Generator, shape: Shape) -> _Fragment:
    mask = _draw_outline(random, shape)
    label = _write_lines(random, shape) & mask
    if not label.any():  # a fragment too small for a letter still has a spot of ink
        label[shape[0] // 2, shape[1] // 2] = mask[shape[0] // 2, shape[1] // 2] = True
    layers = tuple(_weave(random, shape, direction) for direction in STACKED)
    peeled = _soften(_noise(random, shape, (9, 40)) > 1.3, 1.2) + _soften(_noise(random, shape, (40, 9)) > 1.5, 1.2)
    relief = np.asarray(0.5 * layers[0] + 0.4 * layers[3] - 2.2 * peeled, np.float32)  # strips of it are gone
    ink = _soften(label & (_noise(random, shape, (7, 7)) > -1.5), 0.8)  # some has flaked off
    level = SURFACE + DRIFT * _noise(random, shape, (shape[0] / 3, shape[1] / 3))
    level += 0.3 * DRIFT * _noise(random, shape, (shape[0] / 8, shape[1] / 8))
    uneven = _noise(random, shape, (shape[0] / 12, shape[1] / 12)) + _noise(random, shape, (9, 9))  # as wide as strokes
    thickness = SHEET * (1 + 0.22 * uneven)
    return _Fragment(
        mask=mask,
        label=label,
        ink=ink,
        surface=level + _coat(random, relief, ink),
        bottom=level - np.clip(thickness, 4, None),
        layers=layers,
        presence=_soften(mask & ~_crack(random, shape), 0.9),
        crumbs=_scatter(random, shape),
    )


def _coat(random: np.random.Generator, relief: Map, ink: Map) -> Map:
    """The relief with ink on it: valleys half filled, a little raised, crackled, the edges of the flakes curled up."""
    level = _blur(relief, across=3, down=3) + 0.3
    curled = 2.6 * _crackle(random, (relief.shape[0], relief.shape[1]))
    return np.asarray(relief + ink * (0.6 * np.maximum(level - relief, 0) + 0.35 + curled), np.float32)


def _draw_outline(random: np.random.Generator, shape: Shape) -> Mask:
    """An irregular patch that fills most of the picture."""
    y, x = np.ogrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]
    radius = (np.abs(y) ** 4 + np.abs(x) ** 4) ** 0.25
    ragged = 0.08 * _noise(random, shape, (shape[0] / 10, shape[1] / 10)) + 0.02 * _noise(random, shape, (3, 3))
    outline: Mask = radius + ragged < 0.9
    return outline


def _weave(random: np.random.Generator, shape: Shape, direction: str) -> Map:
    """One layer of fibres, around 0: strands of their own spacing, width and grey that wave and fade."""
    height, width = shape if direction == "across" else shape[::-1]
    spacing = random.uniform(5, 8)
    count = int(height / spacing) + 12
    centres = (np.arange(count) - 6 + random.uniform(-0.35, 0.35, count)) * spacing
    strand = random.normal(0, 1, count)
    breadth = random.uniform(0.25, 0.5, count) * spacing
    line = np.arange(-4 * spacing, height + 4 * spacing, 0.5)
    profile = np.sum(strand * np.exp(-0.5 * ((line[:, None] - centres) / breadth) ** 2), axis=1)
    wave = 0.8 * spacing * _noise(random, (height, width), (height / 3, width / 4))
    layer = np.interp(np.arange(height)[:, None] + wave, line, profile)
    layer = layer * (1 + 0.3 * _noise(random, (height, width), (spacing, 25)))
    layer += 0.35 * _noise(random, (height, width), (1.0, 12))
    return np.ascontiguousarray(layer if direction == "across" else layer.T, np.float32)


def _crackle(random: np.random.Generator, shape: Shape) -> Map:
    """Thin lines between dried flakes a few pixels wide, from 0 to 1, faint in some places."""
    from scipy.spatial import cKDTree

    seeds = random.uniform((-4, -4), (shape[0] + 4, shape[1] + 4), (max(2, shape[0] * shape[1] // 34), 2))
    points = np.indices(shape, np.float32).reshape(2, -1).T
    near = np.asarray(cKDTree(seeds).query(points, k=2)[0]).reshape(*shape, 2)
    edge = np.exp(-(((near[..., 1] - near[..., 0]) / 1.1) ** 2))
    strength = np.clip(0.75 + 0.5 * _noise(random, shape, (6, 6)), 0, 1.5)
    return np.asarray(edge * strength, np.float32)


def _crack(random: np.random.Generator, shape: Shape) -> Mask:
    """Cracks along lines of equal noise, and worm holes."""
    winding = np.abs(_noise(random, shape, (shape[0] / 5, shape[1] / 5))) < 0.018
    broken = _noise(random, shape, (12, 12)) > 0.2
    holes = _noise(random, shape, (7, 7)) > 2.4
    cracks: Mask = (winding & broken) | holes
    return cracks


def _scatter(random: np.random.Generator, shape: Shape) -> Map:
    """Grains and loose fibre ends that lie on the surface anywhere: brightness of what stands above it."""
    grains = _soften(random.random(shape) > 0.9985, 0.7) * 5
    loose = np.zeros(shape, np.float32)
    for deviations in ((0.6, 6.0), (6.0, 0.6)):
        loose += np.clip(_noise(random, shape, deviations) - 2.3, 0, 1)
    return np.asarray(np.clip(grains + loose, 0, 1), np.float32)


# --- writing -----------------------------------------------------------------------------------------------------


def _write_lines(random: np.random.Generator, shape: Shape) -> Mask:
    """Lines of letters over the whole picture, in one hand: pen width, height and slant are the same for all."""
    import cv2

    canvas = np.zeros(shape, np.uint8)
    height = float(np.clip(0.24 * shape[0], 24, 500))
    pen, slant = max(2, round(height * random.uniform(0.14, 0.18))), random.uniform(-0.12, 0.12)
    top = -random.uniform(0, 0.5) * height
    while top < shape[0]:
        left = -random.uniform(0, 1) * height
        while left < shape[1]:
            letter = LETTERS[random.integers(len(LETTERS))]
            wide, tall = height * random.uniform(0.65, 0.9), height * random.uniform(0.85, 1.1)
            for stroke in _strokes(letter):
                y = top + tall * stroke[:, 1] + random.normal(0, 0.02) * height
                x = left + wide * stroke[:, 0] - slant * tall * stroke[:, 1]
                chain = np.rint(np.stack([x, y], axis=1) * 8).astype(np.int32)
                cv2.polylines(canvas, [chain], False, 255, pen, cv2.LINE_8, 3)
            left += wide + height * random.uniform(0.35, 0.9)
        top += height * random.uniform(1.6, 1.9)
    trembling = cv2.GaussianBlur(canvas, (0, 0), 1.5).astype(np.float32) + 25 * _noise(random, shape, (4, 4))
    written: Mask = trembling > 127
    return _drop_specks(written, pen * pen)


def _strokes(letter: str) -> Iterator[npt.NDArray[np.float64]]:
    for line in _LINES.get(letter, []):
        yield np.array(line)
    for x, y, across, down, first, last in _ARCS.get(letter, []):
        angles = np.radians(np.linspace(first, last, 24))
        yield np.stack([x + across * np.cos(angles), y + down * np.sin(angles)], axis=1)


def _drop_specks(mask: Mask, smallest: int) -> Mask:
    import cv2

    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    keep = stats[:, cv2.CC_STAT_AREA] >= smallest
    keep[0] = False
    return np.asarray(keep[labels], bool)


# --- files -------------------------------------------------------------------------------------------------------


def _write_volume(folder: Path, fragment: _Fragment, *, seed: list[int]) -> None:
    import tifffile

    write_png(folder / "mask.png", fragment.mask)
    (folder / "surface_volume").mkdir()
    for number in range(SLICES):
        plane = _scan(fragment, number, np.random.default_rng([*seed, number]))
        path = folder / "surface_volume" / f"{number:02d}.tif"
        tifffile.imwrite(path, plane, photometric="minisblack", metadata=None, software=False)


def _write_truth(folder: Path, fragment: _Fragment) -> None:
    write_png(folder / "mask.png", fragment.mask)
    write_png(folder / "inklabels.png", fragment.label)


def _scan(fragment: _Fragment, number: int, random: np.random.Generator) -> npt.NDArray[np.uint16]:
    """One slice as the scanner sees it: the sheet where it cuts it, blurred, with grain and faint streaks."""
    below = fragment.surface - number
    sheet = _step(below) * _step(number - fragment.bottom)
    depth = below * (len(fragment.layers) - 1) / np.maximum(fragment.surface - fragment.bottom, 1)
    fibres = np.zeros_like(below)
    for position, layer in enumerate(fragment.layers):
        fibres += layer * np.clip(1 - np.abs(depth - position), 0, None)
    coat = fragment.ink * _step(below) * _step(1.5 - below)
    grey = PAPYRUS + 0.055 * fibres + 0.03 * coat - VOID
    loose = 0.25 * fragment.crumbs * _step(below + 2.5) * _step(-below)
    plane = VOID + fragment.presence * (sheet * grey + loose)
    plane = _blur(plane, across=0.8, down=0.8)
    shape = (plane.shape[0], plane.shape[1])
    plane += 0.016 * _noise(random, shape, (2.0, 0.6)) + 0.012 * random.standard_normal(shape, np.float32)
    plane -= 0.12 * ~fragment.mask  # outside the fragment the scan was cut off and is darker than air
    return np.asarray(np.clip(plane, 0, 1) * FULL, np.uint16)


def _photograph(fragment: _Fragment, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    """An infrared photograph of the surface: dark ink, lit fibres, black where there is no papyrus."""
    shape = (fragment.mask.shape[0], fragment.mask.shape[1])
    light = 0.62 + 0.06 * fragment.layers[0] + 0.08 * _noise(random, shape, (shape[0] / 4, shape[1] / 4))
    light = (light - 0.3 * fragment.ink) * fragment.presence * fragment.mask
    light = _blur(light, across=0.9, down=0.9) + 0.02 * random.standard_normal(shape, np.float32)
    return np.asarray(np.clip(light, 0, 1) * 255, np.uint8)


# --- fields ------------------------------------------------------------------------------------------------------


def _noise(random: np.random.Generator, shape: Shape, deviations: tuple[float, float]) -> Map:
    """Smooth Gaussian noise of mean 0 and deviation 1; `deviations` say how far it is smooth, down and across.

    Where it is very smooth a coarser grid is filled and stretched: the picture's size must not set the cost.
    """
    import cv2

    margin = 9  # three deviations on the coarse grid, where the border would show
    steps = [max(1.0, deviation / 3) for deviation in deviations]
    coarse = [int(side / step) + 2 * margin + 1 for side, step in zip(shape, steps, strict=True)]
    down, across = (deviation / step for deviation, step in zip(deviations, steps, strict=True))
    field = _blur(random.standard_normal(coarse, np.float32), across=across, down=down)
    field *= 2 * np.sqrt(np.pi * down * across)  # what the smoothing took from the deviation
    rows, columns = (int(np.ceil(side * step)) for side, step in zip(coarse, steps, strict=True))
    stretched = cv2.resize(field, (columns, rows), interpolation=cv2.INTER_CUBIC)
    top, left = (int(margin * step) for step in steps)
    return np.ascontiguousarray(stretched[top : top + shape[0], left : left + shape[1]], np.float32)


def _blur(plane: Any, *, across: float, down: float) -> Map:
    import cv2

    return np.asarray(cv2.GaussianBlur(np.asarray(plane, np.float32), (0, 0), sigmaX=across, sigmaY=down))


def _soften(mask: Mask, deviation: float) -> Map:
    return _blur(mask, across=deviation, down=deviation)


def _step(distance: Any) -> Map:
    """From 0 to 1 around distance 0, as wide as the scanner's blur in depth."""
    return np.asarray(1 / (1 + np.exp(np.clip(-2.2 * distance, -30, 30))), np.float32)
