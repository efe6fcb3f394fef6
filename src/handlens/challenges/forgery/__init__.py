"""The forgery challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.forgery import data, score
from handlens.lazy import recipe_of, sample_of, train_of
from handlens.types import Challenge, Option, SampleDefaults

OPTIONS = (
    Option("sources", "Folder of pictures to cut from, instead of painted ones.", commands=("sample",), kind="path"),
    Option(
        "kind",
        "Only this kind of forgery; otherwise all, as often as in the contest.",
        choices=("object clone", "region copy", "cover-up", "panel reuse", "lane reuse"),
        commands=("sample",),
    ),
    Option(
        "panels",
        "Figures of one panel or of several; otherwise both, as often as in the contest.",
        choices=("one", "several"),
        commands=("sample",),
    ),
    Option("more", "A further folder of labelled figures to learn from.", commands=("train",), kind="path"),
    Option("seconds", "Most seconds spent on one image.", default=13.0, commands=("solve", "train")),
)

CHALLENGE = Challenge(
    name="forgery",
    title="Scientific image forgery (Recod.ai/LUC)",
    asks="Which regions of a figure are copies of which? Instance masks, or `authentic`.",
    metric="oF1, mean over images",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    inspect=data.inspect,
    write_sample=sample_of(__name__),
    sample_defaults=SampleDefaults(cases=10, size=512),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    recipe=recipe_of(__name__),
    options=OPTIONS,
    train=train_of(__name__),
)
