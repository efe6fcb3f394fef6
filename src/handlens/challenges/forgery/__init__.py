"""The forgery challenge: its table of contents."""

from pathlib import Path

from handlens.challenges.forgery import data, options, score
from handlens.lazy import lazy
from handlens.licences import FittedFile
from handlens.types import Adjusting, Artefact, Challenge, MaskFormat, Reporting, SampleDefaults

CHALLENGE = Challenge(
    name="forgery",
    title="Scientific image forgery (Recod.ai/LUC)",
    asks="Which regions of a figure are copies of which? Instance masks, or `authentic`.",
    metric="oF1, mean over images",
    rules=Path(__file__).with_name("rules.md"),
    read_cases=data.read_cases,
    open_truth=data.open_truth,
    survey=data.survey,
    write_sample=lazy(f"{__name__}.sample:write_sample"),
    sample_defaults=SampleDefaults(cases=10, size=512),
    codec=score.codec,
    score=score.score,
    perfect=score.perfect,
    empty=score.empty,
    load=lazy(f"{__name__}.predictor:load"),
    settings_type=options.ForgerySettings,
    artefacts=lazy(f"{__name__}.predictor:artefacts"),
    efforts=lazy(f"{__name__}.predictor:efforts"),
    fitted=(
        FittedFile(
            Path(__file__).parent / "detect" / "decision.json",
            "CC-BY-NC-4.0",
            "Curves and trees fitted to synthetic figures and BBBC038 images (CC0), and as honest examples to 23"
            " figures of two preprints (CC BY 4.0; CC BY-NC-ND 4.0) and 42 blots (licence not stated).",
        ),
        FittedFile(
            Path(__file__).parent / "detect" / "drawn.json",
            "Apache-2.0",
            "What tells drawn from photographed: rendered charts, synthetic pictures, BBBC038 images (CC0).",
        ),
    ),
    parallel=True,
    contest="recodai-luc-scientific-image-forgery-detection",
    train=lazy(f"{__name__}.training:train"),
    masks=MaskFormat(score.from_masks, score.to_masks, several=True),
    report=Reporting(
        view=lazy(f"{__name__}.report:view"),
        keep=Artefact("report", frozenset({"findings"}), lazy(f"{__name__}.report:keep_findings")),
        adjust=Adjusting(
            "sensitivity",
            lazy(f"{__name__}.report:usual_sensitivity"),
            lazy(f"{__name__}.report:adjusted"),
            lazy(f"{__name__}.report:write_adjusted"),
        ),
        found=lazy(f"{__name__}.report:found"),
        marks=score.MARKS,
        marks_about=score.MARKS_ABOUT,
        files={"overlay.png": "copies on the figure", "matches.json": "regions and transforms, for programs"},
    ),
)
