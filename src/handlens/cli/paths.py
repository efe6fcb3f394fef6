"""Paths on the command line: of this machine, or addresses."""

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
