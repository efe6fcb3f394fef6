"""What the training engine is told about cells: crops of slides, a mask for each, and Dice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells import data, score
from handlens.challenges.cells.offsets import NOWHERE_ELSE, Offset, fade_margin, measure_offset, move, usual_offset
from handlens.errors import DataError, HandlensError
from handlens.io.images import read_rgb
from handlens.masks.components import drop_specks, fill_holes
from handlens.masks.metrics import compare, dice
from handlens.masks.rle import Rle, decode, encode
from handlens.types import Progress, Settings, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Decision, Graph, Task

Bytes = npt.NDArray[np.uint8]

SPECKS = (0, 40, 80, 120)
"""Pixels of the smallest piece that is kept: what may be chosen."""

HOLES = (0, 30, 100)
"""Pixels of the largest hole that is filled: what may be chosen."""

MARGINS = (0, 2, 4, 6, 8, 12, 16)
"""Pixels along the border of a slide in which nuclei are outlined less often: what may be chosen."""

CARD = (
    "Says for every pixel of an H&E slide at 40x how likely it belongs to a nucleus. Input `image`: uint8",
    "(N, H, W, 3) RGB, height and width multiples of 32; output `probability`: float32 (N, H, W). Preparation is",
    "inside. A U-Net with an EfficientNet-Lite encoder and a light decoder.",
    "",
    "Not for diagnosis. Touching nuclei merge in its mask. Other stains, other magnifications and out-of-focus slides",
    "were not learned from.",
)


@dataclass(frozen=True, slots=True)
class Fields:
    """What `--set` can change about cells.

    encoder    lite0, lite1, lite2 or timm:NAME
    weights    imagenet, scratch, or a file
    crop       side of a training crop in pixels, a multiple of 32
    outline    how much more a pixel at an outline counts
    dice       how much the overlap counts, beside cross-entropy
    turns      turned and mirrored copies whose answers are averaged: 1 or 8
    aligned    whether labels that lie beside what they show are learned in their places; answers are moved back
    stain, gamma, bends, blurs, grains, smallest, largest  see handlens.challenges.cells.augment
    """

    encoder: str = "lite0"
    weights: str = "imagenet"
    crop: int = 256
    outline: float = 1.0
    dice: float = 1.0
    turns: int = 8
    aligned: bool = True
    stain: float = 0.4
    gamma: float = 0.25
    bends: float = 0.15
    blurs: float = 0.1
    grains: float = 0.1
    smallest: float = 0.8
    largest: float = 1.25

    def __post_init__(self) -> None:
        if self.crop < 32 or self.crop % 32:
            raise HandlensError(f"crop is {self.crop}; expected a multiple of 32")
        if self.turns not in (1, 8):
            raise HandlensError(f"turns is {self.turns}; expected 1 or 8")
        if not 0.1 <= self.smallest <= self.largest <= 10:
            raise HandlensError(f"scale from {self.smallest} to {self.largest}; expected 0.1 to 10, smallest first")


def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
    """Train on the labelled slides of a folder; the numbers are of slides that were not learned from."""
    from handlens.training.engine import train as train_task
    from handlens.training.plan import Schedule, as_told

    usual = Schedule(batch=4, pretrained_rate=1.0)  # in an hour on a CPU a slower encoder does not get far enough
    fields, schedule, effort = as_told(Fields(), usual, settings)
    return train_task(partial(make_task, folder, fields, settings), schedule, effort, run, progress)


def make_task(folder: Path, fields: Fields, settings: Settings, progress: Progress = no_progress) -> Task:
    """Cells as the engine sees it, all slides in memory."""
    from handlens.training.task import Task

    settings = {**settings, "order": score.ORDER}  # in memory only one of the two is needed
    truth = data.open_truth(folder, settings)
    labels = tuple(truth.read(case) for case in truth.cases)
    pairs, offsets = _read_slides(truth, labels, progress, aligned=fields.aligned)
    slides = Slides(pairs, labels, offsets, fields)
    return Task(
        challenge="cells",
        metric="Dice",
        ids=tuple(case.id for case in truth.cases),
        groups=tuple(case.group or case.id for case in truth.cases),
        fields=fields,
        make_network=slides.make_network,
        make_item=slides.make_item,
        loss=slides.loss,
        measure=slides.measure,
        predict=slides.predict,
        decide=slides.decide,
        answer=slides.answer,
        score=lambda answers: score.score(answers, truth, settings),
        graph=graph,
        default=slides.plain_decision(usual_offset(offsets)),
        is_pretrained=lambda name: fields.weights != "scratch" and name.startswith("encoder."),
        card=CARD,
    )


@dataclass(frozen=True, slots=True)
class Slides:
    """Slides with their masks (0 or 255), the same as runs, how far they lie beside what they show, and everything
    that is done with them."""

    pairs: tuple[tuple[Bytes, Bytes], ...]
    labels: tuple[Rle, ...]
    offsets: tuple[Offset, ...]
    fields: Fields

    def make_network(self) -> nn.Module:
        from handlens.training.encoders import make_encoder
        from handlens.training.networks import LightUNet

        return LightUNet(make_encoder(self.fields.encoder, self.fields.weights))

    def make_item(self, rng: np.random.Generator, index: int) -> dict[str, npt.NDArray[Any]]:
        """A changed crop, its mask, and how much each pixel counts."""
        from handlens.challenges.cells.augment import Augmentation, cut, edge_weight

        own = ("stain", "gamma", "bends", "blurs", "grains", "smallest", "largest")
        how = Augmentation(**{name: getattr(self.fields, name) for name in own})
        offset = self.offsets[index]
        image, mask = cut(rng, *self.pairs[index], self.fields.crop, how, (offset.down, offset.right))
        return {"image": image, "mask": mask, "weight": edge_weight(mask, extra=self.fields.outline)}

    def loss(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        from handlens.training.losses import mask_loss

        return mask_loss(logits, batch["mask"], batch["weight"], dice=self.fields.dice)

    def measure(self, logits: Tensor, batch: Mapping[str, Tensor]) -> float:
        from handlens.training.losses import hard_dice

        return hard_dice(logits, batch["mask"])

    def predict(self, network: nn.Module, index: int) -> Bytes:
        """Probabilities of a whole slide, times 255."""
        from handlens.training.whole import predict_whole

        return predict_whole(network, self.pairs[index][0], turns=self.fields.turns)

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Bytes]) -> Decision:
        """Moved as labels usually are, margin and threshold with the best Dice; then holes and specks, also by that."""
        offset = usual_offset(self.offsets[index] for index in indices)
        best = -1.0, 0, 0
        for margin in MARGINS:
            shown = [(_as_labelled(predictions[index], offset, margin), self.pairs[index][1]) for index in indices]
            levels = np.mean([dice_at_levels(*each) for each in shown], axis=0)
            best = max(best, (float(levels.max()), -margin, 1 + int(levels.argmax())))
        decision = self.plain_decision(offset) | {"threshold": (best[2] - 0.5) / 255, "margin": -best[1]}
        for name, sizes in (("largest_hole", HOLES), ("smallest", SPECKS)):
            values = [self._mean_dice(indices, predictions, decision | {name: size}) for size in sizes]
            decision[name] = sizes[int(np.argmax(np.round(values, 6)))]
        return decision

    def plain_decision(self, offset: Offset) -> dict[str, Any]:
        """What is done with probabilities before anything was chosen."""
        where = {"down": round(offset.down, 3), "right": round(offset.right, 3), "margin": 0}
        return {"threshold": 0.5, "smallest": 0, "largest_hole": 0, "turns": self.fields.turns, **where}

    def _mean_dice(self, indices: Sequence[int], predictions: Mapping[int, Bytes], decision: Decision) -> float:
        answers = [(self.answer(index, predictions[index], decision), self.labels[index]) for index in indices]
        return float(np.mean([dice(compare(said, true), empty=score.EMPTY_DICE) for said, true in answers]))

    def answer(self, _index: int, prediction: Bytes, decision: Decision) -> Rle:
        """Rle of the mask, made as the solver makes them."""
        shape = (prediction.shape[0], prediction.shape[1])
        shown = _as_labelled(prediction, Offset(decision["down"], decision["right"]), decision["margin"])
        said = encode(shown > decision["threshold"] * 255, order=score.ORDER)
        said = fill_holes(said, shape, largest=decision["largest_hole"])
        return drop_specks(said, shape, smallest=decision["smallest"])


def graph(network: nn.Module) -> Graph:
    """`image` to `probability`, of any number and any size in steps of 32."""
    from handlens.training.networks import Probability, lay_out
    from handlens.training.task import Graph

    lay_out(network, channels_last=False)
    example = np.random.default_rng(0).integers(0, 256, (2, 64, 96, 3), dtype=np.uint8)
    sizes = {0: ("count", 1), 1: ("height", 32), 2: ("width", 32)}
    return Graph(Probability(network), {"image": example}, "probability", {"image": sizes})


def dice_at_levels(prediction: Bytes, mask: Bytes) -> npt.NDArray[np.float64]:
    """Dice of a slide where all pixels of level 1 or more are cells, 2 or more, up to 255: from two histograms.

    >>> dice_at_levels(np.array([[0, 9, 200]], np.uint8), np.array([[0, 0, 255]], np.uint8))[[0, 8, 9, 254]]
    array([0.66666667, 0.66666667, 1.        , 0.        ])
    """
    inside, outside = (
        np.bincount(prediction[where], minlength=256)[::-1].cumsum()[::-1] for where in (mask > 0, mask == 0)
    )
    sizes = (inside + outside + inside[0])[1:]
    return np.where(sizes > 0, 2 * inside[1:] / np.maximum(sizes, 1), score.EMPTY_DICE)


def _as_labelled(prediction: Bytes, offset: Offset, margin: int) -> Bytes:
    """A prediction where labels lie, and as faint at the border as they are rare there."""
    shown = move(prediction, offset)
    fade_margin(shown, (shown.shape[0], shown.shape[1]), top=0, margin=margin)
    return np.rint(shown).astype(np.uint8)


def _read_slides(
    truth: Truth, labels: Sequence[Rle], progress: Progress, *, aligned: bool
) -> tuple[tuple[tuple[Bytes, Bytes], ...], tuple[Offset, ...]]:
    """Slides with their masks, and how far these lie beside what they show, where that is asked for."""
    pairs: list[tuple[Bytes, Bytes]] = []
    offsets: list[Offset] = []
    for case, label in zip(truth.cases, labels, strict=True):
        progress(len(pairs), len(labels), "reading slides")
        if case.shape is None:
            raise DataError("its size is unknown", file=case.path)
        mask = decode(label, case.shape, order=score.ORDER).astype(np.uint8) * np.uint8(255)
        pairs.append((read_rgb(case.path), mask))
        offsets.append(measure_offset(*pairs[-1]) if aligned else NOWHERE_ELSE)
    return tuple(pairs), tuple(offsets)
