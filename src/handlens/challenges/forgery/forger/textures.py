"""Synthetic microscopy and blots: what one panel of a figure shows, and which pixels belong to one object.

A copy can only be found where the picture has something of its own, so every texture carries structure at
several scales (objects, their inner grain, camera noise) and no pattern repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from handlens.types import Shape

FloatArray = npt.NDArray[np.float32]
LabelArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PaintedPanel:
    """One picture: (H, W, 3) float32 from 0 to 255, and the number of the object at each pixel; 0 is none.

    A blot has `lanes` of equal width side by side; other pictures have 0.
    """

    picture: FloatArray
    objects: LabelArray
    lanes: int = 0


Painter = Callable[[Shape, np.random.Generator, np.random.Generator], PaintedPanel]
"""Draws a panel: what is in it comes from the first generator; dye, magnification and noise from the
second, the style, so that panels painted in the same style look like pictures of one microscope.
"""


# --- parts --------------------------------------------------------------------------------------------------


def blur(picture: FloatArray, sigma: float) -> FloatArray:
    """Gaussian blur of a float picture; `sigma` in pixels."""
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), max(sigma, 0.1)), np.float32)


def clouds(shape: Shape, rng: np.random.Generator, *, grain: float) -> FloatArray:
    """Smooth noise with mean 0 and deviation 1; `grain` is the size of its lumps in pixels.

    Coarse clouds are drawn small and enlarged: a wide blur of the full size costs a hundred times more.
    """
    step = max(1.0, grain / 2)
    small = (int(shape[0] / step) + 3, int(shape[1] / step) + 3)
    noise = blur(rng.standard_normal(small, dtype=np.float32), grain / step)
    if step > 1:
        size = (int(small[1] * step) + 1, int(small[0] * step) + 1)
        noise = np.asarray(cv2.resize(noise, size, interpolation=cv2.INTER_CUBIC), np.float32)
    noise = noise[: shape[0], : shape[1]]
    return np.asarray((noise - noise.mean()) / (noise.std() + 1e-6), np.float32)


def outline(
    centre: tuple[float, float], radii: tuple[float, float], rng: np.random.Generator, *, roughness: float
) -> npt.NDArray[np.int32]:
    """A closed polygon of (x, y) points: an ellipse turned at random, its radius waving by `roughness`."""
    turns = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    radius = np.ones_like(turns)
    for wave in range(2, 6):
        radius += roughness / wave * rng.normal() * np.cos(wave * turns + rng.uniform(0, 2 * np.pi))
    radius = np.maximum(radius, 0.4)
    x, y = radii[0] * radius * np.cos(turns), radii[1] * radius * np.sin(turns)
    angle = rng.uniform(0, np.pi)
    points = [
        centre[0] + x * np.cos(angle) - y * np.sin(angle),
        centre[1] + x * np.sin(angle) + y * np.cos(angle),
    ]
    return np.asarray(np.rint(np.stack(points, axis=1)), np.int32)


def scatter(shape: Shape, rng: np.random.Generator, *, radius: float, share: float, roughness: float) -> LabelArray:
    """Numbered objects of about `radius` pixels that cover about `share` of the panel and seldom touch."""
    objects = np.zeros(shape, np.int32)
    wanted = max(2, int(share * shape[0] * shape[1] / (np.pi * radius**2)))
    for number in range(1, wanted + 1):
        for _attempt in range(4):
            x, y = rng.uniform(0, shape[1]), rng.uniform(0, shape[0])
            size = radius * rng.uniform(0.75, 1.3)
            polygon = outline((x, y), (size, size * rng.uniform(0.55, 0.95)), rng, roughness=roughness)
            spots = np.clip(polygon, 0, [shape[1] - 1, shape[0] - 1])
            if not objects[spots[:, 1], spots[:, 0]].any() and not objects[spots[0, 1], int(spots[:, 0].mean())]:
                cv2.fillPoly(objects, [polygon], number)
                break
    return objects


def levels(objects: LabelArray, rng: np.random.Generator, *, low: float, high: float) -> FloatArray:
    """A level of its own for every object, between `low` and `high`; 0 outside."""
    table = rng.uniform(low, high, int(objects.max()) + 1).astype(np.float32)
    table[0] = 0
    return np.asarray(table[objects], np.float32)


def tinted(grey: FloatArray, tint: tuple[float, float, float]) -> FloatArray:
    """A grey picture in one colour; (1, 1, 1) leaves it grey."""
    return np.asarray(grey[:, :, None] * np.array(tint, np.float32), np.float32)


def finished(picture: FloatArray, rng: np.random.Generator, *, noise: float) -> FloatArray:
    """The picture as a camera sees it: noise that grows with brightness, values from 0 to 255."""
    spread = noise * (0.5 + np.sqrt(np.clip(picture.mean(axis=2), 0, 255) / 255))
    grain = rng.standard_normal(picture.shape[:2], dtype=np.float32) * spread
    return np.asarray(np.clip(picture * (1 + grain[:, :, None] / 128) + grain[:, :, None] / 2, 0, 255), np.float32)


# --- painters -----------------------------------------------------------------------------------------------

_DYES = ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (0.25, 0.35, 1.0), (0.15, 1.0, 0.3), (1.0, 0.2, 0.15))


def paint_nuclei(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """Stained nuclei on a dark ground: lumpy chromatin, dark nucleoli, out-of-focus haze."""
    radius = max(6.0, min(shape) * float(np.exp(style.uniform(np.log(0.022), np.log(0.1)))))
    objects = scatter(shape, rng, radius=radius, share=float(rng.uniform(0.08, 0.28)), roughness=0.1)
    inside = blur((objects > 0).astype(np.float32), radius / 14)
    body = blur(levels(objects, rng, low=70, high=190), radius / 14)
    chromatin = 0.2 * clouds(shape, rng, grain=radius / 4) + 0.12 * clouds(shape, rng, grain=radius / 9)
    nucleoli = np.clip(clouds(shape, rng, grain=radius / 3) - 1.3, 0, 1) * 0.55
    haze = 6 + 3 * clouds(shape, rng, grain=min(shape) / 3) + 0.12 * blur(body, radius * 1.5)
    grey = np.clip(haze, 0, None) + body * inside * np.clip(1 + chromatin - nucleoli, 0.15, 2)
    grey *= float(style.choice([0.3, 0.6, 1.0, 1.0]))  # many real ones are dark and have few grey levels
    dye = _DYES[int(style.integers(len(_DYES)))]
    return PaintedPanel(finished(tinted(grey.astype(np.float32), dye), rng, noise=float(style.uniform(1, 5))), objects)


def paint_tissue(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A stained section in bright field: pink fibres, pale gaps, purple nuclei."""
    radius = max(5.0, min(shape) * float(style.uniform(0.025, 0.05)))
    objects = scatter(shape, rng, radius=radius, share=float(rng.uniform(0.1, 0.22)), roughness=0.22)
    bent = 5 * clouds(shape, rng, grain=min(shape) / 6) + 0.6 * clouds(shape, rng, grain=radius)
    fibres = np.sin(bent * rng.uniform(1.5, 3)) + 0.5 * clouds(shape, rng, grain=radius / 3)
    gaps = np.clip(2 * clouds(shape, rng, grain=min(shape) / 8) - 1.8, 0, 1)
    eosin = np.clip(0.42 + 0.13 * fibres, 0.05, 1) * (1 - gaps)
    chromatin = 1 + 0.3 * clouds(shape, rng, grain=radius / 4)
    haematoxylin = blur(levels(objects, rng, low=0.55, high=1.15), radius / 12) * chromatin
    haematoxylin = np.clip(haematoxylin + 0.06 * clouds(shape, rng, grain=radius / 2), 0, 2)
    absorbed = eosin[:, :, None] * np.array([0.12, 0.75, 0.3]) + haematoxylin[:, :, None] * np.array([0.75, 0.95, 0.4])
    picture = (242 * np.exp(-absorbed)).astype(np.float32)
    return PaintedPanel(finished(picture, rng, noise=float(style.uniform(2, 5))), objects)


def paint_granules(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """An electron micrograph: granular ground, dark membranes, dense bodies with folds inside."""
    radius = max(6.0, min(shape) * float(style.uniform(0.05, 0.1)))
    objects = scatter(shape, rng, radius=radius, share=float(rng.uniform(0.15, 0.3)), roughness=0.2)
    inside = blur((objects > 0).astype(np.float32), 1.0)
    rim = np.clip(4 * inside * (1 - inside), 0, 1)
    folds = np.sin(3 * clouds(shape, rng, grain=radius / 2.5) * rng.uniform(1.5, 2.5))
    grey = 150 + 14 * clouds(shape, rng, grain=min(shape) / 5) + 16 * clouds(shape, rng, grain=2.5)
    grey += 12 * clouds(shape, rng, grain=5) - inside * (38 - 22 * folds) - 60 * rim
    membranes = np.exp(-((clouds(shape, rng, grain=min(shape) / 7) / 0.06) ** 2))
    grey -= 65 * membranes * (1 - inside)
    grey = np.clip(grey, 8, 245).astype(np.float32)
    return PaintedPanel(finished(tinted(grey, (1.0, 1.0, 1.0)), rng, noise=float(style.uniform(6, 14))), objects)


def paint_specimens(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A photograph of specimens laid side by side on cloth: long bodies of many kernels, a shadow beside each."""
    height, width = shape
    count = int(np.clip(round(width / height * float(style.uniform(3, 6))), 2, 12))
    step = width / count
    objects = np.zeros(shape, np.int32)
    for number in range(count):
        x = (number + 0.5 + float(rng.normal(0, 0.03))) * step
        y = height * float(rng.uniform(0.45, 0.6))
        turns = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        wide, long = step * float(rng.uniform(0.26, 0.38)), height * float(rng.uniform(0.16, 0.28))
        rounded = np.sign(np.cos(turns)) * np.abs(np.cos(turns)) ** 0.7 * (1 + 0.15 * np.sin(turns))
        points = [x + wide * rounded, y + long * np.sin(turns) + rng.normal(0, 1, 48)]
        cv2.fillPoly(objects, [np.asarray(np.rint(np.stack(points, axis=1)), np.int32)], number + 1)
    kernel = max(3.0, step / 14)
    bumps = np.clip(np.abs(clouds(shape, rng, grain=kernel)) * 0.9, 0, 1.4) + 0.3 * clouds(shape, rng, grain=kernel / 3)
    cloth = np.array(((38, 92, 84), (122, 92, 58), (60, 60, 66), (150, 140, 120))[int(style.integers(4))], np.float32)
    picture = cloth * (1 + 0.05 * clouds(shape, rng, grain=2) + 0.05 * clouds(shape, rng, grain=width / 4))[:, :, None]
    shadow = blur(np.roll(objects > 0, round(step / 12), axis=1).astype(np.float32), step / 20)
    picture = picture * (1 - 0.45 * shadow[:, :, None])
    colours = np.array([(228, 176, 70), (235, 222, 190), (150, 45, 35), (215, 140, 50), (70, 40, 50)], np.float32)
    table = colours[rng.integers(len(colours), size=count + 1)] * rng.uniform(0.85, 1.1, (count + 1, 1))
    body = table[objects] * (0.62 + 0.4 * bumps)[:, :, None]
    inside = blur((objects > 0).astype(np.float32), 0.8)[:, :, None]
    mixed = np.clip(picture * (1 - inside) + body * inside, 0, 255).astype(np.float32)
    return PaintedPanel(finished(mixed, rng, noise=float(style.uniform(2, 6))), objects)


def paint_blot(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A western blot: lanes of dark bands that bend and smear, on a pale uneven membrane."""
    height, width = shape
    lanes = int(np.clip(width / style.uniform(24, 60), 3, 14))
    rows = int(np.clip(height / style.uniform(60, 200), 1, 5))
    objects, dark = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    down = (np.arange(rows) + rng.uniform(0.35, 0.65, rows)) * height / rows
    for lane in range(lanes):
        for row in range(rows):
            if rng.uniform() < 0.15:
                continue
            centre = (
                (lane + 0.5 + rng.normal(0, 0.04)) * width / lanes,
                down[row] + rng.normal(0, height / 90),
            )
            wide, high = (
                width / lanes * rng.uniform(0.3, 0.44),
                min(height / rows * 0.3, max(2.5, width / lanes * rng.uniform(0.1, 0.24))),
            )
            polygon = _band(centre, (wide, high), rng)
            cv2.fillPoly(objects, [polygon], lane * rows + row + 1)
            cv2.fillPoly(dark, [polygon], float(rng.uniform(0.25, 1.0)))
    soft = blur(dark, max(1.0, width / lanes * 0.03))
    speckle = 1 + 0.16 * clouds(shape, rng, grain=3) + 0.12 * clouds(shape, rng, grain=8)
    ground = 205 + 9 * clouds(shape, rng, grain=min(shape) / 3) + 5 * clouds(shape, rng, grain=2)
    ground += 4 * clouds(shape, rng, grain=6) - 25 * blur(dark, max(2.0, width / lanes / 4))
    grey = np.clip(ground - 165 * np.clip(soft * speckle, 0, 1.15), 6, 250).astype(np.float32)
    grey = 255 - grey if style.uniform() < 0.2 else grey  # a gel under ultraviolet light
    return PaintedPanel(finished(tinted(grey, (1.0, 1.0, 1.0)), rng, noise=float(style.uniform(3, 8))), objects, lanes)


def _band(centre: tuple[float, float], half: tuple[float, float], rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """The outline of one band: a rounded bar, its ends bent up or down."""
    turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    x = np.sign(np.cos(turns)) * np.abs(np.cos(turns)) ** 0.5
    y = np.sign(np.sin(turns)) * np.abs(np.sin(turns)) ** 0.7 * (1 + 0.12 * rng.normal() * x)
    bend = half[1] * rng.normal(0, 0.35)
    points = [centre[0] + half[0] * x, centre[1] + half[1] * y + bend * x**2]
    return np.asarray(np.rint(np.stack(points, axis=1)), np.int32)


PAINTERS: Mapping[str, Painter] = {
    "nuclei": paint_nuclei,
    "tissue": paint_tissue,
    "granules": paint_granules,
    "specimens": paint_specimens,
    "blot": paint_blot,
}
