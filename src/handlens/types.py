"""What a challenge is: predictors and their predictions, artefacts, reports, the challenge itself.

With the names of `cases`, `judgements` and `work`, so that one import has all that a challenge is described in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from handlens.cases import AnswerT as AnswerT
from handlens.cases import Case as Case
from handlens.cases import CaseScore as CaseScore
from handlens.cases import Codec as Codec
from handlens.cases import Inventory as Inventory
from handlens.cases import LabelT as LabelT
from handlens.cases import Order as Order
from handlens.cases import Part as Part
from handlens.cases import Score as Score
from handlens.cases import Shape as Shape
from handlens.cases import Truth as Truth
from handlens.errors import HandlensError
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

InputT = TypeVar("InputT")
"""A decoded case: rows of an image, a flattened volume, a photograph with demographics."""


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
    folder's own labels must not predict a training case with what it learned from that case's group.
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


def shares_nothing(_predictor: CasePredictor[Any, Any], /) -> bool:
    """For challenges whose cases go to one worker each."""
    return False


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


def nothing_told(_answers: Mapping[str, Any], _settings: Any, /) -> str:
    return ""


def no_files(_out: Path, _target: Path, _case: Case, _answer: Any, _settings: Any, /) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Adjusting(Generic[AnswerT, SettingsT]):
    """How an answer changes with a threshold, without predicting again, from what `Reporting.keep` left.

    `answer` gets the output folder, the case, its answer in the run, the value from 0 to 1, the run's model folder or
    None, and settings; `start` gives the value that the model was fitted to. `write` makes the files of a changed
    answer: (output folder, another folder for them, case, changed answer, settings).
    """

    name: str
    start: Callable[[Path | None], float]
    answer: Callable[[Path, Case, AnswerT, float, Path | None, SettingsT], AnswerT]
    write: Callable[[Path, Path, Case, AnswerT, SettingsT], None] = no_files


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
    files        what the files of a solve are for, by name or, for those of a case, by what follows its id,
                 after the folder that they lie in
    adjust       how answers change with a threshold; None where they do not
    cheap_baseline  whether the baseline is so fast that every report may compare with it
    constants    answers that look at nothing, by name, beside the empty one: what a score has to beat
    found        what was found in all cases together, in a few words: (answers by id, settings)
    """

    view: Callable[[Path, Case, AnswerT, LabelT | None, SettingsT], CaseView]
    sections: Callable[[Sequence[Case], Mapping[str, AnswerT], Mapping[str, LabelT], SettingsT], Sequence[Section]] = (
        no_sections
    )
    rescore: Callable[[Sequence[CaseScore], npt.NDArray[np.int64], SettingsT], npt.NDArray[np.float64]] = mean_of_each
    keep: Artefact[AnswerT] | None = None
    marks: tuple[Mark, ...] = ()
    marks_about: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    adjust: Adjusting[AnswerT, SettingsT] | None = None
    cheap_baseline: bool = False
    constants: Mapping[str, Callable[[Case, SettingsT], AnswerT]] = field(default_factory=dict)
    found: Callable[[Mapping[str, AnswerT], SettingsT], str] = nothing_told


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
    contest      name of the contest at Kaggle, for `data --download`; empty where its data is elsewhere
    efforts      the ways in which a predictor can answer, from the cheapest to the full one, for `solve --deadline`
    shares_parts whether this predictor uses `Work.share`, so that a cluster's workers share the parts of a large case
    masks        how answers are made of mask images, for `encode` and `decode`; None where they are no masks
    report       what the report shows of its cases; None for scores and tables alone
    fitted       parameters that `load` uses without `--model`, where they are no model folder with a licence of its own
    sandboxed    whether `load` respects the context's `untrusted`
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
    contest: str = ""
    efforts: Callable[[Predictor[Any, AnswerT]], Sequence[Effort[AnswerT]]] = full_effort
    shares_parts: Callable[[Predictor[Any, AnswerT]], bool] = shares_nothing
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
