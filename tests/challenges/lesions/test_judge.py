"""Models of others are judged: the honest ones ranked by the exact score, every hostile one refused with its verdict."""

import csv
import json
import re
import time
from dataclasses import replace
from functools import partial

import hostile_models as models
import numpy as np
import pytest
from click.testing import CliRunner

import handlens
from handlens import pipeline, registry
from handlens.challenges.lesions import judge
from handlens.challenges.lesions.score import efficiency
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.cli import cli
from handlens.errors import DataError
from handlens.io.images import write_png
from handlens.sandbox.runner import GuardedModel, opened
from handlens.types import Judged, Limits

LESIONS = registry.challenge("lesions")
LIMITS = Limits(memory_mib=600, answer_seconds=2)


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """Ten photographs of one colour each, with the labels of both editions."""
    folder = tmp_path_factory.mktemp("hidden")
    rng = np.random.default_rng(0)
    rows = [["image_path", "label", "label_11", "Age", "Gender", "Location"]]
    for number, (ten, eleven) in enumerate(zip(TAXONOMIES["ten"].classes, TAXONOMIES["eleven"].classes, strict=False)):
        write_png(folder / "images" / f"{number}.png", np.full((40, 60, 3), rng.integers(0, 256, 3), np.uint8))
        rows.append(
            [f"{number}.png", ten, eleven, 20 + 5 * number, "mf"[number % 2], (number % 7 + 1, "head")[number > 6]]
        )
    with (folder / "labels.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Fewer questions: a model is asked some hundred otherwise."""
    monkeypatch.setattr(judge, "LEAST_TIMINGS", 12)
    monkeypatch.setattr(judge, "SWAPPED", 10)
    monkeypatch.setattr(judge, "TRIED", 2)


def judged(paths, folder, limits=LIMITS, **options):
    return pipeline.judge(LESIONS, paths, folder, LESIONS.settings(**options), limits=limits)


@pytest.mark.parametrize("taxonomy", ["ten", "eleven"])
def test_an_honest_model_gets_the_exact_score(taxonomy, hidden, tmp_path):
    """The same model, run by hand, its table scored by `handlens score`."""
    import onnxruntime

    classes = TAXONOMIES[taxonomy].classes
    path = models.write(tmp_path / "honest.onnx", models.honest(len(classes)))
    judgement = judged([path], hidden, taxonomy=taxonomy)
    (entry,) = judgement.models
    assert (entry.rank, entry.verdict, entry.notes, judgement.cases) == (1, "scored", (), 10)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = [["filename", *classes]]
    for case in LESIONS.read_cases(hidden, "train"):
        image = judge.image_input(case.path, top=1.0)[None]
        (chances,) = session.run(None, {"image": image, "people": judge.demographics_input(case.details)[None]})
        rows.append([case.id, *map(repr, chances[0].astype(float).tolist())])
    with (tmp_path / "table.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    expected = handlens.score("lesions", tmp_path / "table.csv", truth=hidden, taxonomy=taxonomy)
    assert {name: entry.parts[name] for name in expected.parts} == expected.parts
    assert entry.parts["size MiB"] == path.stat().st_size / 2**20
    assert 0 < entry.parts["median ms"] <= entry.parts["p95 ms"]
    assert entry.parts["Efficiency"] == 1
    assert entry.parts["Final Score"] == pytest.approx(0.9 * expected.value + 0.1)


@pytest.mark.slow
def test_hostile_models_are_refused_and_the_others_are_judged(hidden, tmp_path):
    hostile = {**models.HOSTILE, **models.MORE}
    paths = [models.write(tmp_path / f"{name}.onnx", make()) for name, (make, _) in hostile.items()]
    middle = len(paths) // 2
    honest = models.write(tmp_path / "honest.onnx", models.honest())
    judgement = judged([*paths[:middle], honest, *paths[middle:]], hidden)
    first, *rest = judgement.models
    assert (first.model, first.rank, first.verdict) == (honest, 1, "scored")
    assert {entry.model.stem: entry.verdict for entry in rest} == {name: word for name, (_, word) in hostile.items()}
    assert all(entry.why and not entry.parts and entry.rank == 0 for entry in rest)


def test_pixels_may_be_fed_as_bytes(hidden, tmp_path):
    path = models.write(tmp_path / "bytes.onnx", models.honest())
    small, large = (judged([path], hidden, pixels=name).models[0].parts for name in ("0-1", "0-255"))
    assert {name for name in small if name.startswith("F1") and small[name] != large[name]}


def entry_of(name, prediction, ms, mib=10.0):
    parts = {"Prediction Score": prediction, "size MiB": mib, "median ms": ms}
    return Judged(name, 0, "scored", "", parts)


def test_ranks_are_relative_to_the_models_that_were_scored():
    entries = [
        entry_of("slow", 0.5, 50.0),
        Judged("broken", 0, "hang", "no answer"),
        entry_of("best", 0.6, 20.0),
        entry_of("twin", 0.6, 20.0),
        entry_of("large", 0.5, 10.0, mib=100.0),
    ]
    ranked = judge.rank_models(entries, LESIONS.settings())
    assert [(entry.model, entry.rank) for entry in ranked] == [
        ("best", 1),
        ("twin", 1),
        ("large", 3),
        ("slow", 4),
        ("broken", 0),
    ]
    field = [50.0, 20.0, 20.0, 10.0]
    assert ranked[2].parts["Efficiency"] == efficiency(100.0, 10.0, field=field) == 0.75
    assert ranked[0].parts["Final Score"] == pytest.approx(0.9 * 0.6 + 0.1 * (0.5 + 0.5 * 0.75))
    by_size = judge.rank_models(entries, LESIONS.settings(efficiency="size-only"))
    assert {entry.model: entry.parts.get("Efficiency") for entry in by_size} == {
        "best": 1,
        "twin": 1,
        "slow": 1,
        "large": 0.5,
        "broken": None,
    }


class Spy:
    """Sees what a model is asked; `seconds` are what its answers claim to have taken."""

    def __init__(self, monkeypatch):
        self.asked, self.processes = [], []
        ask, restart = GuardedModel.ask, GuardedModel.restart

        def listen(model, images, people):
            answer = ask(model, images, people)
            if len(images) == 1:
                self.asked.append((images.tobytes(), people.tobytes()))
            return answer

        def count(model):
            self.processes.append(len(self.asked))
            restart(model)

        monkeypatch.setattr(GuardedModel, "ask", listen)
        monkeypatch.setattr(GuardedModel, "restart", count)

    @property
    def scored(self):
        """What was asked in the second process."""
        return self.asked[self.processes[-1] :]


def test_no_order_of_questions_is_like_another(hidden, tmp_path, monkeypatch):
    """The same score in two runs; the questions come in another order, with repetitions among them."""
    path = models.write(tmp_path / "honest.onnx", models.honest())
    orders, parts = [], []
    for _ in range(2):
        with monkeypatch.context() as patch:
            spy = Spy(patch)
            parts.append(judged([path], hidden).models[0].parts)
            orders.append(spy.scored)
            assert len(spy.processes) == 2
    assert orders[0] != orders[1]
    assert len(orders[0]) > len(set(orders[0])) >= 10
    timed = {name for name in parts[0] if name.endswith("ms")} | {"Efficiency", "Final Score"}
    assert {name: parts[0][name] for name in parts[0].keys() - timed} == {
        name: parts[1][name] for name in parts[1].keys() - timed
    }


def test_the_time_is_that_of_the_scored_answers(hidden, tmp_path, monkeypatch):
    """Answers about cases as they are take 7 s here, all others 1 s, whatever a clock says."""
    path = models.write(tmp_path / "honest.onnx", models.honest())
    cases = LESIONS.open_truth(hidden, LESIONS.settings()).cases
    natural = {
        (judge.image_input(case.path, top=1.0).tobytes(), judge.demographics_input(case.details).tobytes())
        for case in cases
    }
    ask = GuardedModel.ask

    def slow(model, images, people):
        seconds = 7.0 if (images.tobytes(), people.tobytes()) in natural else 1.0
        return replace(ask(model, images, people), seconds=seconds)

    monkeypatch.setattr(GuardedModel, "ask", slow)
    (entry,) = judged([path], hidden).models
    assert (entry.parts["median ms"], entry.parts["p95 ms"]) == (7000, 7000)


@pytest.mark.parametrize(("slow", "noted"), [(0.0, False), (0.04, False), (0.3, True)])
def test_a_median_that_hides_slow_answers_is_noted(slow, noted, hidden, tmp_path, monkeypatch):
    """A model that works on some photographs alone: the part of its questions that take a hundred times as long."""
    path = models.write(tmp_path / "honest.onnx", models.honest())
    ask, asked = GuardedModel.ask, []

    def sometimes_slow(model, images, people):
        asked.append(len(asked) * slow % 1 < slow)
        return replace(ask(model, images, people), seconds=1.0 if asked[-1] else 0.01)

    monkeypatch.setattr(judge, "LEAST_TIMINGS", 40)
    monkeypatch.setattr(GuardedModel, "ask", sometimes_slow)
    (entry,) = judged([path], hidden).models
    assert [note.startswith("its time depends on the photograph: 10 ms in the median") for note in entry.notes] == [
        True
    ] * noted


def test_the_clock_is_ours(hidden, tmp_path):
    """A process that lies about its time cannot: nobody asks it."""
    path = models.write(tmp_path / "honest.onnx", models.honest())
    with opened(path, LIMITS) as model:
        begun = time.perf_counter()
        answer = model.ask(np.zeros((1, 3, 512, 512), np.float32), np.zeros((1, 3), np.float32))
        assert 0 < answer.seconds < time.perf_counter() - begun


@pytest.mark.parametrize("calls", [5, 20])
def test_a_model_that_counts_is_refused_even_where_the_reader_lets_it_pass(calls, hidden, tmp_path, monkeypatch):
    """From some call on it answers a constant, in the trial or later: that differs from what it answered before."""
    monkeypatch.setattr(judge, "opened", partial(opened, entry="hostile_child:without_reader"))
    path = models.write(tmp_path / "m.onnx", models.constant_when_not_tested(calls))
    (entry,) = judged([path], hidden).models
    assert entry.verdict == "different answers"


def test_a_model_that_uses_inputs_only_for_made_up_questions_is_refused(hidden, tmp_path):
    """It answers a constant unless the photograph is inverted or the person is one of those that the trial makes up."""
    steps = """
        ages = Gather<axis = 1>(people, zero)
        far = Sub(ages, five)
        near = Equal(far, nothing)
        used = Where(near, logits, flat)
        chance = Softmax<axis = 1>(used)
    """
    constants = "int64[1] zero = {0}, float five = {5.0}, float nothing = {0.0}"
    numbers = ", ".join(str(index) for index in range(10))
    constants += f", float[1, 10] flat = {{{numbers}}}"
    path = models.write(tmp_path / "m.onnx", models.parse(models.SEEING + steps, constants=constants))
    (entry,) = judged([path], hidden).models
    assert entry.verdict == "ignores an input"
    assert f"in {judge.SWAPPED} questions" in entry.why


def test_labels_lie_apart_from_the_questions(hidden, tmp_path):
    """The layout of `handlens sample`: demographics in test/, labels in truth/."""
    (tmp_path / "truth").mkdir()
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "images").symlink_to(hidden / "images")
    rows = list(csv.reader((hidden / "labels.csv").read_text().splitlines()))
    for name, columns in (("test", (0, 3, 4, 5)), ("truth", (0, 1))):
        with (tmp_path / name / "labels.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([[row[column] for column in columns] for row in rows])
    path = models.write(tmp_path / "honest.onnx", models.honest())
    ours, theirs = (judged([path], folder).models[0].parts for folder in (tmp_path, hidden))
    assert ours["Prediction Score"] == theirs["Prediction Score"]
    (tmp_path / "truth" / "labels.csv").write_text("filename,label\n0.png,AK\n")
    with pytest.raises(DataError, match=r"9 cases without a label \(first: 1\.png\): add the labels under truth/"):
        judged([path], tmp_path)


def test_a_photograph_that_is_missing_is_the_data_s_fault(hidden, tmp_path):
    (tmp_path / "labels.csv").write_text("filename,label\nnone.png,AK\n")
    with pytest.raises(DataError, match="none"):
        judged([tmp_path / "m.onnx"], tmp_path)


def test_one_black_photograph_is_enough_to_judge_by(tmp_path):
    write_png(tmp_path / "a.png", np.zeros((20, 20, 3), np.uint8))
    (tmp_path / "labels.csv").write_text("filename,label\na.png,NV\n")
    paths = [models.write(tmp_path / f"{make.__name__}.onnx", make()) for make in (models.honest, models.ignores_image)]
    assert [entry.verdict for entry in judged(paths, tmp_path).models] == ["scored", "ignores an input"]


def test_answers_that_depend_on_the_neighbours_in_a_batch_are_noted(hidden, tmp_path):
    batch = "mean = ReduceMean<keepdims = 1>(logits, first) sum = Add(logits, mean) chance = Softmax<axis = 1>(sum)"
    graph = models.parse(models.SEEING + batch, constants="int64[1] first = {0}")
    (entry,) = judged([models.write(tmp_path / "among.onnx", graph)], hidden).models
    (note,) = entry.notes
    assert note.startswith("answers change by up to 0.")


@pytest.mark.parametrize("make", [models.honest, models.ignores_people, models.ignores_image])
def test_answers_that_are_drawn_at_random_are_refused_where_the_reader_lets_them_pass(
    make, hidden, tmp_path, monkeypatch
):
    monkeypatch.setattr(judge, "opened", partial(opened, entry="hostile_child:without_reader"))
    model = make()
    model.graph.node.insert(len(model.graph.node) - 1, models.node("RandomNormalLike", ["logits"], ["noise"]))
    model.graph.node.insert(len(model.graph.node) - 1, models.node("Add", ["logits", "noise"], ["sum"]))
    model.graph.node[-1].input[0] = "sum"
    (entry,) = judged([models.write(tmp_path / "lots.onnx", model)], hidden).models
    assert entry.verdict == "different answers"
    assert "when it was asked again" in entry.why


def test_few_answers_that_change_are_noted(hidden, tmp_path):
    """It looks at the photograph of people over 60 alone, of whom there is one."""
    steps = """
        ages = Gather<axis = 1>(people, zero)
        old = Greater(ages, sixty)
        seen = Where(old, logits, hundredths3)
        chance = Softmax<axis = 1>(seen)
    """
    numbers = ", ".join(str((index % 5) / 7) for index in range(30))
    constants = f"int64[1] zero = {{0}}, float sixty = {{60.0}}, float[3, 10] three = {{{numbers}}}"
    graph = models.parse(models.SEEING + "hundredths3 = MatMul(hundredths, three)" + steps, constants=constants)
    (entry,) = judged([models.write(tmp_path / "few.onnx", graph)], hidden).models
    assert entry.verdict in ("scored", "ignores an input")
    assert entry.verdict == "ignores an input" or any("changed with the image" in note for note in entry.notes)


def test_the_command_prints_a_ranked_table(hidden, tmp_path):
    honest = models.write(tmp_path / "honest.onnx", models.honest())
    broken = models.write(tmp_path / "broken\x1b.onnx", b"no model")
    run = CliRunner().invoke(cli, ["judge", "lesions", str(broken), str(honest), "--data", str(hidden)])
    assert run.exit_code == 1
    lines = run.stdout.splitlines()
    assert lines[0] == "10 cases, 2 models"
    rows = [re.split("  +", line.strip()) for line in lines]
    assert ["rank", "model", *judge.COLUMNS] in rows  # in one line, whatever the width of the terminal
    (first,) = [row for row in rows if row[:2] == ["1", str(honest)]]
    assert len(first) == 2 + len(judge.COLUMNS)
    assert all(float(cell) >= 0 for cell in first[2:])
    assert any(row[0] == "F1 MEL" for row in rows)
    (refused,) = [row for row in rows if "broken" in row[0]]
    assert refused[0].endswith("broken?.onnx")
    assert refused[1] == "not a model"
    assert refused[2].startswith("not a readable ONNX file")
    assert "\x1b" not in run.stdout
    run = CliRunner().invoke(cli, ["judge", "lesions", str(honest), "--data", str(hidden), "--json"])
    assert run.exit_code == 0
    page = json.loads(run.stdout)
    assert (page["challenge"], page["cases"], page["models"][0]["rank"]) == ("lesions", 10, 1)
    assert {"Final Score", "F1 malignant", "F1 ON", "p95 ms"} <= set(page["models"][0]["parts"])


def test_other_challenges_take_no_models():
    run = CliRunner().invoke(cli, ["judge", "cells", "m.onnx", "--data", "x"])
    assert run.exit_code == 1
    assert "challenges that have it: lesions" in str(run.exception)
