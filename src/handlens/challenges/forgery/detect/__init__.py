"""Finds regions of a figure that are copies of others: candidates of all tiers first, then one conclusion.

Rooms, each building on those before: `canvas` (a figure made ready), `geometry` (transforms and regions), `verifier`
(evidence, vetoes, probabilities), `tiers` (where candidates come from); then `grouping`, `extension` (halo and region
around an object), `answer`, and the detector here.

Constants say where their value comes from: a rule, a measurement, or *by hand*: set by looking at synthetic figures
(`handlens sample forgery`), with no measurement kept. The regression table in the tests shows when one changes what is
found.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import cv2
import numpy.typing as npt

from handlens.challenges.forgery.detect.answer import (
    candidate_groups,
    decide,
    group_fields,
    score_matches,
    worth_a_look,
)
from handlens.challenges.forgery.detect.canvas import Canvas, prepare
from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.extension import Extension
from handlens.challenges.forgery.detect.findings import Findings, Match, Panel, TierName
from handlens.challenges.forgery.detect.geometry.outline import solidity
from handlens.challenges.forgery.detect.geometry.points import FEWEST, shared_interior
from handlens.challenges.forgery.detect.tiers.blots import BlotFinder
from handlens.challenges.forgery.detect.tiers.keypoints import KeypointFinder
from handlens.challenges.forgery.detect.tiers.objects import ObjectFinder
from handlens.challenges.forgery.detect.tiers.panels import PanelFinder
from handlens.challenges.forgery.detect.tiers.shifts import ShiftFinder
from handlens.challenges.forgery.detect.verifier.bands import without_bands
from handlens.challenges.forgery.detect.verifier.decision import Decision, Verifier, included
from handlens.challenges.forgery.detect.verifier.drift import with_drift
from handlens.challenges.forgery.detect.verifier.evidence import measure
from handlens.challenges.forgery.detect.verifier.fields import split_fields
from handlens.challenges.forgery.detect.verifier.repetition import compare_within_figure
from handlens.challenges.forgery.detect.verifier.seam import with_seams
from handlens.challenges.forgery.detect.verifier.vetoes import is_deformed_match, is_label, proves_nothing
from handlens.challenges.forgery.options import SECONDS


class Finder(Protocol):
    """Finds the candidates of one tier."""

    def find(self, canvas: Canvas, clock: Clock) -> list[Match]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What is known of a figure before anything is scored: its canvas, and candidates in pixels of the canvas.

    `used` of the `seconds` are gone, `cut` are the tiers that ran out of time.
    """

    canvas: Canvas
    matches: tuple[Match, ...]
    seconds: float
    used: float
    cut: tuple[str, ...] = ()
    fields: tuple[Match, ...] = ()
    """Pairs that show one field twice: no candidates."""


@dataclass(frozen=True, slots=True)
class Detector:
    """Looks at one figure. The same figure gets the same findings, whatever was looked at before.

    `look` is `conclude(propose(picture), decision)`; training asks `propose` once, and then `weigh` and `decide`, of
    which `conclude` is made, with the decisions that it fits.
    """

    side: int = 1600
    """Longer side of the canvas in pixels; smaller figures are not enlarged. By hand: bounds the time."""
    splitter: PanelSplitter = field(default_factory=PanelSplitter)
    panels: Finder | None = field(default_factory=PanelFinder)
    keypoints: Finder | None = field(default_factory=KeypointFinder)
    blots: Finder | None = field(default_factory=BlotFinder)
    shifts: Finder | None = field(default_factory=ShiftFinder)
    objects: Finder | None = field(default_factory=ObjectFinder)
    extension: Extension = field(default_factory=Extension)
    decision: Decision | None = None
    """How sure a match is; None is the decision that comes with the program."""

    def ready(self) -> Detector:
        """The same with its decision read."""
        return self if self.decision else replace(self, decision=included())

    def look(self, picture: npt.NDArray[Any], seconds: float = SECONDS) -> Findings:
        """Everything that is a copy in a picture of 8 or 16 bits, grey or in colour."""
        decision = self.decision or included()
        return self.conclude(self.propose(picture, seconds), decision)

    def propose(self, picture: npt.NDArray[Any], seconds: float = SECONDS) -> Proposal:
        """Candidates of all tiers with their evidence, not yet scored; everything that depends on no decision."""
        clock = Clock(seconds)
        canvas = self.prepare(picture)
        matches, fields = self.search(canvas, clock)
        return Proposal(canvas, tuple(matches), seconds, clock.used, tuple(clock.cut), tuple(fields))

    def conclude(self, proposal: Proposal, decision: Decision) -> Findings:
        """What the candidates come to: scored, extended, grouped, decided."""
        matches, cut = self.weigh(proposal, decision.verifier)
        sure, doubtful, probability = decide(matches, decision)
        canvas, scaling = proposal.canvas, proposal.canvas.scaling
        return Findings(
            scaling.figure,
            tuple(_panel_to_figure(canvas, panel) for panel in canvas.panels),
            tuple(scaling.group_to_figure(each) for each in sure),
            tuple(scaling.group_to_figure(each) for each in doubtful),
            probability,
            cut,
            float((~canvas.blocked).mean()),
            tuple(scaling.group_to_figure(each) for each in candidate_groups(matches)),
            tuple(scaling.group_to_figure(each) for each in group_fields(proposal.fields, decision.verifier)),
        )

    def weigh(self, proposal: Proposal, verifier: Verifier) -> tuple[list[Match], tuple[str, ...]]:
        """The matches worth a look with their probabilities, objects extended; and the tiers that ran out of time."""
        clock = Clock.resumed(proposal.seconds, proposal.used, proposal.cut)
        matches = worth_a_look(score_matches(proposal.matches, verifier))
        return list(self.extension.extend(proposal.canvas, matches, clock)), tuple(clock.cut)

    def prepare(self, picture: npt.NDArray[Any]) -> Canvas:
        """The canvas of a stored picture."""
        return prepare(picture, side=self.side, enlargement=1.0, splitter=self.splitter)

    def match(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Candidates of all tiers with their evidence, in pixels of the canvas."""
        return self.search(canvas, clock)[0]

    def search(self, canvas: Canvas, clock: Clock) -> tuple[list[Match], list[Match]]:
        """The candidates, and beside them the pairs that show one field twice."""
        cv2.setRNGSeed(0)
        found: list[Match] = []
        for finder in (self.panels, self.keypoints, self.blots, self.shifts, self.objects):
            if finder is not None:
                found += finder.find(canvas, clock)
        measured = without_bands(canvas, _measured(canvas, found))
        straight = [match for match in measured if not is_deformed_match(match)]
        deformed = [match for match in measured if match.tier != TierName.OBJECTS and is_deformed_match(match)]
        compared = with_drift(list(compare_within_figure(canvas, straight)), witnesses=deformed)
        copies, fields = split_fields(canvas, compared)
        return with_seams(canvas, copies), fields


def _measured(canvas: Canvas, matches: list[Match]) -> list[Match]:
    """Each match with what its pixels say, without those that no copy could be."""
    measured, uninformative = [], canvas.uninformative
    for match in matches:
        evidence = {**match.evidence, "solidity": solidity(match.source)}
        if "detail" not in evidence:
            points = shared_interior(match.source, match.matrix, uninformative)
            evidence |= measure(canvas, points, match.matrix) if len(points) >= FEWEST else {}
        match = replace(match, evidence=evidence)
        if not proves_nothing(match, shrunk=canvas.scaling.factor < 1) and not is_label(match, canvas.panels):
            measured.append(match)
    return measured


def _panel_to_figure(canvas: Canvas, panel: Panel) -> Panel:
    figure = canvas.scaling.figure
    return panel.scaled(figure[0] / canvas.shape[0], figure[1] / canvas.shape[1])
