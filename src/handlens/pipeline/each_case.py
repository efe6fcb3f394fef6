"""Every case once: decode, predict, write the artefacts, keep the answer; in this process or in several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from handlens.errors import DiskFullError, HandlensError
from handlens.inference.executors import Executor, Processes, usable_cores
from handlens.runstore.store import RunStore
from handlens.settings import SettingsT
from handlens.types import (
    AnswerT,
    AnyChallenge,
    Artefact,
    Case,
    CasePredictor,
    Challenge,
    Checkpoints,
    NoCheckpoints,
    Prediction,
    Predictor,
    Progress,
    Work,
    no_progress,
)

LARGE_PIXELS = 50_000_000
"""Pixels from which cases are shared tile by tile, and it is said that they are being read: such a fragment takes an
hour of one core, and a picture that is read whole some seconds."""


class ProgressCounter:
    """Counts cases for the progress bar; in hundredths from when a predictor first reports parts of one."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done, self.unit = progress, total, 0, 1

    def cases(self, done: int) -> None:
        self.done = done
        self.progress(done * self.unit, self.total * self.unit)

    def part_of_a_case(self, name: str, done: int, total: int, words: str = "", /) -> None:
        self.unit = 100
        self.progress(self.done * 100 + 100 * done // total, self.total * 100, words or name)


@dataclass(frozen=True, slots=True)
class _Unread:
    """Stands for the answer to a case that cannot be read."""

    why: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What comes back from a process for a case that could be read."""

    answer: Any
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseWorker:
    """What a process does with a case: decode, predict, write the artefacts; the answer goes back."""

    predictor: CasePredictor[Any, Any]
    artefacts: tuple[Artefact[Any], ...]
    out: Path
    checkpoints: Callable[[str], Checkpoints]
    keep_going: bool
    counter: Callable[..., None] | None = None
    share: Executor | None = None
    """Who is given the parts of a case."""

    def __call__(self, case: Case) -> Answered | _Unread:
        try:
            return self._predict(case)
        except DiskFullError:  # no fault of the case
            raise
        except HandlensError as error:
            if not self.keep_going:
                raise
            return _Unread(str(error))

    def _predict(self, case: Case) -> Answered:
        keep = frozenset().union(*(artefact.keep for artefact in self.artefacts))
        kept = self.checkpoints(case.id)
        progress = partial(self.counter, case.id) if self.counter else no_progress
        share = partial(self.share.map, name=lambda _part: case.id) if self.share else None
        if _is_large(case):
            progress(0, 1, f"reading {case.id}")
        with self.predictor.decode(case) as decoded:
            if _is_large(case):
                progress(0, 1)
            prediction: Prediction[Any] = self.predictor.predict(decoded, Work(keep, progress, kept, share))
            for artefact in self.artefacts:
                if artefact.keep <= prediction.artefacts.keys():  # a baseline may not have it
                    artefact.write(self.out, case, decoded, prediction)
        return Answered(prediction.answer, prediction.warnings)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The row of every case, notes on cases that could not be read, and what was odd about others, by id."""

    rows: Mapping[str, tuple[str, ...]]
    notes: list[str]
    warnings: Mapping[str, tuple[str, ...]]


def predict_all(
    challenge: Challenge[AnswerT, Any, SettingsT],
    cases: Sequence[Case],
    predictor: Predictor[Any, AnswerT],
    settings: SettingsT,
    store: RunStore,
    artefacts: tuple[Artefact[AnswerT], ...],
    *,
    keep_going: bool,
    workers: int | None,
    counter: ProgressCounter,
    executor: Executor | None = None,
) -> Predicted:
    """A row for every case; cases that the journal has already are not predicted again.

    An `executor` takes the place of `workers`. An empty answer in place of a case that cannot be read is no answer:
    the journal does not keep it.
    """
    codec, journal, warnings = challenge.codec(settings), store.journal(), store.journal("warnings")
    waiting = [case for case in cases if case.id not in journal.done]
    known = len(cases) - len(waiting)
    counter.cases(known)
    executor = executor or Processes(count_workers(challenge, workers, len(waiting)))
    alone = CaseWorker(predictor, artefacts, store.folder, store.arrays, keep_going, counter.part_of_a_case)
    if not executor.is_here and _are_large(waiting) and challenge.shares_parts(predictor):  # not the cases, their parts
        alone, executor = replace(alone, share=executor), Processes(1)
    work = alone if executor.is_here else replace(alone, counter=None)  # a copy in another process reports nothing
    faults: dict[int, str] = {}
    if waiting:
        results = executor.map(partial(_in_folder, work), waiting, out=store.folder, name=lambda case: case.id)
        with closing(journal), closing(warnings), closing(results):
            for done, (index, result) in enumerate(results, known + 1):
                if isinstance(result, _Unread):
                    faults[index] = result.why
                else:
                    if result.warnings:  # before the answer: a case that is answered has its warnings
                        warnings.add(waiting[index].id, result.warnings)
                    journal.add(waiting[index].id, codec.format(result.answer, waiting[index]))
                    store.arrays(waiting[index].id).remove()
                counter.cases(done)
    unread = [(waiting[index], faults[index]) for index in sorted(faults)]
    empty = {case.id: codec.format(challenge.empty(case, settings), case) for case, _ in unread}
    notes = [f"{case.id}: empty answer, because {why}" for case, why in unread]
    warned = {case.id: warnings.done[case.id] for case in cases if case.id in warnings.done and case.id in journal.done}
    return Predicted({**journal.done, **empty}, notes, warned)


def _are_large(cases: Sequence[Case]) -> bool:
    """Whether each case is worth the work of many: one alone, or such large ones that each would take long."""
    return len(cases) == 1 or all(_is_large(case) for case in cases)


def _is_large(case: Case) -> bool:
    return (case.pixels or 0) >= LARGE_PIXELS


def _in_folder(work: CaseWorker, folder: Path | None) -> CaseWorker:
    """The work with its files in this folder. The predictor was loaded once, for all processes.

    A folder on another machine goes with its worker, so there is no use in checkpoints.
    """
    return work if folder in (None, work.out) else replace(work, out=folder, checkpoints=_no_checkpoints)


def _no_checkpoints(_case: str) -> Checkpoints:
    return NoCheckpoints()


def count_workers(challenge: AnyChallenge, workers: int | None, waiting: int) -> int:
    """The number asked for; otherwise one for each core, if there is enough to do to make up for a slow start."""
    if workers is not None:
        return min(workers, waiting)
    return min(usable_cores(), waiting // 2) if challenge.parallel else 1
