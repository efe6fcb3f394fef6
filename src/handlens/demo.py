"""The demo: made-up data, solve, check and score for every built-in challenge, and a table at the end."""

from __future__ import annotations

import time
from pathlib import Path

from handlens import pipeline, registry
from handlens.pipeline import Solved
from handlens.progress import bar


def run(out: Path, *, seed: int) -> dict[str, Solved]:
    """Solve all challenges under `out`; data that is there already is used again."""
    results: dict[str, Solved] = {}
    seconds: dict[str, float] = {}
    for name in registry.BUILT_IN:
        started = time.perf_counter()
        challenge = registry.challenge(name)
        data, defaults = out / name / f"data-{seed}", challenge.sample_defaults
        with bar(name) as progress:
            progress(0, defaults.cases)
            if not data.exists():
                pipeline.sample(challenge, data, seed=seed, cases=defaults.cases, size=defaults.size)
            results[name] = pipeline.solve(challenge, data, out / name, workers=None, progress=progress)
        seconds[name] = time.perf_counter() - started
    _print_table(results, seconds)
    return results


def _print_table(results: dict[str, Solved], seconds: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("challenge", "metric", title="handlens demo: made-up data, solved, checked and scored")
    for heading in ("cases", "score", "empty answer", "seconds"):
        table.add_column(heading, justify="right")
    table.add_column("files", overflow="fold")
    for name, solved in results.items():
        value = f"{solved.score.value:.4f}" if solved.score else "-"
        empty = f"{solved.empty_score:.4f}" if solved.empty_score is not None else "-"
        metric = registry.challenge(name).metric.partition(",")[0].partition(":")[0]
        row = (name, metric, str(solved.cases), value, empty, f"{seconds[name]:.1f}", str(solved.submission))
        table.add_row(*row)
    table.add_row("all", "", "", "", "", f"{sum(seconds.values()):.1f}", "")
    console = Console(width=max(110, Console().width))
    console.print(table)
    console.print("Beside each submission stand score.json and the data, with the truth of its test part.")
