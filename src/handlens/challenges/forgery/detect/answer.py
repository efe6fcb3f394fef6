"""From scored matches to an answer: which groups it has, which a person may look at, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from handlens.challenges.forgery.detect.findings import Group, Match
from handlens.challenges.forgery.detect.grouping import count_regions, group, shares_region
from handlens.challenges.forgery.detect.verifier.decision import Decision, Verifier

WORTH_A_LOOK = 0.2
"""Least probability of a match that is shown to a person. By hand."""

SURE, SURER = 0.5, 0.8
"""Least probability of matches in one group, and where one of the figure has the other. Rule: a wrong one costs as much
as a missing one. Measured on cut-out clones out of fold, at the same alarms: mean oF1 0.491 with 0.8,
0.484 with 0.5 throughout, as a false region spoils a whole group."""

MOST_REGIONS = 5
"""Most places that one group can be in: what is there more often repeats by nature, like the squares of a ruler. By
hand."""


def score_matches(matches: Sequence[Match], verifier: Verifier) -> list[Match]:
    """The matches with their probabilities."""
    return [replace(match, probability=verifier.probability(match)) for match in matches]


def worth_a_look(matches: Sequence[Match]) -> list[Match]:
    """Those that a person may be shown."""
    return [match for match in matches if match.probability >= WORTH_A_LOOK]


def candidate_groups(matches: Sequence[Match]) -> list[Group]:
    """Groups that may be the answer, the surest first; less likely matches only where they say something else."""
    least = SURER if any(match.probability >= SURER for match in matches) else SURE
    likely = group([match for match in matches if match.probability >= least])
    others = group([match for match in worth_a_look(matches) if match.probability < least])
    apart = [each for each in others if not any(shares_region(each, known) for known in likely)]
    return [each for each in (*likely, *apart) if count_regions(each) <= MOST_REGIONS]


def group_fields(matches: Sequence[Match], verifier: Verifier) -> list[Group]:
    """Fields that are shown twice, of pairs so alike that they would be copies if they stood elsewhere."""
    return group([match for match in score_matches(matches, verifier) if match.probability >= SURE])


def decide(matches: Sequence[Match], decision: Decision) -> tuple[list[Group], list[Group], float]:
    """Groups that are the answer, groups that a person may look at, and the probability that the figure is forged."""
    candidates = candidate_groups(matches)
    sure = candidates[: decision.count_answered([each.probability for each in candidates])]
    said = {id(match) for each in sure for match in each.matches}
    others = group([match for match in worth_a_look(matches) if id(match) not in said])
    doubtful = [each for each in others if not any(shares_region(each, known) for known in sure)]
    return sure, doubtful, decision.figure(candidates[0].probability if candidates else 0.0)
