"""Training cells: from a folder to a model that solves without torch; the score is honest."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

from dataclasses import replace
from functools import partial

import tiny_training

from handlens import pipeline, registry
from handlens.challenges.cells.calibration import dice_at_levels
from handlens.challenges.cells.decision import CellsDecision
from handlens.challenges.cells.offsets import Offset
from handlens.challenges.cells.options import CellsSettings, CellsTraining
from handlens.challenges.cells.predictor import load
from handlens.challenges.cells.training import make_task
from handlens.errors import DataError, HandlensError
from handlens.inference.model import TRAINED_ON, digest
from handlens.inference.tiling import BAND_ROWS, Tiling, cut
from handlens.io.images import read_mask, read_rgb, write_png
from handlens.masks.rle import decode, encode
from handlens.runstore.plan import read_plan
from handlens.settings import fields_of
from handlens.training import engine
from handlens.training.folds import evaluate
from handlens.training.loop import Stepper
from handlens.training.options import Schedule
from handlens.types import Context, no_progress

pytestmark = pytest.mark.slow


FIELDS = CellsTraining(weights="scratch", crop=64)


def probabilities(pairs):
    """Sure of every label."""
    return {index: (mask / 255).astype(np.float32) for index, (_, mask) in enumerate(pairs)}


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=2, cases=4, size=128)
    return folder


def program(*args):
    script = "import sys\nfrom handlens.cli import main\ntry:\n    main()\nfinally:\n    print('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done


def test_the_commands(slides, tmp_path):
    run = tmp_path / "run"
    fields = ["weights=scratch", "crop=64", "batch=2", "turns=1", "steps=3", "threads=1", "note=Made-up-slides."]
    args = [part for field in fields for part in ("--set", field)]
    done = program("train", "cells", slides, "-o", run, "--folds", 2, "--minutes", 1, *args)
    assert done.stderr.endswith("True\n")
    page = json.loads((run / "plan.json").read_text())
    assert (page["challenge"], page["finished"], page["fields"]["crop"]) == ("cells", True, 64)
    assert set(page["decision"]) == {field.path.split(".")[0] for field in fields_of(CellsDecision)}
    assert page["decision"]["slide"] is None
    assert page["decision"]["sizes"] == [[128, 128]]
    assert list(page["scores"]) == ["0", "1", "2", "3"]
    assert np.mean(list(page["scores"].values())) == pytest.approx(page["score"], abs=1e-9)
    assert page["speed"]["step"] > 0
    assert page["speed"]["other_step"] >= page["speed"]["step"]
    assert "Dice, out of fold" in done.stdout
    assert "share waiting for data" in done.stdout
    card = (run / "card.md").read_text()
    assert "Made-up-slides." in card
    assert "--set weights=scratch" in card
    assert "Numbers in the file: fp16." in card
    assert card.count(f"| {slides.name} | 4 | 0.") == 1
    assert read_rgb(run / "failures.jpg").shape == (128, 2 * (128 + 8), 3)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in log] == ["fold0", "fold1", "final"]
    assert all({"step", "loss", "metric", "rate", "seconds", "waiting"} <= set(line) for line in log)
    solved = program("solve", "cells", slides, "-o", tmp_path / "out", "--model", run, "--turns", 1)
    assert solved.stderr.endswith("False\n")  # no torch
    assert (tmp_path / "out" / "submission.csv").exists()


@pytest.mark.parametrize("turns", [1, 8])
def test_what_is_fitted_is_what_ships(slides, tmp_path, turns):
    """Every out-of-fold answer is what a predictor of that fold's file and decision says about the case's file.

    Slides have several bands, one several tiles; labels lie beside what they show and end before the border.
    """
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(slides / "train", data / "train")
    for number, path in enumerate(sorted((data / "train" / "im").iterdir())):
        copies = (3, 9) if number == 0 else (3, 2)
        mask = data / "train" / "mask" / path.name
        label = np.tile(np.roll(read_mask(mask), (1, 2), axis=(0, 1)), copies).astype(np.uint8) * 255
        label[:4], label[-4:] = 0, 0
        write_png(path, np.tile(read_rgb(path), (*copies, 1))[: 290 + number])
        write_png(mask, label[: 290 + number])
    fields = tiny_training.FIELDS.replace(turns=turns)
    caught = tiny_training.CaughtFiles(tiny_training.make_tiny_task(data, fields=fields), tmp_path / "files")
    cases = caught.task.cases
    assert min(case.shape[0] for case in cases) > BAND_ROWS
    assert len(cut(cases[0].shape[1], Tiling()).starts) > 1
    engine.train(caught.make_task, tiny_training.SCHEDULE.replace(steps=12), tiny_training.TWO_FOLDS, run, no_progress)
    plan = read_plan(run)
    assert set(caught.answers) == {case.id for case in cases}
    assert sum(answer.area for answer in caught.answers.values()) > 0
    assert len({caught.file_of[index].read_bytes() for index in range(len(cases))}) == 2
    for index, case in enumerate(cases):
        model = caught.write_model(index, plan, tmp_path / f"model{index}")
        predictor = load(Context(CellsSettings(), model=model))
        assert predictor.decision.down != 0
        with predictor.decode(case) as image:
            answer = predictor.predict(image).answer
        assert np.array_equal(answer.starts, caught.answers[case.id].starts)
        assert np.array_equal(answer.lengths, caught.answers[case.id].lengths)
    included = load(Context(CellsSettings(), model=run))
    assert included.decision == CellsDecision.parse(plan.results["decision"])
    assert (included.turns, included.model.trained_on) == (turns, {digest(case) for case in cases})
    assert (run / TRAINED_ON).is_file()


def test_the_threshold_of_other_slides_is_fitted_on_those_of_another_folder(slides, tmp_path):
    """The network has not learned from them; the decision that ships holds the rule, and the folds' do not."""
    other = tmp_path / "other"
    for path in sorted((slides / "train" / "im").iterdir()):
        write_png(other / "im" / f"slide-{path.name}", read_rgb(path)[:96])
        numbers = read_mask(slides / "train" / "mask" / path.name)[:96].astype(np.uint16) * 300
        write_png(other / "labels" / f"slide-{path.name}", numbers)
    settings = CellsSettings(calibrate=other, folds=2)

    def task(progress=no_progress):
        made = make_task(slides, tiny_training.FIELDS, settings, progress)
        return replace(made, make_network=partial(tiny_training.Tiny, 0.2))

    run = tmp_path / "run"
    engine.train(task, tiny_training.SCHEDULE, settings, run, no_progress)
    plan = read_plan(run)
    assert plan.results["decision"]["slide"].keys() == {"offset", "slope"}
    assert plan.results["calibrated_on"] == 4
    assert all(decision["slide"] is None for decision in plan.results["fold_decisions"])
    predictor = load(Context(CellsSettings(), model=run))
    own = task().make_item.__self__.cases[0]
    assert predictor.decision.slide is not None
    assert predictor.model.trained_on == {digest(case) for case in task().cases}
    with predictor.decode(own) as image:
        assert image.contest
    with pytest.raises(DataError, match="no mask/ folder"):
        make_task(slides, FIELDS, CellsSettings(calibrate=tmp_path / "run"))


def test_slides_of_another_folder_are_learned_from_and_say_how_others_are_decided(slides, tmp_path):
    other = tmp_path / "other"
    for path in sorted((slides / "train" / "im").iterdir()):
        write_png(other / "im" / f"slide-{path.name}", read_rgb(path)[:96])
        write_png(other / "labels" / f"slide-{path.name}", read_mask(slides / "train" / "mask" / path.name)[:96])
    settings = CellsSettings.parse({"more": [f"{other}=0.5,CC0-1.0"]}, strict=False)
    task = make_task(slides, FIELDS, settings)
    assert task.ids == ("0", "1", "2", "3", *(f"other/slide-0{number}" for number in range(4)))
    assert task.weights == pytest.approx([1.0] * 4 + [0.5] * 4)
    assert [source["cases"] for source in task.sources] == [4, 4]
    sure = probabilities(task.make_item.__self__.pairs)
    faint = {
        index: (np.float32(0.3) + np.float32(0.6) * each) * np.float32(1.0 if index < 4 else 0.2)
        for index, each in sure.items()
    }
    decision = task.decide(range(8), faint)
    assert decision.sizes == ((128, 128),)
    assert decision.slide is not None
    alone = task.decide(range(4), faint)
    assert decision.replace(slide=None) == alone
    answers = {id: task.answer(index, faint[index], decision) for index, id in enumerate(task.ids)}
    assert task.score(answers).value > 0.9
    assert task.score({id: task.answer(k, faint[k], alone) for k, id in enumerate(task.ids)}).value < 0.6


def test_slides_that_are_not_numbered_have_no_habits(slides, tmp_path):
    named = tmp_path / "named"
    for kind in ("im", "mask"):
        for path in sorted((slides / "train" / kind).iterdir()):
            picture = read_rgb(path) if kind == "im" else np.roll(read_mask(path), (1, 2), axis=(0, 1))
            write_png(named / kind / f"slide-{path.name}", picture)
    task = make_task(named, FIELDS, CellsSettings())
    decision = task.decide(range(4), probabilities(task.make_item.__self__.pairs))
    assert (decision.down, decision.right, decision.margin) == (0, 0, 0)


def test_decisions_are_nested(slides):
    """The decision for a fold never sees that fold's predictions."""
    task = tiny_training.make_tiny_task(slides)
    seen = []

    def decide(indices, predictions):
        seen.append(tuple(indices))
        return CellsDecision(threshold=0.1 * len(seen))

    from training_plans import plan_of

    plan = plan_of(ids=task.ids, fold_of=(0, 1, 0, 1))
    rng = np.random.default_rng(0)
    predictions = {index: rng.random((128, 128), np.float32) for index in range(4)}
    found = evaluate(replace(task, decide=decide), plan, predictions, None)
    assert seen == [(1, 3), (0, 2), (0, 1, 2, 3)]
    assert [decision.threshold for decision in found.fold_decisions] == [0.1, 0.2]
    assert found.decision.threshold == pytest.approx(0.3)
    answers = {
        task.ids[index]: task.answer(index, predictions[index], found.fold_decisions[index % 2]) for index in range(4)
    }
    assert found.score == task.score(answers)
    assert {id: answer.area for id, answer in found.answers.items()} == {id: each.area for id, each in answers.items()}


def test_a_decision_does_not_know_how_other_labels_lie(slides):
    own = make_task(slides, FIELDS, CellsSettings()).make_item.__self__
    predictions = probabilities(own.pairs)
    far = replace(own, offsets=(*own.offsets[:3], Offset(3, -3)))
    assert far.decide((0, 1, 2), predictions) == own.decide((0, 1, 2), predictions)
    assert far.decide((0, 3), predictions) != own.decide((0, 3), predictions)


def test_the_best_threshold_is_found(slides):
    task = make_task(slides, FIELDS, CellsSettings(order="columns"))
    masks = [pair[1] for pair in task.make_item.__self__.pairs]
    rng = np.random.default_rng(0)
    predictions = {
        index: ((np.where(mask > 0, 90, 60) + rng.integers(0, 20, mask.shape)) / 255).astype(np.float32)
        for index, mask in enumerate(masks)
    }
    before = {index: prediction.copy() for index, prediction in predictions.items()}
    decision = task.decide(range(4), predictions)
    assert 79 / 255 < decision.threshold < 90 / 255
    answers = {id: task.answer(index, predictions[index], decision) for index, id in enumerate(task.ids)}
    assert task.score(answers).value > 0.99
    assert all(np.array_equal(predictions[index], before[index]) for index in before)  # looked at, not changed


def test_labels_beside_what_they_show_are_learned_in_their_places(slides, tmp_path):
    """All masks moved by two pixels: items are as if they were not, and answers lie where the masks do."""
    fields = FIELDS
    straight = make_task(slides, fields, CellsSettings())
    moved = tmp_path / "moved"
    shutil.copytree(slides, moved)
    for path in moved.rglob("mask/*.png"):
        write_png(path, np.roll(read_mask(path), (1, 2), axis=(0, 1)).astype(np.uint8) * 255)
    beside = make_task(moved, fields, CellsSettings())
    rng = np.random.default_rng
    shares = [
        np.mean(
            [
                np.mean(task.make_item(rng(seed), 0)["mask"] == straight.make_item(rng(seed), 0)["mask"])
                for seed in range(8)
            ]
        )
        for task in (beside, make_task(moved, fields.replace(aligned=False), CellsSettings()))
    ]
    assert shares[0] > 0.98 > shares[1]
    predictions = probabilities(straight.make_item.__self__.pairs)
    decision = beside.decide(range(4), predictions)
    assert (decision.down, decision.right) == (pytest.approx(1, abs=0.2), pytest.approx(2, abs=0.2))
    answers = {id: beside.answer(index, predictions[index], decision) for index, id in enumerate(beside.ids)}
    assert beside.score(answers).value > 0.95


def test_where_labels_end_before_the_border_so_do_answers(slides, tmp_path):
    framed = tmp_path / "framed"
    shutil.copytree(slides, framed)
    mask = np.pad(np.full((122, 122), 255, np.uint8), 3)  # all is a cell, but for three pixels along the border
    for path in framed.rglob("mask/*.png"):
        write_png(path, mask)
    task = make_task(framed, FIELDS.replace(aligned=False), CellsSettings())
    predictions = {index: np.full((128, 128), 0.8, np.float32) for index in range(4)}
    decision = task.decide(range(4), predictions)
    assert decision.margin >= 4
    assert np.array_equal(decode(task.answer(0, predictions[0], decision), (128, 128), order="rows"), mask > 0)
    for path in framed.rglob("mask/*.png"):
        write_png(path, np.full_like(mask, 255))
    task = make_task(framed, FIELDS.replace(aligned=False), CellsSettings())
    assert task.decide(range(4), predictions).margin == 0


def test_dice_of_levels_is_that_of_pixels():
    rng = np.random.default_rng(1)
    prediction = rng.integers(0, 256, (20, 30), dtype=np.uint8)
    mask = (rng.random((20, 30)) > 0.6).astype(np.uint8) * 255
    found = dice_at_levels(prediction, mask)
    for level in (1, 17, 128, 255):
        said, true = prediction >= level, mask > 0
        assert found[level - 1] == pytest.approx(2 * (said & true).sum() / (said.sum() + true.sum()))
    assert (dice_at_levels(prediction * 0, mask * 0) == 1).all()


def test_holes_and_specks(slides):
    task = make_task(slides, FIELDS, CellsSettings())
    prediction = np.zeros((40, 40), np.float32)
    prediction[5:25, 5:25] = 1
    prediction[10:13, 10:13] = 0
    prediction[35, 35] = 1
    said = task.answer(0, prediction, CellsDecision(threshold=0.5, smallest=5, largest_hole=9))
    expected = np.zeros((40, 40), bool)
    expected[5:25, 5:25] = True
    assert np.array_equal(decode(said, (40, 40), order="rows"), expected)
    assert encode(expected, order="rows").lengths.sum() == 400


def test_a_loss_that_is_no_number_ends_the_training(slides, tmp_path, monkeypatch):
    take = Stepper.take

    def broken(self, step, batch):
        self.task = replace(self.task, loss=lambda outputs, batch: outputs.sum() * float("nan"))
        return take(self, step, batch)

    monkeypatch.setattr(Stepper, "take", broken)
    with pytest.raises(HandlensError, match="the loss is nan at step 0: lower the rate by --set learning_rate="):
        tiny_training.train(slides, tmp_path / "run", schedule=Schedule(batch=2, steps=2, threads=1))


def test_real_slides_are_read_and_grouped(real_data):
    task = make_task(real_data / "cells" / "train", FIELDS.replace(crop=256), CellsSettings())
    assert (len(task.ids), len(set(task.groups))) == (37, 37)
    item = task.make_item(np.random.default_rng(0), 3)
    assert {name: (array.shape, array.dtype.name) for name, array in item.items()} == {
        "image": ((256, 256, 3), "uint8"),
        "mask": ((256, 256), "uint8"),
        "weight": ((256, 256), "float32"),
    }
