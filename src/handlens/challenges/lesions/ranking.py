"""How judged models are ranked: efficiency is relative to the others, so it is known when all are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from handlens.challenges.lesions.score import EFFICIENCY_SHARE, PREDICTION_SHARE, efficiency
from handlens.types import Judged

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings


def rank_models(judged: Sequence[Judged], settings: LesionsSettings) -> tuple[Judged, ...]:
    """Efficiency is relative to the models that were scored; equal scores share a rank; the refused come last."""
    scored = [entry for entry in judged if entry.verdict == "scored"]
    times = [entry.parts["median ms"] for entry in scored]
    final = [replace(entry, parts=_with_final(entry.parts, times, settings)) for entry in scored]
    values = [entry.parts["Final Score"] for entry in final]
    ranked = [
        replace(entry, rank=1 + sum(other > value for other in values))
        for entry, value in zip(final, values, strict=True)
    ]
    ranked.sort(key=lambda entry: entry.rank)
    return (*ranked, *(entry for entry in judged if entry.verdict != "scored"))


def _with_final(parts: Mapping[str, float], times: Sequence[float], settings: LesionsSettings) -> dict[str, float]:
    ms = None if settings.efficiency == "size-only" else parts["median ms"]
    worth = efficiency(parts["size MiB"], ms, field=times)
    final = PREDICTION_SHARE * parts["Prediction Score"] + EFFICIENCY_SHARE * worth
    return {"Final Score": final, **parts, "Efficiency": worth}
