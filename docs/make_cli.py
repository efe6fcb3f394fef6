"""Write docs/cli.md from the commands' own help, so that the page cannot go stale; a test compares the two.

python docs/make_cli.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import click

from handlens import registry
from handlens.cli import ChallengeGroup, cli

WIDTH = 100
"""Columns of the help texts, whatever the terminal has."""

PAGE = Path(__file__).parent / "reference" / "cli.md"

INTRODUCTION = """# The command line

Made by `python docs/make_cli.py` from `--help`; do not edit it by hand.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 the input's fault, 2 a command that cannot be understood,
130 stopped by Ctrl-C. Where a command has a form for each challenge, all forms follow it.
"""


def render() -> str:
    """The page, for the built-in challenges alone: plug-ins of this machine are not ours to document."""
    with patch.object(registry, "names", lambda: list(registry.BUILT_IN)):
        root = click.Context(cli, info_name="handlens", terminal_width=WIDTH, color=False, **cli.context_settings)
        sections = [_section(context, level) for context, level in _walk(root, 2)]
    return "\n".join([INTRODUCTION, *sections])


def _walk(context: click.Context, level: int) -> Iterator[tuple[click.Context, int]]:
    """A command, then its sub-commands, each with the level of its heading."""
    yield context, level
    if isinstance(context.command, click.Group):
        below = level + 1 if isinstance(context.command, ChallengeGroup) else level
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is None:
                raise LookupError(f"{context.command_path} lists {name} but does not have it")
            yield from _walk(click.Context(command, parent=context, info_name=name), below)


def _section(context: click.Context, level: int) -> str:
    return f"{'#' * level} {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


def main() -> None:
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
