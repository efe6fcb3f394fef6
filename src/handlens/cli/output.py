"""How commands speak: data on stdout, talk on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


@contextmanager
def going_on() -> Iterator[None]:
    """Say after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        talk("\nstopped; the same command goes on from here")
        sys.exit(130)


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
        click.echo(f"  {case['id']}: {shown(case['value'])}  ({parts})")
    for note in page["notes"]:
        talk(f"note: {note}")


def shown(value: float | str) -> str:
    """A number with six places; words as they are."""
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def talk(text: str) -> None:
    """Words that are not data."""
    click.echo(text, err=True)
