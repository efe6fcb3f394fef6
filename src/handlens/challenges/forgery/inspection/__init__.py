"""Look at figures for copied regions and show what was found: records, pictures, pages. Files and folders come in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlens.errors import DataError, HandlensError
from handlens.io.files import replacing, write_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from handlens.challenges.forgery.detect.findings import ByteArray, Findings
    from handlens.challenges.forgery.inspection.naming import Named
    from handlens.challenges.forgery.inspection.page import Strip
    from handlens.challenges.forgery.inspection.reading import Figure
    from handlens.challenges.forgery.inspection.words import Record

Look = Callable[["npt.NDArray[Any]"], "Findings"]
"""What finds copies in a picture: the detector's `look`."""

STRIPS_MOST = 40
"""Comparisons drawn for a figure, the surest groups first; more would make a page that no browser likes."""

PAGE, FINDINGS, UNFINISHED = "index.html", "findings.json", ".unfinished"

TURNED = (
    "the file asks viewers to turn it (EXIF orientation {}); here it is shown, and its pixels are counted, as stored"
)


def with_detector(seconds: float) -> tuple[Callable[[], Look], str]:
    """What makes the detector's look, with so many seconds for each figure, and the words for these settings."""
    return partial(_make_detector, seconds), f"at most {seconds:g} s for each figure"


def table(record: Record) -> str:
    """A figure's record as plain text of at most 100 columns."""
    from handlens.challenges.forgery.inspection import words

    return words.table(record)


def _make_detector(seconds: float) -> Look:
    from handlens.challenges.forgery.detect import Detector

    return partial(Detector().look, seconds=seconds)


def inspect_figures(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    make_look: Callable[[], Look],
    settings: str,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """Look at every figure of files and folders; the most suspicious record comes first.

    With `out`, pages, records and pictures are written there, each file whole or not at all. A figure that cannot be
    read gets a record with its `error`, and the others are still looked at. A run that was stopped goes on where it
    stopped, if `settings`, which names what the look depends on, is the same.
    """
    from handlens.challenges.forgery.inspection.reading import find_figures
    from handlens.challenges.forgery.inspection.words import rank
    from handlens.inference.executors import map_in_processes

    figures = find_figures(paths, out=out)
    target = _start(out, settings, alone=len(figures) == 1) if out else None
    make = partial(_make_inspector, make_look, settings, target)
    done: dict[int, Record] = {}
    results = map_in_processes(make, figures, workers=workers, name=lambda figure: figure.name)
    try:
        for index, record in results:
            done[index] = record
            if progress:
                progress(len(done), len(figures))
    finally:
        results.close()
        if target and done:
            _write_summary(target, [done[index] for index in sorted(done)], len(figures))
    return rank(list(done.values()))


@dataclass(frozen=True, slots=True)
class Target:
    """The folder that pages go to; `alone`: its first page is that of the only figure; `goes_on`: use what is there."""

    out: Path
    alone: bool
    goes_on: bool

    def page(self, figure: Figure) -> Path:
        return self.out / PAGE if self.alone else self.out / figure.folder / PAGE


def _start(out: Path, settings: str, *, alone: bool) -> Target:
    """Make the folder, leave a mark there until the run is done, and see whether an earlier run was stopped."""
    from handlens.challenges.forgery.inspection.page import GENERATOR

    page, mark = out / PAGE, out / UNFINISHED
    if page.exists() and GENERATOR not in page.read_text(encoding="utf-8", errors="replace"):
        raise DataError("this page is not ours and would be overwritten: name another folder", file=page)
    words = f"handlens {version('handlens')}, {settings}\n"
    goes_on = mark.is_file() and mark.read_text(encoding="utf-8") == words
    write_text(mark, words)
    return Target(out, alone, goes_on)


def _make_inspector(make_look: Callable[[], Look], settings: str, target: Target | None) -> Callable[[Figure], Record]:
    return partial(inspect_figure, look=make_look(), settings=settings, target=target)


def inspect_figure(figure: Figure, *, look: Look, settings: str, target: Target | None) -> Record:
    """The record of one figure; its page and pictures too where there is a target."""
    record: Record = {
        "handlens": version("handlens"),
        "settings": settings,
        "figure": figure.name,
        "folder": figure.folder,
        "file": str(figure.path),
        "page": figure.page,
    }
    try:
        return _inspect(figure, record, look, target)
    except MemoryError:
        return {**record, "error": "not enough memory for this figure"}
    except DataError as error:
        return {**record, "error": error.what}
    except (HandlensError, OSError) as error:
        return {**record, "error": str(error)}


def _inspect(figure: Figure, record: Record, look: Look, target: Target | None) -> Record:
    from handlens.challenges.forgery.inspection import aligning, reading, words
    from handlens.challenges.forgery.inspection.naming import name_groups
    from handlens.io.documents import read_orientation

    started = time.perf_counter()
    if figure.fault:
        raise DataError(figure.fault)
    record["sha256"] = reading.fingerprint(figure.path)
    if target and target.goes_on and (earlier := _read_earlier(target, figure, record)):
        return earlier
    picture = figure.read()
    findings = look(picture)
    orientation = read_orientation(figure.path) if figure.page is None else 1
    display, named = aligning.as_display(picture), name_groups(findings)
    del picture
    folder = target.out / figure.folder if target else None
    if folder:
        _clear(folder)
    pairs, strips = _compare_all(display, named, folder)
    record |= {
        "height": int(display.shape[0]),
        "width": int(display.shape[1]),
        **words.record_findings(findings, pairs),
        "notes": [TURNED.format(orientation)] if orientation != 1 else [],
        "seconds": round(time.perf_counter() - started, 2),
    }
    if target:
        _write_figure(figure, record, display, named, strips, target)
    return record


def _compare_all(
    display: ByteArray, groups: Sequence[Named], folder: Path | None
) -> tuple[list[tuple[Named, Record]], list[Strip]]:
    """The record of each group with its pixels compared, and the comparisons drawn where there is a folder."""
    from handlens.challenges.forgery.inspection import aligning, words

    pairs: list[tuple[Named, Record]] = []
    strips: list[Strip] = []
    for named in groups:
        agreements = []
        for index, match in enumerate(named.group.matches):
            measured = aligning.align(display, match, side=aligning.MEASURED_SIDE)
            agreements.append(aligning.compare(measured).as_record())
            if folder and len(strips) < STRIPS_MOST:
                strips.append(_draw_match(display, named, index, folder))
        pairs.append((named, words.record_group(named, agreements)))
    return pairs, strips


def _draw_match(display: ByteArray, named: Named, index: int, folder: Path) -> Strip:
    """One match side by side, written to its file."""
    from handlens.challenges.forgery.inspection import aligning
    from handlens.challenges.forgery.inspection.drawing import colour_of
    from handlens.challenges.forgery.inspection.page import Strip
    from handlens.challenges.forgery.inspection.strips import draw_strip

    source, copy = (named.region_name(region) for region in named.joined[index])
    aligned = aligning.align(display, named.group.matches[index], side=aligning.SHOWN_SIDE)
    titles = source, f"{copy} laid on {source}"
    picture, said = draw_strip(aligned, aligning.compare(aligned), colour_of(named), titles)
    path = folder / f"match-{index + 1}-{source}-{copy}.png"
    _write_picture(path, picture)
    return Strip(path, named.name, index, tuple(said))


def _write_figure(
    figure: Figure, record: Record, display: ByteArray, named: Sequence[Named], strips: Sequence[Strip], target: Target
) -> None:
    """The outlined figure, its small version, the page, and last the record: where that is, all is."""
    from handlens.challenges.forgery.inspection import drawing, page

    folder = target.out / figure.folder
    _write_picture(folder / "figure.png", drawing.draw_overview(display, named))
    _write_picture(folder / "thumbnail.jpg", drawing.draw_thumbnail(display, named))
    colours = {each.name: "#{:02x}{:02x}{:02x}".format(*drawing.colour_of(each)) for each in named}
    text = page.figure_page(record, folder / "figure.png", strips, colours, back="" if target.alone else f"../{PAGE}")
    write_text(target.page(figure), text)
    write_text(folder / FINDINGS, json.dumps(record, indent=1))


def _clear(folder: Path) -> None:
    """Take away what an earlier run said about the figure; a folder without our record is not touched."""
    if (folder / FINDINGS).is_file():
        (folder / FINDINGS).unlink()
        for path in folder.glob("match-*.png"):
            path.unlink()


def _write_picture(path: Path, picture: ByteArray) -> None:
    from handlens.io.images import write_jpeg, write_png

    with replacing(path) as temporary:
        if path.suffix == ".jpg":
            write_jpeg(temporary, picture, quality=85)
        else:
            write_png(temporary, picture)


def _read_earlier(target: Target, figure: Figure, record: Record) -> Record | None:
    """The record that a stopped run left for the same file; None where there is none to use."""
    try:
        earlier: Record = json.loads((target.out / figure.folder / FINDINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(earlier, dict) and all(earlier.get(name) == value for name, value in record.items())
    return earlier if same and target.page(figure).is_file() else None


def _write_summary(target: Target, records: Sequence[Record], total: int) -> None:
    """The first page, unless the only figure has it, and its records; the mark goes when nothing is left to do."""
    from handlens.challenges.forgery.inspection.page import summary_page
    from handlens.challenges.forgery.inspection.words import rank

    small = {record["folder"]: target.out / record["folder"] / "thumbnail.jpg" for record in records}
    there = {folder: path for folder, path in small.items() if path.is_file()}
    if not target.alone or any("error" in record for record in records):
        write_text(target.out / PAGE, summary_page(records, there, total))
    write_text(target.out / "index.json", json.dumps({"figures": rank(records)}, indent=1))
    if len(records) == total:
        (target.out / UNFINISHED).unlink(missing_ok=True)
