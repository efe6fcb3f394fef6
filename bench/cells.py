"""How good cells are solved, how fast, and in how much memory; beside torch with MONAI's sliding window.

python bench/cells.py                                     the model that is included; about ten minutes on two cores
python bench/cells.py --run RUN --scratch RUN             two trainings, with and without ImageNet weights
python bench/cells.py --minutes 50 --work FOLDER          make these two trainings first, that many minutes each
python bench/cells.py --elsewhere                         then also other laboratories, magnifications and microscopes
python bench/cells.py --only speed                        a slide of 1000x1000 from file to mask, two threads; seconds
python bench/cells.py --quick                             see that it works: a small picture, few repetitions

It needs what `pip install .[bench]` installs.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cells_elsewhere
import numpy as np

from handlens.challenges.cells import data, score
from handlens.challenges.cells.options import INCLUDED_MODEL, CellsSettings
from handlens.challenges.cells.predictor import CellsPredictor, load, load_baseline
from handlens.challenges.cells.sample import make_slide
from handlens.inference.session import open_segmenter
from handlens.inference.tiling import Tiling, predict
from handlens.io import images
from handlens.io.row_reader import in_memory
from handlens.masks.metrics import compare, dice
from handlens.types import Case, Context

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "cells" / "train"
THREADS = 2
BIG = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    found: str
    bar: str
    note: str = ""


# --- what a training says -----------------------------------------------------------------------------------------


def train(folder: Path, run: Path, minutes: float, *changes: str) -> Path:
    """Run the command, or go on with a run that was stopped."""
    if not (run / "run.json").exists():
        command = ["train", "cells", str(folder), "-o", str(run), "--minutes", str(minutes)]
        command += [part for change in changes for part in ("--set", change)]
        print("handlens", *command, file=sys.stderr)
        subprocess.run([sys.executable, "-c", "from handlens.cli import main; main()", *command], check=True)
    return run


def read_plan(run: Path | None) -> dict[str, Any]:
    """The numbers of a training; none where it is not there, or was not finished."""
    try:
        page = json.loads((run / "plan.json").read_text()) if run else {}
    except FileNotFoundError:
        page = {}
    return page if page.get("finished") else {}


def describe(plan: dict[str, Any], missing: str) -> str:
    if not plan:
        return missing
    values = list(plan["scores"].values())
    return (
        f"{plan['folds']} folds, {plan['minutes']:g} min in all, {plan['steps']} steps a fold; "
        f"slides {min(values):.3f} to {max(values):.3f}"
    )


def measure_trainings(run: Path | None, scratch: Path | None) -> Iterator[Row]:
    learned, from_nothing = read_plan(run), read_plan(scratch)
    number = f"{learned['score']:.4f}" if learned else "-"
    yield Row("Dice out of fold, nested threshold", number, ">= 0.83", describe(learned, "no finished run"))
    number = f"{from_nothing['score']:.4f}" if from_nothing else "-"
    missing = "handlens train cells DATA -o RUN --minutes M --set weights=scratch, then --scratch RUN"
    yield Row("the same without ImageNet weights", number, "shown", describe(from_nothing, missing))
    share = f"{learned['waiting']:.1%}" if learned else "-"
    yield Row("training step: waiting for data", share, "< 10 %", "mean over all steps of the run")


def measure_baseline(folder: Path, every: int) -> Iterator[Row]:
    """Otsu's threshold, which learns nothing."""
    if not folder.is_dir():
        return
    truth = data.open_truth(folder, CellsSettings())
    predictor = load_baseline(Context(CellsSettings()))
    cases = truth.cases[::every]
    values = []
    for case in cases:
        with predictor.decode(case) as image:
            answer = predictor.predict(image).answer
        values.append(dice(compare(answer, truth.read(case)), empty=score.EMPTY_DICE))
    yield Row(
        "baseline: Otsu's threshold, same slides", f"{statistics.fmean(values):.4f}", "shown", f"{len(cases)} slides"
    )


# --- time ---------------------------------------------------------------------------------------------------------


def in_turn(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Best seconds of each, taken in turn, so that other programs disturb all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - started)
    return {name: min(values) for name, values in times.items()}


def measure_time(picture: np.ndarray, repeats: int) -> Iterator[Row]:
    """One network with first weights, exported: the same numbers through both programs."""
    import torch

    from handlens.challenges.cells.network import LightUNet
    from handlens.challenges.cells.training import graph
    from handlens.training.encoders import make_encoder
    from handlens.training.export import export

    try:
        from monai.inferers import sliding_window_inference
    except ModuleNotFoundError:
        sliding_window_inference = None

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    exported = graph(LightUNet(make_encoder("lite0", "imagenet")).eval())
    with tempfile.TemporaryDirectory() as name:
        export(exported, Path(name) / "model.onnx", facts={})
        segmenter = open_segmenter(Path(name) / "model.onnx", threads=THREADS)
    pixels = torch.from_numpy(picture).permute(2, 0, 1)[None]

    def ours(turns: int) -> np.ndarray:
        bands = predict(in_memory(picture), segmenter, tiling=Tiling(), turns=turns)
        return np.concatenate([band for _, band in bands])

    def window(part: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = exported.module(part.permute(0, 2, 3, 1).to(torch.uint8))[:, None]
        return answer

    def theirs(side: int) -> np.ndarray:
        with torch.inference_mode():
            found = sliding_window_inference(pixels.float(), (side, side), 1, window, overlap=0.25, mode="gaussian")
        return np.asarray(found[0, 0])

    works: dict[str, Callable[[], object]] = {"ours": lambda: ours(1)}
    note = f"{THREADS} threads, best of {repeats}"
    if sliding_window_inference is not None:
        works |= {"512": lambda: theirs(512), "1024": lambda: theirs(1024)}
        apart = float(np.abs(ours(1) - theirs(512)).mean())
        note = f"{note}; the two differ by {apart:.4f} a pixel on average"
    best = in_turn(works, repeats)
    size = images.shown(picture.shape[:2])
    yield Row(f"inference, {size}, no turns", f"{best['ours']:.3f} s", "<= 0.6 s", note)
    if sliding_window_inference is None:
        yield Row("torch, MONAI windows, same process", "-", ">= 2x", "MONAI is not installed: pip install .[bench]")
    for side in [name for name in works if name != "ours"]:
        what = f"torch, MONAI windows of {side}, same process"
        yield Row(
            what, f"{best[side]:.3f} s, {best[side] / best['ours']:.1f}x", ">= 2x", "overlap 0.25, Gaussian weights"
        )
    for turns, bar in ((2, "<= 1.2 s"), (8, "shown")):
        turned = in_turn({"ours": partial(ours, turns)}, 1 if turns == 8 else repeats)["ours"]
        yield Row(f"inference, {size}, {turns} turns", f"{turned:.2f} s", bar)


def measure_speed(picture: np.ndarray, repeats: int, model: Path | None) -> Iterator[Row]:
    """From the file of a slide to its mask, by the model that is measured; its network alone is `time`."""
    predictor = load(Context(CellsSettings(), model=model, threads=THREADS))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "slide.png"
        images.write_png(path, picture)
        case = images.picture_case("slide", path)
        for turns in (1, predictor.turns):
            work = partial(solve_once, replace(predictor, turns=turns), case)
            work()  # the first allocates
            clock, processor = zip(*(timed(work) for _ in range(repeats)), strict=True)
            bar = "<= 1.2 s" if turns == predictor.turns else "shown"
            note = f"{THREADS} threads, best of {repeats}; {min(processor):.2f} s of processor time"
            yield Row(
                f"slide to mask, {images.shown(picture.shape[:2])}, {turns} turns", f"{min(clock):.2f} s", bar, note
            )


def solve_once(predictor: CellsPredictor, case: Case) -> None:
    with predictor.decode(case) as image:
        predictor.predict(image)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


# --- memory -------------------------------------------------------------------------------------------------------

SOLVE = """
import re, sys, time
from pathlib import Path
from handlens import pipeline, registry
cells = registry.challenge("cells")
model = Path(sys.argv[3]) if len(sys.argv) > 3 else None
started = time.perf_counter()
settings = cells.settings(turns=1, instances=True)
pipeline.solve(cells, Path(sys.argv[1]), Path(sys.argv[2]), model=model, settings=settings)
seconds = time.perf_counter() - started
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], seconds)
"""


def write_big(path: Path, slides: list[np.ndarray], side: int) -> None:
    """Slides side by side: a tiled TIFF with JPEG inside, as scanners write it, or a PNG."""
    size = slides[0].shape[0]
    count = -(-side // size)
    lines = [
        np.concatenate([slides[(line * count + column) % len(slides)] for column in range(count)], axis=1)[:, :side]
        for line in range(count)
    ]
    picture = np.concatenate(lines)[:side]
    if path.suffix == ".png":
        images.write_png(path, picture)
        return
    import tifffile

    tifffile.imwrite(path, picture, tile=(256, 256), compression="jpeg", photometric="rgb")


def measure_memory(slides: list[np.ndarray], side: int, model: Path | None) -> Iterator[Row]:
    """Peak of a program that solves one picture, instances too; in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        for kind in ("tif", "png"):
            path = Path(name) / f"big.{kind}"
            write_big(path, slides, side)
            command = [sys.executable, "-c", SOLVE, str(path), str(Path(name) / kind), *([str(model)] if model else [])]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            kilobytes, seconds = done.stdout.split()
            what = f"peak memory, {side:,} x {side:,} {'TIFF' if kind == 'tif' else 'PNG'}"
            note = f"no turns, instances too, {float(seconds):.0f} s"
            yield Row(what, f"{int(kilobytes) / 1024:,.0f} MB", "< 2 GB", note)


# --- all ----------------------------------------------------------------------------------------------------------


def read_slides(folder: Path, count: int) -> list[np.ndarray]:
    """Real slides where they are, otherwise made-up ones."""
    if folder.is_dir():
        return [images.read_rgb(path) for path in images.list_images(folder / "im")[:count]]
    return [make_slide(np.random.default_rng(seed), 1000)[0] for seed in range(min(count, 4))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=REAL, help="folder with im/ and mask/")
    parser.add_argument("--run", type=Path, help="a finished training  [default: the included model]")
    parser.add_argument("--scratch", type=Path, help="a finished training with --set weights=scratch")
    parser.add_argument("--minutes", type=float, help="make both trainings first, that many minutes each")
    parser.add_argument("--work", type=Path, default=Path("bench-cells"), help="folder for them")
    parser.add_argument("--elsewhere", action="store_true", help="also what bench/cells_elsewhere.py prints")
    parser.add_argument("--only", choices=("trainings", "baseline", "speed", "time", "memory"), help="one part of it")
    parser.add_argument("--quick", action="store_true", help="small and rough")
    given = parser.parse_args()
    if given.minutes:
        given.run = train(given.data, given.work / "imagenet", given.minutes)
        given.scratch = train(given.data, given.work / "scratch", given.minutes, "weights=scratch")
    slides = read_slides(given.data, 5 if given.quick else 37)
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "trainings": lambda: measure_trainings(given.run or INCLUDED_MODEL, given.scratch),
        "baseline": lambda: measure_baseline(given.data, 8 if given.quick else 1),
        "speed": lambda: measure_speed(slides[0], 1 if given.quick else 3, given.run),
        "time": lambda: measure_time(slides[0][:320, :320] if given.quick else slides[0], 1 if given.quick else 7),
        "memory": lambda: measure_memory(slides, 1_500 if given.quick else BIG, given.run),
    }
    for name, part in parts.items():
        if given.only in (None, name):
            for row in part():
                line = f"{row.what:46}{row.found:>16}  {row.bar:9} {row.note}"
                print(re.sub(r"\s+$", "", line), flush=True)
    if given.elsewhere:
        cells_elsewhere.print_rows(None, 7 if given.quick else 1)


if __name__ == "__main__":
    main()
