"""The cells challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.cells import data, score
from handlens.types import Challenge, Recipe, SampleDefaults


def write_sample(folder: Path, /, *, seed: int, cases: int, size: int) -> None:
    from handlens.challenges.cells import sample  # not needed for scoring

    sample.write_sample(folder, seed=seed, cases=cases, size=size)


def make_recipe() -> Recipe:
    from handlens.challenges.cells import recipe  # not needed for scoring

    return recipe.RECIPE


CHALLENGE = Challenge(
    name="cells",
    title="Cell segmentation (SMILE Lab)",
    asks="Which pixels of a microscopy image are cells? One mask for each image.",
    metric="Dice, mean over images",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=write_sample,
    sample_defaults=SampleDefaults(cases=4, size=500),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=make_recipe,
    options=score.OPTIONS,
)
