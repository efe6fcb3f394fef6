"""A figure made ready for matching: grey, every panel stretched to its own range, and what must not be matched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas.drawn import find_drawn
from handlens.challenges.forgery.detect.canvas.marks import find_marks
from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter
from handlens.challenges.forgery.detect.canvas.scaling import Scaling
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Panel, Patch
from handlens.types import Shape

AnyArray = npt.NDArray[Any]
Derived = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]

GRAIN, RESIDUAL_NOISE = 1.5, 0.7
"""Gaussian blurs, in pixels, whose residuals are the fine grain and, finer still, the noise: no two objects share
either. By hand."""

DENOISED, BAND_PASS = 1.0, 3.0
"""Gaussian blurs, in pixels, between which the band-pass lies: what noise and JPEG leave of an object's own texture.
By hand."""

SOBEL = 1 / 8
"""Rule: Sobel's 3 x 3 kernel sums to 8 grey levels for a slope of one per pixel."""

WHITEST, PLATEAU, TOP, FAR = 252, 3, 99.5, 60
"""Grey level, of 255, from which a camera has seen as much as it can. Where contrast was lowered later, that is a
plateau: so many levels below what nearly all of a panel, in percent, stays under, far above its usual level. By
hand."""

RANGE = (0.5, 99.8)
"""Percentiles of a panel that become 0 and 255. By hand."""

FEWEST_SEEN = 100
"""Pixels beside its marks that a panel must have to be stretched. By hand."""

DARKEST, BRIGHTEST = -64, 320
"""Levels between which everything on the canvas lies. By hand: a quarter of the range beyond either end."""

MARKED = 0.3
"""Share of a pixel of a canvas made smaller from which a mark in it spoils it. By hand."""

ONE_COLOUR = 2.0
"""How much more than its grey a channel spreads that shows a picture alone. Rule: grey is three tenths red, a tenth
blue."""

FLATTEST = 2.0
"""Fewest grey levels between dark and bright of a panel in which anything can be seen. Rule: quantisation."""

HARDLY_SMALLER = 0.8
"""Factor from which a figure is not made smaller: resampling would cost more grain than it saves time. By hand."""

HARDLY_BLOCKED = 0.1
"""Share of a region that may be blocked while it counts as free. By hand."""

LUMA = (0.299, 0.587, 0.114)
"""Rule: ITU-R BT.601."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """`grey` from 0 to 255; its `grain` and `residual_noise` (what two blurs take away); its gradients; `denoised`
    (blurred); `band_pass` (coarser than grain, finer than shape).

    `stored` is the grey of each panel, or its one colour, in the levels of its file: stretching shows noise, but adds
    nothing to it. `chroma` (H, W, 2) is red and blue less green, of 255; 0 where a picture is grey.
    `blocked` pixels are gutters, plots, letters, drawn areas and flat panels; `saturated` ones are as bright as can be,
    and so are all their neighbours. `scaling` brings what is found here to the figure.
    """

    grey: FloatArray
    grain: FloatArray
    residual_noise: FloatArray
    gradient_x: FloatArray
    gradient_y: FloatArray
    denoised: FloatArray
    band_pass: FloatArray
    stored: FloatArray
    chroma: FloatArray
    blocked: BoolArray
    saturated: BoolArray
    panels: tuple[Panel, ...]
    scaling: Scaling

    @property
    def shape(self) -> Shape:
        return self.grey.shape[0], self.grey.shape[1]

    @property
    def gradients(self) -> tuple[FloatArray, FloatArray]:
        """Grey levels for a pixel, to the right and down."""
        return self.gradient_x, self.gradient_y

    @property
    def uninformative(self) -> BoolArray:
        """Pixels that prove nothing, whatever they are like: blocked or saturated."""
        return self.blocked | self.saturated

    @property
    def pictures(self) -> list[tuple[int, Panel]]:
        """Panels that are matched, with their numbers."""
        return [(number, panel) for number, panel in enumerate(self.panels, 1) if panel.kind == "picture"]

    def panel_at(self, x: float, y: float) -> Panel | None:
        """The panel that is matched and holds a place."""
        holding = (each for _, each in self.pictures if each.top <= y < each.bottom and each.left <= x < each.right)
        return next(holding, None)

    def is_free(self, patch: Patch) -> bool:
        """Whether hardly any of a region is blocked."""
        return int((self.blocked[patch.window] & patch.mask).sum()) < HARDLY_BLOCKED * patch.area

    def shrunk(self, factor: float) -> Canvas:
        """The same made smaller; its figure is this canvas."""
        factor = max(factor, 1 / min(self.shape))
        grey, stored, chroma, blocked, saturated = (
            np.asarray(
                cv2.resize(each.astype(np.float32), None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA),
                np.float32,
            )
            for each in (self.grey, self.stored, self.chroma, self.blocked, self.saturated)
        )
        panels = tuple(
            Panel(
                int(np.ceil(panel.top * factor)),
                int(np.ceil(panel.left * factor)),
                int(panel.bottom * factor),
                int(panel.right * factor),
                panel.kind,
            )
            for panel in self.panels
        )
        scaling = Scaling(self.shape, factor)
        return Canvas(grey, *_derived(grey), stored, chroma, blocked > MARKED, saturated > MARKED, panels, scaling)


def prepare(picture: AnyArray, *, side: int, enlargement: float, splitter: PanelSplitter) -> Canvas:
    """The canvas of a stored picture, brought to at most `side` pixels; small ones are enlarged at most so much."""
    shape = (picture.shape[0], picture.shape[1])
    factor = min(side / max(shape), enlargement)
    factor = 1.0 if HARDLY_SMALLER < factor < 1 else factor
    colour = _resized(picture, factor)
    white = 255.0 if picture.dtype == np.uint8 else 65535.0
    grey = _to_grey(colour) * np.float32(255 / white)
    panels = splitter.split(np.clip(np.rint(grey), 0, 255).astype(np.uint8))
    marks = find_marks(grey, colour, panels) | find_drawn(grey, colour, panels)
    levelled, blocked = _levelled(grey, marks, panels)
    saturated = _saturated(grey, blocked, panels) | _all_above(levelled, BRIGHTEST - 1)
    scaling = Scaling(shape, factor)
    stored, chroma = _stored(colour, panels), _chroma(colour) * np.float32(255 / white)
    return Canvas(levelled, *_derived(levelled), stored, chroma, blocked, saturated, panels, scaling)


def _levelled(grey: FloatArray, marks: BoolArray, panels: tuple[Panel, ...]) -> tuple[FloatArray, BoolArray]:
    """Stretch each picture to its own range; everything outside the pictures is blocked."""
    blocked = np.ones(grey.shape, np.bool_)
    levelled = np.zeros_like(grey)
    for panel in panels:
        part, mark = grey[panel.window], marks[panel.window]
        seen = part[~mark]
        low, high = np.percentile(seen, RANGE) if seen.size > FEWEST_SEEN else (0, 0)
        if panel.kind != "picture" or high - low < FLATTEST:
            continue
        blocked[panel.window] = mark
        levelled[panel.window] = np.clip((part - low) * (255 / (high - low)), DARKEST, BRIGHTEST)
    return levelled, blocked


def _stored(colour: AnyArray, panels: tuple[Panel, ...]) -> FloatArray:
    """The grey of each panel, or the one channel that shows it, as blue does under DAPI, in steps that occur."""
    levels = np.flatnonzero(np.bincount(colour.ravel(), minlength=256))
    step = np.float32(max(1, np.gcd.reduce(levels)))  # 8 bits that were put into 16 have steps of 257
    found = np.zeros(colour.shape[:2], np.float32)
    for panel in panels:
        part = colour[panel.window].astype(np.float32) / step
        grey = _to_grey(part)
        if part.ndim == 3:
            spreads = part[:, :, :3].std(axis=(0, 1))
            grey = part[:, :, int(spreads.argmax())] if spreads.max() > ONE_COLOUR * grey.std() else grey
        found[panel.window] = grey
    return found


def _chroma(colour: AnyArray) -> FloatArray:
    """Red and blue less green."""
    if colour.ndim == 2:
        return np.zeros((*colour.shape, 2), np.float32)
    values = colour.astype(np.float32)
    return np.ascontiguousarray(values[:, :, [0, 2]] - values[:, :, 1:2])


def _derived(grey: FloatArray) -> Derived:
    """Grain, residual noise, gradients, denoised and band-pass."""

    def blurred(deviation: float) -> FloatArray:
        return np.asarray(cv2.GaussianBlur(grey, (0, 0), deviation), np.float32)

    soft = blurred(RESIDUAL_NOISE)
    gradients = [np.asarray(cv2.Sobel(soft, cv2.CV_32F, x, 1 - x, ksize=3, scale=SOBEL), np.float32) for x in (1, 0)]
    denoised = blurred(DENOISED)
    return grey - blurred(GRAIN), grey - soft, gradients[0], gradients[1], denoised, denoised - blurred(BAND_PASS)


def _saturated(grey: FloatArray, blocked: BoolArray, panels: tuple[Panel, ...]) -> BoolArray:
    """Pixels that are as bright as their panel can be, as are all their neighbours."""
    found = _all_above(grey, WHITEST)
    for panel in panels:
        seen = grey[panel.window][~blocked[panel.window]]
        usual, top = np.percentile(seen, [50, TOP]) if seen.size else (0, 0)
        if panel.kind == "picture" and top - usual > FAR:
            found[panel.window] |= _all_above(grey[panel.window], float(top) - PLATEAU)
    return found


def _all_above(grey: FloatArray, level: float) -> BoolArray:
    """Pixels that are brighter than a level, as are all their neighbours."""
    return np.asarray(cv2.erode(grey, np.ones((3, 3))) > level)


def _resized(picture: AnyArray, factor: float) -> AnyArray:
    if factor == 1:
        return picture
    size = (max(1, round(picture.shape[1] * factor)), max(1, round(picture.shape[0] * factor)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC))


def _to_grey(picture: AnyArray) -> FloatArray:
    grey = picture.astype(np.float32)
    if grey.ndim == 3:
        grey = grey[:, :, :3] @ np.array(LUMA, np.float32)
    return np.asarray(grey, np.float32)
