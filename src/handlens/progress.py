"""A progress bar on stderr with time left; a plain line now and then where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 10.0
"""Time between plain lines, so that a log file stays short."""


@contextmanager
def bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total)."""
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(f"{title:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(title, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


class _Lines:
    """Progress for logs."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.last >= LINE_SECONDS:
            self.last = time.monotonic()
            print(f"{self.title}: {done} of {total}", file=sys.stderr)
