"""How forgeries are found: every figure is looked at by the detector, and its sure groups are the answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from handlens.challenges.forgery.detect import SECONDS, Detector
from handlens.challenges.forgery.detect.verifier.decision import FILE, read_decision
from handlens.challenges.forgery.score import ORDER
from handlens.io.images import read_image
from handlens.masks.rle import Rle, encode
from handlens.types import Case, Context, Model


@dataclass(frozen=True, slots=True)
class Looking:
    """Answers a case with the groups that the detector is sure of; none is `authentic`."""

    detector: Detector
    seconds: float

    def __call__(self, case: Case, /) -> tuple[Rle, ...]:
        found = self.detector.look(read_image(case.path), self.seconds)
        return tuple(encode(group.mask(found.shape), order=ORDER) for group in found.groups)


@dataclass(frozen=True, slots=True)
class Matching:
    """The detector with the shipped decision, or with one that `handlens train forgery` fitted."""

    parallel: ClassVar[bool] = True

    detector: Detector = field(default_factory=Detector)
    seconds: float = SECONDS
    """Most time for one image, where the settings say nothing else."""

    def prepare(self, context: Context, /) -> Model:
        """Read the decision; nothing is learned here."""
        detector = self.detector
        if context.model is not None:
            detector = replace(detector, decision=read_decision(context.model / FILE))
        return Looking(detector.ready(), context.settings.get("seconds", self.seconds))


RECIPE = Matching()
