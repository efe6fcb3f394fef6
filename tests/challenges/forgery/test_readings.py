"""Every Reading of the forgery rules, by its number."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import forgery as oracle
from oracles import masks as mask_oracle

import handlens
from handlens.challenges.forgery import data, score
from handlens.errors import SubmissionError
from handlens.io.images import write_png
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import encode, format_lists
from handlens.types import Case, Truth

CODEC = score.codec({})
CASE = Case("1", None, (100, 120))


def write(path, header, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def run(tmp_path, solution, submission):
    truth = write(tmp_path / "solution.csv", ("case_id", "annotation", "shape"), solution)
    file = write(tmp_path / "submission.csv", ("case_id", "annotation"), submission)
    return handlens.score("forgery", file, truth=truth).value


THREE = [("1", "authentic", "authentic"), ("2", "[101, 102]", "[720, 960]"), ("3", "authentic", "authentic")]


def test_reading_01_ids_are_text_and_twins_are_one_group(tmp_path):
    for kind in ("authentic", "forged"):
        write_png(tmp_path / "train_images" / kind / "12.png", np.zeros((8, 9), np.uint8))
    write_png(tmp_path / "train_images" / "forged" / "013.png", np.zeros((8, 9), np.uint8))
    cases = data.read_cases(tmp_path, "train")
    assert [(case.id, case.group) for case in cases] == [("authentic/12", "12"), ("013", "013"), ("forged/12", "12")]


def test_reading_02_an_instance_is_the_source_and_all_its_copies(tmp_path):
    mask = np.zeros((1, 8, 9), np.uint8)
    mask[0, 1:3, 1:3] = mask[0, 5:7, 5:7] = 1
    write_png(tmp_path / "train_images" / "forged" / "1.png", np.zeros((8, 9), np.uint8))
    (tmp_path / "train_masks").mkdir()
    np.save(tmp_path / "train_masks" / "1.npy", mask)
    truth = data.open_truth(tmp_path, {})
    (instance,) = truth.read(truth.cases[0])
    assert instance.area == 8
    halves = [encode(half, order="columns") for half in (mask[0] * (np.arange(9) < 4), mask[0] * (np.arange(9) > 4))]
    assert matched_f1(halves, [instance]) == pytest.approx(1 / 3)


def test_reading_03_pixels_are_numbered_down_the_columns():
    assert score.ORDER == "columns"
    mask = np.zeros((3, 4), bool)
    mask[1, 0] = mask[0, 1] = True
    assert format_lists([encode(mask, order=score.ORDER)]) == "[2, 1, 4, 1]"


def test_reading_04_the_word_is_authentic():
    assert CODEC.parse((score.AUTHENTIC,), CASE) == ()
    for text in ("Authentic", " authentic", "AUTHENTIC", "", "nan", "-", "authentic;"):
        with pytest.raises(ValueError, match=r"\w"):
            CODEC.parse((text,), CASE)


def test_reading_05_a_missed_instance_costs_as_much_as_a_surplus_one(tmp_path):
    two = "[101, 102];[5000, 10]"
    solution = [THREE[0], ("2", two, "[720, 960]"), THREE[2]]
    missed = run(tmp_path, solution, [("1", "authentic"), ("2", "[101, 102]"), ("3", "authentic")])
    surplus = run(tmp_path, THREE, [("1", "authentic"), ("2", two), ("3", "authentic")])
    assert missed == surplus == 0.8333333333333334


def test_reading_06_pixel_f1_is_0_where_it_is_undefined():
    nothing, something = np.zeros((2, 2), bool), np.ones((2, 2), bool)
    empty, full = encode(nothing, order="columns"), encode(something, order="columns")
    assert matched_f1([empty], [empty]) == 0
    assert matched_f1([empty], [full]) == 0
    assert matched_f1([full], [empty]) == 0
    assert matched_f1([full], [full]) == 1


def test_reading_07_the_score_is_the_plain_mean_and_the_anchors_hold(tmp_path):
    right = [("1", "authentic"), ("2", "[101, 102]"), ("3", "authentic")]
    assert run(tmp_path, THREE, right) == 1.0
    assert run(tmp_path, THREE, right[::-1]) == 1.0
    assert run(tmp_path, THREE, [right[0], ("2", "[101, 103]"), right[2]]) == 0.9983739837398374
    everything = [(id, "authentic", "authentic") for id in "123"]
    assert run(tmp_path, everything, [(id, "authentic") for id in "123"]) == 1.0
    assert run(tmp_path, THREE, [(id, "authentic") for id in "123"]) == 2 / 3


def test_reading_08_what_is_mis_scored_elsewhere_is_refused(tmp_path):
    for bad in (
        "[0, 5]",
        "[5, 0]",
        "[691200, 2]",
        "[1.0, 2]",
        "[1, 5000000000]",
        "[5, 1, 1, 1]",
        "[1]",
        "[1, 3, 2, 1]",
        "[1, 1];",
    ):
        with pytest.raises(SubmissionError) as error:
            run(tmp_path, THREE, [("1", "authentic"), ("2", bad), ("3", "authentic")])
        assert [problem.line for problem in error.value.problems] == [3], bad


def test_reading_09_an_empty_list_is_no_instance():
    with pytest.raises(ValueError, match="no instance"):
        CODEC.parse(("[]",), CASE)
    with pytest.raises(ValueError, match="no instance"):
        CODEC.parse(("[1, 1];[]",), CASE)


def test_reading_10_different_instances_may_overlap():
    first, second = CODEC.parse(("[1, 5];[3, 5]",), CASE)
    assert first.area == second.area == 5


def test_reading_11_every_row_is_validated_before_any_truth(tmp_path):
    # a broken prediction for an authentic image, which the official scorer never looks at
    with pytest.raises(SubmissionError, match="line 2, case_id 1: pair 2 starts"):
        run(tmp_path, THREE, [("1", "[5, 1, 1, 1]"), ("2", "authentic"), ("3", "authentic")])
    # and the truth is not touched while there is a problem, even a truth that cannot be read
    broken = [("1", "authentic", "authentic"), ("2", "[not a list", "[720, 960]"), ("3", "authentic", "authentic")]
    with pytest.raises(SubmissionError, match="no row for case_id 3"):
        run(tmp_path, broken, [("1", "authentic"), ("2", "authentic")])


answers = st.one_of(st.just("authentic"), st.lists(arrays(np.bool_, (4, 5)).filter(np.any), min_size=1, max_size=3))


@pytest.mark.slow
@given(st.lists(st.tuples(answers, answers), min_size=1, max_size=6))
def test_the_score_is_the_organisers_to_the_last_bit(pairs):
    truths = {str(number): true for number, (_, true) in enumerate(pairs)}
    said = {str(number): answer for number, (answer, _) in enumerate(pairs)}

    def to_text(answer):
        if isinstance(answer, str):
            return answer
        return ";".join(str(mask_oracle.encode(mask, "columns")) for mask in answer)

    cases = tuple(Case(id, None, (4, 5)) for id in truths)
    truth = Truth(cases, lambda case: CODEC.parse((to_text(truths[case.id]),), case))
    parsed = {case.id: CODEC.parse((to_text(said[case.id]),), case) for case in cases}
    ours = score.score(parsed, truth, {}).value
    assert ours == oracle.score(said, truths)
