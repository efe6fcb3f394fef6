from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handlens.challenges.lesions import baseline
from handlens.challenges.lesions.baseline import Floats, PhotoStatistics
from handlens.challenges.lesions.options import LesionsSettings
from handlens.challenges.lesions.sample import write_sample
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES
from handlens.errors import ModelError
from handlens.io.images import write_png
from handlens.types import Case, Truth

CLASSES = TAXONOMIES["ten"].classes


def prepare(train: Truth[str] | None, taxonomy: str = "ten") -> Callable[[Case], Floats]:
    predictor = PhotoStatistics().fit(train, taxonomy, {})

    def answer(case: Case) -> Floats:
        with predictor.decode(case) as decoded:
            return predictor.predict(decoded).answer

    return answer


def truth_of(cases: list[Case], labels: list[str]) -> Truth[str]:
    known = {case.id: label for case, label in zip(cases, labels, strict=True)}
    return Truth(tuple(cases), lambda case: known[case.id])


def read_part(folder: Path) -> tuple[list[Case], list[str]]:
    """Cases and labels of one part of a sample."""
    with (folder / "labels.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    cases = [
        Case(
            row["filename"],
            folder / "images" / row["filename"],
            group=row["lesion_id"],
            details={
                "age": float(row["Age"]) if row["Age"] else None,
                "gender": row["Gender"] or None,
                "location": LOCATIONS.index(row["Location"]) + 1 if row["Location"] else None,
            },
        )
        for row in rows
    ]
    return cases, [row.get("label", "") for row in rows]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lesions")
    write_sample(folder, seed=3, cases=30, size=72, settings=LesionsSettings())
    return folder


def pictures(folder: Path, count: int, *, seed: int = 0) -> list[Case]:
    """Photographs of nothing: every one its own colours, two to a lesion."""
    cases = []
    for index in range(count):
        rng = np.random.default_rng([seed, index // 2])
        path = folder / f"{index}.png"
        write_png(path, np.repeat(np.repeat(rng.integers(0, 256, (8, 8, 3), np.uint8), 4, 0), 4, 1))
        cases.append(Case(path.name, path, group=f"lesion {index // 2}"))
    return cases


def sound(answer: np.ndarray, classes: int = 10) -> bool:
    return (
        answer.shape == (classes,)
        and answer.dtype == np.float64
        and bool((answer > 0).all() and (answer <= 1).all())
        and abs(answer.sum() - 1) < 1e-9
    )


def test_it_does_better_than_the_commonest_class(sample: Path) -> None:
    cases, labels = read_part(sample / "train")
    model = prepare(truth_of(cases, labels))
    with (sample / "truth" / "labels.csv").open(newline="") as stream:
        truth = {row["filename"]: row["label"] for row in csv.DictReader(stream)}
    asked, _ = read_part(sample / "test")
    answers = [model(case) for case in asked]
    assert all(sound(answer) for answer in answers)
    right = np.mean(
        [CLASSES[int(answer.argmax())] == truth[case.id] for case, answer in zip(asked, answers, strict=True)]
    )
    commonest = Counter(labels).most_common(1)[0][0]
    assert right > 1.5 * np.mean([label == commonest for label in truth.values()])


def test_a_training_case_is_not_answered_by_what_its_lesion_taught(tmp_path: Path) -> None:
    cases = pictures(tmp_path, 80)
    lots = np.random.default_rng(1).choice(["NV", "MEL"], 40)
    labels = [str(lots[index // 2]) for index in range(80)]
    model = prepare(truth_of(cases, labels))

    def share_right(asked: list[Case]) -> float:
        said = [CLASSES[int(model(case).argmax())] for case in asked]
        return float(np.mean([one == other for one, other in zip(said, labels, strict=True)]))

    assert share_right(cases) < 0.75  # labels at random cannot be foretold
    assert share_right([replace(case, id=f"copy {case.id}", group=f"copy {case.id}") for case in cases]) > 0.9


def test_the_same_training_gives_the_same_answers_in_any_order(tmp_path: Path) -> None:
    cases = pictures(tmp_path, 24)
    labels = [CLASSES[index // 2 % 3] for index in range(24)]
    first = prepare(truth_of(cases, labels))
    again = prepare(truth_of(cases, labels))
    turned = prepare(truth_of(cases[::-1], labels[::-1]))
    for case in cases:
        np.testing.assert_array_equal(first(case), again(case))
        np.testing.assert_allclose(first(case), turned(case), atol=1e-3)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("classes", [1, 2])
def test_few_cases_are_enough_for_an_answer(tmp_path: Path, count: int, classes: int) -> None:
    cases = pictures(tmp_path, count)
    model = prepare(truth_of(cases, [CLASSES[index % classes] for index in range(count)]))
    assert all(sound(model(case)) for case in cases)
    assert sound(model(replace(cases[0], id="new", group="new")))


def test_a_class_never_seen_is_unlikely_but_not_impossible(tmp_path: Path) -> None:
    cases = pictures(tmp_path, 12)
    model = prepare(truth_of(cases, ["NV", "NV", "MEL", "MEL"] * 3))
    answer = model(replace(cases[0], id="new", group="new"))
    assert 0 < answer[CLASSES.index("DF")] < 0.01


ODD = {
    "one pixel": np.zeros((1, 1, 3), np.uint8),
    "one row": np.full((1, 90, 3), 255, np.uint8),
    "one column": np.arange(90, dtype=np.uint8)[:, None],
    "flat": np.full((40, 50, 3), 128, np.uint8),
    "grey": np.arange(2500, dtype=np.uint8).reshape(50, 50),
    "16 bits": np.arange(3000, dtype=np.uint16).reshape(50, 60) * 20,
    "alpha": np.arange(50 * 50 * 4, dtype=np.uint8).reshape(50, 50, 4),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_pictures_get_an_answer(tmp_path: Path, kind: str) -> None:
    cases = pictures(tmp_path, 12)
    model = prepare(truth_of(cases, ["NV", "NV", "MEL", "MEL"] * 3))
    path = tmp_path / "odd.png"
    Image.fromarray(ODD[kind]).save(path)
    assert sound(model(Case("odd.png", path, details={"age": None, "gender": None, "location": None})))
    assert sound(prepare(truth_of([Case("odd.png", path)], ["NV"]))(cases[0]))


def test_demographics_change_the_answer(sample: Path) -> None:
    cases, labels = read_part(sample / "train")
    model = prepare(truth_of(cases, labels))
    young = replace(cases[0], id="new", group="new", details={"age": 20.0, "gender": "f", "location": 6})
    old = replace(young, details={"age": 85.0, "gender": "m", "location": 5})
    assert model(old)[CLASSES.index("SCC")] > model(young)[CLASSES.index("SCC")]


def test_a_photograph_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = pictures(tmp_path, 6)
    read: Counter[Path] = Counter()

    def counted(path: Path) -> np.ndarray:
        read[path] += 1
        return original(path)

    original = baseline.read_rgb
    monkeypatch.setattr(baseline, "read_rgb", counted)
    model = prepare(truth_of(cases, ["NV", "NV", "MEL", "MEL", "NV", "NV"]))
    for case in [*cases, *cases]:
        model(case)
    assert set(read.values()) == {1}


def test_the_later_edition_has_eleven_answers(tmp_path: Path) -> None:
    cases = pictures(tmp_path, 8)
    model = prepare(truth_of(cases, ["INF", "INF", "BKL", "BKL"] * 2), taxonomy="eleven")
    assert sound(model(cases[0]), classes=11)


def test_without_labels_it_says_what_to_do(tmp_path: Path) -> None:
    for train in (None, Truth((), lambda case: "")):
        with pytest.raises(ModelError, match=r"no labelled photographs to learn from: put them"):
            prepare(train)
    with pytest.raises(ModelError, match="'XX' is not one of AK, BCC"):
        prepare(truth_of(pictures(tmp_path, 1), ["XX"]))
