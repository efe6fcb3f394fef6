"""Fits the decision: how sure a match is, learned from labelled figures. The detector itself learns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from handlens.challenges.forgery import data
from handlens.challenges.forgery.detect import Detector, decide, judge
from handlens.challenges.forgery.detect.findings import Match
from handlens.challenges.forgery.detect.verifier.decision import (
    FEATURES,
    FILE,
    MEASURED,
    Curve,
    Decision,
    describe,
    fit_curve,
    shipped,
)
from handlens.challenges.forgery.match_labels import FALSE, label_matches
from handlens.challenges.forgery.match_records import from_text, to_text
from handlens.challenges.forgery.score import ORDER
from handlens.errors import DataError
from handlens.inference.executors import map_in_processes, usable_cores
from handlens.io.files import write_text
from handlens.io.images import read_image
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import Rle, decode, encode
from handlens.runstore.store import JOURNAL, Journal, fingerprint
from handlens.splits import fold_of
from handlens.types import Case, Progress, Settings, Shape, Truth

MORE = "more.jsonl"
"""File of a run with what was seen in the further figures, until all is done."""

FOLDS = 5
"""Parts of the figures; each is judged by a decision that was fitted to the others."""

KEPT = 150
"""Matches of a figure that are learned from, those with the most alike detail: the rest are all false."""

NEGATIVES = 20.0
"""How many false matches the false matches of one figure count for at most: a texture that repeats has a thousand."""


FEWEST_COPIES = 12
"""True copies that a tier must have found for a curve of its own: of fewer, one learns what they happen to be like.
Whole panels had 15 in 1,049 figures, and their own curve was as good there as an older one, fitted to more."""

ALARMS, CERTAIN = 0.03, 0.9
"""Share of authentic figures that may be called forged, and how certain it must be that no more are, with so many seen:
whoever is accused wrongly has more to lose than a score."""

FEWEST_AUTHENTIC = 100
"""Authentic figures below which that share cannot be told."""


@dataclass(frozen=True, slots=True)
class Example:
    """A figure: its group, its true instances, its matches, and the instance that each match shows, or why not."""

    case: Case
    truth: tuple[Rle, ...]
    shape: Shape
    matches: tuple[Match, ...]
    labels: tuple[int, ...]


def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
    """Fit the decision to the labelled figures of a folder, and of one `more`; the numbers are of figures that were not
    fitted to.

    Stopped and called again, it goes on with the figures that were not yet looked at.
    """
    shipped()  # a curve may be taken from it in the end: if it is damaged, say so before hours of looking
    looks = _looks(folder, run, settings)
    total = sum(len(look.truth.cases) for look in looks)
    examples: list[Example] = []
    for look in looks:
        examples += look.examples(partial(_tell, progress, len(examples), total))
    if not any(label >= 0 for example in examples for label in example.labels):
        names = " and ".join(str(look.folder) for look in looks)
        raise DataError(f"the detector finds no true copy in {names}, so that there is nothing to learn from")
    decision, numbers = fit(examples)
    write_text(run / FILE, decision.to_json())
    for look in looks:
        (run / look.journal).unlink(missing_ok=True)
    return numbers


def fit(examples: Sequence[Example]) -> tuple[Decision, Mapping[str, float]]:
    """The decision fitted to all examples, and what decisions fitted to the others are worth on each fold."""
    folds, tiers = _folds(examples), _tiers_to_fit(examples)
    surest, answered, scores = np.zeros(len(examples)), [], []
    curves_of = [
        _with_known(fit_curves([each for each, own in zip(examples, folds, strict=True) if own != fold], tiers))
        for fold in range(FOLDS)
    ]
    for number, (example, fold) in enumerate(zip(examples, folds, strict=True)):
        matches = judge(example.matches, Decision(curves_of[fold], worth=1.0))
        surest[number] = max((match.probability for match in matches), default=0.0)
    forged = np.array([bool(example.truth) for example in examples])
    worth = 0.8
    slope, offset = _calibrate(surest, forged)
    groups = np.array(_groups(examples))
    has_twin = np.isin(groups, groups[forged])
    surest_said = np.array([Decision({}, worth, slope, offset).figure(each) for each in surest[~forged]])
    strict = _strictness(surest_said, has_twin[~forged])
    for example, fold in zip(examples, folds, strict=True):
        decision = Decision(curves_of[fold], worth, slope, offset, strict)
        found, _, _ = decide(judge(example.matches, decision), decision)
        masks = tuple(encode(group.mask(example.shape), order=ORDER) for group in found)
        answered.append(bool(masks))
        scores.append(score_one(masks, example.truth))
    value, said = np.array(scores), np.array(answered)
    hits = forged & said
    worth = float(np.clip(value[hits].mean(), 0.2, 0.95)) if hits.any() else worth
    numbers = {
        "figures": float(len(examples)),
        "oF1 of forged figures": float(value[forged].mean()) if forged.any() else float("nan"),
        "oF1 of forged figures answered": worth,
        "forged figures answered": float(said[forged].mean()) if forged.any() else float("nan"),
        "false alarms": float(said[~forged].mean()) if (~forged).any() else float("nan"),
        "oF1": float(value.mean()),
        "tiers fitted": float(len(curves := fit_curves(examples, tiers))),
    }
    return Decision(_with_known(curves), worth, slope, offset, strict), numbers


def _with_known(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """The curves, and for tiers that have none those that come with the program."""
    return {**shipped().curves, **curves}


def _tiers_to_fit(examples: Sequence[Example]) -> list[str]:
    """Tiers that found true copies enough; the others keep the curve that comes with the program, in all folds."""
    copies = dict.fromkeys(FEATURES, 0)
    for example in examples:
        pairs = zip(example.matches, example.labels, strict=True)
        for tier, _label in {(match.tier, label) for match, label in pairs if label >= 0}:
            copies[tier] += 1
    return [tier for tier, count in copies.items() if count >= FEWEST_COPIES]


def fit_curves(examples: Sequence[Example], tiers: Sequence[str]) -> dict[str, Curve]:
    """A curve for each of the tiers that has true and false matches."""
    curves = {}
    for tier in tiers:
        names = FEATURES[tier]
        rows, labels, weights = [], [], []
        for example in examples:
            chosen = [
                (match, label)
                for match, label in zip(example.matches, example.labels, strict=True)
                if match.tier == tier
            ]
            false = sum(label == FALSE for _, label in chosen)
            for match, label in chosen:
                if label >= FALSE:
                    features = describe(match)
                    rows.append([features[name] for name in names])
                    labels.append(label >= 0)
                    same = sum(other == label for _, other in chosen)
                    weights.append(3.0 / same if label >= 0 else min(1.0, NEGATIVES / false))
        truths = np.array(labels, np.bool_)
        if truths.any() and not truths.all():
            curves[tier] = fit_curve(names, np.array(rows), truths, np.array(weights))
    return curves


def score_one(said: tuple[Rle, ...], truth: tuple[Rle, ...]) -> float:
    """oF1 of one figure."""
    if not said or not truth:
        return float(not said and not truth)
    return matched_f1(said, truth)


# --- examples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """The labelled figures of a folder, and the file of the run in which is kept what was seen until all is done."""

    number: int
    truth: Truth
    folder: Path
    run: Path
    journal: str
    seconds: float

    def examples(self, progress: Progress) -> list[Example]:
        """All figures with their matches; those of another folder are in other groups, whatever their names."""
        words = [version("handlens"), repr(Detector()), str(self.seconds), *MEASURED]
        journal = Journal(self.run, fingerprint(words, self.folder, without=self.run), self.journal)
        try:
            _look_at_all(self.truth.cases, self.seconds, journal, progress)
        finally:
            journal.close()
        return [_example(self.number, case, self.truth, journal.done[case.id][0]) for case in self.truth.cases]


def _looks(folder: Path, run: Path, settings: Settings) -> list[Look]:
    """What is to be looked at: the folder, and `more` where that is given."""
    more = settings.get("more")
    if more is not None:
        if not more.is_dir():
            raise DataError("no such folder", file=more)
        one, other = folder.resolve(), more.resolve()
        if one.is_relative_to(other) or other.is_relative_to(one):
            raise DataError(f"this is {folder}, or one lies in the other: no figure may count twice", file=more)
    folders = [(folder, JOURNAL), *([(more, MORE)] if more is not None else [])]
    return [
        Look(number, data.open_truth(each, settings), each, run, name, float(settings["seconds"]))
        for number, (each, name) in enumerate(folders)
    ]


def _tell(progress: Progress, before: int, total: int, done: int, _of: int) -> None:
    progress(before + done, total)


def _look_at_all(cases: Sequence[Case], seconds: float, journal: Journal, progress: Progress) -> None:
    """Put the matches of every figure that is not there yet into the journal."""
    left = [case for case in cases if case.id not in journal.done]
    look = partial(_make_looker, seconds)
    found = map_in_processes(look, left, workers=min(usable_cores(), len(left)), name=lambda case: case.id)
    try:
        for index, text in found:
            journal.add(left[index].id, (text,))
            progress(len(journal.done), len(cases))
    finally:
        found.close()


def _make_looker(seconds: float) -> Any:
    return partial(_look, Detector(), seconds)


def _look(detector: Detector, seconds: float, case: Case) -> str:
    """The shape of a figure and its best matches, in pixels of the figure, as text."""
    picture = read_image(case.path)
    found = detector.match_figure(picture, seconds)
    best = sorted(found, key=lambda match: -match.evidence["detail"])[:KEPT]
    return to_text((picture.shape[0], picture.shape[1]), best)


def _example(look: int, case: Case, truth: Truth, text: str) -> Example:
    shape, matches = from_text(text)
    instances = tuple(truth.read(case))
    masks = [decode(each, shape, order=ORDER) for each in instances]
    case = replace(case, group=f"{look}/{_group(case)}")
    return Example(case, instances, shape, matches, label_matches(matches, masks))


def _folds(examples: Sequence[Example]) -> list[int]:
    """A fold for each example; an image and its authentic twin have the same."""
    groups = _groups(examples)
    folds = min(FOLDS, len(set(groups)))
    return fold_of(
        groups, folds=folds, seed=0, strata=["forged" if example.truth else "authentic" for example in examples]
    )


def _groups(examples: Sequence[Example]) -> list[str]:
    """A name for each example that its twin has too."""
    return [_group(example.case) for example in examples]


def _group(case: Case) -> str:
    return case.group or case.id.rsplit("/", 1)[-1]


def _strictness(said: Any, has_twin: Any) -> float:
    """The probability that surely at most ALARMS of the authentic figures exceed; 0 where there are too few to tell.

    Those with a forged twin are easy, and many: where there are enough of the others, it must hold for them too.
    """
    groups = [some for some in (said, said[~has_twin]) if len(some) >= FEWEST_AUTHENTIC]
    return max((float(np.sort(some)[::-1][_most_alarms(len(some))]) for some in groups), default=0.0)


def _most_alarms(count: int) -> int:
    """How many of so many authentic figures may be called forged so that surely at most ALARMS of all would be.

    The limit of Clopper and Pearson.

    >>> [_most_alarms(count) for count in (100, 200, 400, 4000)]
    [0, 2, 7, 105]
    """
    from scipy.stats import beta

    alarms = np.arange(int(ALARMS * count) + 1)
    most = beta.ppf(CERTAIN, alarms + 1, count - alarms)
    return int(np.flatnonzero(most <= ALARMS).max(initial=0))


def _calibrate(surest: Any, forged: Any) -> tuple[float, float]:
    """Slope and offset that bring the log-odds of the surest match to those of the figure.

    Forged and authentic figures count the same in all, as they are equally many in the contest.
    """
    chosen = surest > 0
    if not forged[chosen].any() or forged[chosen].all():
        return 1.0, 0.0
    counts = np.where(forged, 0.5 / forged.sum(), 0.5 / (~forged).sum()) * len(forged)
    odds = np.log(np.clip(surest[chosen], 1e-6, 1 - 1e-6) / (1 - np.clip(surest[chosen], 1e-6, 1 - 1e-6)))
    curve = fit_curve(("odds",), odds[:, None], forged[chosen], counts[chosen], ridge=0.1)
    slope = curve.weights[0] / curve.spreads[0]
    return float(slope), float(curve.offset - slope * curve.means[0])
