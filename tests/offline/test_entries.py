import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from handlens import pipeline, registry
from handlens.cli import cli
from handlens.errors import DataError, HandlensError
from handlens.offline import entries
from handlens.offline.entries import EntryLimits, run_entry
from handlens.sandbox import containers
from handlens.types import no_progress

NOSY = """
import json, os, socket
from pathlib import Path
found = {}
try:
    socket.create_connection(("192.0.2.1", 80), timeout=3)
    found["network"] = True
except OSError:
    found["network"] = False
found["interfaces"] = sorted(name for _, name in socket.if_nameindex())
data = next(Path("/kaggle/input/data").iterdir()).parent
found["data"] = sorted(path.name for path in data.iterdir())
found["truth"] = [str(path) for path in Path("/kaggle").rglob("*truth*") if "site-packages" not in str(path)]
try:
    (data / "test" / "new.txt").write_text("x")
    found["writes data"] = True
except OSError:
    found["writes data"] = False
found["home"] = sorted(os.listdir(os.environ["HOME"]))
found["secret"] = "SECRET" in os.environ
found["hidden"] = os.path.exists(HIDDEN)
found["processes"] = len([name for name in os.listdir("/proc") if name.isdigit()])
Path("submission.csv").write_text(json.dumps(found))
"""


def notebook(path, *cells):
    page = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    for number, text in enumerate(cells):
        cell = {"cell_type": "code", "id": str(number), "metadata": {}, "source": text, "execution_count": None}
        page["cells"].append({**cell, "outputs": []})
    path.write_text(json.dumps(page))
    return path


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hidden") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=2, cases=2, size=96)
    return folder


def engine_or_skip(name):
    try:
        return containers.find_engine(name)
    except HandlensError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["bubblewrap", "namespaces"])
def test_an_entry_sees_the_data_alone(engine, hidden, image, tmp_path, monkeypatch):
    engine_or_skip(engine)
    monkeypatch.setenv("SECRET", "1")
    entry = notebook(tmp_path / "nosy.ipynb", f"HIDDEN = {str(hidden)!r}", NOSY)
    found = run_entry(entry, hidden, tmp_path / "out", engine=engine, image=str(image), limits=EntryLimits(300.0))
    assert (found.verdict, found.why) == ("done", "")
    said = json.loads((tmp_path / "out" / "submission.csv").read_text())
    assert said.pop("processes") < 12
    assert said.pop("interfaces") == ["lo"]
    assert said.pop("data") == ["test", "train"]
    assert said == {
        "network": False, "truth": [], "writes data": False, "home": [], "secret": False, "hidden": False,
    } or said["home"] == [".ipython"]  # the kernel makes that itself  # fmt: skip
    assert not said["hidden"]
    assert not said["network"]
    assert not said["writes data"]
    assert not said["truth"]
    assert json.loads((tmp_path / "out" / "entry.json").read_text())["engine"] == engine
    assert (tmp_path / "out" / "executed.ipynb").exists()


@pytest.mark.slow
def test_a_bundle_is_installed_and_solves_without_a_network(make, hidden, image, tmp_path):
    """Fresh environment, no network, from the bundle alone: a valid and scored submission."""
    engine_or_skip(None)
    words = ["run-entry", make("cells"), "--data", hidden, "-o", tmp_path / "out", "--limit", "10m", "--json", "-q"]
    words += ["--notebook", "03_infer_submit.ipynb", "--image", image]
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, (tmp_path / "out" / "log.txt").read_text()[-3000:]
    page = json.loads(result.stdout)
    assert page["verdict"] == "done"
    assert page["problems"] == []
    assert page["score"] > 0.5
    book = json.loads((tmp_path / "out" / "executed.ipynb").read_text())
    kinds = {kind for cell in book["cells"] for output in cell.get("outputs", ()) for kind in output.get("data", ())}
    assert {"text/html"} <= kinds  # pictures of predictions
    shown = json.dumps(book)
    assert "has not seen" in shown
    assert "submission.csv is valid" in shown


@pytest.mark.slow
def test_a_training_notebook_goes_on_with_what_an_earlier_run_kept(make, image, tmp_path):
    """Executed on a copy of the data, without a network: figures that were matched are not matched again."""
    engine_or_skip(None)
    challenge = registry.challenge("forgery")
    data, entry = tmp_path / "data", shutil.copytree(make("forgery"), tmp_path / "handlens-forgery")
    pipeline.sample(challenge, data, seed=4, cases=3, size=200)
    shutil.rmtree(data / "truth", ignore_errors=True)  # as an entry sees it

    def stop(done, _total, _words=""):
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.train(challenge, data, entry / "run", progress=stop)
    (kept,) = (entry / "run").rglob("matches-*.jsonl")
    before = kept.read_text().splitlines()
    assert len(before) >= 2
    book = json.loads((entry / "notebooks" / "02_train.ipynb").read_text())
    place = next(n for n, cell in enumerate(book["cells"]) if "picking up" in "".join(cell["source"]))
    watched = "".join(book["cells"][place]["source"]).replace("    pick_up(earlier, run, data)\n", WATCH)
    assert WATCH in watched
    book["cells"][place]["source"] = watched
    (entry / "notebooks" / "02_train.ipynb").write_text(json.dumps(book))
    found = run_entry(
        entry, data, tmp_path / "out", notebook="02_train.ipynb", image=str(image), limits=EntryLimits(900.0)
    )
    assert found.verdict == "no submission", (found.why, (tmp_path / "out" / "log.txt").read_text()[-3000:])
    executed = json.loads((tmp_path / "out" / "executed.ipynb").read_text())
    shown = "".join("".join(output.get("text", "")) for cell in executed["cells"] for output in cell.get("outputs", ()))
    assert f"KEPT {len(before)}" in shown  # before the training goes on
    assert re.search(r"oF1 of forged figures +[01]\.", shown)  # what it measured in the end


WATCH = """    pick_up(earlier, run, data)
    print("KEPT", sum(len(path.read_text().splitlines()) for path in run.rglob("matches-*.jsonl")))
"""


def watch(tmp_path, code, **limits):
    return entries._watch([sys.executable, "-c", code], tmp_path / "log", EntryLimits(**limits), no_progress)


def test_an_entry_that_takes_too_long_is_ended(tmp_path):
    verdict, why, _, _ = watch(tmp_path, "import time; time.sleep(600)", seconds=0.6)
    assert verdict == "time"
    assert "0.6 s" in why


def test_an_entry_that_takes_too_much_memory_is_ended_with_all_that_it_started(tmp_path):
    child = "b = bytearray(300_000_000); import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    verdict, why, _, peak = watch(tmp_path, code, seconds=120.0, memory_mib=128)
    assert verdict == "memory"
    assert "128 are allowed" in why
    assert peak > 128


def test_an_entry_that_fails_says_its_last_line(tmp_path):
    verdict, why, _, _ = watch(tmp_path, "raise SystemExit('no such model')", seconds=60.0)
    assert (verdict, why) == ("failed", "no such model")


def test_labels_beside_the_test_part_are_refused(tmp_path, hidden, monkeypatch):
    data = shutil.copytree(hidden, tmp_path / "data")
    shutil.copytree(data / "truth", data / "test", dirs_exist_ok=True)
    shutil.rmtree(data / "truth")
    entry = notebook(tmp_path / "a.ipynb", "1")
    with pytest.raises(DataError, match="lie beside it"):
        run_entry(entry, data, tmp_path / "out", challenge=registry.challenge("cells"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "message"), [("a.txt", "neither a bundle"), ("nowhere.ipynb", "no such bundle")])
def test_what_is_no_entry_is_refused(tmp_path, hidden, name, message):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match=message):
        run_entry(tmp_path / name, hidden, tmp_path / "out")


def test_the_command_for_docker_has_no_network_and_data_to_read_only():
    container = containers.Container(
        {"/kaggle/input/data/test": Path("/hidden/test")},
        {"/kaggle/working": Path("/w")},
        {"A": "b"},
        "/kaggle/working",
        "contest:1",
        512,
    )
    words = containers.command_in(container, ["python", "-c", "1"], "docker")
    assert words[-4:] == ["contest:1", "python", "-c", "1"]
    text = " ".join(words)
    for part in (
        "--network none",
        "--read-only",
        "--memory 512m",
        "/hidden/test:/kaggle/input/data/test:ro",
        "--env A=b",
    ):
        assert part in text


def test_without_any_engine_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(containers.shutil, "which", lambda name: None)
    with pytest.raises(HandlensError, match="install bubblewrap"):
        containers.find_engine()
