"""Gels and blots as they are run: a ladder on one side or both, wells, lanes that are loaded alike, smears.

The same ladder runs twice, the same sample in several lanes, and one comb makes all wells: everything is alike but the
grain of film or sensor, which no two lanes share.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.forger.textures import FloatArray, PaintedPanel, blur, clouds, finished, tinted
from handlens.types import Shape

RUNGS = np.array([1.0, 0.86, 0.74, 0.62, 0.52, 0.44, 0.36, 0.28, 0.2, 0.13])
"""Where the bands of a ladder stand, from the wells down, as a share of the longest way."""


def paint_gel(shape: Shape, rng: np.random.Generator, style: np.random.Generator) -> PaintedPanel:
    """One gel, dark on light or light on dark; `style` draws camera and stain, `rng` samples and noise."""
    height, width = shape
    lanes = int(np.clip(width / style.uniform(22, 55), 4, 20))
    step = width / lanes
    signal = np.zeros(shape, np.float32)
    ladders = {0, lanes - 1} if rng.uniform() < 0.6 else {0}
    ladder = RUNGS[: int(rng.integers(5, len(RUNGS) + 1))], rng.uniform(0.3, 1.0, len(RUNGS))
    samples = [(rng.uniform(0.15, 0.95, int(rng.integers(1, 6))), rng.uniform(0.2, 1.1, 6)) for _ in range(3)]
    wells, smile = bool(style.uniform() < 0.5), float(style.normal(0, 0.02))
    thick = max(1.2, height * float(style.uniform(0.006, 0.02)))
    for lane in range(lanes):
        places, strengths = ladder if lane in ladders else samples[int(rng.integers(len(samples)))]
        load = float(rng.normal(1, 0.06))
        ends = (lane + 0.5 + np.array([-0.5, 0.5]) * 0.72) * step + rng.normal(0, 0.4)
        for place, strength in zip(places, strengths, strict=False):
            bend = smile * ((lane + 0.5) / lanes - 0.5) ** 2 * 4 * height
            row = height * (0.1 + 0.85 * float(place)) + bend + rng.normal(0, 0.5)
            _add_band(signal, ends, row, thick * float(rng.normal(1, 0.05)), float(strength) * load)
        if wells:
            _add_band(signal, ends, height * 0.05, thick, 0.8 * float(rng.normal(1, 0.05)))
        if rng.uniform() < 0.3:  # a smear down the lane
            columns = slice(max(0, round(ends[0])), max(1, round(ends[1])))
            signal[int(height * 0.1) :, columns] += 0.25 * np.linspace(1, 0, height - int(height * 0.1))[:, None]
    return PaintedPanel(_seen(signal, rng, style), np.zeros(shape, np.int32), lanes)


def _add_band(signal: FloatArray, ends: npt.NDArray[np.float64], row: float, thick: float, strength: float) -> None:
    """A band with soft edges, sharper at its front; only where it is not negligible."""
    height, width = signal.shape
    rows = np.arange(max(0, int(row - 4 * thick)), min(height, int(row + 4 * thick) + 1), dtype=np.float32)
    columns = np.arange(width, dtype=np.float32)
    down = np.exp(-(((rows - row) / np.where(rows > row, 0.8 * thick, 1.2 * thick)) ** 2))
    inside = np.minimum(columns - ends[0], ends[1] - columns)  # pixels from the nearer side of the lane
    across = 1 / (1 + np.exp(np.clip(-inside / 0.8, -30, 30)))
    signal[int(rows[0]) if len(rows) else 0 :][: len(rows)] += strength * down[:, None] * across


def _seen(signal: FloatArray, rng: np.random.Generator, style: np.random.Generator) -> FloatArray:
    """The gel as film or camera shows it: saturated or faint, uneven ground, grain of its own everywhere."""
    shape = (signal.shape[0], signal.shape[1])
    soft = blur(signal, float(style.uniform(0.6, 1.6)))
    grain = 1 + 0.08 * clouds(shape, rng, grain=float(style.uniform(1, 2.5))) + 0.05 * clouds(shape, rng, grain=6)
    seen = np.clip(1 - np.exp(-float(style.uniform(1, 4)) * soft * grain), 0, 1)
    ground = (
        25 + 10 * clouds(shape, rng, grain=min(shape) / 3) + float(style.uniform(0, 3)) * clouds(shape, rng, grain=2)
    )
    light = np.clip(ground + 215 * seen, 0, 255)
    if style.uniform() < 0.15:  # exposed until the ground is black, or white
        light = np.clip((light - 45) * 1.25, 0, 255)
    grey = light if style.uniform() < 0.5 else 255 - light
    picture = finished(tinted(np.asarray(grey, np.float32), (1.0, 1.0, 1.0)), rng, noise=float(style.uniform(0.5, 6)))
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), 0.5) if style.uniform() < 0.4 else picture, np.float32)
