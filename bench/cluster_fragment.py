"""One ink fragment as large as the largest of the contest on several workers: same bytes, memory of each, time.

python bench/cluster_fragment.py --work FOLDER           14830 x 9506 x 65 on four workers; with --turns 1 six minutes
python bench/cluster_fragment.py --work FOLDER --quick   a small one, to see that it works

The fragment is a synthetic one of 1024 x 1024 pixels over and over, as a Zarr of compressed chunks. Chunks that are
the same are one file with many names, so it takes 100 MB of disk; all of it is read, unpacked and predicted.
The cluster and this process alone answer it in turn. What is finished in FOLDER is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

UNIT, CHUNK = 1024, 128


def make_fragment(work: Path, shape: tuple[int, int], slices: int, share: float) -> Path:
    """FOLDER/fragment-...: surface_volume.zarr and mask.png, white in so large a share of the rows, in the middle."""
    import tifffile
    import zarr

    import handlens
    from handlens.io.images import write_png

    folder = work / f"fragment-{shape[0]}x{shape[1]}x{slices}-{share:g}"
    if folder.exists():
        return folder
    one, small, large = work / "one", work / "one.zarr", work / "making" / "surface_volume.zarr"
    if not one.exists():
        handlens.sample("ink", one, seed=7, cases=1, size=UNIT, width=UNIT, slices=slices)
    planes = [tifffile.imread(path) for path in sorted((one / "test" / "a" / "surface_volume").glob("*.tif"))]
    how = {"zarr_format": 2, "overwrite": True, "config": {"write_empty_chunks": True}}
    zarr.create_array(small, data=np.stack(planes), chunks=(slices, CHUNK, CHUNK), **how)
    shutil.rmtree(large.parent, ignore_errors=True)
    large.mkdir(parents=True)
    page = json.loads((small / ".zarray").read_text()) | {"shape": [slices, *shape]}
    (large / ".zarray").write_text(json.dumps(page))
    for row in range(-(-shape[0] // CHUNK)):
        for column in range(-(-shape[1] // CHUNK)):
            os.link(small / f"0.{row % 8}.{column % 8}", large / f"0.{row}.{column}")
    mask, top = np.zeros(shape, np.uint8), round(shape[0] * (1 - share) / 2)
    mask[top : shape[0] - top] = 255
    write_png(large.parent / "mask.png", mask)
    large.parent.rename(folder)
    return folder


def solve(fragment: Path, out: Path, turns: int, *more: str) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor, and the most memory in MiB, of `handlens solve` in its own process."""
    command = [sys.executable, "-m", "handlens", "solve", "ink", str(fragment), "-o", str(out)]
    command += ["--turns", str(turns), "--write", "none", "--no-report", *more]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def workers_of(tree: int) -> list[int]:
    """Processes that the process of a cluster started, and that have worked for a second."""
    import psutil

    return [each.pid for each in psutil.Process(tree).children(recursive=True) if sum(each.cpu_times()[:2]) > 1]


def describe(process: int) -> tuple[float, float]:
    """Processor seconds, and the most memory in MiB."""
    import psutil

    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return sum(psutil.Process(process).cpu_times()[:2]), peak / 1024


def main() -> None:
    from cluster import running_cluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--turns", type=int, choices=(1, 4), default=4)
    parser.add_argument("--share", type=float, default=1.0, help="of the rows that are in the mask")
    parser.add_argument("--without-alone", action="store_true", help="leave out the comparison with one process")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    shape = (1483, 950) if given.quick else (14830, 9506)
    given.work.mkdir(parents=True, exist_ok=True)
    fragment = make_fragment(given.work, shape, 65, given.share)
    megapixels = given.share * shape[0] * shape[1] / 1e6
    print(f"{shape[0]} x {shape[1]} x 65: {megapixels:.1f} megapixels in the mask, {megapixels * 0.13:.1f} GB unpacked")
    shared, alone = given.work / f"{fragment.name}-shared", given.work / f"{fragment.name}-alone"
    with running_cluster(given.workers) as (address, tree):
        clock, processor, peak = solve(fragment, shared, given.turns, "--cluster", address)
        print(f"{given.workers} workers: {clock:.0f} s by the clock")
        print(f"  client: {processor:.0f} s of processor, {peak:.0f} MiB")
        for number, process in enumerate(workers_of(tree), 1):
            print("  worker {}: {:.0f} s of processor, {:.0f} MiB".format(number, *describe(process)), flush=True)
    if given.without_alone:
        return
    clock, processor, peak = solve(fragment, alone, given.turns)
    print(f"one process: {clock:.0f} s by the clock, {processor:.0f} s of processor, {peak:.0f} MiB")
    same = (shared / "submission.csv").read_bytes() == (alone / "submission.csv").read_bytes()
    print(f"the same bytes: {'yes' if same else 'NO'} ({(alone / 'submission.csv').stat().st_size:,} bytes)")
    sys.exit(not same)


if __name__ == "__main__":
    main()
