"""The predictor of forgery: the detector with the included decision, or with one that `handlens train` fitted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from handlens.artefacts import choose, file_of
from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.verifier.decision import FILE, SENSITIVITIES, included, read_decision
from handlens.challenges.forgery.options import SECONDS, ForgerySettings
from handlens.challenges.forgery.result import ForgeryResult
from handlens.challenges.forgery.score import ORDER, Instances
from handlens.inference.values import as_picture
from handlens.io.files import write_text
from handlens.io.images import read_image
from handlens.io.png import write_bands
from handlens.masks.rle import encode
from handlens.types import ALONE, Artefact, Case, Context, Effort, Prediction, Work

KINDS = ("overlay", "table")
CUT = "the limit of {:g} s ended the search early ({}): on a faster machine, or with more --seconds, it may find more"
"""Said of an answer that depends on the machine's speed; any other is the same everywhere."""

DRAWN = (
    "hardly anything here looks photographed: charts, drawings and letters repeat by themselves and are not searched,"
    " so this answer means little"
)
LEAST_SEARCHED = 0.05
"""Share of a figure's pixels that must look photographed. Measured: 0.96 and more of micrographs, 0.35 and more of
blots, none of a chart; figures made of charts and small pictures lie between."""

FINDINGS = "findings"
"""Artefact: everything the detector found, `detect.findings.Findings`."""

CHEAPER: tuple[tuple[str, float, dict[str, Any]], ...] = (
    ("without objects", 0.4, {"objects": None}),
    ("without objects and shifts", 0.3, {"shifts": None}),
    ("panels and keypoints", 0.2, {"blots": None}),
)
"""Efforts below the full one: what each leaves out besides, and its cost. The first was measured on 12
figures of 1000 pixels, the others are guesses; a run with a deadline measures them all."""


@dataclass(frozen=True, slots=True)
class ForgeryPredictor:
    """Answers with the groups that the detector is sure of; none is `authentic`. Artefacts: `findings`."""

    detector: Detector = field(default_factory=lambda: Detector().ready())
    seconds: float = SECONDS
    model: None = None

    def __repr__(self) -> str:
        return f"<ForgeryPredictor: at most {self.seconds:g} s for each figure>"

    @contextmanager
    def decode(self, case: Case, /) -> Iterator[npt.NDArray[Any]]:
        yield read_image(case.path)

    def predict(self, image: npt.NDArray[Any], work: Work = ALONE, /) -> Prediction[Instances]:
        found = self.detector.look(image, self.seconds)
        instances = tuple(encode(group.mask(found.shape), order=ORDER) for group in found.groups)
        warnings = [CUT.format(self.seconds, ", ".join(found.cut))] if found.cut else []
        warnings += [DRAWN] if found.searched < LEAST_SEARCHED else []
        return Prediction(instances, {FINDINGS: found}, warnings=tuple(warnings))

    def __call__(self, value: Any, /) -> ForgeryResult:
        image = as_picture(value)
        return ForgeryResult(image, self.predict(image).artefacts[FINDINGS])


def load(context: Context[Instances, ForgerySettings]) -> ForgeryPredictor:
    """The detector with the decision of a run, or the included one."""
    decision = included() if context.model is None else read_decision(context.model / FILE)
    decision = decision.at(SENSITIVITIES[context.settings.sensitivity])
    return ForgeryPredictor(Detector(decision=decision), context.settings.seconds)


def efforts(predictor: ForgeryPredictor) -> list[Effort[Instances]]:
    """Fewer tiers, the dearest left out first, and a smaller canvas at last."""
    detector, known = predictor.detector, [Effort("all tiers", 1.0, predictor)]
    for name, cost, without in CHEAPER:
        detector = replace(detector, **without)
        known.append(Effort(name, cost, replace(predictor, detector=detector)))
    return known[::-1]


def artefacts(settings: ForgerySettings) -> list[Artefact[Instances]]:
    """The files that `--write` names."""
    kinds = choose(settings.write, KINDS, KINDS)
    return [Artefact("files", frozenset({FINDINGS}), ForgeryFiles(kinds))] if kinds else []


@dataclass(frozen=True, slots=True)
class ForgeryFiles:
    """For figures with copies: the figure with every group outlined, and a table of the matches."""

    kinds: frozenset[str]

    def __call__(self, out: Path, case: Case, image: npt.NDArray[Any], prediction: Prediction[Instances]) -> None:
        result = ForgeryResult(image, prediction.artefacts[FINDINGS])
        if not result.is_forged:
            return
        if "overlay" in self.kinds:
            picture = result.overlay()
            write_bands(file_of(out, case, "overlay.png"), (picture.shape[0], picture.shape[1]), [picture])
        if "table" in self.kinds:
            rows = [dict(zip(result.table, row, strict=True)) for row in zip(*result.table.values(), strict=True)]
            write_text(file_of(out, case, "matches.json"), json.dumps(rows, indent=1) + "\n")
