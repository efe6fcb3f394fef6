"""What the report shows of an image of cells: outlines of answer and truth, where they disagree, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlens.artefacts import REPORT_DATA, file_of
from handlens.challenges.cells.data import is_contest
from handlens.challenges.cells.decision import CellsDecision
from handlens.challenges.cells.files import counted_objects
from handlens.challenges.cells.options import INCLUDED_MODEL, OTHER_SLIDES
from handlens.challenges.cells.predictor import PROBABILITY
from handlens.challenges.cells.score import EMPTY_DICE
from handlens.errors import DataError
from handlens.inference.model import is_model, open_model
from handlens.io.files import replacing
from handlens.io.images import read_grey, write_png
from handlens.io.row_reader import RowReader, lasting
from handlens.masks.components import drop_small, fill_holes
from handlens.masks.metrics import compare, dice
from handlens.masks.rle import Rle, encode, whole
from handlens.masks.showing import along_rows, mask_layers, reasons
from handlens.types import Case, Prediction, Shape
from handlens.views import CaseView, Layer

if TYPE_CHECKING:
    from handlens.challenges.cells.options import CellsSettings

WORDS = {
    "missed": "no cell was answered here",
    "mostly missed": "most of this cell was not answered",
    "extra": "there is no cell here",
    "mostly extra": "most of this is no cell",
    "merged": "cells that are apart, answered as one",
    "split": "one cell, answered as several",
    "extent": "the outline is too wide or too narrow",
}

MOST_PIXELS = 16_000_000
"""Of an image whose probabilities are kept, so that its threshold can be changed: 4000 x 4000."""


def view(out: Path, case: Case, answer: Rle, label: Rle | None, settings: CellsSettings) -> CaseView:
    """The image with outlines over it."""
    if case.shape is None:
        raise DataError(case.fault or "no picture: only a solution file was given", file=case.path)
    image = lasting(case.path)
    said = along_rows(answer, image.shape, settings.order)
    there = None if label is None else along_rows(label, image.shape, settings.order)
    layers = (Layer("image", image.shape, image.read), *mask_layers(said, there, image.shape))
    share = said.area / max(1, image.shape[0] * image.shape[1])
    if there is None:
        count = counted_objects(out, case)
        words = f"nuclei on {100 * share:.1f} % of the image"
        facts: dict[str, Any] = {} if count is None else {"nuclei": count}
        return CaseView(
            layers, words=words if count is None else f"{count:,} {words}", facts={**facts, "share of the image": share}
        )
    lost = 1 - dice(compare(said, there), empty=EMPTY_DICE)
    return CaseView(layers, tuple(reasons(said, there, image.shape, lost, WORDS)), facts={"share of the image": share})


def everywhere(case: Case, _settings: CellsSettings) -> Rle:
    """The whole image as nuclei."""
    if case.shape is None:
        raise DataError("its size is not known: only a solution file was given")
    return whole(case.shape)


def keep_probability(out: Path, case: Case, _image: RowReader, prediction: Prediction[Rle]) -> None:
    """The probability of every pixel in 255 steps, of images that are not too large to be changed at once."""
    levels = prediction.artefacts[PROBABILITY]
    if levels.size <= MOST_PIXELS:
        with replacing(kept_file(out, case)) as temporary:
            write_png(temporary, levels, level=1)


def fitted_threshold(model: Path | None) -> float:
    return open_model(model or INCLUDED_MODEL, challenge="cells").decision(CellsDecision).threshold


def adjusted(out: Path, case: Case, value: float, model: Path | None, settings: CellsSettings) -> Rle:
    """The cells above another threshold, from the probabilities that were kept."""
    path = kept_file(out, case)
    if not path.is_file():
        raise DataError(f"more than {MOST_PIXELS:,} pixels: solve it again with another model", file=case.path)
    mask = read_grey(path) > value * 255
    shape = mask.shape[0], mask.shape[1]
    decision = _decision_for(model or INCLUDED_MODEL, shape, contest=is_contest(case.path))
    filled = fill_holes(encode(mask, order="rows"), shape, largest=decision.largest_hole)
    return drop_small(filled, shape, smallest=decision.smallest)


def _decision_for(folder: Path, shape: Shape, *, contest: bool) -> CellsDecision:
    """The decision of the model that was asked about an image."""
    decision = open_model(folder, challenge="cells").decision(CellsDecision)
    if decision.follows_labels(shape, contest=contest) or not is_model(folder / OTHER_SLIDES):
        return decision
    return open_model(folder / OTHER_SLIDES, challenge="cells").decision(CellsDecision)


def kept_file(out: Path, case: Case) -> Path:
    return file_of(out / REPORT_DATA, case, "probability.png")
