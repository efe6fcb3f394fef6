"""How well ink is found, how fast, in how much memory, and what a kill costs; beside torch with MONAI's windows.

python bench/ink.py --make FOLDER          write what the included model learned from: FOLDER/phantom, FOLDER/real_layer
python bench/ink.py                        the included model on unseen fragments, real scans, and against MONAI
python bench/ink.py --big                  the same, and a phantom of 8181 x 6330 x 65: 6.7 GB, an hour or two in all
python bench/ink.py --model RUN            another model
python bench/ink.py --quick                see that it works: all rows, small

It needs what `pip install .[bench]` installs. Fragments are kept in --work and used again.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tifffile

import handlens
from handlens import pipeline, registry
from handlens.challenges.ink import baseline, data
from handlens.challenges.ink.layout import open_fragment
from handlens.challenges.ink.options import INCLUDED_MODEL
from handlens.challenges.ink.phantom import letters
from handlens.challenges.ink.predictor import open_network
from handlens.challenges.ink.reading import read_letters
from handlens.challenges.ink.sample import make_fragment, write_volume
from handlens.challenges.ink.tiles import Resources, predict
from handlens.challenges.ink.window import Surface, Window, find_surface
from handlens.inference.model import MODEL, is_model, open_model
from handlens.io import volumes
from handlens.io.images import read_mask, write_png
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import encode
from handlens.types import Case

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "ink"
THREADS = 2
UNSEEN = 9001
"""Seed of the fragments that are asked; those of --make have others."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Training fragments that are alike but for their seed."""

    seed: int
    count: int
    shape: tuple[int, int]
    slices: int = 24
    difficulty: float = 1.0
    flaked: float | None = None


TRAINING = (
    Kind(21, 2, (1024, 1024)),
    Kind(22, 2, (1024, 768), difficulty=1.5, flaked=0.3),
    Kind(23, 2, (1024, 768), slices=65),
)
"""What the included model learned from: ink of ordinary and of little strength, thin and thick stacks.

It began with the weights of a model that had learned from seeds 11 to 14.
"""

INK = registry.challenge("ink")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    found: str
    bar: str
    note: str = ""


# --- made-up fragments ----------------------------------------------------------------------------------------------


def make_training(folder: Path, maps: Path) -> None:
    """Fragments in the contest's layout, under `train/`, numbered; what is there already is left."""
    found = letters.find_maps(maps) if maps.is_dir() else []
    number = 0
    for kind in TRAINING:
        for index in range(kind.count):
            number += 1
            make_one(folder / "train" / str(number), (kind.seed, index), kind, found)
            print(f"{folder / 'train' / str(number)}: {kind}", file=sys.stderr, flush=True)


def make_one(place: Path, seed: tuple[int, ...], kind: Kind, maps: list[Path]) -> None:
    """One labelled fragment; a folder without its label is not whole, and made again."""
    if (place / "inklabels.png").is_file():
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    fragment = make_fragment(
        seed, kind.shape, slices=kind.slices, difficulty=kind.difficulty, maps=maps, flaked=kind.flaked
    )
    label, _ = write_volume(place, fragment)
    write_png(place / "inklabels.png", label)


LAYER_PIECES = {
    "train/first": (0, 600),
    "train/second": (632, 1232),
    "train/third": (1264, 1888),
    "test/right": (1920, 2560),
}
"""Columns of the real layer: a piece to learn from for each fold, and the quarter that nothing is learned from."""


def make_layer(folder: Path, real: Path) -> None:
    """Pieces of the real layer in the contest's layout, the right quarter with its label under `truth/`."""
    layer = cv2.imread(str(real / "32.jpg"), cv2.IMREAD_GRAYSCALE)
    label = read_mask(real / "inklabels.png")
    if layer is None:
        sys.exit(f"{real}: no 32.jpg there")
    for name, (left, right) in LAYER_PIECES.items():
        part, piece = name.split("/")
        place, truth = folder / name, folder / ("truth" if part == "test" else part) / piece
        for path in (place / "surface_volume", truth):
            path.mkdir(parents=True, exist_ok=True)
        tifffile.imwrite(place / "surface_volume" / "00.tif", np.ascontiguousarray(layer[:, left:right]))
        write_png(place / "mask.png", np.ones((len(layer), right - left), bool))
        write_png(truth / "inklabels.png", np.ascontiguousarray(label[:, left:right]))


def make_unseen(folder: Path, size: int, maps: Path, difficulty: float = 1.0) -> Path:
    """Three test fragments with their truth, and three to learn from for the baseline."""
    place = folder / f"unseen-{size}-{difficulty:g}"
    if not place.exists():
        settings = INK.settings(letters=maps if maps.is_dir() else None, difficulty=difficulty)
        pipeline.sample(INK, place, seed=UNSEEN, cases=3, size=size, settings=settings)
    return place


# --- the score ------------------------------------------------------------------------------------------------------


def measure_score(place: Path, model: Path, picture: Path | None) -> Iterator[Row]:
    cases = data.read_cases(place, "test")
    truths = {case.id: read_mask(place / "truth" / case.id / "inklabels.png") for case in cases}
    masks = {case.id: read_mask(case.path / "mask.png") for case in cases}
    out = place.with_name(f"{place.name}-out")
    settings = INK.settings(probability="tiff")
    solved = pipeline.solve(INK, place, out / "network", model=model, settings=settings, overwrite=True)
    learned = pipeline.solve(INK, place, out / "baseline", solver="baseline", overwrite=True)
    read = [read_letters(answer_of(out / "network", case), truths[case.id]) for case in cases]
    sizes = " and ".join(sorted({f"{case.shape[0]}x{case.shape[1]}" for case in cases if case.shape}))
    note = f"{len(cases)} fragments of {sizes}, seed {UNSEEN}"
    for what, values, bar in (
        ("F0.5, the network", [each.value for each in solved.score.cases] if solved.score else [], ">= 0.65"),
        (
            "depth statistics, the baseline",
            [each.value for each in learned.score.cases] if learned.score else [],
            "",
        ),
        ("mean intensity, threshold chosen on the truth", [best_of_mean(case, truths[case.id]) for case in cases], ""),
        ("all ink", [f_half(masks[case.id], truths[case.id]) for case in cases], ""),
    ):
        yield Row(what, f"{np.mean(values):.3f}", bar or "shown", f"{' '.join(f'{v:.3f}' for v in values)}; {note}")
    yield Row(
        "letters read in the network's answer",
        f"{sum(each.read for each in read)}",
        "shown",
        f"of {sum(each.letters for each in read)}",
    )
    if picture is not None:
        draw(picture, cases[0], out / "network" / "probability" / f"{cases[0].id}.tif", truths[cases[0].id])


def answer_of(out: Path, case: Case) -> np.ndarray:
    return read_mask(out / f"{case.id}.mask.png")


def measure_harder(place: Path, model: Path) -> Iterator[Row]:
    """F0.5 of weaker ink."""
    solved = pipeline.solve(INK, place, place.with_name(f"{place.name}-out"), model=model, overwrite=True)
    values = [each.value for each in solved.score.cases] if solved.score else []
    yield Row("F0.5, difficulty 1.5", f"{np.mean(values):.3f}", ">= 0.65", " ".join(f"{value:.3f}" for value in values))


def f_half(said: np.ndarray, truth: np.ndarray) -> float:
    return fbeta(compare(encode(said, order="rows"), encode(truth, order="rows")), beta=0.5, empty=0)


def best_of_mean(case: Case, truth: np.ndarray) -> float:
    """Mean over slices, raw or smoothed, bright or dark, at the best of some thresholds."""
    stack, mask = open_fragment(case.path)
    mean = stack.read_band(0, stack.shape[0], 0, stack.depth).mean(axis=0, dtype=np.float32)
    values = []
    for plane in (mean, cv2.GaussianBlur(mean, (0, 0), 3), cv2.GaussianBlur(mean, (0, 0), 8)):
        for score in (plane, -plane):
            levels = np.quantile(score[mask], np.linspace(0.3, 0.98, 35))
            values.append(max(f_half(mask & (score > level), truth) for level in levels))
    return max(values)


def draw(path: Path, case: Case, levels: Path, truth: np.ndarray) -> None:
    """A slice near the surface, the ink map, and the truth, side by side, half size."""
    stack, mask = open_fragment(case.path)
    layer = find_surface(stack, mask, Window()).read(0, stack.shape[0])[11]
    planes = (layer, (tifffile.imread(levels) >> 8).astype(np.uint8), truth.astype(np.uint8) * np.uint8(255))
    gap = np.full((stack.shape[0], 16), 255, np.uint8)
    whole = np.hstack([planes[0], gap, planes[1], gap, planes[2]])
    half = (whole.shape[1] // 2, whole.shape[0] // 2)
    write_png(path, np.asarray(cv2.resize(whole, half, interpolation=cv2.INTER_AREA), np.uint8))
    print(f"picture: {path}", file=sys.stderr)


# --- the real crop --------------------------------------------------------------------------------------------------


def measure_crop(folder: Path, model: Path) -> Iterator[Row]:
    """How well squares of ink are ranked before others: 0.5 is at random."""
    if not folder.is_dir():
        return
    stack, mask = open_fragment(folder)
    label = read_mask(folder / "inklabels.png")
    note = f"{label.shape[0]}x{label.shape[1]}; nothing was learned from it"
    middle = stack.depth // 2
    for slices in (range(stack.depth), range(middle - 2, middle + 1)):
        volume = stack.read_band(0, stack.shape[0], slices.start, slices.stop)
        yield from measure_real(f"real crop, {len(volume)} slices", volume, mask, label, model, note)
    reduced = baseline.reduce_fragment(folder, band=512)
    statistics = baseline.DepthStatistics()
    weights = np.array(statistics.default, np.float64)
    layers = baseline.take_layers(reduced, statistics.side, statistics.offsets)
    features = baseline.pool(layers, reduced.inside, statistics.smooth)
    score = np.tensordot(weights, features, axes=2).astype(np.float32)
    other = cv2.resize(score, label.shape[::-1], interpolation=cv2.INTER_LINEAR)
    yield Row("the same, depth statistics, AUC", f"{area_under(other, label, mask):.3f}", "shown")


def measure_layer(folder: Path, model: Path) -> Iterator[Row]:
    """The right quarter of the real layer; its label is another model's map, not truth."""
    if not (folder / "32.jpg").is_file():
        return
    left, right = LAYER_PIECES["test/right"]
    layer = cv2.imread(str(folder / "32.jpg"), cv2.IMREAD_GRAYSCALE)[:, left:right]
    label = read_mask(folder / "inklabels.png")[:, left:right]
    note = "nothing was learned from it; the label is a prediction"
    yield from measure_real("real layer, right quarter", layer, np.ones(label.shape, bool), label, model, note)


def measure_real(
    what: str, volume: np.ndarray, mask: np.ndarray, label: np.ndarray, model: Path, note: str
) -> Iterator[Row]:
    """AUC, F0.5 and letters read of one real scan."""
    result = handlens.load("ink", model=model)(volume, mask=mask)
    value, bar = area_under(result.probability_map, label, mask), ">= 0.85" if "layer" in what else "shown"
    yield Row(f"{what}, AUC", f"{value:.3f}", bar, note)
    everywhere = f"all ink {f_half(mask, label):.3f}; {read_letters(result.mask, label)}"
    bar = ">= 0.60" if "layer" in what else "shown"
    yield Row(f"{what}, F0.5", f"{f_half(result.mask, label):.3f}", bar, everywhere)


def area_under(score: np.ndarray, label: np.ndarray, mask: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks, ink = rankdata(score[mask]), label[mask]
    count = int(ink.sum())
    return float((ranks[ink].sum() - count * (count + 1) / 2) / (count * (len(ink) - count)))


def window_of(model: Path) -> Window:
    window = Window.of(open_model(model, challenge="ink").plan.fields)
    if window is None:
        sys.exit(f"{model}: not a model for ink")
    return window


# --- against torch and MONAI ----------------------------------------------------------------------------------------

BESIDE = """
import sys
sys.path.insert(0, sys.argv[1])
import ink
ink.one_side(*sys.argv[2:])
"""


def measure_monai(folder: Path, model: Path, repeats: int) -> Iterator[Row]:
    """The same weights on the same flattened fragment, no turns: seconds, and peak memory of a process of its own."""
    if not (model / "weights.pt").is_file():
        yield Row("against torch with MONAI's windows", "-", ">= 2x", "the model has no weights.pt: name a run")
        return
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    memory: dict[str, float] = {}
    for _ in range(repeats):
        for name in found:  # in turn, so that other programs disturb both alike
            command = [sys.executable, "-c", BESIDE, str(Path(__file__).parent), name, str(folder), str(model)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, megabytes = map(float, done.stdout.split())
            found[name].append(seconds)
            memory[name] = megabytes
    ours, theirs = min(found["ours"]), min(found["theirs"])
    note = f"{ours:.1f} s and {theirs:.1f} s, {THREADS} threads, best of {repeats}; windows of 512, overlap 0.25"
    yield Row("prediction: torch and MONAI take", f"{theirs / ours:.1f}x", ">= 2x", note)
    note = f"peak of the process: {memory['ours']:.0f} MB and {memory['theirs']:.0f} MB"
    yield Row("memory of ours as a share of theirs", f"{memory['ours'] / memory['theirs']:.2f}", "<= 0.5", note)


def one_side(name: str, folder: str, model: str) -> None:
    """Seconds from the stack on the disk to the map, and the peak of memory in MB."""
    place = Path(model)
    window = window_of(place)
    for library in ("onnxruntime",) if name == "ours" else ("torch", "monai.inferers"):
        importlib.import_module(library)  # not counted
    started = time.perf_counter()
    if name == "ours":
        network = open_network(place / MODEL, window)
        predict(find_surface(*open_fragment(Path(folder)), window), network, Resources(turns=1, threads=THREADS))
    else:
        ask_monai(find_surface(*open_fragment(Path(folder)), window), place)
    print(time.perf_counter() - started, peak())


def ask_monai(surface: Surface, model: Path) -> np.ndarray:
    import torch
    from monai.inferers import sliding_window_inference

    from handlens.challenges.ink.network import DepthNet

    torch.set_num_threads(THREADS)
    width = open_model(model, challenge="ink").plan.fields.get("width", 1.0)
    network = DepthNet(surface.window.layers, width).eval()
    network.load_state_dict(torch.load(model / "weights.pt", weights_only=True))
    height = surface.shape[0]
    layers = np.concatenate([surface.read(top, min(top + 128, height)) for top in range(0, height, 128)], axis=1)
    volume = torch.from_numpy(layers)[None].float()

    def window(part: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = torch.sigmoid(network(part))[:, None]
        return answer

    with torch.inference_mode():
        found = sliding_window_inference(volume, (512, 512), 1, window, overlap=0.25, mode="gaussian")
    return np.asarray(found[0, 0])


def peak() -> float:
    """Most memory that this process had, in MB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


# --- large: time, memory, reading, kill -----------------------------------------------------------------------------

SOLVE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ink import INK, peak
from handlens import pipeline
started = time.perf_counter()
pipeline.solve(INK, Path(sys.argv[2]), Path(sys.argv[3]), model=Path(sys.argv[4]))
print(time.perf_counter() - started, peak())
"""


def measure_big(work: Path, shape: tuple[int, int], slices: int, model: Path, maps: Path) -> Iterator[Row]:
    folder = work / f"big-{shape[0]}x{shape[1]}x{slices}"
    begun = time.perf_counter()
    make_one(
        folder / "test" / "a",
        (UNSEEN, 9),
        Kind(UNSEEN, 1, shape, slices),
        letters.find_maps(maps) if maps.is_dir() else [],
    )
    print(f"{folder}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    size = f"{shape[0]} x {shape[1]} x {slices}"
    outs = [work / f"{folder.name}-{name}" for name in ("whole", "killed")]
    for out in outs:
        shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-c", SOLVE, str(Path(__file__).parent), str(folder)]
    done = subprocess.run([*command, str(outs[0]), str(model)], stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    yield Row(f"solve, {size}, turns as judged", f"{seconds / 60:.1f} min", "<= 60 min", "2 cores, reading included")
    yield Row("its peak memory", f"{megabytes / 1024:.2f} GB", "< 3 GB")
    process = subprocess.Popen([*command, str(outs[1]), str(model)], stdout=subprocess.DEVNULL)
    time.sleep(seconds / 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run([*command, str(outs[1]), str(model)], stdout=subprocess.PIPE, text=True, check=True)
    again = float(done.stdout.split()[0])
    texts = [(out / "submission.csv").read_bytes() for out in outs]
    note = "same bytes" if texts[0] == texts[1] else "OTHER BYTES"
    yield Row("killed half way, the rest takes", f"{again / seconds:.0%}", "<= 60 %", note)
    yield measure_reading(folder / "test" / "a", model)


@dataclass(slots=True)
class Timed:
    """A source that notes how long it is read, and what."""

    source: Any
    seconds: float = 0.0
    read: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def fill(self, band: np.ndarray, first: int, top: int, left: int) -> None:
        started = time.perf_counter()
        self.source.fill(band, first, top, left)
        self.seconds += time.perf_counter() - started
        self.read.append((top, top + band.shape[1], first, first + band.shape[0]))


def measure_reading(folder: Path, model: Path) -> Row:
    """All reading of a prediction with a network that says nothing, against reading what it needed in one go."""
    stack, mask = open_fragment(folder)
    window = window_of(model)
    values = []
    for _ in range(2):  # the first fills the system's cache
        timed = Timed(stack.source)
        surface = find_surface(volumes.Stack(timed), mask, window)
        for_sheet = len(timed.read)
        predict(surface, lambda tile: np.zeros([side // 4 for side in tile.shape[1:]], np.float32), Resources(turns=1))
        once = 0.0
        for top, bottom, first, last in timed.read[for_sheet:]:
            started = time.perf_counter()
            stack.read_band(top, bottom, first, last)
            once += time.perf_counter() - started
        values.append((timed.seconds, once))
    spent, once = values[-1]
    gigabytes = sum((bottom - top) * (last - first) for top, bottom, first, last in timed.read[for_sheet:])
    gigabytes = gigabytes * stack.shape[1] * stack.dtype.itemsize / 1e9
    note = f"{spent:.1f} s for what takes {once:.1f} s once, {gigabytes:.2f} GB, from the system's cache"
    return Row("reading against reading once", f"{spent / once:.2f}x", "<= 1.5x", note)


# --- all ------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", type=Path, default=INCLUDED_MODEL, help="a finished training  [default: the included model]"
    )
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="write training fragments and stop")
    parser.add_argument("--data", type=Path, default=REAL, help="folder with letters/ and real_crop/")
    parser.add_argument("--work", type=Path, default=Path("bench-ink"), help="folder for fragments and answers")
    parser.add_argument("--size", type=int, default=1024, help="rows of the unseen fragments")
    parser.add_argument("--big", action="store_true", help="the large rows too")
    parser.add_argument("--picture", type=Path, help="draw the first fragment's map into this file")
    parser.add_argument("--quick", action="store_true", help="all rows, small and rough")
    given = parser.parse_args()
    maps = given.data / "letters"
    if given.make:
        make_training(given.make / "phantom", maps)
        return make_layer(given.make / "real_layer", given.data / "real_layer")
    if not is_model(given.model):
        sys.exit(f"{given.model}: no model there: name a finished training with --model")
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    size = 192 if given.quick else given.size
    unseen = make_unseen(given.work, size, maps)
    rows = list(measure_score(unseen, given.model, given.picture))
    rows += measure_harder(make_unseen(given.work, size, maps, 1.5), given.model)
    rows += measure_crop(given.data / "real_crop", given.model)
    rows += measure_layer(given.data / "real_layer", given.model)
    shape = (640, 320) if given.quick else (3072, 2048)
    beside = given.work / f"beside-{shape[0]}x{shape[1]}"
    make_one(beside, (UNSEEN, 8), Kind(UNSEEN, 1, shape), letters.find_maps(maps) if maps.is_dir() else [])
    rows += measure_monai(beside, given.model, 1 if given.quick else 3)
    if given.big or given.quick:
        shape, slices = ((1600, 300), 24) if given.quick else ((8181, 6330), 65)
        rows += measure_big(given.work, shape, slices, given.model, maps)
    for row in rows:
        print(re.sub(r"\s+$", "", f"{row.what:48}{row.found:>10}  {row.bar:9} {row.note}"))
    return None


if __name__ == "__main__":
    main()
