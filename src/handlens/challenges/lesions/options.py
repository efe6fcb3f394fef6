"""The settings of lesions, the training's fields among them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from handlens.errors import HandlensError
from handlens.settings import Settings, require_order, setting
from handlens.training.options import Presets, Schedule, TrainSettings

INCLUDED_MODEL = Path(__file__).with_name("model")
"""The model that comes with the package."""

Site = Literal[
    "arm", "feet", "genitalia", "hand", "head", "leg", "torso", "1", "2", "3", "4", "5", "6", "7"
]  # fmt: skip
Taxonomies = Literal["ten", "eleven"]
Efficiency = Literal["size-and-time", "size-only"]


class LesionsSettings(TrainSettings, frozen=True, kw_only=True):
    """Options of the commands for lesions."""

    taxonomy: Annotated[
        Taxonomies,
        setting(
            "The contest's ten classes, or the eleven of its later edition.",
            "check", "score", "solve", "judge", "train",
        ),
    ] = "ten"  # fmt: skip
    size_mb: (
        Annotated[
            float, setting("Size of the model file in MiB; with the time it gives the final score.", "score", ge=0)
        ]
        | None
    ) = None
    time_ms: Annotated[float, setting("Milliseconds for one image on one CPU thread.", "score", ge=0)] | None = None
    efficiency: Annotated[Efficiency, setting("Size and time, or the size alone.", "score", "judge")] = "size-and-time"
    pixels: Annotated[
        Literal["0-1", "0-255"], setting("Range that pixels are fed in; the contest's is 0 to 1.", "judge")
    ] = "0-1"
    age: (
        Annotated[
            float,
            setting("Age in years of the person, for photographs whose table does not give it.", "solve", ge=0, le=120),
        ]
        | None
    ) = None
    gender: Annotated[
        Literal["m", "f", "male", "female"] | None, setting("Gender of the person, likewise.", "solve")
    ] = None
    site: Annotated[Site | None, setting("Body site or its number, likewise.", "solve")] = None
    per_lesion: Annotated[
        bool,
        setting(
            "One answer for each lesion: the mean over its photographs, those with the same lesion_id in the table.",
            "solve",
        ),
    ] = False
    turns: Annotated[
        Literal[1, 4, 8] | None,
        setting(
            "Test-time augmentation: orientations that are averaged; the contest and `judge` run the model file once"
            "  [default: as in training; the included model 4]",
            "solve",
        ),
    ] = None
    write: Annotated[
        str | None,
        setting(
            "Files for every photograph: occlusion (where the model looked; half a second each), or none"
            "  [default: none]",
            "solve",
        ),
    ] = None


class PhotoAugmentation(Settings, frozen=True, kw_only=True):
    """How training photographs are changed."""

    max_scale: Annotated[float, setting("greatest scale; it is drawn evenly in its logarithm", ge=0.1, le=10)] = 1.4
    min_scale: Annotated[float, setting("least scale", ge=0.1, le=10)] = 0.75
    stretch: Annotated[float, setting("spread of the logarithm of the aspect ratio", ge=0, le=5)] = 0.08
    shift: Annotated[float, setting("largest translation, as a share of the side", ge=0, le=0.5)] = 0.06
    brightness: Annotated[
        float, setting("spread of brightness, and of the logarithms of contrast and gamma", ge=0, le=5)
    ] = 0.12
    colour: Annotated[float, setting("spread of the logarithms of colour strengths and of saturation", ge=0, le=5)] = (
        0.06
    )
    constancy_share: Annotated[
        float, setting("share of photographs whose light is made white, more or less, by shades of grey", ge=0, le=1)
    ] = 0.3
    shading: Annotated[float, setting("spread of the logarithm of light from one side to the other", ge=0, le=5)] = 0.15
    vignette_share: Annotated[float, setting("share of photographs with dark corners", ge=0, le=1)] = 0.15
    hair_share: Annotated[float, setting("share of photographs with hairs drawn over them", ge=0, le=1)] = 0.1
    blur_share: Annotated[float, setting("share of photographs that are blurred", ge=0, le=1)] = 0.15
    coarse_share: Annotated[float, setting("share of photographs of a lower resolution", ge=0, le=1)] = 0.15
    jpeg_share: Annotated[float, setting("share of photographs with JPEG's losses", ge=0, le=1)] = 0.3

    def __post_init__(self) -> None:
        require_order(self, "min_scale", "max_scale")


class LesionsTraining(Settings, frozen=True, kw_only=True):
    """What `handlens train lesions --set` can change about the network and its examples."""

    taxonomy: Annotated[Taxonomies, setting("ten or eleven classes; `--taxonomy` sets the same")] = "ten"
    encoder: Annotated[Literal["lite0", "lite1", "lite2"], setting("EfficientNet-Lite encoder")] = "lite0"
    weights: Annotated[str, setting("imagenet, scratch, or a file")] = "imagenet"
    size: Annotated[
        int,
        setting(
            "side in pixels of the network's input; the file takes 512 and reduces it", ge=32, le=512, multiple_of=32
        ),
    ] = 192
    crop: Annotated[
        int,
        setting("side in pixels of training crops of that input; 0: all of it", ge=0, le=512, multiple_of=32),
    ] = 0
    start: Annotated[
        str,
        setting("a model to continue: included, or a folder of `handlens train`; what it saw is never held out"),
    ] = ""
    frozen_stages: Annotated[int, setting("first stages of the encoder, of five, that are not trained", ge=0, le=5)] = 2
    freeze_norm: Annotated[bool, setting("whether batch norms keep their pretrained statistics")] = True
    dropout: Annotated[float, setting("dropout of features", ge=0, le=0.9)] = 0.2
    metadata_dropout: Annotated[
        float, setting("metadata dropout: share of demographic facts hidden from a step", ge=0, le=1)
    ] = 0.3
    label_smoothing: Annotated[float, setting("label smoothing", ge=0, le=0.9)] = 0.05
    sampling_power: Annotated[
        float,
        setting("power of the inverse class frequency in sampling: 0 none, 1 classes balanced", ge=0, le=1),
    ] = 0.5
    warm_start: Annotated[
        bool, setting("whether the last layer starts as a logistic regression on frozen features")
    ] = True
    head_only: Annotated[bool, setting("whether that regression is all that is learned: minutes instead of hours")] = (
        False
    )
    l2: Annotated[float, setting("L2 penalty of that regression", ge=0, le=1e6)] = 0.1
    objective: Annotated[Literal["prediction", "macro-f1"], setting("what class offsets are chosen for")] = "prediction"
    bootstraps: Annotated[int, setting("bootstrap samples over which offsets are averaged", ge=0, le=10_000)] = 24
    offset_penalty: Annotated[float, setting("points of score that an offset costs by its square", ge=0, le=10)] = 0.001
    turns: Annotated[
        Literal[1, 4, 8],
        setting("orientations that predictions average; the contest runs the file once, so 1 shows its score"),
    ] = 1
    weight_format: Annotated[Literal["fp32", "fp16", "int8"], setting("number format of the exported file")] = "fp16"
    augmentation: PhotoAugmentation = PhotoAugmentation()

    def __post_init__(self) -> None:
        if self.crop > self.size:
            raise HandlensError(f"crop {self.crop} is larger than size {self.size}; expected at most that")


SCHEDULE = Schedule(batch=16, learning_rate=0.001, pretrained_lr_factor=0.3, weight_decay=0.02, ema_decay=0.995)

PRESETS: Presets = {
    "gpu": {"encoder": "lite2", "size": "256", "batch": "64", "frozen_stages": "0", "ema_decay": "0.999"},
}
"""By hand: the whole of the largest encoder, near the size that it was made for; precision follows the device."""
