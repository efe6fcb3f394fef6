"""What results cost and how fast they open: GeoJSON, pages, tiles; with the bars that they must keep.

    python bench/results.py           # all of it, a quarter of an hour; the largest picture has 8181 x 6330 pixels
    python bench/results.py --quick   # small sizes, to see that it works
    python bench/results.py --only out --shape 20000x20000   # one part alone; all files of a huge slide and fragment
    python bench/results.py --only out --shape 20000x20000 --challenges cells --network   # by the network, not by Otsu

Times of a browser need Playwright and chromium; without them those rows are left out, with a reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens import pipeline, registry
from handlens.report.page import Report, ShownCase, write_report
from handlens.report.pictures import PictureStore, draw_case
from handlens.views import CaseView, Layer

COST_CASES = {"cells": (4, 1000), "lesions": (60, 160), "forgery": (6, 512), "ink": (2, 256)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--challenges", default=",".join(COST_CASES), help="for out (cells, ink) and cost")
    parser.add_argument("--shape", help="height x width of the largest picture  [default: 8181x6330]")
    parser.add_argument("--network", action="store_true", help="cells of out are answered by the network, not by Otsu")
    given = parser.parse_args()
    quick, parts, names = given.quick, given.only.split(","), given.challenges.split(",")
    shape = (600, 500) if quick else (8181, 6330)
    if given.shape:
        height, width = map(int, given.shape.split("x"))
        shape = height, width
    print(f"{'what':58}  {'measured':>14}  bar")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "geojson" in parts:
            geojson(folder, 2_000 if quick else 50_000)
        for inline in (False, True) if "pages" in parts else ():
            many(folder / f"many{inline:d}", 100 if quick else 1000, inline=inline)
        if "pages" in parts:
            large(folder / "large", (1500, 2100) if quick else shape)
        for challenge in ("ink", "cells") if "out" in parts else ():
            if challenge in names:
                how = {"write": "all" if given.shape else None, "network": given.network}
                whole_out(folder / f"whole-{challenge}", challenge, shape, **how)
        for challenge in names if "cost" in parts else ():
            cost(folder / challenge, challenge, quick=quick)


PARTS = ("geojson", "pages", "out", "cost")


def row(what: str, measured: str, bar: str) -> None:
    print(f"{what:58}  {measured:>14}  {bar}", flush=True)


def geojson(folder: Path, count: int) -> None:
    """Nuclei of a made-up slide: disks on a grid."""
    from handlens.challenges.cells.files import write_geojson
    from handlens.challenges.cells.measurements import measure
    from handlens.masks.components import label_components
    from handlens.masks.outlines import smooth, trace
    from handlens.masks.rle import encode

    across = int(np.ceil(count**0.5))
    y, x = np.mgrid[-10:11, -10:11]
    disk = (x**2 + y**2) <= 64
    mask = np.tile(disk, (-(-count // across), across))
    objects = label_components(encode(mask, order="rows"), (mask.shape[0], mask.shape[1]))
    begun = time.process_time()
    write_geojson(folder / "nuclei.geojson", smooth(trace(objects)), measure(objects, None, mpp=None))
    seconds = time.process_time() - begun  # of the processor: other programs do not count
    row(f"GeoJSON of {objects.count:,} nuclei, traced, smoothed, written", f"{seconds:.1f} s", "10 s")


def many(folder: Path, count: int, *, inline: bool) -> None:
    """A page of small cases: how fast it opens, and how long a frame takes while it is scrolled.

    So many lie in a folder beside the page; a page with all of them inside is the worst that there can be.
    """
    random = np.random.default_rng(0)
    folder.mkdir()
    store = PictureStore(folder / "files", inline=inline)
    cases = []
    for number in range(count):
        pixels = random.integers(0, 255, (180, 240, 3), np.uint8)
        pixels = np.repeat(np.repeat(pixels[::12, ::12], 12, axis=0), 12, axis=1)[:180, :240]
        layer = Layer("image", (180, 240), lambda top, bottom, pixels=pixels: pixels[top:bottom])  # type: ignore[misc]
        cases.append(ShownCase(f"case {number}", number, number / count, pictures=draw_case(CaseView((layer,)), store)))
    write_report(Report("solve", "many", "", "", cases=cases), folder / "report.html")
    name = f"page of {count:,} cases, pictures {'inside' if inline else 'in a folder'}"
    with browser() as found:
        if isinstance(found, str):
            row(name, found, "2 s")
            return
        page = found.new_page(viewport={"width": 1400, "height": 900})
        processor = ProcessorTime(page)
        seconds = opens(page, folder / "report.html")
        row(f"{name}: opens", f"{seconds:.2f} s", "2 s")
        row("  of that, processor time of its main thread", f"{processor.seconds():.2f} s", "")
        begun = processor.seconds()
        middle, late = page.evaluate(SCROLL, FRAMES)
        row("  scrolled: median, 99th percentile of frames", f"{middle:.0f}, {late:.0f} ms", "50 ms: no jank")
        used = (processor.seconds() - begun) / FRAMES * 1000
        row("  processor time of a frame", f"{used:.1f} ms", "16.7 ms: 60 frames a second")


FRAMES = 200
SCROLL = """(frames) => new Promise((done) => {
  const gaps = []; let last = performance.now(), left = frames;
  const step = (now) => {
    gaps.push(now - last); last = now;
    window.scrollBy(0, 60);
    if (left-- > 0) requestAnimationFrame(step);
    else { gaps.sort((a, b) => a - b); done([gaps[gaps.length >> 1], gaps[Math.floor(gaps.length * 0.99)]]); }
  };
  requestAnimationFrame(step);
})"""
"""60 pixels a frame are 3,600 a second: a fast turn of the wheel."""


class ProcessorTime:
    """What the main thread of a page has used: other programs do not count."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        metrics = {each["name"]: each["value"] for each in self.session.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"])


SHOWN = """() => {
  const tiles = [...document.querySelectorAll("#world img")];
  return tiles.length > 0 && tiles.every((tile) => tile.complete);
}"""


def large(folder: Path, shape: tuple[int, int]) -> None:
    """A fragment with answer and truth, as tiles: how fast it opens, and what it takes on the disk."""
    from handlens.masks.rle import encode
    from handlens.masks.showing import mask_layers

    folder.mkdir()
    random = np.random.default_rng(0)
    coarse = random.integers(60, 200, (shape[0] // 8 + 1, shape[1] // 8 + 1), np.uint8)
    grey = np.repeat(np.repeat(coarse, 8, axis=0), 8, axis=1)[: shape[0], : shape[1]]
    noise = random.integers(0, 30, shape, np.uint8)
    grey = grey + noise
    letters = np.zeros(shape, bool)
    letters[shape[0] // 4 : shape[0] // 2 : 3, shape[1] // 4 : shape[1] // 2] = True
    said = np.roll(letters, 40, axis=1)
    begun = time.perf_counter()
    layers = mask_layers(encode(said, order="rows"), encode(letters, order="rows"), shape)
    view = CaseView((Layer("slice", shape, lambda top, bottom: grey[top:bottom]), *layers))
    pictures = draw_case(view, PictureStore(folder / "report_files", inline=True))
    write_report(
        Report("solve", "large", "", "", cases=[ShownCase("a", 0, 0.5, pictures=pictures)]), folder / "report.html"
    )
    seconds = time.perf_counter() - begun
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    row(f"page of {shape[0]} x {shape[1]} is made", f"{seconds:.1f} s", "")
    row("  page and tiles on the disk", f"{size:.0f} MB", "60 MB with all of OUT")
    with browser() as found:
        if isinstance(found, str):
            row("  opens", found, "3 s")
            return
        page = found.new_page(viewport={"width": 1400, "height": 900})
        seconds = opens(page, folder / "report.html", "#case-0", SHOWN)
        row("  opens, the fragment on the screen", f"{seconds:.2f} s", "3 s")


OUT_SLICES = 3
"""Slices of the fragment: what is written for 65 is the same, and predicting them takes hours."""


def whole_out(folder: Path, name: str, shape: tuple[int, int], *, write: str | None, network: bool) -> None:
    """All that `handlens solve` leaves for one large image, by file, and its peak memory.

    A few slices, one turn, or Otsu for cells unless by the `network`. `write` names the files, None: the usual ones.
    """
    challenge = registry.challenge(name)
    made = folder / "made"
    if name == "ink":
        settings = challenge.settings(slices=OUT_SLICES, width=shape[1])
        pipeline.sample(challenge, made, seed=3, cases=1, size=shape[0], settings=settings)
        data, options = next(path for path in (made / "test").iterdir() if path.is_dir()), ["--turns", "1"]
    else:
        pipeline.sample(challenge, made, seed=3, cases=1, size=1000)
        data, options = folder / "slide.tif", [] if network else ["--solver", "baseline"]
        _tile_slide(next((made / "test" / "im").iterdir()), data, shape)
    out = folder / "out"
    options += ["--write", write] if write else []
    command = [sys.executable, "-m", "handlens", "solve", name, data, "-o", out, *options, "-q"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"solve {name} ended with {os.waitstatus_to_exitcode(status)}")
    row(f"solve {name}, {shape[0]} x {shape[1]}: peak memory", f"{used.ru_maxrss / 2**20:.2f} GiB", "")
    row("  processor time", f"{used.ru_utime + used.ru_stime:.0f} s", "")
    sizes: dict[str, int] = {}
    for path in out.rglob("*"):
        if path.is_file():
            inside = path.relative_to(out).parts
            sizes[inside[0]] = sizes.get(inside[0], 0) + path.stat().st_size
    row(f"OUT of {name}, {shape[0]} x {shape[1]}", f"{sum(sizes.values()) / 1e6:.1f} MB", "60 MB")
    for file, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        if size >= SHOWN_BYTES:
            row(f"  {file}", f"{size / 1e6:.1f} MB", "")


SHOWN_BYTES = 100_000
"""Files of OUT below this are not listed."""


def _tile_slide(source: Path, target: Path, shape: tuple[int, int]) -> None:
    """An image repeated over a large one, with grain that does not repeat; a row of tiles is in memory."""
    import tifffile
    from PIL import Image

    tile = np.asarray(Image.open(source).convert("RGB")).astype(np.int16)
    across = np.tile(tile, (1, -(-shape[1] // tile.shape[1]), 1))[:, : shape[1]]
    random = np.random.default_rng(0)

    def tiles() -> Iterator[npt.NDArray[np.uint8]]:
        for top in range(0, shape[0], SLIDE_TILE):
            rows = across[np.arange(top, min(top + SLIDE_TILE, shape[0])) % len(tile)]
            rows = np.clip(rows + random.integers(-6, 7, rows.shape, np.int16), 0, 255).astype(np.uint8)
            for left in range(0, shape[1], SLIDE_TILE):
                square = np.zeros((SLIDE_TILE, SLIDE_TILE, 3), np.uint8)
                part = rows[:, left : left + SLIDE_TILE]
                square[: part.shape[0], : part.shape[1]] = part
                yield square

    how = {"dtype": np.uint8, "tile": (SLIDE_TILE, SLIDE_TILE), "photometric": "rgb"}
    tifffile.imwrite(target, tiles(), shape=(*shape, 3), **how)


SLIDE_TILE = 256


def cost(folder: Path, name: str, *, quick: bool) -> None:
    """Processor time of the page as a share of that of solving, each measured in this process."""
    challenge = registry.challenge(name)
    cases, size = (1, 96) if quick else COST_CASES[name]
    pipeline.sample(challenge, folder / "first", seed=4, cases=1, size=128)  # imports are no part of either
    pipeline.solve(challenge, folder / "first", folder / "first-out", for_report=True)
    pipeline.report_solve(challenge, folder / "first-out")
    pipeline.sample(challenge, folder / "data", seed=3, cases=cases, size=size)
    solving = timed(lambda: pipeline.solve(challenge, folder / "data", folder / "plain"))
    kept = timed(lambda: pipeline.solve(challenge, folder / "data", folder / "out", for_report=True))
    paging = timed(lambda: pipeline.report_solve(challenge, folder / "out"))
    share = (max(0.0, kept - solving) + paging) / solving
    row(f"page of {cases} x {name}: {paging:.2f} s beside {solving:.1f} s of solving", f"+{share:.0%}", "15 %")


def timed(work: Callable[[], Any]) -> float:
    """Processor seconds of this process: other programs do not count."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


@contextmanager
def browser() -> Iterator[Any]:
    """A browser, or a few words why there is none."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield "no playwright"
        return
    if path is None:
        yield "no chromium"
        return
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


def opens(page: Any, path: Path, place: str = "", ready: str = "() => document.readyState === 'complete'") -> float:
    """Seconds from asking for a page until it is ready."""
    begun = time.perf_counter()
    page.goto(f"{path.as_uri()}{place}")
    page.wait_for_function(ready)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
