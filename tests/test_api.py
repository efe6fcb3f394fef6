"""The public API: every name, and a notebook gets the answers that `solve` writes."""

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import handlens
from handlens import pipeline, registry
from handlens.challenges.ink.layout import open_fragment
from handlens.errors import DataError, HandlensError, ModelError, Problem
from handlens.io.images import read_image, read_rgb
from handlens.types import Score

SIZES = {"forgery": (4, 160), "ink": (2, 96), "cells": (2, 96), "lesions": (3, 64)}


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """Of every challenge: data, cases, and the rows that `solve` wrote."""
    folder, found = tmp_path_factory.mktemp("api"), {}
    for name, (cases, size) in SIZES.items():
        data = handlens.sample(name, folder / name, seed=3, cases=cases, size=size)
        result = handlens.solve(name, data, out=folder / f"{name}-out")
        codec = registry.challenge(name).codec(registry.challenge(name).settings())
        asked = pipeline.read_cases(registry.challenge(name), data)
        answers = pipeline.solving.require_submission(result.submission, codec, asked)
        found[name] = data, asked, answers, result
    return found


@pytest.fixture(scope="module")
def predictors():
    return {name: handlens.load(name) for name in registry.BUILT_IN}


@pytest.fixture(scope="module")
def results(solved, predictors):
    """Of every challenge: what its predictor says of each case's path, a text."""
    return {
        name: [predictors[name](str(case.path), **facts_of(name, case)) for case in solved[name][1]]
        for name in registry.BUILT_IN
    }


def answer_of(name, result):
    """What a result says, as `solve` writes it."""
    challenge = registry.challenge(name)
    if name == "forgery":
        from handlens.masks.rle import encode

        return tuple(encode(mask, order="columns") for mask in result.instances)
    return {"ink": "rle", "cells": "rle", "lesions": "row"}[name], challenge, result


def text_of(name, answer, case):
    codec = registry.challenge(name).codec(registry.challenge(name).settings())
    return codec.format(answer, case)


def rows(name, result, case):
    """The cells of a submission for a result."""
    if name == "forgery":
        return text_of(name, answer_of(name, result), case)
    return text_of(name, getattr(result, answer_of(name, result)[0]), case)


def facts_of(name, case):
    if name != "lesions":
        return {}
    return {"age": case.details["age"], "gender": case.details["gender"], "site": case.details["location"]}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", handlens.__all__)
def test_every_name_is_there_and_explained(name):
    value = getattr(handlens, name)
    assert name in dir(handlens)
    if name == "__version__":
        assert value.count(".") == 2
    else:
        assert callable(value)
        assert len(value.__doc__.split()) > 5
        assert inspect.signature(value).return_annotation is not inspect.Signature.empty


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'handlens' has no attribute 'nope'"):
        handlens.nope  # noqa: B018
    with pytest.raises(HandlensError, match="'nope' is not a challenge; there are forgery, ink, cells, lesions"):
        handlens.load("nope")


@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_python_m_handlens(args):
    done = subprocess.run([sys.executable, "-m", "handlens", *args], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert ("Usage: handlens" in done.stdout) if args == ["--help"] else (handlens.__version__ in done.stdout)


def test_the_list_of_challenges():
    assert handlens.challenges()[:4] == list(registry.BUILT_IN)
    assert [handlens.challenge(name).name for name in registry.BUILT_IN] == list(registry.BUILT_IN)
    code = "import handlens; a = handlens.challenges(); handlens.challenge('ink'); print(a == handlens.challenges())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n", "the package of the same name does not hide it"


# --- a notebook gets what solve writes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_a_path_gets_the_answer_that_solve_writes(name, solved, results):
    _, cases, answers, _ = solved[name]
    for case, result in zip(cases, results[name], strict=True):
        assert rows(name, result, case) == text_of(name, answers[case.id], case)


@pytest.mark.parametrize("name", ["forgery", "cells", "lesions"])
def test_an_array_and_a_pil_image_get_the_same(name, solved, predictors):
    _, (case, *_), answers, _ = solved[name]
    expected = text_of(name, answers[case.id], case)
    image = read_image(case.path) if name == "forgery" else read_rgb(case.path)
    for value in (image, Image.fromarray(image)):
        assert rows(name, predictors[name](value, **facts_of(name, case)), case) == expected


def test_a_volume_gets_the_same(solved, predictors):
    _, (case, *_), answers, _ = solved["ink"]
    stack, mask = open_fragment(case.path)
    volume = stack.read_band(0, stack.shape[0], 0, stack.depth)
    result = predictors["ink"](np.asarray(volume), mask=mask)
    assert rows("ink", result, case) == text_of("ink", answers[case.id], case)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_predictors_are_picklable_and_give_the_same(name, solved, predictors):
    _, (case, *_), answers, _ = solved[name]
    copy = pickle.loads(pickle.dumps(predictors[name]))
    assert rows(name, copy(case.path, **facts_of(name, case)), case) == text_of(name, answers[case.id], case)


@pytest.mark.parametrize("name", ["ink", "cells", "lesions"])
def test_a_baseline_is_a_predictor_too(name, solved, tmp_path):
    data, cases, _, _ = solved[name]
    result = handlens.solve(name, data, out=tmp_path, solver="baseline")
    assert result.score is not None
    if name == "cells":
        codec = registry.challenge(name).codec(registry.challenge(name).settings())
        answers = pipeline.solving.require_submission(result.submission, codec, cases)
        predictor = pickle.loads(pickle.dumps(handlens.load(name, solver="baseline")))
        for case in cases:
            assert rows(name, predictor(case.path), case) == text_of(name, answers[case.id], case)


def test_results_of_cells(solved, results):
    _, (case, *_), _, _ = solved["cells"]
    result = results["cells"][0]
    assert (result.mask.dtype, result.mask.shape) == (np.bool_, case.shape)
    assert result.mask.any()
    assert np.array_equal(result.labels > 0, result.mask)
    assert result.table["object"] == list(range(1, int(result.labels.max()) + 1))
    assert result.table["area"] == [int((result.labels == label).sum()) for label in result.table["object"]]
    assert 0 <= result.probability.min() <= result.probability.max() <= 1
    assert result.overlay().shape == (*case.shape, 3)


def test_results_of_lesions(solved, predictors):
    _, (case, *_), _, _ = solved["lesions"]
    result = predictors["lesions"](case.path)
    assert sum(result.probabilities.values()) == pytest.approx(1)
    assert result.label == max(result.probabilities, key=result.probabilities.get)
    assert result.risk in result.table["risk"]
    assert result.table["class"] == list(result.probabilities)
    other = predictors["lesions"](case.path, age=80, gender="f", site="head")
    assert other.probabilities != result.probabilities
    for facts, message in (({"age": 130}, "age is 130; expected 0 to 120"), ({"gender": "x"}, "x"), ({"site": 9}, "9")):
        with pytest.raises(HandlensError, match=message):
            predictors["lesions"](case.path, **facts)


def test_results_of_ink(solved, predictors, results):
    _, (case, *_), _, _ = solved["ink"]
    result = results["ink"][0]
    assert result.mask.shape == result.probability_map.shape == case.shape
    assert 0 <= result.probability_map.min() <= result.probability_map.max() <= 1
    assert result.overlay().shape == (*case.shape, 3)
    with pytest.raises(DataError, match=r"an array of float64 with shape \(3, 9, 9\) is no volume"):
        predictors["ink"](np.zeros((3, 9, 9)))
    with pytest.raises(DataError, match="the mask has shape"):
        predictors["ink"](np.zeros((3, 9, 9), np.uint8), mask=np.zeros((9, 8)))


def test_results_of_forgery(solved, results):
    _, cases, answers, _ = solved["forgery"]
    for case, result in zip(cases, results["forgery"], strict=True):
        assert result.is_forged == bool(answers[case.id])
        assert 0 <= result.probability <= 1
        assert result.overlay().shape == (*case.shape, 3)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_odd_values_are_refused_in_words(name, predictors):
    for value in (None, "none.png", np.zeros(3), np.zeros((4, 5, 2))):
        with pytest.raises(HandlensError, match="."):
            predictors[name](value)


def test_a_model_of_another_challenge_is_refused():
    included = registry.challenge("cells").rules.with_name("model")
    assert handlens.load("cells", model=str(included)).model.folder == included
    with pytest.raises(ModelError, match="this model was trained for cells, not ink"):
        handlens.load("ink", model=included)


# --- how things look --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_reprs_are_short_and_jupyter_draws_results(name, solved, predictors, results):
    run, result = solved[name][3], results[name][0]
    for value, most in ((handlens.challenge(name), 120), (result, 120), (run, 250), (predictors[name], 250)):
        assert len(repr(value)) <= most
        assert "\n" not in repr(value)
        assert " at 0x" not in repr(value)
    html = result._repr_html_()
    assert "data:image/png;base64," in html
    assert "<script" not in html


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_tables_are_columns_of_one_length(name, results):
    result = results[name][0]
    if hasattr(result, "table"):
        assert len({len(column) for column in result.table.values()}) == 1


# --- the other functions ----------------------------------------------------------------------------------------------


def test_check_and_score(solved, tmp_path):
    data, _, _, run = solved["cells"]
    assert handlens.check("cells", run.submission, data=data) == []
    score = handlens.score("cells", str(run.submission), truth=str(data))
    assert isinstance(score, Score)
    assert score == run.score
    (tmp_path / "bad.csv").write_text("img,pixels\n0,1 1 5\n")
    problems = handlens.check("cells", tmp_path / "bad.csv", data=data)
    assert all(isinstance(problem, Problem) for problem in problems)
    assert [problem.line for problem in problems] == [2, 0]


def test_predict_is_solve_with_a_model(solved, tmp_path):
    data, _, _, run = solved["cells"]
    again = handlens.predict(registry.challenge("cells").rules.with_name("model"), data, out=tmp_path)
    assert again.submission.read_bytes() == run.submission.read_bytes()


def test_inspect_takes_one_figure_or_many(solved, tmp_path):
    _, (case, *_), _, _ = solved["forgery"]
    told = []
    (one,) = handlens.inspect(case.path, out=tmp_path / "report", progress=lambda *now: told.append(now))
    (many,) = handlens.inspect([str(case.path)])
    assert one["figure"] == many["figure"] == case.path.name
    assert one["verdict"] == many["verdict"]
    assert (tmp_path / "report" / "index.html").is_file()
    assert told == [(0, 1, case.path.name), (1, 1)]  # which figure is looked at


def test_options_are_checked(tmp_path):
    with pytest.raises(HandlensError, match="cells: turns is 3; expected one of 1, 2, 4, 8"):
        handlens.load("cells", turns=3)
    with pytest.raises(HandlensError, match="cells: there is no field nope"):
        handlens.sample("cells", tmp_path / "x", nope=1)
    assert not (tmp_path / "x").exists()


def test_a_training_is_refused_before_anything_is_written(tmp_path, solved):
    data, _, _, _ = solved["cells"]
    with pytest.raises(HandlensError, match="there is no field nope"):
        handlens.train("cells", data, run=tmp_path / "run", set={"nope": "1"})
    assert not (tmp_path / "run").exists()
