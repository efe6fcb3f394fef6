"""Training: matches of labelled figures become a decision that the predictor uses, and what is scored is what ships."""

import json
from functools import partial

import cv2
import numpy as np
import pytest
from detector_pictures import PLACES, box, nuclei, painted, paste, stored, texture

from handlens.challenges.forgery import data, fitting, training, verifier_fitting
from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.answer import score_matches, worth_a_look
from handlens.challenges.forgery.detect.canvas.scaling import Scaling
from handlens.challenges.forgery.detect.verifier.decision import FILE, read_decision
from handlens.challenges.forgery.fitting import predict_out_of_fold, score_one
from handlens.challenges.forgery.match_records import MatchRecord, to_text
from handlens.challenges.forgery.options import ForgerySettings
from handlens.challenges.forgery.predictor import load
from handlens.challenges.forgery.training import (
    train,
    weigh,
)
from handlens.challenges.forgery.verifier_fitting import FEWEST_COPIES, tiers_to_fit
from handlens.errors import DataError
from handlens.io.images import read_image, write_png
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import encode
from handlens.runstore.plan import RESULTS
from handlens.runstore.store import UNFINISHED
from handlens.types import Context

pytestmark = pytest.mark.slow

SHAPE = (200, 200)


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Starting processes takes longer than these figures."""
    monkeypatch.setattr(training, "usable_cores", lambda: 1)


def write_figures(folder, count=3, copies=True, around=1):
    """Figures of nuclei with their authentic twins, and one full of alike specks, in the layout of the contest.

    `around` is how much of its ground is copied with a nucleus.
    """
    for name in ("train_images/forged", "train_images/authentic", "train_masks"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        honest, masks = nuclei(number, PLACES[3:])
        honest, source = honest[100:, 100:], masks[1][100:, 100:]
        source = cv2.dilate(source.astype(np.uint8), np.ones((around, around))) > 0
        forged, there, _ = paste(honest, source, (150, 150), turn=50 * number)
        if not copies:
            forged, source, there = honest, painted(box(2, 2, 9, 9), SHAPE), painted(box(180, 2, 9, 9), SHAPE)
        write_png(folder / "train_images" / "forged" / f"{number}.png", stored(forged, noise=1, seed=number))
        write_png(folder / "train_images" / "authentic" / f"{number}.png", stored(honest, noise=1, seed=50 + number))
        np.save(folder / "train_masks" / f"{number}.npy", (source | there)[None].astype(np.uint8))
    write_png(folder / "train_images" / "authentic" / "specks.png", stored(texture(2, (90, 90))))
    return folder


def quiet(done, total):
    assert 0 < done <= total


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    return write_figures(tmp_path_factory.mktemp("data") / "data")


def test_from_figures_to_a_decision_that_the_predictor_uses(figures, tmp_path):
    told = []
    numbers = train(figures, tmp_path / "run", ForgerySettings(), lambda done, total: told.append((done, total)))
    assert told[:7] == [(done, 14) for done in range(1, 8)]
    assert told[-1] == (14, 14)
    assert numbers["figures"] == 7
    assert 0 <= numbers["oF1"] <= 1
    decision = read_decision(tmp_path / "run" / FILE)
    assert 0 < decision.worth <= 1
    assert "objects" in decision.verifier.curves
    truth = data.open_truth(figures, ForgerySettings())
    predictor = load(Context(ForgerySettings(), model=tmp_path / "run"))
    forged = next(case for case in truth.cases if truth.read(case))
    with predictor.decode(forged) as image:
        answer = predictor.predict(image).answer
    assert matched_f1(answer, truth.read(forged)) > 0.5


def test_nothing_to_learn_from_is_said(tmp_path):
    folder = write_figures(tmp_path / "data", count=1, copies=False)
    with pytest.raises(DataError, match="nothing to learn from"):
        train(folder, tmp_path / "run", ForgerySettings(), quiet)
    assert not (tmp_path / "run" / FILE).exists()


def test_a_folder_without_labels_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match="no labelled images"):
        train(tmp_path / "data", tmp_path / "run", ForgerySettings(), quiet)


def test_authentic_figures_alone_teach_nothing(tmp_path):
    write_png(tmp_path / "data" / "train_images" / "authentic" / "1.png", stored(texture(1, (90, 90))))
    with pytest.raises(DataError, match="nothing to learn from"):
        train(tmp_path / "data", tmp_path / "run", ForgerySettings(), quiet)


# --- what is scored is what ships -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def surrounded(tmp_path_factory):
    """Figures in which nuclei were copied with what is around them."""
    return write_figures(tmp_path_factory.mktemp("surrounded") / "data", count=2, around=19)


def examples_of(folder, tmp_path):
    """The labelled figures of a folder as training sees them, after a round through the journal."""
    (batch,) = training._batches(folder, tmp_path / "run", ForgerySettings(seconds=60.0))
    return batch.examples(quiet)


def same_answer(scored, found):
    """Whether an answer that was scored is, bit for bit, the masks of these findings."""
    shown = [encode(group.mask(found.shape), order="columns") for group in found.groups]
    return len(scored) == len(shown) and all(
        np.array_equal(one.starts, other.starts) and np.array_equal(one.lengths, other.lengths)
        for one, other in zip(scored, shown, strict=True)
    )


@pytest.mark.parametrize("fewest", [1, FEWEST_COPIES], ids=["fitted curves", "included curves"])
def test_what_is_scored_out_of_fold_is_what_the_detector_answers(surrounded, tmp_path, monkeypatch, fewest):
    monkeypatch.setattr(verifier_fitting, "FEWEST_COPIES", fewest)
    monkeypatch.setattr(verifier_fitting, "CORRECTED", {"objects": fewest})
    examples = examples_of(surrounded, tmp_path)
    found = predict_out_of_fold(examples, tiers_to_fit(examples), partial(weigh, progress=quiet))
    assert len(set(found.folds)) > 1
    assert any(found.answers)
    for example, fold, answer in zip(examples, found.folds, found.answers, strict=True):
        detector = Detector(decision=found.decisions[fold])
        assert same_answer(answer, detector.look(read_image(example.case.path), 60.0)), example.case.id


def weigh_without_growing(examples, verifiers):
    return [
        worth_a_look(score_matches(each.matches, verifier)) for each, verifier in zip(examples, verifiers, strict=True)
    ]


def test_what_is_scored_has_its_regions_grown(surrounded, tmp_path):
    """Without growing, as once, other masks would be scored than those that are answered."""
    examples = examples_of(surrounded, tmp_path)
    grown, bare = (
        predict_out_of_fold(examples, [], each) for each in (partial(weigh, progress=quiet), weigh_without_growing)
    )
    true = [each.truth for each in examples]
    worth = [sum(map(score_one, found.answers, true)) for found in (grown, bare)]
    assert worth[0] > worth[1] > 0


def test_a_record_keeps_all_that_would_be_judged(surrounded, tmp_path):
    for example in examples_of(surrounded, tmp_path):
        proposal = Detector().propose(read_image(example.case.path), 60.0)
        assert len(example.matches) == len(proposal.matches)
        for kept, true in zip(example.matches, proposal.matches, strict=True):
            assert np.array_equal(kept.matrix, true.matrix)
            assert dict(kept.evidence) == dict(true.evidence)


# --- stopped and called again ----------------------------------------------------------------------------------------


class StoppedError(Exception):
    """Stands for Ctrl-C."""


def stopping_after(count, told):
    def progress(done, total):
        told.append(done)
        if len(told) == count:
            raise StoppedError

    return progress


def journals(run):
    return list((run / UNFINISHED).glob("matches-*.jsonl"))


def train_and_stop(folder, run, count, seconds=13.0):
    told = []
    with pytest.raises(StoppedError):
        train(folder, run, ForgerySettings(seconds=seconds), stopping_after(count, told))
    return told


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Three figures, one of them forged."""
    return write_figures(tmp_path_factory.mktemp("few") / "data", count=1)


def test_a_stopped_training_goes_on_and_ends_the_same(few, tmp_path):
    straight = train(few, tmp_path / "straight", ForgerySettings(), quiet)
    run, told = tmp_path / "stopped", []
    assert train_and_stop(few, run, 2) == [1, 2]
    assert len(journals(run)) == 1
    assert not (run / FILE).exists()
    numbers = train(few, run, ForgerySettings(), lambda done, total: told.append(done))
    assert told[0] == 3  # and then what is out of fold
    assert told == sorted(set(told))
    assert str(numbers) == str(straight)
    assert (run / FILE).read_text() == (tmp_path / "straight" / FILE).read_text()


def test_a_training_stopped_after_the_last_figure_looks_at_none_again(few, tmp_path):
    assert train_and_stop(few, tmp_path, 3) == [1, 2, 3]
    told = []
    train(few, tmp_path, ForgerySettings(), lambda done, total: told.append(done))
    assert all(done > 3 for done in told)
    assert (tmp_path / FILE).is_file()


def test_with_another_setting_it_begins_anew(few, tmp_path):
    train_and_stop(few, tmp_path, 2)
    assert train_and_stop(few, tmp_path, 1, seconds=12.0) == [1]


def test_with_other_figures_it_begins_anew(tmp_path):
    folder = write_figures(tmp_path / "data", count=1)
    train_and_stop(folder, tmp_path / "run", 2)
    write_png(folder / "train_images" / "authentic" / "more.png", stored(texture(3, (90, 90))))
    assert train_and_stop(folder, tmp_path / "run", 1) == [1]


# --- two folders ---------------------------------------------------------------------------------------------------


def test_two_folders_are_learned_from_together(few, tmp_path):
    """Figures of the same names in two folders are not twins."""
    other, run, told = write_figures(tmp_path / "other", count=1), tmp_path / "run", []
    settings = ForgerySettings(more=other)
    with pytest.raises(StoppedError):
        train(few, run, settings, stopping_after(4, told))
    assert len(journals(run)) == 2
    numbers = train(few, run, settings, lambda done, total: told.append((done, total)))
    assert told[:6] == [1, 2, 3, 4, (5, 12), (6, 12)]
    assert numbers["figures"] == 6
    assert sorted(path.name for path in run.iterdir()) == [FILE, RESULTS, UNFINISHED]
    assert len(json.loads((run / RESULTS).read_text())["scores"]) == 6  # ids that occur in both are told apart


def test_a_run_in_the_other_folder_goes_on_where_it_stopped(few, tmp_path):
    other, told = write_figures(tmp_path / "other", count=1), []
    settings = ForgerySettings(more=other)
    with pytest.raises(StoppedError):
        train(few, other / "more", settings, stopping_after(5, told))
    train(few, other / "more", settings, lambda done, _total: told.append(done))
    assert told[:6] == [1, 2, 3, 4, 5, 6]
    assert sorted(path.name for path in (other / "more").iterdir()) == [FILE, RESULTS, UNFINISHED]


def test_no_figure_counts_twice(few, tmp_path):
    for more, match in (
        (few, "no figure may count twice"),
        (few / "train_images", "twice"),
        (tmp_path / "no", "no such"),
    ):
        with pytest.raises(DataError, match=match):
            train(few, tmp_path / "run", ForgerySettings(more=more), quiet)
    assert not (tmp_path / "run").exists()


def test_figures_of_the_same_name_in_two_folders_are_no_twins(few, tmp_path):
    truth = data.open_truth(few, ForgerySettings())
    text = to_text(MatchRecord(Scaling((90, 90), 1.0), (), seconds=13.0, used=0.0))
    one, two = (training._example(number, truth.cases[0], truth, text) for number in (0, 1))
    assert len(set(fitting._groups([one, one, two]))) == 2
