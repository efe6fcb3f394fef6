"""The lesions challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.lesions import data, score
from handlens.types import Challenge, Recipe, SampleDefaults


def write_sample(folder: Path, /, *, seed: int, cases: int, size: int) -> None:
    from handlens.challenges.lesions import sample  # not needed for scoring

    sample.write_sample(folder, seed=seed, cases=cases, size=size)


def make_recipe() -> Recipe:
    from handlens.challenges.lesions import recipe  # not needed for scoring

    return recipe.RECIPE


CHALLENGE = Challenge(
    name="lesions",
    title="Skin lesion classification (Tricorder)",
    asks="Which of ten classes is this lesion? Probabilities from photograph and demographics.",
    metric="Prediction Score: accuracy and Weighted-F1, half each",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=write_sample,
    sample_defaults=SampleDefaults(cases=60, size=160),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=make_recipe,
    options=score.OPTIONS,
)
