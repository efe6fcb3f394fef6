"""The training of cells: crops of slides, a mask for each, and Dice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells import data, score
from handlens.challenges.cells.augment import cut, edge_weight
from handlens.challenges.cells.calibration import SlideCurve, dice_at_levels, fit_slide_threshold
from handlens.challenges.cells.data import is_contest
from handlens.challenges.cells.decision import CellsDecision
from handlens.challenges.cells.finishing import FAILURES, HeldOutSlide, card_lines, draw_failures
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
from handlens.training.sources import list_sources, pool
from handlens.types import Case, Progress, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Finished, Graph, Task

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


SAMPLES = 12
"""Parts of slides on which the smaller file must answer as the exact one."""

LEAST_ROUNDED = 2**14
"""Numbers of a tensor from which on it is stored in 16 bits: all but a twentieth of the network."""

FAILURES_SHOWN = (
    f"![The worst slides]({FAILURES}) Where most is wrong on the two worst slides of each source: red was missed, blue"
    " is false, green is the annotated outline."
)


def train(folder: Path, run: Path, settings: CellsSettings, progress: Progress) -> Mapping[str, float]:
    """Train on the labelled slides of a folder, and of those of `--more`; the numbers are out of fold."""
    engine = require_engine()
    fields, schedule = engine.split_fields(CellsTraining(), SCHEDULE, chosen_fields(settings, PRESETS))
    numbers: Mapping[str, float] = engine.train(
        partial(make_task, folder, fields, settings, licence=schedule.licence), schedule, settings, run, progress
    )
    return numbers


def make_task(
    folder: Path,
    fields: CellsTraining,
    settings: CellsSettings,
    progress: Progress = no_progress,
    *,
    licence: str = "",
) -> Task:
    """Cells as the engine sees it, all slides in memory."""
    from handlens.training.task import Task

    settings = settings.replace(order=score.ORDER)  # in memory only one of the two is needed
    sources = list_sources(folder, settings.more, licence=licence)
    pooled = pool(sources, lambda place: data.open_truth(place, settings))
    truth = pooled.truth
    labels = tuple(truth.read(case) for case in truth.cases)
    pairs, offsets = _read_slides(truth, labels, progress, aligned=fields.aligned)
    slides = Slides(truth.cases, pairs, labels, offsets, fields)
    other = settings.calibrate
    if other is not None:
        data.open_truth(other, settings)  # what is wrong with it is said before hours of training
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
        score=lambda answers: score.score(answers, truth.among(answers), settings),
        graph=graph,
        default=slides.default_decision(median_offset(offsets)),
        is_pretrained=lambda name: fields.weights != "scratch" and name.startswith("encoder."),
        card=CARD,
        cases=truth.cases,
        weights=pooled.draws() if settings.more else None,
        strata=tuple(sources[at].name for at in pooled.source_of) if settings.more else None,
        sources=pooled.described(),
        finish=partial(slides.finish, other, tuple(sources[at].name for at in pooled.source_of)),
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
        return lambda index: _infer_whole(predictor, self.cases[index])

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Probability]) -> CellsDecision:
        """Moved as labels usually are, margin and threshold with the best Dice; then holes and specks, also by that.

        Where some slides are of the contest's layout and some are not, these are decided for the former, and the
        latter say how other slides find their threshold. Thresholds are compared in 255 steps; the answers that are
        scored compare exact probabilities.
        """
        numbered = [index for index in indices if is_contest(self.cases[index].path)]
        named = [index for index in indices if index not in numbered]
        if not (numbered and named):
            return self._decide_alike(indices, predictions, contest=not named)
        decision = self._decide_alike(numbered, predictions, contest=True)
        curves = [
            [SlideCurve.of(predictions[index], self.pairs[index][1], decision.threshold) for index in group]
            for group in (numbered, named)
        ]
        return decision.replace(slide=fit_slide_threshold(*curves))

    def _decide_alike(
        self, indices: Sequence[int], predictions: Mapping[int, Probability], *, contest: bool
    ) -> CellsDecision:
        """For slides that are all of the contest's layout, or none; the latter are not imitated in their habits."""
        offset = median_offset(self.offsets[index] for index in indices) if contest else NO_OFFSET
        start = self.default_decision(offset)
        best = -1.0, 0, 0
        for margin in MARGINS if contest else (0,):
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
        mine = [pair for pair, case in zip(self.pairs, self.cases, strict=True) if is_contest(case.path)]
        sizes = tuple(sorted({mask.shape for _, mask in mine}))
        return CellsDecision(threshold=0.5, turns=self.fields.turns, down=down, right=right, sizes=sizes)

    def _mean_dice(
        self, indices: Sequence[int], predictions: Mapping[int, Probability], decision: CellsDecision
    ) -> float:
        answers = [(self.answer(index, predictions[index], decision), self.labels[index]) for index in indices]
        return float(np.mean([dice(compare(said, true), empty=score.EMPTY_DICE) for said, true in answers]))

    def answer(self, index: int, prediction: Probability, decision: CellsDecision) -> Rle:
        shape, contest = (prediction.shape[0], prediction.shape[1]), is_contest(self.cases[index].path)
        return decision.apply([(0, prediction.copy())], shape, contest=contest)

    def finish(self, other: Path | None, sources: Sequence[str], finished: Finished) -> dict[str, Any]:
        """A smaller file, tables and a picture for the card, and the threshold that `--calibrate` asks for."""
        from handlens.training.quantize import describe_stored, store_half

        stored = store_half(finished.model, self._samples(), least=LEAST_ROUNDED)
        values = {case.id: case.value for case in finished.score.cases}
        held_out = [
            HeldOutSlide(
                case.id,
                source,
                *self.pairs[index],
                self.labels[index],
                finished.answers[case.id],
                values[case.id],
                finished.predictions[index],
            )
            for index, (case, source) in enumerate(zip(self.cases, sources, strict=True))
            if case.id in finished.answers
        ]
        draw_failures(held_out, finished.model.with_name(FAILURES))
        lines = [*card_lines(held_out), "", FAILURES_SHOWN, "", describe_stored(stored)]
        return {**stored, "lines": lines, **(self.calibrate(other, finished) if other is not None else {})}

    def _samples(self) -> Iterator[dict[str, Bytes]]:
        """Parts of slides, as a file is asked to see whether it answers as before."""
        for index in np.random.default_rng(0).permutation(len(self.pairs))[:SAMPLES]:
            image = self.pairs[index][0]
            height, width = (min(side // 32 * 32, self.fields.crop) for side in image.shape[:2])
            yield {"image": np.ascontiguousarray(image[None, :height, :width])}

    def calibrate(self, folder: Path, finished: Finished) -> Mapping[str, Any]:
        """The decision with a threshold for slides of any laboratory, fitted on a folder that nothing was trained on.

        These are predicted by the network that ships, the training's own slides out of fold, both without what the
        contest's labels are like.
        """
        own = [
            SlideCurve.of(finished.predictions[index], self.pairs[index][1], finished.decision.threshold)
            for index in sorted(finished.predictions)
        ]
        predictor = CellsPredictor(open_segmenter(finished.model), finished.decision, self.fields.turns)
        truth = data.open_truth(folder, CellsSettings())
        others = []
        for case in truth.cases:
            found = _infer_whole(predictor, case)
            mask = decode(truth.read(case), found.shape, order=score.ORDER).view(np.uint8)
            others.append(SlideCurve.of(found, mask, finished.decision.threshold))
        decision = finished.decision.replace(slide=fit_slide_threshold(own, others))
        return {"decision": decision.plain(), "calibrated_on": len(others)}


def graph(network: nn.Module) -> Graph:
    """`image` to `probability`."""
    from handlens.training.networks import mask_graph

    return mask_graph(network, "image", (2, 64, 96, 3), axes=(1, 2))


def _infer_whole(predictor: CellsPredictor, case: Case) -> Probability:
    with predictor.decode(case) as image:
        return np.concatenate([rows for _, rows in predictor.infer(image)])


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
