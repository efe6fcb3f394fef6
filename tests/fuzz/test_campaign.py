"""A few thousand mutants of every kind, and that the campaign would notice what it looks for."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import campaign, kinds, mutators

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "fuzz.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked, and their time is read from /proc")


def run_script(*options, code=""):
    """The script as a program: it forks, which a process with threads should not."""
    command = [sys.executable, "-c", code] if code else [sys.executable, str(SCRIPT)]
    return subprocess.run([*command, *map(str, options)], capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_a_few_thousand_mutants(tmp_path):
    run = run_script("--inputs", 5000, "--out", tmp_path, "--seed", 3)
    found = (
        [path.read_text() for path in (tmp_path / "failures").glob("*.txt")] if (tmp_path / "failures").exists() else []
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:] + "\n".join(found[:5])
    state = json.loads((tmp_path / "state.json").read_text())["kinds"]
    assert sum(counts["inputs"] for counts in state.values()) == 5000
    for name, counts in state.items():
        assert 0 < counts["refused"] < counts["inputs"], name  # a judge that never sees an accept judges nothing
        assert counts["worst MB"] < 2000
    again = run_script("--inputs", 5000, "--out", tmp_path, "--seed", 3)
    assert again.stdout == run.stdout  # nothing is left to do


@pytest.mark.parametrize("name", kinds.KINDS)
def test_seeds_are_accepted_and_judged_sound(name, tmp_path):
    kind = kinds.KINDS[name]
    accepted = 0
    for number, seed in enumerate(kind.seeds()):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            found = kind.read(seed, folder)
        except kinds.REFUSALS:
            continue  # such as the ONNX file that names another
        assert kind.wrong(seed, found) == ""
        accepted += 1
    assert accepted >= max(1, len(kind.seeds()) - 1)


def test_mutants_can_be_made_again():
    for name, kind in kinds.KINDS.items():
        seeds = kind.seeds()
        first = [campaign.make(kind, name, 5, number, seeds) for number in range(20)]
        assert first == [campaign.make(kind, name, 5, number, seeds) for number in range(20)]
        assert len(set(first)) > 10


PLANTED = """
import os, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from fuzz import campaign, kinds
from handlens.errors import DataError, HandlensError

class Raw(HandlensError):
    def __str__(self): return "\\x1b[2J"

def read(data, folder):
    number = int(data)
    if number % 20 == 3: raise ValueError("planted")
    if number % 20 == 4: os.abort()
    if number % 20 == 5:
        while True: pass
    if number % 20 == 6: raise Raw("steers a terminal")
    if number % 2: raise DataError("refused")
    return number

made = {{"n": 0}}
kind = kinds.Kind(lambda: [b"0"], (), read, lambda data, found: "planted" if found % 20 == 8 else "", lambda data: int(data) % 20 == 7)
kinds.KINDS["planted"] = kind
campaign.make = lambda kind, name, seed, number, seeds: str(number).encode()
plan = campaign.Campaign(Path(sys.argv[1]), int(sys.argv[2]), batch=40, kinds=("planted",), hang_seconds=0.3)
print(campaign.format_table(campaign.run(plan)))
"""


def test_what_is_planted_is_found_and_a_stopped_campaign_goes_on(tmp_path):
    code = PLANTED.format(tests=str(Path(__file__).resolve().parents[1]))
    assert run_script(tmp_path, 30, code=code).returncode == 0
    run = run_script(tmp_path, 40, code=code)
    assert run.returncode == 0, run.stderr
    counts = json.loads((tmp_path / "state.json").read_text())["kinds"]["planted"]
    expected = {"inputs": 40, "tracebacks": 4, "crashes": 2, "hangs": 2, "wrong accepts": 2, "wrong refusals": 2}
    assert {name: counts[name] for name in expected} == expected
    assert counts["accepted"] + counts["refused"] == 40 - 4 - 2 - 2
    names = {path.stem for path in (tmp_path / "failures").glob("*.txt")}
    assert {"planted-3", "planted-4", "planted-5", "planted-6", "planted-7", "planted-8"} <= names
    assert "planted" in run.stdout
    assert run_script("--inputs", 10, "--out", tmp_path, "--seed", 9).returncode == 1  # another campaign's folder


def test_judges_notice_damage(tmp_path):
    """One byte of every packed or checked part is changed; a plain decoder says so."""
    import random

    from oracles import jpeg, png, tiff
    from oracles.strict import DamagedError

    picture = kinds.png_seeds()[0]
    with pytest.raises(DamagedError):
        png.decode(picture[:60] + bytes([picture[60] ^ 1]) + picture[61:])
    photograph = kinds.jpeg_seeds()[0]
    with pytest.raises(DamagedError):
        jpeg.check(photograph[: -len(photograph) // 8] + b"\xff\xd9")
    packed = kinds.tiff_seeds()[1]
    with pytest.raises(DamagedError):
        tiff.decode(packed[:-2] + bytes([packed[-2] ^ 1]) + packed[-1:])
    assert mutators.change_png(picture, random.Random(1)) != picture


def test_a_folder_has_one_campaign(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="a campaign is running here"):
            campaign.run(campaign.Campaign(tmp_path, 1, kinds=("pairs",)))
