"""How well lesions are named, how large and fast the model is, and how the judge deals with hostile ones.

python bench/lesions.py                        the judge: every hostile model, in about a minute; on made-up photographs
python bench/lesions.py --run RUN --data DATA  a training by `handlens train lesions DATA -o RUN`: scores out of fold,
                                               beside frozen features with logistic regression; size and time;
                                               with --more FOLDER for each of the training's, these sources too
python bench/lesions.py --run RUN              size and time alone, with the photographs of nobody
python bench/lesions.py --speed                seconds of a training step by size of the input and frozen stages

It needs what `pip install .[dev]` installs: the hostile models are made by `tests/hostile_models.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from handlens import pipeline, registry
from handlens.challenges.lesions import data
from handlens.challenges.lesions.contract import demographics_input
from handlens.challenges.lesions.decision import Search, choose, class_shares, worth
from handlens.challenges.lesions.logistic import class_importance, fit_head
from handlens.challenges.lesions.options import LesionsSettings, LesionsTraining
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES, Taxonomy
from handlens.challenges.lesions.training import FEATURES
from handlens.sandbox import runner
from handlens.sandbox.verdicts import RefusedError
from handlens.training import device
from handlens.training.folds import Predictions
from handlens.training.sources import MoreFolder, Pool, list_sources, pool
from handlens.types import Limits

TESTS = Path(__file__).resolve().parents[1] / "tests"
LIMITS = Limits(memory_mib=2048, answer_seconds=5)


@dataclass(frozen=True, slots=True)
class Row:
    """One model: the verdict that is right, the one that was given, its words, and the time that took."""

    what: str
    expected: str
    found: str
    why: str
    seconds: float


def judge_models(folder: Path, cases: int) -> Iterator[Row]:
    """The twelve of the list, those beyond it, and the honest one, all judged by one call each."""
    sys.path.insert(0, str(TESTS))
    import hostile_models

    challenge = registry.challenge("lesions")
    data = folder / "data"
    pipeline.sample(challenge, data, seed=0, cases=cases, size=128)
    models = {
        "honest": (hostile_models.honest, "scored"),
        **hostile_models.HOSTILE,
        "fork bomb": (hostile_models.honest, "forbidden"),
        **hostile_models.MORE,
    }
    for name, (make, expected) in models.items():
        path = hostile_models.write(folder / f"{name}.onnx", make())
        begun = time.perf_counter()
        if name == "fork bomb":  # no file can do it: this is what a runtime that was taken over would do
            found, why = _taken_over(path, "fork_bomb")
        else:
            (entry,) = pipeline.judge(challenge, [path], data, challenge.settings(), limits=LIMITS).models
            found, why = entry.verdict, entry.why
        yield Row(name, expected, found, why, time.perf_counter() - begun)


def _taken_over(path: Path, act: str) -> tuple[str, str]:
    try:
        with runner.opened(path, LIMITS, entry=f"hostile_child:{act}"):
            return "scored", ""
    except RefusedError as error:
        return error.verdict, error.why


def print_judge(rows: list[Row]) -> None:
    print(f"{'model':28}{'verdict':18}{'right':7}{'s':>5}  why")
    for row in rows:
        right = "yes" if row.found == row.expected else f"NO: {row.expected}"
        print(f"{row.what:28}{row.found:18}{right:7}{row.seconds:5.1f}  {row.why}".rstrip())
    wrong = sum(row.found != row.expected for row in rows)
    middle = statistics.median(row.seconds for row in rows)
    print(f"{len(rows)} models, {wrong} wrong verdicts; {middle:.1f} s for a model in the middle")


# --- a training ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Out:
    """Photographs, or lesions, with what was said about them out of fold: (n, classes) logits, but for a constant."""

    logits: np.ndarray
    codes: np.ndarray
    groups: np.ndarray
    folds: np.ndarray
    taxonomy: Taxonomy

    def of(self, chosen: np.ndarray) -> Out:
        return replace(
            self,
            logits=self.logits[chosen],
            codes=self.codes[chosen],
            groups=self.groups[chosen],
            folds=self.folds[chosen],
        )

    def averaged(self, lesions: np.ndarray) -> Out:
        """One row for each lesion: the mean of what was said about its photographs."""
        _, first, numbers = np.unique(lesions, return_index=True, return_inverse=True)
        counts = np.bincount(numbers)[:, None]
        total = np.zeros((len(first), self.logits.shape[1]))
        np.add.at(total, numbers, self.logits)
        return replace(self.of(first), logits=total / counts)

    def score(self, aim: str, *, offsets: bool) -> float:
        """With offsets that were chosen on the other folds, or without any."""
        said = np.empty(len(self.codes), np.int64)
        for fold in np.unique(self.folds):
            here = self.folds == fold
            others = self.of(~here)
            moves = np.zeros(self.logits.shape[1])
            if offsets:
                moves, _ = choose(others.logits, others.codes, list(others.groups), self.taxonomy, Search(aim=aim))
            said[here] = (self.logits[here] + moves).argmax(axis=1)
        return worth(said, self.codes, class_shares(self.taxonomy, aim))


def frozen(run: Path, people: np.ndarray | None, out: Out) -> Out:
    """Logistic regression on what the encoder saw before training, fold by fold; with facts where there are people."""
    from handlens.challenges.lesions.network import facts_of

    table = np.load(run / FEATURES).astype(np.float32)
    if people is not None:
        table = np.hstack([table, facts_of(people, sites=len(LOCATIONS))])
    logits = np.empty_like(out.logits)
    for fold in np.unique(out.folds):
        here = out.folds == fold
        weights, bias = fit_head(
            table[~here],
            out.codes[~here],
            count=out.logits.shape[1],
            penalty=LesionsTraining().l2,
            importance=class_importance(out.codes[~here], 0.5),
        )
        logits[here] = table[here] @ weights + bias
    return replace(out, logits=logits)


def as_eleven(out: Out, labels: dict[str, str], ids: list[str]) -> Out:
    """The same photographs with the later edition's labels, where each of its classes here is one of the ten."""
    eleven = TAXONOMIES["eleven"]
    if out.taxonomy is eleven:
        return out
    codes = np.array([eleven.classes.index(labels[id]) for id in ids])
    pairs = {(int(new), int(old)) for new, old in zip(codes, out.codes, strict=True)}
    if len({old for _, old in pairs}) != len(pairs) or len({new for new, _ in pairs}) != len(pairs):
        raise SystemExit("the eleven classes are no renaming of the ten here: train with --taxonomy eleven")
    logits = np.full((len(codes), len(eleven.classes)), -1e3)
    for new, old in pairs:
        logits[:, new] = out.logits[:, old]
    return replace(out, logits=logits, codes=codes, taxonomy=eleven)


def class_f1(said: np.ndarray, codes: np.ndarray) -> dict[int, float]:
    """F1 of every class that occurs."""
    return {
        code: 2 * np.sum((said == code) & (codes == code)) / (np.sum(said == code) + np.sum(codes == code))
        for code in sorted(set(codes.tolist()))
    }


def measure_sources(page: dict, out: Out, pooled: Pool[str]) -> Iterator[tuple[str, str, str, str]]:
    """Each source as the file would answer it: a fold with the offsets that were chosen on the others."""
    offsets = np.array([decision["offsets"] for decision in page["fold_decisions"]])
    said = (out.logits + offsets[out.folds]).argmax(axis=1)
    of_source = np.array(pooled.source_of)
    for number, source in enumerate(pooled.sources):
        here = of_source == number
        each = class_f1(said[here], out.codes[here])
        mean = float(np.mean(list(each.values())))
        classes = ", ".join(f"{out.taxonomy.classes[code]} {value:.2f}" for code, value in each.items())
        right = float(np.mean(said[here] == out.codes[here]))
        note = f"{here.sum()} photographs, accuracy {right:.3f}; {classes}"
        yield f"mean F1 of its classes, {source.name}", f"{mean:.4f}", "shown", note


def measure_training(run: Path, folder: Path, more: Sequence[Path]) -> Iterator[tuple[str, str, str, str]]:
    """Rows of what, found, bar, note; more than the sources' own rows is said of the first folder alone."""
    page = json.loads((run / "plan.json").read_text())
    taxonomy = TAXONOMIES[page["fields"]["taxonomy"]]
    sources = list_sources(folder, [MoreFolder(str(each)) for each in more])
    pooled = pool(
        sources, lambda each: data.open_truth(each, LesionsSettings(taxonomy=taxonomy.name)), same_groups=True
    )
    truth = pooled.truth
    ids = [case.id for case in truth.cases]
    if ids != page["ids"]:
        raise SystemExit(f"{run} was not trained on {', '.join(map(str, [folder, *more]))}")
    predictions = Predictions(run, len(ids))
    out = Out(
        np.stack([predictions[index] for index in range(len(ids))]).astype(np.float64),
        np.array([taxonomy.classes.index(truth.read(case)) for case in truth.cases]),
        np.array([case.group for case in truth.cases]),
        np.array(page["fold_of"]),
        taxonomy,
    )
    if more:
        yield from measure_sources(page, out, pooled)
    people = np.stack([demographics_input(case.details) for case in truth.cases])
    kinds = data.read_column(folder, data.KIND_COLUMNS)
    kind = np.array([kinds.get(id, "") for id in ids])
    named = data.read_column(folder, ("lesion_id",))
    lesions = np.array([named.get(id, id) for id in ids])
    first = np.array(pooled.source_of) == 0
    plain, informed = frozen(run, None, out).of(first), frozen(run, people, out).of(first)
    out, kind, lesions, ids = out.of(first), kind[first], lesions[first], ids[: first.sum()]
    yield "all photographs", f"{page['score']:.4f}", "shown", f"{page['folds']} folds, {page['steps']} steps each"
    parts: dict[str, Callable[[Out], Out]] = {
        name: partial(Out.of, chosen=kind == name) for name in sorted(set(kind) - {""})
    }
    parts["both averaged"] = partial(Out.averaged, lesions=lesions)
    for name, part in parts.items():
        ours, base, better = (part(each) for each in (out, plain, informed))
        found, low = ours.score("prediction", offsets=True), base.score("prediction", offsets=False)
        middle = better.score("prediction", offsets=True)
        note = f"frozen features {low:.4f} ({found - low:+.4f}); with facts and offsets {middle:.4f}"
        yield f"Prediction Score, {name}", f"{found:.4f}", "+0.05", note
    labels = data.read_column(folder, TAXONOMIES["eleven"].label_columns[:1])
    if taxonomy.name != "eleven" and len(labels) < len(ids):
        return
    both, base = (as_eleven(each, labels, ids).averaged(lesions) for each in (out, plain))
    found, low = both.score("macro-f1", offsets=True), base.score("macro-f1", offsets=False)
    present = len(set(both.codes.tolist()))
    note = f"frozen features {low:.4f}; of the {present} classes that occur {found * 11 / present:.4f}"
    yield "macro-F1 of 11 classes, both averaged", f"{found:.4f}", ">= 0.45", note


# --- size and time ------------------------------------------------------------------------------------------------


def write_bare(path: Path, encoder: str, size: int) -> Path:
    """EfficientNet-Lite as it was published, with its thousand classes, at the same size."""
    import torch
    from torch import nn

    from handlens.challenges.lesions.network import PhotoClassifier
    from handlens.training.export import export
    from handlens.training.task import Graph

    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = PhotoClassifier(encoder, "scratch", classes=2, sites=7, frozen=0, still=True, dropout=0.0)
            self.head = nn.Linear(1280, 1000)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.head(self.body.see(image)), 1)

    image = np.zeros((1, 3, size, size), np.float32)
    export(Graph(Bare(), {"image": image}, "probability", {"image": {0: ("count", 1)}}), path, facts={})
    return path


def measure_file(run: Path, repeats: int) -> Iterator[tuple[str, str, str, str]]:
    """One thread, one photograph at a time, both files in turn."""
    from handlens.inference.session import Session

    size = json.loads((run / "plan.json").read_text())["fields"]["size"]
    rng = np.random.default_rng(0)
    photograph = rng.random((1, 3, 512, 512), np.float32)
    person, reduced = np.array([[50, 1, 7]], np.float32), rng.random((1, 3, size, size), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        bare = Session(write_bare(Path(folder) / "bare.onnx", "lite0", size), threads=1)
        ours = Session(run / "model.onnx", threads=1)
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        for turn in range(repeats + 5):
            for name, work in (
                ("ours", partial(ours, image=photograph, demographics=person)),
                ("bare", partial(bare, image=reduced)),
            ):
                begun = time.perf_counter()
                work()
                times[name] += [time.perf_counter() - begun] if turn >= 5 else []
    mine, other = (1000 * statistics.median(times[name]) for name in ("ours", "bare"))
    megabytes = (run / "model.onnx").stat().st_size / 1e6
    yield "size of the model", f"{megabytes:.1f} MB", "<= 20 MB", ""
    note = f"{mine:.1f} ms and {other:.1f} ms, {size} pixels, one thread, median of {repeats}"
    yield "time against bare EfficientNet-Lite0", f"{mine / other:.2f}x", "<= 1.5x", note


def measure_steps(batch: int = 16) -> Iterator[tuple[str, str, str, str]]:
    """What a training step costs, on as many threads as torch has."""
    import torch

    from handlens.challenges.lesions.network import PhotoClassifier, class_loss
    from handlens.training.networks import set_memory_format

    device.keep_memory()
    for size in (128, 160, 192, 224, 256):
        image = torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8)
        people, classes = torch.zeros(batch, 3), torch.arange(batch) % 10
        for stages in range(5):
            network = PhotoClassifier("lite0", "imagenet", classes=10, sites=7, frozen=stages, still=True, dropout=0.2)
            set_memory_format(network, channels_last=True)
            optimizer = torch.optim.AdamW([each for each in network.parameters() if each.requires_grad], 1e-5)
            seconds = []
            for _ in range(5):
                begun = time.perf_counter()
                optimizer.zero_grad()
                class_loss(network(image, people), classes, smoothing=0.05).backward()
                optimizer.step()
                seconds.append(time.perf_counter() - begun)
            middle = statistics.median(seconds[1:])
            yield (
                f"step of {batch}, {size} pixels, {stages} frozen",
                f"{middle:.3f} s",
                "",
                f"{middle / batch:.4f} s each",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20, help="made-up photographs to judge by")
    parser.add_argument("--run", type=Path, help="a finished training, or a model folder")
    parser.add_argument("--data", type=Path, help="the folder that it was trained on")
    parser.add_argument("--more", type=Path, action="append", default=[], help="a further folder of that training")
    parser.add_argument("--speed", action="store_true", help="seconds of a training step")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    given = parser.parse_args()
    rows: Iterator[tuple[str, str, str, str]] = iter(())
    if given.speed:
        rows = measure_steps()
    elif given.run:
        trained = measure_training(given.run, given.data, given.more) if given.data else iter(())
        rows = chain(trained, measure_file(given.run, 10 if given.quick else 200))
    else:
        with tempfile.TemporaryDirectory() as folder:
            print_judge(list(judge_models(Path(folder), given.cases)))
    for what, found, bar, note in rows:
        print(f"{what:40}{found:>10}  {bar:9} {note}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
