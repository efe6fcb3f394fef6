"""What the report shows of an image of cells: outlines of answer and truth, where they disagree, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import REPORT_DATA, choose, file_of
from handlens.challenges.cells.data import is_contest
from handlens.challenges.cells.decision import CellsDecision
from handlens.challenges.cells.files import DEFAULT, KINDS, CellsFiles, counted_objects
from handlens.challenges.cells.options import INCLUDED_MODEL, OTHER_SLIDES
from handlens.challenges.cells.predictor import LEVELS, MOST_LEVELS, PROBABILITY, WATERSHED
from handlens.challenges.cells.score import EMPTY_DICE
from handlens.challenges.cells.splitting import Watershed
from handlens.errors import DataError, counted
from handlens.inference.model import is_model, open_model
from handlens.io.files import replacing, write_text
from handlens.io.images import read_grey, write_png
from handlens.io.row_reader import RowReader, lasting
from handlens.masks.components import drop_small, fill_holes
from handlens.masks.metrics import compare, dice
from handlens.masks.rle import Rle, decode, encode, whole
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

SPLITTING = "watershed.json"
"""How touching nuclei of an image are split."""

SUREST = 0.001
"""Log-odds of probabilities nearer to 0 or 1 are those of this: levels have 255 steps."""


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


def found(answers: Mapping[str, Rle], _settings: CellsSettings) -> str:
    """In how many images there are nuclei."""
    some = sum(answer.area > 0 for answer in answers.values())
    return f"Nuclei in {some} of {counted(len(answers), 'image')}"


def everywhere(case: Case, _settings: CellsSettings) -> Rle:
    """The whole image as nuclei."""
    if case.shape is None:
        raise DataError("its size is not known: only a solution file was given")
    return whole(case.shape)


def keep_probability(out: Path, case: Case, _image: RowReader, prediction: Prediction[Rle]) -> None:
    """What a threshold is laid on, of images that are not too large to be changed at once, and how nuclei are split."""
    found = prediction.artefacts
    levels = found[LEVELS]
    if levels.size <= MOST_LEVELS:
        for name in (PROBABILITY,) if levels is found[PROBABILITY] else (PROBABILITY, LEVELS):
            with replacing(_file(out, case, f"{name}.png")) as temporary:
                write_png(temporary, found[name], level=1)
        write_text(_file(out, case, SPLITTING), json.dumps(asdict(found[WATERSHED])) + "\n")


def fitted_threshold(model: Path | None) -> float:
    return open_model(model or INCLUDED_MODEL, challenge="cells").decision(CellsDecision).threshold


def adjusted(out: Path, case: Case, said: Rle, value: float, model: Path | None, settings: CellsSettings) -> Rle:
    """The cells above another threshold, from the probabilities that were kept.

    An image that had a threshold of its own keeps it, moved as far as the value is from the fitted one (in log-odds).
    """
    by_network = not _file(out, case, f"{LEVELS}.png").is_file()
    levels = _kept(out, case, PROBABILITY if by_network else LEVELS)
    shape = levels.shape[0], levels.shape[1]
    own = _own_threshold(levels, along_rows(said, shape, settings.order))
    moved = _log_odds(value) - _log_odds(fitted_threshold(model)) if own is not None else 0.0
    mask = levels > 255 * (value if own is None else 1 / (1 + math.exp(-_log_odds(own) - moved)))
    decision = _decision_for(model or INCLUDED_MODEL, shape, contest=is_contest(case.path))
    filled = fill_holes(encode(mask, order="rows"), shape, largest=decision.largest_hole)
    return drop_small(filled, shape, smallest=decision.smallest if by_network else _splitting(out, case).smallest)


def write_adjusted(out: Path, target: Path, case: Case, answer: Rle, settings: CellsSettings) -> None:
    """The files that `--write` names, of a changed answer."""
    found = Prediction(answer, {PROBABILITY: _kept(out, case, PROBABILITY), WATERSHED: _splitting(out, case)})
    CellsFiles(choose(settings.write, KINDS, DEFAULT), settings.mpp)(target, case, lasting(case.path), found)


def _kept(out: Path, case: Case, name: str) -> npt.NDArray[np.uint8]:
    path = _file(out, case, f"{name}.png")
    if not path.is_file():
        raise DataError(f"more than {MOST_LEVELS:,} pixels: solve it again with another model", file=case.path)
    return read_grey(path)


def _splitting(out: Path, case: Case) -> Watershed:
    return Watershed(**json.loads(_file(out, case, SPLITTING).read_text(encoding="utf-8")))


def _own_threshold(levels: npt.NDArray[np.uint8], said: Rle) -> float | None:
    """The threshold that tells an answer's pixels from the others best; None where nothing was answered."""
    if not said.area:
        return None
    inside = np.bincount(levels[decode(said, (levels.shape[0], levels.shape[1]), order="rows")], minlength=256)
    outside = np.bincount(levels.ravel(), minlength=256) - inside
    return (float(np.argmin(np.cumsum(inside) - np.cumsum(outside))) + 0.5) / 255


def _log_odds(chance: float) -> float:
    chance = min(max(chance, SUREST), 1 - SUREST)
    return math.log(chance / (1 - chance))


def _decision_for(folder: Path, shape: Shape, *, contest: bool) -> CellsDecision:
    """The decision of the model that was asked about an image."""
    decision = open_model(folder, challenge="cells").decision(CellsDecision)
    if decision.follows_labels(shape, contest=contest) or not is_model(folder / OTHER_SLIDES):
        return decision
    return open_model(folder / OTHER_SLIDES, challenge="cells").decision(CellsDecision)


def _file(out: Path, case: Case, ending: str) -> Path:
    return file_of(out / REPORT_DATA, case, ending)
