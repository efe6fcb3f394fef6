"""The folder of the forgery challenge: every layout is read, and every fault is named with its file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import cut, only_problem, refused_solution
from PIL import Image

from handlens.challenges.forgery import CHALLENGE
from handlens.errors import DataError
from handlens.io.images import read_header, write_png
from handlens.masks.rle import decode

SETTINGS = CHALLENGE.settings()
IMAGE, MASK = "train_images/forged/1000.png", "train_masks/1000.npy"
LOOKALIKE = "1004"
"""The id of the one authentic training image without a forged twin."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forgery") / "sound"
    folder.mkdir()
    CHALLENGE.write_sample(folder, seed=1, cases=2, size=96, settings=CHALLENGE.settings())
    (folder / "train_images" / "authentic" / "1005.png").unlink()  # one look-alike is enough here
    return folder


# --- what is there -------------------------------------------------------------------------------


def test_a_sound_folder_has_no_problems(folder: Path) -> None:
    inventory = CHALLENGE.survey(folder)
    assert inventory.problems == ()
    facts = [inventory.facts[kind] for kind in ("authentic", "forged", "test")]
    assert facts == ["3 images", "2 images", "2 images"]
    assert inventory.facts["instances in an image"] == "1: 1, 2: 1"


def test_test_images_are_read(folder: Path) -> None:
    cases = CHALLENGE.read_cases(folder, "test")
    assert [case.id for case in cases] == ["1002", "1003"]
    for case in cases:
        assert case.path == folder / "test_images" / f"{case.id}.png"
        assert case.shape == read_header(case.path).shape


def test_twins_are_told_apart_and_stay_in_one_group(folder: Path) -> None:
    (folder / "train_images" / "authentic" / "1001.png").unlink()
    cases = CHALLENGE.read_cases(folder, "train")
    assert {case.id: case.group for case in cases} == {
        "authentic/1000": "1000",
        "forged/1000": "1000",
        "1001": "1001",
        LOOKALIKE: LOOKALIKE,
    }


def test_a_folder_of_pictures_alone_is_a_test_part(folder: Path) -> None:
    pictures = folder / "test_images"
    assert [case.id for case in CHALLENGE.read_cases(pictures, "test")] == ["1002", "1003"]
    assert CHALLENGE.read_cases(pictures, "train") == []
    inventory = CHALLENGE.survey(pictures)
    assert inventory.problems == ()
    assert inventory.facts["test"] == "2 images"


def test_a_picture_beside_the_training_folders_is_no_case(folder: Path) -> None:
    shutil.rmtree(folder / "test_images")
    write_png(folder / "preview.png", np.zeros((5, 6), np.uint8))
    assert CHALLENGE.read_cases(folder, "test") == []
    assert len(CHALLENGE.read_cases(folder, "train")) == 5


def test_supplemental_images_are_forged_training_images(folder: Path) -> None:
    for kind, source in (("images", IMAGE), ("masks", MASK)):
        place = folder / f"supplemental_{kind}" / f"7{Path(source).suffix}"
        place.parent.mkdir()
        shutil.copy(folder / source, place)
    assert CHALLENGE.survey(folder).facts["supplemental"] == "1 images"
    assert CHALLENGE.survey(folder).problems == ()
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    case = next(case for case in truth.cases if case.id == "7")
    assert len(truth.read(case)) == 1


def test_the_truth_is_read_from_masks(folder: Path) -> None:
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    ids = ["authentic/1000", "authentic/1001", LOOKALIKE, "forged/1000", "forged/1001"]
    assert [case.id for case in truth.cases] == ids
    assert all(truth.read(case) == () for case in truth.cases[:3])
    case = truth.cases[3]
    instances = truth.read(case)
    stored = np.load(folder / MASK)
    assert len(instances) == len(stored)
    for runs, mask in zip(instances, stored, strict=True):
        np.testing.assert_array_equal(decode(runs, case.shape, order="columns"), mask.astype(bool))


@pytest.mark.parametrize("place", ["truth", "truth/solution.csv"])
def test_the_truth_of_the_test_part_is_its_solution_file(folder: Path, place: str) -> None:
    truth = CHALLENGE.open_truth(folder / place, SETTINGS)
    shapes = {case.id: case.shape for case in CHALLENGE.read_cases(folder, "test")}
    for case in truth.cases:
        instances = truth.read(case)
        assert case.shape == (shapes[case.id] if instances else None)


def test_a_solution_file_without_shapes_is_a_truth(tmp_path: Path) -> None:
    (tmp_path / "solution.csv").write_text('case_id,annotation\n12,"[1, 2, 5, 1];[9, 1]"\n13,authentic\n')
    truth = CHALLENGE.open_truth(tmp_path, SETTINGS)
    assert [(case.id, case.shape) for case in truth.cases] == [("12", None), ("13", None)]
    first, second = truth.read(truth.cases[0])
    assert decode(first, (3, 4), order="columns").ravel(order="F").nonzero()[0].tolist() == [0, 1, 4]
    assert decode(second, (3, 4), order="columns").ravel(order="F").nonzero()[0].tolist() == [8]
    assert truth.read(truth.cases[1]) == ()


def test_a_solution_past_its_shape_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "solution.csv").write_text('case_id,annotation,shape\n11,authentic,authentic\n12,"[12, 2]","[3, 4]"\n')
    truth = CHALLENGE.open_truth(tmp_path, SETTINGS)
    assert [case.shape for case in truth.cases] == [None, (3, 4)]
    with pytest.raises(DataError, match=r"solution\.csv: line 3, case_id 12: .*12"):
        truth.read(truth.cases[1])


def test_names_and_litter(folder: Path) -> None:
    """Upper-case endings are pictures; hidden files, texts and folders are not, nor are hidden masks."""
    (folder / IMAGE).rename(folder / "train_images/forged/1000.PNG")
    for place in ("train_images/forged/._1000.png", "train_masks/._1000.npy", "test_images/notes.txt"):
        (folder / place).write_bytes(b"left by another system")
    (folder / "test_images" / "old.png").mkdir()
    assert CHALLENGE.survey(folder).problems == ()
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    assert len([truth.read(case) for case in truth.cases]) == 5


@pytest.mark.parametrize("mode", ["RGBA", "L", "I;16", "P"])
def test_pictures_of_every_kind_are_cases(folder: Path, mode: str) -> None:
    path = folder / "test_images" / "1002.png"
    with Image.open(path) as opened:
        grey = opened.convert("L")
        changed = Image.fromarray(np.asarray(grey).astype(np.uint16)) if mode == "I;16" else opened.convert(mode)
    changed.save(path)
    assert CHALLENGE.survey(folder).problems == ()
    assert CHALLENGE.read_cases(folder, "test")[0].shape == (changed.height, changed.width)


# --- what is wrong -------------------------------------------------------------------------------


def ones(folder: Path, *extra: int, dtype: Any = np.uint8) -> Any:
    return np.ones((*extra, *read_header(folder / IMAGE).shape), dtype)


BROKEN_MASKS = {
    "another shape": (lambda folder: ones(folder, 1)[:, :, :-1], "they must be equal"),
    "transposed": (lambda folder: np.ones((1, 5, 4), np.uint8), "the mask is 5x4, its image"),
    "wrong dtype": (lambda folder: ones(folder, 1, dtype=np.float32), "float32; a mask is uint8 of (instances"),
    "wide integers": (lambda folder: ones(folder, 1, dtype=np.int64), "int64; a mask is uint8 of (instances"),
    "two axes": (lambda folder: ones(folder), "uint8; a mask is uint8 of (instances, height, width)"),
    "four axes": (lambda folder: ones(folder, 1, 1), "uint8; a mask is uint8 of (instances, height, width)"),
    "no instances": (lambda folder: ones(folder, 0), "a mask without instances"),
}


@pytest.mark.parametrize("kind", BROKEN_MASKS)
def test_a_wrong_mask_is_named(folder: Path, kind: str) -> None:
    make, message = BROKEN_MASKS[kind]
    np.save(folder / MASK, make(folder))
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == MASK
    assert message in problem.what
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    with pytest.raises(DataError) as caught:
        truth.read(next(case for case in truth.cases if case.id == "forged/1000"))
    assert caught.value.file == folder / MASK
    assert message in str(caught.value)


def test_other_values_than_0_and_1_are_refused_when_read(folder: Path) -> None:
    np.save(folder / MASK, ones(folder, 1) * np.uint8(255))
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    with pytest.raises(DataError, match=r"1000\.npy: values up to 255; a mask holds 0 and 1"):
        truth.read(next(case for case in truth.cases if case.id == "forged/1000"))


def test_a_pickled_mask_is_named_and_not_opened(folder: Path) -> None:
    np.save(folder / MASK, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == MASK
    assert "not a readable .npy array" in problem.what


@pytest.mark.parametrize("place", [IMAGE, MASK, "test_images/1003.png", "train_images/authentic/1001.png"])
def test_a_truncated_file_is_named(folder: Path, place: str) -> None:
    cut(folder / place)
    assert only_problem(CHALLENGE, folder).file == place


@pytest.mark.parametrize("content", [b"", b"no picture at all", b"\x89PNG\r\n\x1a\n" + bytes(99)])
def test_an_unreadable_picture_is_named(folder: Path, content: bytes) -> None:
    (folder / IMAGE).write_bytes(content)
    assert only_problem(CHALLENGE, folder).file == IMAGE
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    (case,) = [case for case in truth.cases if case.fault]
    with pytest.raises(DataError, match=IMAGE):
        truth.read(case)


def test_a_mask_without_an_image_is_named(folder: Path) -> None:
    (folder / IMAGE).unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what.split(":")[0]) == (MASK, "a mask without an image")


def test_masks_without_an_image_folder_are_named(folder: Path) -> None:
    shutil.rmtree(folder / "train_images" / "forged")
    files = [problem.file for problem in CHALLENGE.survey(folder).problems]
    assert files == [MASK, "train_masks/1001.npy"]


def test_an_image_without_a_mask_is_named(folder: Path) -> None:
    (folder / MASK).unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == (MASK, "image 1000 has no mask: add it")
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    with pytest.raises(DataError, match=r"1000\.npy: no mask for the forged image 1000\.png: add it"):
        truth.read(next(case for case in truth.cases if case.id == "forged/1000"))


@pytest.mark.parametrize("place", ["train_images/forged/1000", "test_images/1002"])
def test_an_id_twice_is_named(folder: Path, place: str) -> None:
    with Image.open(folder / f"{place}.png") as opened:
        opened.save(folder / f"{place}.tif")
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == f"{place}.tif"
    assert problem.what == f"a second image with case_id {Path(place).name}: rename one"


def test_every_problem_is_named_not_the_first_alone(folder: Path) -> None:
    cut(folder / IMAGE)
    cut(folder / MASK)
    np.save(folder / "train_masks/1001.npy", np.ones((1, 3, 3), np.uint8))
    np.save(folder / "train_masks/77.npy", np.ones((1, 3, 3), np.uint8))
    cut(folder / "test_images/1002.png")
    cut(folder / "test_images/1003.png")
    assert sorted(problem.file for problem in CHALLENGE.survey(folder).problems) == [
        "test_images/1002.png",
        "test_images/1003.png",
        IMAGE,
        MASK,
        "train_masks/1001.npy",
        "train_masks/77.npy",
    ]


@pytest.mark.parametrize("inside", ["", "test_images", "train_images/forged"])
def test_a_folder_without_pictures_is_a_problem(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    problem = only_problem(CHALLENGE, tmp_path)
    assert problem.file == str(tmp_path)
    assert "no pictures: expected them here, or in train_images/" in problem.what
    assert CHALLENGE.read_cases(tmp_path, "train") == CHALLENGE.read_cases(tmp_path, "test") == []


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_truth_that_is_not_there_is_told_what_to_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no labelled images: expected train_images/authentic") as caught:
        CHALLENGE.open_truth(tmp_path / name, SETTINGS)
    assert caught.value.file == tmp_path / name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case_id,pixels\n0,authentic\n", "the columns are case_id, pixels; a solution has case_id, annotation"),
        ("", "the columns are none; a solution has case_id, annotation"),
        ("case_id,annotation\n", "no rows under the header"),
        ("case_id,annotation\n0,authentic\n0,authentic\n", "case_id 0 is duplicated"),
        ("case_id,annotation\n0\n", "line 2: 1 field, the header has 2"),
    ],
)
def test_a_broken_solution_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "solution.csv"
    assert message in refused_solution(CHALLENGE, file, text, opened=tmp_path)


@pytest.mark.parametrize("instance", ["", [], [1], [0, 1], [1, 0], [3, 1, 1, 1], ["a", 1], {"a": 1}])
def test_a_broken_cell_of_a_solution_is_refused_with_its_line(tmp_path: Path, instance: Any) -> None:
    cell = json.dumps(instance).replace('"', '""')
    (tmp_path / "solution.csv").write_text(f'case_id,annotation\n1,"{cell}"\n')
    truth = CHALLENGE.open_truth(tmp_path, SETTINGS)
    with pytest.raises(DataError, match="line 2, case_id 1: "):
        truth.read(truth.cases[0])


# --- real data -----------------------------------------------------------------------------------


def test_the_real_folder_has_no_problems(real_data: Path) -> None:
    folder = real_data / "forgery" / "real"
    inventory = CHALLENGE.survey(folder)
    assert inventory.problems == ()
    assert (inventory.facts["authentic"], inventory.facts["forged"]) == ("40 images", "52 images")
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    assert len({case.id for case in truth.cases}) == 92
    assert len({case.group for case in truth.cases}) == 52
    assert sum(map(bool, map(truth.read, truth.cases))) == 52


def test_a_solution_in_the_data_folder_is_not_the_training_truth(folder: Path) -> None:
    shutil.copy(folder / "truth" / "solution.csv", folder / "solution.csv")
    train = {case.id for case in CHALLENGE.read_cases(folder, "train")}
    assert {case.id for case in CHALLENGE.open_truth(folder, SETTINGS).cases} == train


@pytest.mark.parametrize("shape", [(2_097_152, 64, 64), (8, 32_768, 32_768)])
def test_a_mask_that_claims_gigabytes_is_refused_before_it_is_read(folder: Path, shape: tuple[int, int, int]) -> None:
    with (folder / MASK).open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
        stream.truncate(stream.tell() + 8 * 2**30)  # a hole: it takes no room on the disk
    assert [problem.file for problem in CHALLENGE.survey(folder).problems] == [MASK]
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    case = next(case for case in truth.cases if case.id.endswith("1000") and "authentic" not in case.id)
    with pytest.raises(DataError, match="instances; the most is|the mask is"):
        truth.read(case)
