"""How nuclei are found: the shipped network, or one that `handlens train cells` made, over tiles and turns.

Where no model lies in the package, Otsu's threshold answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.baseline import OtsuRecipe
from handlens.challenges.cells.instances import INSTANCES, write_instances
from handlens.challenges.cells.offsets import FARTHEST, Offset, fade_margin, move_bands
from handlens.challenges.cells.score import ORDER
from handlens.inference.session import Plan, Segmenter, is_model, open_segmenter, read_plan
from handlens.inference.tiling import Tiling, predict
from handlens.io.row_reader import Source, opened
from handlens.masks.components import drop_specks, fill_holes, join
from handlens.masks.rle import Rle, encode
from handlens.types import Case, Context, Model

SHIPPED = Path(__file__).with_name("model")
"""The model that comes with the package, trained on the contest's 37 labelled slides."""

MOST_TURNS = 8
"""Quarter turns of a picture and of its mirror image."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is made of probabilities: a cell where they are above `threshold`.

    Pieces of fewer pixels than `smallest` go, holes of up to `largest_hole` are filled; 0 leaves them as they are.
    `offset` is where the labels lie that the model learned from: beside what they show, and so does the answer. Within
    `margin` pixels of a picture's border there are the fewer of them the nearer it is.
    """

    threshold: float
    smallest: int = 0
    largest_hole: int = 0
    offset: Offset = field(default_factory=Offset)
    margin: int = 0

    @classmethod
    def of(cls, plan: Plan) -> Decision:
        return cls(
            plan.number("threshold", least=0, most=1),
            int(plan.number("smallest", least=0, most=100_000, default=0)),
            int(plan.number("largest_hole", least=0, most=100_000, default=0)),
            Offset(*(plan.number(name, least=-FARTHEST, most=FARTHEST, default=0) for name in ("down", "right"))),
            int(plan.number("margin", least=0, most=100, default=0)),
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The cells of a picture, along rows, and the probability of every pixel in 255 steps, where it was kept."""

    cells: Rle
    certainty: npt.NDArray[np.uint8] | None


@dataclass(frozen=True, slots=True)
class Network:
    """A model and all that is done around it; it reads a picture row by row and keeps nothing."""

    segmenter: Segmenter
    decision: Decision
    tiling: Tiling
    turns: int

    def find(self, source: Source, *, keep: bool) -> Found:
        """The cells of a picture; with `keep` the probabilities too."""
        height, width = source.shape
        certainty = np.empty(source.shape, np.uint8) if keep else None
        bands = []
        predicted = predict(source, self.segmenter, tiling=self.tiling, turns=self.turns)
        for top, probability in move_bands(predicted, source.shape, self.decision.offset):
            fade_margin(probability, source.shape, top=top, margin=self.decision.margin)
            band = encode(probability > self.decision.threshold, order=ORDER)
            bands.append(Rle(band.starts + top * width, band.lengths))
            if certainty is not None:
                np.rint(probability * 255, out=certainty[top : top + len(probability)], casting="unsafe")
        return Found(self._clean(join(bands), (height, width)), certainty)

    def _clean(self, cells: Rle, shape: tuple[int, int]) -> Rle:
        filled = fill_holes(cells, shape, largest=self.decision.largest_hole)
        return drop_specks(filled, shape, smallest=self.decision.smallest)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Otsu's threshold in the place of a network."""

    recipe: OtsuRecipe

    def find(self, source: Source, *, keep: bool) -> Found:
        mask = self.recipe.segment(source.read(0, source.shape[0]))
        return Found(encode(mask, order=ORDER), mask.view(np.uint8) * np.uint8(255) if keep else None)


@dataclass(frozen=True, slots=True)
class Looking:
    """Answers a case; where `instances` names a folder, writes every single nucleus there too."""

    finder: Network | Thresholds
    instances: Path | None = None

    def __call__(self, case: Case, /) -> Rle:
        with opened(case.path) as source:
            found = self.finder.find(source, keep=self.instances is not None)
            if self.instances is not None and found.certainty is not None:
                write_instances(self.instances / case.path.stem, found.cells, found.certainty)
            return found.cells


@dataclass(frozen=True, slots=True)
class LearnedRecipe:
    """A trained network over overlapping tiles.

    turns      ways to lay each tile whose answers are averaged, 1 or 8; None for as many as the model was judged with
    threads    None for one on each core
    fallback   answers where there is no model at all
    """

    tiling: Tiling = field(default_factory=Tiling)
    turns: int | None = None
    threads: int | None = None
    fallback: OtsuRecipe = field(default_factory=OtsuRecipe)

    @property
    def learned(self) -> bool:
        """Whether a model comes with the package."""
        return is_model(SHIPPED)

    def prepare(self, context: Context, /) -> Model:
        """Open the named model, or the shipped one; nothing is learned here."""
        folder = context.out / INSTANCES if context.out is not None and context.settings.get("instances") else None
        if context.model is None and not self.learned:
            return Looking(Thresholds(self.fallback), folder)
        place = context.model or SHIPPED
        plan = read_plan(place, challenge="cells")
        judged = plan.number("turns", least=1, most=8, default=MOST_TURNS)
        turns = int(context.settings.get("turns") or self.turns or judged)
        segmenter = open_segmenter(place, threads=self.threads)
        return Looking(Network(segmenter, Decision.of(plan), self.tiling, turns), folder)


RECIPE = LearnedRecipe()
