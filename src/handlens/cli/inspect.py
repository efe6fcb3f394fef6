"""The command `inspect`: a person's own figures, papers and folders, looked at for copied regions."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import click

from handlens.cli.options import CLUSTER, JSON, OVERWRITE, PATH
from handlens.cli.output import Verbosity, fail, message, print_json, progress_bar, resumable, show, with_verbosity
from handlens.errors import counted


@click.command(short_help="Find copied regions in figures and PDFs; HTML report.")
@click.argument("figures", nargs=-1, required=True, type=PATH)
@click.option("-o", "--out", type=PATH, help="Folder for pages, pictures and records.")
@click.option(
    "--seconds", default=13.0, show_default=True, type=click.FloatRange(1, 86_400), help="Time limit for one figure."
)
@click.option(
    "--sensitivity",
    default="normal",
    show_default=True,
    type=click.Choice(("low", "normal", "high")),
    help="How easily a figure is called forged: about 0.2, 1 or 5 % of honest ones are.",
)
@click.option("--workers", type=click.IntRange(1, 256), help="Figures at the same time.  [default: 1]")
@CLUSTER
@click.option("--parquet", is_flag=True, help="Write tables to query: REPORT/findings/*.parquet.")
@OVERWRITE
@JSON
def inspect(
    figures: tuple[Path, ...],
    out: Path | None,
    seconds: float,
    sensitivity: Literal["low", "normal", "high"],
    workers: int | None,
    cluster: str | None,
    parquet: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Find regions of figures that are copies of others, and show them side by side.

    FIGURES are PNG, JPEG, TIFF and PDF files, every page of them, or folders of such files; also their addresses
    (https://, s3://). Of every pair a few facts are printed; with -v and --json all that was measured.
    """
    from handlens.challenges.forgery import inspection
    from handlens.challenges.forgery.inspection import tables
    from handlens.challenges.forgery.inspection.reading import list_skipped
    from handlens.cli.uploads import output_folder
    from handlens.inference.cluster_spec import open_executor
    from handlens.io.images import describe_skipped

    if parquet:
        if out is None:
            raise click.UsageError("--parquet writes files: name a folder with -o")
        tables.refuse_missing()
    with (
        output_folder(out, figures) if out else nullcontext() as target,
        open_executor(cluster, workers, message) as executor,
        progress_bar("inspect") as progress,
        resumable() if out else nullcontext(),
    ):
        records = inspection.inspect_figures(
            figures,
            target,
            seconds=seconds,
            sensitivity=sensitivity,
            workers=workers or 1,
            executor=executor,
            overwrite=overwrite,
            progress=progress,
        )
        if parquet and target:
            tables.write_tables(target, records)
    unread = list_skipped(figures, out=out)
    if as_json:
        print_json({"figures": records, "skipped": [problem.as_json() for problem in unread]})
    for record in records:
        if "error" in record:
            fail(f"handlens: {record['figure']}: {record['error']}")
        elif not as_json:
            show(inspection.table(record, all_numbers=Verbosity.level > 0))
    if unread:
        message(f"not looked at: {describe_skipped(unread)}")
    if out:
        message(f"{out / inspection.PAGE}: {counted(len(records), 'figure')}")
    sys.exit(1 if any("error" in record for record in records) else 0)


def commands() -> list[click.Command]:
    return [with_verbosity(inspect)]
