"""The folder of the cells challenge: every layout is read, and every fault is named with its file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from folders import cut, only_problem, refused_solution

from handlens.challenges.cells import CHALLENGE
from handlens.challenges.cells.options import CellsSettings
from handlens.errors import DataError
from handlens.io.images import read_mask, write_png
from handlens.masks.rle import decode

SETTINGS = CHALLENGE.settings()
SIZE = 96


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cells") / "sound"
    folder.mkdir()
    CHALLENGE.write_sample(folder, seed=1, cases=3, size=SIZE, settings=CellsSettings())
    return folder


# --- what is there -------------------------------------------------------------------------------


def test_a_sound_folder_has_no_problems(folder: Path) -> None:
    inventory = CHALLENGE.survey(folder)
    assert inventory.problems == ()
    assert inventory.facts == {"train images": "3 (96x96)", "train masks": "3", "test images": "3 (96x96)"}


def test_both_parts_are_read(folder: Path) -> None:
    for part in ("train", "test"):
        cases = CHALLENGE.read_cases(folder, part)
        assert [case.id for case in cases] == ["0", "1", "2"]
        assert [case.path for case in cases] == [folder / part / "im" / f"0{number}.png" for number in range(3)]
        assert {case.shape for case in cases} == {(SIZE, SIZE)}


@pytest.mark.parametrize(("part", "other"), [("train", "test"), ("test", "train")])
def test_a_part_may_stand_alone(folder: Path, part: str, other: str) -> None:
    """Its own folder, without train/ and test/ above."""
    alone = folder / part
    assert [case.id for case in CHALLENGE.read_cases(alone, part)] == ["0", "1", "2"]
    assert CHALLENGE.read_cases(alone, other) == []
    assert CHALLENGE.survey(alone).problems == ()
    assert f"{part} images" in CHALLENGE.survey(alone).facts


@pytest.mark.parametrize("place", ["", "train"])
def test_the_truth_is_read_from_masks(folder: Path, place: str) -> None:
    truth = CHALLENGE.open_truth(folder / place, SETTINGS)
    assert [case.id for case in truth.cases] == ["0", "1", "2"]
    for case in truth.cases:
        expected = read_mask(folder / "train" / "mask" / case.path.name)
        assert case.path == folder / "train" / "im" / case.path.name
        np.testing.assert_array_equal(decode(truth.read(case), (SIZE, SIZE), order="rows"), expected)


def test_masks_alone_are_a_truth(folder: Path) -> None:
    truth = CHALLENGE.open_truth(folder / "truth", SETTINGS)
    assert [case.shape for case in truth.cases] == [(SIZE, SIZE)] * 3
    expected = read_mask(folder / "truth" / "mask" / "01.png")
    np.testing.assert_array_equal(decode(truth.read(truth.cases[1]), (SIZE, SIZE), order="rows"), expected)


def test_the_order_of_pixels_is_the_one_asked_for(folder: Path) -> None:
    truth = CHALLENGE.open_truth(folder, CHALLENGE.settings(order="columns"))
    mask = read_mask(folder / "train" / "mask" / "00.png")
    runs = truth.read(truth.cases[0])
    np.testing.assert_array_equal(decode(runs, mask.shape, order="columns"), mask)
    assert not np.array_equal(decode(runs, mask.shape, order="rows"), mask)


def test_a_solution_file_is_a_truth(tmp_path: Path) -> None:
    (tmp_path / "solution.csv").write_text("img,pixels\n0,1 3 1001 2\n1,\n")
    truth = CHALLENGE.open_truth(tmp_path / "solution.csv", SETTINGS)
    assert [(case.id, case.shape) for case in truth.cases] == [("0", (1000, 1000)), ("1", (1000, 1000))]
    mask = decode(truth.read(truth.cases[0]), (1000, 1000), order="rows")
    assert np.argwhere(mask).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    assert not decode(truth.read(truth.cases[1]), (1000, 1000), order="rows").any()


def test_a_solution_file_may_say_the_shapes(tmp_path: Path) -> None:
    (tmp_path / "solution.csv").write_text('img,pixels,shape\n0,1 3,"[2, 3]"\n1,5 2,"[2, 3]"\n')
    truth = CHALLENGE.open_truth(tmp_path / "solution.csv", SETTINGS)
    assert [case.shape for case in truth.cases] == [(2, 3), (2, 3)]
    assert decode(truth.read(truth.cases[0]), (2, 3), order="rows").tolist() == [[True] * 3, [False] * 3]
    with_one_too_many = "img,pixels,height,width\n0,5 3,2,3\n"
    (tmp_path / "solution.csv").write_text(with_one_too_many)
    truth = CHALLENGE.open_truth(tmp_path / "solution.csv", SETTINGS)
    with pytest.raises(DataError, match=r"solution\.csv: line 2, img 0: .*the image has 6"):
        truth.read(truth.cases[0])


def test_names_links_and_litter(folder: Path, tmp_path: Path) -> None:
    """Upper-case endings and links are pictures; hidden files, texts and folders are not."""
    im = folder / "test" / "im"
    (im / "00.png").rename(im / "00.PNG")
    (im / "01.png").rename(tmp_path / "elsewhere.png")
    (im / "01.png").symlink_to(tmp_path / "elsewhere.png")
    (im / "02.png").rename(im / "slide b.png")
    (im / "._00.png").write_bytes(b"left by another system")
    (im / "Thumbs.db").write_bytes(b"x")
    (im / "03.png").mkdir()
    assert [case.id for case in CHALLENGE.read_cases(folder, "test")] == ["0", "1", "slide b"]
    assert CHALLENGE.survey(folder).problems == ()


# --- what is wrong -------------------------------------------------------------------------------


def test_a_mask_of_another_shape_is_named(folder: Path) -> None:
    write_png(folder / "train" / "mask" / "01.png", np.zeros((SIZE, SIZE - 1), bool))
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == "train/mask/01.png"
    assert problem.what == "the mask is 96x95, its image 96x96: they must be equal"
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    truth.read(truth.cases[0])
    with pytest.raises(DataError, match="01.png: the mask is 96x95, its image 96x96"):
        truth.read(truth.cases[1])


def test_a_mask_without_an_image_is_named(folder: Path) -> None:
    (folder / "train" / "im" / "01.png").unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what.split(":")[0]) == ("train/mask/01.png", "a mask without an image")


def test_an_image_without_a_mask_is_named(folder: Path) -> None:
    (folder / "train" / "mask" / "01.png").unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what.split(":")[0]) == ("train/im/01.png", "an image without a mask")


@pytest.mark.parametrize("place", ["train/im/01.png", "train/mask/01.png", "test/im/02.png"])
def test_a_truncated_picture_is_named(folder: Path, place: str) -> None:
    cut(folder / place)
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == place
    assert "truncated" in problem.what


@pytest.mark.parametrize("content", [b"", b"no picture", b"GIF89a" + bytes(99)])
def test_an_unreadable_picture_is_named(folder: Path, content: bytes) -> None:
    (folder / "test" / "im" / "00.png").write_bytes(content)
    assert only_problem(CHALLENGE, folder).file == "test/im/00.png"
    assert CHALLENGE.read_cases(folder, "test")[0].shape is None


def test_a_broken_link_is_named(folder: Path) -> None:
    (folder / "test" / "im" / "03.png").symlink_to(folder / "nowhere")
    assert only_problem(CHALLENGE, folder).file == "test/im/03.png"


@pytest.mark.parametrize(("place", "noun"), [("test/im", "image"), ("train/mask", "mask")])
def test_a_number_twice_is_named(folder: Path, place: str, noun: str) -> None:
    shutil.copy(folder / place / "00.png", folder / place / "0.png")
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == f"{place}/00.png"
    assert problem.what == f"a second {noun} with id 0, beside 0.png: rename one of them"


@pytest.mark.parametrize("place", ["im", "mask"])
def test_a_truth_with_a_number_twice_is_refused(folder: Path, place: str) -> None:
    shutil.copy(folder / "train" / place / "00.png", folder / "train" / place / "0.png")
    with pytest.raises(DataError, match=rf"train/{place}: 0\.png and 00\.png both have id 0: rename one"):
        CHALLENGE.open_truth(folder, SETTINGS)


def test_a_truncated_image_of_another_spelling_still_belongs_to_its_mask(folder: Path) -> None:
    (folder / "train" / "im" / "01.png").rename(folder / "train" / "im" / "1.png")
    cut(folder / "train" / "im" / "1.png")
    assert only_problem(CHALLENGE, folder).file == "train/im/1.png"


def test_every_problem_is_named_not_the_first_alone(folder: Path) -> None:
    cut(folder / "train" / "im" / "00.png")
    cut(folder / "train" / "mask" / "00.png")
    write_png(folder / "train" / "mask" / "01.png", np.zeros((5, 6), bool))
    (folder / "train" / "mask" / "02.png").unlink()
    write_png(folder / "train" / "mask" / "77.png", np.zeros((SIZE, SIZE), bool))
    cut(folder / "test" / "im" / "01.png")
    cut(folder / "test" / "im" / "02.png")
    assert sorted(problem.file for problem in CHALLENGE.survey(folder).problems) == [
        "test/im/01.png",
        "test/im/02.png",
        "train/im/00.png",
        "train/im/02.png",
        "train/mask/00.png",
        "train/mask/01.png",
        "train/mask/77.png",
    ]


def test_a_folder_without_pictures_is_named(folder: Path) -> None:
    for path in (folder / "test" / "im").iterdir():
        path.unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == ("test/im", "no pictures in it: expected NN.png")
    assert CHALLENGE.read_cases(folder, "test") == []


def test_an_empty_folder_is_a_problem(tmp_path: Path) -> None:
    problem = only_problem(CHALLENGE, tmp_path)
    assert problem.file == str(tmp_path)
    assert "expected im/NN.png" in problem.what
    assert CHALLENGE.read_cases(tmp_path, "train") == CHALLENGE.read_cases(tmp_path, "test") == []


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_truth_that_is_not_there_is_told_what_to_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"no mask/ folder: expected mask/NN\.png") as caught:
        CHALLENGE.open_truth(tmp_path / name, SETTINGS)
    assert caught.value.file == tmp_path / name


def test_an_empty_mask_folder_is_no_truth(tmp_path: Path) -> None:
    (tmp_path / "mask").mkdir()
    with pytest.raises(DataError, match="no pictures in it") as caught:
        CHALLENGE.open_truth(tmp_path, SETTINGS)
    assert caught.value.file == tmp_path / "mask"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("img,mask\n0,1 2\n", "the columns are img, mask; a solution has img, pixels"),
        ("", "the columns are none; a solution has img, pixels"),
        ("img,pixels\n", "no rows under the header"),
        ("img,pixels\n0,1 2\n0,1 2\n", "img 0 is duplicated"),
        ("img,pixels\n0,1 2\n1\n", "line 3: 1 field, the header has 2"),
    ],
)
def test_a_broken_solution_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "solution.csv"
    assert message in refused_solution(CHALLENGE, file, text, opened=file)


@pytest.mark.parametrize("cell", ["1 2 3", "0 1", "1 x", "1000000 2", "5 1 1 1"])
def test_a_broken_cell_of_a_solution_is_refused_with_its_line(tmp_path: Path, cell: str) -> None:
    (tmp_path / "solution.csv").write_text(f"img,pixels\n0,1 2\n1,{cell}\n")
    truth = CHALLENGE.open_truth(tmp_path / "solution.csv", SETTINGS)
    with pytest.raises(DataError, match="line 3, img 1: "):
        truth.read(truth.cases[1])


# --- real data -----------------------------------------------------------------------------------


def test_the_real_folder_has_no_problems(real_data: Path) -> None:
    inventory = CHALLENGE.survey(real_data / "cells")
    assert inventory.problems == ()
    assert inventory.facts["train images"] == "37 (1000x1000)"
    assert inventory.facts["train masks"] == "37"
    if (real_data / "cells" / "test").is_dir():  # not every copy has it
        assert [case.id for case in CHALLENGE.read_cases(real_data / "cells", "test")] == list(map(str, range(14)))
