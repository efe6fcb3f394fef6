"""How one case is worked on, whatever the challenge: progress, checkpoints, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy.typing as npt

Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress(Protocol):
    """Called with how many are done, of how many, and where there is more to say: stage, loss, metric."""

    def __call__(self, done: int, total: int, words: str = "", /) -> None: ...


def no_progress(_done: int, _total: int, _words: str = "", /) -> None:
    """Progress that nobody is told."""


class Each(Protocol):
    """Does the work of every item, which writes files into the folder that it is given; results in order."""

    def __call__(
        self, work: Callable[[Path, Item], Result], items: Sequence[Item], folder: Path, /
    ) -> list[Result]: ...


def one_by_one(work: Callable[[Path, Item], Result], items: Sequence[Item], folder: Path, /) -> list[Result]:
    """`Each` in this process, in order."""
    return [work(folder, item) for item in items]


class Share(Protocol):
    """Gives the items of one case to other processes; index and result of each, as they come: `Executor.map`."""

    def __call__(
        self, make: Callable[[Path | None], Callable[[Item], Result]], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]: ...


class Checkpoints(Protocol):
    """Arrays of unfinished work that a killed run finds again; names are letters, digits and dashes."""

    @property
    def folder(self) -> Path | None:
        """Where scratch files may be put that go with the checkpoints; None where nothing is kept."""

    def load(self, name: str, /) -> npt.NDArray[Any] | None: ...
    def save(self, name: str, array: npt.NDArray[Any], /) -> None: ...


class NoCheckpoints:
    """Keeps nothing."""

    folder = None

    def load(self, name: str, /) -> npt.NDArray[Any] | None:  # noqa: ARG002
        return None

    def save(self, name: str, array: npt.NDArray[Any], /) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Work:
    """How one case is worked on; nothing of it changes the answer.

    keep         names of the artefacts that the prediction should hold, beside its answer
    progress     called with the parts of the case that are done, of how many
    checkpoints  where finished parts of a large case are kept until its answer is there
    share        how parts of the case are given to other machines; None where they are not
    """

    keep: frozenset[str] = frozenset()
    progress: Progress = no_progress
    checkpoints: Checkpoints = field(default_factory=NoCheckpoints)
    share: Share | None = None


ALONE = Work()
"""Without artefacts, progress and checkpoints."""
