"""Answers with another threshold, each in a folder named by its value; what is not there is made when it is asked for.

An answer follows from the run and the value alone, and its folder appears whole or not at all. So an address is never
stale, whoever asked for another value meanwhile, and folders may be removed at any time.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from handlens import pipeline, registry
from handlens.errors import DataError
from handlens.io.files import remove_folder, sweep
from handlens.io.gate import is_there
from handlens.web.jobs import Job, Jobs

ADJUSTED = "adjusted"
"""Folder of a run with the files of changed answers and their pages."""

PAGES = "adjusted_pages"
"""Folder of a run with the pages of changed answers whose files are not written yet."""

KEPT = 8
"""Values whose folders are kept in each: of a slide of one megapixel a folder has 3 MB."""


class AdjustedAnswers:
    """Makes changed answers of finished jobs: pages one at a time, files one at a time, no page waits for files."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._pages, self._files = jobs, anyio.Lock(), anyio.Lock()

    async def show(self, id: str, value: str) -> None:
        """The page of a value, without its files where they are not there yet."""
        async with self._pages:
            if not (self._out(id) / ADJUSTED / value).is_dir():
                await self._make(id, value, PAGES)

    async def write(self, id: str, value: str) -> Path:
        """The folder with the files of a value and their page."""
        async with self._files:
            return await self._make(id, value, ADJUSTED)

    async def find(self, id: str, value: str, name: Path) -> Path:
        """Where a file of a value is to be; what the page shows is there before the others."""
        out = self._out(id)
        shown = out / PAGES / value / name
        if is_there(shown) and not (out / ADJUSTED / value).is_dir():
            return shown
        return await self.write(id, value) / name

    @asynccontextmanager
    async def forgotten(self, id: str) -> AsyncIterator[None]:
        """Within, nothing is made, and a job has no changed answers: its next run may give others."""
        async with self._pages, self._files:
            job = self._jobs.place(id)
            for folder in (*job.glob(f"out-*/{ADJUSTED}"), *job.glob(f"out-*/{PAGES}")):
                await anyio.to_thread.run_sync(remove_folder, folder)
            yield

    def _out(self, id: str) -> Path:
        return self._jobs.out(self._finished(id))

    def _finished(self, id: str) -> Job:
        job = self._jobs.read(id)
        if job.state != "done":
            raise DataError("this job is not finished: wait until it is")
        return job

    async def _make(self, id: str, value: str, place: str) -> Path:
        """The folder of a value, made where it is not there; the oldest ones go."""
        job = self._finished(id)
        out = self._jobs.out(job)
        folder = out / place / value
        if not folder.is_dir():
            challenge, files = registry.challenge(job.challenge), place == ADJUSTED
            work = partial(pipeline.report_adjusted, challenge, out, float(value), folder, files=files)
            await anyio.to_thread.run_sync(work)
            await anyio.to_thread.run_sync(_remove_old, folder.parent)
        return folder


def value_of(text: object) -> str:
    """A value from 0 to 1 in hundredths, as its folder is called.

    >>> value_of(0.3), value_of("0.30")
    ('0.30', '0.30')
    """
    if isinstance(text, int | float) and 0 <= text <= 1:
        return f"{abs(text):.2f}"  # of -0.0 too
    if isinstance(text, str) and re.fullmatch(r"0\.[0-9]{2}|1\.00", text):
        return text
    raise DataError("a value from 0 to 1 is needed, in hundredths")


def _remove_old(place: Path) -> None:
    """Remove what killed processes left, and all folders but the newest."""
    sweep(place)
    folders = sorted((path for path in place.iterdir() if path.name[0] != "."), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-KEPT]:
        remove_folder(folder)
