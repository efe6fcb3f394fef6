"""The training of cells: crops of slides, a mask for each, and Dice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells import data, score
from handlens.challenges.cells.augment import cut, edge_weight
from handlens.challenges.cells.decision import CellsDecision
from handlens.challenges.cells.offsets import NO_OFFSET, Offset, measure_offset, median_offset
from handlens.challenges.cells.options import PRESETS, SCHEDULE, CellsSettings, CellsTraining
from handlens.challenges.cells.predictor import CellsPredictor
from handlens.errors import DataError
from handlens.inference.session import open_segmenter
from handlens.io.images import read_rgb
from handlens.masks.metrics import compare, dice
from handlens.masks.rle import Rle, decode
from handlens.training import require_engine
from handlens.training.options import chosen_fields
from handlens.types import Case, Progress, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Graph, Task

Bytes = npt.NDArray[np.uint8]
Probability = npt.NDArray[np.float32]

SMALLEST = (0, 40, 80, 120)
"""Pixels of the smallest piece that is kept: what may be chosen."""

LARGEST_HOLES = (0, 30, 100)
"""Pixels of the largest hole that is filled: what may be chosen."""

MARGINS = (0, 2, 4, 6, 8, 12, 16)
"""Pixels along the border of a slide in which nuclei are outlined less often: what may be chosen."""

CARD = (
    "Predicts for every pixel of an H&E slide at 40x the probability that it belongs to a nucleus. Input `image`:",
    "uint8 (N, H, W, 3) RGB, height and width multiples of 32. Output `probability`: float32 (N, H, W). Preprocessing",
    "is part of the graph. Architecture: U-Net with an EfficientNet-Lite encoder and a light decoder.",
    "",
    "Not for diagnosis. Touching nuclei merge in its mask. Expect worse results with stains, magnifications and focus",
    "that are not in the training data.",
)


def train(folder: Path, run: Path, settings: CellsSettings, progress: Progress) -> Mapping[str, float]:
    """Train on the labelled slides of a folder; the numbers are out of fold."""
    engine = require_engine()
    fields, schedule = engine.split_fields(CellsTraining(), SCHEDULE, chosen_fields(settings, PRESETS))
    numbers: Mapping[str, float] = engine.train(
        partial(make_task, folder, fields, settings), schedule, settings, run, progress
    )
    return numbers


def make_task(folder: Path, fields: CellsTraining, settings: CellsSettings, progress: Progress = no_progress) -> Task:
    """Cells as the engine sees it, all slides in memory."""
    from handlens.training.task import Task

    settings = settings.replace(order=score.ORDER)  # in memory only one of the two is needed
    truth = data.open_truth(folder, settings)
    labels = tuple(truth.read(case) for case in truth.cases)
    pairs, offsets = _read_slides(truth, labels, progress, aligned=fields.aligned)
    slides = Slides(truth.cases, pairs, labels, offsets, fields)
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
        infer=slides.infer,
        decide=slides.decide,
        answer=slides.answer,
        score=lambda answers: score.score(answers, truth, settings),
        graph=graph,
        default=slides.default_decision(median_offset(offsets)),
        is_pretrained=lambda name: fields.weights != "scratch" and name.startswith("encoder."),
        card=CARD,
        cases=truth.cases,
    )


@dataclass(frozen=True, slots=True)
class Slides:
    """Slides with their masks (0 or 255), the same as runs, how far they lie beside what they show, and everything
    that is done with them."""

    cases: tuple[Case, ...]
    pairs: tuple[tuple[Bytes, Bytes], ...]
    labels: tuple[Rle, ...]
    offsets: tuple[Offset, ...]
    fields: CellsTraining

    def make_network(self) -> nn.Module:
        from handlens.challenges.cells.network import LightUNet
        from handlens.training.encoders import make_encoder

        return LightUNet(make_encoder(self.fields.encoder, self.fields.weights))

    def make_item(self, rng: np.random.Generator, index: int) -> dict[str, npt.NDArray[Any]]:
        """A changed crop, its mask, and how much each pixel counts."""
        offset = self.offsets[index]
        image, mask = cut(
            rng, *self.pairs[index], self.fields.crop, self.fields.augmentation, (offset.down, offset.right)
        )
        return {"image": image, "mask": mask, "weight": edge_weight(mask, extra=self.fields.edge_weight)}

    def loss(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        from handlens.training.losses import mask_loss

        return mask_loss(logits, batch["mask"], batch["weight"], dice=self.fields.dice_weight)

    def measure(self, logits: Tensor, batch: Mapping[str, Tensor]) -> float:
        from handlens.training.losses import hard_dice

        return hard_dice(logits, batch["mask"])

    def infer(self, model: Path) -> Callable[[int], Probability]:
        """Probabilities of a whole slide, by the predictor that ships, with this ONNX file."""
        decision = self.default_decision(NO_OFFSET)
        predictor = CellsPredictor(open_segmenter(model), decision, self.fields.turns)

        def infer(index: int) -> Probability:
            with predictor.decode(self.cases[index]) as image:
                return np.concatenate([rows for _, rows in predictor.infer(image)])

        return infer

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Probability]) -> CellsDecision:
        """Moved as labels usually are, margin and threshold with the best Dice; then holes and specks, also by that.

        Thresholds are compared in 255 steps; the answers that are scored compare exact probabilities.
        """
        offset = median_offset(self.offsets[index] for index in indices)
        start = self.default_decision(offset)
        best = -1.0, 0, 0
        for margin in MARGINS:
            levels = np.zeros((len(indices), 255))
            for row, index in enumerate(indices):
                levels[row] = dice_at_levels(_levels(predictions[index], start, margin), self.pairs[index][1])
            values = levels.mean(axis=0)
            best = max(best, (float(values.max()), -margin, 1 + int(values.argmax())))
        decision = start.replace(threshold=(best[2] - 0.5) / 255, margin=-best[1])
        for name, sizes in (("largest_hole", LARGEST_HOLES), ("smallest", SMALLEST)):
            values = [self._mean_dice(indices, predictions, decision.replace(**{name: size})) for size in sizes]
            decision = decision.replace(**{name: sizes[int(np.argmax(np.round(values, 6)))]})
        return decision

    def default_decision(self, offset: Offset) -> CellsDecision:
        """What is done with probabilities before anything was chosen."""
        down, right = round(offset.down, 3), round(offset.right, 3)
        return CellsDecision(threshold=0.5, turns=self.fields.turns, down=down, right=right)

    def _mean_dice(
        self, indices: Sequence[int], predictions: Mapping[int, Probability], decision: CellsDecision
    ) -> float:
        answers = [(self.answer(index, predictions[index], decision), self.labels[index]) for index in indices]
        return float(np.mean([dice(compare(said, true), empty=score.EMPTY_DICE) for said, true in answers]))

    def answer(self, _index: int, prediction: Probability, decision: CellsDecision) -> Rle:
        return decision.apply([(0, prediction.copy())], (prediction.shape[0], prediction.shape[1]))


def graph(network: nn.Module) -> Graph:
    """`image` to `probability`, of any number and any size in steps of 32."""
    from handlens.training.networks import Probability, set_memory_format
    from handlens.training.task import Graph

    set_memory_format(network, channels_last=False)
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


def _levels(prediction: Probability, decision: CellsDecision, margin: int) -> Bytes:
    """A prediction where labels lie, fading towards the border, in 255 steps."""
    shape = (prediction.shape[0], prediction.shape[1])
    placed = decision.replace(margin=margin).place([(0, prediction.copy())], shape)
    return np.concatenate([np.rint(rows * 255).astype(np.uint8) for _, rows in placed])


def _read_slides(
    truth: Truth[Rle], labels: Sequence[Rle], progress: Progress, *, aligned: bool
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
        offsets.append(measure_offset(*pairs[-1]) if aligned else NO_OFFSET)
    return tuple(pairs), tuple(offsets)
