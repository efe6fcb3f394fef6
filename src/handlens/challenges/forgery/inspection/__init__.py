"""Look at figures for copied regions and show what was found: records, pictures, pages. Files and folders come in."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlens.challenges.forgery.options import SECONDS, ForgerySettings, Sensitivity
from handlens.errors import DataError, DiskFullError, HandlensError
from handlens.inference.executors import Executor, Processes
from handlens.io.files import replacing, write_text
from handlens.types import Progress, no_progress

if TYPE_CHECKING:
    import numpy.typing as npt

    from handlens.challenges.forgery.detect.findings import ByteArray, Findings
    from handlens.challenges.forgery.inspection.naming import Named
    from handlens.challenges.forgery.inspection.page import MatchPicture
    from handlens.challenges.forgery.inspection.reading import Figure
    from handlens.challenges.forgery.inspection.words import Record
    from handlens.challenges.forgery.predictor import ForgeryPredictor
    from handlens.runstore.store import Journal

Look = Callable[["npt.NDArray[Any]"], "Findings"]
"""What finds copies in a picture: the detector's `look`."""

STRIPS_MOST = 40
"""Comparisons drawn for a figure, the surest groups first; more would make a page that no browser likes."""

PAGE, FINDINGS = "index.html", "findings.json"

DRAWN = "drawn from the page, because figures on it are vector graphics or made of several images"
TURNED = "the file asks viewers to turn it (orientation {}); it is looked at, shown and counted as they show it"


def table(record: Record, *, all_numbers: bool = False) -> str:
    """A figure's record as plain text of at most 80 columns."""
    from handlens.challenges.forgery.inspection import words

    return words.table(record, all_numbers=all_numbers)


def _make_look(seconds: float, sensitivity: Sensitivity) -> Look:
    from handlens.challenges.forgery.predictor import load
    from handlens.types import Context

    settings = ForgerySettings(seconds=seconds, sensitivity=sensitivity)
    return partial(_findings, load(Context(settings=settings)))


def _findings(predictor: ForgeryPredictor, image: npt.NDArray[Any]) -> Findings:
    found: Findings = predictor.predict(image).artefacts["findings"]
    return found


def inspect_figures(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    seconds: float = SECONDS,
    sensitivity: Sensitivity = "normal",
    workers: int = 1,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
    make_look: Callable[[], Look] | None = None,
) -> list[Record]:
    """Look at every figure of files and folders; the most suspicious record comes first.

    With `out`, pages, records and pictures are written there, each file atomically. A figure that cannot be
    read gets a record with its `error`, and the others are still looked at. A run that was stopped resumes.
    An `executor` takes the place of `workers`; `make_look` replaces the predictor.
    """
    from handlens.challenges.forgery import CHALLENGE
    from handlens.challenges.forgery.inspection.reading import find_figures, list_files
    from handlens.runstore.store import fingerprint_of, open_store

    if not any(path.exists() or path.is_symlink() for path in paths):
        raise DataError("no such file or folder", file=paths[0])
    paths = paths if executor is None else [path.absolute() for path in paths]  # workers are in other folders
    files = list_files(paths, out=out)
    settings = f"at most {seconds:g} s for each figure, {sensitivity} sensitivity"
    make = partial(_make_inspector, make_look or partial(_make_look, seconds, sensitivity), settings)
    executor = executor or Processes(workers)
    if out is None:
        return _inspect_all(find_figures(files), partial(make, alone=True), None, None, executor, progress)
    about = {"command": "inspect", "settings": settings, "handlens": version("handlens")}
    places = [str(path.absolute()) for path, _ in files]
    places += [fingerprint_of([], each.file, without=out) for each in CHALLENGE.fitted]
    key = hashlib.sha256("\n".join([*about.values(), *places]).encode(errors="replace")).hexdigest()
    reads = [*paths, *(path for path, _ in files)]
    with open_store(out, key, about, results=(PAGE,), reads=reads, overwrite=overwrite) as store:
        with closing(store.journal("documents")) as documents:
            figures = find_figures(files, documents)
        target = ReportFolder(out, alone=len(figures) == 1)
        journal = store.journal("figures")
        with closing(journal):
            records = _inspect_all(figures, partial(make, alone=target.alone), target, journal, executor, progress)
        if len(records) == len(figures):
            store.finish()
    return records


def _inspect_all(
    figures: Sequence[Figure],
    make: Callable[[Path | None], Callable[[Figure], Record]],
    target: ReportFolder | None,
    journal: Journal | None,
    executor: Executor,
    progress: Progress,
) -> list[Record]:
    """A record of every figure; those that an earlier, stopped run finished are taken from its journal."""
    from handlens.challenges.forgery.inspection.words import rank

    done: dict[int, Record] = {}
    for index, figure in enumerate(figures):
        if target and journal and (earlier := _earlier_record(target, journal, figure)):
            done[index] = earlier
    waiting = [index for index in range(len(figures)) if index not in done]
    count = partial(_count, progress, figures, waiting if executor.is_here else [])
    count(len(done), 0)
    if target:
        for index in waiting:
            _clear(target.out / figures[index].folder)
    results = executor.map(
        make,
        [figures[index] for index in waiting],
        out=target.out if target else None,
        name=lambda figure: figure.name,
        survive=lambda figure, error: {**_facts(figure, ""), "error": str(error)},
    )
    try:
        for finished, (place, record) in enumerate(results, 1):
            done[waiting[place]] = record
            if journal is not None and _is_lasting(record, figures[waiting[place]]):
                journal.add(figures[waiting[place]].folder, [json.dumps(record)])
            count(len(done), finished)
    finally:
        results.close()
        if target and done:
            _write_summary(target, [done[index] for index in sorted(done)], len(figures))
    return rank(list(done.values()))


def _count(progress: Progress, figures: Sequence[Figure], in_turn: Sequence[int], done: int, finished: int) -> None:
    """How many are done, and which is looked at now where they are looked at in turn."""
    progress(done, len(figures), *([figures[in_turn[finished]].name] if finished < len(in_turn) else []))


def _is_lasting(record: Record, figure: Figure) -> bool:
    """Whether a stopped run need not look again: nor where a part of a PDF ended the process that read it."""
    return "error" not in record or (figure.part is not None and "sha256" in record)


def _earlier_record(target: ReportFolder, journal: Journal, figure: Figure) -> Record | None:
    """What a stopped run recorded of the same file; None where the file has changed, or its page is gone."""
    from handlens.challenges.forgery.inspection import reading

    cells = journal.done.get(figure.folder)
    if cells is None or figure.fault:
        return None
    record: Record = json.loads(cells[0])
    if "error" not in record and not target.page(figure).is_file():
        return None
    same = record.get("figure") == figure.name and record.get("sha256") == reading.fingerprint(figure.path)
    return record if same else None


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """The folder that pages go to; `alone`: its first page is that of the only figure."""

    out: Path
    alone: bool

    def page(self, figure: Figure) -> Path:
        return self.out / PAGE if self.alone else self.out / figure.folder / PAGE


def _make_inspector(
    make_look: Callable[[], Look], settings: str, out: Path | None, *, alone: bool
) -> Callable[[Figure], Record]:
    target = ReportFolder(out, alone) if out else None
    return partial(inspect_figure, look=make_look(), settings=settings, target=target)


def inspect_figure(figure: Figure, *, look: Look, settings: str, target: ReportFolder | None) -> Record:
    """The record of one figure; its page and pictures too where there is a target."""
    record = _facts(figure, settings)
    try:
        return _inspect(figure, record, look, target)
    except MemoryError:
        return {**record, "error": "not enough memory for this figure"}
    except DiskFullError:  # no fault of the figure: the run resumes where there is room
        raise
    except DataError as error:
        return {**record, "error": error.what}
    except (HandlensError, OSError) as error:
        return {**record, "error": str(error)}


def _facts(figure: Figure, settings: str) -> Record:
    """What is known of a figure before it is read; a box is left, top, right, bottom in points of the page."""
    record: Record = {
        "handlens": version("handlens"),
        "settings": settings,
        "figure": figure.name,
        "folder": figure.folder,
        "file": str(figure.path),
        "page": figure.page,
    }
    if figure.part is not None:
        record["box"] = [round(side, 2) for side in figure.part.box]
    return record


def _inspect(figure: Figure, record: Record, look: Look, target: ReportFolder | None) -> Record:
    from handlens.challenges.forgery.inspection import aligning, reading, words
    from handlens.challenges.forgery.inspection.naming import name_groups

    started = time.perf_counter()
    if figure.fault:
        raise DataError(figure.fault)
    record["sha256"] = reading.fingerprint(figure.path)
    picture = figure.read()
    findings = look(picture)
    display, named = aligning.as_display(picture), name_groups(findings)
    del picture
    folder = target.out / figure.folder if target else None
    pairs, strips = _compare_all(display, named, folder)
    record |= {
        "height": int(display.shape[0]),
        "width": int(display.shape[1]),
        **words.record_findings(findings, pairs),
        "notes": _notes(figure),
        "seconds": round(time.perf_counter() - started, 2),
    }
    if target:
        _write_figure(figure, record, display, named, strips, target)
    return record


def _notes(figure: Figure) -> list[str]:
    """What a reader should know of how the figure was read."""
    from handlens.io.documents import read_orientation

    if figure.part is not None:
        return [] if figure.part.number else [DRAWN]
    orientation = read_orientation(figure.path, figure.page)
    return [TURNED.format(orientation)] if orientation != 1 else []


def _compare_all(
    display: ByteArray, groups: Sequence[Named], folder: Path | None
) -> tuple[list[tuple[Named, Record]], list[MatchPicture]]:
    """The record of each group with its pixels compared, and the comparisons drawn where there is a folder."""
    from handlens.challenges.forgery.inspection import aligning, words

    pairs: list[tuple[Named, Record]] = []
    strips: list[MatchPicture] = []
    for named in groups:
        agreements = []
        for index, match in enumerate(named.group.matches):
            measured = aligning.align(display, match, side=aligning.MEASURED_SIDE)
            agreements.append(aligning.compare(measured).as_record())
            if folder and len(strips) < STRIPS_MOST:
                strips.append(_draw_match(display, named, index, folder))
        pairs.append((named, words.record_group(named, agreements)))
    return pairs, strips


def _draw_match(display: ByteArray, named: Named, index: int, folder: Path) -> MatchPicture:
    """One match side by side, written to its file."""
    from handlens.challenges.forgery.inspection import aligning
    from handlens.challenges.forgery.inspection.drawing import colour_of
    from handlens.challenges.forgery.inspection.page import MatchPicture
    from handlens.challenges.forgery.inspection.strips import draw_strip

    source, copy = (named.region_name(region) for region in named.joined[index])
    aligned = aligning.align(display, named.group.matches[index], side=aligning.SHOWN_SIDE)
    titles = source, f"{copy} laid on {source}"
    picture, said = draw_strip(aligned, aligning.compare(aligned), colour_of(named), titles)
    path = folder / f"match-{index + 1}-{source}-{copy}.png"
    _write_picture(path, picture)
    return MatchPicture(path, named.name, index, tuple(said))


def _write_figure(
    figure: Figure,
    record: Record,
    display: ByteArray,
    named: Sequence[Named],
    strips: Sequence[MatchPicture],
    target: ReportFolder,
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


def _write_summary(target: ReportFolder, records: Sequence[Record], total: int) -> None:
    """The first page, unless the only figure has it, and its records."""
    from handlens.challenges.forgery.inspection.page import summary_page
    from handlens.challenges.forgery.inspection.words import rank

    small = {record["folder"]: target.out / record["folder"] / "thumbnail.jpg" for record in records}
    there = {folder: path for folder, path in small.items() if path.is_file()}
    if not target.alone or any("error" in record for record in records):
        write_text(target.out / PAGE, summary_page(records, there, total))
    write_text(target.out / "index.json", json.dumps({"figures": rank(records)}, indent=1))
