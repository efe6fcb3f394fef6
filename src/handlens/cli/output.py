"""How commands write: data on stdout, messages on stderr, as many of them as -q and -v ask for."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from handlens.cli.surroundings import exit_status
from handlens.errors import printable_lines

if TYPE_CHECKING:
    from rich.table import Table

    from handlens.types import Progress

Command = TypeVar("Command", bound=Callable[..., Any])
NARROWEST, WIDEST = 60, 10_000


class Verbosity:
    """-1 quiet: errors alone. 0: progress and notes. 1 verbose: how it was done, and tracebacks of errors."""

    level = 0


def _set_level(level: int) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(_context: click.Context, _option: click.Parameter, given: bool) -> None:
        if given:
            Verbosity.level = level

    return callback


def verbosity_options() -> list[click.Option]:
    """`-q` and `-v`, which every command has."""
    how: dict[str, Any] = {"is_flag": True, "expose_value": False}
    return [
        click.Option(["-q", "--quiet"], callback=_set_level(-1), help="Errors and results only: no progress.", **how),
        click.Option(["-v", "--verbose"], callback=_set_level(1), help="More details; tracebacks of errors.", **how),
    ]


def with_verbosity(command: click.Command) -> click.Command:
    """The command with `-q` and `-v` before its `--help`."""
    command.params.extend(verbosity_options())
    return command


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A progress bar, or none where quiet was asked for."""
    from handlens.progress import bar
    from handlens.types import no_progress

    if Verbosity.level < 0:
        yield no_progress
        return
    with bar(title) as progress:
        yield progress


@contextmanager
def resumable() -> Iterator[None]:
    """Say after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt as error:
        message("\nstopped; the same command resumes from here")
        sys.exit(exit_status(error))


def print_json(page: Any) -> None:
    """A page for programs."""
    click.echo(json.dumps(page, indent=1))


def print_score(page: dict[str, Any]) -> None:
    """A score for people, case by case where the page has them."""
    click.echo(f"{page['challenge']} {page['score']!r}")
    width = max(map(len, page["parts"]))
    for name, value in page["parts"].items():
        click.echo(f"  {name:{width}}  {shown(value)}")
    for case in page.get("cases", ()):
        parts = ", ".join(f"{name} {shown(value)}" for name, value in case["parts"].items())
        click.echo(f"  {case['id']}: {shown(case['value'])}{f'  ({parts})' if parts else ''}")
    for note in page["notes"]:
        message(f"note: {note}")


def shown(value: float | str) -> str:
    """A number with six places; counts and words as they are."""
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def message(text: str) -> None:
    """Something for a person that is not data; not where quiet was asked for."""
    if Verbosity.level >= 0:
        click.echo(printable_lines(text), err=True)


def details(text: str) -> None:
    """Something that only `-v` shows."""
    if Verbosity.level > 0:
        click.echo(printable_lines(text), err=True)


def fail(text: str) -> None:
    """An error; always shown."""
    click.echo(printable_lines(text), err=True)


def show(text: str) -> None:
    """Text for people on stdout; names of files in it may hold anything."""
    click.echo(printable_lines(text))


def print_table(table: Table, *, whole: bool = False) -> None:
    """A table as wide as the terminal; where stdout is no terminal, 80 columns, or with `whole` as wide as it is."""
    from rich.console import Console

    width = columns()
    if whole and not sys.stdout.isatty():  # numbers that are cut in two cannot be searched for, nor compared
        width = max(width, Console(width=WIDEST).measure(table).maximum)
    Console(width=width, highlight=False).print(table)


def print_wrapped(text: str) -> None:
    """A long sentence in lines that fit, the later ones indented."""
    click.echo(textwrap.fill(text, columns(), subsequent_indent="  ", break_on_hyphens=False))


def columns() -> int:
    """Width of what is printed: that of the terminal, 80 where stdout is none."""
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    return max(NARROWEST, width)


def make_table(columns: Sequence[str], *, left: int = 1, title: str | None = None) -> Table:
    """A plain table: the first `left` columns hold words, the others numbers, flush right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right", overflow="fold")
    return table
