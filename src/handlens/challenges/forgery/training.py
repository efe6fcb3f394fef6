"""Fits the decision to labelled figures: each is proposed once, kept, and then concluded out of fold.

The detector itself learns nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from handlens.challenges.forgery import data
from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.answer import score_matches, worth_a_look
from handlens.challenges.forgery.detect.findings import Match
from handlens.challenges.forgery.detect.verifier.decision import FILE, Verifier, included
from handlens.challenges.forgery.detect.verifier.features import EVIDENCE
from handlens.challenges.forgery.fitting import fit, group_of
from handlens.challenges.forgery.match_labels import label_matches
from handlens.challenges.forgery.match_records import MatchRecord, from_text, to_text
from handlens.challenges.forgery.options import ForgerySettings
from handlens.challenges.forgery.score import ORDER, Instances
from handlens.challenges.forgery.verifier_fitting import Example, require_lightgbm
from handlens.errors import DataError
from handlens.inference.executors import map_in_processes, usable_cores
from handlens.io.files import write_text
from handlens.io.images import read_image
from handlens.masks.rle import decode
from handlens.runstore.plan import RESULTS
from handlens.runstore.store import UNFINISHED, Journal, fingerprint_of
from handlens.types import Case, Progress, Truth


def train(folder: Path, run: Path, settings: ForgerySettings, progress: Progress) -> Mapping[str, float]:
    """Fit the decision to the labelled figures of a folder, and of one `more`; the numbers are of figures that were not
    fitted to.

    Stopped and called again, it resumes with the figures that were not yet matched.
    """
    included()  # a curve may be taken from it in the end: if it is damaged, say so before hours of matching
    require_lightgbm()
    batches = _batches(folder, run, settings)
    total = 2 * sum(len(batch.truth.cases) for batch in batches)  # each is proposed, then concluded out of fold
    examples: list[Example] = []
    for batch in batches:
        examples += batch.examples(partial(_report, progress, len(examples), total))
    if not any(label >= 0 for example in examples for label in example.labels):
        names = " and ".join(str(batch.folder) for batch in batches)
        raise DataError(f"the detector finds no true copy in {names}, so that there is nothing to learn from")
    weigher = partial(weigh, progress=partial(_report, progress, len(examples), total))
    decision, numbers, details = fit(examples, weigher)
    write_text(run / RESULTS, json.dumps(details, indent=1) + "\n")
    write_text(run / FILE, decision.to_json())
    return numbers


# --- examples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureBatch:
    """The labelled figures of a folder, and the run that keeps what is proposed for them."""

    number: int
    truth: Truth[Instances]
    folder: Path
    run: Path
    seconds: float

    def examples(self, progress: Progress) -> list[Example]:
        """All figures with their matches; those of another folder are in other groups, whatever their names."""
        words = [version("handlens"), repr(Detector()), str(self.seconds), str(self.number), *EVIDENCE]
        key = fingerprint_of(words, self.folder, without=self.run, times=False)  # `more` is no part of the run's own
        journal = Journal(self.run / UNFINISHED / f"matches-{key[:16]}.jsonl")
        try:
            _propose_all(self.truth.cases, self.seconds, journal, progress)
        finally:
            journal.close()
        return [_example(self.number, case, self.truth, journal.done[case.id][0]) for case in self.truth.cases]


def _batches(folder: Path, run: Path, settings: ForgerySettings) -> list[FigureBatch]:
    """The folder, and `more` where that is given."""
    more = settings.more
    if more is not None:
        if not more.is_dir():
            raise DataError("no such folder", file=more)
        one, other = folder.resolve(), more.resolve()
        if one.is_relative_to(other) or other.is_relative_to(one):
            raise DataError(f"this is {folder}, or one lies in the other: no figure may count twice", file=more)
    folders = [folder, *([more] if more is not None else [])]
    return [
        FigureBatch(number, data.open_truth(each, settings), each, run, settings.seconds)
        for number, each in enumerate(folders)
    ]


def _report(progress: Progress, before: int, total: int, done: int, _of: int, _words: str = "", /) -> None:
    progress(before + done, total)


def _propose_all(cases: Sequence[Case], seconds: float, journal: Journal, progress: Progress) -> None:
    """Put the matches of every figure that is not there yet into the journal."""
    left = [case for case in cases if case.id not in journal.done]
    make = partial(_make_proposer, seconds)
    found = map_in_processes(make, left, workers=min(usable_cores(), len(left)), name=lambda case: case.id)
    try:
        for index, text in found:
            journal.add(left[index].id, (text,))
            progress(len(journal.done), len(cases))
    finally:
        found.close()


def _make_proposer(seconds: float) -> Any:
    return partial(_propose, Detector(), seconds)


def _propose(detector: Detector, seconds: float, case: Case) -> str:
    """What the detector proposes for a figure, as text."""
    return to_text(MatchRecord.of(detector.propose(read_image(case.path), seconds)))


def _example(batch: int, case: Case, truth: Truth[Instances], text: str) -> Example:
    record = from_text(text)
    instances = tuple(truth.read(case))
    masks = [decode(each, record.scaling.figure, order=ORDER) for each in instances]
    known = f"{batch + 1}/{case.id}" if batch else case.id  # the same numbers occur in every folder
    case = replace(case, id=known, group=f"{batch}/{group_of(case)}")
    return Example(case, instances, record, label_matches(record.in_figure(), masks))


# --- weighing ---------------------------------------------------------------------------------------------------------


def weigh(examples: Sequence[Example], verifiers: Sequence[Verifier], *, progress: Progress) -> list[list[Match]]:
    """For each example the matches worth a look, scored and extended; the canvas is made again where there are any."""
    found: list[list[Match]] = [[] for _ in examples]
    pairs = zip(examples, verifiers, strict=True)
    left = [number for number, pair in enumerate(pairs) if _has_something_to_weigh(*pair)]
    items = [(examples[number], verifiers[number]) for number in left]
    if nothing := len(examples) - len(items):
        progress(nothing, len(examples))
    weighed = map_in_processes(
        _make_weigher, items, workers=min(usable_cores(), len(items)), name=lambda item: item[0].case.id
    )
    try:
        for done, (index, matches) in enumerate(weighed, start=1 + nothing):
            found[left[index]] = matches
            progress(done, len(examples))
    finally:
        weighed.close()
    return found


def _has_something_to_weigh(example: Example, verifier: Verifier) -> bool:
    return bool(worth_a_look(score_matches(example.matches, verifier)))


def _make_weigher() -> Any:
    return partial(_weigh, Detector())


def _weigh(detector: Detector, item: tuple[Example, Verifier]) -> list[Match]:
    example, verifier = item
    canvas = detector.prepare(read_image(example.case.path))
    matches, _ = detector.weigh(example.record.to_proposal(canvas), verifier)
    return matches
