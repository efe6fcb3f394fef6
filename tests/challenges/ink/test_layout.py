"""Fragments as people have them: the contest's folders, scroll segments, bare slices, one picture; with or without mask."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from handlens.challenges.ink import CHALLENGE
from handlens.challenges.ink.layout import find_files, open_fragment
from handlens.errors import DataError
from handlens.io.images import write_png

SHAPE = (40, 50)


@pytest.fixture(scope="module")
def slices() -> np.ndarray:
    stack = np.random.default_rng(0).integers(1, 60000, (4, *SHAPE), np.uint16)
    stack[:, :, :10] = 0
    return stack


@pytest.fixture(scope="module")
def mask() -> np.ndarray:
    inside = np.zeros(SHAPE, bool)
    inside[5:35, 15:45] = True
    return inside


def write_slices(folder: Path, stack: np.ndarray, *, first: int = 0) -> Path:
    folder.mkdir(parents=True)
    for number, plane in enumerate(stack, first):
        tifffile.imwrite(folder / f"{number:02d}.tif", plane)
    return folder


def read(place: Path) -> np.ndarray:
    stack, _ = open_fragment(place)
    return stack.read_band(0, stack.shape[0], 0, stack.depth)


@pytest.mark.parametrize("where", ["inside", "beside"])
def test_a_scroll_segment(tmp_path: Path, slices: np.ndarray, mask: np.ndarray, where: str) -> None:
    segment = tmp_path / "20230827161847"
    write_slices(segment / "layers", slices)
    near = segment if where == "inside" else tmp_path
    write_png(near / "20230827161847_mask.png", mask)
    for place in (segment, segment / "layers"):
        stack, inside = open_fragment(place)
        assert (stack.depth, stack.shape) == (4, SHAPE)
        assert np.array_equal(inside, mask)
        assert np.array_equal(read(place), slices)
        assert find_files(place).name == "20230827161847"
    (case,) = CHALLENGE.read_cases(tmp_path, "test")
    assert (case.id, case.shape) == ("20230827161847", SHAPE)
    inventory = CHALLENGE.survey(segment)
    assert inventory.problems == ()
    assert inventory.facts == {
        "test 20230827161847": "4 slices of 40x50, uint16, 20230827161847_mask.png",
    }


def test_a_labelled_segment_is_for_training(tmp_path: Path, slices: np.ndarray, mask: np.ndarray) -> None:
    write_slices(tmp_path / "seg" / "layers", slices)
    write_png(tmp_path / "seg" / "seg_inklabels.png", mask)
    assert CHALLENGE.read_cases(tmp_path, "test") == []
    truth = CHALLENGE.open_truth(tmp_path, CHALLENGE.settings())
    assert truth.read(truth.cases[0]).area == mask.sum()


def test_bare_slices_have_papyrus_where_they_are_not_0(tmp_path: Path, slices: np.ndarray) -> None:
    """Numbers of a part of a scan need not begin at 0."""
    folder = write_slices(tmp_path / "scan", slices, first=13)
    stack, inside = open_fragment(folder)
    assert stack.depth == 4
    assert np.array_equal(inside, (slices[[0, 2, 3]] > 0).any(axis=0))
    assert not inside[:, :10].any()
    assert [case.id for case in CHALLENGE.read_cases(folder, "test")] == ["scan"]
    assert CHALLENGE.survey(folder).facts == {"test scan": "4 slices of 40x50, uint16"}


def test_a_gap_in_bare_slices_is_named(tmp_path: Path, slices: np.ndarray) -> None:
    folder = write_slices(tmp_path / "scan", slices, first=13)
    (folder / "15.tif").unlink()
    with pytest.raises(DataError, match="slice 15 is missing"):
        open_fragment(folder)


def test_the_contests_slices_begin_at_0(tmp_path: Path, slices: np.ndarray) -> None:
    write_slices(tmp_path / "a" / "surface_volume", slices, first=13)
    with pytest.raises(DataError, match="slices 00 to 12 are missing"):
        open_fragment(tmp_path / "a")


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_one_picture(tmp_path: Path, slices: np.ndarray, mask: np.ndarray, ending: str) -> None:
    grey = (slices[0] >> 8).astype(np.uint8)
    path = tmp_path / f"32.{ending}"
    Image.fromarray(grey).save(path)
    stack, inside = open_fragment(path)
    assert (stack.depth, stack.dtype) == (1, np.uint8)
    assert np.array_equal(inside, stack.read_band(0, SHAPE[0], 0, 1)[0] > 0)
    if ending != "jpg":
        assert np.array_equal(read(path)[0], grey)
    write_png(tmp_path / "32_mask.png", mask)
    assert np.array_equal(open_fragment(path)[1], mask)
    assert [case.id for case in CHALLENGE.read_cases(path, "test")] == ["32"]
    assert CHALLENGE.read_cases(path, "train") == []


def test_16_bits_of_a_picture_are_kept(tmp_path: Path, slices: np.ndarray) -> None:
    write_png(tmp_path / "a.png", slices[1])
    assert np.array_equal(read(tmp_path / "a.png")[0], slices[1])


def test_slices_may_be_pictures(tmp_path: Path, slices: np.ndarray) -> None:
    for number, plane in enumerate(slices):
        write_png(tmp_path / "seg" / "layers" / f"{number}.png", plane)
    assert np.array_equal(read(tmp_path / "seg"), slices)
    write_png(tmp_path / "seg" / "layers" / "4.png", slices[0, :9])
    with pytest.raises(DataError, match=r"4\.png: .*9x50.*all slices of a stack are alike"):
        open_fragment(tmp_path / "seg")


def test_a_mask_of_another_size_is_refused(tmp_path: Path, slices: np.ndarray) -> None:
    write_slices(tmp_path / "seg" / "layers", slices)
    write_png(tmp_path / "seg" / "seg_mask.png", np.ones((4, 9), bool))
    with pytest.raises(DataError, match=r"seg_mask\.png: 4x9, but the slices are 40x50"):
        open_fragment(tmp_path / "seg")


def test_what_is_no_fragment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match="neither a folder of fragments nor a picture"):
        CHALLENGE.read_cases(tmp_path / "notes.txt", "test")
    (tmp_path / "empty").mkdir()
    assert CHALLENGE.read_cases(tmp_path, "test") == []
    with pytest.raises(DataError, match="no surface_volume/ or layers/"):
        open_fragment(tmp_path / "empty")


def test_a_black_scan_is_papyrus_everywhere(tmp_path: Path) -> None:
    write_slices(tmp_path / "scan", np.zeros((3, *SHAPE), np.uint16))
    assert open_fragment(tmp_path / "scan")[1].all()
    shutil.rmtree(tmp_path / "scan")
