"""Files that pathologists open next: mask, overlay, label image, outlines for QuPath, tables."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from handlens.artefacts import file_of
from handlens.challenges.cells.instances import is_large, label_bands, split_cells, write_labels
from handlens.challenges.cells.measurements import Measurements, measure
from handlens.io.files import replacing
from handlens.io.png import write_bands
from handlens.io.reduction import overlay_factor, reduce_bands, reduced_shape
from handlens.io.row_reader import RowReader
from handlens.masks.components import Components
from handlens.masks.outlines import area, smooth, trace
from handlens.masks.rle import Rle, decode_bands
from handlens.types import Case, Prediction

KINDS = ("mask", "overlay", "labels", "geojson", "table")
DEFAULT = ("mask", "overlay", "geojson", "table")
OBJECTS, SUMMARY = "objects.csv", "summary.csv"
PART = "objects.part.csv"
"""Ending of a case's own table, joined to `objects.csv` at the end."""

COLOUR = (230, 159, 0)
"""Orange of Okabe and Ito, which colour-blind people can tell from stained tissue."""

BAND_ROWS = 256
PLACES = ("centre_", "width_", "height_")
"""Beginnings of the names of measurements that an outline does not need."""

CLASS = {"name": "Nucleus", "color": list(COLOUR)}


@dataclass(frozen=True, slots=True)
class CellsFiles:
    """Writes the chosen kinds for every image; the nuclei are split once for all of them."""

    kinds: frozenset[str]
    mpp: float | None = None

    def __call__(self, out: Path, case: Case, image: RowReader, prediction: Prediction[Rle]) -> None:
        cells, shape = prediction.answer, image.shape
        if "mask" in self.kinds:
            write_bands(file_of(out, case, "mask.png"), shape, decode_bands(cells, shape, rows=BAND_ROWS))
        if not self.kinds & {"labels", "geojson", "table", "overlay"}:
            return
        objects = split_cells(cells, prediction.artefacts["probability"], prediction.artefacts["watershed"])
        if "overlay" in self.kinds:
            factor = overlay_factor(shape)
            bands = _overlay(image, objects, factor)
            write_bands(file_of(out, case, "overlay.png"), reduced_shape(shape, factor), bands)
        if "labels" in self.kinds:
            ending = "labels.ome.tif" if is_large(objects.shape) else "labels.tif"
            write_labels(file_of(out, case, ending), objects)
        if self.kinds & {"geojson", "table"}:
            found = measure(objects, image, mpp=self.mpp)
            if "geojson" in self.kinds:
                outlines = smooth(trace(objects)) if is_large(shape) else trace(objects)
                write_geojson(file_of(out, case, "geojson"), outlines, found)
            if "table" in self.kinds:
                _write_part(_part_of(out, case.id), case, shape, found)


AnyRing = Sequence[tuple[float, float]]


def write_geojson(path: Path, outlines: Iterable[Sequence[AnyRing]], found: Measurements) -> None:
    """Outlines as QuPath imports them: detections with a class and measurements, in pixels of the image.

    Each is written as it comes. Place and extent are what the outline says; `objects.csv` has them as numbers.
    """
    names = list(found.columns)
    with replacing(path) as temporary, temporary.open("wb") as stream:
        stream.write(b'{"type": "FeatureCollection", "features": [')
        for number, (rings, row) in enumerate(zip(outlines, found.rows(), strict=True)):
            stream.write(b",\n" if number else b"\n")
            stream.write(msgspec.json.encode(_feature(rings, dict(zip(names, row, strict=True)))))
        stream.write(b"\n]}\n")


def _feature(rings: Sequence[AnyRing], row: dict[str, Any]) -> dict[str, Any]:
    number = row.pop("object")
    measurements = {name: round(value, 4) for name, value in row.items() if not name.startswith(PLACES)}
    polygons = [[_closed(ring) for ring in polygon] for polygon in _polygons(rings)]
    geometry = (
        {"type": "Polygon", "coordinates": polygons[0]}
        if len(polygons) == 1
        else {"type": "MultiPolygon", "coordinates": polygons}
    )
    properties = {"objectType": "detection", "name": str(number), "classification": CLASS, "measurements": measurements}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def _polygons(rings: Sequence[AnyRing]) -> list[list[AnyRing]]:
    """Outer rings, each with the holes in it; an object has one outer ring as a rule."""
    if len(rings) == 1:
        return [list(rings)]
    outer = [ring for ring in rings if area(ring) > 0]
    holes = [ring for ring in rings if area(ring) <= 0]
    if len(outer) == 1:
        return [[outer[0], *holes]]
    boxes = [np.array(ring) for ring in outer]
    found: list[list[AnyRing]] = [[ring] for ring in outer]
    for hole in holes:
        point = np.array(hole[0])
        inside = [k for k, box in enumerate(boxes) if (box.min(0) <= point).all() and (point <= box.max(0)).all()]
        found[min(inside, key=lambda k: area(outer[k])) if inside else 0].append(hole)
    return found


def _closed(ring: AnyRing) -> list[tuple[float, float]]:
    return [*ring, ring[0]]


def _overlay(image: RowReader, objects: Components, factor: int) -> Iterator[npt.NDArray[np.uint8]]:
    """The image with every nucleus outlined, in bands, reduced by a factor; outlines stay a pixel wide."""
    tops = range(0, image.shape[0], BAND_ROWS)
    pictures = reduce_bands((image.read(top, min(image.shape[0], top + BAND_ROWS)) for top in tops), factor)
    for rows, edge in zip(pictures, reduce_bands(_edges(objects), factor), strict=True):
        drawn = rows.copy()
        drawn[edge] = COLOUR
        yield drawn


def _edges(objects: Components) -> Iterator[npt.NDArray[np.bool_]]:
    """Pixels of every nucleus that touch another or none, in bands; the rows above and below a band are looked at."""
    before: npt.NDArray[Any] | None = None
    bands = label_bands(objects, np.dtype(np.uint32), rows=BAND_ROWS)
    current = next(bands, None)
    while current is not None:
        after = next(bands, None)
        labels = np.concatenate(
            [current[:1] if before is None else before[-1:], current, current[-1:] if after is None else after[:1]]
        )
        middle = labels[1:-1]
        edge = (middle != labels[:-2]) | (middle != labels[2:])
        edge[:, 1:] |= middle[:, 1:] != middle[:, :-1]
        edge[:, :-1] |= middle[:, 1:] != middle[:, :-1]
        yield edge & (middle > 0)
        before, current = current, after


def _part_of(out: Path, id: str) -> Path:
    return file_of(out, Case(id, Path()), PART)


def _write_part(path: Path, case: Case, shape: tuple[int, int], found: Measurements) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["image", "image_height", "image_width", *found.columns])
        for row in found.rows():
            values = [round(value, 4) if isinstance(value, float) else value for value in row]
            writer.writerow([case.id, *shape, *values])


def join_tables(out: Path, ids: Sequence[str], *, mpp: float | None) -> None:
    """Write `objects.csv` of all images, and `summary.csv` with a row for each; nothing where no tables were made."""
    parts = [_part_of(out, id) for id in ids]
    if not all(part.is_file() for part in parts):
        return
    unit = "um" if mpp else "px"
    density = "per_mm2" if mpp else "per_megapixel"
    summary: list[list[Any]] = [["image", "objects", "share_of_image", f"objects_{density}", f"mean_area_{unit}2"]]
    header: list[str] = []
    with replacing(out / OBJECTS) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for id, part in zip(ids, parts, strict=True):
            with part.open(encoding="utf-8", newline="") as content:
                rows = csv.reader(content)
                names = next(rows)
                if not header:
                    header = [names[0], *names[3:]]
                    writer.writerow(header)
                summary.append(_copy_rows(id, rows, writer.writerow, mpp))
    with replacing(out / SUMMARY) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(summary)
    for part in parts:
        part.unlink()


def counted_objects(out: Path, case: Case) -> int | None:
    """How many objects `summary.csv` says an image has; None where there is no such table."""
    path = out / SUMMARY
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as content:
        return next((int(row["objects"]) for row in csv.DictReader(content) if row["image"] == case.id), None)


def _copy_rows(
    id: str, rows: Iterable[Sequence[str]], write: Callable[[Sequence[str]], object], mpp: float | None
) -> list[Any]:
    """Copy the rows of a case's table, without the size of its image; gives count, share of the image, density and
    mean area. Areas stand in the fifth column."""
    count, total, whole = 0, 0.0, 0.0
    for row in rows:
        write([row[0], *row[3:]])
        count, total = count + 1, total + float(row[4])
        whole = int(row[1]) * int(row[2]) * (mpp or 1.0) ** 2
    if not count:
        return [id, 0, 0.0, 0.0, ""]
    return [id, count, round(total / whole, 6), round(count / whole * 1e6, 3), round(total / count, 3)]
