"""How a lesion is named: the shipped network, or one that `handlens train lesions` made, asked as the contest asks.

Where no model lies in the package, colour, outline and texture answer, learned from the folder's own labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.baseline import PlainRecipe
from handlens.challenges.lesions.contract import demographics_input, image_input
from handlens.challenges.lesions.data import MAX_AGE, read_demographics
from handlens.challenges.lesions.score import SUM_TOLERANCE
from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.errors import HandlensError, ModelError
from handlens.inference.session import MODEL, Session, is_model, read_plan
from handlens.io.files import write_text
from handlens.types import Answer, Case, Context, Model, Settings

SHIPPED = Path(__file__).with_name("model")
"""The model that comes with the package."""

ANSWERS = "answers.json"
"""The probabilities again, with the names of classes and risk groups, beside the submission."""

NO_DIAGNOSIS = (
    "This is no diagnosis: it names what a picture looks most like. Show a lesion that worries you to a doctor."
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Network:
    """A model, what its answers must be, and facts that stand in where a case's own are unknown."""

    session: Session
    taxonomy: Taxonomy
    facts: Mapping[str, Any]

    def __call__(self, case: Case, /) -> Floats:
        details = with_facts(case.details, self.facts)
        image = image_input(case.path, top=1.0)
        (rows,) = self.session(image=image[None], demographics=demographics_input(details)[None])
        row = np.asarray(rows, np.float64).ravel()
        total = float(row.sum())
        if row.shape != (len(self.taxonomy.classes),):
            what = f"gives {len(row)} probabilities; the {self.taxonomy.name} classes need {len(self.taxonomy.classes)}"
            raise ModelError(f"{self.session.path}: {what}")
        if not row.min() >= 0 or not abs(total - 1) <= SUM_TOLERANCE:  # not a number fails too
            raise ModelError(f"{self.session.path}: answers {case.id} with numbers that are no probabilities")
        return row / total


@dataclass(frozen=True, slots=True)
class _Told:
    """A model that is told facts which a case lacks."""

    model: Model
    facts: Mapping[str, Any]

    def __call__(self, case: Case, /) -> Answer:
        details = with_facts(case.details, self.facts)
        return self.model(Case(case.id, case.path, case.shape, case.group, details, case.fault))


@dataclass(frozen=True, slots=True)
class LearnedRecipe:
    """A trained network, one photograph at a time.

    threads    None for one on each core
    fallback   answers where there is no model at all
    """

    threads: int | None = None
    fallback: PlainRecipe = field(default_factory=PlainRecipe)

    @property
    def learned(self) -> bool:
        """Whether a model comes with the package."""
        return is_model(SHIPPED)

    def prepare(self, context: Context, /) -> Model:
        """Open the named model, or the shipped one where it knows these classes; nothing is learned here."""
        facts, name = told_facts(context.settings), context.settings["taxonomy"]
        place = context.model or SHIPPED
        known = _known_taxonomy(place) if context.model or self.learned else None
        if context.model is None and known != name:
            model = self._without_network(context, known)
            return _Told(model, facts) if facts else model
        if known != name:
            raise ModelError(f"{place}: this model knows the {known} classes: say --taxonomy {known}")
        session = Session(place / MODEL, threads=self.threads)
        session.demand(
            {"image": ("tensor(float)", 4), "demographics": ("tensor(float)", 2)},
            {"probability": ("tensor(float)", 2)},
        )
        return Network(session, TAXONOMIES[name], facts)

    def _without_network(self, context: Context, known: str | None) -> Model:
        """What the folder's own labels teach; a shipped model that knows other classes is named where that fails."""
        try:
            return self.fallback.prepare(context)
        except ModelError as error:
            if known is None:
                raise
            what = f"the shipped model knows the {known} classes: say --taxonomy {known}, or --model"
            raise ModelError(f"{what} with one of your own; {error}") from None

    def leave(self, out: Path, answers: Mapping[str, Floats], settings: Settings, /) -> Sequence[str]:
        """Write `answers.json`; gives what a person should be told."""
        taxonomy = TAXONOMIES[settings["taxonomy"]]
        pages = [{"photograph": name, **describe(row, taxonomy)} for name, row in answers.items()]
        page = {"note": NO_DIAGNOSIS, "classes": dict(zip(taxonomy.classes, taxonomy.names, strict=True))}
        write_text(out / ANSWERS, json.dumps({**page, "answers": pages}, indent=1) + "\n")
        said = [f"{page['photograph']}: {sentence(page)}" for page in pages] if len(pages) == 1 else []
        return [*said, NO_DIAGNOSIS]


RECIPE = LearnedRecipe()


def told_facts(settings: Settings) -> dict[str, Any]:
    """Age, gender and location as the options say them; those that are not said are absent."""
    age, gender, site = (settings.get(name) for name in ("age", "gender", "site"))
    if age is not None and age > MAX_AGE:
        raise HandlensError(f"age is {age:g}; expected 0 to {MAX_AGE}")
    facts = read_demographics({"gender": gender or "", "location": site or ""}) | {"age": age}
    return {name: value for name, value in facts.items() if value is not None}


def with_facts(details: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A case's own details, and the facts where it has none.

    >>> with_facts({"age": 40.0, "gender": None}, {"age": 60.0, "gender": "f"})
    {'age': 40.0, 'gender': 'f'}
    """
    own = {name: value for name, value in details.items() if value is not None}
    return {**details, **facts, **own}


def describe(row: Floats, taxonomy: Taxonomy) -> dict[str, Any]:
    """The likeliest class with its name and risk group, and every probability, by class and by group."""
    chances = dict(zip(taxonomy.classes, np.asarray(row, np.float64).tolist(), strict=True))
    best = taxonomy.classes[int(np.argmax(row))]
    group_of = {name: group for group, names in taxonomy.groups.items() for name in names}
    groups = {group: float(sum(chances[name] for name in names)) for group, names in taxonomy.groups.items()}
    full = taxonomy.names[taxonomy.classes.index(best)]
    known = {"class": best, "name": full, "risk_group": group_of[best], "probability": chances[best]}
    return {**known, "risk_groups": groups, "probabilities": chances}


def sentence(page: Mapping[str, Any]) -> str:
    return f"{page['name']} ({page['class']}), risk group {page['risk_group']}, probability {page['probability']:.2f}"


def _known_taxonomy(place: Path) -> str:
    """Which classes a model answers with."""
    plan = read_plan(place, challenge="lesions")
    fields = plan.page.get("fields")
    name = fields.get("taxonomy") if isinstance(fields, dict) else None
    if name not in TAXONOMIES:
        raise ModelError(f"{place / 'plan.json'}: it does not say which classes the model knows: train again")
    return str(name)
