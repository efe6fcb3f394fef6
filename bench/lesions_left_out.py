"""Lesions at a clinic that a training has not seen: each source left out in turn, a robust and a plain recipe.

python bench/lesions_left_out.py --out RUNS              six trainings, about an hour and a half on one core
python bench/lesions_left_out.py --out RUNS --steps 60   to see that it works

The same command again goes on with what is unfinished. Both recipes have the same network, steps and data; the plain
one changes training photographs by geometry and a little brightness alone and drops no metadata. A lesion that is in
two sources is left out with either of them.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from lesions import class_f1

from handlens.challenges.lesions.decision import class_shares, worth
from handlens.challenges.lesions.taxonomy import TAXONOMIES

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SOURCES = {
    "MILK10k": DATA / "lesions",
    "HAM10000": DATA / "lesions_more" / "ham",
    "PAD-UFES-20": DATA / "lesions_more" / "pad",
}
WEIGHTS = {"MILK10k": 1.0, "HAM10000": 0.6, "PAD-UFES-20": 0.35}
"""Shares of drawn photographs, relative to the first source, as the included model has them."""

LIGHT = (
    "colour",
    "constancy_share",
    "shading",
    "vignette_share",
    "hair_share",
    "blur_share",
    "coarse_share",
    "jpeg_share",
)
RECIPES = {
    "robust": (),
    "plain": ("metadata_dropout=0", *(f"augmentation.{field}=0" for field in LIGHT)),
}


def read_rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def folder_without(name: str, tested: set[str], out: Path) -> Path:
    """The source with links to its photographs and the rows of all lesions but those that are tested."""
    target = out / name
    rows = [row for row in read_rows(SOURCES[name]) if row["lesion_id"] not in tested]
    target.mkdir(parents=True, exist_ok=True)
    if not (target / "images").exists():
        (target / "images").mkdir()
        for row in rows:
            (target / "images" / row["filename"]).symlink_to(SOURCES[name] / "images" / row["filename"])
    with (target / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return target


def train(left_out: str, recipe: str, out: Path, steps: int) -> Path:
    """The run that has not seen a source; finished or gone on with."""
    tested = {row["lesion_id"] for row in read_rows(SOURCES[left_out])}
    data = out / f"without-{left_out}-data"
    folders = {name: folder_without(name, tested, data) for name in SOURCES if name != left_out}
    first, *others = sorted(folders, key=lambda name: -WEIGHTS[name])
    run = out / f"without-{left_out}-{recipe}"
    if (run / "plan.json").exists() and json.loads((run / "plan.json").read_text()).get("finished"):
        return run
    more = [part for name in others for part in ("--more", f"{folders[name]}={WEIGHTS[name] / WEIGHTS[first]:.2f}")]
    fields = (f"steps={steps}", "threads=1", "memory_format=channels_last", *RECIPES[recipe])
    settings = [part for field in fields for part in ("--set", field)]
    command = [
        sys.executable,
        "-m",
        "handlens",
        "train",
        "lesions",
        str(folders[first]),
        "-o",
        str(run),
        "--folds",
        "2",
    ]
    subprocess.run([*command, *more, *settings], check=True)
    return run


def test(run: Path, left_out: str) -> tuple[str, ...]:
    """Mean F1 of the classes of a source, accuracy and Prediction Score, photograph by photograph."""
    out = run.with_name(f"{run.name}-answers")
    folder = SOURCES[left_out]
    if not (out / "submission.csv").exists():
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "handlens", "predict", str(run), str(folder), "-o", str(out)]
        subprocess.run([*command, "--part", "train", "--no-report"], check=True)
    taxonomy = TAXONOMIES["ten"]
    with (out / "submission.csv").open(newline="", encoding="utf-8") as file:
        answers = {row["filename"]: [float(row[name]) for name in taxonomy.classes] for row in csv.DictReader(file)}
    rows = read_rows(folder)
    said = np.array([answers[row["filename"]] for row in rows]).argmax(axis=1)
    codes = np.array([taxonomy.classes.index(row["label"]) for row in rows])
    each = class_f1(said, codes)
    classes = ", ".join(f"{taxonomy.classes[code]} {value:.2f}" for code, value in each.items())
    score = worth(said, codes, class_shares(taxonomy, "prediction"))
    mean, right = float(np.mean(list(each.values()))), float(np.mean(said == codes))
    return f"{mean:.3f}", f"{right:.3f}", f"{score:.3f}", classes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--steps", type=int, default=700, help="steps of a fold")
    parser.add_argument("--only", choices=SOURCES, help="leave out this source alone")
    chosen = parser.parse_args()
    if not DATA.exists():
        raise SystemExit(f"{DATA}: no such folder; the three sources are needed")
    table = []
    for left_out in [chosen.only] if chosen.only else sorted(SOURCES, reverse=True):
        for recipe in RECIPES:
            run = train(left_out, recipe, chosen.out, chosen.steps)
            table.append((left_out, recipe, *test(run, left_out)))
            print(*table[-1], flush=True)
    print(
        f"\n{'left out':<12} {'recipe':<8} {'mean F1':>8} {'accuracy':>9} {'Prediction Score':>17}  F1 of its classes"
    )
    for name, recipe, mean, right, score, classes in table:
        print(f"{name:<12} {recipe:<8} {mean:>8} {right:>9} {score:>17}  {classes}")


if __name__ == "__main__":
    main()
