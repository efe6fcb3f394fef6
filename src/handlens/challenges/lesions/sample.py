"""Synthetic skin lesions in the contest's layout: whom each class tends to meet, and the files."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from handlens.challenges.lesions.painting import LOOKS, Lab, paint
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES
from handlens.io.images import write_jpeg
from handlens.work import Each, one_by_one

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings

CLASSES = TAXONOMIES["ten"].classes
TRAINING_RATIO = 4
"""Training photographs per test photograph: ten classes want examples."""

LEAST_TRAINING = 2 * len(CLASSES)
"""Enough for a lesion of every class, even where each has two photographs."""

UNKNOWN = 0.05
"""Share of lesions whose age, sex or site nobody wrote down, each for itself."""

MIMICRY = 0.18
"""Share of lesions that look like another class: in real skin too, the eye alone cannot name all of them."""

SKIN_TONES: tuple[Lab, ...] = (
    (78, 9, 16),
    (71, 17, 20),
    (66, 26, 22),
    (63, 13, 25),
    (54, 17, 25),
    (42, 15, 20),
    (31, 11, 13),
)


@dataclass(frozen=True, slots=True)
class Demographics:
    """Whom a class meets: share of lesions, mean age and deviation, share of men, weights of the seven sites."""

    share: float
    age: tuple[float, float]
    men: float
    sites: tuple[int, int, int, int, int, int, int]


PEOPLE = {
    "AK": Demographics(0.09, (71, 9), 0.62, (3, 0, 0, 5, 11, 1, 1)),
    "BCC": Demographics(0.24, (66, 12), 0.60, (2, 0, 0, 0, 10, 3, 9)),
    "SK": Demographics(0.14, (63, 12), 0.52, (2, 0, 1, 0, 5, 3, 10)),
    "SCC": Demographics(0.11, (74, 10), 0.65, (4, 0, 0, 4, 9, 3, 1)),
    "VASC": Demographics(0.05, (52, 18), 0.45, (2, 1, 1, 2, 6, 2, 7)),
    "DF": Demographics(0.05, (45, 12), 0.25, (4, 1, 0, 0, 0, 14, 2)),
    "NV": Demographics(0.15, (36, 14), 0.45, (3, 1, 1, 0, 2, 4, 12)),
    "NON": Demographics(0.05, (50, 19), 0.50, (3, 2, 2, 3, 4, 4, 4)),
    "MEL": Demographics(0.11, (61, 14), 0.58, (3, 1, 0, 0, 3, 4, 9)),
    "ON": Demographics(0.05, (48, 17), 0.48, (2, 0, 1, 1, 8, 1, 6)),
}


@dataclass(frozen=True, slots=True)
class Lesion:
    """What all photographs of a lesion have in common; `kind` is what it is, `look` what it looks like."""

    id: str
    kind: str
    look: str
    demographics: tuple[str, str, str]
    tone: Lab
    seed: tuple[int, ...]
    photographs: int


def write_sample(
    folder: Path, /, *, seed: int, cases: int, size: int, settings: LesionsSettings, each: Each = one_by_one
) -> None:
    """`cases` test photographs and four times as many for training; `size` is the shorter side in pixels."""
    training = max(TRAINING_RATIO * cases, LEAST_TRAINING)
    for number, (part, count) in enumerate((("train", training), ("test", cases))):
        (folder / part / "images").mkdir(parents=True, exist_ok=True)
        found = each(partial(_write_photographs, part, size), _lesions(seed, number, count), folder)
        rows = [row for rows in found for row in rows]
        header = ("filename", "label", "Age", "Gender", "Location", "lesion_id")
        if part == "train":
            _write_table(folder / "train" / "labels.csv", header, rows)
        else:
            unlabelled = [(name, *rest) for name, _, *rest in rows]
            _write_table(folder / "test" / "labels.csv", (header[0], *header[2:]), unlabelled)
            _write_table(folder / "truth" / "labels.csv", header[:2], [row[:2] for row in rows])


def _write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])


def _write_photographs(part: str, size: int, folder: Path, lesion: Lesion) -> list[tuple[str, ...]]:
    """Paint and write the photographs of a lesion; their rows of the labels file."""
    rows: list[tuple[str, ...]] = []
    for view in range(lesion.photographs):
        rng = np.random.default_rng([*lesion.seed, 1 + view])
        close = bool(view) if lesion.photographs == 2 else bool(rng.random() < 0.4)
        name = f"{lesion.id.replace('lesion', 'photo')}_{view + 1}.jpg"
        shared = np.random.default_rng([*lesion.seed, 9])
        picture = paint(LOOKS[lesion.look], lesion.tone, shared, rng, size=size, close=close)
        write_jpeg(folder / part / "images" / name, picture, quality=int(rng.integers(85, 95)))
        rows.append((name, lesion.kind, *lesion.demographics, lesion.id))
    return rows


def _lesions(seed: int, part: int, count: int) -> list[Lesion]:
    """Lesions with `count` photographs in all; each class once where there is room, the rest by their shares."""
    rng = np.random.default_rng([seed, part])
    views = rng.integers(1, 3, count)
    views = views[: int(np.searchsorted(views.cumsum(), count)) + 1]
    if len(views):
        views[-1] -= views.sum() - count
    shares = np.array([PEOPLE[name].share for name in CLASSES])
    kinds = np.concatenate([rng.permutation(len(CLASSES)), rng.choice(len(CLASSES), count, p=shares / shares.sum())])
    kinds = rng.permutation(kinds[: len(views)])
    return [
        _lesion(CLASSES[kind], (seed, part, index), int(view))
        for index, (kind, view) in enumerate(zip(kinds, views, strict=True))
    ]


def _lesion(kind: str, seed: tuple[int, int, int], photographs: int) -> Lesion:
    rng = np.random.default_rng([*seed, 0])
    people = PEOPLE[kind]
    years = float(np.clip(rng.normal(*people.age), 3, 95))
    age = str(5 * round(years / 5)) if rng.random() < 0.7 else str(round(years))
    sex = "m" if rng.random() < people.men else "f"
    site = LOCATIONS[int(rng.choice(len(LOCATIONS), p=np.array(people.sites) / sum(people.sites)))]
    known = rng.random(3) >= UNKNOWN
    demographics = tuple(text if there else "" for text, there in zip((age, sex, site), known, strict=True))
    look = str(rng.choice(LOOKS[kind].mimics)) if rng.random() < MIMICRY else kind
    tone = np.array(SKIN_TONES[int(rng.choice(len(SKIN_TONES), p=(0.2, 0.22, 0.16, 0.17, 0.12, 0.08, 0.05)))])
    light, red, yellow = (tone + rng.normal(0, (3, 1.5, 2))).tolist()
    name = f"lesion_{seed[1] * 50_000 + seed[2] + 1:05d}"
    return Lesion(
        name, kind, look, (demographics[0], demographics[1], demographics[2]), (light, red, yellow), seed, photographs
    )
