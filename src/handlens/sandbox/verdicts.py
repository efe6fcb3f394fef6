"""The words of a refusal: what a file that is judged can have wrong, and one sentence about it."""

from __future__ import annotations

import re
from typing import Literal, get_args

from handlens.errors import ModelError

Verdict = Literal[
    "not a model",
    "too large",
    "external data",
    "custom operator",
    "random operator",
    "wrong inputs",
    "wrong outputs",
    "not a number",
    "negative",
    "above one",
    "not normalised",
    "ignores an input",
    "different answers",
    "fails",
    "crash",
    "hang",
    "out of memory",
    "forbidden",
]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

SHOWN = 200
"""Letters of a text from the file or its process that are shown."""


class RefusedError(ModelError):
    """A model that cannot be judged: one word of the list above, and why."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(f"{verdict}: {why}")
        self.verdict = verdict
        self.why = why


def harmless(text: str) -> str:
    """The first line of a text that somebody else wrote, as letters that a terminal only shows.

    >>> harmless("Conv" + chr(27) + "[2J\\nmore")
    'Conv?[2J'
    """
    line = text.strip().partition("\n")[0][:SHOWN]
    return re.sub(r"[^ -~]", "?", line)
