"""The options of `handlens train` that every challenge has whose training the engine does."""

from __future__ import annotations

from handlens.types import Option

TRAIN_OPTIONS = (
    Option("minutes", "Time for all of it; the steps are planned to fit.", default=60.0, commands=("train",)),
    Option(
        "folds",
        "Parts of the cases; each is asked of a network that did not learn from it.",
        default=5,
        kind="count",
        commands=("train",),
    ),
    Option("devices", "Processes on this machine, one for each GPU.", default=1, kind="count", commands=("train",)),
    Option("nodes", "Machines; start the same command on each.", default=1, kind="count", commands=("train",)),
    Option(
        "set",
        "Change a field of the training, such as encoder=lite1 or seed=3.",
        default={},
        kind="fields",
        commands=("train",),
    ),
)
