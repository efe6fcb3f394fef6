"""The settings of cells, the training's fields among them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from handlens.challenges.cells.score import ORDER
from handlens.settings import Settings, require_order, setting
from handlens.training.options import Presets, Schedule, TrainSettings
from handlens.types import Order


class CellsSettings(TrainSettings, frozen=True, kw_only=True):
    """Options of the commands for cells."""

    order: Annotated[Order, setting("Pixel order of the run lengths.", "score", "encode", "decode")] = ORDER
    turns: Annotated[
        Literal[1, 2, 4, 8] | None,
        setting("Test-time augmentation: orientations that are averaged  [default: as in training]", "solve"),
    ] = None
    write: Annotated[
        str | None,
        setting(
            "Files for every image: some of mask,overlay,labels,geojson,table, or all, or none"
            "  [default: mask,overlay,geojson,table]",
            "solve",
        ),
    ] = None
    mpp: (
        Annotated[
            float,
            setting(
                "Micrometres per pixel: the image is analysed at 0.25 (40x), and tables are in micrometres.",
                "solve",
                ge=0.03,
                le=2,
            ),
        ]
        | None
    ) = None
    channel: (
        Annotated[
            int,
            setting(
                "Channel, from 1, of a fluorescence image that shows nuclei  [default: the brightest of all]",
                "solve",
                ge=1,
                le=3,
            ),
        ]
        | None
    ) = None
    calibrate: (
        Annotated[
            Path,
            setting(
                "Labelled slides of other laboratories: the network does not learn from them, but the threshold that"
                " other slides than the contest's give themselves is fitted on them.",
                "train",
            ),
        ]
        | None
    ) = None
    instances: Annotated[
        bool,
        setting("Write a label image and a table of single nuclei: OUT/instances/NAME.tif and NAME.csv.", "solve"),
    ] = False


class StainAugmentation(Settings, frozen=True, kw_only=True):
    """How training crops are changed, so that other laboratories' slides are among them; shares are probabilities."""

    min_scale: Annotated[float, setting("least scale; those in the middle are most frequent", ge=0.1, le=10)] = 0.5
    max_scale: Annotated[float, setting("greatest scale", ge=0.1, le=10)] = 2.0
    elastic: Annotated[float, setting("amplitude of elastic deformation in pixels", ge=0, le=100)] = 6.0
    elastic_share: Annotated[float, setting("share of crops with elastic deformation", ge=0, le=1)] = 0.15
    stain_jitter: Annotated[float, setting("spread of each stain's strength about 1 (log-normal)", ge=0, le=5)] = 0.4
    background_stain: Annotated[
        float, setting("spread of an amount of each stain that is added everywhere", ge=0, le=5)
    ] = 0.03
    hue_jitter: Annotated[float, setting("spread of what each stain absorbs of each colour", ge=0, le=1)] = 0.05
    gamma: Annotated[float, setting("spread of the logarithm of gamma", ge=0, le=5)] = 0.25
    blur_share: Annotated[float, setting("share of blurred or sharpened crops", ge=0, le=1)] = 0.2
    max_blur: Annotated[float, setting("greatest blur, a standard deviation in pixels", ge=0.5, le=20)] = 2.0
    noise_share: Annotated[float, setting("share of crops with added noise", ge=0, le=1)] = 0.1
    jpeg_share: Annotated[float, setting("share of crops that were JPEG in between", ge=0, le=1)] = 0.1
    artefact_share: Annotated[float, setting("share of crops with pen ink, dye or a fold", ge=0, le=1)] = 0.1

    def __post_init__(self) -> None:
        require_order(self, "min_scale", "max_scale")


class CellsTraining(Settings, frozen=True, kw_only=True):
    """What `handlens train cells --set` can change about the network and its examples."""

    encoder: Annotated[str, setting("lite0, lite1, lite2, or timm:NAME")] = "lite0"
    weights: Annotated[str, setting("imagenet, scratch, or a file")] = "imagenet"
    crop: Annotated[int, setting("side of a training crop in pixels", ge=32, multiple_of=32)] = 256
    edge_weight: Annotated[float, setting("how much more a pixel at an outline counts", ge=0, le=100)] = 1.0
    dice_weight: Annotated[float, setting("weight of the soft Dice loss beside cross-entropy", ge=0, le=100)] = 1.0
    turns: Annotated[Literal[1, 2, 4, 8], setting("orientations of test-time augmentation")] = 2
    aligned: Annotated[bool, setting("correct the labels' offset in training; predictions are shifted back")] = True
    augmentation: StainAugmentation = StainAugmentation()


INCLUDED_MODEL = Path(__file__).with_name("model")
"""The model that comes with the package, trained on the contest's 37 labelled slides."""

OTHER_SLIDES = "other_slides"
"""Folder within a model's: a second model, for images that are not the contest's."""


PRESETS: Presets = {"gpu": {"encoder": "lite2", "crop": "512", "batch": "16", "ema_decay": "0.999"}}
"""By hand: the larger encoder and crops of the contest's better entries; precision follows the device."""

SCHEDULE = Schedule(batch=4, pretrained_lr_factor=1.0)
"""In an hour on a CPU a slower encoder does not get far enough."""
