"""Pictures that repeat themselves honestly: plates and arrays, loading controls, gratings and lattices.

Every repetition has noise of its own, as a camera gives it: no two are the same pixels.
"""

from __future__ import annotations

import cv2
import numpy as np

from handlens.challenges.forgery.forger.textures import (
    FloatArray,
    PaintedPanel,
    blur,
    clouds,
    finished,
    outline,
    tinted,
)
from handlens.types import Shape


def paint_grid(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A well plate, or an array of spots or cells that all have nearly the same form."""
    step = max(14.0, min(shape) / float(style.uniform(3, 9)))
    wells, radius = style.uniform() < 0.5, step * float(style.uniform(0.28, 0.42))
    form = int(style.integers(2**32))
    wobble = float(style.uniform(0, 0.03)) * step
    bodies = np.zeros(shape, np.float32)
    for y in np.arange(step / 2, shape[0], step):
        for x in np.arange(step / 2, shape[1], step):
            spot = x + rng.normal(0, wobble), y + rng.normal(0, wobble)
            polygon = outline(spot, (radius, radius), np.random.default_rng(form), roughness=0.0 if wells else 0.1)
            cv2.fillPoly(bodies, [polygon], float(np.clip(rng.normal(0.75, 0.08), 0.3, 1)))
    bodies = blur(bodies, max(0.8, radius / 10))
    grain = float(style.uniform(1.0, 3.0))
    own = 1 + 0.12 * clouds(shape, rng, grain=max(2.0, radius / 4)) + 0.08 * clouds(shape, rng, grain=grain)
    if wells:
        rim = np.clip(4 * bodies * (0.75 - bodies), 0, 1)
        grey = 205 - 110 * bodies * own - 60 * rim + 4 * clouds(shape, rng, grain=min(shape) / 3)
    else:
        grey = 14 + 3 * clouds(shape, rng, grain=min(shape) / 3) + 190 * bodies * own
    tint = ((1.0, 1.0, 1.0), (0.85, 1.0, 0.9), (1.0, 0.8, 0.9))[int(style.integers(3))]
    noise = float(style.uniform(2, 6))
    return PaintedPanel(
        finished(tinted(np.asarray(grey, np.float32), tint), rng, noise=noise), np.zeros(shape, np.int32)
    )


def paint_loading(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A blot of a protein that every lane has as much of: the bands are nearly the same, their noise is not."""
    height, width = shape
    lanes = int(np.clip(width / style.uniform(28, 60), 3, 14))
    rows = int(np.clip(height / style.uniform(60, 140), 1, 3))
    dark = np.zeros(shape, np.float32)
    form = int(style.integers(2**32))
    for row in range(rows):
        y = (row + 0.5) * height / rows
        half = width / lanes * 0.38, float(np.clip(width / lanes * 0.16, 3, height / rows * 0.3))
        for lane in range(lanes):
            centre = (lane + 0.5) * width / lanes + rng.normal(0, 0.6), y + rng.normal(0, 0.7)
            same = np.random.default_rng([form, row])
            wide, high = (each * float(rng.normal(1, 0.03)) for each in half)
            turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
            x = np.sign(np.cos(turns)) * np.abs(np.cos(turns)) ** 0.5
            bend = high * float(same.normal(0, 0.3)) + rng.normal(0, 0.4)
            down = np.sign(np.sin(turns)) * np.abs(np.sin(turns)) ** 0.7
            points = np.stack([centre[0] + wide * x, centre[1] + high * down + bend * x**2], axis=1)
            cv2.fillPoly(dark, [np.asarray(np.rint(points), np.int32)], float(rng.normal(0.8, 0.04)))
    soft = blur(dark, max(1.2, width / lanes * 0.03))
    speckle = 1 + 0.1 * clouds(shape, rng, grain=3) + 0.08 * clouds(shape, rng, grain=8)
    ground = 208 + 7 * clouds(shape, rng, grain=min(shape) / 3) + 4 * clouds(shape, rng, grain=2)
    grey = np.clip(ground - 165 * np.clip(soft * speckle, 0, 1.1), 6, 250).astype(np.float32)
    picture = finished(tinted(grey, (1.0, 1.0, 1.0)), rng, noise=float(style.uniform(3, 7)))
    return PaintedPanel(picture, np.zeros(shape, np.int32), lanes)


def paint_periodic(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """A grating, a weave, a diffraction lattice or a halftone print, with noise of its own everywhere."""
    period = float(style.uniform(6, max(8.0, min(shape) / 8)))
    turn = float(style.uniform(0, np.pi))
    rows, columns = np.indices(shape, np.float32)
    begin = rng.uniform(0, 4 * np.pi, 2)
    along = begin[0] + 2 * np.pi * (columns * np.cos(turn) + rows * np.sin(turn)) / period
    across = begin[1] + 2 * np.pi * (rows * np.cos(turn) - columns * np.sin(turn)) / period
    pattern = _pattern(int(style.integers(4)), along.astype(np.float32), across.astype(np.float32))
    light = 1 + 0.12 * clouds(shape, rng, grain=min(shape) / 3)
    own = 1 + float(style.uniform(0.03, 0.12)) * clouds(shape, rng, grain=float(style.uniform(1.5, 4)))
    grey = np.clip(30 + 180 * pattern * light * own, 0, 250).astype(np.float32)
    noise = float(style.uniform(2, 7))
    return PaintedPanel(finished(tinted(grey, (1.0, 1.0, 1.0)), rng, noise=noise), np.zeros(shape, np.int32))


def _pattern(kind: int, along: FloatArray, across: FloatArray) -> FloatArray:
    if kind == 0:  # grating
        return np.asarray(0.5 + 0.5 * np.sin(along), np.float32)
    if kind == 1:  # weave
        over = np.sign(np.sin(along / 2) * np.sin(across / 2)) > 0
        return np.asarray(np.where(over, np.abs(np.sin(along)), np.abs(np.sin(across))), np.float32)
    if kind == 2:  # spots of a lattice
        return np.asarray(np.exp(3 * (np.cos(along) + np.cos(along / 2 + across * np.sqrt(3) / 2) - 2)), np.float32)
    return np.asarray(np.clip(2 * (np.cos(along) + np.cos(across)) + 0.5, 0, 1), np.float32)  # halftone
