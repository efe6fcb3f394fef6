"""The folder of the lesions challenge: every spelling is read, and every fault is named with file and line."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from folders import cut, only_problem
from PIL import Image

from handlens.challenges.lesions import CHALLENGE
from handlens.challenges.lesions.data import read_demographics
from handlens.challenges.lesions.options import LesionsSettings
from handlens.errors import DataError
from handlens.io.images import write_jpeg, write_png

SETTINGS = CHALLENGE.settings()
LABELS = "train/labels.csv"
Table = list[list[str]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lesions") / "sound"
    folder.mkdir()
    CHALLENGE.write_sample(folder, seed=1, cases=2, size=32, settings=LesionsSettings())
    return folder


def read_table(path: Path) -> Table:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def write_table(path: Path, table: Table, delimiter: str = ",") -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(table)


def change(folder: Path, column: str, value: str, line: int = 4) -> str:
    """Write `value` into one row of the training labels; returns the row's file name."""
    table = read_table(folder / LABELS)
    table[line - 1][table[0].index(column)] = value
    write_table(folder / LABELS, table)
    return table[line - 1][0]


# --- what is there -------------------------------------------------------------------------------


def test_a_sound_folder_has_no_problems(folder: Path) -> None:
    inventory = CHALLENGE.survey(folder)
    assert inventory.problems == ()
    assert inventory.facts["train photographs"] == "20"
    assert inventory.facts["test photographs"] == "2"
    assert inventory.facts["train rows"].startswith("20")
    assert inventory.facts["train warning"].startswith("20 photographs have a side under 512")


@pytest.mark.parametrize("part", ["train", "test"])
def test_both_parts_are_read_in_the_order_of_their_rows(folder: Path, part: str) -> None:
    table = read_table(folder / part / "labels.csv")
    write_table(folder / part / "labels.csv", [table[0], *reversed(table[1:])])
    cases = CHALLENGE.read_cases(folder, part)
    assert [case.id for case in cases] == [row[0] for row in reversed(table[1:])]
    assert all(case.path == folder / part / "images" / case.id and case.path.is_file() for case in cases)
    groups = [row[table[0].index("lesion_id")] for row in reversed(table[1:])]
    assert [case.group for case in cases] == groups


@pytest.mark.parametrize(("part", "other"), [("train", "test"), ("test", "train")])
def test_a_part_may_stand_alone(folder: Path, part: str, other: str) -> None:
    ids = [case.id for case in CHALLENGE.read_cases(folder, part)]
    assert [case.id for case in CHALLENGE.read_cases(folder / part, part)] == ids
    assert CHALLENGE.read_cases(folder / part, other) == []
    assert CHALLENGE.survey(folder / part).problems == ()


def test_the_photographs_may_lie_beside_the_table(folder: Path) -> None:
    for path in (folder / "train" / "images").iterdir():
        path.rename(folder / "train" / path.name)
    (folder / "train" / "images").rmdir()
    assert CHALLENGE.survey(folder).problems == ()
    assert all(case.path.is_file() for case in CHALLENGE.read_cases(folder, "train"))


@pytest.mark.parametrize("place", ["test/images", "test"])
def test_a_folder_of_pictures_alone_is_a_test_part(folder: Path, place: str) -> None:
    (folder / "test" / "labels.csv").unlink()
    names = sorted(path.name for path in (folder / "test" / "images").iterdir())
    cases = CHALLENGE.read_cases(folder / place, "test")
    assert [case.id for case in cases] == names
    assert all(case.path.is_file() for case in cases)
    assert {tuple(case.details.values()) for case in cases} == {(None, None, None)}
    assert CHALLENGE.read_cases(folder / place, "train") == []
    assert CHALLENGE.survey(folder / place).problems == ()


@pytest.mark.parametrize("place", ["", "train", "train/labels.csv"])
def test_the_truth_is_read_from_labels(folder: Path, place: str) -> None:
    truth = CHALLENGE.open_truth(folder / place, SETTINGS)
    table = read_table(folder / LABELS)
    assert [(case.id, truth.read(case)) for case in truth.cases] == [(row[0], row[1]) for row in table[1:]]


def test_the_truth_of_the_test_part_needs_no_photographs(folder: Path) -> None:
    truth = CHALLENGE.open_truth(folder / "truth", SETTINGS)
    assert [case.id for case in truth.cases] == [case.id for case in CHALLENGE.read_cases(folder, "test")]


def test_semicolons_and_upper_case_headers_are_fine(folder: Path) -> None:
    expected = CHALLENGE.read_cases(folder, "train")
    table = read_table(folder / LABELS)
    table[0] = [name.upper() for name in table[0]]
    write_table(folder / LABELS, table, delimiter=";")
    assert CHALLENGE.survey(folder).problems == ()
    assert CHALLENGE.read_cases(folder, "train") == expected
    assert len(CHALLENGE.open_truth(folder, SETTINGS).cases) == 20


@pytest.mark.parametrize("column", ["NewFileName", "filepath", "image_path", "FILENAME", " filename "])
@pytest.mark.parametrize("prefix", ["", "images/"])
def test_the_file_column_has_many_names(folder: Path, column: str, prefix: str) -> None:
    table = read_table(folder / LABELS)
    table[0][0] = column
    for row in table[1:]:
        row[0] = prefix + row[0]
    write_table(folder / LABELS, table)
    assert CHALLENGE.survey(folder).problems == ()
    cases = CHALLENGE.read_cases(folder, "train")
    assert [case.id for case in cases] == [row[0] for row in table[1:]]
    assert all(case.path.is_file() for case in cases)


@pytest.mark.parametrize("column", ["Class", "LABEL", "class"])
def test_the_label_column_has_two_names_and_classes_any_case(folder: Path, column: str) -> None:
    table = read_table(folder / LABELS)
    expected = [row[1] for row in table[1:]]
    table[0][1] = column
    for row in table[1:]:
        row[1] = row[1].lower()
    write_table(folder / LABELS, table)
    assert CHALLENGE.survey(folder).problems == ()
    truth = CHALLENGE.open_truth(folder, SETTINGS)
    assert [truth.read(case) for case in truth.cases] == expected


def test_the_later_edition_has_classes_of_its_own(folder: Path) -> None:
    table = read_table(folder / LABELS)
    table[0].append("label_11")
    for row in table[1:]:
        row.append("AKIEC" if row[1] == "AK" else "INF")
    write_table(folder / LABELS, table)
    assert CHALLENGE.survey(folder).problems == ()
    truth = CHALLENGE.open_truth(folder, CHALLENGE.settings(taxonomy="eleven"))
    assert {truth.read(case) for case in truth.cases} == {"AKIEC", "INF"}
    assert "AK" in {CHALLENGE.open_truth(folder, SETTINGS).read(case) for case in truth.cases}


def test_a_table_with_the_later_editions_labels_alone_is_a_training_part(folder: Path) -> None:
    table = read_table(folder / LABELS)
    table[0][1] = "label_11"
    for row in table[1:]:
        row[1] = "INF"
    table[3][1] = "nonsense"
    write_table(folder / LABELS, table)
    problem = only_problem(CHALLENGE, folder)
    assert (problem.line, problem.what.split(";")[0]) == (4, "unknown class 'nonsense'")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("50", "m", "arm"), (50, "m", 1)),
        (("0", "F", "Torso"), (0, "f", 7)),
        (("120", "Male", "3"), (120, "m", 3)),
        (("62.5", "FEMALE", "7"), (62.5, "f", 7)),
        (("", "", ""), (None, None, None)),
        (("-1", "-1", "-1"), (None, None, None)),
        (("NaN", "unknown", "None"), (None, None, None)),
        (("45.0", "1.0", "2.0"), (45, "m", 2)),
        (("-1.0", "0", "-1.0"), (None, "f", None)),
    ],
)
def test_demographics_in_all_their_spellings(texts: tuple[str, ...], expected: tuple[object, ...]) -> None:
    found = read_demographics(dict(zip(("age", "gender", "location"), texts, strict=True)))
    assert tuple(found[name] for name in ("age", "gender", "location")) == expected


def test_sex_and_site_are_other_names(folder: Path) -> None:
    """Columns that were passed over in silence would make everybody unknown."""
    expected = [case.details for case in CHALLENGE.read_cases(folder, "train")]
    table = read_table(folder / LABELS)
    names = {"Gender": "Sex", "Location": "site"}
    write_table(folder / LABELS, [[names.get(name, name) for name in table[0]], *table[1:]])
    assert [case.details for case in CHALLENGE.read_cases(folder, "train")] == expected
    assert len({details["location"] for details in expected}) > 1


def test_numeric_locations_are_accepted(folder: Path) -> None:
    names = ["arm", "feet", "genitalia", "hand", "head", "leg", "torso"]
    expected = [case.details["location"] for case in CHALLENGE.read_cases(folder, "train")]
    table = read_table(folder / LABELS)
    place = table[0].index("Location")
    for row in table[1:]:
        row[place] = str(names.index(row[place]) + 1) if row[place] else ""
    write_table(folder / LABELS, table)
    assert CHALLENGE.survey(folder).problems == ()
    assert [case.details["location"] for case in CHALLENGE.read_cases(folder, "train")] == expected


def test_names_and_litter(folder: Path) -> None:
    """Upper-case endings are photographs; hidden files, other tables' leftovers and folders are not."""
    table = read_table(folder / LABELS)
    old = table[1][0]
    table[1][0] = old.replace(".jpg", ".JPG")
    (folder / "train" / "images" / old).rename(folder / "train" / "images" / table[1][0])
    write_table(folder / LABELS, table)
    (folder / LABELS).rename(folder / "train" / "metadata.csv")
    for name in ("._metadata.csv", "sample_submission.csv", "images/._x.jpg", "images/notes.txt"):
        (folder / "train" / name).write_bytes(b"left by another system")
    (folder / "train" / "images" / "folder.jpg").mkdir()
    assert CHALLENGE.survey(folder).problems == ()
    assert len(CHALLENGE.read_cases(folder, "train")) == 20
    assert len(CHALLENGE.open_truth(folder, SETTINGS).cases) == 20


# --- what is wrong in a row ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("label", "WART", "unknown class 'WART'; the classes are AK, BCC"),
        ("label", "", "unknown class ''"),
        ("Age", "121", "age 121 is out of range; expected 0 to 120"),
        ("Age", "-5", "age -5 is out of range; expected 0 to 120"),
        ("Age", "inf", "age 'inf' is not a number"),
        ("Age", "old", "age 'old' is not a number"),
        ("Gender", "x", "gender 'x'; expected m, f, male, female or nothing"),
        ("Location", "elbow", "location 'elbow'; expected 1 to 7 or one of arm, feet"),
        ("Location", "8", "location '8'; expected 1 to 7"),
        ("Location", "0", "location '0'; expected 1 to 7"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(folder: Path, column: str, value: str, message: str) -> None:
    name = change(folder, column, value, line=4)
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.line, problem.id) == (LABELS, 4, name)
    assert message in problem.what
    with pytest.raises(DataError, match="line 4: ") as caught:
        CHALLENGE.open_truth(folder, SETTINGS)
    assert caught.value.file == folder / LABELS
    if column != "label":
        with pytest.raises(DataError, match="line 4: ") as caught:
            CHALLENGE.read_cases(folder, "train")
        assert caught.value.file == folder / LABELS
        assert message in str(caught.value)


def test_a_row_without_its_photograph_is_named(folder: Path) -> None:
    name = read_table(folder / LABELS)[3][0]
    (folder / "train" / "images" / name).unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.line, problem.id) == (LABELS, 4, name)
    assert problem.what == "no such photograph: add it or remove the row"


def test_a_photograph_without_its_row_is_named(folder: Path) -> None:
    table = read_table(folder / LABELS)
    write_table(folder / LABELS, table[:3] + table[4:])
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == (f"train/images/{table[3][0]}", "no row in the CSV for it: add one")


def test_a_row_twice_is_named_with_both_lines(folder: Path) -> None:
    table = read_table(folder / LABELS)
    write_table(folder / LABELS, [*table, table[3]])
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.line, problem.id) == (LABELS, 22, table[3][0])
    assert problem.what.startswith("this file is duplicated, first on line 4")
    for read in (lambda: CHALLENGE.read_cases(folder, "train"), lambda: CHALLENGE.open_truth(folder, SETTINGS)):
        with pytest.raises(DataError, match=f"line 22: {table[3][0]} is duplicated, first on line 4: remove one"):
            read()


def test_a_column_twice_is_named(folder: Path) -> None:
    """Which of the two would count?"""
    table = read_table(folder / LABELS)
    write_table(folder / LABELS, [[*row, row[1]] for row in table])
    assert only_problem(CHALLENGE, folder).what == "line 1: the column 'label' is duplicated: remove one of them"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda row: [*row, "x"], "7 fields, the header has 6"),
        (lambda row: row[:-1], "5 fields, the header has 6"),
    ],
)
def test_a_row_of_another_length_is_one_problem(
    folder: Path, spoil: Callable[[list[str]], list[str]], message: str
) -> None:
    table = read_table(folder / LABELS)
    table[3] = spoil(table[3])
    write_table(folder / LABELS, table)
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.line, problem.what) == (LABELS, 4, message)
    for read in (lambda: CHALLENGE.read_cases(folder, "train"), lambda: CHALLENGE.open_truth(folder, SETTINGS)):
        with pytest.raises(DataError, match=f"line 4: {message}") as caught:
            read()
        assert caught.value.file == folder / LABELS


def test_rows_without_a_file_name_are_named(folder: Path) -> None:
    table = read_table(folder / LABELS)
    table += [["", *table[3][1:]], ["", *table[3][1:]]]
    write_table(folder / LABELS, table)
    problems = CHALLENGE.survey(folder).problems
    assert [(problem.line, problem.what) for problem in problems] == [(22, "no file name"), (23, "no file name")]
    with pytest.raises(DataError, match="line 22: no file name"):
        CHALLENGE.read_cases(folder, "train")


def test_a_row_that_is_not_utf8_is_named(folder: Path) -> None:
    change(folder, "Gender", "m\u00e4nnlich", line=4)
    content = (folder / LABELS).read_text(encoding="utf-8")
    (folder / LABELS).write_bytes(content.encode("latin1"))
    problem = only_problem(CHALLENGE, folder)
    assert (problem.line, problem.what) == (4, "not UTF-8 text: save the file as UTF-8")
    str(problem).encode()


@pytest.mark.parametrize("name", ["x" * 5000 + ".jpg", "a\x00b.jpg", "../../../etc/passwd/", "."])
def test_impossible_file_names_are_named(folder: Path, name: str) -> None:
    table = read_table(folder / LABELS)
    write_table(folder / LABELS, [*table, [name, *table[3][1:]]])
    problem = only_problem(CHALLENGE, folder)
    assert (problem.line, problem.what.split(":")[0]) == (22, "no such photograph")
    assert CHALLENGE.read_cases(folder, "train")[-1].id == name


# --- what is wrong in a folder -------------------------------------------------------------------


def test_a_truncated_photograph_is_named(folder: Path) -> None:
    name = read_table(folder / "test" / "labels.csv")[1][0]
    cut(folder / "test" / "images" / name)
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == f"test/images/{name}"
    assert "truncated JPEG" in problem.what


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA"])
def test_a_photograph_with_alpha_or_palette_is_named(folder: Path, mode: str) -> None:
    table = read_table(folder / LABELS)
    images = folder / "train" / "images"
    with Image.open(images / table[1][0]) as opened:
        opened.convert("RGBA").convert(mode).save(images / "a.png")
    (images / table[1][0]).unlink()
    table[1][0] = "a.png"
    write_table(folder / LABELS, table)
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what.split(";")[0]) == ("train/images/a.png", f"mode {mode}")


def test_photographs_in_a_folder_of_another_name_are_looked_at_too(folder: Path) -> None:
    (folder / "train" / "images").rename(folder / "train" / "photos")
    table = read_table(folder / LABELS)
    for row in table[1:]:
        row[0] = f"photos/{row[0]}"
    write_table(folder / LABELS, table)
    assert CHALLENGE.survey(folder).problems == ()
    assert CHALLENGE.survey(folder).facts["train photographs"] == "20"
    cut(folder / "train" / table[3][0])
    assert only_problem(CHALLENGE, folder).file == f"train/{table[3][0]}"


@pytest.mark.parametrize("place", ["", "train"])
def test_several_tables_are_a_problem(folder: Path, place: str) -> None:
    shutil.copy(folder / LABELS, folder / "train" / "more.csv")
    (folder / LABELS).rename(folder / "train" / "other.csv")
    problem = only_problem(CHALLENGE, folder / place)
    assert "several CSV files (more.csv, other.csv): name the one with the labels labels.csv" in problem.what
    for read in (
        lambda: CHALLENGE.read_cases(folder / place, "train"),
        lambda: CHALLENGE.open_truth(folder / place, SETTINGS),
    ):
        with pytest.raises(DataError, match="several CSV files") as caught:
            read()
        assert caught.value.file == folder / "train"


@pytest.mark.parametrize("place", ["", "train"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("picture,label\na.jpg,NV\n", "line 1: no file column; expected one of newfilename, filepath, filename"),
        ("", "no file column"),
        ('filename,label\n"a.jpg,NV\n', "line 2: broken CSV"),
    ],
)
def test_a_table_that_is_none_is_one_problem(folder: Path, place: str, text: str, message: str) -> None:
    (folder / LABELS).write_text(text)
    problem = only_problem(CHALLENGE, folder / place)
    assert problem.file == str((folder / LABELS).relative_to(folder / place))
    assert message in problem.what
    for read in (
        lambda: CHALLENGE.read_cases(folder / place, "train"),
        lambda: CHALLENGE.open_truth(folder / place, SETTINGS),
    ):
        with pytest.raises(DataError) as caught:
            read()
        assert caught.value.file == folder / LABELS
        assert message in str(caught.value)


def test_a_broken_table_does_not_hide_a_broken_photograph(folder: Path) -> None:
    name = read_table(folder / LABELS)[3][0]
    (folder / LABELS).write_text("picture,label\na.jpg,NV\n")
    cut(folder / "train" / "images" / name)
    for place, inside in ((folder, "train/"), (folder / "train", "")):
        files = [problem.file for problem in CHALLENGE.survey(place).problems]
        assert files == [f"{inside}labels.csv", f"{inside}images/{name}"]


def test_training_labels_without_a_label_column_are_a_problem(folder: Path) -> None:
    table = read_table(folder / LABELS)
    write_table(folder / LABELS, [[row[0], *row[2:]] for row in table])
    problem = only_problem(CHALLENGE, folder)
    assert problem.file == LABELS
    assert "no rows with a label: expected the columns filename,label" in problem.what
    with pytest.raises(DataError, match="line 2: no column label or Class; the ten classes are AK") as caught:
        CHALLENGE.open_truth(folder, SETTINGS)
    assert caught.value.file == folder / LABELS


def test_training_photographs_without_a_table_are_a_problem(folder: Path) -> None:
    (folder / LABELS).unlink()
    problem = only_problem(CHALLENGE, folder)
    assert (problem.file, problem.what) == ("train", "no labels.csv: expected filename,label")


def test_every_problem_is_named_not_the_first_alone(folder: Path) -> None:
    table = read_table(folder / LABELS)
    table[1][1], table[1][2], table[1][3], table[1][4] = "WART", "999", "x", "elbow"
    table[5].append("x")
    table[9][2] = "old"
    write_table(folder / LABELS, table)
    cut(folder / "train" / "images" / table[2][0])
    cut(folder / "train" / "images" / table[3][0])
    write_png(folder / "train" / "images" / "zzz.png", np.zeros((9, 9), np.uint8))
    test_name = read_table(folder / "test" / "labels.csv")[1][0]
    (folder / "test" / "images" / test_name).unlink()
    found = [(problem.file, problem.line) for problem in CHALLENGE.survey(folder).problems]
    assert found == [
        *[(LABELS, 2)] * 4,
        (LABELS, 6),
        (LABELS, 10),
        *((f"train/images/{name}", 0) for name in sorted([table[2][0], table[3][0]])),
        ("train/images/zzz.png", 0),
        ("test/labels.csv", 2),
    ]


@pytest.mark.parametrize("inside", ["", "train", "test", "images"])
def test_an_empty_folder_is_a_problem(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    problem = only_problem(CHALLENGE, tmp_path)
    assert problem.file == str(tmp_path)
    assert "no labels.csv and no photographs" in problem.what
    assert CHALLENGE.read_cases(tmp_path, "train") == CHALLENGE.read_cases(tmp_path, "test") == []
    with pytest.raises(DataError, match=r"no labels\.csv here or under train/: expected filename,label") as caught:
        CHALLENGE.open_truth(tmp_path, SETTINGS)
    assert caught.value.file == tmp_path


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for call in (
        lambda path: CHALLENGE.survey(path),
        lambda path: CHALLENGE.read_cases(path, "test"),
        lambda path: CHALLENGE.open_truth(path, SETTINGS),
    ):
        with pytest.raises(DataError, match=r"no such folder|no labels\.csv") as caught:
            call(tmp_path / "nowhere")
        assert caught.value.file == tmp_path / "nowhere"


def test_a_table_without_rows_is_no_truth(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("filename,label\n")
    with pytest.raises(DataError, match="no rows under the header") as caught:
        CHALLENGE.open_truth(tmp_path, SETTINGS)
    assert caught.value.file == tmp_path / "labels.csv"


def test_large_photographs_get_no_warning(tmp_path: Path) -> None:
    write_jpeg(tmp_path / "a.jpg", np.zeros((512, 600, 3), np.uint8), quality=50)
    facts = CHALLENGE.survey(tmp_path).facts
    assert facts == {"test photographs": "1", "test sizes (height x width)": "512x600: 1"}


# --- real data -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_real_folder_has_no_problems(real_data: Path) -> None:
    begin = time.process_time()
    inventory = CHALLENGE.survey(real_data / "lesions")
    assert time.process_time() - begin < 20  # the clock would depend on what else runs
    assert inventory.problems == ()
    assert inventory.facts["train photographs"] == "8,368"
    assert inventory.facts["train sizes (height x width)"] == "180x240: 8,368"
    assert inventory.facts["train rows"] == "8,368, age unknown: 34, location unknown: 50"
    assert inventory.facts["train classes"].startswith("BCC 4,034, NV 1,192, SK 870, SCC 758, MEL 720")
    truth = CHALLENGE.open_truth(real_data / "lesions", CHALLENGE.settings(taxonomy="eleven"))
    assert len(truth.cases) == 8368
    assert {"AKIEC", "SCCKA"} < {truth.read(case) for case in truth.cases}
