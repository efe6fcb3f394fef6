"""Options that several commands have: the same name, type and help everywhere."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(path_type=Path)

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

PART = click.option(
    "--part", type=click.Choice(["train", "test"]), help="Part of the folder  [default: test, else train]"
)

REPORT = click.option("--report/--no-report", default=None, help="Write an HTML report  [default: unless --json]")

OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace the results of another run in OUT.")

CASES_DATA = click.option("--data", "folder", type=PATH, required=True, help="Data folder with the cases.")

CLUSTER = click.option(
    "--cluster",
    metavar="WHERE",
    help="Share cases among the workers of a Dask cluster: tcp://HOST:PORT of its scheduler, `local`, or a YAML file.",
)
