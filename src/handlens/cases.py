"""Cases and what is known of them: labels, how answers are written, what they are worth, what a data folder holds."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from handlens.errors import Problem

AnswerT = TypeVar("AnswerT")
"""What a predictor answers for a case: run lengths, a tuple of them, probabilities. The challenge's codec knows it."""

LabelT = TypeVar("LabelT")
"""What is true about a case, in the challenge's own terms."""

Part = Literal["train", "test"]
Order = Literal["rows", "columns"]
"""How pixels are numbered: `rows` left to right then down, `columns` top to bottom then right."""

Shape = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to answer about: an image, a fragment, a photograph.

    `shape` is (height, width), None where nothing says it. Cases with the same `group` show the same thing and
    must stay on one side of a split. `details` are the challenge's own facts, such as a patient's age. `fault` says
    what is wrong with the case's file where its header could not be read.
    """

    id: str
    path: Path
    shape: Shape | None = None
    group: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""

    @property
    def pixels(self) -> int | None:
        """How many there are; None where the shape is unknown."""
        return self.shape[0] * self.shape[1] if self.shape else None


@dataclass(frozen=True, slots=True)
class Truth(Generic[LabelT]):
    """Labelled cases. `cases` say nothing of the label; `read` reads the label of one of them, on demand."""

    cases: tuple[Case, ...]
    read: Callable[[Case], LabelT]

    def among(self, ids: Container[str]) -> Truth[LabelT]:
        """The labelled cases with these ids."""
        return Truth(tuple(case for case in self.cases if case.id in ids), self.read)


@dataclass(frozen=True, slots=True)
class Codec(Generic[AnswerT]):
    """How an answer is written in a submission.

    `parse` takes the text of the answer columns and raises ValueError with a sentence for the user. `refused` names
    kinds of broken cells with an example of each: the contract test feeds every one of them. `numeric` columns are
    numbers in Parquet. `parse_many` may do what `parse` does for many rows at once, where that is faster. `hint` may
    say what is odd about the ids of a file that is refused, given those and the expected ones.
    """

    id_column: str
    columns: tuple[str, ...]
    parse: Callable[[tuple[str, ...], Case], AnswerT]
    format: Callable[[AnswerT, Case], tuple[str, ...]]
    refused: Mapping[str, tuple[str, ...]]
    numeric: bool = False
    parse_many: Callable[[Sequence[tuple[str, ...]], Sequence[Case]], Sequence[AnswerT | ValueError]] | None = None
    hint: Callable[[Sequence[str], Sequence[str]], str] = lambda _given, _expected: ""

    @property
    def header(self) -> tuple[str, ...]:
        return (self.id_column, *self.columns)

    def parse_all(self, rows: Sequence[tuple[str, ...]], cases: Sequence[Case]) -> Sequence[AnswerT | ValueError]:
        """The answers of some rows; an error stands in the place of its row."""
        return self.parse_many(rows, cases) if self.parse_many else list(map(self._parse_or_error, rows, cases))

    def _parse_or_error(self, cells: tuple[str, ...], case: Case) -> AnswerT | ValueError:
        try:
            return self.parse(cells, case)
        except ValueError as error:
            return ValueError(str(error))  # a new one: the caught one would keep alive all that parsing made


@dataclass(frozen=True, slots=True)
class CaseScore:
    """What one answer is worth, and the numbers behind it."""

    id: str
    value: float
    parts: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Score:
    """The exact score, its parts, the cases in the truth's order, and hints for a person."""

    value: float
    parts: Mapping[str, float]
    cases: tuple[CaseScore, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {value:.6g}" for name, value in list(self.parts.items())[:6])
        return f"<Score {self.value:.6g}: {parts}; {len(self.cases):,} cases>"


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a data folder holds, and every problem found in it."""

    facts: Mapping[str, str]
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()
    """What is no problem but may surprise, such as files that are skipped."""
