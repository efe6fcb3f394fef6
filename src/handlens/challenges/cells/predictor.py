"""The predictor of cells: the included network, or one of `handlens train cells`, over tiles and orientations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import choose
from handlens.challenges.cells.baseline import Otsu
from handlens.challenges.cells.data import is_contest
from handlens.challenges.cells.decision import CellsDecision, Rows
from handlens.challenges.cells.domain import Domain, look
from handlens.challenges.cells.files import DEFAULT, KINDS, CellsFiles, join_tables
from handlens.challenges.cells.fluorescence import FLUORESCENCE, GREY, SINGLE_STAIN
from handlens.challenges.cells.instances import INSTANCES, write_instances
from handlens.challenges.cells.magnification import factor_of, resize_back, resized
from handlens.challenges.cells.options import INCLUDED_MODEL, OTHER_SLIDES, CellsSettings
from handlens.challenges.cells.result import CellsResult
from handlens.challenges.cells.score import ORDER
from handlens.challenges.cells.slide import Slide, slide_in_memory, slide_of
from handlens.challenges.cells.splitting import Watershed
from handlens.errors import counted
from handlens.inference.ensemble import NetworkPair
from handlens.inference.model import Model, is_model, open_model
from handlens.inference.session import open_segmenter
from handlens.inference.tiling import Network, Tiling
from handlens.inference.tiling import predict as predict_tiles
from handlens.inference.values import as_rgb
from handlens.io.row_reader import RowReader, opened
from handlens.masks.rle import Rle, decode
from handlens.types import ALONE, Artefact, Case, Context, Effort, Prediction, Work, full_effort

PROBABILITY = "probability"
"""Artefact: the probability of every pixel in 255 steps, (H, W) uint8, as it was compared with the threshold."""

SPARSE_OVERLAP, SPARSE_COST = 64, 0.8
"""Pixels that tiles share at the lowest effort, and its cost: of the tiles' area on 4000 x 4000 pixels."""
LEAST_LEVEL = 13
"""Level of 255 that the network's highest hundredth is taken to reach at least: less is noise."""
MIXED_ROWS = 1024
"""Rows that are mixed at once."""
LEVELS = "levels"
"""Artefact: what a threshold divides into nuclei and ground, (H, W) uint8; of the network's answers the probability."""
MOST_LEVELS = 16_000_000
"""Pixels of an image whose levels are kept where they are not the probability: 4000 x 4000."""
WATERSHED = "watershed"
"""Artefact, beside the probability: how touching nuclei of this image are to be split."""


OTHERS_WEIGHT = 0.5
"""Of the second network where both predict; nothing was chosen."""


@dataclass(frozen=True, slots=True)
class CellsPredictor:
    """A segmentation network and its decision; reads an image row by row and keeps nothing between images.

    Images that are no stained tissue are answered without the network, with a warning. `mpp` are micrometres per pixel:
    what is not at 40x is resized for the network. A `channel`, from 0, is one of fluorescence. `others` answers for
    images that are not the contest's, where the model has a second network. Artefacts: `probability`, `levels`,
    `watershed`.
    """

    segmenter: Network
    decision: CellsDecision
    turns: int
    model: Model | None = None
    tiling: Tiling = field(default_factory=Tiling)
    mpp: float | None = None
    channel: int | None = None
    others: CellsPredictor | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<CellsPredictor: {self.model}, {counted(self.turns, 'orientation')}>"

    def decode(self, case: Case, /) -> AbstractContextManager[Slide]:
        return _open_slide(case)

    def with_turns(self, turns: int) -> CellsPredictor:
        """The same with so many orientations of test-time augmentation."""
        return replace(self, turns=turns, others=self.others.with_turns(turns) if self.others else None)

    def with_tiling(self, tiling: Tiling) -> CellsPredictor:
        return replace(self, tiling=tiling, others=self.others.with_tiling(tiling) if self.others else None)

    def infer(self, image: RowReader, work: Work = ALONE, /) -> Iterator[Rows]:
        """Bands of probabilities, from the top, before the decision."""
        return predict_tiles(image, self.segmenter, tiling=self.tiling, turns=self.turns, work=work)

    def predict(self, image: Slide, work: Work = ALONE, /) -> Prediction[Rle]:
        if self.others is not None and not self._is_contest(image):
            return self.others.predict(image, work)
        kept = np.empty(image.shape, np.uint8) if PROBABILITY in work.keep else None
        levels = (
            np.empty(image.shape, np.uint8) if LEVELS in work.keep and math.prod(image.shape) <= MOST_LEVELS else None
        )
        domain = look(image, contest=image.contest)
        if self.channel is not None:
            domain = Domain("fluorescence")  # said by the user
            cells, watershed = replace(FLUORESCENCE, channel=self.channel).segment(image, kept, levels)
        elif domain.kind == "stained":
            cells, watershed = self._predict_stained(image, work, kept)
            levels = kept
        elif domain.kind == "single stain":
            cells, watershed = SINGLE_STAIN.segment(image, kept, levels)
            if kept is not None:
                self._add_network(image, work, kept)
        else:
            cells, watershed = (GREY if domain.kind == "grey" else FLUORESCENCE).segment(image, kept, levels)
        found = {} if kept is None else {PROBABILITY: kept, WATERSHED: watershed}
        return Prediction(cells, found if levels is None else {**found, LEVELS: levels}, domain.warnings)

    def _is_contest(self, image: Slide) -> bool:
        """Whether an image is answered as the contest's are."""
        return factor_of(self.mpp) == 1 and self.decision.follows_labels(image.shape, contest=image.contest)

    def _predict_stained(self, image: Slide, work: Work, kept: npt.NDArray[np.uint8] | None) -> tuple[Rle, Watershed]:
        """By the network, at the magnification that it was trained at."""
        factor = factor_of(self.mpp)

        def keep(top: int, rows: npt.NDArray[np.float32]) -> None:
            if kept is not None:
                np.rint(rows * 255, out=kept[top : top + len(rows)], casting="unsafe")

        bands = self._infer_magnified(image, factor, work)
        if factor == 1:
            return self.decision.apply(bands, image.shape, keep, contest=image.contest), Watershed()
        decision = self.decision.resized(1 / factor)
        return decision.apply(bands, image.shape, keep, contest=False), Watershed().resized(1 / factor)

    def _infer_magnified(self, image: Slide, factor: float, work: Work) -> Iterator[Rows]:
        """Bands of probabilities of an image that is resized for the network, at its own size."""
        if factor == 1:
            return self.infer(image, work)
        larger = resized(image, factor)
        return resize_back(self.infer(larger, work), larger.shape, image.shape)

    def _add_network(self, image: Slide, work: Work, kept: npt.NDArray[np.uint8]) -> None:
        """Take the mean of what is kept and the network's probability, scaled to its own highest hundredth.

        On a stain that it was not trained on its probabilities are low, and still lowest between touching nuclei.
        """
        levels = np.empty_like(kept)
        for top, rows in self._infer_magnified(image, factor_of(self.mpp), work):
            np.rint(rows * 255, out=levels[top : top + len(rows)], casting="unsafe")
        counts = np.bincount(levels.ravel(), minlength=256)
        highest = max(int(np.searchsorted(np.cumsum(counts), 0.99 * levels.size)), LEAST_LEVEL)
        scaled = np.minimum(np.arange(256) * (255 / highest), 255)
        table = np.rint((scaled[:, None] + np.arange(256)[None, :]) / 2).astype(np.uint8)  # of network and darkness
        for top in range(0, len(kept), MIXED_ROWS):
            some = slice(top, top + MIXED_ROWS)
            kept[some] = table[levels[some], kept[some]]

    def __call__(self, value: Any, /) -> CellsResult:
        return _call(self, value)


@dataclass(frozen=True, slots=True)
class OtsuPredictor:
    """Otsu's threshold on the haematoxylin channel: the baseline. Artefacts: `probability`, 0 or 255; `watershed`."""

    otsu: Otsu = field(default_factory=Otsu)
    model: Model | None = None

    def decode(self, case: Case, /) -> AbstractContextManager[Slide]:
        return _open_slide(case)

    def predict(self, image: Slide, work: Work = ALONE, /) -> Prediction[Rle]:
        cells = self.otsu.find(image)
        kept = {}
        if PROBABILITY in work.keep:
            probability = decode(cells, image.shape, order=ORDER).view(np.uint8)
            probability *= 255
            kept = {PROBABILITY: probability, LEVELS: probability, WATERSHED: Watershed()}
        return Prediction(cells, kept)

    def __call__(self, value: Any, /) -> CellsResult:
        return _call(self, value)


@contextmanager
def _open_slide(case: Case) -> Iterator[Slide]:
    with opened(case.path) as image:
        yield slide_of(image, contest=is_contest(case.path))


def _call(predictor: CellsPredictor | OtsuPredictor, value: Any) -> CellsResult:
    """The result for an image in memory; a path to one of the contest's images is no different from an array."""
    image = as_rgb(value)
    prediction = predictor.predict(slide_in_memory(image), Work(keep=frozenset({PROBABILITY})))
    found = prediction.artefacts
    return CellsResult(image, prediction.answer, found[PROBABILITY], found[WATERSHED], prediction.warnings)


def load(context: Context[Rle, CellsSettings]) -> CellsPredictor:
    """The named model, or the included one; images that are not the contest's by both where it has a second one."""
    model = open_model(context.model or INCLUDED_MODEL, challenge="cells")
    predictor = _open(model, context)
    within = model.folder / OTHER_SLIDES
    if not is_model(within):
        return predictor
    second = _open(open_model(within, challenge="cells"), context)
    both = NetworkPair(predictor.segmenter, second.segmenter, OTHERS_WEIGHT)
    return replace(predictor, others=replace(second, segmenter=both))


def _open(model: Model, context: Context[Rle, CellsSettings]) -> CellsPredictor:
    """The predictor of one network."""
    decision = model.decision(CellsDecision)
    settings = context.settings
    channel = None if settings.channel is None else settings.channel - 1
    return CellsPredictor(
        open_segmenter(model.file, threads=context.threads, untrusted=context.untrusted),
        decision,
        settings.turns or decision.turns,
        model,
        mpp=settings.mpp,
        channel=channel,
    )


def shares_parts(predictor: CellsPredictor | OtsuPredictor) -> bool:
    """Tiles of the network are shared; Otsu's threshold is quick."""
    return isinstance(predictor, CellsPredictor)


def efforts(predictor: CellsPredictor | OtsuPredictor) -> list[Effort[Rle]]:
    """Fewer orientations, and at last tiles that share less; time goes with their number, as measured."""
    if isinstance(predictor, OtsuPredictor):
        return list(full_effort(predictor))
    full, fewer = predictor.turns, [turns for turns in (1, 2, 4) if turns < predictor.turns]
    sparse = predictor.with_turns(1).with_tiling(Tiling(overlap=SPARSE_OVERLAP))
    return [
        Effort("1 turn, sparse tiles", SPARSE_COST / full, sparse),
        *(Effort(counted(turns, "turn"), turns / full, predictor.with_turns(turns)) for turns in fewer),
        Effort(counted(full, "turn"), 1.0, predictor),
    ]


def load_baseline(_context: Context[Rle, CellsSettings]) -> OtsuPredictor:
    return OtsuPredictor()


def artefacts(settings: CellsSettings) -> list[Artefact[Rle]]:
    """The files that `--write` names, and with `--instances` a label image and a table of their own."""
    keep = frozenset({PROBABILITY})
    kinds = choose(settings.write, KINDS, DEFAULT)
    needs = keep if kinds - {"mask"} else frozenset[str]()
    found = [Artefact("files", needs, CellsFiles(kinds, settings.mpp))] if kinds else []
    return [*found, Artefact("instances", keep, _write_instances)] if settings.instances else found


def summarise(out: Path, answers: Mapping[str, Rle], settings: CellsSettings) -> tuple[str, ...]:
    """Join the tables of all images."""
    join_tables(out, list(answers), mpp=settings.mpp)
    return ()


def _write_instances(out: Path, case: Case, _image: RowReader, prediction: Prediction[Rle]) -> None:
    certainty, watershed = prediction.artefacts[PROBABILITY], prediction.artefacts[WATERSHED]
    write_instances(out / INSTANCES / case.path.stem, prediction.answer, certainty, watershed)
