"""The command `demo`: synthetic data of every built-in challenge, solved, checked and scored."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from handlens.cli.options import JSON, PATH
from handlens.cli.output import make_table, message, print_json, print_table, progress_bar, resumable, with_verbosity


@click.command(short_help="Solve and score synthetic data of all four challenges.")
@click.option(
    "-o", "--out", type=PATH, default=Path("demo-out"), show_default=True, help="Folder for data and answers."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the synthetic data.")
@JSON
def demo(out: Path, seed: int, as_json: bool) -> None:
    """Solve and score synthetic data of all four challenges, in under two minutes."""
    with resumable():
        pages, together = run(out, seed=seed)
    if as_json:
        print_json(pages)
        return
    table = make_table(["challenge", "metric", "cases", "score", "empty", "seconds"], left=2)
    for page in pages:
        score, empty = f"{page['score']:.4f}", f"{page['empty_score']:.4f}"
        table.add_row(page["challenge"], page["metric"], str(page["count"]), score, empty, f"{page['seconds']:.1f}")
    table.add_section()
    table.add_row("all", "", "", "", "", f"{sum(page['seconds'] for page in pages):.1f}")
    print_table(table)
    message(f"{out}/NAME/ holds submission.csv, score.json, report.html and the data with its labels.")
    message(f"report: {together}")


def run(out: Path, *, seed: int) -> tuple[list[dict[str, Any]], Path]:
    """Solve all challenges under `out`, and make one page of all; data that is there already is used again."""
    from handlens import pipeline, registry

    pages = []
    reports = {}
    for name in registry.BUILT_IN:
        started = time.perf_counter()
        challenge = registry.challenge(name)
        data, defaults = out / name / f"data-{seed}", challenge.sample_defaults
        with progress_bar(name) as progress:
            progress(0, defaults.cases)
            if not data.exists():
                pipeline.sample(challenge, data, seed=seed, cases=defaults.cases, size=defaults.size)
            solved = pipeline.solve(
                challenge, data, out / name, workers=None, overwrite=True, for_report=True, progress=progress
            )
            reports[name] = pipeline.report_solve(challenge, out / name, back="../report.html")
        page = pipeline.solved_json(challenge, solved)
        metric = challenge.metric.partition(",")[0].partition(":")[0]
        pages.append({**page, "metric": metric, "seconds": round(time.perf_counter() - started, 3)})
    return pages, pipeline.report_several(reports, out / "report.html")


def commands() -> list[click.Command]:
    return [with_verbosity(demo)]
