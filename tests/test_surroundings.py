"""Odd surroundings: closed streams, full disks, strange names and terminals, little memory, signals. No traceback."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import hostile_models as models
import numpy as np
import onnx
import pytest
from PIL import Image

from handlens.cli import surroundings
from handlens.errors import DataError, DiskFullError, Problem, printable

LIMIT = 300
"""Seconds after which a command that hangs fails its test; a busy machine needs many for the imports."""


def run(*words: str, cwd: Path, shell: str = "", **options) -> subprocess.CompletedProcess[bytes]:
    """`handlens WORDS`, with what a shell does before or after."""
    command = [sys.executable, "-m", "handlens", *words]
    if shell:
        command = ["bash", "-c", shell.replace("HANDLENS", '"$@"'), "bash", *command]
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run(command, cwd=cwd, capture_output=True, timeout=LIMIT, env=environment, check=False, **options)


def no_traceback(done: subprocess.CompletedProcess[bytes]) -> bytes:
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    assert done.returncode >= 0, done  # no signal ended it
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "POSIX"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        {"HOME": "/proc", "XDG_CACHE_HOME": "/proc"},
        {"PYTHONOPTIMIZE": "2"},
    ],
    ids=lambda environment: next(iter(environment)),
)
def test_a_command_works_in_odd_environments(tmp_path: Path, environment: dict[str, str]) -> None:
    Image.new("RGB", (40, 40), (200, 30, 30)).save(tmp_path / "größe-Ωmega.png")
    done = run("inspect", "größe-Ωmega.png", "-o", "out", cwd=tmp_path, env=environment)
    no_traceback(done)
    assert done.returncode == 0
    assert b"no copied region found" in done.stdout
    assert (tmp_path / "out" / "index.html").exists()


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A folder whose name is no text and moves the cursor, with slides, a result, masks and a model of two files."""
    folder = os.path.join(os.fsencode(tmp_path_factory.mktemp("odd")), b"caf\xe9 \x1b[31m\nred")
    os.mkdir(folder)
    place = Path(os.fsdecode(folder))
    for words in (
        ("sample", "cells", "data", "--cases", "1", "--size", "64"),
        ("solve", "cells", "data", "-o", "out"),
        ("decode", "cells", "out/submission.csv", "--data", "data", "-o", "masks"),
    ):
        assert run(*words, cwd=place).returncode == 0
    onnx.save_model(models.honest(), place / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder


ODD_PLACES: dict[str, tuple[dict[str, str], str]] = {
    "all at once": ({"LC_ALL": "POSIX", "HOME": "/proc", "XDG_CACHE_HOME": "/proc", "PYTHONOPTIMIZE": "2"}, ""),
    "ascii": ({"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, ""),
    "closed": ({}, "HANDLENS <&- 1>&- 2>&-"),
    "little memory": ({}, "ulimit -v 2097152; HANDLENS"),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", ODD_PLACES)
def test_every_command_that_writes_works_in_odd_places(solved: bytes, tmp_path: Path, place: str) -> None:
    """Names on the command line are as hostile as the folder's."""
    environment, shell = ODD_PLACES[place]
    out = tmp_path / os.fsdecode(b"\xfe \x1b[2J")
    commands: dict[tuple[str, ...], Path] = {
        ("encode", "cells", "masks", "--data", "data", "-o", f"{out}.csv"): Path(f"{out}.csv"),
        ("decode", "cells", "out/submission.csv", "--data", "data", "-o", str(out)): out,
        ("report", "out"): Path(os.fsdecode(solved)) / "out" / "report.html",
        ("pack", "m.onnx", "-o", f"{out}.onnx"): Path(f"{out}.onnx"),
    }
    for words, made in commands.items():
        done = run(*words, cwd=Path(os.fsdecode(solved)), env=environment, shell=shell)
        assert b"\x1b" not in no_traceback(done) + done.stdout
        assert done.returncode == 0, (words, done)
        assert made.exists()


@pytest.mark.slow
def test_help_works_without_docstrings(tmp_path: Path) -> None:
    for words in (("--help",), ("inspect", "--help"), ("list",)):
        done = run(*words, cwd=tmp_path, env={"PYTHONOPTIMIZE": "2"})
        no_traceback(done)
        assert done.returncode == 0
        assert done.stdout


@pytest.mark.slow
def test_a_name_that_is_no_text_or_moves_the_cursor_is_shown_as_escapes(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    Image.new("RGB", (40, 40)).save(tmp_path / "plain.png")
    for name in (b"caf\xe9.png", b"red\x1b[31m.png", b"two\nlines.png"):
        os.link(os.path.join(folder, b"plain.png"), os.path.join(folder, name))
    (tmp_path / "bad\x1b[31m.png").write_bytes(b"nothing")
    done = run("inspect", ".", "-o", "out", cwd=tmp_path)
    text = no_traceback(done) + done.stdout
    assert b"\x1b" not in text
    assert b"caf\\udce9.png" in text
    assert b"bad\\x1b[31m.png: not a readable image" in done.stderr
    assert done.returncode == 1


@pytest.mark.slow
def test_closed_streams_do_not_end_it_and_no_file_gets_their_number(tmp_path: Path) -> None:
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    for closed in ("2>&-", "<&- 2>&-", "1>&- 2>&-"):
        done = run("inspect", "a.png", "-o", "out", "--overwrite", cwd=tmp_path, shell=f"HANDLENS {closed}")
        assert done.returncode == 0, (closed, done)
        assert b"index.html" not in done.stdout  # what was meant for stderr is not on stdout
    assert (tmp_path / "out" / "index.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    done = run("list", cwd=tmp_path, shell="HANDLENS > /dev/full")
    assert done.returncode == 1
    said = no_traceback(done)
    assert b"cannot be written" in said or b"the output: the disk is full" in said
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("mib", [120, 350, 500, 1000])
def test_too_little_memory_is_refused(tmp_path: Path, mib: int) -> None:
    done = run("list", cwd=tmp_path, shell=f"ulimit -v {mib * 1024}; HANDLENS")
    said = f"handlens: memory is limited to {mib:,} MiB (ulimit -v); expected at least 1,024 MiB: raise the limit\n"
    assert (done.returncode, done.stderr.decode()) == (1, said)


@pytest.mark.slow
def test_little_memory_is_enough(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((3000, 3000, 3), np.uint8)).save(tmp_path / "a.png")
    done = run("inspect", "a.png", cwd=tmp_path, shell="ulimit -v 1228800; HANDLENS")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly_and_the_run_resumes(tmp_path: Path, number: signal.Signals) -> None:
    rng = np.random.default_rng(0)
    for index in range(40):
        Image.fromarray(rng.integers(0, 256, (300, 300, 3), np.uint8)).save(tmp_path / f"{index:02}.png")
    command = [sys.executable, "-m", "handlens", "inspect", ".", "-o", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    journal = tmp_path / "out" / "unfinished" / "figures.jsonl"
    try:
        end = time.monotonic() + LIMIT
        while not (journal.exists() and journal.stat().st_size) and time.monotonic() < end and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + number
    assert b"stopped; the same command resumes from here" in said
    assert b"Traceback" not in said
    assert not list((tmp_path / "out").rglob(".*"))  # no lock, nothing temporary
    assert journal.exists()


def test_the_exit_status_is_that_of_shells() -> None:
    assert surroundings.exit_status(surroundings.Terminated()) == 143
    assert surroundings.exit_status(KeyboardInterrupt()) == 130


def test_lack_of_memory_is_recognised() -> None:
    for error in (
        MemoryError(),
        ImportError("a.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        OSError(12, "Cannot allocate memory"),
    ):
        assert surroundings.is_lack_of_memory(error)
    for other in (ImportError("No module named x"), KeyError("cannot allocate memory"), ValueError("x")):
        assert not surroundings.is_lack_of_memory(other)


def test_names_in_messages_are_printable() -> None:
    assert printable("größe.png") == "größe.png"
    assert printable("a\x1b[31m\n.png") == "a\\x1b[31m\\n.png"
    assert str(DataError("x", file=Path("a\nb"))) == "a\\nb: x"
    assert str(Problem("x", file="a\rb")) == "a\\rb: x"
    assert "a\\nb: the disk is full: there was room for 7 bytes" in str(DiskFullError(Path("a\nb"), 7, 0))


# --- a disk that is really full -----------------------------------------------------------------------------------


def small_disk(folder: Path, size: str) -> bool:
    """A file system of this size in memory; False where that is not allowed."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True)
    return done.returncode == 0


@pytest.mark.parametrize("out", ["/proc/new", "/dev/null/new"])
@pytest.mark.parametrize(
    "command", [["inspect", "a.png", "-o"], ["solve", "cells", "a.png", "-o"], ["sample", "cells"]]
)
def test_a_place_where_nothing_can_be_written_is_told_with_what_to_do(tmp_path: Path, command: list[str], out: str):
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(tmp_path / "a.png")
    done = run(*command, out, cwd=tmp_path)
    assert done.returncode == 1
    said = no_traceback(done).decode()
    assert f"handlens: {out}: nothing can be written here (" in said
    assert "name a place on a disk that you may write to" in said


FULL = {
    "inspect": ("1100k", ["inspect", "figures", "-o", "disk/out"], "*/findings.json"),
    "sample": ("400k", ["sample", "forgery", "disk/out", "--size", "300"], "test_images/*.png"),
    "solve": ("700k", ["solve", "cells", "slides", "-o", "disk/out", "--solver", "baseline"], "*.mask.png"),
}
"""Room that is not enough, the command, and files of which there are several in the end."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_a_full_disk_is_named_and_the_run_resumes_when_there_is_room(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    size, command, files = FULL[name]
    for folder in ("figures", "slides"):
        (tmp_path / folder).mkdir()
        for index in range(3):
            Image.fromarray(rng.integers(0, 256, (300, 300, 3), np.uint8)).save(tmp_path / folder / f"{index}.png")
    disk = tmp_path / "disk"
    if not small_disk(disk, size):
        pytest.skip("mounting is not allowed here")
    try:
        done = run(*command, cwd=tmp_path)
        assert done.returncode == 1
        said = no_traceback(done).decode()
        assert re.search(r"disk/out\S*: the disk is full: there was room for [1-9][\d,]* bytes of it", said)
        assert "and it needs more: free some space, or name a folder on another disk, then say the same again" in said
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True, capture_output=True)
        done = run(*command, cwd=tmp_path)
        no_traceback(done)
        assert done.returncode == 0
        assert len(list((disk / "out").glob(files))) >= 2
        assert not list((disk / "out").rglob(".*"))
    finally:
        subprocess.run(["umount", str(disk)], check=False, capture_output=True)
