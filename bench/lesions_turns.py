"""What averaging over orientations gains on photographs that a model has not seen, by source.

python bench/lesions_turns.py MILK --more HAM --more PAD              the included model, five minutes of one core
python bench/lesions_turns.py MILK --more HAM --more PAD --run RUN    a training's: its held-out or out-of-fold ids

The ids are those that the model's plan has a score for. In a training with folds these were predicted by other networks
than the one in the file, so only `--folds 1` gives an honest table.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from handlens.challenges.lesions import data, score
from handlens.challenges.lesions.contract import demographics_input, image_input
from handlens.challenges.lesions.options import INCLUDED_MODEL, LesionsSettings
from handlens.challenges.lesions.predictor import LesionsPredictor, Photograph, open_classifier
from handlens.challenges.lesions.score import Probabilities
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.progress import bar
from handlens.training.sources import MoreFolder, list_sources, pool
from handlens.types import Case, Truth

TURNS = (1, 4, 8)


def answers_of(predictor: LesionsPredictor, cases: Sequence[Case]) -> dict[int, dict[str, Probabilities]]:
    """Answers by number of orientations and id."""
    found: dict[int, dict[str, Probabilities]] = defaultdict(dict)
    with bar("photographs") as progress:
        for number, case in enumerate(cases):
            photograph = Photograph(case.id, image_input(case.path, top=1.0), demographics_input(case.details))
            for turns in TURNS:
                found[turns][case.id] = replace(predictor, turns=turns).predict(photograph).answer
            progress(number + 1, len(cases))
    return found


def by_lesion(answers: Mapping[str, Probabilities], cases: Sequence[Case]) -> dict[str, Probabilities]:
    """The mean over the photographs of a lesion, under the id of its first."""
    photographs: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        photographs[case.group or case.id].append(case.id)
    return {ids[0]: np.mean([answers[each] for each in ids], axis=0) for ids in photographs.values()}


def row(answers: Mapping[str, Probabilities], truth: Truth[str], settings: LesionsSettings) -> str:
    """Prediction Score, accuracy, and mean F1 of the classes that occur."""
    rated = score.score(answers, truth.among(answers), settings)
    occurring = {truth.read(case) for case in truth.cases if case.id in answers}
    mean = np.mean([rated.parts[f"F1 {name}"] for name in occurring])
    return f"{rated.value:11.4f}{rated.parts['accuracy']:10.4f}{mean:9.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--more", type=Path, action="append", default=[])
    parser.add_argument("--run", type=Path, default=INCLUDED_MODEL)
    given = parser.parse_args()
    plan = json.loads((given.run / "plan.json").read_text())
    settings = LesionsSettings(taxonomy=plan["fields"]["taxonomy"])
    sources = list_sources(given.data, [MoreFolder(str(each)) for each in given.more])
    pooled = pool(sources, lambda folder: data.open_truth(folder, settings), same_groups=True)
    held_out = [case for case in pooled.truth.cases if case.id in plan["scores"]]
    source_of = dict(zip((case.id for case in pooled.truth.cases), pooled.source_of, strict=True))
    predictor = LesionsPredictor(open_classifier(given.run / "model.onnx", threads=1), TAXONOMIES[settings.taxonomy])
    found = answers_of(predictor, held_out)
    print(f"{'source':34}{'n':>6}{'turns':>7}{'Prediction':>11}{'accuracy':>10}{'mean F1':>9}")
    for number, source in enumerate(sources):
        cases = [case for case in held_out if source_of[case.id] == number]
        for turns in TURNS:
            own = {case.id: found[turns][case.id] for case in cases}
            print(f"{source.name:34}{len(own):6}{turns:7}{row(own, pooled.truth, settings)}")
        for turns in TURNS if number == 0 else ():
            own = by_lesion(found[turns], cases)
            print(f"{source.name + ', mean of a lesion':34}{len(own):6}{turns:7}{row(own, pooled.truth, settings)}")
    for turns in TURNS:
        print(f"{'all':34}{len(held_out):6}{turns:7}{row(found[turns], pooled.truth, settings)}")


if __name__ == "__main__":
    main()
