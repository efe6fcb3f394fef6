"""The options of ink: how fragments are averaged, and what a made-up fragment is like."""

from __future__ import annotations

from handlens.challenges.ink.score import OPTIONS as SCORE_OPTIONS
from handlens.types import Option

OPTIONS = (
    *SCORE_OPTIONS,
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
)
