"""Writes that are atomic: whatever goes wrong in the middle, the old file is what is left."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from handlens.errors import DataError, DiskFullError
from handlens.io import files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- one file ------------------------------------------------------------------------------------


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with files.replacing(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".csv"
        assert temporary.name.startswith(".")  # whoever lists the folder meanwhile passes it over
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["table.csv"]


def test_the_folders_above_are_made(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a" / "b" / "c.txt", "grün")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == "grün".encode()


def test_relative_paths_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files.write_text(Path("a.txt"), "here")
    files.write_text(Path("sub/b.txt"), "there")
    assert (tmp_path / "a.txt").read_text() == "here"
    assert (tmp_path / "sub" / "b.txt").read_text() == "there"


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "a.txt", "x")
        with files.new_folder(tmp_path / "folder"):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("there", [True, False])
def test_an_exception_leaves_what_was_there(tmp_path: Path, error: type[BaseException], there: bool) -> None:
    path = tmp_path / "a.txt"
    if there:
        path.write_text("old")

    def write() -> None:
        with files.replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == (["a.txt"] if there else [])
    assert not there or path.read_text() == "old"


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _five_bytes_are_free(_place: Path) -> SimpleNamespace:
    return SimpleNamespace(free=5)


@pytest.mark.parametrize("call", ["fsync", "chmod"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(f"handlens.io.files.os.{call}", _no_space)
    monkeypatch.setattr("handlens.io.files.shutil.disk_usage", _five_bytes_are_free)
    with pytest.raises(
        DiskFullError, match=r"a\.txt: the disk is full: there was room for 8 bytes of it, and it needs"
    ):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_limit_of_a_file_s_size_is_said_to_be_one(tmp_path: Path) -> None:
    path, limits = tmp_path / "a.txt", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_text("old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(
            DiskFullError, match=r"a\.txt: a file of more than 1,000 bytes is not allowed here"
        ) as caught:
            files.write_text(path, "new" * 9999)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(DiskFullError, match=r"a\.txt: the disk is full"), files.replacing(path):
        Path("/dev/full").write_text("new" * 9999)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "a.txt", []
    real = os.fsync

    def watch(handle: int) -> None:
        synced.append((os.fstat(handle).st_size, path.exists()))
        real(handle)

    monkeypatch.setattr("handlens.io.files.os.fsync", watch)
    files.write_text(path, "12345")
    assert synced == [(5, False)]


SLOW_FILE = """
import sys, time
from pathlib import Path
from handlens.io.files import replacing
with replacing(Path(sys.argv[1])) as temporary, temporary.open("w") as stream:
    for number in range(10_000):
        print(number, file=stream, flush=True)
        if number == 100:
            print("half", flush=True)
        time.sleep(0.001 if number < 100 else 0.1)
"""

SLOW_FOLDER = """
import sys, time
from pathlib import Path
from handlens.io.files import new_folder
with new_folder(Path(sys.argv[1])) as temporary:
    for number in range(10_000):
        (temporary / str(number)).write_text("x")
        if number == 10:
            print("half", flush=True)
        time.sleep(0.001 if number < 10 else 0.1)
"""


def kill_half_way(script: str, path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        writer.kill()
        assert writer.wait() == -signal.SIGKILL


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    kill_half_way(SLOW_FILE, path)
    assert path.read_text() == "old"
    left = [name for name in names(tmp_path) if name != "a.txt"]
    assert len(left) == 1  # it was killed in the middle indeed
    assert left[0].startswith(".")
    with files.replacing(tmp_path / "b.txt"):
        files.sweep(tmp_path)
        mine = [name for name in names(tmp_path) if name != "a.txt"]
        assert len(mine) == 1  # what the killed one left is gone, ours is not
        assert mine != left
    files.write_text(path, "new")
    assert path.read_text() == "new"


def test_readers_see_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    texts = {"a" * 200_000, "b" * 200_000}
    files.write_text(path, "a" * 200_000)
    script = (
        "import sys\nfrom pathlib import Path\nfrom handlens.io.files import write_text\n"
        "for number in range(40): write_text(Path(sys.argv[1]), 'ba'[number % 2] * 200_000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)]) as writer:
        reads = 0
        while writer.poll() is None:
            assert path.read_text() in texts
            reads += 1
            time.sleep(0.0005)
    assert writer.returncode == 0
    assert reads > 10


# --- a folder ------------------------------------------------------------------------------------


def test_a_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "new"
    with files.new_folder(path) as temporary:
        (temporary / "sub").mkdir()
        (temporary / "sub" / "a.txt").write_text("x")
        assert not path.exists()
    assert (path / "sub" / "a.txt").read_text() == "x"
    assert names(path.parent) == ["new"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with files.new_folder(tmp_path / "new") as temporary:
        (temporary / "a.txt").write_text("x")
    assert names(tmp_path / "new") == ["a.txt"]


@pytest.mark.parametrize("content", ["a.txt", ".hidden", "sub/"])
def test_a_folder_with_anything_in_it_is_not_touched(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine"
    path.mkdir()
    (path / content).mkdir() if content.endswith("/") else (path / content).write_text("mine")
    before = path.stat()
    with pytest.raises(DataError, match="already there and not empty: name a new folder") as caught:
        files.new_folder(path).__enter__()
    assert str(path) in str(caught.value)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert names(tmp_path) == ["mine"]


def test_a_file_in_the_place_of_the_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(DataError, match="already there"):
        files.new_folder(tmp_path / "mine").__enter__()
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_folder_filled_meanwhile_by_someone_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "ours"

    def race() -> None:
        with files.new_folder(path) as temporary:
            (temporary / "a.txt").write_text("ours")
            path.mkdir()
            (path / "b.txt").write_text("theirs")

    with pytest.raises(OSError, match="not empty"):
        race()
    assert names(path) == ["b.txt"]
    assert names(tmp_path) == ["ours"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_no_folder(tmp_path: Path, error: type[BaseException]) -> None:
    def write() -> None:
        with files.new_folder(tmp_path / "new") as temporary:
            (temporary / "a.txt").write_text("x")
            raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == []


def test_a_full_disk_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handlens.io.files.os.fsync", _no_space)
    monkeypatch.setattr("handlens.io.files.shutil.disk_usage", _five_bytes_are_free)
    with (
        pytest.raises(DiskFullError, match="/new: the disk is full: there was room for 6 bytes of it"),
        files.new_folder(tmp_path / "new") as temporary,
    ):
        files.write_text(temporary / "a.txt", "x")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["new", "./new", "sub/../new", "sub/new"])
def test_relative_folders_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with files.new_folder(Path(name)) as temporary:
        (temporary / "a.txt").write_text("x")
    assert (tmp_path / name / "a.txt").read_text() == "x"


def test_the_empty_folder_one_stands_in_may_be_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with files.new_folder(Path()) as temporary:
        (temporary / "a.txt").write_text("x")
    assert names(tmp_path) == ["here"]
    assert names(tmp_path / "here") == ["a.txt"]


def test_a_link_to_an_empty_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "new").symlink_to(tmp_path / "large-disk")
    with files.new_folder(tmp_path / "new") as temporary:
        (temporary / "a.txt").write_text("x")
    assert (tmp_path / "new").is_symlink()
    assert names(tmp_path / "large-disk") == ["a.txt"]


def test_a_killed_maker_leaves_no_folder(tmp_path: Path) -> None:
    kill_half_way(SLOW_FOLDER, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert all(name.startswith(".") for name in names(tmp_path))
    with files.new_folder(tmp_path / "new"):
        pass
    assert names(tmp_path) == ["new"]  # what the killed one left was swept


def test_what_another_machine_or_a_living_process_makes_is_not_swept(tmp_path: Path) -> None:
    for name in (f".a.tmp-{files._machine()}-1-x", ".a.tmp-00000000-999999999-x", ".a.tmp-nothing", "a.tmp-1"):
        (tmp_path / name).write_text("")
    (tmp_path / f".gone.tmp-{files._machine()}-999999999-x").write_text("")
    before = names(tmp_path)
    files.sweep(tmp_path)
    assert [name for name in before if name not in names(tmp_path)] == [f".gone.tmp-{files._machine()}-999999999-x"]


def test_scratch_folders_of_killed_processes_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f".handlens-pdf.tmp-{files._machine()}-999999999-x").mkdir()
    with files.scratch_folder("pdf") as folder:
        assert names(tmp_path) == [folder.name]
    assert names(tmp_path) == []
