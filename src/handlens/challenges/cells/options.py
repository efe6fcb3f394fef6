"""The options of cells: how pixels are numbered, and how a picture is looked at."""

from __future__ import annotations

from typing import get_args

from handlens.challenges.cells.score import ORDER
from handlens.training.options import TRAIN_OPTIONS
from handlens.types import Option, Order

OPTIONS = (
    Option("order", "How pixels are numbered.", choices=get_args(Order), default=ORDER),
    Option(
        "turns",
        "Ways to lay each tile whose answers are averaged  [default: as the model was judged]",
        choices=("1", "8"),
        commands=("solve",),
    ),
    Option(
        "instances",
        "Write every nucleus by itself too: OUT/instances/NAME.tif and NAME.csv.",
        kind="flag",
        default=False,
        commands=("solve",),
    ),
    *TRAIN_OPTIONS,
)
