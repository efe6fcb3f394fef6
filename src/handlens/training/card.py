"""The model card: what the model is and is not for, its licence, its out-of-fold score, and how it was trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from handlens.runstore.plan import Plan
from handlens.training.options import Schedule
from handlens.training.stages import NEVER, speed_of

CARD = "card.md"


TERMS = {
    "NC": "**non-commercial use only**",
    "ND": "no derived models",
    "SA": "derived models under the same licence",
    "BY": "with attribution",
}
"""What the parts of a Creative Commons identifier ask for."""


def write_card(plan: Plan, schedule: Schedule, results: Mapping[str, Any], sentences: Sequence[str]) -> str:
    """The card as Markdown: sections Licence, Evaluation and Training."""
    speed = speed_of(plan)
    lines = [f"# Model card: {plan.challenge}", "", *sentences, ""]
    if not results["finished"]:
        lines += ["**This training was stopped before its end.** `handlens train --resume RUN` resumes it.", ""]
    lines += ["## Licence", "", *_licence(schedule), "", "## Evaluation", ""]
    if results["score"] is None:
        lines.append("None: the training was stopped before every fold was done.")
    else:
        lines += [
            f"{plan.metric} **{results['score']:.4f}** on {len(results['scores']):,} examples, {_how_held_out(plan)}",
            "",
            *_folds(plan, results),
            *results.get("lines", ()),
        ]
    lines += ["", "## Training", "", *_sources(plan)]
    if plan.command:
        lines += ["```sh", plan.command, "```", ""]
    of_folds = f"{plan.steps} per fold ({plan.folds} folds), " if plan.steps else ""
    made = {
        "examples": len(plan.ids),
        "steps": f"{of_folds}{plan.final_steps} for the final model",
        "batch size": schedule.batch,
        "seconds per step": f"{results['seconds_per_step']:.3f}, {results['waiting']:.1%} of it waiting for data",
        "threads, devices": f"{plan.threads}, {plan.devices * plan.nodes} ({plan.accelerator}, {plan.precision})",
        "channels last": f"{speed.channels_last} ({speed.step:.3f} s per step, otherwise {speed.other_step:.3f})",
        "decision": ", ".join(f"{name} {_shown(value)}" for name, value in results["decision"].items()),
        "torch and ONNX Runtime": f"differ by at most {results['difference']:.1e}",
        "fields": ", ".join(f"{name} {value}" for name, value in _flat(plan.fields)),
        "versions": ", ".join(f"{name} {value}" for name, value in plan.versions.items()),
    }
    lines += ["| setting | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in made.items()), ""]
    return "\n".join(lines)


def _licence(schedule: Schedule) -> list[str]:
    """The licence that the data imposes, what it asks for, and the note."""
    parts = schedule.licence.split("-") if schedule.licence.startswith("CC-") else []
    terms = ", ".join(words for mark, words in TERMS.items() if mark in parts)
    named = f"{schedule.licence}: {terms}." if terms else f"{schedule.licence}."
    if not schedule.licence:
        named = "Not recorded; it depends on the training data."
    return [named, *([schedule.note] if schedule.note else [])]


def _how_held_out(plan: Plan) -> str:
    """Which network predicted the examples that count, and what it had seen."""
    seen = sum(fold == NEVER for fold in plan.fold_of)
    if plan.folds == 1:
        return (
            f"which the exported model has not seen\n(it was trained on {seen:,} others; groups are on one side). They"
            " are in two halves: the decision\nparameters for each were fitted on the other."
        )
    others = "the other fold" if plan.folds == 2 else "the other folds"
    words = (
        f"predicted out of fold ({plan.folds} folds, grouped), with decision\nparameters fitted on {others}."
        " The exported model was trained on all examples, so there is no held-out\nscore for it."
    )
    more = "further examples: these were trained on, and never count here."
    return f"{words}\nThe first weights had been trained on {seen:,} {more}" if seen else words


def _sources(plan: Plan) -> list[str]:
    """A row for each folder that was trained on."""
    if not plan.sources:
        return []
    total = sum(source["weight"] for source in plan.sources)
    rows = [
        f"| {each['name']} | {each['cases']:,} | {each['licence'] or 'not recorded'} | {each['weight'] / total:.0%} |"
        for each in plan.sources
    ]
    return ["| source | examples | licence | share of what was drawn |", "|---|---|---|---|", *rows, ""]


def _folds(plan: Plan, results: Mapping[str, Any]) -> list[str]:
    """A row for each fold; the mean is the metric only where the score is the mean of its cases."""
    values = list(results["scores"].values())
    is_mean = math.isclose(math.fsum(values) / len(values), results["score"], abs_tol=1e-9)
    mean = f"mean {plan.metric}" if is_mean else "mean over examples"
    lines = [f"| fold | examples | {mean} | decision |", "|---|---|---|---|"]
    for fold, decision in enumerate(results["fold_decisions"]):
        values = [results["scores"][name] for name, own in zip(plan.ids, plan.fold_of, strict=True) if own == fold]
        words = ", ".join(f"{name} {_shown(value)}" for name, value in decision.items())
        lines.append(f"| {fold} | {len(values)} | {sum(values) / len(values):.4f} | {words} |")
    return lines


def _flat(fields: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings with dots in their names."""
    found: list[tuple[str, Any]] = []
    for name, value in fields.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return found


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
