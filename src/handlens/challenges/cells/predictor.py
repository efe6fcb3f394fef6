"""The predictor of cells: the shipped network, or one that `handlens train cells` made, over tiles and orientations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import choose
from handlens.challenges.cells.baseline import Otsu
from handlens.challenges.cells.decision import CellsDecision, Rows
from handlens.challenges.cells.files import DEFAULT, KINDS, CellsFiles, join_tables
from handlens.challenges.cells.instances import INSTANCES, write_instances
from handlens.challenges.cells.options import SHIPPED, CellsSettings
from handlens.challenges.cells.result import CellsResult
from handlens.challenges.cells.score import ORDER
from handlens.errors import counted
from handlens.inference.model import Model, open_model
from handlens.inference.session import Segmenter, open_segmenter
from handlens.inference.tiling import Tiling
from handlens.inference.tiling import predict as predict_tiles
from handlens.inference.values import as_rgb
from handlens.io.row_reader import RowReader, in_memory, opened
from handlens.masks.rle import Rle, encode
from handlens.types import ALONE, Artefact, Case, Context, Effort, Prediction, Work, full_effort

PROBABILITY = "probability"
"""Artefact: the probability of every pixel in 255 steps, (H, W) uint8, as it was compared with the threshold."""

SPARSE_OVERLAP, SPARSE_COST = 64, 0.8
"""Pixels that tiles share at the lowest effort, and its cost: of the tiles' area on 4000 x 4000 pixels."""


@dataclass(frozen=True, slots=True)
class CellsPredictor:
    """A segmentation network and its decision; reads an image row by row and keeps nothing between images.

    Artefacts: `probability`.
    """

    segmenter: Segmenter
    decision: CellsDecision
    turns: int
    model: Model | None = None
    tiling: Tiling = field(default_factory=Tiling)

    def decode(self, case: Case, /) -> AbstractContextManager[RowReader]:
        return opened(case.path)

    def infer(self, image: RowReader, work: Work = ALONE, /) -> Iterator[Rows]:
        """Bands of probabilities, from the top, before the decision."""
        return predict_tiles(image, self.segmenter, tiling=self.tiling, turns=self.turns, work=work)

    def predict(self, image: RowReader, work: Work = ALONE, /) -> Prediction[Rle]:
        kept = np.empty(image.shape, np.uint8) if PROBABILITY in work.keep else None

        def keep(top: int, rows: npt.NDArray[np.float32]) -> None:
            if kept is not None:
                np.rint(rows * 255, out=kept[top : top + len(rows)], casting="unsafe")

        cells = self.decision.apply(self.infer(image, work), image.shape, keep)
        return Prediction(cells, {} if kept is None else {PROBABILITY: kept})

    def __call__(self, value: Any, /) -> CellsResult:
        return _call(self, value)


@dataclass(frozen=True, slots=True)
class OtsuPredictor:
    """Otsu's threshold on the haematoxylin channel: the baseline. Artefacts: `probability`, 0 or 255."""

    otsu: Otsu = field(default_factory=Otsu)
    model: Model | None = None

    def decode(self, case: Case, /) -> AbstractContextManager[RowReader]:
        return opened(case.path)

    def predict(self, image: RowReader, work: Work = ALONE, /) -> Prediction[Rle]:
        mask = self.otsu.segment(image.read(0, image.shape[0]))
        kept = {PROBABILITY: mask.view(np.uint8) * np.uint8(255)} if PROBABILITY in work.keep else {}
        return Prediction(encode(mask, order=ORDER), kept)

    def __call__(self, value: Any, /) -> CellsResult:
        return _call(self, value)


def _call(predictor: CellsPredictor | OtsuPredictor, value: Any) -> CellsResult:
    """The result for an image in memory."""
    image = as_rgb(value)
    prediction = predictor.predict(in_memory(image), Work(keep=frozenset({PROBABILITY})))
    return CellsResult(image, prediction.answer, prediction.artefacts[PROBABILITY])


def load(context: Context[Rle, CellsSettings]) -> CellsPredictor:
    """The named model, or the shipped one."""
    model = open_model(context.model or SHIPPED, challenge="cells")
    decision = model.decision(CellsDecision)
    turns = context.settings.turns or decision.turns
    return CellsPredictor(
        open_segmenter(model.file, threads=context.threads, untrusted=context.untrusted), decision, turns, model
    )


def efforts(predictor: CellsPredictor | OtsuPredictor) -> list[Effort[Rle]]:
    """Fewer orientations, and at last tiles that share less; time goes with their number, as measured."""
    if isinstance(predictor, OtsuPredictor):
        return list(full_effort(predictor))
    full, fewer = predictor.turns, [turns for turns in (1, 2, 4) if turns < predictor.turns]
    sparse = replace(predictor, turns=1, tiling=Tiling(overlap=SPARSE_OVERLAP))
    return [
        Effort("1 turn, sparse tiles", SPARSE_COST / full, sparse),
        *(Effort(counted(turns, "turn"), turns / full, replace(predictor, turns=turns)) for turns in fewer),
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
    write_instances(out / INSTANCES / case.path.stem, prediction.answer, prediction.artefacts[PROBABILITY])
