"""The nouns every challenge is told in: cases, truths, codecs, models, recipes, scores, challenges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal, Protocol

from handlens.errors import HandlensError, Problem

Answer = Any
"""What a model says about a case: runs, a tuple of runs, or probabilities. The challenge's codec knows."""

Label = Any
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
class Truth:
    """Labelled cases. `cases` tell nothing of the answer; `read` fetches the label of one of them, when asked."""

    cases: tuple[Case, ...]
    read: Callable[[Case], Label]


@dataclass(frozen=True, slots=True)
class Codec:
    """How an answer is written in a submission.

    `parse` takes the text of the answer columns and raises ValueError with a sentence for the user. `refused` names
    kinds of broken cells with an example of each: the contract test feeds every one of them. `numeric` columns are
    numbers in Parquet. `parse_many` may do what `parse` does for many rows at once, where that is faster. `hint` may
    say what is odd about the ids of a file that is refused, given those and the expected ones.
    """

    id_column: str
    columns: tuple[str, ...]
    parse: Callable[[tuple[str, ...], Case], Answer]
    format: Callable[[Answer, Case], tuple[str, ...]]
    refused: Mapping[str, tuple[str, ...]]
    numeric: bool = False
    parse_many: Callable[[Sequence[tuple[str, ...]], Sequence[Case]], Sequence[Answer | ValueError]] | None = None
    hint: Callable[[Sequence[str], Sequence[str]], str] = lambda _given, _expected: ""

    @property
    def header(self) -> tuple[str, ...]:
        return (self.id_column, *self.columns)

    def parse_all(self, rows: Sequence[tuple[str, ...]], cases: Sequence[Case]) -> Sequence[Answer | ValueError]:
        """The answers of some rows; an error stands in the place of its row."""
        return self.parse_many(rows, cases) if self.parse_many else list(map(self._parse_or_error, rows, cases))

    def _parse_or_error(self, cells: tuple[str, ...], case: Case) -> Answer | ValueError:
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


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a data folder holds, and every problem found in it."""

    facts: Mapping[str, str]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of this challenge alone: `--order columns` for cells; `commands` are those that have it.

    It is one of `choices` where there are some, otherwise of a kind: a number from 0 on, a count from 1 on, a path, a
    flag, which is False unless it is given, or fields, a mapping of names to texts.
    """

    name: str
    help: str
    choices: tuple[str, ...] = ()
    default: Any = None
    commands: tuple[str, ...] = ("score",)
    kind: Literal["number", "count", "path", "flag", "fields"] = "number"

    def read(self, value: Any) -> Any:
        """A value that was given, as `settings` hold it; the default stands for itself."""
        if value == self.default:
            return value
        if self.choices:
            fits, expected = value in self.choices, f"one of {', '.join(self.choices)}"
        elif self.kind == "path":
            fits, expected = isinstance(value, str | Path), "a path"
        elif self.kind == "flag":
            fits, expected = isinstance(value, bool), "True or False"
        elif self.kind == "count":
            fits, expected = isinstance(value, int) and value >= 1, "a whole number from 1 on"
        elif self.kind == "fields":
            fits, expected = isinstance(value, Mapping), "names and their texts"
        else:
            fits, expected = isinstance(value, int | float) and 0 <= value < inf, "a number from 0 on"
        if not fits:
            raise HandlensError(f"{self.name} is {value!r}; expected {expected}")
        return Path(value).absolute() if self.kind == "path" else value


Settings = Mapping[str, Any]
"""Option name to value, complete: every option of the challenge is there."""


class Progress(Protocol):
    """Called with how many are done, of how many, and where there is more to say: stage, loss, metric."""

    def __call__(self, done: int, total: int, words: str = "", /) -> None: ...


def no_progress(_done: int, _total: int, _words: str = "", /) -> None:
    """Progress that nobody is told."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a recipe is told when it prepares a model.

    `training` opens the labelled cases to learn from, None where there are none; not calling it costs nothing.
    `model` is the folder of a `handlens train`, None where none was named. `out` is the folder of the submission, for
    what a model leaves beside it; it may not be there yet, and is None where nothing is to be left. `tell` is for a
    model that takes minutes over one case: told how many parts of it are done, of how many, and words about it.
    """

    settings: Settings = field(default_factory=dict)
    training: Callable[[], Truth | None] = lambda: None
    model: Path | None = None
    out: Path | None = None
    tell: Progress = no_progress


class Model(Protocol):
    """Answers a case. Deterministic: the same case gets the same answer."""

    def __call__(self, case: Case, /) -> Answer: ...


class Recipe(Protocol):
    """How a challenge is solved: a frozen dataclass, its hyper-parameters as fields.

    A model that learns from labels must not answer a training case with what it learned from that case's group.
    Where the class says `parallel = True`, cases are answered by several processes, each with a pickled copy of the
    prepared model: for solvers that take long, do not share work among threads themselves, and keep no state. Where
    it says `learned`, it has a model of its own, and a note is left with the score of a training part. Where it has
    `leave`, that is called with the folder of the submission, all answers by id, and the settings: it may write more
    files there, and gives notes for a person.
    """

    def prepare(self, context: Context, /) -> Model: ...


class WriteSample(Protocol):
    """Writes made-up data in the true layout into an empty folder."""

    def __call__(self, folder: Path, /, *, seed: int, cases: int, size: int, settings: Settings) -> None: ...


class Train(Protocol):
    """Learns from the labelled cases of a data folder and writes what `Context.model` needs into the run's folder.

    Gives named numbers about what it learned, honest ones: of cases that it did not learn from. What is found in the
    run's folder is left by a training that was stopped; it may go on from there. Stopped, it raises KeyboardInterrupt.
    """

    def __call__(self, folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model that nobody trusts may use: memory beyond that of an idle process, and seconds.

    `load_seconds` are for opening the file, `answer_seconds` for one question, `total_seconds` for all together.
    """

    memory_mib: int = 4096
    load_seconds: float = 60.0
    answer_seconds: float = 10.0
    total_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one model: a rank and named numbers, or, with rank 0, the word of its refusal and why."""

    model: Path
    rank: int
    verdict: str
    why: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Models in the order of their ranks, the refused ones last.

    `columns` are the parts that stand in the table of standings; the others follow in a table of their own.
    `unguarded` says what this machine cannot keep a model from.
    """

    models: tuple[Judged, ...]
    cases: int
    columns: tuple[str, ...]
    unguarded: tuple[str, ...] = ()


class Judge(Protocol):
    """Rle models that nobody trusts on labelled cases, each in a locked process, and ranks them.

    A model that is refused does not keep the others from being judged.
    """

    def __call__(
        self, models: Sequence[Path], truth: Truth, settings: Settings, limits: Limits, progress: Progress, /
    ) -> Judgement: ...


@dataclass(frozen=True, slots=True)
class SampleDefaults:
    """Cases in the test part and image size of a made-up data set small enough for a demo."""

    cases: int
    size: int


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge is a value: names, words and plain functions.

    read_cases   the cases of one part of a data folder; an empty list where the part is absent
    open_truth   labelled cases of a data folder or a solution file
    inspect      what is in a data folder, and what is wrong with it
    write_sample made-up data into an empty folder: (folder, seed=, cases=, size=, settings=)
    codec        how answers are written, under these settings
    score        the exact score of parsed answers, one for every case of the truth
    perfect      the answer that a label asks for
    empty        the answer of someone who saw nothing
    recipe       makes the recipe that `solve` uses
    train        makes a model that the recipe can use: (folder, run, settings, progress); None where nothing can
    judge        runs and ranks models of others: (models, truth, settings, limits, progress); None where nothing can
    """

    name: str
    title: str
    asks: str
    metric: str
    rules: Path
    read_cases: Callable[[Path, Part], list[Case]]
    open_truth: Callable[[Path, Settings], Truth]
    inspect: Callable[[Path], Inventory]
    write_sample: WriteSample
    sample_defaults: SampleDefaults
    codec: Callable[[Settings], Codec]
    score: Callable[[Mapping[str, Answer], Truth, Settings], Score]
    perfect: Callable[[Label, Case, Settings], Answer]
    empty: Callable[[Case, Settings], Answer]
    recipe: Callable[[], Recipe]
    options: Sequence[Option] = ()
    train: Train | None = None
    judge: Judge | None = None

    def settings(self, **given: Any) -> dict[str, Any]:
        """All options with their values: the given ones, the rest at their defaults; unknown names are refused."""
        known = {option.name: option.default for option in self.options}
        unknown = sorted(set(given) - set(known))
        if unknown:
            have = ", ".join(known) or "none"
            raise HandlensError(f"{self.name} has no option {', '.join(unknown)}; its options: {have}")
        return known | {option.name: option.read(given[option.name]) for option in self.options if option.name in given}
