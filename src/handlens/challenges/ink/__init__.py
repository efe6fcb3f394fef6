"""The ink challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.ink import data, options, score
from handlens.lazy import lazy
from handlens.types import Adjusting, Artefact, Challenge, MaskFormat, Reporting, SampleDefaults

CHALLENGE = Challenge(
    name="ink",
    title="Ink detection (Vesuvius)",
    asks="Where is ink in a 3-D X-ray scan of carbonised papyrus? One mask for each fragment.",
    metric="F0.5, mean over fragments",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    survey=data.survey,
    write_sample=lazy(f"{__name__}.sample:write_sample"),
    sample_defaults=SampleDefaults(cases=2, size=256),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    load=lazy(f"{__name__}.predictor:load"),
    settings_type=options.InkSettings,
    baseline=lazy(f"{__name__}.predictor:load_baseline"),
    artefacts=lazy(f"{__name__}.predictor:artefacts"),
    contest="vesuvius-challenge-ink-detection",
    efforts=lazy(f"{__name__}.predictor:efforts"),
    shares_parts=lazy(f"{__name__}.predictor:shares_parts"),
    sandboxed=True,
    training_fields=(options.InkTraining(), options.SCHEDULE),
    train=lazy(f"{__name__}.training:train"),
    masks=MaskFormat(score.from_masks, score.to_masks),
    report=Reporting(
        view=lazy(f"{__name__}.report:view"),
        keep=Artefact("report", frozenset({"map"}), lazy(f"{__name__}.report:keep_map")),
        adjust=Adjusting(
            "threshold",
            lazy(f"{__name__}.report:fitted_threshold"),
            lazy(f"{__name__}.report:adjusted"),
            lazy(f"{__name__}.report:write_adjusted"),
        ),
        marks=score.MARKS,
        constants={"ink everywhere": lazy(f"{__name__}.report:everywhere")},
        marks_about=score.MARKS_ABOUT,
        files={
            "mask.png": "white where ink is",
            "overlay.png": "dark ink on the papyrus, as in an infrared photograph",
            "contours.geojson": "outlines of the ink",
            "probability/tif": "probability of ink, 16-bit",
        },
    ),
)
