"""Single nuclei: touching ones split at their necks, every pixel in one object, labels and table that agree."""

from __future__ import annotations

import csv
import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays

from handlens.challenges.cells import instances
from handlens.challenges.cells.instances import COLUMNS, split_cells, write_instances
from handlens.challenges.cells.nuclei import _window, locate, scatter_nuclei
from handlens.challenges.cells.splitting import Watershed
from handlens.challenges.cells.tissue import choose_style, lay_tissue
from handlens.masks.components import Components
from handlens.masks.rle import EMPTY, Rle, decode, encode

masks = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=20))


def disks(*places: tuple[int, int, int], shape: tuple[int, int] = (80, 120)) -> np.ndarray:
    mask = np.zeros(shape, np.uint8)
    for x, y, radius in places:
        cv2.circle(mask, (x, y), radius, 1, -1)
    return mask.astype(bool)


def labels_of(objects: Components) -> np.ndarray:
    labels = np.zeros(objects.shape, np.int64)
    for start, length, number in zip(objects.runs.starts, objects.runs.lengths, objects.number, strict=True):
        labels.reshape(-1)[start : start + length] = number + 1
    return labels


def split(mask: np.ndarray, certainty: np.ndarray | None = None) -> np.ndarray:
    certainty = np.full(mask.shape, 255, np.uint8) if certainty is None else certainty
    return labels_of(split_cells(encode(mask, order="rows"), certainty, Watershed()))


@pytest.mark.parametrize(
    ("mask", "count"),
    [
        pytest.param(disks((30, 40, 14)), 1, id="one"),
        pytest.param(disks((30, 40, 14), (54, 40, 14)), 2, id="two"),
        pytest.param(disks((30, 40, 14), (50, 40, 8)), 2, id="large and small"),
        pytest.param(disks((30, 30, 13), (54, 30, 13), (42, 52, 13)), 3, id="three"),
        pytest.param(disks((30, 40, 14), (34, 40, 14)), 1, id="nearly the same place"),
        pytest.param(disks((30, 40, 14), (42, 40, 14)), 1, id="two bulges"),
        pytest.param(disks((30, 40, 14), (44, 40, 12)) & ~disks((37, 22, 8)), 1, id="a bean"),
        pytest.param(disks((30, 40, 14), (90, 40, 14)), 2, id="apart"),
        pytest.param(disks(*((x, 40, 6) for x in range(20, 90, 2))), 1, id="a long spindle"),
        pytest.param(disks((0, 0, 14), (24, 0, 14)), 2, id="at the corner"),
    ],
)
def test_nuclei_are_counted(mask: np.ndarray, count: int) -> None:
    labels = split(mask)
    assert int(labels.max()) == count
    assert np.array_equal(labels > 0, mask)


def test_the_cut_is_at_the_neck() -> None:
    labels = split(disks((30, 40, 14), (54, 40, 14)))
    assert np.all(labels[40, 16:40] == labels[40, 30])
    assert np.all(labels[40, 45:68] == labels[40, 54])
    assert labels[40, 30] != labels[40, 54]


def test_where_the_model_doubts_a_piece_is_split() -> None:
    mask = np.zeros((40, 80), bool)
    mask[10:30, 10:70] = True  # a plain bar: its outline has no neck
    certainty = np.full(mask.shape, 255, np.uint8)
    assert split(mask, certainty).max() == 1
    certainty[:, 36:44] = 130
    labels = split(mask, certainty)
    assert labels.max() == 2
    assert len(set(labels[20, 10:35])) == 1
    assert labels[20, 20] != labels[20, 60]


@given(masks)
def test_every_pixel_is_in_exactly_one_object(mask: np.ndarray) -> None:
    objects = split_cells(encode(mask, order="rows"), np.full(mask.shape, 200, np.uint8), Watershed(smallest=3))
    assert np.array_equal(labels_of(objects) > 0, mask)
    assert int(objects.areas.sum()) == int(mask.sum())
    assert np.all(objects.areas > 0)


def crowd(seed: int, size: int = 400) -> np.ndarray:
    """Labels of synthetic nuclei, many of which touch."""
    rng = np.random.default_rng(seed)
    style = choose_style(rng)
    labels = np.zeros((size, size), np.int64)
    for number, nucleus in enumerate(scatter_nuclei(rng, style, lay_tissue(rng, style, size))[0], 1):
        window = _window(nucleus, size)
        labels[window][(locate(nucleus, window)[2] <= 1) & (labels[window] == 0)] = number
    return labels


def matched(found: np.ndarray, true: np.ndarray) -> float:
    """F1 of objects that overlap by more than half of their union."""
    table = np.zeros((int(found.max()) + 1, int(true.max()) + 1))
    np.add.at(table, (found.ravel(), true.ravel()), 1)
    union = table.sum(1)[1:, None] + table.sum(0)[None, 1:] - table[1:, 1:]
    return float(2 * (table[1:, 1:] / np.maximum(union, 1) > 0.5).sum() / (len(table) + table.shape[1] - 2))


def test_a_crowd_is_split_from_its_outline_alone() -> None:
    for seed in (0, 1):
        true = crowd(seed)
        together = cv2.connectedComponents((true > 0).astype(np.uint8), connectivity=4)[1]
        assert matched(together, true) < 0.75
        assert matched(split(true > 0), true) > 0.93


# --- files --------------------------------------------------------------------------------------------------------


def test_labels_and_table_agree(tmp_path: Path) -> None:
    mask = disks((30, 40, 14), (54, 40, 14), (100, 60, 9))
    write_instances(tmp_path / "new" / "a.b", encode(mask, order="rows"), np.full(mask.shape, 255, np.uint8))
    labels = tifffile.imread(tmp_path / "new" / "a.b.tif")
    with (tmp_path / "new" / "a.b.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS
    assert labels.dtype == np.uint16
    assert len(rows) == int(labels.max()) == 3
    for row in rows:
        ys, xs = np.nonzero(labels == int(row["object"]))
        assert int(row["area"]) == len(ys)
        assert (float(row["centre_x"]), float(row["centre_y"])) == pytest.approx((xs.mean(), ys.mean()), abs=0.006)
        box = [xs.min(), ys.min(), xs.max() - xs.min() + 1, ys.max() - ys.min() + 1]
        assert [int(row[name]) for name in ("left", "top", "width", "height")] == box


def test_no_cells_are_an_empty_table_and_a_black_image(tmp_path: Path) -> None:
    write_instances(tmp_path / "none", EMPTY, np.zeros((300, 20), np.uint8))
    assert (tmp_path / "none.csv").read_text() == ",".join(COLUMNS) + "\n"
    assert not tifffile.imread(tmp_path / "none.tif").any()
    assert tifffile.imread(tmp_path / "none.tif").shape == (300, 20)


def test_more_objects_than_16_bits_can_number_get_32(tmp_path: Path) -> None:
    mask = np.zeros((600, 600), bool)
    mask[::2, ::2] = True
    write_instances(tmp_path / "many", encode(mask, order="rows"), np.full(mask.shape, 255, np.uint8))
    labels = tifffile.imread(tmp_path / "many.tif")
    assert (labels.dtype, int(labels.max())) == (np.uint32, 90_000)


def test_a_huge_piece_is_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.ones((90, 100), bool)
    mask[1::2, 1:] = False  # a comb: one piece whose blocks are many
    expected = mask.copy()
    monkeypatch.setattr(instances, "LARGEST_BOX", 2000)
    monkeypatch.setattr(instances, "BLOCK", 40)
    objects = split_cells(encode(mask, order="rows"), np.full(mask.shape, 255, np.uint8), Watershed())
    assert np.array_equal(labels_of(objects) > 0, expected)
    boxes = objects.boxes
    assert (boxes[:, 2:] - boxes[:, :2]).max() <= 40


def test_the_label_image_is_written_without_being_held(tmp_path: Path) -> None:
    shape = (20_000, 2_000)
    runs = Rle(np.arange(0, 20_000, 10) * 2_000 + 50, np.full(2_000, 9))
    objects = Components(runs, np.arange(2_000), 2_000, shape)
    tracemalloc.start()
    instances.write_labels(tmp_path / "a.tif", objects)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000  # the image is 80 MB
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.pages[0].shape == shape
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif") > 0, decode(runs, shape, order="rows"))
