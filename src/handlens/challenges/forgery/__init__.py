"""The forgery challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.forgery import data, score
from handlens.types import Challenge, Recipe, SampleDefaults


def write_sample(folder: Path, /, *, seed: int, cases: int, size: int) -> None:
    from handlens.challenges.forgery import sample  # not needed for scoring

    sample.write_sample(folder, seed=seed, cases=cases, size=size)


def make_recipe() -> Recipe:
    from handlens.challenges.forgery import recipe  # not needed for scoring

    return recipe.RECIPE


CHALLENGE = Challenge(
    name="forgery",
    title="Scientific image forgery (Recod.ai/LUC)",
    asks="Which regions of a figure are copies of which? Instance masks, or `authentic`.",
    metric="oF1, mean over images",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=write_sample,
    sample_defaults=SampleDefaults(cases=10, size=512),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=make_recipe,
)
