"""What the training engine is told about ink: crops of flattened windows, a coarse answer for each, and F0.5."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink import data, score
from handlens.challenges.ink.dataset import FragmentPart, few_layers, make_item, pixels, read_parts
from handlens.challenges.ink.decision import LEVELS, FewSlices, InkDecision
from handlens.challenges.ink.finishing import HeldOutScan, card_lines
from handlens.challenges.ink.maps import enlarge
from handlens.challenges.ink.options import FEW_SLICES, PRESETS, SCHEDULE, InkSettings, InkTraining
from handlens.challenges.ink.predictor import InkPredictor, join, load, open_network
from handlens.challenges.ink.tiles import InMemory, Map, Resources
from handlens.challenges.ink.window import FEW, Window
from handlens.inference.executors import usable_cores
from handlens.inference.model import Model, digest, is_model, open_model
from handlens.io.files import new_folder
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import Rle
from handlens.training import require_engine
from handlens.training.options import chosen_fields
from handlens.training.sources import Source, list_sources, pool
from handlens.types import Case, Context, Progress, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Finished, Graph, Task

WINDOWS = "windows"
"""Folder of the run with what is read again and again; removed at the end."""

SMALLEST = (0, 100, 300, 1000, 3000, 10000)
"""Pixels of the smallest piece that is kept: what may be chosen."""

NEARLY = 0.005
"""How much of F0.5 is given for a lower threshold: in scans unlike those trained on, ink gets lower probabilities."""

FEW_SHOWN = 3
"""Slices that a stack is also predicted with out of fold, to choose the decision for few."""

START_CROPS = 16
"""Crops whose statistics the norms of a network begin with that starts from another."""

LITTLE = 0.003
"""How much of it a larger smallest piece must be worth: a small fragment has small letters."""

ARCHITECTURE = {
    "all": "3-D features over three layers at a time, maximum and mean pooling over depth",
    "few": "features of the surface and the layers beside it as one picture",
}
"""What is before the U-Net, by the field `slices`."""

CARD = (
    "Predicts for every block of 4x4 pixels of a flattened papyrus surface the probability of carbon ink. Input",
    "`window`: uint8 (N, layers, H, W): layers around the surface of the sheet, each 1/24 of the stack thick, from",
    "inside the sheet to the air; 0 where there is no data; height and width multiples of 32. Output `probability`:",
    "float32 (N, H / 4, W / 4). Preprocessing is part of the graph. Architecture: {architecture}, and a small U-Net.",
    "",
    "It predicts where ink is likely, not what is written. Scanners, energies and resolutions other than those of the",
    "training data give other grey levels and textures: look at the probability map before you trust it.",
)


def train(folder: Path, run: Path, settings: InkSettings, progress: Progress) -> Mapping[str, float]:
    """Train on the labelled fragments of a folder, and of those of `--more`; the numbers are out of fold."""
    engine = require_engine()
    fields, schedule = engine.split_fields(InkTraining(), SCHEDULE, chosen_fields(settings, PRESETS))
    sources = list_sources(folder, settings.more, licence=schedule.licence)
    fragments = min(len(data.open_truth(source.folder, settings).cases) for source in sources)
    if 1 < fragments < settings.folds:
        settings = settings.replace(folds=fragments)
    make = partial(make_task, sources, fields, settings, run / WINDOWS, settings.folds)
    if fields.few:
        _copy_model(open_model(Path(fields.few), challenge="ink"), run / FEW_SLICES)
    numbers: Mapping[str, float] = engine.train(make, schedule, settings, run, progress)
    shutil.rmtree(run / WINDOWS, ignore_errors=True)
    return numbers


def _copy_model(model: Model, place: Path) -> None:
    """Another model's files, into the run: its decision is about both. A resumed run has them."""
    if not is_model(place):
        with new_folder(place) as copied:
            shutil.copytree(model.folder, copied, dirs_exist_ok=True)


def make_task(
    sources: Sequence[Source],
    fields: InkTraining,
    settings: InkSettings,
    cache: Path,
    folds: int,
    progress: Progress = no_progress,
) -> Task:
    """Ink as the engine sees it; windows lie in files that are mapped into memory."""
    from handlens.training.task import Task

    pooled = pool(sources, lambda folder: data.open_truth(folder, settings))
    window = replace(window_of(fields), spare=fields.augmentation.shift)
    parts = tuple(read_parts(pooled, window, cache, progress, folds=folds))
    fragments = Fragments(parts, fields, pooled.sources)
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
        infer=fragments.infer,
        decide=fragments.decide,
        answer=fragments.answer,
        score=lambda answers: score.score(answers, fragments.truth().among(answers), settings),
        graph=partial(graph, window_of(fields).layers),
        default=InkDecision(threshold=0.5, turns=fields.turns),
        strata=tuple(f"{part.source}, {part.slices} slices" for part in parts),
        weights=pooled.draws(pixels(parts), [part.source for part in parts]),
        warm_start=fragments.warm_start if fields.start else None,
        card=tuple(line.format(architecture=ARCHITECTURE[fields.slices]) for line in CARD),
        cases=pooled.truth.cases,
        sources=pooled.described(),
        seen=fragments.seen(),
        finish=fragments.describe,
    )


def window_of(fields: InkTraining) -> Window:
    return Window(fields.below, fields.above, fields.side)


@dataclass(frozen=True, slots=True)
class Fragments:
    """Parts of labelled fragments, and everything that is done with them."""

    parts: tuple[FragmentPart, ...]
    fields: InkTraining
    sources: tuple[Source, ...]

    def truth(self) -> Truth[Rle]:
        """What is asked and what is true, part by part."""
        known = {part.id: part for part in self.parts}
        cases = (Case(part.id, Path(), (part.mask.shape[0], part.mask.shape[1])) for part in self.parts)
        return Truth(tuple(cases), lambda case: known[case.id].label)

    def make_network(self) -> nn.Module:
        from handlens.challenges.ink.network import DepthNet, SliceNet

        window = window_of(self.fields)
        if self.fields.slices == "few":
            return SliceNet(window.below, self.fields.width)
        return DepthNet(window.layers, self.fields.width)

    def make_item(self, rng: np.random.Generator, index: int) -> dict[str, npt.NDArray[Any]]:
        fields = self.fields
        window = replace(window_of(fields), spare=fields.augmentation.shift)
        augmentation = fields.augmentation.replace(few_share=1.0) if fields.slices == "few" else fields.augmentation
        return make_item(rng, self.parts[index], window, fields.crop, augmentation)

    def loss(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        from handlens.training.losses import mask_loss

        return mask_loss(logits, batch["ink"], batch["weight"], dice=self.fields.dice_weight)

    def infer(self, model: Path) -> Callable[[int], Map]:
        """The coarse map of a part, by the predictor that ships, with this ONNX file."""
        window = window_of(self.fields)
        resources = Resources(self.fields.turns, usable_cores())
        decision = InkDecision(threshold=0.5, turns=self.fields.turns)
        predictor = InkPredictor(open_network(model, window), window, decision, resources)
        both = self._join_few(predictor)

        def infer(index: int) -> Map:
            part, spare = self.parts[index], self.fields.augmentation.shift
            whole, few = np.arange(spare, spare + window.layers), few_layers(replace(window, spare=spare), FEW_SHOWN)
            asked = [(predictor, whole)]
            if part.slices >= FEW:
                asked = [(predictor, few)] if self.fields.slices == "few" else [(both, whole), (predictor, few)]
            return np.stack([each.infer(InMemory(part.window[layers], part.mask)) for each, layers in asked])

        return infer

    def _join_few(self, predictor: InkPredictor) -> InkPredictor:
        """With the network for few slices that `few` names, as the run's folder is opened."""
        if not self.fields.few:
            return predictor
        return join(predictor, load(Context(InkSettings(), model=Path(self.fields.few), threads=usable_cores())))

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Map]) -> InkDecision:
        """Threshold and smallest spot for whole stacks, and for few slices: shown so, or as they are."""
        stacks = [index for index in indices if self.parts[index].slices >= FEW and self.fields.slices == "all"]
        whole = [(index, predictions[index][0]) for index in stacks]
        few = [(index, predictions[index][-1]) for index in indices]
        chosen = self._choose(few)
        usual = self._choose(whole) if whole else chosen
        return InkDecision(**usual.plain(), turns=self.fields.turns, few=chosen)

    def _choose(self, maps: Sequence[tuple[int, Map]]) -> FewSlices:
        """A threshold for each scan where that is nearly the best, else the lowest that is; then the smallest piece."""
        shares = self._shares([index for index, _ in maps])
        values = shares @ np.array([f_half_at_levels(coarse, self.parts[index]) for index, coarse in maps])
        level = 1 + int(np.argmax(values >= values.max() - NEARLY))
        own = FewSlices(threshold=level / LEVELS, adaptive=True)
        adaptive = self._rate_all(maps, own) >= float(values.max()) - NEARLY
        choices = [own.replace(adaptive=adaptive, smallest=size) for size in SMALLEST]
        worth = [self._rate_all(maps, choice) for choice in choices]
        return choices[int(np.argmax(np.array(worth) >= max(worth) - LITTLE))]

    def _shares(self, indices: Sequence[int]) -> npt.NDArray[np.float64]:
        """How much every part counts where a decision is made: folders as in training, parts of a folder alike."""
        counts = Counter(self.parts[index].source for index in indices)
        shares = [self.sources[self.parts[index].source].weight / counts[self.parts[index].source] for index in indices]
        return np.array(shares) / sum(shares)

    def _rate_all(self, maps: Sequence[tuple[int, Map]], choice: FewSlices) -> float:
        return float(
            self._shares([index for index, _ in maps]) @ np.array([self._rate(*each, choice) for each in maps])
        )

    def _rate(self, index: int, coarse: Map, choice: FewSlices) -> float:
        part = self.parts[index]
        answer = InkDecision(**choice.plain()).apply(coarse, part.mask, slices=part.slices)
        return fbeta(compare(answer, part.label), beta=score.BETA, empty=score.EMPTY_F)

    def answer(self, index: int, prediction: Map, decision: InkDecision) -> Rle:
        part = self.parts[index]
        return decision.apply(prediction[0], part.mask, slices=part.slices)

    def seen(self) -> frozenset[int]:
        """Parts that the models that `start` and `few` name were trained on: no fold may hold them out."""
        named = [Path(name) for name in (self.fields.start, self.fields.few) if name]
        known = frozenset().union(*(open_model(folder, challenge="ink").trained_on for folder in named))
        return frozenset(index for index, part in enumerate(self.parts) if digest(part.case) in known)

    def warm_start(self, network: nn.Module, members: Sequence[int]) -> None:
        """The weights of the model that `start` names; statistics of norms are those of some crops."""
        import torch

        from handlens.challenges.ink.network import start_from

        model = open_model(Path(self.fields.start), challenge="ink")
        rng = np.random.default_rng(0)
        some = [self.make_item(rng, members[number % len(members)])["window"] for number in range(START_CROPS)]
        start_from(network, model.file, torch.from_numpy(np.stack(some)))

    def describe(self, finished: Finished) -> dict[str, Any]:
        """Lines for the card: what was held out, predicted as it is, and stacks from a few of their slices."""
        scans, whole = [], []
        for decision, held_out in zip(finished.fold_decisions, finished.held_out, strict=True):
            for index in held_out:
                part = self.parts[index]
                for number, coarse in enumerate(finished.predictions[index]):
                    cut = number > 0 or (self.fields.slices == "few" and part.slices >= FEW)
                    what = f"{FEW_SHOWN} slices of each" if cut else f"{part.slices} slices"
                    answer = decision.apply(coarse, part.mask, slices=1 if cut else part.slices)
                    source = self.sources[part.source].name
                    scans.append(HeldOutScan(part.id, source, what, part.mask, part.ink, coarse, answer))
                whole.append(scans[-len(finished.predictions[index])])
        return {"lines": card_lines(scans, whole)}


def f_half_at_levels(coarse: Map, part: FragmentPart) -> npt.NDArray[np.float64]:
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
    """`window` to `probability`."""
    from handlens.training.networks import mask_graph

    return mask_graph(network, "window", (2, layers, 64, 96), axes=(2, 3))


def measure(logits: Tensor, batch: Mapping[str, Tensor]) -> float:
    """F0.5 of a batch's squares at probability one half, all together; 0 where there is nothing."""
    said, true = logits > 0, batch["ink"] > 0.5
    square = score.BETA**2
    whole = int(said.sum()) + square * int(true.sum())
    return (1 + square) * int((said & true).sum()) / whole if whole else 0.0
