"""`handlens run-entry`: a bundle or notebook run as a contest would, and its submission collected."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlens.errors import DataError, HandlensError
from handlens.io.files import new_folder
from handlens.offline.bundle import MANIFEST, NOTEBOOKS, read_bundle
from handlens.pipeline import TRUTH, find_truth
from handlens.sandbox.containers import Container, Engine, command_in, find_engine
from handlens.types import AnyChallenge, no_progress

INPUT, WORKING, ENVIRONMENT, ENTRY = "/kaggle/input", "/kaggle/working", "/kaggle/env", "/kaggle/entry.ipynb"
SUBMISSIONS = ("submission.csv", "submission.parquet")
USUAL_NOTEBOOK = "00_pipeline.ipynb"
LARGEST_SUBMISSION = 2 << 30
POLL_SECONDS = 0.25
LOG = "log.txt"

RUN = """
import sys, nbformat, nbclient
book = nbformat.read(sys.argv[1], 4)
client = nbclient.NotebookClient(
    book, timeout=None, startup_timeout=86_400, kernel_name="python3", resources={"metadata": {"path": "."}}
)
try:
    client.execute()
finally:
    nbformat.write(book, "executed.ipynb")
"""
"""What runs a notebook inside. On a busy machine its kernel may take minutes to start: the entry's own limit counts."""


@dataclass(frozen=True, slots=True)
class EntryLimits:
    """What an entry may use: seconds, and memory of all its processes together."""

    seconds: float = 4 * 3600.0
    memory_mib: int = 16384


@dataclass(frozen=True, slots=True)
class EntryRun:
    """What became of an entry: `verdict` is `done`, `failed`, `time`, `memory`, or `no submission`."""

    verdict: str
    why: str
    seconds: float
    memory_mib: int
    engine: str
    submission: Path | None

    def as_json(self) -> dict[str, Any]:
        page = {
            "verdict": self.verdict,
            "why": self.why,
            "seconds": round(self.seconds, 1),
            "memory_mib": self.memory_mib,
        }
        return page | {"engine": self.engine, "submission": str(self.submission) if self.submission else None}


def challenge_of_entry(entry: Path) -> str | None:
    """The challenge that a bundle is for; None for a notebook, which does not say."""
    return str(read_bundle(entry)["challenge"]) if entry.is_dir() else None


def run_entry(
    entry: Path,
    data: Path,
    out: Path,
    *,
    challenge: AnyChallenge | None = None,
    limits: EntryLimits | None = None,
    notebook: str = USUAL_NOTEBOOK,
    image: str | None = None,
    engine: Engine | None = None,
    progress: Callable[..., None] = no_progress,
) -> EntryRun:
    """Run an entry on hidden data: no network, data to read only, an empty home, and no truth anywhere.

    `image` is the Python whose packages the contest provides, with nbclient and ipykernel; for Docker the name of an
    image. What the entry leaves in its working folder is not kept but for the submission, the executed notebook and
    the log.
    """
    limits = limits or EntryLimits()
    source = _notebook_of(entry, notebook)
    visible = _visible(data, challenge)
    chosen = find_engine(engine)
    with new_folder(out) as folder, tempfile.TemporaryDirectory(prefix="entry-") as scratch:
        working = Path(scratch) / "working"
        working.mkdir()
        readable = {f"{INPUT}/data/{path.name}": path for path in visible}
        if entry.is_dir():
            readable[f"{INPUT}/{entry.resolve().name}"] = entry.resolve()
        readable[ENTRY] = source
        python, writable = "python", {WORKING: working}
        if chosen != "docker":
            environment, needed = _make_environment(Path(scratch) / "env", Path(image or sys.executable))
            readable |= needed
            writable[ENVIRONMENT], python = environment, f"{ENVIRONMENT}/bin/python"
        (working / "home").mkdir()
        variables = {"HOME": f"{WORKING}/home", "PATH": f"{ENVIRONMENT}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        container = Container(
            readable, writable, variables, WORKING, (image or "") if chosen == "docker" else "", limits.memory_mib
        )
        command = command_in(container, [python, "-c", RUN, ENTRY], chosen)
        verdict, why, seconds, peak = _watch(command, folder / LOG, limits, progress)
        submission = _collect(working, folder)
        if submission is None and verdict == "done":
            verdict, why = "no submission", f"it left no {' or '.join(SUBMISSIONS)} in its working folder"
        final = out / submission.name if submission else None
        found = EntryRun(verdict, why, seconds, peak, chosen, final)
        (folder / "entry.json").write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    return found


def _notebook_of(entry: Path, notebook: str) -> Path:
    if entry.is_dir():
        read_bundle(entry)
        path = entry / NOTEBOOKS / notebook
        if not path.is_file():
            have = ", ".join(sorted(each.name for each in (entry / NOTEBOOKS).glob("*.ipynb")))
            raise DataError(f"no notebook {notebook} in it; there are {have}", file=entry)
        return path.resolve()
    if not entry.is_file():
        raise DataError("no such bundle or notebook", file=entry)
    if entry.suffix != ".ipynb":
        raise DataError(f"neither a bundle (a folder with {MANIFEST}) nor a notebook (.ipynb)", file=entry)
    return entry.resolve()


def _visible(data: Path, challenge: AnyChallenge | None) -> list[Path]:
    """What of the hidden data an entry may see: all but the truth of its test part."""
    if not data.is_dir():
        raise DataError("no such folder", file=data)
    if challenge is not None:
        place = find_truth(challenge, data, challenge.settings(), "test")
        if place is not None and place.name != TRUTH:
            raise DataError(f"the labels of the test part lie beside it, in {place}: move them to {TRUTH}/", file=data)
    return [path.resolve() for path in sorted(data.iterdir()) if path.name != TRUTH and not path.name.startswith(".")]


def _make_environment(folder: Path, python: Path) -> tuple[Path, dict[str, Path]]:
    """A fresh environment that has the packages of another one, and the folders that this takes."""
    facts = "[sys.base_prefix, sys.prefix, [place for place in sys.path if place], sys._base_executable]"
    ask = f"import json, sys; print(json.dumps({facts}))"
    try:
        # `-I`: without what is set for us
        said = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, timeout=60, check=True).stdout
        base, prefix, places, base_python = json.loads(said)
        subprocess.run([base_python, "-I", "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise HandlensError(f"--image {python}: it is no Python that works here ({error})") from None
    packages = next((folder / "lib").glob("python3*/site-packages"))
    shared = [place for place in places if Path(place).is_dir() and not Path(place).is_relative_to(base)]
    if prefix == base:
        shared += [place for place in places if place.endswith(("site-packages", "dist-packages"))]
    (packages / "image.pth").write_text("".join(f"{place}\n" for place in shared), encoding="utf-8")
    needed = {base: Path(base), **{place: Path(place) for place in shared}}
    for place in shared:  # packages that are links to elsewhere
        links = (path.resolve() for path in Path(place).iterdir() if path.is_symlink())
        needed |= {str(path): path for path in links if path.exists()}
    real = Path(os.path.realpath(base_python))
    if not any(real.is_relative_to(place) for place in (*needed, "/usr")):
        needed[str(real.parent.parent)] = real.parent.parent
    return folder, {place: path for place, path in needed.items() if place != "/usr"}


def _watch(
    command: list[str], log: Path, limits: EntryLimits, progress: Callable[..., None]
) -> tuple[str, str, float, int]:
    """Run to the end, or until a limit: verdict, reason, seconds and the most memory in MiB."""
    before, peak = time.monotonic(), 0
    verdict, why = "done", ""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            env={"PATH": os.environ["PATH"]},
        )
        try:
            while process.poll() is None:
                used = memory_of(process.pid) // 2**20
                peak, seconds = max(peak, used), time.monotonic() - before
                progress(int(seconds), int(limits.seconds), f"{used:,} MiB")
                if used > limits.memory_mib:
                    verdict, why = "memory", f"it used {used:,} MiB, {limits.memory_mib:,} are allowed"
                elif seconds > limits.seconds:
                    verdict, why = "time", f"it was not done after {limits.seconds:g} s"
                if why:
                    break
                try:
                    process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _end_tree(process)
    if verdict == "done" and process.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        verdict, why = "failed", lines[-1][:300] if lines else f"exit status {process.returncode}"
    return verdict, why, time.monotonic() - before, peak


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    """End all processes of the container: its first one takes the others with it."""
    if process.poll() is None:
        for number in (process.pid, *descendants(process.pid)):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait()


def descendants(process: int) -> list[int]:
    """All processes that a process started, by /proc."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(
                path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[1]
            )
        except (OSError, ValueError, IndexError):
            continue
    found, level = [], {process}
    while level := {child for child, parent in parents.items() if parent in level}:
        found += sorted(level)
    return found


def memory_of(process: int) -> int:
    """Resident bytes of a process and all that it started."""
    total = 0
    for number in (process, *descendants(process)):
        try:
            pages = int(Path(f"/proc/{number}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def _collect(working: Path, folder: Path) -> Path | None:
    """Take the submission and the executed notebook out of the working folder; links and huge files are left."""
    found = None
    for name in (*SUBMISSIONS, "executed.ipynb"):
        path = working / name
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_SUBMISSION:
            shutil.copyfile(path, folder / name)
            found = folder / name if name in SUBMISSIONS and found is None else found
    return found
