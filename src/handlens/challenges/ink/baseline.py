"""The baseline for ink, without a network: grey and texture in layers that follow the sheet, pooled coarsely.

Ink is hardly denser than papyrus, but it lies on the surface, stands a little above it and is crackled: there the
texture has no direction, while fibres have one. The stack is streamed once and reduced to blocks of pixels; depth,
smoothing and the choice of a threshold happen on the blocks of the whole fragment, so the answer does not depend on
how the stack was cut into bands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.layout import find_files, open_fragment
from handlens.challenges.ink.score import BETA, ORDER
from handlens.io import volumes
from handlens.masks.metrics import Counts, fbeta
from handlens.masks.rle import Rle, decode, encode
from handlens.types import ALONE, Case, Prediction, Shape, Truth, Work

Map = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Side = Literal["first", "last"]
SIDES: tuple[Side, ...] = ("last", "first")

KINDS = 3  # what is kept of a block of every slice: grey, texture across, texture down


@dataclass(frozen=True, slots=True)
class Choice:
    """What is learned, or fixed where nothing can be: how features become ink.

    `weights` has one number for a kind and an offset, (KINDS, offsets). `side` is the end of the stack that the
    written surface looks to; `smooth` is in blocks; the `quantile` of the score, inside the mask, is where ink begins.
    """

    weights: npt.NDArray[np.float64]
    side: Side
    smooth: float
    quantile: float


@dataclass(frozen=True, slots=True)
class DepthStatistics:
    """Statistics pooled over depth, a linear combination, and a quantile."""

    offsets: tuple[float, ...] = (-4, -2, -1, 0, 1, 2, 3)
    """Heights above the surface at which features are taken, in slices of a stack of 24; negative is in the sheet."""
    default: tuple[tuple[float, ...], ...] = ((0, 0, 0, 0, 0.5, 0.5, 0.5), (0, 0, 0, 0, 1, 1, 1), (0, 0, 0, 0, 1, 1, 1))
    """Weights without training: ink is where something stands above the surface and has texture in both directions."""
    side: Side = "last"
    """Where the written surface looks to without training: in the published scans, to the end of the stack."""
    smooth: float = 3.0
    """Deviation of the smoothing in blocks without training: about half a pen stroke."""
    smoothings: tuple[float, ...] = (1.0, 2.0, 3.0, 4.5)
    """Smoothings to choose from in training."""
    quantile: float = 0.9
    """Share of the mask without ink where nothing is learned: labels cover 17 percent, but false ink costs more."""
    quantiles: tuple[float, ...] = (0.75, 0.8, 0.84, 0.87, 0.9, 0.92, 0.94, 0.96)
    """Shares to choose from in training."""
    ridge: float = 1e-2
    """Pull of the weights towards zero, as a share of the data's own strength: features are strongly alike."""
    smallest: int = 12
    """Blocks in the smallest spot of ink that is answered: less is noise, and false ink costs most in F0.5."""
    band: int = 512
    """Rows of a slice in memory at once: a few hundred megabytes for the widest real fragment."""

    def fit(self, train: Truth[Rle] | None) -> DepthStatisticsPredictor:
        """Learn from labelled fragments; a training fragment is answered with what the others taught."""
        fixed = Choice(np.array(self.default, np.float64), self.side, self.smooth, self.quantile)
        labelled = [self._study(case, train) for case in train.cases] if train else []
        groups = sorted({example.group for example in labelled})
        learned = self._learn(labelled, ["", *groups], fixed)
        return DepthStatisticsPredictor(self, learned[""], {group: learned[group] for group in groups})

    def _study(self, case: Case, train: Truth[Rle]) -> LabelledBlocks:
        reduced = reduce_fragment(case.path, band=self.band)
        label = decode(train.read(case), reduced.shape, order=ORDER)
        layers = {side: take_layers(reduced, side, self.offsets) for side in SIDES}
        return LabelledBlocks(_group(case), layers, reduced.inside, _to_blocks(label, reduced.block))

    def _learn(self, labelled: Sequence[LabelledBlocks], absent: Sequence[str], fixed: Choice) -> dict[str, Choice]:
        """For every group that is left out ("" for none), the side, smoothing, weights and quantile of the best F0.5.

        The fixed ones where no example with ink is left.
        """
        best = dict.fromkeys(absent, (-1.0, fixed))
        for side, smooth in product(SIDES, self.smoothings) if labelled else ():
            features = [pool(example.layers[side], example.inside, smooth) for example in labelled]
            for group in absent:
                kept = [pair for pair in zip(features, labelled, strict=True) if pair[1].group != group]
                if not any(example.ink.any() for _, example in kept):
                    continue
                weights = _fit(kept, self.ridge).reshape(KINDS, len(self.offsets))
                for quantile in self.quantiles:
                    choice = Choice(weights, side, smooth, quantile)
                    value = float(np.mean([_rate(feature, example, choice) for feature, example in kept]))
                    best[group] = max(best[group], (value, choice), key=lambda found: found[0])
        return {group: choice for group, (_, choice) in best.items()}


@dataclass(frozen=True, slots=True)
class DepthStatisticsPredictor:
    """Answers a fragment; `without` says what to use for a training fragment's group: nothing it taught itself."""

    statistics: DepthStatistics
    choice: Choice
    without: Mapping[str, Choice]

    model: None = None

    def decode(self, case: Case, /) -> AbstractContextManager[Case]:
        return nullcontext(case)

    def predict(self, case: Case, work: Work = ALONE, /) -> Prediction[Rle]:
        choice = self.without.get(_group(case), self.choice)
        reduced = reduce_fragment(case.path, band=self.statistics.band)
        features = pool(take_layers(reduced, choice.side, self.statistics.offsets), reduced.inside, choice.smooth)
        answer = _to_pixels(_combine(features, choice), reduced, choice.quantile, self.statistics.smallest)
        return Prediction(encode(answer, order=ORDER))

    def __call__(self, value: Any, /) -> npt.NDArray[np.bool_]:
        """The mask of a fragment's folder."""
        case = Case(Path(value).name, Path(value))
        rle = self.predict(case).answer
        return decode(rle, find_files(case.path).open_stack().shape, order=ORDER)


# --- from pixels to blocks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reduced:
    """A fragment in blocks: grey, texture across and down as (KINDS, slices, rows, columns), and the full-size mask.

    `inside` is True for blocks that lie wholly, and not at the edge, in the mask.
    """

    shape: Shape
    block: int
    planes: Map
    mask: Mask
    inside: Mask


@dataclass(frozen=True, slots=True)
class LabelledBlocks:
    """A labelled fragment: its features on either side, its blocks inside the mask, and the share of ink in each."""

    group: str
    layers: Mapping[Side, Map]
    inside: Mask
    ink: Map


def _group(case: Case) -> str:
    return case.group or case.id


def reduce_fragment(folder: Path, *, band: int) -> Reduced:
    """Stream a fragment's stack, slice by slice and band by band, into block means."""
    stack, mask = open_fragment(folder)
    block = int(np.clip(round(min(stack.shape) / 128), 1, 16))
    rows, columns = (-(-side // block) for side in stack.shape)
    planes = np.empty((KINDS, stack.depth, rows, columns), np.float32)
    step = max(1, band // block) * block
    for number in range(stack.depth):
        for top in range(0, stack.shape[0], step):
            bottom = min(top + step, stack.shape[0])
            part = slice(top // block, -(-bottom // block))
            for kind, values in enumerate(_measure(stack, number, top, bottom)):
                planes[kind, number, part] = _to_blocks(values, block)
    whole = (_to_blocks(mask, block) > 0.999).astype(np.uint8)
    inside = cv2.erode(whole, np.ones((3, 3), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=1).astype(bool)
    return Reduced(stack.shape, block, planes, mask, inside if inside.any() else np.ones_like(inside))


def _measure(stack: volumes.Stack, number: int, top: int, bottom: int) -> tuple[Map, Map, Map]:
    """Grey, and squared slopes across and down, of some rows of a slice. Three rows more are read on either side."""
    halo = 3  # rows: two for the blur, one for the slope
    above, below = max(0, top - halo), min(stack.shape[0], bottom + halo)
    rows = stack.read_band(above, below, number, number + 1)[0].astype(np.float32)
    rows /= np.iinfo(stack.dtype).max
    blurred = cv2.GaussianBlur(rows, (5, 5), 1, borderType=cv2.BORDER_REPLICATE)
    framed = cv2.copyMakeBorder(blurred, 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    across = (framed[1:-1, 2:] - framed[1:-1, :-2]) ** 2
    down = (framed[2:, 1:-1] - framed[:-2, 1:-1]) ** 2
    kept = slice(top - above, bottom - above)
    return rows[kept], across[kept], down[kept]


def _to_blocks(values: Any, block: int) -> Map:
    """Means over squares; the last ones are filled up with the edge's values."""
    height, width = values.shape
    down, right = -height % block, -width % block
    framed = cv2.copyMakeBorder(np.asarray(values, np.float32), 0, down, 0, right, cv2.BORDER_REPLICATE)
    size = (framed.shape[1] // block, framed.shape[0] // block)
    return np.asarray(cv2.resize(framed, size, interpolation=cv2.INTER_AREA), np.float32)


# --- from blocks to features -------------------------------------------------------------------------------------


def take_layers(reduced: Reduced, side: Side, offsets: Sequence[float]) -> Map:
    """Features at heights above the surface, (KINDS, offsets, rows, columns); textures as logarithms."""
    planes = reduced.planes if side == "last" else reduced.planes[:, ::-1]
    depth = planes.shape[1]
    surface = _find_surface(planes[0], reduced.inside)
    unit = max(1.0, depth / 24)  # thicker stacks are finer scans of the same sheet
    layers = np.empty((KINDS, len(offsets), *surface.shape), np.float32)
    for index, offset in enumerate(offsets):
        height = np.clip(surface + offset * unit, 0, depth - 1)
        lower = np.minimum(height.astype(np.intp), max(depth - 2, 0))
        upper = np.minimum(lower + 1, depth - 1)
        share = np.asarray(height - lower, np.float32)
        for kind in range(KINDS):
            below, above = (np.take_along_axis(planes[kind], at[None], axis=0)[0] for at in (lower, upper))
            layers[kind, index] = below + share * (above - below)
    for texture in layers[1:]:
        floor = max(float(np.quantile(texture[:, reduced.inside], 0.1)), 1e-12)
        np.log(texture + floor, out=texture)
    return layers


def _find_surface(grey: Map, inside: Mask) -> Map:
    """The slice, with fractions, where going up the sheet ends: grey falls below half way from air to papyrus."""
    smooth = np.stack([_smooth(plane, inside, 4.0) for plane in grey])
    air = float(np.quantile(smooth[:, inside], 0.02))
    densest = smooth.max(axis=0)
    papyrus = float(np.quantile(densest[inside], 0.9))
    middle = (np.maximum(densest, air + 0.6 * (papyrus - air)) + air) / 2  # in a hole nothing is dense
    solid = smooth >= middle
    last = np.where(solid.any(axis=0), len(grey) - 1 - np.argmax(solid[::-1], axis=0), 0)
    after = np.minimum(last + 1, len(grey) - 1)
    here, there = (np.take_along_axis(smooth, at[None], axis=0)[0] for at in (last, after))
    fraction = np.clip((here - middle) / np.maximum(here - there, 1e-6), 0, 1)
    return _smooth(np.asarray(last + fraction, np.float32), inside, 2.0)


def pool(layers: Map, inside: Mask, smooth: float) -> Map:
    """Smoothed features, each without its slow drift over the fragment and in units of its own deviation."""
    features = np.empty_like(layers)
    for target, layer in zip(features.reshape(-1, *inside.shape), layers.reshape(-1, *inside.shape), strict=True):
        target[:] = _smooth(layer, inside, smooth) - _smooth(layer, inside, 16.0)
        target /= max(float(target[inside].std()), 1e-6)
    return features


def _smooth(plane: Map, inside: Mask, deviation: float) -> Map:
    """A Gaussian mean of the blocks inside only; where none is near, the mean of all of them."""
    weight = inside.astype(np.float32)
    near = cv2.GaussianBlur(weight, (0, 0), deviation)
    mean = float(plane[inside].mean())
    total = cv2.GaussianBlur((plane - mean) * weight, (0, 0), deviation)
    return np.asarray(total / np.maximum(near, 1e-3) + mean, np.float32)


# --- from features to ink ----------------------------------------------------------------------------------------


def _combine(features: Map, choice: Choice) -> Map:
    return np.asarray(np.tensordot(choice.weights, features, axes=2), np.float32)


def _fit(pairs: Sequence[tuple[Map, LabelledBlocks]], ridge: float) -> npt.NDArray[np.float64]:
    """Least squares from features to the share of ink; every fragment counts the same, whatever its size."""
    count = pairs[0][0].shape[0] * pairs[0][0].shape[1]
    square, right = np.zeros((count, count)), np.zeros(count)
    for feature, example in pairs:
        inside = example.inside
        rows = feature.reshape(count, *inside.shape)[:, inside].astype(np.float64)
        ink = example.ink[inside].astype(np.float64)
        square += rows @ rows.T / len(ink)
        right += rows @ (ink - ink.mean()) / len(ink)
    return np.linalg.solve(square + ridge * (np.trace(square) / count + 1e-9) * np.eye(count), right)


def _rate(features: Map, example: LabelledBlocks, choice: Choice) -> float:
    """F0.5, counted in blocks."""
    inside = example.inside
    score, ink = _combine(features, choice)[inside], example.ink[inside]
    said = score > np.quantile(score, choice.quantile)
    tp, area = int(ink[said].sum()), int(ink.sum())
    return fbeta(Counts(tp, int(said.sum()) - tp, area - tp), beta=BETA, empty=0.0)


def _to_pixels(score: Map, reduced: Reduced, quantile: float, smallest: int) -> Mask:
    """Pixels of the mask above the quantile, small spots left out; the best pixel alone where nothing is left."""
    threshold = float(np.quantile(score[reduced.inside], quantile))
    said = score > threshold
    _, labels, stats, _ = cv2.connectedComponentsWithStats(said.astype(np.uint8))
    large = stats[:, cv2.CC_STAT_AREA] >= smallest
    score = np.where(said & ~large[labels], np.float32(threshold), score)
    block, (height, width) = reduced.block, reduced.shape
    size = (score.shape[1] * block, score.shape[0] * block)
    fine = np.asarray(cv2.resize(score, size, interpolation=cv2.INTER_LINEAR)[:height, :width])
    answer: Mask = (fine > threshold) & reduced.mask
    if not answer.any():
        answer.flat[int(np.argmax(np.where(reduced.mask, fine, -np.inf)))] = True
    return answer
