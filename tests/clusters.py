"""A Dask scheduler and its workers as processes of their own, on loopback, for tests that kill some of them."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SECONDS = 60
"""Nothing here is waited for longer."""


class Cluster:
    """A scheduler; workers are started one by one. Each is a process group, so that nannies die with their worker."""

    def __init__(self, folder, *, port=0):
        self.folder, self.processes = Path(folder), []
        self.file = self.folder / "scheduler.json"
        self.file.unlink(missing_ok=True)
        self.scheduler = self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--idle-timeout",
            "300s",
            "--dashboard-address",
            "127.0.0.1:0",
        )
        wait_for(self.file.exists)
        self.address = wait_for(self._read_address)

    def _read_address(self):
        try:
            return json.loads(self.file.read_text())["address"]
        except ValueError:
            return None

    def start_worker(self, *options, **environment):
        number = len(self.processes)
        usual = ("--nthreads", 1, "--local-directory", self.folder / f"disk-{number}", "--death-timeout", SECONDS)
        return self._start("worker", "--host", "127.0.0.1", *usual, *options, **environment)

    def _start(self, kind, *options, **environment):
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
            **environment,
        }
        command = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", self.file]
        with (self.folder / f"{kind}.log").open("a") as log:
            process = subprocess.Popen(
                [str(word) for word in (*command, *options)],
                stdout=log, stderr=log, env=environment, start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            kill(process)


def kill(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(SECONDS)


def wait_for(happens, seconds=SECONDS):
    """What a function gives, as soon as that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happens():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain")
