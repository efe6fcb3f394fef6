"""What a notebook gets for a photograph: probabilities, label and risk, equal to what `solve` writes."""

import json

import numpy as np
import pytest
from PIL import Image

from handlens import pipeline, registry
from handlens.challenges.lesions.options import LesionsSettings
from handlens.challenges.lesions.predictor import load
from handlens.challenges.lesions.result import ANSWERS, NO_DIAGNOSIS, LesionResult, describe
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.errors import DataError, HandlensError
from handlens.io.images import read_rgb, write_png
from handlens.types import Context

LESIONS = registry.challenge("lesions")
TEN = TAXONOMIES["ten"]


@pytest.fixture(scope="module")
def predictor():
    return load(Context(LesionsSettings()))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesions") / "data"
    pipeline.sample(LESIONS, folder, seed=3, cases=2, size=64)
    return folder


def test_it_is_what_solve_writes(predictor, data, tmp_path):
    pipeline.solve(LESIONS, data, tmp_path / "out")
    answers = {each["photograph"]: each for each in json.loads((tmp_path / "out" / ANSWERS).read_text())["answers"]}
    for case in LESIONS.read_cases(data, "test"):
        result = predictor(
            case.path, age=case.details["age"], gender=case.details["gender"], site=case.details["location"]
        )
        assert result.probabilities == answers[case.id]["probabilities"]
        assert (result.label, result.risk) == (answers[case.id]["class"], answers[case.id]["risk_group"])


def test_its_parts_agree(predictor):
    result = predictor(
        np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8), age=50, gender="f", site="head"
    )
    assert isinstance(result, LesionResult)
    assert tuple(result.probabilities) == TEN.classes
    assert sum(result.probabilities.values()) == pytest.approx(1, abs=1e-12)
    assert result.probabilities[result.label] == max(result.probabilities.values())
    assert result.label in TEN.groups[result.risk]
    assert result.table["class"] == list(TEN.classes)
    assert result.table["probability"] == list(result.probabilities.values())
    assert all(name in TEN.groups[group] for name, group in zip(TEN.classes, result.table["risk"], strict=True))
    page = result._repr_html_()
    assert page.startswith("<figure")
    assert NO_DIAGNOSIS in page
    assert page.count("<tr>") == 11
    assert repr(result).startswith(f"<LesionResult {result.label} ")


def test_pandas_takes_the_table(predictor):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(predictor(np.zeros((20, 20, 3), np.uint8)).table)
    assert list(frame.columns) == ["class", "name", "risk", "probability"]
    assert len(frame) == 10


def test_a_photograph_may_come_in_many_forms(predictor, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    write_png(tmp_path / "a.png", picture)
    assert np.array_equal(read_rgb(tmp_path / "a.png"), picture)
    expected = predictor(picture).row
    for value in (str(tmp_path / "a.png"), tmp_path / "a.png", Image.fromarray(picture), picture.astype(float) / 255):
        assert np.array_equal(predictor(value).row, expected)


def test_demographics_may_be_given(predictor):
    picture = np.full((40, 40, 3), 120, np.uint8)
    unknown, old = predictor(picture).row, predictor(picture, age=85, gender="m", site="head").row
    assert not np.array_equal(unknown, old)
    assert np.array_equal(old, predictor(picture, age=85.0, gender="male", site=5).row)
    told = load(Context(LesionsSettings(age=85, gender="m", site="head")))
    assert np.array_equal(told(picture).row, old)
    assert np.array_equal(told(picture, age=20).row, predictor(picture, age=20, gender="m", site="head").row)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"age": 121}, "age is 121; expected 0 to 120"),
        ({"age": -1}, "age is -1"),
        ({"age": float("nan")}, "age is nan"),
        ({"gender": "x"}, "x"),
        ({"site": "tail"}, "tail"),
        ({"site": 8}, "8"),
    ],
)
def test_demographics_out_of_range_are_refused(predictor, facts, message):
    with pytest.raises(HandlensError, match=message):
        predictor(np.zeros((20, 20, 3), np.uint8), **facts)


@pytest.mark.parametrize(
    "value", [np.zeros(5), np.zeros((4, 4, 7), np.uint8), np.full((4, 4), -1.0), None, "absent.jpg"]
)
def test_what_is_no_photograph_is_refused(predictor, value):
    with pytest.raises(DataError, match="no image|floats outside|no such file"):
        predictor(value)


def test_risk_groups_sum_up_their_classes():
    page = describe(np.array([0.05, 0.2, 0.1, 0.1, 0.05, 0, 0.1, 0, 0.4, 0]), TAXONOMIES["ten"])
    assert (page["class"], page["name"], page["risk_group"]) == ("MEL", "melanoma", "malignant")
    assert page["risk_groups"] == pytest.approx({"malignant": 0.7, "medium": 0.15, "benign": 0.15})
