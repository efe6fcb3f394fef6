"""What is printed over the panels of a figure: letters, scale bars, words, arrows."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray
from handlens.types import Shape

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Overlay:
    """Print on a figure: how strongly it covers each pixel (H, W), and in which colour (H, W, 3)."""

    cover: ByteArray
    ink: ByteArray

    @property
    def marks(self) -> BoolArray:
        return np.asarray(self.cover > 0)


def blank(shape: Shape) -> Overlay:
    """Nothing printed yet."""
    return Overlay(np.zeros(shape, np.uint8), np.zeros((*shape, 3), np.uint8))


def printed(picture: ByteArray, overlay: Overlay) -> ByteArray:
    """The picture with its print."""
    result = picture.copy()
    share = overlay.cover[overlay.marks][:, None].astype(np.float32) / 255
    mixed = picture[overlay.marks] * (1 - share) + overlay.ink[overlay.marks] * share
    result[overlay.marks] = np.rint(mixed).astype(np.uint8)
    return result


def words(text: str, *, height: int) -> npt.NDArray[np.uint8]:
    """A line of type as a coverage map; `height` is the size of the type in pixels."""
    font = ImageFont.load_default(max(7, height))
    left, _top, right, _bottom = (round(each) for each in font.getbbox(text))
    _left, top, _right, bottom = (round(each) for each in font.getbbox("Ag"))  # words of one line stand on one line
    canvas = Image.new("L", (max(1, right - left + 2), max(1, bottom - top + 2)))
    ImageDraw.Draw(canvas).text((1 - left, 1 - top), text, fill=255, font=font)
    return np.asarray(canvas)


def stamp(overlay: Overlay, layer: ByteArray, spot: tuple[int, int], colour: Colour) -> None:
    """Print a coverage map with its upper left corner at `spot` (row, column); what lies outside is cut off."""
    top, left = max(0, spot[0]), max(0, spot[1])
    height, width = overlay.cover.shape
    layer = layer[top - spot[0] : height - spot[0], left - spot[1] : width - spot[1]]
    window = (slice(top, top + layer.shape[0]), slice(left, left + layer.shape[1]))
    overlay.ink[window][layer > overlay.cover[window]] = colour
    overlay.cover[window] = np.maximum(overlay.cover[window], layer)


def draw_letter(overlay: Overlay, window: tuple[slice, slice], text: str, colour: Colour) -> None:
    """A panel's letter, in its upper left corner."""
    height, width = window[0].stop - window[0].start, window[1].stop - window[1].start
    size = int(np.clip(min(height, width) * 0.11, 9, 40))
    margin = max(2, size // 4)
    stamp(overlay, words(text, height=size), (window[0].start + margin, window[1].start + margin), colour)


def draw_bar(
    overlay: Overlay, window: tuple[slice, slice], rng: np.random.Generator, text: str, colour: Colour
) -> None:
    """A scale bar in the lower right corner, with its length in words where `text` gives it."""
    height, width = window[0].stop - window[0].start, window[1].stop - window[1].start
    length, thick = round(width * float(rng.uniform(0.12, 0.25))), max(2, height // 90)
    margin = max(3, min(height, width) // 30)
    top, left = window[0].stop - margin - thick, window[1].stop - margin - length
    stamp(overlay, np.full((thick, length), 255, np.uint8), (top, left), colour)
    if text and height > 100:
        layer = words(text, height=max(8, height // 22))
        start = min(left + (length - layer.shape[1]) // 2, window[1].stop - layer.shape[1] - 2)
        stamp(overlay, layer, (top - layer.shape[0] - 2, start), colour)


def draw_arrow(overlay: Overlay, window: tuple[slice, slice], rng: np.random.Generator, colour: Colour) -> None:
    """A short arrow that points at something in the panel."""
    height, width = window[0].stop - window[0].start, window[1].stop - window[1].start
    length = max(12.0, min(height, width) * float(rng.uniform(0.06, 0.12)))
    turn = float(rng.uniform(0, 2 * np.pi))
    side = int(2 * length) + 4
    layer = np.zeros((side, side), np.uint8)
    step = np.array([np.cos(turn), np.sin(turn)]) * length / 2
    start, stop = np.rint(side / 2 - step).astype(int), np.rint(side / 2 + step).astype(int)
    thick = max(1, round(length / 10))
    cv2.arrowedLine(layer, start.tolist(), stop.tolist(), 255, thick, cv2.LINE_AA, tipLength=0.4)
    room = max(1, height - side), max(1, width - side)
    spot = window[0].start + int(rng.integers(room[0])), window[1].start + int(rng.integers(room[1]))
    stamp(overlay, layer[: height - 1, : width - 1], spot, colour)
