"""Every case answered once: by processes, into the journal, counted for whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from handlens.errors import HandlensError
from handlens.inference.executors import map_in_processes, usable_cores
from handlens.runstore.store import Journal
from handlens.types import Answer, Case, Challenge, Context, Model, Progress, Recipe


def answer_all(
    challenge: Challenge,
    cases: Sequence[Case],
    recipe: Recipe,
    context: Context,
    journal: Journal,
    keep_going: bool,
    workers: int | None,
    telling: Telling,
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """A row for every case, and notes; cases that the journal has already are not asked again.

    An empty answer in place of a case that cannot be read is no answer: the journal does not keep it.
    """
    codec = challenge.codec(context.settings)
    waiting = [case for case in cases if case.id not in journal.done]
    known = len(cases) - len(waiting)
    telling.cases(known)
    faults: dict[int, str] = {}
    if waiting:
        make = partial(_asking, recipe.prepare(context), keep_going)
        count = count_workers(recipe, workers, len(waiting))
        answers = map_in_processes(make, waiting, workers=count, name=lambda case: case.id)
        with closing(journal), closing(answers):
            for done, (index, answer) in enumerate(answers, known + 1):
                if isinstance(answer, _Unread):
                    faults[index] = answer.why
                else:
                    journal.add(waiting[index].id, codec.format(answer, waiting[index]))
                telling.cases(done)
    unread = [(waiting[index], faults[index]) for index in sorted(faults)]
    empty = {case.id: codec.format(challenge.empty(case, context.settings), case) for case, _ in unread}
    return {**journal.done, **empty}, [f"{case.id}: empty answer, because {why}" for case, why in unread]


class Telling:
    """Counts cases for the progress bar; in hundredths from when a model first says how far it is with one."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done, self.unit = progress, total, 0, 1

    def cases(self, done: int) -> None:
        self.done = done
        self.progress(done * self.unit, self.total * self.unit)

    def part_of_a_case(self, done: int, total: int, words: str = "", /) -> None:
        self.unit = 100
        self.progress(self.done * 100 + 100 * done // total, self.total * 100, words)


@dataclass(frozen=True, slots=True)
class _Unread:
    """Stands for the answer to a case that cannot be read."""

    why: str


def _asking(model: Model, keep_going: bool) -> Callable[[Case], Answer | _Unread]:
    """What a process does with a case; the model was prepared once, for all processes."""
    return partial(_ask, model) if keep_going else model


def _ask(model: Model, case: Case) -> Answer | _Unread:
    try:
        return model(case)
    except HandlensError as error:
        return _Unread(str(error))


def count_workers(recipe: Recipe, workers: int | None, waiting: int) -> int:
    """The number asked for; otherwise one for each core, if there is enough to do to make up for a slow start."""
    if workers is not None:
        return min(workers, waiting)
    return min(usable_cores(), waiting // 2) if getattr(recipe, "parallel", False) else 1
