"""The ink challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.ink import data, options, score
from handlens.lazy import recipe_of, sample_of, train_of
from handlens.types import Challenge, SampleDefaults

CHALLENGE = Challenge(
    name="ink",
    title="Ink detection (Vesuvius)",
    asks="Where is ink in a 3-D X-ray scan of carbonised papyrus? One mask for each fragment.",
    metric="F0.5, mean over fragments",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=sample_of(__name__),
    sample_defaults=SampleDefaults(cases=2, size=256),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=recipe_of(__name__),
    options=options.OPTIONS,
    train=train_of(__name__),
)
