"""The lesions challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.lesions import data, options, score
from handlens.lazy import judge_of, recipe_of, sample_of, train_of
from handlens.types import Challenge, SampleDefaults

CHALLENGE = Challenge(
    name="lesions",
    title="Skin lesion classification (Tricorder)",
    asks="Which of ten classes is this lesion? Probabilities from photograph and demographics.",
    metric="Prediction Score: accuracy and Weighted-F1, half each",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=sample_of(__name__),
    sample_defaults=SampleDefaults(cases=60, size=160),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=recipe_of(__name__),
    options=options.OPTIONS,
    train=train_of(__name__),
    judge=judge_of(__name__),
)
