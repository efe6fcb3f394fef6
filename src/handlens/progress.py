"""A progress bar with time left in terminals and notebooks; a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from handlens.errors import printable
from handlens.types import Progress

LINE_SECONDS = 10.0
"""Time between plain lines, so that a log file stays short."""


@contextmanager
def bar(title: str) -> Iterator[Progress]:
    """A function to call with (done, total), and words where there are some."""
    if not sys.stderr.isatty() and not in_notebook():
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

    words = TextColumn("{task.fields[words]}", markup=False)  # the name of a file may look like markup
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn(f"{title:9}"), BarColumn(), MofNCompleteColumn(), *times, words)
    with Progress(*columns, console=Console(stderr=not in_notebook())) as shown:
        task = shown.add_task(title, total=None, words="")

        def show(done: int, total: int, words: str = "", /) -> None:
            shown.update(task, completed=done, total=total, words=printable(words))

        yield show


def in_notebook() -> bool:
    """Whether this runs in Jupyter, where rich draws its bar below the cell."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return type(found).__name__ == "ZMQInteractiveShell"


class _Lines:
    """Progress for logs."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.last = self.begun = time.monotonic()
        self.before = self.total = -1

    def __call__(self, done: int, total: int, words: str = "", /) -> None:
        now = time.monotonic()
        if total != self.total:  # other work: some of it may have been done by a run before this one
            self.before, self.begun, self.total = done, now, total
        if now - self.last >= LINE_SECONDS:
            self.last = now
            rest = [f"{done} of {total}"]
            if words and done > self.before:
                seconds = (now - self.begun) * (total - done) / (done - self.before)
                rest.append(f"{seconds / 60:.0f} min left")
            rest += [printable(words)] if words else []
            print(f"{self.title}: {', '.join(rest)}", file=sys.stderr)
