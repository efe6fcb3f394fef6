"""Options that several commands have: the same name, type and help everywhere."""

from __future__ import annotations

import os
from typing import Any

import click

from handlens.errors import HandlensError
from handlens.io.gate import place


class PlaceType(click.ParamType[Any]):
    """A path, or an address such as `https://host/folder` or `s3://bucket/folder`."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return place(value) if isinstance(value, str | os.PathLike) else value
        except HandlensError as error:
            self.fail(str(error), param, ctx)


PATH = PlaceType()

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
