"""Commands killed at random moments and started again: the same final bytes, nothing lost, nothing left behind.

python bench/kills.py --kills 200 --out /tmp/kills     every third kill is SIGTERM, the others kill -9
python bench/kills.py --kills 6 --command sample       one command only; `bundle` is run only where it is named

Each command first runs undisturbed: its files are what every killed run must end with. They are kept, so the same
folder serves for the next part of a campaign. Ctrl-C counts the runs that were killed and finished so far.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

COMMANDS: dict[str, list[str]] = {
    "sample": ["sample", "cells", "{out}", "--cases", "2", "--size", "200"],
    "solve": ["solve", "cells", "{data}", "-o", "{out}"],
    "predict": ["predict", "{model}", "{data}", "-o", "{out}"],
    "inspect": ["inspect", "{figures}", "-o", "{out}"],
    "train": [
        *("train", "cells", "{data}", "-o", "{out}", "--folds", "2"),
        *("--set", "steps=3", "--set", "batch=1", "--set", "crop=64"),
        *("--set", "memory_format=contiguous"),  # otherwise the faster one is measured, and the last bits depend on it
    ],
    "demo": ["demo", "-o", "{out}"],
    "encode": ["encode", "cells", "{masks}", "--data", "{data}", "-o", "{out}/submission.csv"],
    "decode": ["decode", "cells", "{solved}/submission.csv", "--data", "{data}", "-o", "{out}"],
    "report": ["report", "{out}"],
    "bundle": ["bundle", "cells", "-o", "{out}"],
}
"""Tiny inputs; `{data}`, `{model}`, `{figures}`, `{solved}` and `{masks}` are made once."""

NEED_A_RUN = ("report",)
"""Commands that add to the folder of a finished run: `{out}` begins as a copy of one."""

ON_REQUEST = ("bundle",)
"""Commands that take minutes: run only where they are named."""

MAKES_ITS_DATA = ("demo",)
"""Commands whose runs are about files that they wrote themselves, at another time: so are their fingerprints."""

TIMES = {
    *("seconds", "seconds a case", "seconds of a step", "seconds_per_step", "waiting", "share waiting for data"),
    *("peak memory", "peak_mib", "command", "data", "folder", "speed"),
}
"""Fields of JSON files that tell how long something took, or in which folder: all others must be equal."""

TIMED_LINES = ("handlens train", "seconds per step", "channels last")
"""Lines of a model card that do."""

MOST_STARTS = 40
"""A run that was killed so often is left in peace for its last start."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("kills"))
    parser.add_argument("--command", action="append", choices=COMMANDS, help="may be given several times; default: all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    places = prepare(options.out.resolve())
    names = options.command or [name for name in COMMANDS if name not in ON_REQUEST]
    print(f"{'command':>8}  kills  runs  other bytes  lost  left behind  failed", flush=True)
    wrong = 0
    for index, name in enumerate(names):
        share = options.kills // len(names) + (index < options.kills % len(names))
        counts = campaign(name, places, share, random.Random(f"{options.seed} {name}"))
        print("{:>8}  {:5}  {:4}  {:11}  {:4}  {:11}  {:6}".format(name, *counts), flush=True)
        wrong += sum(counts[2:])
    sys.exit(wrong > 0)


def prepare(out: Path) -> dict[str, Path]:
    """The inputs of all commands."""
    from handlens.challenges.cells.options import INCLUDED_MODEL

    solved, masks = out / "solved", out / "masks"
    places = {"root": out, "data": out / "data", "figures": out / "figures", "model": INCLUDED_MODEL}
    places |= {"solved": solved, "masks": masks}
    for name, challenge, size in (("data", "cells", "96"), ("figures", "forgery", "160")):
        if not places[name].exists():
            handlens("sample", challenge, str(places[name]), "--cases", "2", "--size", size, place=out).wait()
    if not solved.exists():
        handlens("solve", "cells", str(places["data"]), "-o", str(solved), place=out).wait()
        submission = str(solved / "submission.csv")
        handlens("decode", "cells", submission, "--data", str(places["data"]), "-o", str(masks), place=out).wait()
    return places


def handlens(*words: str, place: Path) -> subprocess.Popen[bytes]:
    """The command in a session of its own, so that what it starts can be found; its temporary files in `place`."""
    temporary = place / "temporary"
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "handlens", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )


def campaign(name: str, places: dict[str, Path], kills: int, dice: random.Random) -> tuple[int, ...]:
    """Kills, runs, and what went wrong: runs with other bytes, files lost, files left behind, runs that failed."""
    root = places["root"]
    besides = {"fingerprint"} if name in MAKES_ITS_DATA else set()
    duration, expected = undisturbed(name, places, besides)
    done = counted = runs = other = lost = left = failed = 0
    while done < kills:
        out = begin(name, places, root / f"{name}-killed")
        before = entries(root)
        process = None
        try:
            for start in range(MOST_STARTS):
                process = handlens(*words(name, places, out), place=root)
                last = start == MOST_STARTS - 1 or done >= kills
                if last or not kill(process, dice, duration):
                    break
                done += 1
            status = process.wait()
        except KeyboardInterrupt:
            if process is not None:
                process.kill()
                process.wait()
            break
        runs, counted = runs + 1, done
        found = digests(out, besides)
        failed += status != 0 and found != expected  # what was whole when it was killed is refused, and kept
        different = [file for file, digest in expected.items() if found.get(file, digest) != digest]
        other += bool(different)
        lost += len(expected.keys() - found.keys())
        left += len(found.keys() - expected.keys()) + len(entries(root) - before - {out.name})
        left += alive(process.pid)
        print(
            f"{name}: {done} of {kills} kills, {other} other bytes, {lost} lost, {left} left {different}",
            file=sys.stderr,
        )
    return counted, runs, other, lost, left, failed


def undisturbed(name: str, places: dict[str, Path], besides: set[str]) -> tuple[float, dict[str, str]]:
    """Seconds and files of a run that nobody killed; of an earlier part of the campaign where there is one."""
    folder = places["root"] / f"{name}-undisturbed"
    record = folder.with_suffix(".json")
    if not record.exists():
        begin(name, places, folder)
        begun = time.monotonic()
        if handlens(*words(name, places, folder), place=places["root"]).wait():
            raise SystemExit(f"{name} fails undisturbed")
        record.write_text(json.dumps(time.monotonic() - begun))
    return float(json.loads(record.read_text())), digests(folder, besides)


def begin(name: str, places: dict[str, Path], out: Path) -> Path:
    """The folder that a command is started with: none, or a run that it adds to."""
    shutil.rmtree(out, ignore_errors=True)
    if name in NEED_A_RUN:
        shutil.copytree(places["solved"], out)
        for page in out.glob("report*"):
            shutil.rmtree(page) if page.is_dir() else page.unlink()
    return out


def entries(root: Path) -> set[str]:
    """What lies beside the results, and where the system keeps temporary files."""
    return {*os.listdir(root), *(f"temporary/{name}" for name in os.listdir(root / "temporary"))}


def words(name: str, places: dict[str, Path], out: Path) -> list[str]:
    return [word.format(out=out, **places) for word in COMMANDS[name]]


def kill(process: subprocess.Popen[bytes], dice: random.Random, duration: float) -> bool:
    """End it somewhere within its usual time; False where it was done before."""
    try:
        process.wait(dice.uniform(0.05, 1.0) * duration)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM if dice.random() < 1 / 3 else signal.SIGKILL)
        try:
            return process.wait(60) != 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True
    return False


def alive(session: int) -> int:
    """Processes of a session that still run a little later."""
    for _ in range(50):
        found = 0
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = place.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found += int(fields[3]) == session and fields[0] != "Z"
        if not found:
            return 0
        time.sleep(0.1)
    return found


def digests(folder: Path, besides: set[str]) -> dict[str, str]:
    """Every file by its path within, without times and these fields; of pages and networks only that they are there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            there = path.suffix in (".onnx", ".html")
            found[name] = "there" if there else hashlib.sha256(without_times_of(path, TIMES | besides)).hexdigest()
    return found


def without_times_of(path: Path, fields: set[str]) -> bytes:
    """The content that must be equal."""
    if path.suffix == ".json":
        return json.dumps(without_times(json.loads(path.read_bytes()), fields), sort_keys=True).encode()
    if path.suffix == ".jsonl":
        lines = [without_times(json.loads(line), fields) for line in path.read_text().splitlines()]
        return json.dumps(lines, sort_keys=True).encode()
    if path.suffix == ".md":
        return "".join(line for line in open(path) if not any(words in line for words in TIMED_LINES)).encode()
    if path.suffix == ".pt":  # a zip archive, whose folder has the name of the file it was written to first
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist(), key=lambda name: name.partition("/")[2])
            return b"".join(name.partition("/")[2].encode() + archive.read(name) for name in names)
    return path.read_bytes()


def without_times(value: Any, fields: set[str]) -> Any:
    """Without fields that are times or named here, charts of them, and rows of tables that begin with their names."""
    if isinstance(value, dict):
        if value.get("y") == "seconds per step":
            return {}
        return {name: without_times(each, fields) for name, each in value.items() if name not in fields}
    if isinstance(value, list):
        return (
            []
            if value and isinstance(value[0], str) and value[0] in fields
            else [without_times(each, fields) for each in value]
        )
    return value


if __name__ == "__main__":
    main()
