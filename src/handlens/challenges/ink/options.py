"""The settings of ink, the training's fields among them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from handlens.errors import HandlensError
from handlens.settings import Settings, setting
from handlens.training.options import Presets, Schedule, TrainSettings

INCLUDED_MODEL = Path(__file__).with_name("model")
"""The model that comes with the package."""

FEW_SLICES = "few"
"""Folder within a model's folder: a model for stacks of few slices, which is asked about those."""

LEAST_LAYERS = 11
"""Fewer are used up by the network's convolutions."""


class InkSettings(TrainSettings, frozen=True, kw_only=True):
    """Options of the commands for ink."""

    average: Annotated[
        Literal["fragments", "pooled"],
        setting("Mean over fragments, or F0.5 of all their pixels pooled.", "score"),
    ] = "fragments"
    turns: Annotated[
        Literal[1, 4] | None,
        setting("Test-time augmentation: quarter turns that are averaged  [default: as in training]", "solve"),
    ] = None
    write: Annotated[
        str | None,
        setting("Files for every fragment: some of mask,overlay,contours, or all, or none  [default: all]", "solve"),
    ] = None
    reverse: Annotated[
        bool,
        setting("The sheet is seen from behind: its written side looks to the other end of the stack.", "solve"),
    ] = False
    probability: Annotated[
        Literal["tiff", "zarr"] | None,
        setting("Write the probability map too, 16 bits: OUT/probability/NAME.tif or NAME.zarr.", "solve"),
    ] = None
    letters: Annotated[
        Path | None,
        setting("A folder of label maps, *inklabels.png, to take letters from  [default: drawn ones]", "sample"),
    ] = None
    difficulty: Annotated[float, setting("1 is an ordinary fragment; above it ink is weaker.", "sample", ge=0)] = 1.0
    flaked: (
        Annotated[
            float,
            setting(
                "Share of the ink that has come off in spots; real segments: 0.3  [default: 0.03]",
                "sample",
                ge=0.001,
                le=0.9,
            ),
        ]
        | None
    ) = None
    slices: Annotated[int, setting("Slices of a stack; the contest's have 65.", "sample", ge=1)] = 24
    width: (
        Annotated[int, setting("Width of a fragment  [default: a quarter more than its height]", "sample", ge=1)] | None
    ) = None


class InkAugmentation(Settings, frozen=True, kw_only=True):
    """How training crops are changed; shares are probabilities."""

    shift: Annotated[int, setting("layers that the window is moved by at most, either way", ge=0, le=16)] = 2
    zoom: Annotated[float, setting("largest change of scale, either way; 1 for none", ge=1, le=4)] = 1.25
    mix_share: Annotated[
        float, setting("share of crops with mixup or CutMix with another crop of the same fragment", ge=0, le=1)
    ] = 0.3
    few_share: Annotated[
        float, setting("share of crops with few layers: one to seven slices, the others repeated", ge=0, le=1)
    ] = 0.3
    contrast: Annotated[float, setting("spread of the logarithm of contrast", ge=0, le=5)] = 0.15
    brightness: Annotated[float, setting("spread of brightness in grey levels", ge=0, le=255)] = 8.0


class InkTraining(Settings, frozen=True, kw_only=True):
    """What `handlens train ink --set` can change about the network and its examples."""

    below: Annotated[
        int, setting("layers below the surface, in the sheet; a layer is a 24th of the stack", ge=1, le=64)
    ] = 11
    above: Annotated[int, setting("layers above the surface", ge=1, le=64)] = 8
    side: Annotated[Literal["first", "last"], setting("the end of the stack where the air is")] = "last"
    slices: Annotated[
        Literal["all", "few"],
        setting("stacks of any number of slices; or few: a network of its own for less than 8, to lie in MODEL/few"),
    ] = "all"
    width: Annotated[float, setting("width multiplier of the network", ge=0.1, le=8)] = 1.0
    dice_weight: Annotated[float, setting("weight of the soft Dice loss beside cross-entropy", ge=0, le=100)] = 1.0
    turns: Annotated[Literal[1, 4], setting("quarter turns of test-time augmentation")] = 4
    crop: Annotated[int, setting("side of a training crop in pixels", ge=64, multiple_of=32)] = 256
    start: Annotated[
        str, setting("model folder whose weights are the first ones; what it has seen is never held out")
    ] = ""
    few: Annotated[
        str, setting("model folder for few slices, copied to RUN/few; stacks are predicted, and decided about, by both")
    ] = ""
    augmentation: InkAugmentation = InkAugmentation()

    def __post_init__(self) -> None:
        if self.few and self.slices == "few":
            raise HandlensError("few names the network beside one for whole stacks: leave slices as it is")
        if self.below + self.above < LEAST_LAYERS:
            least = f"the network takes {LEAST_LAYERS} or more: raise below or above"
            raise HandlensError(f"{self.below + self.above} layers; {least}")


SCHEDULE = Schedule(batch=4, learning_rate=0.003)

PRESETS: Presets = {"gpu": {"width": "2", "crop": "512", "batch": "16", "ema_decay": "0.999"}}
"""By hand: a wider network on larger crops, as the contest's winners had; precision follows the device."""
