"""The training of lesions: photographs with demographics, a class for each, and the exact score."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions import data, score
from handlens.challenges.lesions.adaptation import Adaptation, fit_adaptation
from handlens.challenges.lesions.augment import cut, read_photographs
from handlens.challenges.lesions.contract import (
    SIDE,
    UNKNOWN_AGE,
    UNKNOWN_GENDER,
    UNKNOWN_LOCATION,
    demographics_input,
    resized_input,
)
from handlens.challenges.lesions.decision import LesionsDecision, Search, choose
from handlens.challenges.lesions.domain import FIELD, fit_domain
from handlens.challenges.lesions.duplicates import join_copies
from handlens.challenges.lesions.finishing import CARD, card_lines, sample_pictures
from handlens.challenges.lesions.logistic import fit_head
from handlens.challenges.lesions.options import PRESETS, SCHEDULE, LesionsSettings, LesionsTraining
from handlens.challenges.lesions.predictor import LesionsPredictor, open_classifier
from handlens.challenges.lesions.sampling import draw_weights, within_sources
from handlens.challenges.lesions.score import Probabilities
from handlens.challenges.lesions.start import Start
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES, Taxonomy
from handlens.errors import HandlensError, counted
from handlens.io.files import replacing
from handlens.splits import count_parts, fold_of
from handlens.training import require_engine
from handlens.training.options import chosen_fields
from handlens.training.sources import Pool, Source, list_sources, pool
from handlens.types import Progress, Score, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Finished, Graph, Task

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

FEATURES = "features.npy"
"""What the encoder sees in every photograph before it learned anything, in a run's folder."""

WORST_LOSS = 0.3
"""Points of a hundred that 8-bit integers may cost out of fold."""

LEAST_PROBABILITY = 1e-30
"""Stands for a probability of 0, whose logarithm is not finite."""

SAMPLES = 64
"""Photographs that show which values are usual, for 8-bit integers."""

UNKNOWN = np.array([UNKNOWN_AGE, UNKNOWN_GENDER, UNKNOWN_LOCATION], np.float32)


def train(folder: Path, run: Path, settings: LesionsSettings, progress: Progress) -> Mapping[str, float]:
    """Train on the labelled photographs of a folder; the numbers are out of fold, by lesion."""
    engine = require_engine()
    start = LesionsTraining(taxonomy=settings.taxonomy)
    fields, schedule = engine.split_fields(start, SCHEDULE, chosen_fields(settings, PRESETS))
    sources = list_sources(folder, settings.more, licence=schedule.licence)
    make = partial(make_task, sources, run, fields, folds=settings.folds)
    numbers: Mapping[str, float] = engine.train(make, schedule, settings, run, progress)
    return numbers


def make_task(
    sources: Sequence[Source], run: Path, fields: LesionsTraining, progress: Progress = no_progress, *, folds: int = 2
) -> Task:
    """Lesions as the engine sees it, all photographs in memory; groups that cannot fill the folds are refused first."""
    from handlens.training.task import Task

    settings = LesionsSettings(taxonomy=fields.taxonomy)
    pooled = pool(sources, lambda folder: data.open_truth(folder, settings), same_groups=True)
    truth = pooled.truth
    taxonomy = TAXONOMIES[fields.taxonomy]
    progress(0, len(truth.cases), "reading photographs")
    pictures = read_photographs(truth.cases, fields.size)
    groups, joined = join_copies(pictures, [case.group or case.id for case in truth.cases])
    if fields.head_only and fields.weights == "scratch" and not fields.start:
        raise HandlensError(
            "head_only with weights=scratch: there would be nothing to learn from; leave out one of them"
        )
    start = Start.of(fields.start) if fields.start else None
    seen = start.seen(truth.cases, groups) if start else frozenset()
    try:
        free = [group for index, group in enumerate(groups) if index not in seen]
        fold_of(free, folds=count_parts(free, folds), seed=0)
    except ValueError as error:
        raise HandlensError(str(error)) from None
    labels = tuple(truth.read(case) for case in truth.cases)
    lesions = Lesions(
        pictures,
        np.stack([demographics_input(case.details) for case in truth.cases]),
        np.array([taxonomy.classes.index(label) for label in labels]),
        tuple(groups),
        truth,
        fields,
        pooled,
        run,
        start,
    )
    lesions.extract_features(progress)
    words = f"{counted(len(labels), 'photograph')} in {counted(len(set(groups)), 'group')} that stay within one fold"
    return Task(
        challenge="lesions",
        metric="Prediction Score",
        ids=tuple(case.id for case in truth.cases),
        groups=tuple(groups),
        strata=tuple(f"{at} {label}" for at, label in zip(pooled.source_of, labels, strict=True)),
        fields=fields,
        make_network=lesions.make_network,
        make_item=lesions.make_item,
        inputs=("image", "demographics"),
        loss=lesions.loss,
        measure=lesions.measure,
        infer=lesions.infer,
        decide=lesions.decide,
        answer=refuse_answer,
        answer_with=lesions.answer_with,
        score=lesions.score,
        graph=lesions.graph,
        default=start.decision if start else LesionsDecision(offsets=[0.0] * len(taxonomy.classes)),
        is_pretrained=lambda name: fields.weights != "scratch" and name.startswith(("encoder.", "mix.")),
        card=(*CARD, "", f"Trained on {words}; {counted(joined, 'pair')} of near-duplicates merged into one."),
        weights=lesions.draws,
        warm_start=lesions.warm_start if lesions.warms else None,
        settle=lesions.settle,
        finish=lesions.finish,
        cases=truth.cases,
        sources=pooled.described(),
        seen=seen,
        steps=0 if fields.head_only else None,
    )


def refuse_answer(_index: int, _prediction: Floats, _decision: LesionsDecision) -> Any:
    """The decision of lesions is part of the network: its file answers."""
    raise ValueError("lesions are predicted by the settled network's file")


@dataclass(frozen=True, slots=True)
class Lesions:
    """Photographs, facts and classes, and everything that is done with them."""

    pictures: Sequence[Bytes]
    people: Floats
    codes: npt.NDArray[np.int64]
    groups: tuple[str, ...]
    truth: Truth[str]
    fields: LesionsTraining
    pooled: Pool[str]
    run: Path
    start: Start | None = None
    seen: list[Floats] = field(default_factory=list)

    @property
    def adapts(self) -> bool:
        """Whether a trained model is taught other sources by a second layer alone."""
        return self.fields.head_only and self.start is not None and len(self.pooled.sources) > 1

    @property
    def draws(self) -> tuple[float, ...]:
        """How often each photograph is drawn."""
        return draw_weights(self.codes, self.pooled, self.fields.sampling_power)

    @property
    def taxonomy(self) -> Taxonomy:
        return TAXONOMIES[self.fields.taxonomy]

    @property
    def warms(self) -> bool:
        """Whether there is a warm start: an encoder that learned nothing before has nothing to tell."""
        fields = self.fields
        return fields.head_only or (fields.warm_start and fields.weights != "scratch" and self.start is None)

    def make_network(self) -> nn.Module:
        from handlens.challenges.lesions.network import PhotoClassifier

        fields = self.fields
        network = PhotoClassifier(
            fields.encoder,
            fields.weights if self.start is None else "scratch",
            classes=len(self.taxonomy.classes),
            sites=len(LOCATIONS),
            frozen=fields.frozen_stages,
            still=fields.freeze_norm,
            dropout=fields.dropout,
            adapted=self.adapts or (self.start is not None and self.start.is_adapted),
        )
        if self.start is not None:
            self.start.put_into(network)
        return network

    def score(self, answers: Mapping[str, Probabilities]) -> Score:
        """The exact score of those that were answered."""
        return score.score(answers, self.truth.among(answers), LesionsSettings(taxonomy=self.fields.taxonomy))

    def make_item(self, rng: np.random.Generator, index: int) -> dict[str, npt.NDArray[Any]]:
        """An augmented photograph, demographics after metadata dropout, and the class."""
        image = cut(rng, self.pictures[index], self.fields.size, self.fields.augmentation, crop=self.fields.crop)
        told = np.where(rng.random(3) < self.fields.metadata_dropout, UNKNOWN, self.people[index])
        return {"image": image, "demographics": told, "class": np.array(self.codes[index])}

    def loss(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        from handlens.challenges.lesions.network import class_loss

        return class_loss(logits, batch["class"], smoothing=self.fields.label_smoothing)

    def measure(self, logits: Tensor, batch: Mapping[str, Tensor]) -> float:
        from handlens.challenges.lesions.network import share_right

        return share_right(logits, batch["class"])

    def infer(self, model: Path) -> Callable[[int], Floats]:
        """Log-probabilities of a photograph by the predictor that ships, with this ONNX file and no decision in it.

        They are the logits but for a constant, which no decision depends on.
        """
        answer = self.answer_with(model)
        return lambda index: np.log(np.maximum(answer(index), LEAST_PROBABILITY)).astype(np.float32)

    def answer_with(self, model: Path) -> Callable[[int], Probabilities]:
        """The predictor's answer for a photograph, with this ONNX file."""
        predictor = LesionsPredictor(open_classifier(model), self.taxonomy, turns=self.fields.turns)

        def answer(index: int) -> Probabilities:
            with predictor.decode(self.truth.cases[index]) as photograph:
                return predictor.predict(photograph).answer

        return answer

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Floats]) -> LesionsDecision:
        """Offsets and temperature that are best for these examples; those of the model that is continued.

        They were chosen on photographs that it had not seen; the ones that are new to it are of other sources, in which
        classes are as common as nowhere else.
        """
        if self.start is not None:
            return self.start.decision.replace(turns=self.fields.turns)
        chosen = list(indices)
        logits = np.stack([predictions[index] for index in chosen]).astype(np.float64)
        search = Search(self.fields.objective, self.fields.bootstraps, self.fields.offset_penalty)
        groups = [self.groups[index] for index in chosen]
        offsets, temperature = choose(logits, self.codes[chosen], groups, self.taxonomy, search)
        rounded = [round(value, 4) for value in offsets.tolist()]
        return LesionsDecision(offsets=rounded, temperature=round(temperature, 4), turns=self.fields.turns)

    # --- before the first step, and after the last ----------------------------------------------------------------

    def extract_features(self, progress: Progress) -> None:
        """What the encoder sees in every photograph before it learned anything: kept in the run's folder."""
        if not self.warms:
            return
        from handlens.challenges.lesions.network import FEATURES as WIDTH
        from handlens.challenges.lesions.network import features_of

        file = self.run / FEATURES
        shape = (len(self.pictures), WIDTH)
        if file.exists() and (kept := np.load(file)).shape == shape:
            self.seen.append(kept)
            return
        found: list[Floats] = []
        for features in features_of(self.make_network(), self.pictures, size=self.fields.size):
            progress(len(found), len(self.pictures), "features for the warm start")
            found.append(features)
        self.seen.append(np.stack(found).astype(np.float16))
        with replacing(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, self.seen[0])

    def warm_start(self, network: nn.Module, members: Sequence[int]) -> None:
        """The last layer as a logistic regression on what the encoder sees in these photographs, and their facts."""
        from handlens.challenges.lesions.network import PhotoClassifier

        if not isinstance(network, PhotoClassifier):
            return
        if self.adapts and self.start is not None:
            found = self.fit_correction(members, self.start)
            network.set_adaptation(found.gate, found.other)
        else:
            network.set_head(*self.fit(members))

    def fit(self, members: Sequence[int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Weights and bias of that regression; how rare a class is counts among the members alone."""
        chosen = list(members)
        codes, sources = self.codes[chosen], np.array(self.pooled.source_of)[chosen]
        return fit_head(
            self.described()[chosen],
            codes,
            count=len(self.taxonomy.classes),
            importance=within_sources(codes, sources, self.fields.sampling_power),
            penalty=self.fields.l2,
            start=self.start.head() if self.start else None,
        )

    def fit_correction(self, members: Sequence[int], start: Start) -> Adaptation:
        """What to add to the answers of the model that is continued, where a photograph is of another source."""
        chosen = list(members)
        return fit_adaptation(
            self.described()[chosen],
            self.codes[chosen],
            np.array(self.pooled.source_of)[chosen],
            importance=np.array(self.draws)[chosen],
            penalty=self.fields.l2,
            start=start.head(),
        )

    def described(self) -> Floats:
        """Features and facts of every photograph."""
        from handlens.challenges.lesions.network import facts_of

        return np.hstack([self.seen[0].astype(np.float32), facts_of(self.people, sites=len(LOCATIONS))])

    def settle(self, network: nn.Module, decision: LesionsDecision) -> None:
        from handlens.challenges.lesions.network import PhotoClassifier

        if isinstance(network, PhotoClassifier):
            network.settle(decision.offsets, decision.temperature)

    def graph(self, network: nn.Module) -> Graph:
        """`image` and `demographics` to `probability`, of any number."""
        from handlens.challenges.lesions.network import Contest
        from handlens.training.networks import set_memory_format
        from handlens.training.task import Graph

        set_memory_format(network, channels_last=False)
        rng = np.random.default_rng(0)
        image = rng.random((2, 3, SIDE, SIDE), np.float32)
        image[1] *= 255
        inputs = {"image": image, "demographics": np.array([[50, 1, 7], [0, -1, -1]], np.float32)}
        dynamic = {name: {0: ("count", 1)} for name in inputs}
        return Graph(Contest(network, SIDE, self.fields.size), inputs, "probability", dynamic)

    def finish(self, shown: Finished) -> dict[str, Any]:
        """Tables for the card, what the photographs look like, and a smaller file where that costs little."""
        from handlens.training.quantize import describe_stored

        found = {"stored": "fp32"}
        if self.fields.weight_format != "fp32":
            found = self._shrink(shown)
        said = [describe_stored(found), ""]
        lines = card_lines(shown.score, shown.answers, self.pooled, self.taxonomy)
        domain = fit_domain(sample_pictures(self.pictures))
        return {**found, FIELD: domain.plain(), "parts": dict(shown.score.parts), "lines": ["", *said, *lines]}

    def _shrink(self, shown: Finished) -> dict[str, str]:
        from handlens.training.quantize import as_int8, store_half

        if self.fields.weight_format == "fp16":
            return store_half(shown.model, self._samples(range(len(self.codes))))
        exact, rough = (self._out_of_fold(shown, small=small) for small in (False, True))
        loss = 100 * (exact - rough)
        found = f"8-bit integers cost {loss:.2f} points out of fold ({100 * exact:.2f} to {100 * rough:.2f})"
        if loss >= WORST_LOSS:
            return {"stored": "fp32", "stored_because": f"{found}, {WORST_LOSS} or more, so they are not used."}
        as_int8(shown.model, self._samples(range(len(self.codes))))
        return {"stored": "int8", "stored_because": f"{found}."}

    def _out_of_fold(self, shown: Finished, *, small: bool) -> float:
        """The score with each fold predicted by the file that its network becomes, in 8-bit integers if `small`."""
        if not small:
            return shown.score.value
        from handlens.training.export import export
        from handlens.training.quantize import as_int8

        answers = {}
        for fold, held_out in enumerate(shown.held_out):
            network = shown.network_of(fold)
            self.settle(network, shown.fold_decisions[fold])
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "fold.onnx"
                export(self.graph(network), path, facts={})
                as_int8(path, self._samples(sorted(set(range(len(self.codes))) - set(held_out))))
                answer = self.answer_with(path)
                for index in held_out:
                    answers[self.truth.cases[index].id] = answer(index)
        return self.score(answers).value

    def _samples(self, members: Sequence[int]) -> Iterator[dict[str, Floats]]:
        for index in np.random.default_rng(0).permutation(np.array(members))[:SAMPLES]:
            image = resized_input(self.pictures[index], top=1.0)
            yield {"image": image[None], "demographics": self.people[index][None]}
