"""What the training engine is told about lesions: photographs with demographics, a class for each, the exact score."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions import data, score
from handlens.challenges.lesions.augment import Changes, cut, fed, read_photographs
from handlens.challenges.lesions.contract import (
    SIDE,
    UNKNOWN_AGE,
    UNKNOWN_GENDER,
    UNKNOWN_LOCATION,
    demographics_input,
)
from handlens.challenges.lesions.decision import AIMS, Search, choose, probabilities
from handlens.challenges.lesions.duplicates import join_copies
from handlens.challenges.lesions.logistic import fit_head
from handlens.challenges.lesions.subgroups import tables
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES, Taxonomy
from handlens.errors import HandlensError, counted
from handlens.io.files import replacing
from handlens.splits import fold_of
from handlens.types import Progress, Settings, Truth, no_progress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handlens.training.task import Decision, Finished, Graph, Task

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

FEATURES = "features.npy"
"""What the encoder sees in every photograph before it learned anything, in a run's folder."""

STORED = ("fp32", "fp16", "int8")
WORST_LOSS = 0.3
"""Points of a hundred that 8-bit integers may cost out of fold."""

SAMPLES = 64
"""Photographs that show which values are usual, for 8-bit integers."""

UNKNOWN = np.array([UNKNOWN_AGE, UNKNOWN_GENDER, UNKNOWN_LOCATION], np.float32)

CARD = (
    "Gives each class of skin lesion a probability, from a photograph and from age, gender and body site. Input",
    "`image`: float32 (N, 3, 512, 512) RGB from 0 to 1 or from 0 to 255; `demographics`: float32 (N, 3), age (0",
    "unknown), gender (1 m, 0 f, -1 unknown), site (1 to 7, -1 unknown). Output `probability`: float32 (N, classes),",
    "with sum 1. Preparation and decision are inside. An EfficientNet-Lite with the facts beside its features.",
    "",
    "**This is no medical device, and its answer is no diagnosis.** Classes with few examples are often missed, as the",
    "tables show. Other cameras, other clinics and skin tones that were not learned from may be served worse.",
)


@dataclass(frozen=True, slots=True)
class Fields:
    """What `--set` can change about lesions.

    taxonomy    ten or eleven; `--taxonomy` says the same
    encoder     lite0, lite1 or lite2
    weights     imagenet, scratch, or a file
    size        side in pixels that the network sees; the exported file takes 512 and reduces it
    frozen      how many of the encoder's first stages, of five, are not trained: cheaper steps
    still       whether norms keep the statistics that they learned before
    dropout     share of features that a step does without
    forget      share of facts, each by itself, that a step is not told
    smoothing   share of certainty that is spread over all classes
    balance     power of the inverse class frequency by which examples are drawn: 0 as they come, 1 all classes alike
    warm        whether the last layer begins as a logistic regression on what the encoder sees before training
    penalty     of that regression
    aim         what offsets are chosen for: prediction (the score) or macro-f1
    redraws, offset_penalty  how firmly offsets are held; see deciding.Search
    weights_as  fp32, fp16 or int8: how the exported file holds its numbers
    near, far, stretch, shift, light, tint, blurs  see photographs.Changes
    """

    taxonomy: str = "ten"
    encoder: str = "lite0"
    weights: str = "imagenet"
    size: int = 192
    frozen: int = 2
    still: bool = True
    dropout: float = 0.2
    forget: float = 0.15
    smoothing: float = 0.05
    balance: float = 0.5
    warm: bool = True
    penalty: float = 0.1
    aim: str = "prediction"
    redraws: int = 24
    offset_penalty: float = 0.001
    weights_as: str = "fp32"
    near: float = 1.3
    far: float = 0.85
    stretch: float = 0.08
    shift: float = 0.06
    light: float = 0.12
    tint: float = 0.06
    blurs: float = 0.1

    def __post_init__(self) -> None:
        from handlens.training.task import check_ranges

        for name, known in (("taxonomy", tuple(TAXONOMIES)), ("aim", AIMS), ("weights_as", STORED)):
            if getattr(self, name) not in known:
                raise HandlensError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}")
        if not 32 <= self.size <= SIDE or self.size % 32:
            raise HandlensError(f"size is {self.size}; expected a multiple of 32 up to {SIDE}")
        if not 0.1 <= self.far <= self.near <= 10:
            raise HandlensError(f"scale from {self.far} to {self.near}; expected 0.1 to 10, far first")
        most = {"dropout": 0.9, "forget": 1, "smoothing": 0.9, "balance": 1, "blurs": 1, "shift": 0.5, "frozen": 5}
        check_ranges(self, {name: (0, limit) for name, limit in most.items()})


def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
    """Train on the labelled photographs of a folder; the numbers are of lesions that were not learned from."""
    from handlens.training.engine import train as train_task
    from handlens.training.plan import Schedule, as_told

    usual = Schedule(batch=16, rate=0.001, pretrained_rate=0.3, decay=0.02, average=0.995)
    fields, schedule, effort = as_told(Fields(taxonomy=settings["taxonomy"]), usual, settings)
    return train_task(partial(make_task, folder, run, fields, folds=effort.folds), schedule, effort, run, progress)


def make_task(folder: Path, run: Path, fields: Fields, progress: Progress = no_progress, *, folds: int = 2) -> Task:
    """Lesions as the engine sees it, all photographs in memory; groups that cannot fill the folds are refused first."""
    from handlens.training.task import Task

    settings = {"taxonomy": fields.taxonomy, "size_mb": None, "time_ms": None, "efficiency": "size-and-time"}
    truth = data.open_truth(folder, settings)
    taxonomy = TAXONOMIES[fields.taxonomy]
    progress(0, len(truth.cases), "reading photographs")
    pictures = read_photographs(truth.cases, fields.size)
    groups, joined = join_copies(pictures, [case.group or case.id for case in truth.cases])
    try:
        fold_of(groups, folds=folds, seed=0)
    except ValueError as error:
        raise HandlensError(str(error)) from None
    labels = tuple(str(truth.read(case)) for case in truth.cases)
    lesions = Lesions(
        pictures,
        np.stack([demographics_input(case.details) for case in truth.cases]),
        np.array([taxonomy.classes.index(label) for label in labels]),
        tuple(groups),
        truth,
        fields,
        folder,
        run,
    )
    lesions.look(progress)
    words = f"{counted(len(labels), 'photograph')} of {counted(len(set(groups)), 'group')} that no fold parts"
    return Task(
        challenge="lesions",
        metric="Prediction Score",
        ids=tuple(case.id for case in truth.cases),
        groups=tuple(groups),
        strata=labels,
        fields=fields,
        make_network=lesions.make_network,
        make_item=lesions.make_item,
        inputs=("image", "demographics"),
        loss=lesions.loss,
        measure=lesions.measure,
        predict=lesions.predict,
        decide=lesions.decide,
        answer=lesions.answer,
        score=lambda answers: score.score(answers, truth, settings),
        graph=lesions.graph,
        default={"offsets": [0.0] * len(taxonomy.classes), "temperature": 1.0},
        is_pretrained=lambda name: fields.weights != "scratch" and name.startswith(("encoder.", "mix.")),
        card=(*CARD, "", f"Learned from {words}; {counted(joined, 'pair')} of near copies lay in different groups."),
        weights=tuple(_draws(lesions.codes, fields.balance).tolist()),
        warm_start=lesions.warm_start if lesions.warms else None,
        settle=lesions.settle,
        finish=lesions.finish,
    )


@dataclass(frozen=True, slots=True)
class Lesions:
    """Photographs, facts and classes, and everything that is done with them."""

    pictures: Sequence[Bytes]
    people: Floats
    codes: npt.NDArray[np.int64]
    groups: tuple[str, ...]
    truth: Truth
    fields: Fields
    folder: Path
    run: Path
    seen: list[Floats] = field(default_factory=list)

    @property
    def taxonomy(self) -> Taxonomy:
        return TAXONOMIES[self.fields.taxonomy]

    @property
    def warms(self) -> bool:
        """Whether there is a warm start: an encoder that learned nothing before has nothing to tell."""
        return self.fields.warm and self.fields.weights != "scratch"

    def make_network(self) -> nn.Module:
        from handlens.challenges.lesions.network import PhotoClassifier

        fields = self.fields
        return PhotoClassifier(
            fields.encoder,
            fields.weights,
            classes=len(self.taxonomy.classes),
            sites=len(LOCATIONS),
            frozen=fields.frozen,
            still=fields.still,
            dropout=fields.dropout,
        )

    def make_item(self, rng: np.random.Generator, index: int) -> dict[str, npt.NDArray[Any]]:
        """A changed photograph, what is known of the person and not forgotten, and the class."""
        own = ("near", "far", "stretch", "shift", "light", "tint", "blurs")
        changes = Changes(**{name: getattr(self.fields, name) for name in own})
        image = cut(rng, self.pictures[index], self.fields.size, changes)
        told = np.where(rng.random(3) < self.fields.forget, UNKNOWN, self.people[index])
        return {"image": image, "demographics": told, "class": np.array(self.codes[index])}

    def loss(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        from handlens.challenges.lesions.network import class_loss

        return class_loss(logits, batch["class"], smoothing=self.fields.smoothing)

    def measure(self, logits: Tensor, batch: Mapping[str, Tensor]) -> float:
        from handlens.challenges.lesions.network import share_right

        return share_right(logits, batch["class"])

    def predict(self, network: nn.Module, index: int) -> Floats:
        """Logits, of the photograph as the exported file is given it."""
        from handlens.challenges.lesions.network import logits_of

        return logits_of(network, fed(self.pictures[index]), self.people[index], size=self.fields.size)

    def decide(self, indices: Sequence[int], predictions: Mapping[int, Floats]) -> Decision:
        """Offsets and temperature that are best for these examples."""
        chosen = list(indices)
        logits = np.stack([predictions[index] for index in chosen]).astype(np.float64)
        search = Search(self.fields.aim, self.fields.redraws, self.fields.offset_penalty)
        groups = [self.groups[index] for index in chosen]
        offsets, temperature = choose(logits, self.codes[chosen], groups, self.taxonomy, search)
        return {"offsets": [round(value, 4) for value in offsets.tolist()], "temperature": round(temperature, 4)}

    def answer(self, _index: int, prediction: Floats, decision: Decision) -> npt.NDArray[np.float64]:
        rows = probabilities(prediction[None], decision["offsets"], decision["temperature"])
        return np.asarray(rows[0], np.float64)

    # --- before the first step, and after the last ----------------------------------------------------------------

    def look(self, progress: Progress) -> None:
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

        if isinstance(network, PhotoClassifier):
            network.set_head(*self.fit(members))

    def fit(self, members: Sequence[int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Weights and bias of that regression."""
        chosen = list(members)
        count, fields = len(self.taxonomy.classes), self.fields
        table = self.described()[chosen]
        return fit_head(table, self.codes[chosen], count=count, balance=fields.balance, penalty=fields.penalty)

    def described(self) -> Floats:
        """Features and facts of every photograph."""
        from handlens.challenges.lesions.network import facts_of

        return np.hstack([self.seen[0].astype(np.float32), facts_of(self.people, sites=len(LOCATIONS))])

    def settle(self, network: nn.Module, decision: Decision) -> None:
        from handlens.challenges.lesions.network import PhotoClassifier

        if isinstance(network, PhotoClassifier):
            network.settle(decision["offsets"], decision["temperature"])

    def graph(self, network: nn.Module) -> Graph:
        """`image` and `demographics` to `probability`, of any number."""
        from handlens.challenges.lesions.network import Contest
        from handlens.training.networks import lay_out
        from handlens.training.task import Graph

        lay_out(network, channels_last=False)
        rng = np.random.default_rng(0)
        image = rng.random((2, 3, SIDE, SIDE), np.float32)
        image[1] *= 255
        inputs = {"image": image, "demographics": np.array([[50, 1, 7], [0, -1, -1]], np.float32)}
        dynamic = {name: {0: ("count", 1)} for name in inputs}
        return Graph(Contest(network, SIDE, self.fields.size), inputs, "probability", dynamic)

    def finish(self, shown: Finished) -> dict[str, Any]:
        """Tables for the card, and a smaller file where that was asked for and costs little."""
        columns = {
            "kind": data.read_column(self.folder, data.KIND_COLUMNS),
            "skin tone": data.read_column(self.folder, data.TONE_COLUMNS),
        }
        found: dict[str, Any] = {"stored": "fp32"}
        if self.fields.weights_as != "fp32":
            found = self._shrink(shown)
        lines = tables(shown.score, self.truth.cases, self.taxonomy, columns)
        said = [f"Numbers in the file: {found['stored']}. {found.get('stored_because', '')}".strip(), ""]
        return {**found, "parts": dict(shown.score.parts), "lines": ["", *said, *lines]}

    def _shrink(self, shown: Finished) -> dict[str, Any]:
        from handlens.training.quantize import as_half, as_int8

        if self.fields.weights_as == "fp16":
            as_half(shown.model)
            return {"stored": "fp16"}
        exact, rough = (self._out_of_fold(shown, small=small) for small in (False, True))
        loss = 100 * (exact - rough)
        found = f"8-bit integers cost {loss:.2f} points out of fold ({100 * exact:.2f} to {100 * rough:.2f})"
        if loss >= WORST_LOSS:
            return {"stored": "fp32", "stored_because": f"{found}, {WORST_LOSS} or more, so they are not used."}
        as_int8(shown.model, self._samples(range(len(self.codes))))
        return {"stored": "int8", "stored_because": f"{found}."}

    def _out_of_fold(self, shown: Finished, *, small: bool) -> float:
        """The score with each fold answered by the file that its network becomes, in 8-bit integers if `small`."""
        if not small:
            return shown.score.value
        from handlens.inference.session import Session
        from handlens.training.export import export
        from handlens.training.quantize import as_int8

        answers = {}
        for fold, asked in enumerate(shown.asked):
            network = shown.network_of(fold)
            self.settle(network, shown.fold_decisions[fold])
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "fold.onnx"
                export(self.graph(network), path, facts={})
                as_int8(path, self._samples(sorted(set(range(len(self.codes))) - set(asked))))
                session = Session(path)
                for index in asked:
                    (row,) = session(image=fed(self.pictures[index])[None], demographics=self.people[index][None])
                    answers[self.truth.cases[index].id] = row[0].astype(np.float64)
        settings = {"taxonomy": self.fields.taxonomy, "size_mb": None, "time_ms": None, "efficiency": "size-and-time"}
        return score.score(answers, self.truth, settings).value

    def _samples(self, members: Sequence[int]) -> Iterator[dict[str, Floats]]:
        for index in np.random.default_rng(0).permutation(np.array(members))[:SAMPLES]:
            yield {"image": fed(self.pictures[index])[None], "demographics": self.people[index][None]}


def _draws(codes: npt.NDArray[np.int64], balance: float) -> npt.NDArray[np.float64]:
    """How often each example is drawn, compared with one of the commonest class."""
    counts = np.bincount(codes)
    often: npt.NDArray[np.float64] = (counts.max() / counts[codes]) ** balance
    return often
