"""How fast scoring is, beside the organisers' way of doing it: ratios within one run, printed as a table.

python bench/scoring.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

import handlens
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import encode, format_lists, format_pairs, parse_lists

Mask = np.ndarray


def blobs(shape: tuple[int, int], count: int, radius: int, random: np.random.Generator) -> Mask:
    """Irregular blobs, so that a column is cut into runs as a real outline cuts it."""
    mask = np.zeros(shape, bool)
    for _ in range(count):
        y, x = random.integers(radius, shape[0] - radius), random.integers(radius, shape[1] - radius)
        rows, columns = np.ogrid[-radius : radius + 1, -radius : radius + 1]
        wobble = 1 + 0.15 * np.sin(5 * np.arctan2(rows, columns) + random.uniform(0, 6))
        mask[y - radius : y + radius + 1, x - radius : x + radius + 1] |= (
            rows**2 + columns**2 < (radius * wobble * 0.85) ** 2
        )
    return mask


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Best wall time: other programs can only add to it."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


# --- the organisers' way: dense masks ---------------------------------------------------------------------------------


def dense_f1(predicted: Mask, true: Mask) -> float:
    predicted, true = predicted.flatten(), true.flatten()
    tp = np.sum((predicted == 1) & (true == 1))
    fp = np.sum((predicted == 1) & (true == 0))
    fn = np.sum((predicted == 0) & (true == 1))
    precision = tp / (tp + fp) if tp + fp > 0 else 0
    recall = tp / (tp + fn) if tp + fn > 0 else 0
    return 2 * (precision * recall) / (precision + recall) if precision + recall > 0 else 0


def dense_of1(predicted: list[Mask], true: list[Mask]) -> float:
    matrix = np.array([[dense_f1(p, t) for t in true] for p in predicted])
    if len(matrix) < len(true):
        matrix = np.vstack([matrix, np.zeros((len(true) - len(matrix), len(true)))])
    rows, columns = linear_sum_assignment(-matrix)
    return float(np.mean(matrix[rows, columns]) * (len(true) / max(len(predicted), len(true))))


def dense_decode(text: str, shape: tuple[int, int], order: str) -> Mask:
    numbers = np.array(json.loads(text) if text.startswith("[") else text.split(), dtype=np.int64)
    flat = np.zeros(shape[0] * shape[1], bool)  # as the official decoder makes it
    for start, length in zip(numbers[0::2] - 1, numbers[1::2], strict=True):
        flat[start : start + length] = 1
    return flat.reshape(shape, order=order)


# --- the four measurements --------------------------------------------------------------------------------------------


def measure_of1() -> tuple[float, float, str]:
    random = np.random.default_rng(1)
    shape = (3888, 3888)
    true = [blobs(shape, 2, 300, random) for _ in range(5)]
    predicted = [np.roll(mask, (7, 11), (0, 1)) for mask in true]
    runs = [[encode(mask, order="columns") for mask in side] for side in (predicted, true)]
    dense = [
        [np.asfortranarray(mask) for mask in side] for side in (predicted, true)
    ]  # as the official decoder makes them
    assert abs(matched_f1(*runs) - dense_of1(*dense)) < 1e-15
    text = ";".join(format_lists([instance]) for instance in runs[0])
    parsed = seconds(lambda: parse_lists(text, pixels=shape[0] * shape[1]), 9)
    note = f"{sum(len(r.starts) for r in runs[0]):,} runs a side; parsing one side: {parsed * 1e3:.1f} ms"
    return seconds(lambda: matched_f1(*runs), 15), seconds(lambda: dense_of1(*dense), 1), note


def measure_fragment(folder: Path) -> tuple[float, float, str]:
    random = np.random.default_rng(2)
    shape = (8181, 6330)
    true = blobs(shape, 1600, 90, random)
    said = np.roll(true, (9, 9), (0, 1))
    texts = [format_pairs(encode(mask, order="rows")) for mask in (said, true)]
    runs = texts[0].count(" ") // 2 + 1
    (folder / "truth.csv").write_text(f"Id,Predicted,height,width\n1,{texts[1]},{shape[0]},{shape[1]}\n")
    (folder / "mine.csv").write_text(f"Id,Predicted\n1,{texts[0]}\n")

    def ours() -> float:
        return handlens.score("ink", folder / "mine.csv", truth=folder / "truth.csv").value

    def dense() -> float:
        said, true = (dense_decode(text, shape, "C").ravel() for text in texts)
        labels = np.unique(np.concatenate([np.unique(true), np.unique(said)]))  # as a general class metric counts
        said, true = np.searchsorted(labels, said), np.searchsorted(labels, true)
        tp = np.bincount(true[true == said], minlength=2)[1]
        p, r = tp / np.bincount(said, minlength=2)[1], tp / np.bincount(true, minlength=2)[1]
        return float(1.25 * p * r / (0.25 * p + r))

    assert abs(ours() - dense()) < 1e-12
    code = (
        "import handlens, re, sys\nhandlens.score('ink', sys.argv[1], truth=sys.argv[2])\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    run = [sys.executable, "-c", code, str(folder / "mine.csv"), str(folder / "truth.csv")]
    megabytes = int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) / 1024
    return seconds(ours, 9), seconds(dense, 3), f"{runs:,} runs; peak memory of the whole program {megabytes:.0f} MB"


SIZES = ((666, 1000), (256, 256), (1200, 1600), (520, 696), (256, 320))
"""The commonest of the real training set."""


def make_image(random: np.random.Generator) -> tuple[tuple[int, int], str, str]:
    """Shape, true and predicted annotation of a forged image: 1 to 3 instances of two regions each."""
    shape = SIZES[random.integers(len(SIZES))]
    radius = [max(4, int(random.uniform(0.03, 0.12) * min(shape))) for _ in range(random.integers(1, 4))]
    true = [blobs(shape, 2, r, random) for r in radius]
    mine = [np.roll(mask, (2, 3), (0, 1)) for mask in true]
    return shape, *(";".join(format_lists([encode(m, order="columns")]) for m in side) for side in (true, mine))


def measure_rows(folder: Path) -> tuple[float, float, str]:
    random = np.random.default_rng(3)
    rows, pool = 5_000, [make_image(random) for _ in range(100)]
    chosen = [pool[random.integers(len(pool))] for _ in range(rows)]
    # 46 % authentic, as in the training set; a solver that names masks for 3 of 4 forged and 1 of 4 authentic images
    truth = ["authentic" if random.random() < 0.46 else true for _, true, _ in chosen]
    said = [
        mine if random.random() < (0.25 if true == "authentic" else 0.75) else "authentic"
        for true, (_, _, mine) in zip(truth, chosen, strict=True)
    ]
    shapes = [shape for shape, _, _ in chosen]
    with (folder / "rows-truth.csv").open("w") as a, (folder / "rows-mine.csv").open("w") as b:
        a.write("case_id,annotation,shape\n")
        b.write("case_id,annotation\n")
        for number, (true, mine, shape) in enumerate(zip(truth, said, shapes, strict=True)):
            a.write(f'{number},"{true}","{list(shape) if true != "authentic" else "authentic"}"\n')
            b.write(f'{number},"{mine}"\n')

    def ours() -> float:
        return handlens.score("forgery", folder / "rows-mine.csv", truth=folder / "rows-truth.csv").value

    def image(true: str, mine: str, shape: tuple[int, int]) -> float:
        if "authentic" in (true, mine):
            return float(true == mine)
        return dense_of1(*([dense_decode(text, shape, "F") for text in side.split(";")] for side in (mine, true)))

    share = 10  # every tenth row of the slow side, times ten: it would take minutes
    some = list(zip(truth, said, shapes, strict=True))[::share]
    slow = seconds(lambda: [image(*row) for row in some], 1) * share
    both = sum("authentic" not in pair for pair in zip(truth, said, strict=True))
    return seconds(ours, 7), slow, f"{both:,} rows with masks on both sides; both files read, checked and scored"


def measure_start() -> tuple[float, float, str]:
    script = Path(sys.executable).with_name("handlens")
    times: dict[str, list[float]] = {"help": [], "pass": []}
    for _ in range(21):  # taken in turn, so that noise hits both alike
        for name, command in (("help", [script, "--help"]), ("pass", [sys.executable, "-c", "pass"])):
            started = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            times[name].append(time.perf_counter() - started)
    return statistics.median(times["help"]), statistics.median(times["pass"]), "median of 21, in turn"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = [
            ("oF1, 5 x 5 instances on 3888x3888", *measure_of1(), "at least 500x faster"),
            ("parse and score an 8181x6330 fragment", *measure_fragment(folder), "at least 20x faster, < 300 MB"),
            ("5,000 forgery rows, mixed", *measure_rows(folder), "at least 50x faster"),
        ]
        help_time, pass_time, note = measure_start()
    print(f"{'work':40}{'handlens':>12}{'other way':>12}{'ratio':>9}  bar; note")
    for work, ours, other, text, bar in results:
        print(f"{work:40}{ours * 1e3:9.1f} ms{other * 1e3:9.0f} ms{other / ours:8.0f}x  {bar}; {text}")
    times = f"{help_time * 1e3:9.1f} ms{pass_time * 1e3:9.1f} ms{help_time / pass_time:8.1f}x"
    print(f"{'handlens --help / python -c pass':40}{times}  within 8x; {note}")


if __name__ == "__main__":
    main()
