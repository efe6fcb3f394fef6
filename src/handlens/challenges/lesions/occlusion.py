"""Where a classifier looked: how much the predicted class loses when a part of the photograph is covered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.artefacts import file_of
from handlens.io.images import read_rgb
from handlens.io.png import write_bands
from handlens.types import Case, Prediction

if TYPE_CHECKING:
    from handlens.challenges.lesions.score import Probabilities

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

KINDS = ("occlusion",)
MAP = "occlusion"
"""Name of the artefact: (PLACES, PLACES) float32, from the top left."""

PLACES = 7
"""Rows and columns of places that are covered, one after the other; rule: 49 answers, half a second on one core."""

COVERED = 0.25
"""Side of the cover, as a share of the photograph's; places overlap by half."""

FINE = 64
"""Side of the grid on which what overlapping covers cost is averaged."""

BATCH = 7
RIM = 0.08
"""Share of each side that counts as border: its median colour, which is skin as a rule, is the cover's."""

STRONGEST = 0.65
"""How opaque the colour is where covering costs most."""

HOT = np.array([213, 94, 0], np.float32)
"""Vermilion of Okabe and Ito."""

LEAST_LOSS = 0.02
"""Probability below which nothing is marked: what a model answers whatever is covered, it did not look for."""


def occlusion_map(image: Floats, answer: Callable[[Floats], npt.NDArray[Any]], predicted: int) -> Floats:
    """(PLACES, PLACES) losses of the predicted class's probability, negative where covering makes it likelier.

    `image` is (3, H, W); `answer` takes (n, 3, H, W) and gives (n, classes) probabilities.
    """
    whole = np.asarray(answer(image[None]), np.float32)[0]
    cover = _border_colour(image)
    boxes = _boxes(image.shape[1], image.shape[2])
    losses: list[float] = []
    for start in range(0, len(boxes), BATCH):
        batch = np.repeat(image[None], len(boxes[start : start + BATCH]), axis=0)
        for covered, (top, left, bottom, right) in zip(batch, boxes[start : start + BATCH], strict=True):
            covered[:, top:bottom, left:right] = cover
        losses += (whole[predicted] - np.asarray(answer(batch), np.float32)[:, predicted]).tolist()
    return np.array(losses, np.float32).reshape(PLACES, PLACES)


def _boxes(height: int, width: int) -> list[tuple[int, int, int, int]]:
    """Top, left, bottom and right of every place, row by row."""
    tall, wide = round(height * COVERED), round(width * COVERED)
    tops = np.linspace(0, height - tall, PLACES).round().astype(int).tolist()
    lefts = np.linspace(0, width - wide, PLACES).round().astype(int).tolist()
    return [(top, left, top + tall, left + wide) for top in tops for left in lefts]


def _border_colour(image: Floats) -> Floats:
    """(3, 1, 1) median colour of the border."""
    rim = max(1, round(min(image.shape[1:]) * RIM))
    inside = np.zeros(image.shape[1:], bool)
    inside[rim:-rim, rim:-rim] = True
    colour: Floats = np.median(image[:, ~inside], axis=1).astype(np.float32)[:, None, None]
    return colour


def overlay(photograph: Bytes, losses: Floats) -> Bytes:
    """The (H, W, 3) photograph, coloured the more, the more covering a part costs; unchanged where nothing does."""
    height, width = photograph.shape[:2]
    heat, often = np.zeros((FINE, FINE), np.float32), np.zeros((FINE, FINE), np.float32)
    for (top, left, bottom, right), loss in zip(_boxes(FINE, FINE), losses.ravel().tolist(), strict=True):
        heat[top:bottom, left:right] += max(0.0, loss)
        often[top:bottom, left:right] += 1
    heat /= often
    opacity = cv2.resize(heat * (STRONGEST / max(LEAST_LOSS, float(heat.max()))), (width, height))
    mixed = photograph * (1 - opacity[:, :, None]) + HOT * opacity[:, :, None]
    return np.asarray(np.rint(np.clip(mixed, 0, 255)), np.uint8)


def write_overlay(out: Path, case: Case, _photograph: Any, prediction: Prediction[Probabilities]) -> None:
    """`ID.occlusion.png`: the photograph with the parts coloured that its answer rests on."""
    drawn = overlay(read_rgb(case.path), prediction.artefacts[MAP])
    write_bands(file_of(out, case, "occlusion.png"), (drawn.shape[0], drawn.shape[1]), iter([drawn]))
