"""Every Reading of the lesions rules, by its number."""

from random import Random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import lesions as oracle

import handlens
from handlens.challenges.lesions import contract, data, judge, options, score
from handlens.challenges.lesions.options import LesionsSettings
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.errors import HandlensError
from handlens.io.images import write_png
from handlens.sandbox.runner import Answer, Slot
from handlens.sandbox.verdicts import RefusedError
from handlens.settings import fields_of
from handlens.types import Case, Truth

SETTINGS = LesionsSettings()
CODEC = score.codec(SETTINGS)
CASE = Case("a.jpg", None)
CLASSES = TAXONOMIES["ten"].classes


def truth_of(labels, classes=CLASSES):
    return Truth(tuple(Case(str(number), None) for number in range(len(labels))), lambda case: labels[int(case.id)])


def one_hot(name, classes=CLASSES):
    return np.array([float(name == other) for other in classes])


@pytest.mark.parametrize("file_column", ["NewFileName", "filepath", "FILENAME", "image_path"])
@pytest.mark.parametrize("label_column", ["Class", "label"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_reading_01_the_spelling_of_the_csv_is_free(tmp_path, file_column, label_column, delimiter):
    header = delimiter.join([file_column, label_column, "AGE", "Gender", "location"])
    (tmp_path / "labels.csv").write_text(f"{header}\n{delimiter.join(['x.jpg', 'bcc', '40', 'Male', '5'])}\n")
    truth = data.open_truth(tmp_path, SETTINGS)
    (case,) = truth.cases
    assert (case.id, truth.read(case)) == ("x.jpg", "BCC")
    assert case.details == {"age": 40.0, "gender": "m", "location": 5}


def test_reading_02_demographics_have_bounds_and_may_be_unknown():
    assert data.MAX_AGE == 120
    assert data.read_demographics({"age": "120", "gender": "f", "location": "torso"}) == {
        "age": 120.0,
        "gender": "f",
        "location": 7,
    }
    assert data.read_demographics({}) == {"age": None, "gender": None, "location": None}
    for texts in (
        {"age": "121"},
        {"age": "-5"},
        {"age": "old"},
        {"age": "6_0"},
        {"age": "nan "},
        {"age": "1e1"},
        {"gender": "x"},
        {"location": "8"},
        {"location": "nose"},
    ):
        with pytest.raises(ValueError, match="expected|empty"):
            data.read_demographics(texts)


def test_reading_03_small_photographs_are_a_warning_and_no_problem(tmp_path):
    assert data.SMALL_SIDE == 512
    write_png(tmp_path / "images" / "a.png", np.zeros((100, 700, 3), np.uint8))
    (tmp_path / "labels.csv").write_text("filename,label\na.png,NV\n")
    inventory = data.survey(tmp_path)
    assert inventory.problems == ()
    assert "1 photographs have a side under 512" in inventory.facts["train warning"]


def test_reading_04_probabilities_are_valid():
    assert score.SUM_TOLERANCE == 1e-3
    rest = ("0",) * 8
    for good in (("1", "0"), ("0.999", "0"), ("1", "0.001"), ("1e0", "0.0009"), (".5", "0.5"), ("1", "-0.0")):
        CODEC.parse((*good, *rest), CASE)
    for bad in (
        ("0.998", "0"),
        ("1", "0.002"),
        ("-0.1", "1.1"),
        ("nan", "1"),
        ("", "1"),
        ("1,0", "0"),
        ("1.0001", "0"),
    ):
        with pytest.raises(ValueError, match="expected"):
            CODEC.parse((*bad, *rest), CASE)


def test_reading_05_the_first_maximum_wins():
    answers = {"0": np.array([0.0, 0.4, 0.4, 0.2, *[0.0] * 6])}
    assert score.score(answers, truth_of(["BCC"]), SETTINGS).cases[0].parts["predicted"] == "BCC"


def test_reading_06_a_class_that_nobody_has_counts_0():
    result = score.score({"0": one_hot("NV")}, truth_of(["NV"]), SETTINGS)
    assert result.parts["F1 NV"] == 1
    assert result.parts["F1 MEL"] == 0
    assert result.parts["F1 benign"] == 1 / 5


def test_reading_07_the_weights_are_3_2_and_1():
    labels = list(CLASSES)
    malignant_right = [name if name in ("BCC", "SCC", "MEL") else "BCC" for name in labels]
    parts = score.score_classes(labels, malignant_right, TAXONOMIES["ten"])
    # BCC: tp 1, fp 7 -> 2/9; SCC and MEL 1
    assert parts["Weighted-F1"] == pytest.approx(3 * ((2 / 9 + 2) / 3) / 6)
    assert parts["Prediction Score"] == pytest.approx((3 / 10 + parts["Weighted-F1"]) / 2)
    assert score.score_classes(labels, labels, TAXONOMIES["ten"])["Weighted-F1"] == 1


def test_reading_08_size_is_free_up_to_50_and_worthless_at_150():
    assert [score.size_worth(mib) for mib in (0, 20, 50, 100, 150, 900)] == [1, 1, 1, 0.5, 0, 0]


def test_reading_09_time_is_relative_to_the_field():
    assert [score.time_worth(ms, [10, 20, 50]) for ms in (10, 20, 50)] == [1, 0.75, 0]
    assert score.time_worth(33, [33]) == score.time_worth(33, [33, 33]) == 1


def test_reading_10_efficiency_is_half_size_half_time_or_size_only():
    answers, truth = {"0": one_hot("NV")}, truth_of(["NV"])
    plain = score.score(answers, truth, SETTINGS)
    both = score.score(answers, truth, SETTINGS.replace(size_mb=100.0, time_ms=30.0))
    alone = score.score(answers, truth, SETTINGS.replace(size_mb=100.0, efficiency="size-only"))
    assert "Final Score" not in plain.parts
    assert both.parts["Efficiency"] == 0.75
    assert both.value == pytest.approx(0.9 * plain.value + 0.1 * 0.75)
    assert alone.parts["Efficiency"] == 0.5
    for wrong in (
        {"size_mb": 100.0},
        {"time_ms": 3.0},
        {"size_mb": -1.0, "time_ms": 3.0},
        {"size_mb": float("nan"), "time_ms": 3.0},
    ):
        with pytest.raises(HandlensError, match="needs|expected"):
            score.score(answers, truth, SETTINGS.replace(**wrong))


def test_reading_11_eleven_classes_are_a_second_table(tmp_path):
    eleven = TAXONOMIES["eleven"].classes
    assert len(eleven) == 11
    (tmp_path / "labels.csv").write_text("filename,label,label_11\na.jpg,SK,BKL\nb.jpg,NV,NV\n")
    rows = "".join(
        f"{name},{','.join(map(str, one_hot(label, eleven)))}\n" for name, label in (("a.jpg", "BKL"), ("b.jpg", "NV"))
    )
    (tmp_path / "mine.csv").write_text(f"filename,{','.join(eleven)}\n{rows}")
    result = handlens.score("lesions", tmp_path / "mine.csv", truth=tmp_path / "labels.csv", taxonomy="eleven")
    assert result.parts["accuracy"] == 1
    assert result.parts["F1 medium"] == pytest.approx(1 / 3)


def slots(image=(None, 3, 512, 512), people=(None, 3), answer=(None, 10), kinds=("tensor(float)",) * 3):
    return [Slot("a", kinds[0], image), Slot("b", kinds[1], people)], [Slot("c", kinds[2], answer)]


def test_reading_12_inputs_are_bound_by_position_and_n_is_free():
    ten, eleven = TAXONOMIES["ten"], TAXONOMIES["eleven"]
    contract.check_slots(*slots(), ten)
    contract.check_slots(
        *slots(image=(None,) * 4, answer=(None, None)), ten
    )  # sizes that are free can be the right ones
    contract.check_slots(*slots(answer=(None, 11)), eleven)
    for wrong, verdict in (
        ({"image": (1, 3, 512, 512)}, "wrong inputs"),
        ({"image": (None, 512, 512, 3)}, "wrong inputs"),
        ({"image": (None, 3, 224, 224)}, "wrong inputs"),
        ({"people": (None, 4)}, "wrong inputs"),
        ({"people": (1, 3)}, "wrong inputs"),
        ({"kinds": ("tensor(uint8)", "tensor(float)", "tensor(float)")}, "wrong inputs"),
        ({"answer": (None, 11)}, "wrong outputs"),
        ({"answer": (None, 10, 1)}, "wrong outputs"),
        ({"kinds": ("tensor(float)", "tensor(float)", "tensor(int64)")}, "wrong outputs"),
    ):
        with pytest.raises(RefusedError) as caught:
            contract.check_slots(*slots(**wrong), ten)
        assert caught.value.verdict == verdict


def test_reading_13_pixels_are_fed_from_0_to_1_or_as_bytes(tmp_path):
    write_png(tmp_path / "a.png", np.full((512, 512, 3), (255, 51, 0), np.uint8))
    for name, values in (("0-1", [1, 0.2, 0]), ("0-255", [255, 51, 0])):
        picture = contract.image_input(tmp_path / "a.png", top=contract.PIXEL_RANGES[name])
        assert picture.dtype == np.float32
        assert picture[:, 7, 9] == pytest.approx(values)
    (pixels,) = (field for field in fields_of(options.LesionsSettings) if field.path == "pixels")
    assert (pixels.choices, pixels.default) == (tuple(contract.PIXEL_RANGES), "0-1")


def test_reading_14_photographs_are_squeezed_by_pillow(tmp_path):
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (180, 240, 3), np.uint8)
    write_png(tmp_path / "a.png", noise)
    theirs = np.asarray(Image.open(tmp_path / "a.png").convert("RGB").resize((512, 512)), np.float32) / 255.0
    np.testing.assert_array_equal(contract.image_input(tmp_path / "a.png", top=1.0), theirs.transpose(2, 0, 1))


def test_reading_15_demographics_are_numbers():
    for texts, numbers in (
        ({"age": "61", "gender": "male", "location": "torso"}, [61, 1, 7]),
        ({"age": "61.0", "gender": "F", "location": "1"}, [61, 0, 1]),
        ({}, [0, -1, -1]),
    ):
        assert contract.demographics_input(data.read_demographics(texts)).tolist() == numbers


def test_reading_16_both_inputs_are_used_and_answers_are_probabilities():
    ten = TAXONOMIES["ten"]
    rest = [0.0] * 8
    assert contract.check_answer([np.array([[0.5, 0.5, *rest]])], ["a"], ten).shape == (1, 10)
    contract.check_answer([np.array([[1 + 1e-7, -1e-7, *rest]], np.float32)], ["a"], ten)
    for row, verdict in (
        ([float("nan"), 1, *rest], "not a number"),
        ([float("inf"), 1, *rest], "not a number"),
        ([-0.1, 1.1, *rest], "negative"),
        ([1.1, 0, *rest], "above one"),
        ([0.5, 0.498, *rest], "not normalised"),
        ([1, 0, 0], "wrong outputs"),
    ):
        with pytest.raises(RefusedError) as caught:
            contract.check_answer([np.array([row])], ["a"], ten)
        assert caught.value.verdict == verdict
    with pytest.raises(RefusedError, match="no answer changes with the image"):
        judge._check_both_inputs(*examined(uses_image=False))
    with pytest.raises(RefusedError, match="no answer changes with the demographics"):
        judge._check_both_inputs(*examined(uses_people=False))
    assert judge._check_both_inputs(*examined()) == []


def examined(uses_image=True, uses_people=True):
    """What a model without a process answered: one class, from the inputs that it uses."""
    scored = judge._Question(0, (40.0, 1.0, 5.0))
    probes = [
        judge._Probe("demographics", scored, scored._replace(person=(20.0, 0.0, 3.0))),
        judge._Probe("image", scored, scored._replace(case=1)),
    ]
    examination = judge._Examination(None, (), TAXONOMIES["ten"], 1.0)
    for question in (scored, *(probe.changed for probe in probes)):
        value = 0.1 * uses_image * question.case + 0.001 * uses_people * sum(question.person)
        examination.answers[question] = np.array([value, 1 - value])
    return examination, probes


def test_reading_17_time_is_the_median_of_scored_photographs_alone(tmp_path):
    """Questions with an exchanged input are slow here, and the first ones of the trial: neither counts."""

    class Timed:
        takes, gives, size = [], [], 2**20

        def restart(self):
            pass

        def ask(self, images, people):
            natural = len(people) == 1 and tuple(people[0]) == (40.0, 1.0, 5.0) and images.max() <= 0.5
            value = 0.3 + 0.1 * images.mean() + 0.001 * people.mean(axis=1, keepdims=True)
            row = np.hstack([value, 1 - value, np.zeros((len(people), 8))]).astype(np.float32)
            return Answer((row,), 0.02 if natural else 5.0)

    write_png(tmp_path / "a.png", np.full((8, 8, 3), 100, np.uint8))
    details = {"age": "40", "gender": "m", "location": "5"}
    case = Case("a", tmp_path / "a.png", details=data.read_demographics(details))
    with mock.patch.object(judge, "check_slots"):
        run = judge._run(Timed(), [case], options.LesionsSettings(), Random(0), lambda _done: None)
    assert len(run.times) >= judge.LEAST_TIMINGS
    assert set(run.times) == {0.02}


probabilities = st.lists(st.floats(0, 1), min_size=10, max_size=10).filter(lambda row: sum(row) > 0.01)


@given(st.lists(st.tuples(probabilities, st.sampled_from(CLASSES)), min_size=1, max_size=12))
def test_the_score_is_the_texts(pairs):
    rows = [np.array(row) / sum(row) for row, _ in pairs]
    labels = [label for _, label in pairs]
    ours = score.score({str(number): row for number, row in enumerate(rows)}, truth_of(labels), SETTINGS).value
    assert ours == pytest.approx(oracle.prediction_score(rows, labels), rel=1e-14)
