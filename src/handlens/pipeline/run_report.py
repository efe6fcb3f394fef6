"""The reports of a training and of a judgement: curves, thresholds, standings."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handlens.errors import DataError, counted
from handlens.pipeline.reporting import options_of, versions
from handlens.pipeline.runs import package_version
from handlens.report.interval import bootstrap
from handlens.report.page import PAGE, Report, ShownCase, write_report
from handlens.runstore.plan import PLAN, RESULTS, read_plan, read_results
from handlens.runstore.store import read_manifest
from handlens.types import AnyChallenge, Judged, Judgement
from handlens.views import Chart, Section, Table

LOG, SWEEP = "log.jsonl", "sweep"
BINS = 20
"""Of the distribution of out-of-fold scores."""


def report_training(challenge: AnyChallenge, run: Path) -> Path:
    """Write `report.html` and `report.json` of a training into its folder."""
    manifest = read_manifest(run)
    if manifest.get("command") != "train" or not manifest["finished"]:
        raise DataError("no finished training in it: name a folder that `handlens train` wrote to the end", file=run)
    numbers: Mapping[str, Any] = manifest.get("numbers", {})
    results = read_results(run)
    plan = read_plan(run) if (run / PLAN).exists() else None
    scores = results.get("scores") or {}
    values = [float(value) for value in scores.values()]
    score = results.get("score")
    report = Report(
        kind="train",
        title=f"{challenge.title}: a training",
        subtitle=f"{manifest['folder']} · measured out of fold",
        verdict=_verdict(challenge, score, numbers),
        state="scored",
        challenge=challenge.name,
        metric=challenge.metric,
        score=score,
        interval=_interval(values) if score is not None else None,
        score_about=_about(values) if score is not None else "",
        sections=[
            *_curves(run),
            *_sweep(results),
            *_distribution(values),
            *_folds(results),
            *_numbers(numbers),
            *_decisions(results),
        ],
        cases=[ShownCase(id, place, float(value)) for place, (id, value) in enumerate(scores.items())],
        facts=_facts(manifest, plan),
        command=plan.command if plan else _train_command(challenge, manifest, run),
        files=[(name, name, "") for name in ("card.md", PLAN, RESULTS, LOG, "model.onnx") if (run / name).is_file()],
        handlens=package_version(),
    )
    write_report(report, run / PAGE)
    return run / PAGE


def _train_command(challenge: AnyChallenge, manifest: Mapping[str, Any], run: Path) -> str:
    options = options_of(challenge.settings(**manifest["settings"]), "train")
    return shlex.join(["handlens", "train", challenge.name, manifest["folder"], "-o", str(run), *options])


def _verdict(challenge: AnyChallenge, score: float | None, numbers: Mapping[str, Any]) -> str:
    if score is not None:
        return f"{challenge.metric.partition(',')[0].partition(':')[0]} {score:.4f}, out of fold"
    return " · ".join(f"{name} {value:.4g}" for name, value in list(numbers.items())[:1]) or "Trained."


def _interval(values: Sequence[float]) -> tuple[float, float] | None:
    import numpy as np

    array = np.array(values)
    return bootstrap(len(values), lambda chosen: array[chosen].mean(axis=1)) if len(values) > 1 else None


def _about(values: Sequence[float]) -> str:
    return (
        f"Every example was predicted by a network that was not trained on it, with a decision not chosen on it. "
        f"The bar is a 95 % bootstrap interval of the mean over {counted(len(values), 'example')}."
    )


def _curves(run: Path) -> list[Section]:
    """Loss and metric of training batches and of held-out items, and time per step, of every stage."""
    stages: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in _read_lines(run / LOG):
        stages[str(line.get("stage", ""))].append(line)
    if not stages:
        return []

    def curves(name: str) -> dict[str, list[tuple[float, float]]]:
        return {
            stage: [(float(line["step"]), float(line[name])) for line in lines if name in line]
            for stage, lines in stages.items()
        }

    def held_out(name: str) -> dict[str, list[tuple[float, float]]]:
        return {stage: points for stage, points in curves(name).items() if points}

    charts = [
        Chart("Loss", "step", "loss of training batches", curves("loss")),
        Chart("Validation loss", "step", "loss of held-out items", held_out("validation_loss")),
        Chart("Metric", "step", "metric of training batches, smoothed", curves("metric")),
        Chart("Validation metric", "step", "metric of held-out items", held_out("validation_metric")),
        Chart("Time", "step", "seconds per step", curves("seconds")),
    ]
    text = (
        "One line for each fold, and one for the final network, which learns from all examples. Validation: the"
        " averaged weights on a few items that the fold holds out, made as those of training are; nothing is chosen"
        " by it."
    )
    return [Section("Training", text, [chart for chart in charts if any(chart.series.values())])]


def _read_lines(path: Path) -> list[dict[str, Any]]:
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


def _sweep(results: Mapping[str, Any]) -> list[Section]:
    """The out-of-fold score for every threshold, and the one that was chosen."""
    points = results.get(SWEEP)
    decision = results.get("decision") or {}
    if not points:
        return []
    chart = Chart(
        "Threshold",
        "threshold",
        "score out of fold",
        {"all folds": [(float(x), float(y)) for x, y in points]},
        chosen=decision.get("threshold"),
    )
    return [
        Section("Choice of the threshold", "Chosen on all out-of-fold predictions; the score above is nested.", [chart])
    ]


def _distribution(values: Sequence[float]) -> list[Section]:
    """How many examples reach which score."""
    if len(values) < 2:
        return []
    ordered = sorted(values)
    points = [(value, (place + 1) / len(ordered)) for place, value in enumerate(ordered)]
    chart = Chart(
        "Distribution", "score of an example, out of fold", "share of examples up to it", {"examples": points}
    )
    return [Section("Examples out of fold", "", [chart])]


def _numbers(numbers: Mapping[str, Any]) -> list[Section]:
    return [Section("Numbers", "", [Table("", ("number", "value"), list(numbers.items()))])] if numbers else []


def _folds(results: Mapping[str, Any]) -> list[Section]:
    """A row of numbers for each fold, where the training kept them."""
    folds = results.get("folds") or []
    if not folds:
        return []
    names = list(folds[0])
    rows = [[fold.get(name) for name in names] for fold in folds]
    text = "Each fold as the decision fitted to the others answers it."
    return [Section("Folds", text, [Table("", names, rows)])]


def _decisions(results: Mapping[str, Any]) -> list[Section]:
    folds = results.get("fold_decisions") or []
    final = results.get("decision") or {}
    if not folds:
        return []
    names = [name for name, value in final.items() if isinstance(value, int | float | str)]
    rows = [(f"without fold {number}", *(fold.get(name) for name in names)) for number, fold in enumerate(folds)]
    rows.append(("all folds: this one ships", *(final[name] for name in names)))
    return [Section("Decisions", "What each fold would have decided.", [Table("", ("chosen on", *names), rows)])]


def _facts(manifest: Mapping[str, Any], plan: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"data": manifest["folder"]}
    if plan is not None:
        facts |= {
            "folds": plan.folds,
            "steps of a fold": plan.steps,
            "examples": len(plan.ids),
            "device": plan.accelerator,
        }
        facts["trained with"] = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
    return facts | versions()


# --- judge ------------------------------------------------------------------------------------------------------------


def report_judgement(
    challenge: AnyChallenge, judgement: Judgement, folder: Path, page: Path, *, options: Sequence[str] = ()
) -> Path:
    """The standings, accuracy against time and size, and what was refused; `options` are those of the command."""
    scored = [entry for entry in judgement.models if entry.rank]
    refused = [entry for entry in judgement.models if not entry.rank]
    sections = []
    if scored:
        rows = [(entry.rank, str(entry.model), *(entry.parts[name] for name in judgement.columns)) for entry in scored]
        sections.append(Section("Standings", "", [Table("", ("rank", "model", *judgement.columns), rows)]))
        sections += _fronts(scored)
    if refused:
        table = Table("", ("model", "verdict", "why"), [(str(each.model), each.verdict, each.why) for each in refused])
        sections.append(Section("Refused", "These models broke the contract, or a limit.", [table]))
    notes = [f"{entry.model}: {note}" for entry in judgement.models for note in entry.notes]
    notes += [f"not sandboxed on this machine: {gap}" for gap in judgement.unguarded]
    report = Report(
        kind="judge",
        title=f"{challenge.title}: {counted(len(judgement.models), 'model')} judged",
        subtitle=f"{counted(judgement.cases, 'case')} of {folder}",
        verdict=f"First: {scored[0].model}" if scored else "No model was scored.",
        state="scored" if scored else "refused",
        challenge=challenge.name,
        metric=challenge.metric,
        notes=notes,
        sections=sections,
        facts={"data": str(folder), "cases": judgement.cases, **versions()},
        command=shlex.join(
            [
                "handlens",
                "judge",
                challenge.name,
                *(str(entry.model) for entry in judgement.models),
                "--data",
                str(folder),
                *options,
                "-o",
                str(page),
            ]
        ),
        handlens=package_version(),
    )
    write_report(report, page)
    return page


def _fronts(scored: Sequence[Judged]) -> list[Section]:
    """Score against each measured cost; the models that no other beats in both are joined."""
    score = next((name for name in ("Prediction Score", "accuracy") if name in scored[0].parts), "")
    costs = [name for name in ("median ms", "size MiB") if name in scored[0].parts]
    if not score or not costs:
        return []
    charts = []
    for cost in costs:
        points = {entry.model.name: (entry.parts[cost], entry.parts[score]) for entry in scored}
        best = pareto(points)
        rest = [name for name in points if name not in best]
        series = {"on the front": [points[name] for name in best]} | (
            {"others": [points[n] for n in rest]} if rest else {}
        )
        names = {"on the front": best, "others": rest}
        charts.append(Chart(f"{score} against {cost}", cost, score, series, points=True, names=names))
    text = "Higher and further left is better. On the front: no other model is both faster (or smaller) and better."
    return [Section("Accuracy against time and size", text, charts)]


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of those that no other beats: less cost (x) and more score (y); by cost.

    >>> pareto({"a": (1, 0.5), "b": (2, 0.7), "c": (3, 0.6), "d": (2, 0.6)})
    ['a', 'b']
    """
    found, highest = [], float("-inf")
    for name, (_, value) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1])):
        if value > highest:
            found.append(name)
            highest = value
    return found
