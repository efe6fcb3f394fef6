"""What untrusted models may use, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model that nobody trusts may use: memory beyond that of an idle process, and seconds.

    `load_seconds` are for opening the file, `answer_seconds` for one question, `total_seconds` for all together.
    """

    memory_mib: int = 4096
    load_seconds: float = 60.0
    answer_seconds: float = 10.0
    total_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one model: a rank and named numbers, or, with rank 0, the word of its refusal and why."""

    model: Path
    rank: int
    verdict: str
    why: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Models in the order of their ranks, the refused ones last.

    `columns` are the parts that stand in the table of standings; the others follow in a table of their own.
    `unguarded` says what this machine cannot keep a model from, `missing` also what it lacks of the second layer.
    """

    models: tuple[Judged, ...]
    cases: int
    columns: tuple[str, ...]
    unguarded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
