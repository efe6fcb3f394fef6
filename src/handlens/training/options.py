"""The options of `handlens train` that every challenge has that the engine trains, and the engine's own fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from handlens.settings import Settings, setting
from handlens.training.sources import MoreFolder


class TrainSettings(Settings, frozen=True, kw_only=True):
    """How much a training may take; a challenge's settings extend it."""

    minutes: Annotated[float, setting("Time for the whole training; the steps are planned to fit.", "train", ge=0)] = (
        60.0
    )
    folds: Annotated[
        int,
        setting(
            "Cross-validation folds; each is predicted by a network trained on the others. 1: a single network, trained"
            " on eight tenths and evaluated on the rest, for long trainings.",
            "train",
            ge=1,
        ),
    ] = 5
    more: Annotated[
        tuple[MoreFolder, ...],
        setting(
            "Another folder to learn from, drawn WEIGHT times as often as the first as a whole [1]; may be repeated.",
            "train",
        ),
    ] = ()
    preset: Annotated[
        Literal["laptop", "gpu"],
        setting("Encoder, crops and batch for a CPU, or for a GPU of 16 GB; --set changes single fields.", "train"),
    ] = "laptop"
    devices: Annotated[int, setting("Processes on this machine, one for each GPU.", "train", ge=1)] = 1
    nodes: Annotated[int, setting("Machines; start the same command on each.", "train", ge=1)] = 1
    set: Annotated[
        dict[str, str], setting("Change a field of the training, such as encoder=lite1 or seed=3.", "train")
    ] = {}  # noqa: RUF012  (msgspec copies it)


Presets = Mapping[str, Mapping[str, str]]
"""By name of the preset: fields and their values, as `--set` takes them."""


def chosen_fields(settings: TrainSettings, presets: Presets) -> dict[str, str]:
    """What the preset and then `--set` change."""
    return {**presets.get(settings.preset, {}), **settings.set}


class Schedule(Settings, frozen=True, kw_only=True):
    """How a network is trained, whatever the challenge."""

    batch: Annotated[int, setting("batch size, over all processes", ge=1, le=10**6)] = 8
    learning_rate: Annotated[float, setting("peak learning rate of new layers", ge=1e-9, le=10)] = 0.002
    pretrained_lr_factor: Annotated[float, setting("factor on it for pretrained layers", ge=0, le=1)] = 0.1
    weight_decay: Annotated[float, setting("weight decay of AdamW; biases and norms have none", ge=0, le=10)] = 0.01
    warmup: Annotated[float, setting("share of the steps with linear warm-up; then cosine decay", ge=0, le=0.9)] = 0.05
    ema_decay: Annotated[float, setting("decay of the exponential moving average of weights", ge=0, le=0.99999)] = 0.99
    grad_clip: Annotated[float, setting("gradient clipping: largest norm", ge=1e-6, le=1e6)] = 5.0
    steps: Annotated[int, setting("steps of each fold; 0: as many as the minutes allow", ge=0, le=10**9)] = 0
    seed: Annotated[int, setting("of everything: folds, initial weights, batches", ge=0, le=2**31)] = 0
    threads: Annotated[int, setting("torch threads on a CPU; 0: one for each core", ge=0, le=4096)] = 0
    precision: Annotated[str, setting("such as 32-true or bf16-mixed; auto: the fastest for the device")] = "auto"
    accelerator: Annotated[str, setting("cpu, cuda or auto")] = "auto"
    memory_format: Annotated[
        Literal["auto", "channels_last", "contiguous"],
        setting("of tensors; auto measures which is faster, so results differ in the last bits"),
    ] = "auto"
    note: Annotated[str, setting("a sentence for the model card, such as the licence of the data")] = ""
    licence: Annotated[str, setting("SPDX identifier of the licence that the training data imposes")] = ""
