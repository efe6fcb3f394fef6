"""Fits the decision to labelled figures: each is proposed once, kept, and then concluded out of fold.

The detector itself learns nothing.
"""

from __future__ import annotations

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
from handlens.challenges.forgery.detect.verifier.decision import FILE, Verifier, shipped
from handlens.challenges.forgery.detect.verifier.features import EVIDENCE
from handlens.challenges.forgery.fitting import Example, fit, group_of
from handlens.challenges.forgery.match_labels import label_matches
from handlens.challenges.forgery.match_records import MatchRecord, from_text, to_text
from handlens.challenges.forgery.score import ORDER
from handlens.errors import DataError
from handlens.inference.executors import map_in_processes, usable_cores
from handlens.io.files import write_text
from handlens.io.images import read_image
from handlens.masks.rle import decode
from handlens.runstore.store import JOURNAL, Journal, fingerprint
from handlens.types import Case, Progress, Settings, Truth

MORE = "more.jsonl"
"""File of a run with what was seen in the further figures, until all is done."""


def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
    """Fit the decision to the labelled figures of a folder, and of one `more`; the numbers are of figures that were not
    fitted to.

    Stopped and called again, it goes on with the figures that were not yet looked at.
    """
    shipped()  # a curve may be taken from it in the end: if it is damaged, say so before hours of looking
    looks = _looks(folder, run, settings)
    total = 2 * sum(len(look.truth.cases) for look in looks)  # each is proposed, then concluded out of fold
    examples: list[Example] = []
    for look in looks:
        examples += look.examples(partial(_tell, progress, len(examples), total))
    if not any(label >= 0 for example in examples for label in example.labels):
        names = " and ".join(str(look.folder) for look in looks)
        raise DataError(f"the detector finds no true copy in {names}, so that there is nothing to learn from")
    decision, numbers = fit(examples, partial(weigh, progress=partial(_tell, progress, len(examples), total)))
    write_text(run / FILE, decision.to_json())
    for look in looks:
        (run / look.journal).unlink(missing_ok=True)
    return numbers


# --- examples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureBatch:
    """The labelled figures of a folder, and the file of the run in which is kept what was seen until all is done."""

    number: int
    truth: Truth
    folder: Path
    run: Path
    journal: str
    seconds: float

    def examples(self, progress: Progress) -> list[Example]:
        """All figures with their matches; those of another folder are in other groups, whatever their names."""
        words = [version("handlens"), repr(Detector()), str(self.seconds), *EVIDENCE]
        journal = Journal(self.run, fingerprint(words, self.folder, without=self.run), self.journal)
        try:
            _look_at_all(self.truth.cases, self.seconds, journal, progress)
        finally:
            journal.close()
        return [_example(self.number, case, self.truth, journal.done[case.id][0]) for case in self.truth.cases]


def _looks(folder: Path, run: Path, settings: Settings) -> list[FigureBatch]:
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
        FigureBatch(number, data.open_truth(each, settings), each, run, name, float(settings["seconds"]))
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
    """What the detector proposes for a figure, as text."""
    return to_text(MatchRecord.of(detector.propose(read_image(case.path), seconds)))


def _example(look: int, case: Case, truth: Truth, text: str) -> Example:
    record = from_text(text)
    instances = tuple(truth.read(case))
    masks = [decode(each, record.scaling.figure, order=ORDER) for each in instances]
    case = replace(case, group=f"{look}/{group_of(case)}")
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
