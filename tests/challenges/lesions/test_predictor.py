"""Solving lesions with a trained model: folders with and without a table, one photograph, and what is left beside."""

import json
import pickle
import shutil

import numpy as np
import onnx_models
import pytest
from click.testing import CliRunner

import handlens
from handlens import pipeline, registry
from handlens.challenges.lesions import predictor
from handlens.challenges.lesions.predictor import LesionsPredictor, load
from handlens.challenges.lesions.result import ANSWERS, NO_DIAGNOSIS
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.cli import cli
from handlens.errors import HandlensError, ModelError
from handlens.types import Case, Context

LESIONS = registry.challenge("lesions")
TAKES = "float[n, 3, 512, 512] image, float[n, 3] demographics"
GIVES = "float[n, classes] probability"


def write_model(folder, taxonomy="ten", steps=None):
    """Class 0 for the dark, more of class 1 the older, of class 2 for men, of the last class for the torso."""
    count = len(TAXONOMIES[taxonomy].classes)
    table = np.zeros((3, count), np.float32)
    table[0, 1], table[1, 2], table[2, -1] = 0.01, 0.5, 0.1
    values = ", ".join(map(str, table.ravel().tolist()))
    steps = (
        steps
        or """
        light = ReduceMean<keepdims = 0>(image, axes)
        dark = Sub(one, light)
        column = Unsqueeze(dark, last)
        first = Mul(column, unit)
        facts = MatMul(demographics, table)
        logits = Add(first, facts)
        probability = Softmax<axis = 1>(logits)
    """
    )
    unit = ", ".join(["1.0", *["0.0"] * (count - 1)])
    constants = (
        f"int64[3] axes = {{1, 2, 3}}, int64[1] last = {{1}}, float one = {{1.0}}, "
        f"float[1, {count}] unit = {{{unit}}}, float[3, {count}] table = {{{values}}}"
    )
    onnx_models.save(folder, steps, takes=TAKES, gives=GIVES, constants=constants)
    plan = {"challenge": "lesions", "fields": {"taxonomy": taxonomy}, "decision": {"offsets": [0.0] * count}}
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesions") / "data"
    pipeline.sample(LESIONS, folder, seed=1, cases=3, size=64)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def answering(predictor):
    """Answers of cases, from their files."""

    def answer(case):
        with predictor.decode(case) as photograph:
            return predictor.predict(photograph).answer

    return answer


def prepare(model, **options):
    return answering(load(Context(LESIONS.settings(**options), model=model)))


def test_a_case_is_answered_with_probabilities(data, model):
    case = LESIONS.read_cases(data, "test")[0]
    row = prepare(model)(case)
    assert (row.dtype, row.shape) == (np.float64, (10,))
    assert row.sum() == pytest.approx(1, abs=1e-12)


def test_facts_of_the_command_stand_in_where_the_table_has_none(data, model):
    path = LESIONS.read_cases(data, "test")[0].path
    nobody = Case("a", path, details={"age": None, "gender": None, "location": None})
    young = Case("a", path, details={"age": 20.0, "gender": None, "location": None})
    told = prepare(model, age=90, gender="m", site="torso")
    assert told(nobody)[1] > prepare(model)(nobody)[1]
    assert told(nobody)[2] > prepare(model)(nobody)[2]
    assert told(young)[1] < told(nobody)[1]  # her own age counts
    assert np.allclose(
        told(nobody), prepare(model)(Case("a", path, details={"age": 90.0, "gender": "m", "location": 7}))
    )
    assert np.array_equal(told(nobody), prepare(model, age=90, gender="male", site="7")(nobody))
    with pytest.raises(HandlensError, match="age is 121; expected a number from 0 to 120"):
        prepare(model, age=121)


def run(*args):
    return CliRunner().invoke(cli, list(map(str, args)))


def test_photographs_of_one_lesion_get_their_mean_answer(data, model, tmp_path):
    images = sorted((data / "train" / "images").iterdir())[:3]
    rows = [f"{path.name},{lesion},40" for path, lesion in zip(images, ("L1", "", "L1"), strict=True)]
    folder = tmp_path / "own"
    for path in images:
        (folder / "images").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / "images")
    (folder / "labels.csv").write_text("\n".join(["filename,lesion_id,age", *rows]) + "\n")
    cases = LESIONS.read_cases(folder, "test")
    answers = {}
    for per_lesion in (False, True):
        asked = load(Context(LESIONS.settings(per_lesion=per_lesion), model=model))
        answers[per_lesion] = []
        for case in cases:
            with asked.decode(case) as photograph:
                answers[per_lesion].append(asked.predict(photograph).answer)
    single, joined = answers[False], answers[True]
    assert np.abs(single[0] - single[2]).max() > 1e-4
    assert np.array_equal(joined[1], single[1])
    assert joined[0] == pytest.approx((single[0] + single[2]) / 2)
    assert np.array_equal(joined[0], joined[2])


def test_orientations_of_a_photograph_are_averaged():
    image = np.random.default_rng(0).integers(0, 255, (512, 512, 3), np.uint8)
    once, by_default, all_eight = (handlens.load("lesions", **turns) for turns in ({"turns": 1}, {}, {"turns": 8}))
    turned = [once(np.ascontiguousarray(np.rot90(image, quarters))).row for quarters in range(4)]
    mirrored = [once(np.ascontiguousarray(np.rot90(image[:, ::-1], quarters))).row for quarters in range(4)]
    assert np.ptp(turned, axis=0).max() > 1e-3
    assert by_default(image).row == pytest.approx(np.mean(turned, axis=0), abs=1e-6)
    assert all_eight(image).row == pytest.approx(np.mean(turned + mirrored, axis=0), abs=1e-6)


def test_one_photograph(data, model, tmp_path):
    path = LESIONS.read_cases(data, "test")[0].path
    args = ("--age", 70, "--gender", "m", "--site", "head")
    done = run("predict", model, path, "-o", tmp_path / "out", *args)
    assert done.exit_code == 0, done.exception
    assert NO_DIAGNOSIS in done.stderr
    page = json.loads((tmp_path / "out" / ANSWERS).read_text())
    (answer,) = page["answers"]
    assert page["note"] == NO_DIAGNOSIS
    assert page["classes"]["MEL"] == "melanoma"
    assert f"{path.name}: {answer['name']} ({answer['class']}), risk group {answer['risk_group']}" in done.stderr
    header, row = (line.split(",") for line in (tmp_path / "out" / "submission.csv").read_text().splitlines())
    assert row[0] == path.name == answer["photograph"]
    assert dict(zip(header[1:], map(float, row[1:]), strict=True)) == answer["probabilities"]


def test_a_folder_of_photographs_alone(data, model, tmp_path):
    shutil.copytree(data / "test" / "images", tmp_path / "photographs")
    solved = pipeline.solve(LESIONS, tmp_path / "photographs", tmp_path / "out", model=model)
    assert (solved.cases, solved.score) == (3, None)
    answers = json.loads((tmp_path / "out" / ANSWERS).read_text())["answers"]
    assert [answer["photograph"] for answer in answers] == sorted(
        path.name for path in (tmp_path / "photographs").iterdir()
    )


def test_a_folder_with_a_table_is_scored(data, model, tmp_path):
    solved = pipeline.solve(LESIONS, data, tmp_path / "out", model=model)
    assert solved.score is not None
    assert NO_DIAGNOSIS in solved.notes


def test_the_shipped_model_is_used_where_it_knows_the_classes(data, tmp_path, monkeypatch):
    monkeypatch.setattr(predictor, "INCLUDED_MODEL", write_model(tmp_path / "included"))
    opened = load(Context(LESIONS.settings()))
    assert isinstance(opened, LesionsPredictor)
    assert opened.model.folder == tmp_path / "included"
    remedies = "say --taxonomy ten, name another with --model, or say --solver baseline"
    with pytest.raises(ModelError, match=f"included: the included model knows the ten classes: {remedies}"):
        pipeline.solve(LESIONS, data, tmp_path / "out", settings=LESIONS.settings(taxonomy="eleven"))
    assert not (tmp_path / "out").exists()  # no silent fallback to the baseline
    monkeypatch.setattr(predictor, "INCLUDED_MODEL", tmp_path / "none")
    with pytest.raises(ModelError, match=r"no plan\.json in it"):
        pipeline.solve(LESIONS, data, tmp_path / "out")


def test_a_predictor_travels(data, model):
    opened = load(Context(LESIONS.settings(age=40), model=model))
    copy = pickle.loads(pickle.dumps(opened))
    case = LESIONS.read_cases(data, "test")[0]
    assert (copy.taxonomy, copy.facts) == (opened.taxonomy, {"age": 40.0})
    assert np.array_equal(answering(copy)(case), answering(opened)(case))


def test_the_baseline_learns_from_the_folder_and_is_told_facts_too(data, tmp_path):
    truth = LESIONS.open_truth(data, LESIONS.settings())
    told = answering(LESIONS.baseline(Context(LESIONS.settings(age=90, gender="m"), lambda: truth)))
    plain = answering(LESIONS.baseline(Context(LESIONS.settings(), lambda: truth)))
    path = LESIONS.read_cases(data, "test")[0].path
    nobody = Case("new", path, group="new", details={"age": None, "gender": None, "location": None})
    assert np.abs(told(nobody) - plain(nobody)).max() > 1e-6
    solved = pipeline.solve(LESIONS, data, tmp_path / "out", solver="baseline")
    case = LESIONS.read_cases(data, "test")[0]
    line = next(line for line in solved.submission.read_text().splitlines() if line.startswith(case.id))
    assert tuple(line.split(",")[1:]) == LESIONS.codec(LESIONS.settings()).format(plain(case), case)
    with pytest.raises(ModelError, match="no labelled photographs to learn from"):
        LESIONS.baseline(Context(LESIONS.settings()))


def test_a_model_of_other_classes_is_refused(tmp_path):
    eleven = write_model(tmp_path / "eleven", "eleven")
    with pytest.raises(ModelError, match="this model knows the eleven classes: say --taxonomy eleven"):
        prepare(eleven)
    (eleven / "plan.json").write_text(json.dumps({"challenge": "lesions"}))
    with pytest.raises(ModelError, match="does not say which classes the model knows"):
        prepare(eleven)


def test_answers_that_are_no_probabilities_are_refused(data, tmp_path):
    case = LESIONS.read_cases(data, "test")[0]
    for name, steps in {
        "sum": "facts = MatMul(demographics, table)\nprobability = Sigmoid(facts)",
        "nan": "facts = MatMul(demographics, table)\nhuge = Exp(image)\nsum = ReduceSum<keepdims = 0>(huge, axes)\n"
        "column = Unsqueeze(sum, last)\nzero = Sub(column, column)\nodd = Div(zero, zero)\nprobability = Add(facts, odd)",
    }.items():
        with pytest.raises(ModelError, match="numbers that are no probabilities"):
            prepare(write_model(tmp_path / name, steps=steps))(case)
    wrong = write_model(tmp_path / "wrong", "eleven")
    (wrong / "plan.json").write_text((wrong / "plan.json").read_text().replace("eleven", "ten"))
    with pytest.raises(ModelError, match="gives 11 probabilities; the ten classes need 10"):
        prepare(wrong)(case)
