"""Training lesions: from a folder to one file that the judge takes; the score is honest."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

from dataclasses import replace

from click.testing import CliRunner
from tiny_training import CaughtFiles

from handlens import pipeline, registry
from handlens.challenges.lesions import training
from handlens.challenges.lesions.options import SCHEDULE, LesionsSettings, LesionsTraining
from handlens.challenges.lesions.predictor import load
from handlens.challenges.lesions.training import Lesions, make_task
from handlens.cli import cli
from handlens.errors import HandlensError
from handlens.inference.session import Session
from handlens.io.images import read_rgb, write_jpeg
from handlens.runstore.plan import read_plan
from handlens.training import engine, quantize
from handlens.training.folds import evaluate
from handlens.training.sources import MoreFolder, list_sources
from handlens.training.task import Finished
from handlens.types import Context, Limits, no_progress

pytestmark = pytest.mark.slow


LESIONS = registry.challenge("lesions")
FIELDS = LesionsTraining(size=32, bootstraps=2)
FAST = ["size=32", "batch=4", "steps=3", "threads=1", "bootstraps=2", "memory_format=channels_last"]


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesions") / "data"
    pipeline.sample(LESIONS, folder, seed=2, cases=6, size=64)
    return folder


def program(*args):
    """In a process of its own, that says last whether it loaded torch."""
    script = "import sys\nfrom handlens.cli import main\ntry:\n    main()\nfinally:\n    print('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("lesions") / "run"
    fields = [part for field in [*FAST, "note=Painted.", "weight_format=fp32"] for part in ("--set", field)]
    words = ["train", "lesions", data, "-o", run, "--folds", 2, "--minutes", 1, *fields]
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert "Prediction Score, out of fold" in done.stdout
    return run


def test_what_a_training_leaves(data, run):
    page = json.loads((run / "plan.json").read_text())
    assert (page["challenge"], page["finished"], page["fields"]["taxonomy"]) == ("lesions", True, "ten")
    assert set(page["decision"]) == {"offsets", "temperature", "turns"}
    assert len(page["decision"]["offsets"]) == 10
    assert page["parts"]["Prediction Score"] == page["score"]
    assert np.load(run / "features.npy").shape == (24, 1280)
    card = (run / "card.md").read_text()
    assert "Painted." in card
    assert "not a diagnosis" in card
    for words in ("| MEL |", "| sex f |", "| age ", "| site head |", "near-duplicates", "Numbers in the file: fp"):
        assert words in card
    assert (run / "model.onnx").stat().st_size < 20e6


def test_the_file_is_one_that_the_judge_takes(data, run):
    verdict = pipeline.judge(LESIONS, [run / "model.onnx"], data, LESIONS.settings(), limits=Limits())
    (entry,) = verdict.models
    assert (entry.verdict, entry.notes) == ("scored", ()), entry.why
    bytes_too = pipeline.judge(LESIONS, [run / "model.onnx"], data, LESIONS.settings(pixels="0-255"), limits=Limits())
    assert bytes_too.models[0].parts["Prediction Score"] == entry.parts["Prediction Score"]


def test_solving_needs_no_torch_and_says_the_same_as_the_judge(data, run, tmp_path):
    solved = program("predict", run, data, "-o", tmp_path / "out")
    assert solved.stderr.endswith("False\n")
    page = json.loads((tmp_path / "out" / "score.json").read_text())
    verdict = pipeline.judge(LESIONS, [run / "model.onnx"], data, LESIONS.settings(), limits=Limits())
    assert page["score"] == verdict.models[0].parts["Prediction Score"]


def test_pixels_to_1_and_to_255_get_the_same_answer(run):
    session = Session(run / "model.onnx", threads=1)
    image = np.random.default_rng(0).random((2, 3, 512, 512), np.float32)
    people = np.array([[40, 1, 3], [0, -1, -1]], np.float32)
    (ones,) = session(image=image, demographics=people)
    (bytes_,) = session(image=image * 255, demographics=people)
    (mixed,) = session(image=np.stack([image[0], image[1] * 255]), demographics=people)
    assert np.abs(ones - bytes_).max() < 1e-5
    assert np.abs(ones - mixed).max() < 1e-5


def test_the_later_edition_trains_with_the_same_code(data, tmp_path):
    table = (data / "train" / "labels.csv").read_text().replace("label,", "label_11,", 1)
    for old, new in (("AK", "AKIEC"), ("SK", "BKL"), ("SCC", "SCCKA"), ("NON", "INF"), ("ON", "BEN_OTH")):
        table = table.replace(f",{old},", f",{new},")
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "train" / "labels.csv").write_text(table)
    (tmp_path / "data" / "train" / "images").symlink_to(data / "train" / "images")
    settings = LESIONS.settings(taxonomy="eleven", folds=2, minutes=1, set=dict(each.split("=") for each in FAST))
    pipeline.train(LESIONS, tmp_path / "data", tmp_path / "run", settings=settings)
    verdict = pipeline.judge(
        LESIONS,
        [tmp_path / "run" / "model.onnx"],
        tmp_path / "data",
        LESIONS.settings(taxonomy="eleven"),
        limits=Limits(),
    )
    assert verdict.models[0].verdict == "scored", verdict.models[0].why
    solved = pipeline.solve(
        LESIONS,
        tmp_path / "data",
        tmp_path / "out",
        model=tmp_path / "run",
        settings=LESIONS.settings(taxonomy="eleven"),
    )
    assert solved.score is not None


def test_what_is_fitted_is_what_ships(data, tmp_path):
    """Every out-of-fold answer is what a predictor of that fold's file, its decision inside, says about the case's file.

    Photographs are larger than the network's input: training sees them reduced, prediction as they are.
    """
    large = tmp_path / "data" / "train"
    (large / "images").mkdir(parents=True)
    for path in sorted((data / "train" / "images").iterdir()):
        write_jpeg(large / "images" / path.name, read_rgb(path).repeat(3, 0).repeat(2, 1), quality=90)
    (large / "labels.csv").write_bytes((data / "train" / "labels.csv").read_bytes())
    fields = FIELDS.replace(weights="scratch", turns=4)
    caught = CaughtFiles(make_task(list_sources(large.parent, ()), tmp_path / "run", fields), tmp_path / "files")
    assert caught.task.make_item.__self__.pictures[0].shape[0] < read_rgb(caught.task.cases[0].path).shape[0]
    schedule = SCHEDULE.replace(steps=3, batch=4, threads=1, accelerator="cpu", memory_format="channels_last")
    engine.train(caught.make_task, schedule, LesionsSettings(folds=2), tmp_path / "run", no_progress)
    plan, cases = read_plan(tmp_path / "run"), caught.task.cases
    assert set(caught.answers) == {case.id for case in cases}
    files = set(caught.file_of.values())
    assert len(files) == 2
    for fold in (0, 1):
        members = [index for index in range(len(cases)) if plan.fold_of[index] == fold]
        model = caught.write_model(members[0], plan, tmp_path / f"model{fold}")
        predictor = load(Context(LesionsSettings(), model=model))
        assert {caught.file_of[index] for index in members} == {caught.file_of[members[0]]}
        for index in members:
            with predictor.decode(cases[index]) as photograph:
                answer = predictor.predict(photograph).answer
            assert np.array_equal(answer, caught.answers[cases[index].id])
    assert plan.results["parts"]["Prediction Score"] == plan.results["score"]
    page = plan.results["decision"]
    session = Session(tmp_path / "run" / "model.onnx", threads=1)
    assert json.loads(session._engine._session.get_modelmeta().custom_metadata_map["decision"]) == page


# --- the task -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def task(data, tmp_path_factory):
    return make_task(list_sources(data, ()), tmp_path_factory.mktemp("run"), FIELDS)


def test_an_item(task):
    item = task.make_item(np.random.default_rng(0), 3)
    assert {name: (array.shape, array.dtype.name) for name, array in item.items()} == {
        "image": ((32, 32, 3), "uint8"),
        "demographics": ((3,), "float32"),
        "class": ((), "int64"),
    }


def test_facts_are_forgotten_now_and_then(task):
    lesions = task.make_item.__self__
    forgetful = replace(lesions, fields=FIELDS.replace(metadata_dropout=0.5))
    known = int(np.flatnonzero((lesions.people != training.UNKNOWN).all(axis=1))[0])
    told = np.array([forgetful.make_item(np.random.default_rng(n), known)["demographics"] for n in range(60)])
    share = (told == training.UNKNOWN).mean(axis=0)
    assert ((share > 0.25) & (share < 0.75)).all()
    never = replace(lesions, fields=FIELDS.replace(metadata_dropout=0.0))
    assert np.array_equal(never.make_item(np.random.default_rng(0), known)["demographics"], lesions.people[known])


def test_rare_classes_are_drawn_more_often(task):
    codes, weights = task.make_item.__self__.codes, np.array(task.weights)
    counts = np.bincount(codes, minlength=10)
    rarest, commonest = counts[codes].argmin(), counts[codes].argmax()
    ratio = (counts[codes[commonest]] / counts[codes[rarest]]) ** 0.5
    assert weights[rarest] / weights[commonest] == pytest.approx(ratio)


def test_the_first_head_knows_only_its_members(task):
    """Other labels outside of the members change nothing: the fold stays unseen."""
    lesions = task.make_item.__self__
    members = [index for index in range(len(task.ids)) if index % 3]
    weights, bias = lesions.fit(members)
    other = lesions.codes.copy()
    other[::3] = (other[::3] + 1) % 10
    changed = replace(lesions, codes=other)
    assert np.array_equal(changed.fit(members)[0], weights)
    assert not np.array_equal(changed.fit(range(len(task.ids)))[1], bias)
    network = task.make_network()
    task.warm_start(network, members)
    assert np.allclose(network.head.weight.detach().numpy().T, weights, atol=1e-6)


def test_an_encoder_that_learned_nothing_has_no_warm_start(data, tmp_path):
    task = make_task(list_sources(data, ()), tmp_path / "run", FIELDS.replace(weights="scratch"))
    assert task.warm_start is None
    assert not (tmp_path / "run").exists()


def test_too_many_folds_are_refused_before_anything_is_kept(data, tmp_path):
    """What the encoder sees takes minutes; left behind, it would hold the folder for that order."""
    settings = LESIONS.settings(folds=50, set={"size": "32"})
    with pytest.raises(HandlensError, match="groups cannot fill 50 folds"):
        pipeline.train(LESIONS, data, tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


def test_decisions_are_nested(task):
    from training_plans import plan_of

    seen = []

    def decide(indices, predictions):
        seen.append(tuple(indices))
        return task.default

    count = len(task.ids)
    fold_of = tuple(index % 2 for index in range(count))
    predictions = {index: np.zeros(10, np.float32) for index in range(count)}
    settled = []

    def answer_settled(fold, decision):
        """What the fold's file would answer, with the decision inside."""
        settled.append((fold, decision))
        return lambda index: np.eye(10)[lesions.codes[index]]

    lesions = task.make_item.__self__
    found = evaluate(replace(task, decide=decide), plan_of(ids=task.ids, fold_of=fold_of), predictions, answer_settled)
    assert seen == [tuple(range(1, count, 2)), tuple(range(0, count, 2)), tuple(range(count))]
    assert settled == [(0, task.default), (1, task.default)]
    assert found.score.parts["accuracy"] == 1
    with pytest.raises(ValueError, match="predicted by the settled network's file"):
        task.answer(0, predictions[0], task.default)


def test_photographs_of_a_lesion_and_near_copies_share_a_group(data, tmp_path):
    folder = tmp_path / "data" / "train"
    (folder / "images").mkdir(parents=True)
    header, *rows = (data / "train" / "labels.csv").read_text().splitlines()
    plain = [row.rsplit(",", 1)[0] for row in rows]  # no lesion_id
    for row in rows:
        name = row.split(",")[0]
        write_jpeg(folder / "images" / name, read_rgb(data / "train" / "images" / name), quality=95)
    name, rest = plain[3].split(",", 1)
    picture = read_rgb(data / "train" / "images" / name)
    write_jpeg(folder / "images" / "copy.jpg", picture[1:, 1:], quality=70)
    (folder / "labels.csv").write_text("\n".join([header.rsplit(",", 1)[0], *plain, f"copy.jpg,{rest}"]) + "\n")
    task = make_task(list_sources(folder.parent, ()), tmp_path / "run", FIELDS.replace(warm_start=False))
    groups = dict(zip(task.ids, task.groups, strict=True))
    assert groups["copy.jpg"] == groups[name]
    assert len(set(groups.values())) == len(groups) - 1
    assert any("1 pair of near-duplicates" in line for line in task.card)
    grouped = make_task(list_sources(data, ()), tmp_path / "other", FIELDS.replace(warm_start=False))
    lesions = [row.rsplit(",", 1)[1] for row in rows]
    assert len(set(grouped.groups)) == len(set(lesions))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "100"}, "size is '100'; expected a multiple of 32 from 32 to 512"),
        ({"objective": "fame"}, "objective is 'fame'; expected one of prediction, macro-f1"),
        ({"weight_format": "int4"}, "weight_format is 'int4'; expected one of fp32, fp16, int8"),
        ({"taxonomy": "nine"}, "taxonomy is 'nine'; expected one of ten, eleven"),
        ({"frozen_stages": "6"}, "frozen_stages is '6'; expected a whole number from 0 to 5"),
        ({"min_scale": "2"}, "min_scale 2.0, max_scale 1.4; expected min_scale to be the smaller one"),
    ],
)
def test_fields_out_of_range_are_refused(given, message):
    with pytest.raises(HandlensError, match=message):
        engine.split_fields(LesionsTraining(), SCHEDULE, given)


# --- smaller files ------------------------------------------------------------------------------------------------


def finished(task, path, score):
    count = len(task.ids)
    folds = (tuple(range(0, count, 2)), tuple(range(1, count, 2)))
    decisions = (task.default, task.default)
    return Finished(path, score, task.default, decisions, folds, {}, {}, lambda fold: task.make_network().eval())


@pytest.fixture
def small(task, run, tmp_path):
    """The task with the weights of a file, and that file's score."""
    path = tmp_path / "model.onnx"
    path.write_bytes((run / "model.onnx").read_bytes())
    return path, task.score({id: np.full(10, 0.1) for id in task.ids})


@pytest.mark.parametrize(("loss", "kept"), [(0.29, "int8"), (0.31, "fp32")])
def test_integers_are_kept_only_where_they_cost_little(task, small, monkeypatch, loss, kept):
    path, score = small
    size = path.stat().st_size
    lesions = replace(task.make_item.__self__, fields=FIELDS.replace(weight_format="int8"))
    values = {False: score.value, True: score.value - loss / 100}
    monkeypatch.setattr(Lesions, "_out_of_fold", lambda self, shown, *, small: values[small])
    found = lesions.finish(finished(task, path, score))
    assert found["stored"] == kept
    assert f"8-bit integers cost {loss:.2f} points out of fold" in found["stored_because"]
    assert any(found["stored_because"] in line for line in found["lines"])
    assert (path.stat().st_size < 0.5 * size) == (kept == "int8")


def test_what_integers_cost_is_measured_on_files_of_the_folds(task, small):
    path, score = small
    lesions = replace(task.make_item.__self__, fields=FIELDS.replace(weight_format="int8"))
    assert 0 <= lesions._out_of_fold(finished(task, path, score), small=True) <= 1


def test_halves_are_half_the_size(task, small, monkeypatch):
    monkeypatch.setattr(quantize, "LEAST", 64)  # so that all weights are stored so, whatever that costs here
    monkeypatch.setattr(quantize, "MOST_CHANGE", 1.0)
    path, score = small
    size = path.stat().st_size
    lesions = replace(task.make_item.__self__, fields=FIELDS.replace(weight_format="fp16"))
    assert lesions.finish(finished(task, path, score))["stored"] == "fp16"
    assert 0.45 * size < path.stat().st_size < 0.55 * size


# --- a model that is continued ------------------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path):
    folder = tmp_path / "other"
    pipeline.sample(LESIONS, folder, seed=9, cases=6, size=64)
    table = folder / "train" / "labels.csv"
    table.write_text(table.read_text().replace(",lesion_", ",elsewhere_"))  # samples number their lesions alike
    return folder


def test_a_continued_network_begins_with_the_answers_of_its_model(data, run, other, tmp_path):
    import torch

    from handlens.challenges.lesions.network import Contest

    sources = list_sources(data, [MoreFolder(f"{other}=0.5")])
    task = make_task(sources, tmp_path / "next", FIELDS.replace(start=str(run)))
    network = task.make_network().eval()
    task.settle(network, task.default)
    image = np.random.default_rng(0).random((1, 3, 512, 512), np.float32)
    people = np.array([[50, 1, 7]], np.float32)
    (said,) = Session(run / "model.onnx", threads=1)(image=image, demographics=people)
    with torch.inference_mode():
        again = Contest(network, 512, FIELDS.size)(torch.from_numpy(image), torch.from_numpy(people)).numpy()
    assert np.abs(said - again).max() < 1e-5
    assert task.warm_start is None


def test_what_a_model_has_seen_is_never_held_out(data, run, other, tmp_path):
    """The training that teaches it another folder scores that folder alone, and needs no steps."""
    settings = LesionsSettings.parse(
        {
            "folds": 2,
            "more": (str(other),),
            "set": {"start": str(run), "head_only": "true", "size": "32", "threads": "1"},
        }
    )
    training.train(data, tmp_path / "next", settings, no_progress)
    plan = read_plan(tmp_path / "next")
    held_out = {id for id, fold in zip(plan.ids, plan.fold_of, strict=True) if fold >= 0}
    assert held_out == {id for id in plan.ids if id.startswith("other/")}
    assert set(plan.results["scores"]) == held_out
    assert (plan.steps, plan.final_steps) == (0, 0)
    assert [source["name"] for source in plan.sources] == ["data", "other"]
    assert plan.results["decision"] == read_plan(run).results["decision"]
    card = (tmp_path / "next" / "card.md").read_text()
    assert "never count here" in card
    assert "Expected calibration error" in card
    assert "| other |" in card
    load(Context(LesionsSettings(), model=tmp_path / "next"))
