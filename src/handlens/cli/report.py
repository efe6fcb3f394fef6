"""The command `report`: the page of a solve or a training, made again."""

from __future__ import annotations

from pathlib import Path

import click

from handlens.cli.options import JSON, PATH
from handlens.cli.output import print_json, with_verbosity


@click.command()
@click.argument("out", type=PATH)
@click.option("--data", type=PATH, help="The data folder, where it has moved since.")
@click.option("--baseline", is_flag=True, help="Score the baseline on the same cases, to compare with.")
@JSON
def report(out: Path, data: Path | None, baseline: bool, as_json: bool) -> None:
    """Make the report of a run again.

    Writes OUT/report.html, and OUT/report.json with the same content for programs.

    OUT is a folder that `handlens solve` or `handlens train` wrote.
    """
    from handlens import pipeline, registry

    if pipeline.is_training(out):
        name, _, _ = pipeline.read_training(out)
        page = pipeline.report_training(registry.challenge(name), out)
        click.echo(page.with_suffix(".json").read_text(encoding="utf-8") if as_json else str(page))
        return
    challenge = registry.challenge(pipeline.read_score(out)["challenge"])
    page, made = pipeline.report_solve(challenge, out, data, baseline=baseline)
    print_json(made.as_json()) if as_json else click.echo(str(page))


def commands() -> list[click.Command]:
    return [with_verbosity(report)]
