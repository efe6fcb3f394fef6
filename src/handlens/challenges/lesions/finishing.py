"""What a finished training says about itself: classes, subgroups, calibration; and photographs that show its domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions import data
from handlens.challenges.lesions.score import Probabilities
from handlens.challenges.lesions.subgroups import calibration, tables
from handlens.challenges.lesions.taxonomy import Taxonomy
from handlens.training.sources import Pool
from handlens.types import Score

CARD = (
    "Predicts the probability of each class of skin lesion from a photograph and from age, gender and body site.",
    "Input `image`: float32 (N, 3, 512, 512) RGB in 0 to 1 or 0 to 255; `demographics`: float32 (N, 3): age (0",
    "unknown), gender (1 m, 0 f, -1 unknown), site (1 to 7, -1 unknown). Output `probability`: float32 (N, classes),",
    "summing to 1. Preprocessing, class offsets and temperature are part of the graph. Architecture:",
    "EfficientNet-Lite, metadata concatenated to its features.",
    "",
    "Not to be used for a diagnosis, for deciding whether a doctor is needed, for pictures that are no photographs of",
    "one lesion, or on its own for people whose skin type or body site the tables show few examples of.",
    "",
    "**This is not a medical device, and its output is not a diagnosis.** Classes with few examples are often missed,",
    "as the tables show. Expect worse results with other cameras, other clinics, and skin tones that are rare in the",
    "training data.",
)

SAMPLE = 3000
"""Photographs that are enough to know what all look like."""


def card_lines(score: Score, answers: Mapping[str, Probabilities], pooled: Pool[str], taxonomy: Taxonomy) -> list[str]:
    """Markdown about predictions out of fold: classes, subgroups, and whether probabilities are what they say."""
    scored = {case.id for case in score.cases}
    cases = [case for case in pooled.truth.cases if case.id in scored]
    columns = {
        "source": _sources(pooled),
        "kind": _column(pooled, data.KIND_COLUMNS),
        "skin tone": _column(pooled, data.TONE_COLUMNS),
    }
    right = {case.id: bool(case.value) for case in score.cases}
    sure = {id: float(np.max(answers[id])) for id in right if id in answers}
    return [*tables(score, cases, taxonomy, columns), *calibration(sure, right)]


def sample_pictures(pictures: Sequence[npt.NDArray[np.uint8]]) -> list[npt.NDArray[np.uint8]]:
    """Some photographs at random, the same every time."""
    order = np.random.default_rng(0).permutation(len(pictures))[:SAMPLE]
    return [pictures[index] for index in order.tolist()]


def _sources(pooled: Pool[str]) -> dict[str, str]:
    """The name of the source of each photograph; nothing where there is only one."""
    sources = pooled.sources
    pairs = zip(pooled.truth.cases, pooled.source_of, strict=True)
    return {case.id: sources[at].name for case, at in pairs} if len(sources) > 1 else {}


def _column(pooled: Pool[str], names: Sequence[str]) -> dict[str, str]:
    """What the tables of all sources say in a column, by case."""
    found: dict[str, str] = {}
    for number, source in enumerate(pooled.sources):
        prefix = f"{source.name}/" if number else ""
        found |= {f"{prefix}{id}": text for id, text in data.read_column(source.folder, names).items()}
    return found
