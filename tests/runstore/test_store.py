"""The run store: one owner at a time, resume after a kill, another run is refused, nothing is left of a refusal."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens.errors import DataError, HandlensError
from handlens.runstore import store
from handlens.runstore.store import (
    LOCK,
    MANIFEST,
    UNFINISHED,
    Journal,
    fingerprint_of,
    open_store,
    read_manifest,
    write_manifest,
)

ABOUT = {"command": "solve", "challenge": "cells"}


def names(folder):
    return sorted(os.listdir(folder))


def keep(run, *ids):
    """Put an answer for each into the journal."""
    with closing(run.journal()) as journal:
        for id in ids:
            journal.add(id, [f"answer {id}"])


def stop_after(folder, *ids, key="key", **how):
    """A run that is stopped after these answers."""
    with suppress(KeyboardInterrupt), open_store(folder, key, ABOUT, **how) as run:
        keep(run, *ids)
        raise KeyboardInterrupt


# --- begin, resume, finish --------------------------------------------------------------------------------------------


def test_a_run_begins_and_ends(tmp_path):
    with open_store(tmp_path / "a" / "b", "key", ABOUT) as run:
        assert (run.resumed, run.folder) == (False, tmp_path / "a" / "b")
        assert names(run.folder) == [LOCK, MANIFEST]
        assert read_manifest(run.folder) == {**ABOUT, "fingerprint": "key", "finished": False}
        keep(run, "0")
        run.arrays("0").save("tile", np.arange(3))
        run.finish({"numbers": {"score": 0.5}})
    assert names(run.folder) == [MANIFEST]
    assert read_manifest(run.folder) == {
        **ABOUT,
        "numbers": {"score": 0.5},
        "fingerprint": "key",
        "finished": True,
    }


def test_a_stopped_run_is_resumed(tmp_path):
    stop_after(tmp_path / "run", "a", "b")
    assert names(tmp_path / "run") == [MANIFEST, UNFINISHED]
    with open_store(tmp_path / "run", "key", ABOUT) as run:
        assert run.resumed
        assert run.journal().done == {"a": ("answer a",), "b": ("answer b",)}
        assert run.journal("other").done == {}
        run.finish()
    with open_store(tmp_path / "run", "key", ABOUT) as run:
        assert (run.resumed, run.journal().done) == (False, {})


def test_a_run_that_was_stopped_at_once_is_resumed(tmp_path):
    stop_after(tmp_path / "run")
    assert names(tmp_path / "run") == [MANIFEST]
    with open_store(tmp_path / "run", "key", ABOUT) as run:
        assert run.resumed


def test_a_run_that_was_stopped_at_once_does_not_stand_in_the_way_of_another(tmp_path):
    stop_after(tmp_path / "run")
    with open_store(tmp_path / "run", "other", ABOUT) as run:
        assert not run.resumed
        assert read_manifest(tmp_path / "run")["fingerprint"] == "other"


def test_a_finished_run_is_done_again_or_refused(tmp_path):
    with open_store(tmp_path, "key", ABOUT) as run:
        run.finish()
    with pytest.raises(DataError, match="this run is finished: name a new folder, or remove it first"):
        open_store(tmp_path, "key", ABOUT, again=False).__enter__()
    with open_store(tmp_path, "key", ABOUT) as run:
        assert not run.resumed
        assert read_manifest(tmp_path)["finished"] is False
        run.finish()


@pytest.mark.parametrize("finished", [True, False])
def test_another_run_is_refused_or_overwritten(tmp_path, finished):
    if finished:
        with open_store(tmp_path, "key", ABOUT) as run:
            (tmp_path / "submission.csv").write_text("theirs")
            run.finish()
    else:
        stop_after(tmp_path, "a")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    state = "holds the results of" if finished else "was begun by"
    with pytest.raises(DataError, match=f"{state} another run .*: name a new folder, or pass --overwrite"):
        open_store(tmp_path, "other", ABOUT).__enter__()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with open_store(tmp_path, "other", ABOUT, overwrite=True) as run:
        assert (run.resumed, run.journal().done) == (False, {})
        assert not (tmp_path / UNFINISHED).exists()
        assert read_manifest(tmp_path)["fingerprint"] == "other"


def test_the_own_unfinished_run_is_resumed_even_with_overwrite(tmp_path):
    stop_after(tmp_path, "a")
    with open_store(tmp_path, "key", ABOUT, overwrite=True) as run:
        assert list(run.journal().done) == ["a"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file: this is a file: name a folder"):
        open_store(tmp_path / "file", "key", ABOUT).__enter__()


# --- what is refused leaves nothing ----------------------------------------------------------------------------------


def refuse(folder, **how):
    with pytest.raises(HandlensError, match="refused"), open_store(folder, "key", ABOUT, **how):
        raise HandlensError("refused")


def test_a_refused_run_leaves_nothing(tmp_path):
    refuse(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    refuse(tmp_path / "empty")
    assert names(tmp_path / "empty") == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refuse(tmp_path / "mine")
    assert names(tmp_path / "mine") == ["notes.txt"]


def test_a_run_that_began_stays_when_it_fails(tmp_path):
    with suppress(HandlensError), open_store(tmp_path / "a", "key", ABOUT) as run:
        keep(run, "a")
        raise HandlensError("too late")
    assert names(tmp_path / "a") == [MANIFEST, UNFINISHED]
    with suppress(HandlensError), open_store(tmp_path / "b", "key", ABOUT):
        (tmp_path / "b" / "checkpoint").write_text("half")
        raise HandlensError("too late")
    assert names(tmp_path / "b") == ["checkpoint", MANIFEST]


def test_a_refusal_does_not_make_a_finished_run_unfinished_without_a_trace(tmp_path):
    with open_store(tmp_path, "key", ABOUT) as run:
        (tmp_path / "submission.csv").write_text("ours")
        run.finish()
    refuse(tmp_path)
    assert names(tmp_path) == [MANIFEST, "submission.csv"]
    assert read_manifest(tmp_path)["finished"] is False


# --- the lock ---------------------------------------------------------------------------------------------------------

HOLD = (
    "import sys, time\nfrom pathlib import Path\nfrom handlens.runstore.store import open_store\n"
    "with open_store(Path(sys.argv[1]), 'key', {}) as run:\n"
    "    run.journal().add('a', ['1 1'])\n"
    "    print('held', flush=True)\n"
    "    time.sleep(600)\n"
)


@pytest.fixture
def owner(tmp_path):
    """Another process that writes to tmp_path / run."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_folder_has_one_owner_and_a_kill_sets_it_free(owner, tmp_path):
    folder = tmp_path / "run"
    for overwrite in (False, True):
        what = rf"another handlens \(process {owner.pid}\) is writing here: wait for it, or name another folder"
        with pytest.raises(DataError, match=what):
            open_store(folder, "key", {}, overwrite=overwrite).__enter__()
    assert list(Journal(folder / UNFINISHED / "answers.jsonl").done) == ["a"]
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert (folder / LOCK).exists(), "the file is left behind, the lock is not"
    with open_store(folder, "key", {}) as run:
        assert run.resumed
        assert (folder / LOCK).read_text() == f"{os.getpid()}\n"
        assert list(run.journal().done) == ["a"]
        run.finish()
    assert names(folder) == [MANIFEST]


def test_the_same_process_cannot_open_it_twice(tmp_path):
    with open_store(tmp_path, "key", ABOUT) as run:
        with pytest.raises(DataError, match=f"process {os.getpid()}"):
            open_store(tmp_path, "key", ABOUT).__enter__()
        assert (tmp_path / LOCK).exists()
        run.finish()


def test_a_lock_that_its_owner_takes_away_at_the_same_moment_is_no_lock(tmp_path, monkeypatch):
    """Between our opening the file and locking it, its owner may end, remove it, and a third may make a new one."""
    import fcntl

    calls = []

    def flock(stream, how):
        calls.append(os.fstat(stream.fileno()).st_ino)
        if len(calls) == 1:
            (tmp_path / LOCK).unlink()
        return real(stream, how)

    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with open_store(tmp_path, "key", ABOUT):
        assert len(calls) == 2
        assert (tmp_path / LOCK).stat().st_ino == calls[1]


def test_a_run_that_came_while_we_waited_for_the_lock_is_seen(tmp_path, monkeypatch):
    @contextmanager
    def locked(folder):
        write_manifest(folder, ABOUT, "theirs", finished=True)
        yield

    monkeypatch.setattr(store, "_locked", locked)
    with pytest.raises(DataError, match="holds the results of another run"):
        open_store(tmp_path / "run", "ours", ABOUT).__enter__()
    assert read_manifest(tmp_path / "run")["fingerprint"] == "theirs"


# --- what is damaged --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"fingerprint": 3, "finished": true}',
        b'{"fingerprint": "key", "finished": "yes"}',
        b'{"fingerprint": "key"}',
    ],
)
def test_a_damaged_manifest_is_refused_in_words(tmp_path, content):
    (tmp_path / MANIFEST).write_bytes(content)
    what = r"run\.json: damaged, or of another version: start again in a new folder"
    with pytest.raises(DataError, match=what):
        read_manifest(tmp_path)
    with pytest.raises(DataError, match=what):
        open_store(tmp_path, "key", ABOUT).__enter__()
    assert (tmp_path / MANIFEST).read_bytes() == content
    with open_store(tmp_path, "key", ABOUT, overwrite=True) as run:
        assert not run.resumed
        run.finish()
    assert read_manifest(tmp_path)["finished"] is True


def test_a_folder_without_a_manifest_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"no run\.json in it: name a folder that handlens wrote"):
        read_manifest(tmp_path)
    for place in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(DataError, match="no such folder"):
            read_manifest(place)


@pytest.mark.parametrize(
    "garbage", ["garbage", "5", "[]", '["b", 7]', "{}", "", "null", '["b"', "\x00", '[["b"], "c"]']
)
def test_a_damaged_journal_is_used_up_to_the_damage(tmp_path, garbage):
    journal = Journal(tmp_path / "a.jsonl")
    for id in "abc":
        journal.add(id, ["1 1"])
    journal.close()
    lines = journal.path.read_text().splitlines()
    journal.path.write_text("\n".join([lines[0], garbage, *lines[2:]]) + "\n")
    again = Journal(tmp_path / "a.jsonl")
    assert again.done == {"a": ("1 1",)}
    again.add("d", ["2 2", "3"])
    again.close()
    assert [json.loads(line) for line in journal.path.read_text().splitlines()] == [["a", "1 1"], ["d", "2 2", "3"]]


def test_a_line_that_was_cut_off_is_dropped(tmp_path):
    journal = Journal(tmp_path / "a.jsonl")
    journal.add("a", ["1 1"])
    journal.add("b", ["2 2"])
    journal.close()
    whole = journal.path.read_bytes()
    for size in range(len(whole)):
        journal.path.write_bytes(whole[:size])
        assert list(Journal(journal.path).done) == (["a"] if size >= whole.index(b"\n") + 1 else [])
    journal.path.write_bytes(b"\xff\xfe\x00" * 9)
    assert Journal(journal.path).done == {}


def test_nothing_is_written_before_the_first_item_and_all_is_there_after_each(tmp_path):
    journal = Journal(tmp_path / "deep" / "a.jsonl")
    assert not (tmp_path / "deep").exists()
    journal.close()
    for number, id in enumerate(["a", "a b", 'quote"', "Übung", "line\nbreak\u2028", ""], 1):
        journal.add(id, [id, ""])
        assert len(Journal(journal.path).done) == number
        assert Journal(journal.path).done[id] == (id, "")
    journal.close()


# --- checkpoints ------------------------------------------------------------------------------------------------------

HOSTILE = [
    "..", ".", "", "/etc/passwd", "../../outside", "a/b", "a\\b", "nul\0byte", "new\nline", "-rf", "~", "$HOME",
    "x" * 5000, "ä" * 400, "漢" * 400, "\U0001d400" * 400, "con", "answers.jsonl", "a:b", "a*?", ".hidden", "forged/12",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_checkpoints_stay_in_the_folder_whatever_a_case_is_called(tmp_path, name):
    with open_store(tmp_path / "run", "key", ABOUT) as run:
        run.arrays(name).save("tile-0-0", np.arange(5))
        files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix == ".npy"]
        assert [path.parent.parent for path in files] == [tmp_path / "run" / UNFINISHED]
        assert np.array_equal(run.arrays(name).load("tile-0-0"), np.arange(5))
        keep(run, name)
        assert list(run.journal().done) == [name]
        run.arrays(name).remove()
        assert run.arrays(name).load("tile-0-0") is None
        run.finish()
    assert names(tmp_path) == ["run"]
    assert names(tmp_path / "run") == [MANIFEST]


@given(st.sets(st.text(max_size=80).filter(lambda text: text.isprintable()), max_size=9))
def test_checkpoints_of_different_cases_do_not_meet(ids):
    places = {store._safe(id) for id in ids}
    assert len(places) == len(ids)
    assert all(len(os.fsencode(place)) <= 255 and "/" not in place and place not in ("", ".", "..") for place in places)


def test_names_that_differ_in_odd_letters_alone_are_told_apart():
    names = ["a/b", "a_b", "a.b", "a b", "A_B", "x" * 100, "x" * 101]
    assert len({store._safe(name).lower() for name in names}) == len(names)


def test_arrays_that_cannot_be_read_count_as_absent(tmp_path):
    with open_store(tmp_path, "key", ABOUT) as run:
        arrays = run.arrays("0")
        assert arrays.load("map") is None
        assert not arrays.has("map")
        arrays.save("map", np.eye(3, dtype=np.float32))
        assert arrays.has("map")
        (file,) = arrays.folder.iterdir()
        whole = file.read_bytes()
        for damaged in (b"", b"nonsense", whole[:-5], whole[:40]):
            file.write_bytes(damaged)
            assert arrays.load("map") is None
        np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
        assert arrays.load("map") is None, "pickles are never loaded"


def test_finished_cases_leave_no_empty_folders(tmp_path):
    with open_store(tmp_path, "key", ABOUT) as run:
        run.arrays("0").save("map", np.eye(3))
        run.arrays("1").save("map", np.eye(3))
        run.arrays("0").remove()
        assert len(names(tmp_path / UNFINISHED)) == 1
        run.arrays("1").remove()
        run.arrays("1").remove()
        assert not (tmp_path / UNFINISHED).exists()
        run.finish()


# --- fingerprints -----------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data" / "im").mkdir(parents=True)
    (tmp_path / "data" / "im" / "0.png").write_bytes(b"one")
    (tmp_path / "data" / "labels.csv").write_bytes(b"two")
    return tmp_path / "data"


def test_a_fingerprint_changes_with_words_names_sizes_and_times(data, tmp_path):
    out = tmp_path / "out"

    def key(*words, folder=data):
        return fingerprint_of(words, folder, without=out)

    first = key("a", "b")
    assert key("a", "b") == first
    assert key("a", "c") != first
    image = data / "im" / "0.png"
    status = image.stat()
    os.utime(image, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert key("a", "b") != first
    os.utime(image, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert key("a", "b") == first
    image.rename(data / "im" / "1.png")
    assert key("a", "b") != first
    (data / "im" / "1.png").rename(image)
    (data / "im" / "2.png").write_bytes(b"")
    assert key("a", "b") != first
    (data / "im" / "2.png").unlink()
    assert key("a", "b") == first
    assert key(folder=image) != key(folder=data / "labels.csv")


def test_the_own_folder_may_lie_inside(data):
    before = fingerprint_of([], data, without=data / "out")
    (data / "out").mkdir()
    (data / "out" / "submission.csv").write_text("x")
    assert fingerprint_of([], data, without=data / "out") == before
    assert fingerprint_of([], data, without=data / "other") != before


def test_links_are_followed_and_may_go_in_circles_or_nowhere(data, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").write_bytes(b"one")
    (data / "link").symlink_to(tmp_path / "elsewhere")
    (data / "loop").symlink_to(data)
    (data / "broken.png").symlink_to(tmp_path / "nowhere")
    before = fingerprint_of([], data, without=tmp_path / "out")
    assert fingerprint_of([], data, without=tmp_path / "out") == before
    (tmp_path / "elsewhere" / "a.png").write_bytes(b"more")
    assert fingerprint_of([], data, without=tmp_path / "out") != before


def test_names_that_are_no_text_have_a_fingerprint(data, tmp_path):
    (Path(os.fsdecode(os.fsencode(data) + b"/\xff.png"))).write_bytes(b"x")
    assert fingerprint_of([], data, without=tmp_path / "out")
