"""Finds regions of a figure that are copies of others: cheap tiers first, then objects, then the decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.canvas.canvas import Canvas, prepare
from handlens.challenges.forgery.detect.canvas.panels import Splitting
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.extension import Growth
from handlens.challenges.forgery.detect.findings import Findings, Group, Match, Panel
from handlens.challenges.forgery.detect.geometry.outline import deepest, solidity
from handlens.challenges.forgery.detect.geometry.points import FEWEST, shared_interior
from handlens.challenges.forgery.detect.grouping import count_regions, group, shares_region
from handlens.challenges.forgery.detect.tiers.blots import BlotTier
from handlens.challenges.forgery.detect.tiers.keypoints import KeypointTier
from handlens.challenges.forgery.detect.tiers.objects import ObjectTier
from handlens.challenges.forgery.detect.tiers.panels import PanelTier
from handlens.challenges.forgery.detect.tiers.shifts import ShiftTier
from handlens.challenges.forgery.detect.verifier.decision import Decision, proof, shipped
from handlens.challenges.forgery.detect.verifier.drift import with_drift
from handlens.challenges.forgery.detect.verifier.evidence import find_rival, here_and_elsewhere, measure
from handlens.challenges.forgery.detect.verifier.vetoes import is_bent, is_label, proves_nothing

SECONDS = 13.0
"""Time for one figure in the contest."""

WORTH_A_LOOK = 0.2
"""Least probability of a match that is shown to a person."""

SURE = 0.5
"""Least probability of a group in the answer: a wrong one costs as much as a missing one."""

MOST_REGIONS = 5
"""Most places that one group can be in: what is there more often repeats by nature, like the squares of a ruler."""

MOST_JUDGED = 60
"""Matches of one tier that are judged, the most alike ones."""

PERIODIC = 0.8
"""Likeness of the source to another place beside its copy from which the texture repeats by nature."""

PERIODIC_PANEL = 0.65
"""The same for a whole panel, of which only the middle is compared: plates and arrays fit at many places."""

FITTING = 0.5
"""Likeness from which a region fits anywhere at all: under much noise a copy does not even fit on its source."""

DEEP, FEWEST_ASKED, ASKED = 4, 2, 3
"""Pixels from the rim of a region to a place in it that is asked by itself, and how few and how many of them."""

FITTING_HERE, AS_WELL = 0.6, 0.035
"""Likeness of such a place to its copy, and by how much less it may be elsewhere, where a texture repeats."""

MOST_ALIKE = 2_000
"""Most pairs of one tier that are alike at all: where there are more, as in a lattice of dots, everything is."""

MOST_PEERS = 12
"""Most other pairs that prove about as much as a copy does: where there are more, the figure repeats by nature."""

ABOUT = 0.8
"""Share of what a match proves from which another proves about as much."""

USUAL, FEW = 8.0, 8
"""How much honest pairs usually prove, in a figure with too few of them to say: that counts for so many pairs."""


@dataclass(frozen=True, slots=True)
class Detector:
    """Looks at one figure. The same figure gets the same findings, whatever was looked at before."""

    side: int = 1600
    """Longer side of the canvas in pixels; smaller figures are not enlarged."""
    splitting: Splitting = field(default_factory=Splitting)
    reuse: PanelTier | None = field(default_factory=PanelTier)
    keypoints: KeypointTier | None = field(default_factory=KeypointTier)
    blots: BlotTier | None = field(default_factory=BlotTier)
    shifts: ShiftTier | None = field(default_factory=ShiftTier)
    objects: ObjectTier | None = field(default_factory=ObjectTier)
    growth: Growth = field(default_factory=Growth)
    decision: Decision | None = None
    """How sure a match is; None is the decision that comes with the program."""

    def ready(self) -> Detector:
        """The same with its decision read."""
        return self if self.decision else replace(self, decision=shipped())

    def look(self, picture: npt.NDArray[Any], seconds: float = SECONDS) -> Findings:
        """Everything that is a copy in a picture of 8 or 16 bits, grey or in colour."""
        decision = self.decision or shipped()
        clock = Clock(seconds)
        canvas = prepare(picture, side=self.side, enlargement=1.0, splitting=self.splitting)
        matches = _worth_a_look(judge(self.match(canvas, clock), decision))
        matches = list(self.growth.grow(canvas, matches, clock))
        sure, doubtful, probability = decide(matches, decision)
        return Findings(
            canvas.figure,
            tuple(_panel_of(canvas, panel) for panel in canvas.panels),
            tuple(_to_figure(canvas, each) for each in sure),
            tuple(_to_figure(canvas, each) for each in doubtful),
            probability,
            tuple(clock.cut),
        )

    def match_figure(self, picture: npt.NDArray[Any], seconds: float = SECONDS) -> list[Match]:
        """Candidates of a stored picture in its own pixels, not yet judged."""
        canvas = prepare(picture, side=self.side, enlargement=1.0, splitting=self.splitting)
        return [_match_to_figure(canvas, match) for match in self.match(canvas, Clock(seconds))]

    def match(self, canvas: Canvas, clock: Clock) -> list[Match]:
        """Candidates of all tiers with their evidence, not yet judged."""
        import cv2

        cv2.setRNGSeed(0)
        found: list[Match] = []
        for tier in (self.reuse, self.keypoints, self.blots, self.shifts, self.objects):
            if tier is not None:
                found += tier.find(canvas, clock)
        measured = _measured(canvas, found)
        straight = [match for match in measured if not is_bent(match.tier, match.evidence)]
        bent = [match for match in measured if match.tier != "objects" and is_bent(match.tier, match.evidence)]
        return with_drift(list(_compared(canvas, straight)), witnesses=bent)


def judge(matches: Sequence[Match], decision: Decision) -> list[Match]:
    """The matches with their probabilities."""
    return [replace(match, probability=decision.probability(match)) for match in matches]


def decide(matches: Sequence[Match], decision: Decision) -> tuple[list[Group], list[Group], float]:
    """Groups that are the answer, groups that a person may look at, and the probability that the figure is forged."""
    likely = [match for match in matches if match.probability >= SURE]
    groups = [each for each in group(likely) if count_regions(each) <= MOST_REGIONS]
    probability = decision.figure(groups[0].probability if groups else 0.0)
    sure = [each for each in groups if decision.figure(each.probability) > decision.least]
    said = {id(match) for each in sure for match in each.matches}
    others = group([match for match in _worth_a_look(matches) if id(match) not in said])
    doubtful = [each for each in others if not any(shares_region(each, known) for known in sure)]
    return sure, doubtful, probability


def _worth_a_look(matches: Sequence[Match]) -> list[Match]:
    return [match for match in matches if match.probability >= WORTH_A_LOOK]


def _measured(canvas: Canvas, matches: list[Match]) -> list[Match]:
    """Each match with what its pixels say, without those that no copy could be."""
    measured, silent = [], canvas.silent
    for match in matches:
        evidence = {**match.evidence, "solid": solidity(match.source)}
        if "detail" not in evidence:
            points = shared_interior(match.source, match.matrix, silent)
            evidence |= measure(canvas, points, match.matrix) if len(points) >= FEWEST else {}
        match = replace(match, evidence=evidence)
        if not proves_nothing(match, shrunk=canvas.factor < 1) and not is_label(match, canvas.panels):
            measured.append(match)
    return measured


def _compared(canvas: Canvas, measured: list[Match]) -> Iterator[Match]:
    """Each match with how alike the other pairs of this figure are, without what repeats by nature."""
    for tier in sorted({match.tier for match in measured}):
        some = [match for match in measured if match.tier == tier]
        if len(some) > MOST_ALIKE:
            continue
        values = np.array([proof(match.evidence) for match in some])
        usual = (float(np.quantile(values, 0.7)) * len(some) + USUAL * FEW) / (len(some) + FEW)
        peers = _count_peers(some, values)
        for number in np.argsort(-values, kind="stable")[:MOST_JUDGED]:
            match = some[number]
            more = {"crowd": usual, "peers": float(peers[number]), "choices": float(len(some))}
            more["rival"] = find_rival(canvas.grain, match.source, match.matrix)
            alone = more["rival"] < (PERIODIC_PANEL if tier == "panels" else PERIODIC) and not _repeats(canvas, match)
            if alone and peers[number] <= MOST_PEERS:
                yield replace(match, evidence=match.evidence | more)


def _repeats(canvas: Canvas, match: Match) -> bool:
    """Whether a region fits beside its copy better than there: a plate, an array, a blot without anything of its own.

    A region is also asked at a few places of its own, as it may have gutters in it: where all of them fit on the copy,
    and elsewhere as well, it is a plate too. Objects are not asked: another nucleus is smooth too.
    """
    if match.tier not in ("panels", "key points"):
        return False
    if find_rival(canvas.weave, match.source, match.matrix) >= max(match.evidence.get("weave", 1.0), FITTING):
        return True
    places = deepest(match.source, deep=DEEP, side=64, most=ASKED)
    found = [here_and_elsewhere(canvas.weave, place, match.matrix) for place in places]
    return len(found) >= FEWEST_ASKED and all(
        here > FITTING_HERE and elsewhere > here - AS_WELL for here, elsewhere in found
    )


def _count_peers(matches: Sequence[Match], values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """For each match how many others, between other places, prove about as much: many where a texture repeats.

    Those that share one of its places are further copies of the same.
    """
    places = np.array([[match.source.centre, match.copy.centre] for match in matches])
    reaches = np.array([np.sqrt(match.source.area / np.pi) for match in matches])
    counts = np.zeros(len(matches), np.int64)
    for number, (place, reach) in enumerate(zip(places, reaches, strict=True)):
        apart = np.abs(places[:, :, None] - place[None, None]).max(axis=3) > reach
        counts[number] = int((apart.all(axis=(1, 2)) & (values > ABOUT * values[number])).sum())
    return counts


def _to_figure(canvas: Canvas, found: Group) -> Group:
    return replace(found, matches=tuple(_match_to_figure(canvas, match) for match in found.matches))


def _match_to_figure(canvas: Canvas, match: Match) -> Match:
    """The same match in pixels of the figure."""
    source, copy = canvas.to_figure(match.source), canvas.to_figure(match.copy)
    return replace(match, source=source, copy=copy, matrix=canvas.matrix_to_figure(match.matrix))


def _panel_of(canvas: Canvas, panel: Panel) -> Panel:
    down, across = canvas.figure[0] / canvas.shape[0], canvas.figure[1] / canvas.shape[1]
    top, bottom = round(panel.top * down), round(panel.bottom * down)
    return Panel(top, round(panel.left * across), bottom, round(panel.right * across), panel.kind)
