"""Jobs of the app: a folder each, run one after the other by the same commands that people type.

All that is known of a job lies in its folder, so that a reload of the page, a second tab and a restart of the server
see the same. A job that was at work when the server went is begun again, and resumes where it was.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from handlens.errors import DataError
from handlens.io.files import write_text

JOB, INPUT = "job.json", "input"
STATES = ("new", "waiting", "running", "done", "failed", "cancelled")
PROGRESS = re.compile(r"^[\w-]+: (\d+) of (\d+)(.*)$")
MESSAGE_MOST = 2000
"""Letters of an error message that are kept."""

MOST_OCCLUDED = 40
"""Photographs of which is shown where the model looked: half a second each."""

STOP_SECONDS = 5.0
"""How long a process may take to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Job:
    """One drop: what was uploaded, what it is taken for, and how far it is."""

    id: str
    created: float
    state: str = "new"
    challenge: str = ""
    title: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    page: str = ""


class Jobs:
    """The folders of all jobs, and the one thread that works them off."""

    def __init__(self, folder: Path, *, command: Sequence[str] = (sys.executable, "-m", "handlens")) -> None:
        self.folder, self.command = folder, tuple(command)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = False
        self._process: tuple[str, subprocess.Popen[str]] | None = None
        for job in self.all():
            if job.state == "running":
                self._write(replace(job, state="waiting"))
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the process at work; its job stays `running` on disk, so that the next start takes it up again."""
        self._stopping = True
        self._wake.set()
        self._end_process()
        self._thread.join(STOP_SECONDS * 2)

    # --- what the pages ask for -----------------------------------------------------------------------------------

    def create(self) -> Job:
        job = Job(secrets.token_hex(8), time.time())
        (self.place(job.id) / INPUT).mkdir(parents=True)
        self._write(job)
        return job

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        found = [job for path in self.folder.iterdir() if (job := self._read(path.name)) is not None]
        return sorted(found, key=lambda job: -job.created)

    def read(self, id: str) -> Job:
        job = self._read(id)
        if job is None:
            raise DataError(f"there is no job {id[:20]!r}")
        return job

    def place(self, id: str) -> Path:
        """The folder of a job; DataError for what is no id of ours, whatever path it spells."""
        if not re.fullmatch(r"[0-9a-f]{16}", id):
            raise DataError("no such job")
        return self.folder / id

    def out(self, job: Job) -> Path:
        return self.place(job.id) / f"out-{job.challenge}"

    def begin(self, id: str, challenge: str) -> Job:
        """Put a job into the queue; one that is done or failed is done again."""
        with self._lock:
            job = self.read(id)
            if job.state in ("waiting", "running"):
                return job
            names = sorted(path.name for path in (self.place(id) / INPUT).iterdir())
            if not names:
                raise DataError("nothing was uploaded: drop a file first")
            title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
            job = replace(job, state="waiting", challenge=challenge, title=title, message="", done=0, total=0, page="")
            self._write(job)
        self._wake.set()
        return job

    def cancel(self, id: str) -> Job:
        with self._lock:
            job = self.read(id)
            if job.state in ("waiting", "running"):
                job = replace(job, state="cancelled", message="stopped; start it again to go on")
                self._write(job)
                if self._process and self._process[0] == id:
                    self._end_process()
        return job

    def remove(self, id: str) -> None:
        self.cancel(id)
        shutil.rmtree(self.place(id), ignore_errors=True)

    # --- work -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._stopping:
            waiting = [job for job in reversed(self.all()) if job.state == "waiting"]
            if waiting:
                self._run(waiting[0])
            else:
                self._wake.wait(timeout=1.0)
                self._wake.clear()

    def _run(self, job: Job) -> None:
        """Run the command of a job to its end, and keep its progress."""
        with self._lock:
            job = self.read(job.id)
            if job.state != "waiting" or self._stopping:
                return
            job = replace(job, state="running")
            self._write(job)
            process = subprocess.Popen(
                [*self.command, *self._arguments(job)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._process = (job.id, process)
        with process:
            said = self._follow(job, process.stderr)
        code = process.returncode
        with self._lock:
            self._process = None
            job = self.read(job.id)
            if job.state != "running" or self._stopping:
                return
            page = next((name for name in ("report.html", "index.html") if (self.out(job) / name).is_file()), "")
            if code in (0, 1) and page and (code == 0 or page == "index.html"):
                self._write(replace(job, state="done", done=max(job.total, 1), total=max(job.total, 1), page=page))
            else:
                said = said.removeprefix("handlens: ").replace(f"{self.place(job.id) / INPUT}{os.sep}", "")
                message = said.strip() or f"ended with status {code}"
                self._write(replace(job, state="failed", message=message[:MESSAGE_MOST]))

    def _arguments(self, job: Job) -> list[str]:
        place = self.place(job.id) / INPUT
        entries = sorted(place.iterdir())
        source = entries[0] if len(entries) == 1 else place
        if any(path.suffix.lower() == ".pdf" for path in place.rglob("*")):
            return ["inspect", str(source), "-o", str(self.out(job))]
        going = [] if source.is_file() else ["--keep-going"]
        if job.challenge == "lesions" and sum(1 for path in place.rglob("*") if path.is_file()) <= MOST_OCCLUDED:
            going += ["--write", "occlusion"]
        return ["solve", job.challenge, str(source), "-o", str(self.out(job)), "--report", *going]

    def _follow(self, job: Job, stream: IO[str] | None) -> str:
        """Keep the progress that a command tells; gives the last of what else it said."""
        said: list[str] = []
        for line in stream or ():
            found = PROGRESS.match(line)
            if found is None:
                said = [*said[-20:], line]
                continue
            with self._lock:
                now = self.read(job.id)
                if now.state == "running":
                    self._write(replace(now, done=int(found[1]), total=int(found[2])))
        errors = [line for line in said if line.startswith("handlens: ")]
        return "".join(said[said.index(errors[-1]) :]) if errors else "".join(said[-3:])

    def _end_process(self) -> None:
        if self._process is None:
            return
        process = self._process[1]
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
            except ProcessLookupError:
                return
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return

    # --- files ----------------------------------------------------------------------------------------------------

    def _write(self, job: Job) -> None:
        with self._lock:
            write_text(self.place(job.id) / JOB, json.dumps(asdict(job)) + "\n")

    def _read(self, id: str) -> Job | None:
        try:
            page = json.loads((self.place(id) / JOB).read_text(encoding="utf-8"))
            job = Job(**page)
        except (DataError, OSError, ValueError, TypeError):
            return None
        return job if job.state in STATES else None
