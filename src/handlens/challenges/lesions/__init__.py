"""The lesions challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.lesions import data, options, score
from handlens.lazy import lazy
from handlens.types import Adjusting, Challenge, Reporting, SampleDefaults

CHALLENGE = Challenge(
    name="lesions",
    title="Skin lesion classification (Tricorder)",
    asks="Which of ten classes is this lesion? Probabilities from photograph and demographics.",
    metric="Prediction Score: accuracy and Weighted-F1, half each",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    survey=data.survey,
    write_sample=lazy(f"{__name__}.sample:write_sample"),
    sample_defaults=SampleDefaults(cases=60, size=160),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    load=lazy(f"{__name__}.predictor:load"),
    settings_type=options.LesionsSettings,
    baseline=lazy(f"{__name__}.predictor:load_baseline"),
    artefacts=lazy(f"{__name__}.predictor:artefacts"),
    summarise=lazy(f"{__name__}.result:write_answers"),
    efforts=lazy(f"{__name__}.predictor:efforts"),
    sandboxed=True,
    training_fields=(options.LesionsTraining(), options.SCHEDULE),
    train=lazy(f"{__name__}.training:train"),
    judge=lazy(f"{__name__}.judge:judge"),
    report=Reporting(
        view=lazy(f"{__name__}.report:view"),
        sections=lazy(f"{__name__}.report:sections"),
        rescore=lazy(f"{__name__}.report:rescore"),
        adjust=Adjusting(
            "sensitivity",
            lazy(f"{__name__}.report:usual_sensitivity"),
            lazy(f"{__name__}.report:adjusted"),
            lazy(f"{__name__}.report:write_adjusted"),
        ),
        found=lazy(f"{__name__}.report:found"),
        marks=score.MARKS,
        marks_about=score.MARKS_ABOUT,
        files={
            "predictions.csv": "class, risk group, probability and runner-up of each photograph",
            "occlusion.png": "where the model looked",
        },
    ),
)
