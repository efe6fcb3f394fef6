"""The options of ink: how fragments are averaged and looked at, and what a made-up fragment is like."""

from __future__ import annotations

from handlens.challenges.ink.score import OPTIONS as SCORE_OPTIONS
from handlens.training.options import TRAIN_OPTIONS
from handlens.types import Option

OPTIONS = (
    *SCORE_OPTIONS,
    Option(
        "turns",
        "Quarter turns of each tile whose answers are averaged  [default: as the model was judged]",
        choices=("1", "4"),
        commands=("solve",),
    ),
    Option(
        "probability",
        "Write the ink map too, 16 bits: OUT/probability/NAME.tif or NAME.zarr; needs a model.",
        choices=("tiff", "zarr"),
        commands=("solve",),
    ),
    Option(
        "letters",
        "A folder of label maps, *inklabels.png, to take letters from  [default: drawn ones]",
        kind="path",
        commands=("sample",),
    ),
    Option("difficulty", "1 is an ordinary fragment; above it ink is weaker.", default=1.0, commands=("sample",)),
    Option("slices", "Slices of a stack; the contest's have 65.", default=24, kind="count", commands=("sample",)),
    Option(
        "width", "Width of a fragment  [default: a quarter more than its height]", kind="count", commands=("sample",)
    ),
    *TRAIN_OPTIONS,
)
