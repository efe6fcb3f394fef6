"""The ink challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.ink import data, score
from handlens.types import Challenge, Recipe, SampleDefaults


def write_sample(folder: Path, /, *, seed: int, cases: int, size: int) -> None:
    from handlens.challenges.ink import sample  # not needed for scoring

    sample.write_sample(folder, seed=seed, cases=cases, size=size)


def make_recipe() -> Recipe:
    from handlens.challenges.ink import recipe  # not needed for scoring

    return recipe.RECIPE


CHALLENGE = Challenge(
    name="ink",
    title="Ink detection (Vesuvius)",
    asks="Where is ink in a 3-D X-ray scan of carbonised papyrus? One mask for each fragment.",
    metric="F0.5, mean over fragments",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=write_sample,
    sample_defaults=SampleDefaults(cases=2, size=256),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=make_recipe,
    options=score.OPTIONS,
)
