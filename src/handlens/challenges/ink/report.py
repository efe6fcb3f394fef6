"""What the report shows of a fragment: from the slice over the probability to the label and the infrared photograph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import REPORT_DATA, choose, file_of
from handlens.challenges.ink.decision import InkDecision
from handlens.challenges.ink.files import KINDS, write_contours, write_mask
from handlens.challenges.ink.layout import find_files
from handlens.challenges.ink.maps import enlarge
from handlens.challenges.ink.options import FEW_SLICES, INCLUDED_MODEL
from handlens.challenges.ink.predictor import MAP, as_fragment
from handlens.challenges.ink.score import BETA, EMPTY_F, ONE_PIXEL, ORDER
from handlens.challenges.ink.window import FEW
from handlens.errors import DataError
from handlens.inference.model import Model, is_model, open_model
from handlens.io.files import replacing
from handlens.io.images import read_grey, read_mask, write_png
from handlens.masks.components import drop_small, join
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import Rle, decode_rows, encode, whole
from handlens.masks.showing import mask_layers, reasons
from handlens.types import Case, Prediction, Shape
from handlens.views import CaseView, Layer

if TYPE_CHECKING:
    from handlens.challenges.ink.options import InkSettings

Bytes = npt.NDArray[np.uint8]

INFRARED = "ir.png"
"""The infrared photograph of a training fragment, which shows the ink."""

WORDS = {
    "missed": "ink that was not answered",
    "mostly missed": "most of this ink was not answered",
    "extra": "no ink is here",
    "mostly extra": "most of this is no ink",
    "merged": "strokes that are apart, answered as one",
    "split": "one stroke, answered as several",
    "extent": "the stroke is too wide or too narrow",
}
SAMPLED_ROWS, SAMPLED_BANDS = 32, 4
"""Rows of a slice, and places, from which its darkest and brightest grey are taken."""

WHITE, BLACK = (255, 255, 255), (10, 10, 10)


def keep_map(out: Path, case: Case, _scan: Any, prediction: Prediction[Rle]) -> None:
    """The probability of every square of pixels as a small grey picture."""
    levels: Bytes = np.rint(prediction.artefacts[MAP] * 255).astype(np.uint8)
    with replacing(kept_file(out, case)) as temporary:
        write_png(temporary, levels)


def view(out: Path, case: Case, answer: Rle, label: Rle | None, _settings: InkSettings) -> CaseView:
    """The middle slice, what lies over it, and a slider through the pictures."""
    if case.path == Path():
        raise DataError("no slices: only a solution file was given")
    stack = as_fragment(case.path).stack
    shape, middle = stack.shape, stack.depth // 2

    def rows(top: int, bottom: int) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = stack.read_band(top, bottom, middle, middle + 1)[0]
        return found

    pictures = [Layer("slice", shape, _stretched(rows, shape))]
    kept = kept_file(out, case)
    if kept.is_file():
        pictures.append(_whole("probability", read_grey(kept)))
    if label is not None:
        pictures.append(_label_layer(label, shape))
    infrared = case.path / INFRARED
    if infrared.is_file():
        pictures.append(_whole("infrared", read_grey(infrared)))
    marks = mask_layers(answer, label, shape)
    share = answer.area / max(1, shape[0] * shape[1])
    lost = 0.0 if label is None else 1 - fbeta(compare(answer, label), beta=BETA, empty=EMPTY_F)
    return CaseView(
        (*pictures, *marks),
        () if label is None else tuple(reasons(answer, label, shape, lost, WORDS)),
        slide=tuple(layer.name for layer in pictures) if len(pictures) > 1 else (),
        words=f"ink on {100 * share:.1f} % of the picture" if label is None else "",
        facts={"slices": stack.depth, "share of ink": share},
    )


def everywhere(case: Case, _settings: InkSettings) -> Rle:
    """All papyrus as ink: what the mask leaves of the picture."""
    if case.shape is None:
        raise DataError("its size is not known: only a solution file was given")
    mask = find_files(case.path).mask if case.path != Path() else None
    return whole(case.shape) if mask is None else encode(read_mask(mask), order=ORDER)


def _stretched(read: Callable[[int, int], npt.NDArray[Any]], shape: Shape) -> Callable[[int, int], Bytes]:
    """Rows of a slice as bytes, its usual range of grey stretched; 0 stays black, as it lies outside."""
    tops = np.linspace(0, max(0, shape[0] - SAMPLED_ROWS), SAMPLED_BANDS).astype(int).tolist()
    sampled = np.concatenate([read(top, min(shape[0], top + SAMPLED_ROWS)).ravel() for top in dict.fromkeys(tops)])
    inside = sampled[sampled > 0]
    low, high = np.percentile(inside, (1, 99)) if len(inside) else (0.0, 1.0)

    def rows(top: int, bottom: int) -> Bytes:
        scaled = (read(top, bottom).astype(np.float32) - np.float32(low)) * np.float32(255 / max(1.0, high - low))
        found: Bytes = np.clip(scaled, 0, 255).astype(np.uint8)
        return found

    return rows


def _whole(name: str, pixels: Bytes) -> Layer:
    shape = pixels.shape[0], pixels.shape[1]
    return Layer(name, shape, lambda top, bottom: pixels[top:bottom])


def _label_layer(label: Rle, shape: Shape) -> Layer:
    """The label as a picture of its own: white ink on black."""
    return Layer(
        "label", shape, lambda top, bottom: 2 - decode_rows(label, shape, top, bottom).astype(np.uint8), (WHITE, BLACK)
    )


def _model_for(model: Path | None, slices: int) -> Model:
    """The model that was asked about a stack of so many slices."""
    folder = model or INCLUDED_MODEL
    few = folder / FEW_SLICES
    return open_model(few if slices < FEW and is_model(few) else folder, challenge="ink")


def fitted_threshold(model: Path | None) -> float:
    return open_model(model or INCLUDED_MODEL, challenge="ink").decision(InkDecision).threshold


def adjusted(out: Path, case: Case, _said: Rle, value: float, model: Path | None, _settings: InkSettings) -> Rle:
    """The ink above another threshold, from the map that was kept."""
    coarse = read_grey(kept_file(out, case)).astype(np.float32) / np.float32(255)
    scan = as_fragment(case.path)
    decision = _model_for(model, scan.stack.depth).decision(InkDecision).for_slices(scan.stack.depth)
    shape, bands = scan.stack.shape, []
    for top, rows in enlarge(coarse, shape):
        band = encode((rows > value) & scan.mask[top : top + len(rows)], order=ORDER)
        bands.append(Rle(band.starts + top * shape[1], band.lengths))
    ink = drop_small(join(bands), shape, smallest=decision.smallest)
    return ink if len(ink.starts) else ONE_PIXEL


def write_adjusted(_out: Path, target: Path, case: Case, answer: Rle, settings: InkSettings) -> None:
    """Mask and contours of a changed answer, where `--write` names them; the overlay shows probabilities."""
    kinds = choose(settings.write, KINDS, KINDS)
    for kind, write in (("mask", write_mask), ("contours", write_contours)):
        if kind in kinds:
            write(target, case, None, Prediction(answer))


def kept_file(out: Path, case: Case) -> Path:
    return file_of(out / REPORT_DATA, case, "map.png")
