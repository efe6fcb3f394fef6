"""A progress bar with time left in terminals and notebooks; a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module

from handlens.errors import printable
from handlens.types import Progress

LINE_SECONDS = 10.0
"""Time between plain lines, so that a log file stays short."""

DRAW_SECONDS = 0.2
"""Time between two drawings of a notebook's bar: each is a message to the browser."""


@contextmanager
def bar(title: str) -> Iterator[Progress]:
    """A function to call with (done, total), and words where there are some."""
    if in_notebook():
        drawn = _NotebookBar(title)
        try:
            yield drawn
        finally:
            drawn.draw()
        return
    if not sys.stderr.isatty():
        with _Lines(title).repeated() as lines:
            yield lines
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
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(title, total=None, words="")

        def show(done: int, total: int, words: str = "", /) -> None:
            shown.update(task, completed=done, total=total, words=printable(words))

        yield show


def in_notebook() -> bool:
    """Whether this runs in Jupyter or in what is built on it."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return any(each.__name__ == "ZMQInteractiveShell" for each in type(found).__mro__)


class _NotebookBar:
    """A bar below the cell: HTML that is drawn anew. rich's own needs ipywidgets and warns where there is none."""

    def __init__(self, title: str) -> None:
        self.title, self.done, self.total, self.words = title, 0, 0, ""
        self.begun = self.drawn = time.monotonic()
        self.before: int | None = None
        self.display = import_module("IPython.display").display(self, display_id=True)

    def __call__(self, done: int, total: int, words: str = "", /) -> None:
        if self.before is None or total != self.total:  # some of it may have been done by a run before this one
            self.before, self.begun = done, time.monotonic()
        self.done, self.total, self.words = done, total, printable(words)
        if time.monotonic() - self.drawn >= DRAW_SECONDS:
            self.draw()

    def draw(self) -> None:
        self.drawn = time.monotonic()
        self.display.update(self)

    def __repr__(self) -> str:
        seconds = self.drawn - self.begun
        texts = [f"{self.title} {self.done}/{self.total}", f"{_clock(seconds)} elapsed"]
        if self.before is not None and self.before < self.done < self.total:
            texts.append(f"{_clock(seconds * (self.total - self.done) / (self.done - self.before))} left")
        return ", ".join(texts + ([self.words] if self.words else []))

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done}" max="{max(1, self.total)}" style="width:20em"></progress>'
        return f"<div>{bar} {escape(repr(self))}</div>"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class _Lines:
    """Progress for logs. Where nothing is told for long, as while one picture is read, the last line comes again."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.last = self.begun = self.told = time.monotonic()
        self.before = self.total = -1
        self.rest: list[str] = []
        self.ended = threading.Event()

    @contextmanager
    def repeated(self) -> Iterator[Progress]:
        thread = threading.Thread(target=self._repeat, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            thread.join()

    def __call__(self, done: int, total: int, words: str = "", /) -> None:
        now = self.told = time.monotonic()
        if total != self.total:  # other work: some of it may have been done by a run before this one
            self.before, self.begun, self.total = done, now, total
        rest = [f"{done} of {total}"]
        if words and done > self.before:
            seconds = (now - self.begun) * (total - done) / (done - self.before)
            rest.append(f"{seconds / 60:.0f} min left")
        self.rest = rest + ([printable(words)] if words else [])
        if now - self.last >= LINE_SECONDS:
            self._say(self.rest, now)

    def _say(self, rest: list[str], now: float) -> None:
        self.last = now
        print(f"{self.title}: {', '.join(rest)}", file=sys.stderr)

    def _repeat(self) -> None:
        """After ten seconds without a line, then after twice as long each time."""
        patience, said = LINE_SECONDS, self.last
        while not self.ended.wait(LINE_SECONDS):
            now = time.monotonic()
            if self.last != said:  # by the work itself
                patience, said = LINE_SECONDS, self.last
            if self.rest and now - self.last >= patience:
                self._say([*self.rest, f"{now - self.told:.0f} s so far"], now)
                patience, said = 2 * patience, now
