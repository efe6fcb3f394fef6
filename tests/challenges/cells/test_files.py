"""Files for pathologists: they say the same as the submission, in forms that other programs read."""

import csv
import json
from itertools import pairwise

import numpy as np
import pytest
import tifffile
from PIL import Image

from handlens import pipeline, registry
from handlens.artefacts import choose, file_of
from handlens.challenges.cells.files import COLOUR
from handlens.challenges.cells.instances import paint_labels, split_cells, write_labels
from handlens.challenges.cells.measurements import measure
from handlens.challenges.cells.splitting import Watershed
from handlens.errors import HandlensError
from handlens.io import reduction
from handlens.io.images import read_image, write_png
from handlens.io.row_reader import in_memory
from handlens.masks.rle import decode, encode
from handlens.types import Case

CELLS = registry.challenge("cells")


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    pipeline.sample(CELLS, folder / "data", seed=4, cases=2, size=200)
    settings = CELLS.settings(write="all", mpp=0.25)
    pipeline.solve(CELLS, folder / "data", folder / "out", settings=settings, solver="baseline")
    return folder


def answers(solved):
    with (solved / "out" / "submission.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    case = Case("0", None, (200, 200))
    return {row["img"]: CELLS.codec(CELLS.settings()).parse((row["pixels"],), case) for row in rows}


def test_all_files_are_there(solved):
    names = {path.name for path in (solved / "out").iterdir()}
    for kind in ("mask.png", "overlay.png", "labels.tif", "geojson"):
        assert {f"00.{kind}", f"01.{kind}"} <= names
    assert {"objects.csv", "summary.csv", "submission.csv"} <= names
    assert not [name for name in names if "part" in name]


def test_mask_labels_and_outlines_are_the_submission(solved):
    for id, runs in answers(solved).items():
        mask = decode(runs, (200, 200), order="rows")
        assert np.array_equal(np.asarray(Image.open(solved / "out" / f"0{id}.mask.png")), mask)
        labels = read_image(solved / "out" / f"0{id}.labels.tif")
        assert np.array_equal(labels > 0, mask)
        page = json.loads((solved / "out" / f"0{id}.geojson").read_text())
        assert page["type"] == "FeatureCollection"
        assert len(page["features"]) == labels.max()
        for number, feature in enumerate(page["features"], 1):
            properties = feature["properties"]
            assert (properties["objectType"], properties["classification"]["name"]) == ("detection", "Nucleus")
            assert all(isinstance(value, float) for value in properties["measurements"].values())
            polygons = feature["geometry"]["coordinates"]
            polygons = [polygons] if feature["geometry"]["type"] == "Polygon" else polygons
            assert all(ring[0] == ring[-1] and len(ring) >= 5 for polygon in polygons for ring in polygon)
            assert np.array_equal(fill(polygons, (200, 200)), labels == number)


def fill(polygons, shape):
    count = np.zeros(shape, int)
    for polygon in polygons:
        for ring in polygon:
            for (x0, y0), (_, y1) in pairwise(ring):
                for y in range(min(y0, y1), max(y0, y1)):
                    count[y, x0:] += 1 if y1 < y0 else -1
    return count > 0


def test_tables_are_in_micrometres(solved):
    with (solved / "out" / "objects.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    labels = read_image(solved / "out" / "00.labels.tif")
    mine = [row for row in rows if row["image"] == "0"]
    assert len(mine) == labels.max()
    assert float(mine[0]["area_um2"]) == pytest.approx((labels == 1).sum() * 0.25**2)
    with (solved / "out" / "summary.csv").open(newline="") as stream:
        summary = {row["image"]: row for row in csv.DictReader(stream)}
    assert int(summary["0"]["objects"]) == labels.max()
    assert float(summary["0"]["share_of_image"]) == pytest.approx((labels > 0).mean(), abs=1e-6)


def test_a_disk_measures_as_a_disk():
    y, x = np.ogrid[:99, :99]
    mask = (y - 40) ** 2 + (x - 50) ** 2 <= 30**2
    objects = split_cells(encode(mask, order="rows"), mask.astype(np.uint8) * 255, Watershed())
    found = measure(objects, in_memory(np.full((99, 99, 3), 200, np.uint8)), mpp=None).columns
    assert found["area_px2"][0] == mask.sum()
    assert found["perimeter_px"][0] == pytest.approx(2 * np.pi * 30.5, rel=0.03)
    assert found["eccentricity"][0] < 0.1
    assert (found["centre_x_px"][0], found["centre_y_px"][0]) == pytest.approx((50.5, 40.5))


def test_perimeters_are_those_of_the_outlines():
    mask = np.random.default_rng(4).random((60, 47)) > 0.55  # ragged, with holes, at every border
    objects = split_cells(encode(mask, order="rows"), mask.astype(np.uint8) * 255, Watershed(smallest=5))
    edges = []
    labels = paint_labels(objects)
    for number in range(1, objects.count + 1):
        padded = np.pad(labels == number, 1).astype(int)
        edges.append(np.abs(np.diff(padded, axis=0)).sum() + np.abs(np.diff(padded, axis=1)).sum())
    assert objects.count > 20
    found = measure(objects, None, mpp=None).columns["perimeter_px"]
    np.testing.assert_allclose(found, np.array(edges) * np.pi / 4)


def test_a_large_label_image_is_a_pyramid(tmp_path, monkeypatch):
    mask = np.zeros((300, 700), bool)
    mask[10:60, 20:90], mask[200:299, 500:700] = True, True
    objects = split_cells(encode(mask, order="rows"), mask.astype(np.uint8) * 255, Watershed())
    write_labels(tmp_path / "small.tif", objects)
    monkeypatch.setattr("handlens.challenges.cells.instances.LARGE", 256)
    write_labels(tmp_path / "large.ome.tif", objects)
    whole = paint_labels(objects)
    assert np.array_equal(read_image(tmp_path / "small.tif"), whole)
    with tifffile.TiffFile(tmp_path / "small.tif") as small, tifffile.TiffFile(tmp_path / "large.ome.tif") as large:
        assert (small.is_ome, large.is_ome) == (False, True)
        assert small.pages[0].tile == large.pages[0].tile == (256, 256)
        levels = large.series[0].levels
        assert [level.shape for level in levels] == [(300, 700), (150, 350), (75, 175)]
        for number, level in enumerate(levels):
            assert np.array_equal(level.asarray(), whole[:: 2**number, :: 2**number])


def test_none_and_unknown_kinds(solved, tmp_path):
    pipeline.solve(CELLS, solved / "data", tmp_path / "out", settings=CELLS.settings(write="none"), solver="baseline")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["run.json", "score.json", "submission.csv"]
    with pytest.raises(HandlensError, match="--write hologram; expected some of mask, overlay"):
        choose("mask,hologram", ("mask", "overlay"), ())
    settings = CELLS.settings(write="hologram")
    with pytest.raises(HandlensError, match="--write hologram"):
        pipeline.solve(CELLS, solved / "data", tmp_path / "no", settings=settings, solver="baseline")
    assert not (tmp_path / "no").exists()


def test_an_empty_picture_has_files_too(tmp_path):
    write_png(tmp_path / "data" / "blank.png", np.full((64, 64, 3), 255, np.uint8))
    settings = CELLS.settings(write="all")
    pipeline.solve(CELLS, tmp_path / "data", tmp_path / "out", settings=settings, solver="baseline")
    assert json.loads((tmp_path / "out" / "blank.geojson").read_text())["features"] == []
    assert (tmp_path / "out" / "summary.csv").read_text().splitlines()[1].startswith("blank,0,")


@pytest.mark.parametrize("id", ["../../etc/passwd", "a/b", "", "nul\0", "x" * 300, ".hidden"])
def test_no_id_leaves_the_folder(id, tmp_path):
    path = file_of(tmp_path, Case(id, None), "mask.png")
    assert path.parent == tmp_path
    assert len(path.name) < 140
    assert "\0" not in path.name


def test_the_overlay_of_a_large_image_is_smaller_and_its_outlines_stay(solved, tmp_path, monkeypatch):
    monkeypatch.setattr(reduction, "OVERLAY_PIXELS", 10_000)
    settings = CELLS.settings(write="mask,overlay")
    pipeline.solve(CELLS, solved / "data", tmp_path / "out", settings=settings, solver="baseline")
    small, whole = (np.asarray(Image.open(place / "00.overlay.png")) for place in (tmp_path / "out", solved / "out"))
    assert (small.shape, whole.shape) == ((100, 100, 3), (200, 200, 3))
    outlines = (whole == COLOUR).all(axis=2).reshape(100, 2, 100, 2).any(axis=(1, 3))
    assert outlines.any()
    assert np.array_equal((small == COLOUR).all(axis=2), outlines)
    assert read_image(tmp_path / "out" / "00.mask.png").shape == (200, 200)
