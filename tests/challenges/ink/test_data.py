"""The folder of the ink challenge: every layout is read, and every fault is named with its file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile
from folders import cut, only_problem, refused_solution

from handlens.challenges.ink import CHALLENGE
from handlens.challenges.ink.options import InkSettings
from handlens.errors import DataError
from handlens.io.images import read_header, read_mask, write_png
from handlens.masks.rle import decode

SETTINGS = CHALLENGE.settings()
STACK = "train/1/surface_volume"
LABEL, MASK = "train/1/inklabels.png", "train/1/mask.png"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ink") / "sound"
    folder.mkdir()
    CHALLENGE.write_sample(folder, seed=1, cases=2, size=96, settings=InkSettings())
    for volume in folder.glob("t*/*/surface_volume"):  # six slices are enough here, and quicker to copy
        for path in sorted(volume.iterdir())[6:]:
            path.unlink()
    return folder


@pytest.fixture
def shape(sound: Path) -> tuple[int, int]:
    return read_header(sound / MASK).shape


# --- what is there -------------------------------------------------------------------------------


def test_a_sound_folder_has_no_problems(folder: Path, shape: tuple[int, int]) -> None:
    inventory = CHALLENGE.survey(folder)
    assert inventory.problems == ()
    slices = f"6 slices of {shape[0]}x{shape[1]}, uint16"
    assert inventory.facts == {
        "train 1": f"{slices}, mask.png, inklabels.png",
        "train 2": f"{slices}, mask.png, inklabels.png",
        "test a": f"{slices}, mask.png",
        "test b": f"{slices}, mask.png",
    }


@pytest.mark.parametrize(("part", "ids"), [("train", ["1", "2"]), ("test", ["a", "b"])])
def test_both_parts_are_read(folder: Path, shape: tuple[int, int], part: str, ids: list[str]) -> None:
    cases = CHALLENGE.read_cases(folder, part)
    assert [case.id for case in cases] == ids
    assert [case.path for case in cases] == [folder / part / id for id in ids]
    assert {case.shape for case in cases} == {shape}


@pytest.mark.parametrize(("part", "other", "ids"), [("train", "test", ["1", "2"]), ("test", "train", ["a", "b"])])
def test_a_part_may_stand_alone(folder: Path, part: str, other: str, ids: list[str]) -> None:
    assert [case.id for case in CHALLENGE.read_cases(folder / part, part)] == ids
    assert CHALLENGE.read_cases(folder / part, other) == []
    assert CHALLENGE.survey(folder / part).problems == ()


@pytest.mark.parametrize(("place", "part", "other"), [("train/2", "train", "test"), ("test/a", "test", "train")])
def test_a_single_fragment_may_stand_alone(folder: Path, place: str, part: str, other: str) -> None:
    fragment = folder / place
    assert [case.id for case in CHALLENGE.read_cases(fragment, part)] == [fragment.name]
    assert CHALLENGE.read_cases(fragment, other) == []
    inventory = CHALLENGE.survey(fragment)
    assert inventory.problems == ()
    assert list(inventory.facts) == [f"{part} {fragment.name}"]


def test_a_fragment_has_its_name_from_within_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "train" / "2")
    assert [case.id for case in CHALLENGE.read_cases(Path(), "train")] == ["2"]
    assert list(CHALLENGE.survey(Path()).facts) == ["train 2"]
    truth = CHALLENGE.open_truth(Path(), SETTINGS)
    assert truth.read(truth.cases[0]).area > 0


def test_a_link_keeps_its_own_name(folder: Path, tmp_path: Path) -> None:
    (folder / "train" / "1").rename(tmp_path / "scan-of-may")
    (folder / "train" / "1").symlink_to(tmp_path / "scan-of-may")
    assert [case.id for case in CHALLENGE.read_cases(folder, "train")] == ["1", "2"]
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    assert [truth.read(case).area > 0 for case in truth.cases] == [True, True]


@pytest.mark.parametrize(
    ("place", "ids"), [("", ["1", "2"]), ("train", ["1", "2"]), ("train/1", ["1"]), ("truth", ["a", "b"])]
)
def test_the_truth_is_read_from_labels(folder: Path, place: str, ids: list[str]) -> None:
    truth = CHALLENGE.open_truth(folder / place, SETTINGS)
    assert [case.id for case in truth.cases] == ids
    for case in truth.cases:
        label = read_mask(case.path / "inklabels.png")
        assert label.any()
        np.testing.assert_array_equal(decode(truth.read(case), case.shape, order="rows"), label)


def test_the_organisers_run_length_file_is_a_truth(folder: Path, shape: tuple[int, int]) -> None:
    truth = CHALLENGE.open_truth(folder / "train" / "1" / "inklabels_rle.csv", SETTINGS)
    (case,) = truth.cases
    assert (case.id, case.shape) == ("1", None)
    np.testing.assert_array_equal(decode(truth.read(case), shape, order="rows"), read_mask(folder / LABEL))


def test_a_solution_file_may_say_the_shapes(tmp_path: Path) -> None:
    (tmp_path / "solution.csv").write_text('Id,Predicted,shape\na,2 3,"[2, 3]"\nb,5 3,"[2, 3]"\n')
    truth = CHALLENGE.open_truth(tmp_path / "solution.csv", SETTINGS)
    assert [case.shape for case in truth.cases] == [(2, 3), (2, 3)]
    assert decode(truth.read(truth.cases[0]), (2, 3), order="rows").tolist() == [
        [False, True, True],
        [True, False, False],
    ]
    with pytest.raises(DataError, match=r"solution\.csv: line 3, Id b: .*the image has 6"):
        truth.read(truth.cases[1])


def test_a_fragment_without_a_mask_is_read_from_its_slices(folder: Path, shape: tuple[int, int]) -> None:
    (folder / "test" / "a" / "mask.png").unlink()
    assert CHALLENGE.read_cases(folder, "test")[0].shape == shape


def test_litter_is_passed_over(folder: Path) -> None:
    (folder / "test" / ".ipynb_checkpoints").mkdir()
    (folder / "test" / "notes.txt").write_text("x")
    (folder / "test" / "c.png").write_text("x")
    (folder / STACK / "._00.tif").write_bytes(b"left by another system")
    (folder / STACK / "old.tif").write_bytes(b"not a slice")
    assert CHALLENGE.survey(folder).problems == ()
    assert [case.id for case in CHALLENGE.read_cases(folder, "test")] == ["a", "b"]


# --- what is wrong -------------------------------------------------------------------------------


def test_a_missing_slice_is_named(folder: Path) -> None:
    (folder / STACK / "03.tif").unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == (STACK, "slice 03 is missing: copy it again")


def test_a_slice_of_another_size_is_named(folder: Path, shape: tuple[int, int]) -> None:
    tifffile.imwrite(folder / STACK / "02.tif", np.zeros((5, 7), np.uint16), photometric="minisblack")
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == f"{STACK}/02.tif"
    assert problem.what.startswith(f"5x7 uint16, but 00.tif is {shape[0]}x{shape[1]} uint16")


def test_a_truncated_slice_is_named(folder: Path) -> None:
    cut(folder / STACK / "04.tif")
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == f"{STACK}/04.tif"
    assert "copy it again" in problem.what


def test_a_slice_number_twice_is_named(folder: Path) -> None:
    shutil.copy(folder / STACK / "03.tif", folder / STACK / "3.tiff")
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == f"{STACK}/3.tiff"
    assert "slice 3 is duplicated" in problem.what


def test_a_fragment_without_slices_is_named(folder: Path) -> None:
    shutil.rmtree(folder / STACK)
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == ("train/1", "no surface_volume/: add the slices")


def test_a_volume_without_slices_is_named(folder: Path) -> None:
    for path in (folder / STACK).iterdir():
        path.unlink()
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == STACK
    assert "no slices; expected TIFF files" in problem.what


@pytest.mark.parametrize("place", [MASK, LABEL, "test/b/mask.png"])
def test_a_missing_picture_is_named(folder: Path, place: str) -> None:
    (folder / place).unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == (place, "not there: add it")


@pytest.mark.parametrize("place", [MASK, LABEL, "test/b/mask.png"])
def test_a_truncated_picture_is_named(folder: Path, place: str) -> None:
    cut(folder / place, 30)
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == place
    assert "truncated PNG" in problem.what


@pytest.mark.parametrize("place", [MASK, LABEL, "test/b/mask.png"])
def test_a_picture_of_another_shape_is_named(folder: Path, shape: tuple[int, int], place: str) -> None:
    write_png(folder / place, np.zeros((4, 9), bool))
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == place
    assert problem.what == f"4x9, but the slices are {shape[0]}x{shape[1]}: they must be equal"


def test_without_slices_a_label_is_compared_with_the_mask(folder: Path, shape: tuple[int, int]) -> None:
    shutil.rmtree(folder / STACK)
    write_png(folder / LABEL, np.zeros((4, 9), bool))
    problems = CHALLENGE.survey(folder).problems
    assert [problem.file for problem in problems] == ["train/1", LABEL]
    assert problems[1].what == f"4x9, but mask.png is {shape[0]}x{shape[1]}: they must be equal"


def test_a_label_of_another_shape_is_refused_when_read(folder: Path, shape: tuple[int, int]) -> None:
    write_png(folder / LABEL, np.zeros((4, 9), bool))
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    with pytest.raises(DataError, match=f"the label is 4x9, its fragment {shape[0]}x{shape[1]}") as caught:
        truth.read(truth.cases[0])
    assert caught.value.file == folder / LABEL
    truth.read(truth.cases[1])


def test_an_empty_fragment_is_not_left_out_in_silence(folder: Path) -> None:
    """Every folder under test/ is a row of the submission."""
    (folder / "test" / "c").mkdir()
    files = [problem.file for problem in CHALLENGE.survey(folder).problems]
    assert files == ["test/c", "test/c/mask.png"]
    assert [(case.id, case.shape is None) for case in CHALLENGE.read_cases(folder, "test")][-1] == ("c", True)


def test_every_problem_is_named_not_the_first_alone(folder: Path) -> None:
    (folder / STACK / "01.tif").unlink()
    cut(folder / STACK / "03.tif")
    cut(folder / STACK / "04.tif")
    write_png(folder / MASK, np.zeros((4, 9), bool))
    (folder / LABEL).write_bytes(b"no picture")
    shutil.rmtree(folder / "test" / "a" / "surface_volume")
    (folder / "test" / "b" / "mask.png").unlink()
    assert [problem.file for problem in CHALLENGE.survey(folder).problems] == [
        STACK,
        f"{STACK}/03.tif",
        f"{STACK}/04.tif",
        MASK,
        LABEL,
        "test/a",
        "test/b/mask.png",
    ]


@pytest.mark.parametrize("inside", ["", "train", "notes"])
def test_a_folder_without_fragments_is_a_problem(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    problem = only_problem(CHALLENGE, tmp_path)
    assert problem.file == str(tmp_path)
    assert "no fragments: expected train/<id>/surface_volume/00.tif" in problem.what
    assert CHALLENGE.read_cases(tmp_path, "train") == CHALLENGE.read_cases(tmp_path, "test") == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for call in (
        lambda path: CHALLENGE.survey(path),
        lambda path: CHALLENGE.read_cases(path, "test"),
        lambda path: CHALLENGE.open_truth(path, SETTINGS),
    ):
        with pytest.raises(DataError, match="no such folder") as caught:
            call(tmp_path / "nowhere")
        assert caught.value.file == tmp_path / "nowhere"


def test_a_folder_without_labels_is_no_truth(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no <fragment>/inklabels\.png here or under train/") as caught:
        CHALLENGE.open_truth(folder / "test", SETTINGS)
    assert caught.value.file == folder / "test"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Id,pixels\na,1 2\n", "the columns are Id, pixels; a solution has Id, Predicted"),
        ("", "the columns are none; a solution has Id, Predicted"),
        ("Id,Predicted\n", "no rows under the header"),
        ("Id,Predicted\na,1 2\na,1 2\n", "Id a is duplicated"),
        ("Id,Predicted\na,1 2,x\n", "line 2: 3 fields, the header has 2"),
    ],
)
def test_a_broken_solution_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "solution.csv"
    assert message in refused_solution(CHALLENGE, file, text, opened=file)


@pytest.mark.parametrize("cell", ["1 2 3", "0 1", "1 x", "5 1 1 1"])
def test_a_broken_cell_of_a_solution_is_refused_with_its_line(tmp_path: Path, cell: str) -> None:
    (tmp_path / "solution.csv").write_text(f"Id,Predicted\na,1 2\nb,{cell}\n")
    truth = CHALLENGE.open_truth(tmp_path / "solution.csv", SETTINGS)
    with pytest.raises(DataError, match="line 3, Id b: "):
        truth.read(truth.cases[1])


# --- real data -----------------------------------------------------------------------------------


def test_the_real_crop_has_no_problems(real_data: Path) -> None:
    folder = real_data / "ink" / "real_crop"
    inventory = CHALLENGE.survey(folder)
    assert inventory.problems == ()
    assert inventory.facts == {"train real_crop": "12 slices of 512x512, uint8, mask.png, inklabels.png"}
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    label = read_mask(folder / "inklabels.png")
    assert truth.read(truth.cases[0]).area == int(label.sum()) > 0


def test_real_labels_without_volumes_are_told_so(real_data: Path) -> None:
    inventory = CHALLENGE.survey(real_data / "ink" / "labels")
    assert [(problem.file, problem.what) for problem in inventory.problems] == [
        ("train/1", "no surface_volume/: add the slices"),
        ("train/2", "no surface_volume/: add the slices"),
    ]
    shapes = [case.shape for case in CHALLENGE.read_cases(real_data / "ink" / "labels", "train")]
    assert shapes == [(8181, 6330), (14830, 9506)]
