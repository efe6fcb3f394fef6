"""The cells challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.cells import data, options, score
from handlens.lazy import lazy
from handlens.types import Adjusting, Artefact, Challenge, MaskFormat, Reporting, SampleDefaults

CHALLENGE = Challenge(
    name="cells",
    title="Cell segmentation (SMILE Lab)",
    asks="Which pixels of a microscopy image are cells? One mask for each image.",
    metric="Dice, mean over images",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    survey=data.survey,
    write_sample=lazy(f"{__name__}.sample:write_sample"),
    sample_defaults=SampleDefaults(cases=4, size=500),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    load=lazy(f"{__name__}.predictor:load"),
    settings_type=options.CellsSettings,
    baseline=lazy(f"{__name__}.predictor:load_baseline"),
    artefacts=lazy(f"{__name__}.predictor:artefacts"),
    efforts=lazy(f"{__name__}.predictor:efforts"),
    shares_parts=lazy(f"{__name__}.predictor:shares_parts"),
    summarise=lazy(f"{__name__}.predictor:summarise"),
    sandboxed=True,
    training_fields=(options.CellsTraining(), options.SCHEDULE),
    train=lazy(f"{__name__}.training:train"),
    masks=MaskFormat(score.from_masks, score.to_masks),
    report=Reporting(
        view=lazy(f"{__name__}.report:view"),
        keep=Artefact("report", frozenset({"probability", "levels"}), lazy(f"{__name__}.report:keep_probability")),
        adjust=Adjusting(
            "threshold",
            lazy(f"{__name__}.report:fitted_threshold"),
            lazy(f"{__name__}.report:adjusted"),
            lazy(f"{__name__}.report:write_adjusted"),
        ),
        found=lazy(f"{__name__}.report:found"),
        marks=score.MARKS,
        constants={"nuclei everywhere": lazy(f"{__name__}.report:everywhere")},
        marks_about=score.MARKS_ABOUT,
        files={
            "mask.png": "white where nuclei are",
            "overlay.png": "outlines on the image",
            "labels.tif": "a number for each nucleus",
            "labels.ome.tif": "a number for each nucleus, as a pyramid",
            "instances/tif": "a number for each nucleus",
            "instances/csv": "a row for each nucleus",
            "geojson": "outlines: drag it onto the image in QuPath",
            "objects.csv": "a row for each nucleus",
            "summary.csv": "a row for each image",
        },
        cheap_baseline=True,
    ),
)
