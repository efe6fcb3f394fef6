"""What the training engine is told about ink: crops of flattened windows, a coarse answer for each, and F0.5."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink import data, score
from handlens.challenges.ink.dataset import Changes, Part, make_item, pixels, read_parts
from handlens.challenges.ink.maps import Decision as Cut
from handlens.challenges.ink.maps import enlarge, find_ink
from handlens.challenges.ink.predict import Effort, InMemory, Map, predict
from handlens.challenges.ink.window import Bytes, Window
from handlens.errors import HandlensError
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import Rle
from handlens.types import Case, Progress, Settings, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Decision, Graph, Task

Levels = npt.NDArray[np.uint16]

WINDOWS = "windows"
"""Folder of the run with what is read again and again; removed at the end."""

FULL = 65535
"""A probability of 1, as it is kept."""

LEVELS = 1024
"""Thresholds that are looked at."""

SMALLEST = (0, 100, 300, 1000, 3000, 10000)
"""Pixels of the smallest piece that is kept: what may be chosen."""

NEARLY = 0.015
"""How much of F0.5 is given for a lower threshold: in scans unlike those learned from, ink gets lower probabilities."""

LITTLE = 0.003
"""How much of it a larger smallest piece must be worth: a small fragment has small letters."""

LEAST_LAYERS = 11
"""Fewer are used up by the network's convolutions."""

CARD = (
    "Says for every square of 4x4 pixels of a flattened papyrus surface how likely it is covered by carbon ink. Input",
    "`window`: uint8 (N, layers, H, W), layers about the sheet's surface, a 24th of the stack thick each, from inside",
    "the sheet to the air; 0 where there is no data; height and width multiples of 32. Output `probability`: float32",
    "(N, H / 4, W / 4). Preparation is inside. Features of three layers at a time, pooled over depth by maximum and",
    "mean, and a small U-Net.",
    "",
    "It says where ink is likely, not what is written. Other scanners, energies and resolutions than those it learned",
    "from give other greys and textures: look at its map before you believe it.",
)


@dataclass(frozen=True, slots=True)
class Fields:
    """What `--set` can change about ink.

    below, above  layers that are looked at in the sheet and over it; a layer is a 24th of the stack
    side          the end of the stack where the air is: first or last
    width         channels of the network, as a share of the usual ones
    dice          how much the overlap counts, beside cross-entropy
    turns         quarter turns whose answers are averaged: 1 or 4
    crop, shift, zoom, mix, contrast, brightness  see handlens.challenges.ink.dataset
    """

    below: int = 11
    above: int = 8
    side: str = "last"
    width: float = 1.0
    dice: float = 1.0
    turns: int = 4
    crop: int = 256
    shift: int = 2
    zoom: float = 1.25
    mix: float = 0.3
    contrast: float = 0.15
    brightness: float = 8.0

    def __post_init__(self) -> None:
        from handlens.training.task import check_ranges

        if self.window.layers < LEAST_LAYERS:
            least = f"the network takes {LEAST_LAYERS} or more: raise below or above"
            raise HandlensError(f"{self.window.layers} layers; {least}")
        if self.crop < 64 or self.crop % 32:
            raise HandlensError(f"crop is {self.crop}; expected a multiple of 32 from 64 on")
        if self.turns not in (1, 4):
            raise HandlensError(f"turns is {self.turns}; expected 1 or 4")
        check_ranges(self, {"width": (0.1, 8), "shift": (0, 16), "zoom": (1, 4)})

    @property
    def window(self) -> Window:
        return Window(self.below, self.above, self.side)


def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
    """Train on the labelled fragments of a folder; the numbers are of fragments that were not learned from."""
    from handlens.training.engine import train as train_task
    from handlens.training.plan import Schedule, as_told

    fields, schedule, effort = as_told(Fields(), Schedule(batch=4, rate=0.003), settings)
    fragments = len(data.open_truth(folder, settings).cases)
    if 1 < fragments < effort.folds:
        effort = replace(effort, folds=fragments)
    make = partial(make_task, folder, fields, settings, run / WINDOWS, effort.folds)
    numbers = train_task(make, schedule, effort, run, progress)
    shutil.rmtree(run / WINDOWS, ignore_errors=True)
    return numbers


def make_task(
    folder: Path, fields: Fields, settings: Settings, cache: Path, folds: int, progress: Progress = no_progress
) -> Task:
    """Ink as the engine sees it; windows lie in files that are mapped into memory."""
    from handlens.training.task import Task

    truth = data.open_truth(folder, settings)
    window = replace(fields.window, spare=fields.shift)
    parts = tuple(read_parts(truth, window, cache, progress, folds=folds))
    fragments = Fragments(parts, fields)
    return Task(
        challenge="ink",
        metric="F0.5",
        ids=tuple(part.id for part in parts),
        groups=tuple(part.group for part in parts),
        fields=fields,
        make_network=fragments.make_network,
        make_item=fragments.make_item,
        inputs=("window",),
        loss=fragments.loss,
        measure=measure,
        predict=fragments.predict,
        decide=fragments.decide,
        answer=fragments.answer,
        score=lambda answers: score.score(answers, fragments.truth(), settings),
        graph=partial(graph, fields.window.layers),
        default={"threshold": 0.5, "smallest": 0, "turns": fields.turns},
        weights=pixels(parts),
        card=CARD,
    )


@dataclass(frozen=True, slots=True)
class Fragments:
    """Parts of labelled fragments, and everything that is done with them."""

    parts: tuple[Part, ...]
    fields: Fields

    def truth(self) -> Truth:
        """What is asked and what is true, part by part."""
        known = {part.id: part for part in self.parts}
        cases = (Case(part.id, Path(), (part.mask.shape[0], part.mask.shape[1])) for part in self.parts)
        return Truth(tuple(cases), lambda case: known[case.id].label)

    def make_network(self) -> nn.Module:
        from handlens.challenges.ink.network import DepthNet

        return DepthNet(self.fields.window.layers, self.fields.width)

    def make_item(self, rng: np.random.Generator, index: int) -> dict[str, npt.NDArray[Any]]:
        fields = self.fields
        how = Changes(fields.crop, fields.shift, fields.zoom, fields.mix, fields.contrast, fields.brightness)
        return make_item(rng, self.parts[index], replace(fields.window, spare=fields.shift), how)

    def loss(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        from handlens.training.losses import mask_loss

        return mask_loss(logits, batch["ink"], batch["weight"], dice=self.fields.dice)

    def predict(self, network: nn.Module, index: int) -> Levels:
        """Probabilities of the squares of a whole part, times FULL."""
        part, fields = self.parts[index], self.fields
        inner = part.window[fields.shift : fields.shift + fields.window.layers]
        effort = Effort(turns=fields.turns, threads=0)  # torch shares a tile among its own threads
        coarse = predict(InMemory(inner, part.mask), partial(_ask, network), effort)
        return np.asarray(np.rint(coarse * np.float32(FULL)), np.uint16)

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Levels]) -> Decision:
        """The lowest threshold whose mean F0.5 is nearly the best; then the smallest piece that is kept."""
        values = np.mean([f_half_at_levels(_unpack(predictions[i]), self.parts[i]) for i in indices], axis=0)
        level = 1 + int(np.argmax(values >= values.max() - NEARLY))
        decision = {"threshold": level / LEVELS, "smallest": 0, "turns": self.fields.turns}
        choices = [decision | {"smallest": size} for size in SMALLEST]
        worth = [np.mean([self._rate(index, predictions[index], each) for index in indices]) for each in choices]
        return choices[int(np.argmax(np.array(worth) >= max(worth) - LITTLE))]

    def _rate(self, index: int, prediction: Levels, decision: Decision) -> float:
        counts = compare(self.answer(index, prediction, decision), self.parts[index].label)
        return fbeta(counts, beta=score.BETA, empty=score.EMPTY_F)

    def answer(self, index: int, prediction: Levels, decision: Decision) -> Rle:
        """Rle of the ink, made as the solver makes them."""
        cut = Cut(decision["threshold"], decision["smallest"])
        return find_ink(_unpack(prediction), self.parts[index].mask, cut)


def f_half_at_levels(coarse: Map, part: Part) -> npt.NDArray[np.float64]:
    """F0.5 of a part where all pixels above 1 of LEVELS are ink, above 2, and so on: from two histograms."""
    counts = np.zeros((2, LEVELS), np.int64)
    for top, rows in enlarge(coarse, (part.mask.shape[0], part.mask.shape[1])):
        place = slice(top, top + len(rows))
        level = np.minimum((rows * np.float32(LEVELS)).astype(np.int64), LEVELS - 1)
        for kind in (0, 1):
            counts[kind] += np.bincount(level[part.mask[place] & (part.ink[place] == kind)], minlength=LEVELS)
    outside, inside = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    area = int(part.ink.sum())
    square = score.BETA**2
    worth: npt.NDArray[np.float64] = (1 + square) * inside / np.maximum(inside + outside + square * area, 1)
    return worth[1:]


def graph(layers: int, network: nn.Module) -> Graph:
    """`window` to `probability`, of any number and any size in steps of 32."""
    from handlens.training.networks import Probability, lay_out
    from handlens.training.task import Graph

    lay_out(network, channels_last=False)
    example = np.random.default_rng(0).integers(0, 256, (2, layers, 64, 96), dtype=np.uint8)
    sizes = {0: ("count", 1), 2: ("height", 32), 3: ("width", 32)}
    return Graph(Probability(network), {"window": example}, "probability", {"window": sizes})


def measure(logits: Tensor, batch: Mapping[str, Tensor]) -> float:
    """F0.5 of a batch's squares at probability one half, all together; 0 where there is nothing."""
    said, true = logits > 0, batch["ink"] > 0.5
    square = score.BETA**2
    whole = int(said.sum()) + square * int(true.sum())
    return (1 + square) * int((said & true).sum()) / whole if whole else 0.0


def _ask(network: nn.Module, window: Bytes) -> Map:
    """What a network in torch says about a window."""
    from handlens.training.whole import ask_window

    return ask_window(network, window)


def _unpack(levels: Levels) -> Map:
    return levels.astype(np.float32) / np.float32(FULL)
