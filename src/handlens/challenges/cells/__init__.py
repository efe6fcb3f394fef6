"""The cells challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.cells import data, options, score
from handlens.lazy import recipe_of, sample_of, train_of
from handlens.types import Challenge, SampleDefaults

CHALLENGE = Challenge(
    name="cells",
    title="Cell segmentation (SMILE Lab)",
    asks="Which pixels of a microscopy image are cells? One mask for each image.",
    metric="Dice, mean over images",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=sample_of(__name__),
    sample_defaults=SampleDefaults(cases=4, size=500),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=recipe_of(__name__),
    options=options.OPTIONS,
    train=train_of(__name__),
)
