from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from handlens.challenges.lesions.options import LesionsSettings
from handlens.challenges.lesions.painting import LOOKS
from handlens.challenges.lesions.sample import PEOPLE, write_sample
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES
from handlens.io.images import read_header

CLASSES = TAXONOMIES["ten"].classes


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lesions")
    write_sample(folder, seed=1, cases=50, size=32, settings=LesionsSettings())
    return folder


def test_the_layout_is_the_contest_s(sample: Path) -> None:
    train, test = rows_of(sample / "train" / "labels.csv"), rows_of(sample / "test" / "labels.csv")
    truth = rows_of(sample / "truth" / "labels.csv")
    assert list(train[0]) == ["filename", "label", "Age", "Gender", "Location", "lesion_id"]
    assert list(test[0]) == ["filename", "Age", "Gender", "Location", "lesion_id"]
    assert list(truth[0]) == ["filename", "label"]
    assert (len(train), len(test)) == (200, 50)
    assert [row["filename"] for row in truth] == [row["filename"] for row in test]
    for part, rows in (("train", train), ("test", test)):
        files = sorted(path.name for path in (sample / part / "images").iterdir())
        assert files == sorted(row["filename"] for row in rows)


def test_every_class_is_there_and_some_are_commoner(sample: Path) -> None:
    counts = Counter(row["label"] for row in rows_of(sample / "train" / "labels.csv"))
    assert set(counts) == set(CLASSES) == set(LOOKS) == set(PEOPLE)
    assert max(counts.values()) > 3 * min(counts.values())


def test_even_the_smallest_sample_teaches_every_class(tmp_path: Path) -> None:
    write_sample(tmp_path, seed=0, cases=1, size=16, settings=LesionsSettings())
    assert {row["label"] for row in rows_of(tmp_path / "train" / "labels.csv")} == set(CLASSES)
    assert len(rows_of(tmp_path / "truth" / "labels.csv")) == 1


def test_a_lesion_has_one_or_two_photographs_of_one_person_on_one_side(sample: Path) -> None:
    sides, people = defaultdict(list), defaultdict(set)
    for part in ("train", "test"):
        for row in rows_of(sample / part / "labels.csv"):
            sides[row["lesion_id"]].append(part)
            people[row["lesion_id"]].add((row.get("label"), row["Age"], row["Gender"], row["Location"]))
    assert all(len(set(parts)) == 1 for parts in sides.values())
    assert {len(parts) for parts in sides.values()} == {1, 2}
    assert all(len(facts) == 1 for facts in people.values())


def test_demographics_are_plausible_and_sometimes_unknown(sample: Path) -> None:
    rows = rows_of(sample / "train" / "labels.csv")
    assert {row["Gender"] for row in rows} == {"m", "f", ""}
    assert {row["Location"] for row in rows} <= {*LOCATIONS, ""}
    ages = [row["Age"] for row in rows]
    assert "" in ages
    assert all(0 < int(age) <= 95 for age in ages if age)
    assert 0.5 < sum(int(age) % 5 == 0 for age in ages if age) / len(ages) < 1


def test_the_size_is_the_shorter_side(sample: Path) -> None:
    shapes = {read_header(path).shape for path in (sample / "test" / "images").iterdir()}
    assert {min(shape) for shape in shapes} == {32}
    assert len(shapes) > 1


def test_the_seed_decides_every_byte(tmp_path: Path) -> None:
    for name, seed in (("one", 4), ("again", 4), ("other", 5)):
        (tmp_path / name).mkdir()
        write_sample(tmp_path / name, seed=seed, cases=3, size=24, settings=LesionsSettings())
    assert contents(tmp_path / "one") == contents(tmp_path / "again")
    assert contents(tmp_path / "one") != contents(tmp_path / "other")
