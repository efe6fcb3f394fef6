"""The nouns every challenge is described in: cases, truths, codecs, predictors, scores, challenges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from handlens.errors import HandlensError, Problem
from handlens.judgements import Judged as Judged
from handlens.judgements import Judgement as Judgement
from handlens.judgements import Limits as Limits
from handlens.licences import FittedFile
from handlens.settings import Settings, SettingsT
from handlens.views import CaseView, Mark, Section
from handlens.work import ALONE as ALONE
from handlens.work import Checkpoints as Checkpoints
from handlens.work import NoCheckpoints as NoCheckpoints
from handlens.work import Progress as Progress
from handlens.work import Work as Work
from handlens.work import no_progress as no_progress

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

AnswerT = TypeVar("AnswerT")
"""What a predictor answers for a case: run lengths, a tuple of them, probabilities. The challenge's codec knows it."""

LabelT = TypeVar("LabelT")
"""What is true about a case, in the challenge's own terms."""

InputT = TypeVar("InputT")
"""A decoded case: rows of an image, a flattened volume, a photograph with demographics."""

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
        return f"<Score {self.value!r}: {parts}; {len(self.cases):,} cases>"


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a data folder holds, and every problem found in it."""

    facts: Mapping[str, str]
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()
    """What is no problem but may surprise, such as files that are skipped."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction(Generic[AnswerT]):
    """An answer and what was made on the way to it, by name: probability map, label image, table, evidence.

    A predictor's docstring names its artefacts; those that cost memory are there only where `Work.keep` names them.
    `warnings` are sentences about this case for a person, such as that the image is of a kind that the model was not
    made for. A sentence names neither the case nor its file, so that those of many cases can be counted.
    """

    answer: AnswerT
    artefacts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class ModelFolder(Protocol):
    """A trained model on disk; `inference.model.Model` is one."""

    @property
    def folder(self) -> Path: ...
    @property
    def licence(self) -> str: ...
    @property
    def trained_on(self) -> frozenset[str]: ...


class CasePredictor(Protocol[InputT, AnswerT]):
    """The half of a predictor that is about cases: decode, then predict."""

    @property
    def model(self) -> ModelFolder | None:
        """The trained model behind it; None for one that was not trained."""

    def decode(self, case: Case, /) -> AbstractContextManager[InputT]:
        """Open the files of a case; DataError where they cannot be read."""

    def predict(self, decoded: InputT, work: Work = ..., /) -> Prediction[AnswerT]: ...


class Predictor(CasePredictor[InputT, AnswerT], Protocol[InputT, AnswerT]):
    """Turns a decoded case into an answer: preprocessing, network or detector, decision.

    The one object that `solve`, `predict`, `inspect`, training's out-of-fold answers, benchmarks and notebooks share.
    Deterministic: the same input gets the same answer. Picklable: workers get a copy. A predictor that learns from a
    folder's own labels must not answer a training case with what it learned from that case's group.
    """

    def __call__(self, value: Any, /, **facts: Any) -> Any:
        """The result for an array, a PIL image or a path, as a notebook wants it."""


@dataclass(frozen=True, slots=True)
class Effort(Generic[AnswerT]):
    """A way to answer that costs so much: the predictor with all turns and tiers, or with fewer of them.

    `name` is what a user reads, such as `2 turns`. `cost` is its time as a share of the full effort's, by measurement;
    a run with a deadline corrects it as it goes.
    """

    name: str
    cost: float
    predictor: CasePredictor[Any, AnswerT]


def full_effort(predictor: CasePredictor[Any, AnswerT], /) -> Sequence[Effort[AnswerT]]:
    return (Effort("full effort", 1.0, predictor),)


@dataclass(frozen=True, slots=True)
class Context(Generic[LabelT, SettingsT]):
    """What a predictor is loaded with.

    `training` opens the labelled cases of the data folder, None where there are none; not calling it costs nothing.
    `model` is the folder of a `handlens train`, None for the model that comes with the package. `threads` is how many
    one predictor may use, None for one on each core. `untrusted`: run an ONNX file in a sandbox.
    """

    settings: SettingsT
    training: Callable[[], Truth[LabelT] | None] = lambda: None
    model: Path | None = None
    threads: int | None = None
    untrusted: bool = False


@dataclass(frozen=True, slots=True)
class Artefact(Generic[AnswerT]):
    """A file, or several, that `solve` writes beside the submission for every case.

    `keep` names what a prediction must hold for it; one that does not leaves no such file. `write` gets the output
    folder, the case, what it was decoded to, and the prediction.
    """

    name: str
    keep: frozenset[str]
    write: Callable[[Path, Case, Any, Prediction[AnswerT]], None]


ContraSettingsT = TypeVar("ContraSettingsT", bound=Settings, contravariant=True)


class WriteSample(Protocol[ContraSettingsT]):
    """Writes synthetic data in the true layout into an empty folder."""

    def __call__(
        self, folder: Path, /, *, seed: int, cases: int, size: int, settings: ContraSettingsT, **more: Any
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class SampleDefaults:
    """Cases in the test part and image size of a synthetic data set small enough for a demo."""

    cases: int
    size: int


@dataclass(frozen=True, slots=True)
class MaskFormat(Generic[AnswerT, SettingsT]):
    """How an answer is made of (H, W) masks, and masks of an answer; `several` where a case may have instances."""

    encode: Callable[[Sequence[npt.NDArray[Any]], SettingsT], AnswerT]
    decode: Callable[[AnswerT, Shape, SettingsT], Sequence[npt.NDArray[Any]]]
    several: bool = False


def no_artefacts(_settings: Any, /) -> Sequence[Artefact[Any]]:
    return ()


def no_summary(_out: Path, _answers: Mapping[str, Any], _settings: Any, /) -> Sequence[str]:
    return ()


def no_sections(
    _cases: Sequence[Case], _answers: Mapping[str, Any], _labels: Mapping[str, Any], _settings: Any, /
) -> Sequence[Section]:
    """No charts or tables about all cases."""
    return ()


def mean_of_each(scores: Sequence[CaseScore], chosen: npt.NDArray[np.int64], _settings: Any) -> npt.NDArray[np.float64]:
    """The mean of some cases' values, for each row of `chosen` numbers of cases."""
    import numpy as np

    means: npt.NDArray[np.float64] = np.array([score.value for score in scores])[chosen].mean(axis=1)
    return means


@dataclass(frozen=True, slots=True)
class Adjusting(Generic[AnswerT, SettingsT]):
    """How an answer changes with a threshold, without predicting again, from what `Reporting.keep` left.

    `answer` gets the output folder, the case, the value from 0 to 1, the run's model folder or None, and settings;
    `start` gives the value that the model was fitted to.
    """

    name: str
    start: Callable[[Path | None], float]
    answer: Callable[[Path, Case, float, Path | None, SettingsT], AnswerT]


@dataclass(frozen=True, slots=True)
class Reporting(Generic[AnswerT, LabelT, SettingsT]):
    """What the report of a challenge shows.

    view         one case: (output folder, case, answer, label or None, settings). The folder is that of the run, where
                 maps and tables may lie; a file of the case that cannot be read raises DataError
    sections     charts and tables about all cases: (cases, answers, labels, settings); labels are empty without truth
    rescore      the score of resampled cases, for the interval: (case scores, rows of their numbers, settings)
    keep         what a solve leaves for the view beside its answers, in the folder `report_data`; a view does without
                 it where there is none
    marks        scores that are known from the contest or from papers, the best first
    marks_about  what these are scores of
    adjust       how answers change with a threshold; None where they do not
    cheap_baseline  whether the baseline is so fast that every report may compare with it
    """

    view: Callable[[Path, Case, AnswerT, LabelT | None, SettingsT], CaseView]
    sections: Callable[[Sequence[Case], Mapping[str, AnswerT], Mapping[str, LabelT], SettingsT], Sequence[Section]] = (
        no_sections
    )
    rescore: Callable[[Sequence[CaseScore], npt.NDArray[np.int64], SettingsT], npt.NDArray[np.float64]] = mean_of_each
    keep: Artefact[AnswerT] | None = None
    marks: tuple[Mark, ...] = ()
    marks_about: str = ""
    adjust: Adjusting[AnswerT, SettingsT] | None = None
    cheap_baseline: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Challenge(Generic[AnswerT, LabelT, SettingsT]):
    """A challenge is a value: names, sentences and plain functions.

    read_cases   the cases of one part of a data folder; an empty list where the part is absent
    open_truth   labelled cases of a data folder or a solution file
    survey       what is in a data folder, and what is wrong with it
    write_sample synthetic data into an empty folder: (folder, seed=, cases=, size=, settings=). One that also takes
                 `each=` writes its cases by it, so that they can be shared among machines: see `one_by_one`
    codec        how answers are written, under these settings
    score        the exact score of parsed answers, one for every case of the truth
    perfect      the answer that matches a label
    empty        the answer of someone who saw nothing
    load         the predictor that `solve` uses
    settings_type  the challenge's settings: a `Settings` class whose fields say which commands offer them
    baseline     a predictor without a trained model, for `solve --solver baseline`: what a model must beat
    artefacts    files that `solve` writes for every case under these settings
    summarise    called with the output folder and all answers by id; may write more files, gives notes for a person
    parallel     whether `solve` shares cases among processes: for predictors that use one thread each
    tiled        whether the predictor can share the parts of one case: it heeds `Work.share`
    contest      name of the contest at Kaggle, for `data --download`; empty where its data is elsewhere
    efforts      the ways in which a predictor can answer, from the cheapest to the full one, for `solve --deadline`
    masks        how answers are made of mask pictures, for `encode` and `decode`; None where they are no masks
    report       what the report shows of its cases; None for scores and tables alone
    fitted       parameters that `load` uses without `--model`, where they are no model folder with a licence of its own
    sandboxed    whether `load` heeds the context's `untrusted`
    training_fields  what `train --set` can change, at its defaults
    train        learns from the labelled cases of a folder, writes what `load` needs into the run's folder, and gives
                 out-of-fold numbers: (folder, run, settings, progress). It resumes; KeyboardInterrupt where stopped
    judge        runs untrusted models, each in a sandbox, and ranks them: (models, truth, settings, limits, progress);
                 with `executor=`, on other machines
    """

    name: str
    title: str
    asks: str
    metric: str
    rules: Path
    read_cases: Callable[[Path, Part], list[Case]]
    open_truth: Callable[[Path, SettingsT], Truth[LabelT]]
    survey: Callable[[Path], Inventory]
    write_sample: WriteSample[SettingsT]
    sample_defaults: SampleDefaults
    codec: Callable[[SettingsT], Codec[AnswerT]]
    score: Callable[[Mapping[str, AnswerT], Truth[LabelT], SettingsT], Score]
    perfect: Callable[[LabelT, Case, SettingsT], AnswerT]
    empty: Callable[[Case, SettingsT], AnswerT]
    load: Callable[[Context[LabelT, SettingsT]], Predictor[Any, AnswerT]]
    settings_type: type[SettingsT] = Settings  # type: ignore[assignment]
    baseline: Callable[[Context[LabelT, SettingsT]], Predictor[Any, AnswerT]] | None = None
    artefacts: Callable[[SettingsT], Sequence[Artefact[AnswerT]]] = no_artefacts
    summarise: Callable[[Path, Mapping[str, AnswerT], SettingsT], Sequence[str]] = no_summary
    parallel: bool = False
    tiled: bool = False
    contest: str = ""
    efforts: Callable[[Predictor[Any, AnswerT]], Sequence[Effort[AnswerT]]] = full_effort
    masks: MaskFormat[AnswerT, SettingsT] | None = None
    report: Reporting[AnswerT, LabelT, SettingsT] | None = None
    fitted: tuple[FittedFile, ...] = ()
    sandboxed: bool = False
    training_fields: Sequence[Settings] = ()
    train: Callable[[Path, Path, SettingsT, Progress], Mapping[str, float]] | None = None
    judge: Callable[..., Judgement] | None = None

    def __repr__(self) -> str:
        return f"<Challenge {self.name}: {self.title}; {self.metric}>"

    def settings(self, **given: Any) -> SettingsT:
        """Checked settings: the given ones, the rest at their defaults; unknown names are refused."""
        try:
            return self.settings_type.parse(given)
        except HandlensError as error:
            raise HandlensError(f"{self.name}: {error}") from None


AnyChallenge = Challenge[Any, Any, Any]  # one whose types do not matter, such as one of the registry
