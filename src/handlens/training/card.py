"""The model card: what the model is, what it learned from, what it is worth, and what it is not for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handlens.runstore.plan import Plan
from handlens.training.options import Schedule
from handlens.training.stages import speed_of

CARD = "card.md"


def write_card(plan: Plan, schedule: Schedule, results: Mapping[str, Any], sentences: Sequence[str]) -> str:
    """The card as Markdown."""
    speed = speed_of(plan)
    lines = [f"# A model for {plan.challenge}", "", *sentences, ""]
    if schedule.note:
        lines += [schedule.note, ""]
    if not results["finished"]:
        lines += ["**This training was stopped before its end.** `handlens train --resume` goes on.", ""]
    lines += ["## What it is worth", ""]
    if results["score"] is None:
        lines.append("Not known: the training was stopped before every fold was done.")
    else:
        lines += [
            f"{plan.metric} **{results['score']:.4f}** on {len(plan.ids)} examples, each answered by a network that",
            f"did not learn from its group ({plan.folds} folds), with decisions chosen on the other folds. The model",
            "itself learned from all examples, so there is no such number for it.",
            "",
            *_folds(plan, results),
            *results.get("lines", ()),
        ]
    lines += ["", "## How it was made", ""]
    if plan.command:
        lines += ["```sh", plan.command, "```", ""]
    made = {
        "examples": len(plan.ids),
        "steps": f"{plan.steps} for each of {plan.folds} folds, {plan.final_steps} for the model",
        "items of a step": schedule.batch,
        "seconds of a step": f"{results['seconds_per_step']:.3f}, {results['waiting']:.1%} of it waiting for data",
        "threads, devices": f"{plan.threads}, {plan.devices * plan.nodes} ({plan.accelerator}, {plan.precision})",
        "channels last": f"{speed.channels_last} ({speed.step:.3f} s a step, the other way {speed.other_step:.3f})",
        "decision": ", ".join(f"{name} {_shown(value)}" for name, value in results["decision"].items()),
        "torch against ONNX Runtime": f"differ by at most {results['difference']:.1e}",
        "fields": ", ".join(f"{name} {value}" for name, value in _flat(plan.fields)),
        "versions": ", ".join(f"{name} {value}" for name, value in plan.versions.items()),
    }
    lines += ["| what | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in made.items()), ""]
    return "\n".join(lines)


def _folds(plan: Plan, results: Mapping[str, Any]) -> list[str]:
    lines = ["| fold | examples | mean of examples | decision |", "|---|---|---|---|"]
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
