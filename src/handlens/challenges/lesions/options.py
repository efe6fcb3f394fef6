"""The options of lesions: which classes there are, what a model costs, and whom a photograph shows."""

from __future__ import annotations

from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES
from handlens.training.options import TRAIN_OPTIONS
from handlens.types import Option

SITES = (*LOCATIONS, *(str(number) for number in range(1, len(LOCATIONS) + 1)))

OPTIONS = (
    Option(
        "taxonomy",
        "The contest's ten classes, or the eleven of its later edition.",
        choices=tuple(TAXONOMIES),
        default="ten",
        commands=("check", "score", "solve", "judge", "train"),
    ),
    Option("size_mb", "Size of the model file in MiB; with the time it gives the final score."),
    Option("time_ms", "Milliseconds for one image on one CPU thread."),
    Option(
        "efficiency",
        "Size and time, or the size alone.",
        choices=("size-and-time", "size-only"),
        default="size-and-time",
        commands=("score", "judge"),
    ),
    Option(
        "pixels",
        "Range that pixels are fed in; the contest's is 0 to 1.",
        choices=("0-1", "0-255"),
        default="0-1",
        commands=("judge",),
    ),
    Option("age", "Age in years of the person, where the data does not say it.", commands=("solve",)),
    Option("gender", "The same for the gender.", choices=("m", "f", "male", "female"), commands=("solve",)),
    Option("site", "The same for the body site, or its number.", choices=SITES, commands=("solve",)),
    *TRAIN_OPTIONS,
)
