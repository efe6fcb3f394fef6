"""A fuzzing campaign: every mutant is read in a forked worker that may crash or hang, counted, and judged.

Mutant number n of a kind depends on the seed, the kind and n alone, so any of them can be made again. Counts lie in
memory that worker and parent share: what a worker did before it died is not lost. After every batch the state is
written, and the same command goes on from there.
"""

import fcntl
import json
import mmap
import os
import random
import resource
import shutil
import signal
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.kinds import KINDS, REFUSALS, Kind
from fuzz.mutators import mutated
from handlens.io.files import write_text

HANG_SECONDS = 10
"""Processor time for one mutant; a file of a few hundred bytes takes a thousandth of a second."""

WAIT_SECONDS = 300
"""Time on the clock for one mutant, for a worker that sleeps; the machine may be busy."""

MOST_BYTES = 6 * 2**30
"""Address space of a worker: what asks for more has asked for too much, and gets a MemoryError."""

MOST_KEPT = 2000
"""Files of failures that are kept: the others are counted, and can be made again."""

COUNTS = ("inputs", "accepted", "refused", "tracebacks", "crashes", "hangs", "wrong accepts", "wrong refusals")
WORST = ("worst MB", "worst ms")
CURRENT, FIRST_WORST = len(COUNTS), len(COUNTS) + 1


@dataclass(frozen=True)
class Campaign:
    """How much is tried, and where the state and the failures are kept."""

    out: Path
    inputs: int
    seed: int = 0
    batch: int = 2000
    kinds: tuple[str, ...] = tuple(KINDS)
    hang_seconds: float = HANG_SECONDS

    @property
    def state_file(self) -> Path:
        return self.out / "state.json"

    def quotas(self):
        """Inputs of each kind, by their shares."""
        total = sum(KINDS[name].share for name in self.kinds)
        quotas = {name: self.inputs * KINDS[name].share // total for name in self.kinds}
        quotas[self.kinds[0]] += self.inputs - sum(quotas.values())
        return quotas


def make(kind: Kind, name: str, seed: int, number: int, seeds: list[bytes]) -> bytes:
    """The bytes of one mutant."""
    return mutated(seeds, kind.mutators, random.Random(f"{seed} {name} {number}"))


def run(campaign: Campaign, tell=lambda _words: None) -> dict[str, dict[str, float]]:
    """All inputs of a campaign that are left; the table of counts by kind."""
    campaign.out.mkdir(parents=True, exist_ok=True)
    with (campaign.out / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # two would write to one scratch folder, and take each other's mutants for their own
            raise SystemExit(f"{campaign.out}: a campaign is running here") from None
        return _run(campaign, tell)


def _run(campaign, tell):
    state = _read_state(campaign)
    _import_libraries()
    scratch = campaign.out / "scratch"
    quotas = campaign.quotas()
    while left := {name: quotas[name] - int(state[name]["inputs"]) for name in campaign.kinds}:
        left = {name: count for name, count in left.items() if count > 0}
        if not left:
            break
        for name, count in left.items():
            share = campaign.batch * KINDS[name].share // 4 or 1
            _run_batch(campaign, name, state[name], min(count, share, campaign.batch), scratch)
            write_text(campaign.state_file, json.dumps({"seed": campaign.seed, "kinds": state}, indent=1))
        tell(f"{sum(int(counts['inputs']) for counts in state.values()):,} of {campaign.inputs:,}")
    shutil.rmtree(scratch, ignore_errors=True)
    return {name: state[name] for name in campaign.kinds}


def format_table(state) -> str:
    """The counts of every kind and their sum, for people."""
    columns = (*COUNTS, *WORST)
    total = {name: sum(counts[name] for counts in state.values()) for name in COUNTS}
    total |= {name: max(counts[name] for counts in state.values()) for name in WORST}
    lines = [["kind", *columns]]
    lines += [
        [name, *(f"{counts[column]:,.0f}" for column in columns)] for name, counts in {**state, "all": total}.items()
    ]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def failures(state) -> int:
    return int(sum(counts[name] for counts in state.values() for name in COUNTS[3:]))


def _read_state(campaign):
    empty = {name: dict.fromkeys((*COUNTS, *WORST), 0) for name in campaign.kinds}
    if not campaign.state_file.exists():
        return empty
    page = json.loads(campaign.state_file.read_text())
    if page["seed"] != campaign.seed:
        raise SystemExit(f"{campaign.out}: another campaign's (seed {page['seed']}): name a new folder")
    return empty | page["kinds"]


def _import_libraries():
    """What workers need, once: a worker that dies is then replaced in no time."""
    import cv2
    import onnx  # noqa: F401
    import PIL.Image
    import pypdfium2  # noqa: F401
    import tifffile  # noqa: F401
    import zarr  # noqa: F401

    from handlens.io import documents, images, npy, submissions, volumes  # noqa: F401
    from handlens.sandbox import onnxfile  # noqa: F401

    PIL.Image.init()
    cv2.setNumThreads(1)


def _run_batch(campaign, name, counts, size, scratch):
    """So many mutants; a worker that dies or hangs is counted, and the next goes on behind that mutant."""
    seeds = KINDS[name].seeds()
    shared = np.frombuffer(mmap.mmap(-1, 8 * 16), np.float64)
    start = int(counts["inputs"])
    stop = start + size
    while start < stop:
        shared[:] = 0
        shared[CURRENT] = start
        scratch.mkdir(exist_ok=True)
        child = os.fork()
        if child == 0:
            _be_worker(campaign, name, seeds, range(start, stop), shared, scratch)
        ended = _watch(child, shared, campaign.hang_seconds)
        start = int(shared[CURRENT]) + (1 if ended else 0)
        if ended:
            shared[0] += 1
            shared[COUNTS.index("hangs" if ended == "hang" else "crashes")] += 1
            _keep(campaign, name, start - 1, make(KINDS[name], name, campaign.seed, start - 1, seeds), ended)
        for index, column in enumerate(COUNTS):
            counts[column] += int(shared[index])
        for index, column in enumerate(WORST):
            counts[column] = max(counts[column], round(float(shared[FIRST_WORST + index]), 1))
        shutil.rmtree(scratch, ignore_errors=True)


def _watch(child, shared, hang_seconds):
    """Wait for a worker; empty where it did all, otherwise what became of it."""
    current, since, spent = -1.0, time.monotonic(), 0.0
    pause = 0.002
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "" if status == 0 else f"died of {os.waitstatus_to_exitcode(status)}"
        now = float(shared[CURRENT])
        if now != current:
            current, since, spent = now, time.monotonic(), _processor_time(child)
        elif _processor_time(child) - spent > hang_seconds or time.monotonic() - since > WAIT_SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
        time.sleep(pause)
        pause = min(0.1, 1.5 * pause)


def _processor_time(process):
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def _be_worker(campaign, name, seeds, numbers, shared, scratch):
    """Read one mutant after the other; never comes back."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # libraries print what they find
            os.dup2(quiet, stream)
        warnings.simplefilter("ignore")
        kind = KINDS[name]
        for number in numbers:
            shared[CURRENT] = number
            data = make(kind, name, campaign.seed, number, seeds)
            begun = time.process_time()
            verdict, why = _try(kind, data, scratch)
            shared[FIRST_WORST + 1] = max(shared[FIRST_WORST + 1], 1000 * (time.process_time() - begun))
            shared[FIRST_WORST] = max(shared[FIRST_WORST], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
            shared[COUNTS.index(verdict)] += 1
            if verdict.startswith("wrong"):
                shared[COUNTS.index("accepted" if verdict == "wrong accepts" else "refused")] += 1
            shared[0] += 1
            if why:
                _keep(campaign, name, number, data, why)
        shared[CURRENT] = numbers.stop
        status = 0
    finally:
        os._exit(status)


def _try(kind, data, scratch):
    """What became of one mutant, and more about it where that is a fault of ours."""
    try:
        found = kind.read(data, scratch)
    except REFUSALS as error:
        said = str(error)
        if len(said) > 5000 or not all(line.isprintable() for line in said.split("\n")):
            return "tracebacks", f"a message that steers a terminal or is too long: {said[:200]!r}"
        return ("wrong refusals", f"refused, but sound: {said[:300]}") if kind.sound(data) else ("refused", "")
    except BaseException:
        return "tracebacks", traceback.format_exc()
    finally:
        if (scratch / "volume.zarr").is_dir():
            shutil.rmtree(scratch / "volume.zarr")
    wrong = kind.wrong(data, found)
    return ("wrong accepts", wrong) if wrong else ("accepted", "")


def _keep(campaign, name, number, data, why):
    """The mutant and what happened, for whoever mends it."""
    folder = campaign.out / "failures"
    folder.mkdir(exist_ok=True)
    if sum(1 for _ in folder.iterdir()) > MOST_KEPT:
        return
    stem = f"{name.replace(' ', '-')}-{number}"
    (folder / f"{stem}.bin").write_bytes(data)
    (folder / f"{stem}.txt").write_text(why + "\n")
