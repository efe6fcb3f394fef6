"""What a notebook gets for a photograph of a lesion, and what `solve` writes for people: classes and risk groups."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.occlusion import PLACES, overlay
from handlens.challenges.lesions.options import LesionsSettings
from handlens.challenges.lesions.score import Probabilities
from handlens.challenges.lesions.taxonomy import TAXONOMIES, Taxonomy
from handlens.io.files import replacing, write_text
from handlens.results import picture_html, table_html

ANSWERS = "answers.json"
"""The probabilities again, with the names of classes and risk groups, beside the submission."""

TABLE = "predictions.csv"
TABLE_COLUMNS = ("photograph", "class", "name", "risk_group", "probability", "runner_up", "runner_up_probability")

NO_DIAGNOSIS = (
    "This is no diagnosis: it names what a picture looks most like. Show a lesion that worries you to a doctor."
)


@dataclass(frozen=True, eq=False, repr=False)
class LesionResult:
    """Probabilities of one photograph. This is no diagnosis."""

    image: npt.NDArray[np.uint8]
    row: Probabilities
    taxonomy: Taxonomy
    look: Callable[[], npt.NDArray[np.float32]] | None = None
    warnings: tuple[str, ...] = ()

    @cached_property
    def probabilities(self) -> Mapping[str, float]:
        """By class, in the contest's order; they sum to 1."""
        return dict(zip(self.taxonomy.classes, self.row.tolist(), strict=True))

    @property
    def label(self) -> str:
        """The likeliest class; of equal ones the first."""
        return self.taxonomy.classes[int(np.argmax(self.row))]

    @property
    def risk(self) -> str:
        """The risk group of the likeliest class."""
        return str(describe(self.row, self.taxonomy)["risk_group"])

    @cached_property
    def table(self) -> Mapping[str, list[Any]]:
        """A row for each class; for `pandas.DataFrame`."""
        group_of = {name: group for group, names in self.taxonomy.groups.items() for name in names}
        return {
            "class": list(self.taxonomy.classes),
            "name": list(self.taxonomy.names),
            "risk": [group_of[name] for name in self.taxonomy.classes],
            "probability": self.row.tolist(),
        }

    @cached_property
    def occlusion(self) -> npt.NDArray[np.float32]:
        """(7, 7) losses of the likeliest class's probability where that part of the photograph is covered.

        Made when it is first asked for, by 50 answers; zeros where the method cannot be asked again.
        """
        return np.zeros((PLACES, PLACES), np.float32) if self.look is None else self.look()

    def overlay(self) -> npt.NDArray[np.uint8]:
        """The photograph with the parts coloured that the answer rests on."""
        return overlay(self.image, self.occlusion)

    def __repr__(self) -> str:
        return f"<LesionResult {self.label} {self.probabilities[self.label]:.2f}, risk group {self.risk}>"

    def _repr_html_(self) -> str:
        odd = "".join(f" Warning: {text}." for text in self.warnings)
        caption = f"{sentence(describe(self.row, self.taxonomy))}. {NO_DIAGNOSIS}{odd}"
        return picture_html(self.image, caption) + table_html(self.table, rows=len(self.taxonomy.classes))


def write_answers(out: Path, answers: Mapping[str, Probabilities], settings: LesionsSettings) -> Sequence[str]:
    """Write `answers.json` and `predictions.csv`; gives what a person should know."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    pages = [{"photograph": name, **describe(row, taxonomy)} for name, row in answers.items()]
    page = {"note": NO_DIAGNOSIS, "classes": dict(zip(taxonomy.classes, taxonomy.names, strict=True))}
    write_text(out / ANSWERS, json.dumps({**page, "answers": pages}, indent=1) + "\n")
    _write_table(out / TABLE, pages)
    said = [f"{page['photograph']}: {sentence(page)}" for page in pages] if len(pages) == 1 else []
    return [*said, NO_DIAGNOSIS]


def _write_table(path: Path, pages: Sequence[Mapping[str, Any]]) -> None:
    """A row for each photograph: the likeliest class, its risk group, and the runner-up."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(TABLE_COLUMNS)
        for page in pages:
            ranked = sorted(page["probabilities"].items(), key=lambda item: -item[1])
            second, chance = ranked[1]
            first = (page["photograph"], page["class"], page["name"], page["risk_group"])
            writer.writerow((*first, f"{page['probability']:.4f}", second, f"{chance:.4f}"))


def describe(row: Probabilities, taxonomy: Taxonomy) -> dict[str, Any]:
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
