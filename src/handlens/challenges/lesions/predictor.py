"""The predictor of lesions: the included network, or one of `handlens train lesions`, fed as the contest does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import choose
from handlens.challenges.lesions.baseline import PhotoStatistics, PhotoStatisticsPredictor
from handlens.challenges.lesions.contract import demographics_input, image_input, resized_input
from handlens.challenges.lesions.data import LESION
from handlens.challenges.lesions.decision import LesionsDecision
from handlens.challenges.lesions.domain import FIELD, LesionsDomain
from handlens.challenges.lesions.facts import given_facts, read_facts, with_facts
from handlens.challenges.lesions.occlusion import KINDS, MAP, occlusion_map, write_overlay
from handlens.challenges.lesions.options import INCLUDED_MODEL, LesionsSettings
from handlens.challenges.lesions.result import LesionResult
from handlens.challenges.lesions.score import SUM_TOLERANCE, Probabilities
from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.errors import HandlensError, ModelError, counted
from handlens.inference.model import Model, open_model
from handlens.inference.session import Session
from handlens.inference.tta import orient
from handlens.inference.values import as_rgb
from handlens.runstore.plan import PLAN
from handlens.types import ALONE, Artefact, Case, Context, Effort, Prediction, Work, full_effort

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Photograph:
    """A decoded case: (3, 512, 512) pixels from 0 to 1, and demographics as the network takes them.

    `others` are the other photographs of the lesion where it is answered as a whole.
    """

    name: str
    image: Floats
    demographics: Floats
    others: tuple[Floats, ...] = ()


@dataclass(frozen=True, slots=True)
class LesionsPredictor:
    """A classifier whose decision is part of its graph. Artefact `occlusion`: where it looked (`occlusion.py`).

    `facts` stand in where a case's own demographics are unknown. `domain` knows what photographs it was trained on look
    like; a picture that does not is warned about. With `per_lesion` all photographs of a lesion get their mean answer.
    `turns` are the orientations of a photograph that are averaged; with 1 it answers as the contest runs the file.
    """

    session: Session
    taxonomy: Taxonomy
    facts: Mapping[str, Any] = field(default_factory=dict)
    model: Model | None = None
    domain: LesionsDomain | None = field(default=None, repr=False)
    per_lesion: bool = False
    turns: int = 1

    def __repr__(self) -> str:
        classes, turns = len(self.taxonomy.classes), counted(self.turns, "orientation")
        return f"<LesionsPredictor: {self.model}, {classes} classes, {turns}>"

    @contextmanager
    def decode(self, case: Case, /) -> Iterator[Photograph]:
        details = with_facts(case.details, self.facts)
        lesion = case.details.get(LESION, ()) if self.per_lesion else ()
        others = tuple(image_input(path, top=1.0) for path in lesion if path != case.path)
        yield Photograph(case.id, image_input(case.path, top=1.0), demographics_input(details), others)

    def predict(self, photograph: Photograph, work: Work = ALONE, /) -> Prediction[Probabilities]:
        views = (self._views(image) for image in (photograph.image, *photograph.others))
        rows = [self._answer(photograph, view[None]).ravel() for some in views for view in some]
        row = np.mean(np.asarray(rows, np.float64), axis=0)
        total = float(row.sum())
        if row.shape != (len(self.taxonomy.classes),):
            what = f"gives {len(row)} probabilities; the {self.taxonomy.name} classes need {len(self.taxonomy.classes)}"
            raise ModelError(f"{self.session.path}: {what}")
        if not row.min() >= 0 or not abs(total - 1) <= SUM_TOLERANCE:  # not a number fails too
            raise ModelError(f"{self.session.path}: answers {photograph.name} with numbers that are no probabilities")
        looked = {MAP: self.look(photograph, int(np.argmax(row)))} if MAP in work.keep else {}
        return Prediction(row / total, looked, self._warnings(photograph))

    def _warnings(self, photograph: Photograph) -> tuple[str, ...]:
        if self.domain is None:
            return ()
        return self.domain.warnings(np.asarray(photograph.image.transpose(1, 2, 0) * 255, np.uint8))

    def look(self, photograph: Photograph, predicted: int) -> Floats:
        """What the predicted class, by its number, loses where a part is covered; in one orientation."""
        return occlusion_map(photograph.image, partial(self._answer, photograph), predicted)

    def _views(self, image: Floats) -> Iterator[Floats]:
        """A (3, H, W) photograph in each of its orientations."""
        return (np.ascontiguousarray(orient(image, orientation, (1, 2))) for orientation in range(self.turns))

    def _answer(self, photograph: Photograph, images: Floats) -> Floats:
        """Probabilities of (n, 3, H, W) pictures of the same person."""
        (rows,) = self.session(image=images, demographics=np.repeat(photograph.demographics[None], len(images), axis=0))
        return np.asarray(rows, np.float32)

    def __call__(
        self, value: Any, /, *, age: float | None = None, gender: str | None = None, site: str | int | None = None
    ) -> LesionResult:
        """The result for a photograph; demographics that are not given are unknown."""
        image = as_rgb(value)
        details = with_facts(read_facts(age, gender, site), self.facts)
        photograph = Photograph("photograph", resized_input(image, top=1.0), demographics_input(details))
        found = self.predict(photograph)
        look = partial(self.look, photograph, int(np.argmax(found.answer)))
        return LesionResult(image, found.answer, self.taxonomy, look, found.warnings)


def open_classifier(path: Path, *, threads: int | None = None, untrusted: bool = False) -> Session:
    """`image` float32 (N, 3, 512, 512) and `demographics` float32 (N, 3) to `probability` float32 (N, classes)."""
    session = Session(path, threads=threads, untrusted=untrusted)
    session.demand(
        {"image": ("tensor(float)", 4), "demographics": ("tensor(float)", 2)}, {"probability": ("tensor(float)", 2)}
    )
    return session


def load(context: Context[str, LesionsSettings]) -> LesionsPredictor:
    """The named model, or the included one; refused where it knows other classes."""
    wanted = context.settings.taxonomy
    model = open_model(context.model or INCLUDED_MODEL, challenge="lesions")
    known = _known_taxonomy(model)
    if known != wanted:
        which = "this" if context.model else "the included"
        remedy = f"say --taxonomy {known}, name another with --model, or say --solver baseline"
        raise ModelError(f"{model.folder}: {which} model knows the {known} classes: {remedy}")
    session = open_classifier(model.file, threads=context.threads, untrusted=context.untrusted)
    facts, settings = given_facts(context.settings), context.settings
    domain, turns = _domain_of(model), settings.turns or model.decision(LesionsDecision).turns
    return LesionsPredictor(session, TAXONOMIES[wanted], facts, model, domain, settings.per_lesion, turns)


def efforts(predictor: LesionsPredictor | PhotoStatisticsPredictor) -> list[Effort[Probabilities]]:
    """Fewer orientations; time goes with their number."""
    if isinstance(predictor, PhotoStatisticsPredictor):
        return list(full_effort(predictor))
    full, fewer = predictor.turns, [turns for turns in (1, 4) if turns < predictor.turns]
    return [
        *(Effort(counted(turns, "turn"), turns / full, replace(predictor, turns=turns)) for turns in fewer),
        Effort(counted(full, "turn"), 1.0, predictor),
    ]


def artefacts(settings: LesionsSettings) -> list[Artefact[Probabilities]]:
    """The files that `--write` names; the tables are written in any case."""
    kinds = choose(settings.write, KINDS, ())
    return [Artefact(MAP, frozenset({MAP}), write_overlay)] if MAP in kinds else []


def load_baseline(context: Context[str, LesionsSettings]) -> PhotoStatisticsPredictor:
    """Logistic regression on colour, outline and texture, learned from the folder's own labels."""
    return PhotoStatistics().fit(context.training(), context.settings.taxonomy, given_facts(context.settings))


def _domain_of(model: Model) -> LesionsDomain | None:
    """What the photographs that a model was trained on look like; None where its plan does not say."""
    page = model.plan.results.get(FIELD)
    try:
        return LesionsDomain.parse(page) if isinstance(page, dict) else None
    except HandlensError as error:
        raise ModelError(f"{model.folder / PLAN}: {FIELD}: {error}: train again") from None


def _known_taxonomy(model: Model) -> str:
    """Which classes a model answers with."""
    name = model.plan.fields.get("taxonomy")
    if name not in TAXONOMIES:
        raise ModelError(f"{model.folder / PLAN}: it does not say which classes the model knows: train again")
    return str(name)
