"""Cells on images that its network was not trained on: other laboratories, other magnifications, fluorescence.

python bench/cells_elsewhere.py                 all; half an hour on one core
python bench/cells_elsewhere.py --only fluorescence   laboratories, turns, magnification, geojson
python bench/cells_elsewhere.py --only tissue    stained tissue of BBBC038 by the networks alone
python bench/cells_elsewhere.py --run RUN       CPM17 out of fold, of a training on the 37 and CPM17; then tissue
python bench/cells_elsewhere.py --quick         every seventh image, to see that it works

`laboratories` fits the threshold that slides give themselves on one half of CPM17 (and half of the training slides, as
the network that ships predicts them) and reports the other half, then exchanges the halves.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from handlens.challenges.cells import data
from handlens.challenges.cells.baseline import Otsu
from handlens.challenges.cells.calibration import SlideCurve, fit_slide_threshold
from handlens.challenges.cells.decision import CellsDecision, SlideThreshold
from handlens.challenges.cells.domain import look
from handlens.challenges.cells.files import CellsFiles
from handlens.challenges.cells.instances import paint_labels, split_cells
from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.predictor import OTHERS_WEIGHT, PROBABILITY, WATERSHED, CellsPredictor, load
from handlens.challenges.cells.score import ORDER
from handlens.challenges.cells.slide import slide_in_memory
from handlens.challenges.cells.splitting import Watershed
from handlens.inference.ensemble import average_log_odds
from handlens.inference.session import open_segmenter
from handlens.io import images
from handlens.io.row_reader import in_memory
from handlens.masks.rle import decode, encode
from handlens.runstore.plan import Plan, read_plan
from handlens.training.folds import Predictions
from handlens.types import Case, Context, Prediction, Work

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
KEEP = Work(keep=frozenset({PROBABILITY}))
Row = tuple[str, str, str]


def dice(said: np.ndarray, true: np.ndarray) -> float:
    return float(2 * (said & true).sum() / max(1, said.sum() + true.sum()))


def overlaps(said: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels that each object shares with each true one, and the areas of both."""
    counts = np.zeros((int(said.max()) + 1, int(true.max()) + 1))
    np.add.at(counts, (said.ravel(), true.ravel()), 1)
    return counts[1:, 1:], counts.sum(1)[1:], counts.sum(0)[1:]


def f1_at_half(said: np.ndarray, true: np.ndarray) -> float:
    """F1 of objects that overlap by more than half of their union."""
    shared, first, second = overlaps(said, true)
    union = first[:, None] + second[None, :] - shared
    hits = int((shared > 0.5 * union).sum())
    return 2 * hits / max(1, int((first > 0).sum() + (second > 0).sum()))


def jaccard(said: np.ndarray, true: np.ndarray) -> float:
    """The aggregated Jaccard index of Kumar and others."""
    shared, first, second = overlaps(said, true)
    union = first[:, None] + second[None, :] - shared
    taken = np.zeros(len(first), bool)
    both = either = 0.0
    for column in np.flatnonzero(second):
        ratios = shared[:, column] / np.maximum(union[:, column], 1)
        best = int(ratios.argmax()) if len(ratios) else -1
        if best < 0 or not shared[best, column]:
            either += second[column]
            continue
        both, either = both + shared[best, column], either + union[best, column]
        taken[best] = True
    return float(both / max(1.0, either + first[~taken].sum()))


def labels_of(prediction: Prediction[Any]) -> np.ndarray:
    found = prediction.artefacts
    return paint_labels(split_cells(prediction.answer, found[PROBABILITY], found[WATERSHED])).astype(np.int64)


def otsu_and_watershed(brightness: np.ndarray) -> np.ndarray:
    """As most people begin: Otsu's threshold, distances, their maxima, watershed."""
    from scipy import ndimage
    from skimage.feature import peak_local_max
    from skimage.segmentation import watershed

    mask = brightness > cv2.threshold(brightness, 0, 255, cv2.THRESH_OTSU)[0]
    distance = ndimage.distance_transform_edt(mask)
    peaks = peak_local_max(distance, min_distance=5, labels=ndimage.label(mask)[0])
    markers = np.zeros(mask.shape, int)
    markers[tuple(peaks.T)] = np.arange(1, len(peaks) + 1)
    return np.asarray(watershed(-distance, markers, mask=mask), np.int64)


# --- other laboratories -------------------------------------------------------------------------------------------


def curve_of(predictor: CellsPredictor, picture: np.ndarray, mask: np.ndarray) -> SlideCurve:
    whole = np.concatenate([rows for _, rows in predictor.infer(in_memory(picture))])
    return SlideCurve.of(whole, mask.astype(np.uint8), predictor.decision.threshold)


def laboratories(every: int) -> Iterator[Row]:
    predictor = replace(load(Context(CellsSettings(), threads=1)), others=None)  # the network of the 37 alone
    others = read_numbered(every)
    truth = data.open_truth(DATA / "cells" / "train", CellsSettings())
    own = []
    for case in truth.cases[::every]:
        mask = images.read_mask(case.path.parents[1] / "mask" / case.path.name)
        own.append(curve_of(predictor, images.read_rgb(case.path), mask))
    curves = [curve_of(predictor, picture, numbers > 0) for picture, numbers in others]
    table = []
    for half in (0, 1):
        rule = fit_slide_threshold(own[half::2], curves[half::2])
        asked = replace(predictor, decision=predictor.decision.replace(slide=rule))
        for picture, numbers in others[1 - half :: 2]:
            prediction = asked.predict(slide_in_memory(picture), KEEP)
            said, true = labels_of(prediction), numbers > 0
            fixed = predictor.decision.replace(slide=None)
            before = dice(replace(predictor, decision=fixed)(picture).mask, true)
            recall = float(((said > 0) & true).sum() / true.sum())
            otsu = dice(Otsu().segment(picture), true)
            table.append(
                (dice(said > 0, true), recall, jaccard(said, numbers), f1_at_half(said, numbers), before, otsu)
            )
    values = np.mean(table, axis=0)
    bars = (">= 0.85", ">= 0.85", ">= 0.62", ">= 0.78", "shown", "shown")
    names = ("Dice", "recall", "AJI", "F1 at IoU 0.5", "Dice at the contest's threshold", "Dice of Otsu")
    for name, value, bar in zip(names, values, bars, strict=True):
        yield f"CPM17, {len(table)} images, halves exchanged: {name}", f"{value:.4f}", bar
    slide = predictor.decision.slide
    if slide is not None:
        lost = np.mean([each.at(predictor.decision.threshold) - each.at(slide.threshold(each.share)) for each in own])
        what = "training slides given as one's own, network in-sample: Dice lost"
        yield what, f"{lost:.4f}", "shown"


def measure_run(run: Path) -> Iterator[Row]:
    """CPM17 out of fold of a training on it and on the 37, beside the network of the 37, which has not seen it.

    Both networks together answer for slides that are not the contest's. The rule for their threshold is fitted on the
    other folds; the one fitted on all folds, which the second model has, is printed.
    """
    plan, predictions = read_plan(run), Predictions(run, len(read_plan(run).ids))
    alone = replace(load(Context(CellsSettings(), threads=1)), others=None)
    decision = CellsDecision.parse(plan.results["decision"])
    for name, weight in (("both networks", OTHERS_WEIGHT), ("the second alone", 1.0), ("the first alone", 0.0)):
        maps, numbers = {}, {}
        for index, id in enumerate(plan.ids):
            picture, numbers[id] = read_one(id)
            first = np.concatenate([rows for _, rows in alone.infer(in_memory(picture))])
            maps[id] = average_log_odds(first, predictions[index], weight)
        yield from measure_maps(f"{name}, {run.name}", plan, decision, maps, numbers)
    own = [plan.results["scores"][id] for id in plan.ids if "/" not in id]
    yield f"the {len(own)} out of fold of {run.name}: Dice", f"{np.mean(own):.4f}", "shown"


def measure_maps(
    name: str,
    plan: Plan,
    decision: CellsDecision,
    maps: dict[str, np.ndarray],
    numbers: dict[str, np.ndarray],
) -> Iterator[Row]:
    curves = {
        id: SlideCurve.of(each, (numbers[id] > 0).astype(np.uint8), decision.threshold) for id, each in maps.items()
    }
    fold_of = dict(zip(plan.ids, plan.fold_of, strict=True))

    def fit(without: int | None) -> SlideThreshold:
        used = [id for id in plan.ids if fold_of[id] != without]
        return fit_slide_threshold(*([curves[id] for id in used if ("/" in id) == other] for other in (False, True)))

    rules = {fold: fit(fold) for fold in sorted(set(plan.fold_of))}
    table = []
    for id in [id for id in plan.ids if "/" in id]:
        asked, true = decision.replace(slide=rules[fold_of[id]]), numbers[id] > 0
        answer = asked.apply([(0, maps[id].copy())], (true.shape[0], true.shape[1]), contest=False)
        levels = np.rint(maps[id] * 255).astype(np.uint8)
        said = paint_labels(split_cells(answer, levels, Watershed())).astype(np.int64)
        recall = float(((said > 0) & true).sum() / true.sum())
        table.append((dice(said > 0, true), recall, jaccard(said, numbers[id]), f1_at_half(said, numbers[id])))
    for what, value in zip(("Dice", "recall", "AJI", "F1 at IoU 0.5"), np.mean(table, axis=0), strict=True):
        yield f"CPM17, {len(table)} images, {name}: {what}", f"{value:.4f}", "shown"
    rule = fit(None)
    yield f"rule, {name}", f"{rule.offset:g}, {rule.slope:g}", "shown"


def read_one(id: str) -> tuple[np.ndarray, np.ndarray]:
    """An image of a training on the 37 and CPM17, and the number of every nucleus; of the 37 1 for all."""
    if "/" in id:
        path = DATA / "cells_more" / "cpm17" / "im" / f"{id.split('/')[1]}.png"
        return images.read_rgb(path), data.read_numbers(path.parents[1] / "labels" / path.name).astype(int)
    path = DATA / "cells" / "train" / "im" / f"{int(id):02d}.png"
    return images.read_rgb(path), images.read_mask(path.parents[1] / "mask" / path.name).astype(int)


def measure_tissue(run: Path | None, every: int) -> Iterator[Row]:
    """Stained tissue of BBBC038, which no training here has seen, by the networks alone."""
    folder = DATA / "forgery" / "sources"
    both = load(Context(CellsSettings(), threads=1))
    asked = {"network of the 37": replace(both, others=None)}
    if both.others is not None:
        asked["both networks"] = both.others
    if run is not None:
        plan = read_plan(run)
        decision = CellsDecision.parse(plan.results["decision"])
        asked[run.name] = CellsPredictor(open_segmenter(run / "model.onnx", threads=1), decision, decision.turns)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
    for path in images.list_images(folder / "microscopy")[::every]:
        picture = images.read_rgb(path)
        if "stain" not in look(in_memory(picture)).kind:
            continue
        true = data.read_numbers(folder / "microscopy_objects" / path.name) > 0
        for name, predictor in asked.items():
            whole = np.concatenate([rows for _, rows in predictor.infer(in_memory(picture))])
            answer = predictor.decision.apply([(0, whole.copy())], (true.shape[0], true.shape[1]), contest=False)
            said = decode(answer, (true.shape[0], true.shape[1]), order=ORDER)
            best = SlideCurve.of(whole, true.astype(np.uint8), predictor.decision.threshold).dice.max()
            found[name].append((dice(said, true), float(best)))
    for name, rows in found.items():
        values = np.mean(rows, axis=0)
        shown = f"{values[0]:.4f} ({values[1]:.4f})"
        yield f"BBBC038, {len(rows)} of stained tissue, {name}: Dice (best threshold)", shown, "shown"


def read_numbered(every: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images of CPM17 with the number of every nucleus."""
    folder = DATA / "cells_more" / "cpm17"
    paths = images.list_images(folder / "im")[::every]
    return [(images.read_rgb(path), data.read_numbers(folder / "labels" / path.name).astype(int)) for path in paths]


def turns(every: int) -> Iterator[Row]:
    """What fewer orientations cost, in Dice and in time of the processor."""
    values: dict[int, list[float]] = {1: [], 2: [], 8: []}
    seconds = dict.fromkeys(values, 0.0)
    predictors = {count: load(Context(CellsSettings(turns=count), threads=1)) for count in (1, 2, 8)}
    for picture, numbers in read_numbered(every):
        for count, predictor in predictors.items():
            values[count].append(dice(predictor(picture).mask, numbers > 0))
    picture = images.read_rgb(images.list_images(DATA / "cells" / "train" / "im")[0])
    for count, predictor in predictors.items():
        started = time.process_time()
        predictor.predict(slide_in_memory(picture))
        seconds[count] = time.process_time() - started
    for count, found in values.items():
        lost = np.mean(values[8]) - np.mean(found)
        bar = "<= 0.002" if count == 2 else "shown"
        yield f"{count} orientations: Dice lost against 8", f"{lost:.4f}", bar
        bar = "<= 2.4 (2 threads: 1.2)" if count == 2 else "shown"
        yield f"{count} orientations: 1000x1000, seconds of processor", f"{seconds[count]:.2f}", bar


def magnification(every: int) -> Iterator[Row]:
    """Half and double size, as 20x and 80x, against the same image at 40x."""
    values: dict[str, list[float]] = {"40x": [], "half": [], "double": [], "half, unsaid": []}
    for picture, numbers in read_numbered(every):
        true = numbers > 0
        values["40x"].append(dice(load_at(0.25)(picture).mask, true))
        for name, factor, mpp in (("half", 0.5, 0.5), ("double", 2.0, 0.125), ("half, unsaid", 0.5, None)):
            how = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
            small = np.asarray(cv2.resize(picture, None, fx=factor, fy=factor, interpolation=how), np.uint8)
            mask = load_at(mpp)(small).mask.astype(np.float32)
            back = cv2.resize(mask, true.shape[::-1], interpolation=cv2.INTER_LINEAR) > 0.5
            values[name].append(dice(back, true))
    reference = np.mean(values["40x"])
    for name in ("half", "double", "half, unsaid"):
        bar = "shown" if "," in name else "<= 0.02"
        yield f"{name} size, Dice lost against 40x", f"{reference - np.mean(values[name]):.4f}", bar


def load_at(mpp: float | None) -> CellsPredictor:
    return load(Context(CellsSettings(mpp=mpp, turns=1), threads=1))


# --- other microscopes --------------------------------------------------------------------------------------------


def fluorescence(every: int) -> Iterator[Row]:
    folder = DATA / "forgery" / "sources"
    predictor = load(Context(CellsSettings(turns=1), threads=1))
    found: dict[str, list[tuple[float, ...]]] = {}
    for path in images.list_images(folder / "microscopy")[::every]:
        picture = images.read_rgb(path)
        true = data.read_numbers(folder / "microscopy_objects" / path.name).astype(int)
        kind = look(in_memory(picture)).kind
        said = labels_of(predictor.predict(slide_in_memory(picture), KEEP))
        plain = otsu_and_watershed(picture.max(axis=2) if kind == "fluorescence" else 255 - picture.min(axis=2))
        pairs = [(dice(each > 0, true > 0), f1_at_half(each, true)) for each in (said, plain)]
        row = (*pairs[0], *pairs[1])
        for name in (kind, "bright-field with a stain") if "stain" in kind else (kind,):
            found.setdefault(name, []).append(row)
    for name, rows in found.items():
        ours, f1, otsu, plain_f1 = np.mean(rows, axis=0)
        yield f"{name}, {len(rows)} images: Dice (Otsu)", f"{ours:.4f} ({otsu:.4f})", "shown"
        yield f"{name}: F1 at IoU 0.5 (Otsu, watershed)", f"{f1:.4f} ({plain_f1:.4f})", ">= +0.05"


def geojson(every: int) -> Iterator[Row]:
    """All files of a slide with 50,000 nuclei, from the mask on."""
    side = 230 // every
    nucleus = np.zeros((30, 30), bool)
    nucleus[np.hypot(*np.mgrid[-15:15, -15:15]) < 11] = True
    mask = np.tile(nucleus, (side, side))
    prediction = Prediction(
        encode(mask, order="rows"), {PROBABILITY: mask.view(np.uint8) * np.uint8(255), WATERSHED: Watershed()}
    )
    image = in_memory(np.full((*mask.shape, 3), 200, np.uint8))
    with tempfile.TemporaryDirectory() as name:
        started = time.process_time()
        CellsFiles(frozenset({"geojson"}))(Path(name), Case("slide", Path("slide.png")), image, prediction)
        seconds = time.process_time() - started
    yield f"GeoJSON of {side * side:,} nuclei, seconds of processor", f"{seconds:.1f}", "< 10"


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "tissue": partial(measure_tissue, None),
    "laboratories": laboratories,
    "turns": turns,
    "magnification": magnification,
    "fluorescence": fluorescence,
    "geojson": geojson,
}


def print_rows(only: str | None, every: int) -> None:
    for name, part in PARTS.items():
        if only in (None, name):
            print_table(part(every))


def print_table(rows: Iterator[Row]) -> None:
    for what, value, bar in rows:
        print(f"{what:70}{value:>18}  {bar}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(PARTS), help="one part of it")
    parser.add_argument("--quick", action="store_true", help="every seventh image")
    parser.add_argument("--run", type=Path, help="a finished training on the 37 and CPM17")
    given = parser.parse_args()
    every = 7 if given.quick else 1
    if given.run:
        print_table(measure_run(given.run))
        print_table(measure_tissue(given.run, every))
    else:
        print_rows(given.only, every)


if __name__ == "__main__":
    main()
