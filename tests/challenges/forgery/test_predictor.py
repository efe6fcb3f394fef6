"""The predictor: a figure in, the contest's answer out, with the included decision or a fitted one."""

import pickle
from dataclasses import replace

import cv2
import numpy as np
import pytest
from detector_pictures import PLAIN, nuclei, paste, shipped_or_skip, stored, texture

from handlens import pipeline, registry
from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier
from handlens.challenges.forgery.detect.verifier.decision import FILE, Decision
from handlens.challenges.forgery.options import ForgerySettings
from handlens.challenges.forgery.predictor import FINDINGS, ForgeryPredictor, load
from handlens.challenges.forgery.sample import write_sample
from handlens.challenges.forgery.score import codec
from handlens.errors import ModelError
from handlens.io.images import write_png
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import decode, encode
from handlens.types import Case, Context

SHAPE = (240, 320)
PLAIN_PREDICTOR = ForgeryPredictor(Detector(decision=PLAIN, objects=None))
"""Without the tier that takes longest: what is copied here is large."""


def included():
    return load(Context(ForgerySettings()))


def predict(folder, picture, predictor=PLAIN_PREDICTOR):
    write_png(folder / "1.png", picture)
    with predictor.decode(Case("1", folder / "1.png", picture.shape[:2])) as decoded:
        return predictor.predict(decoded)


def ask(folder, picture, predictor=PLAIN_PREDICTOR):
    return predict(folder, picture, predictor).answer


def forged(turn=0, mirror=False):
    """A texture in which an ellipse lies twice, and the mask of both."""
    source = cv2.ellipse(np.zeros(SHAPE, np.uint8), (80, 90), (55, 40), 10, 0, 360, 1, cv2.FILLED) > 0
    copied, there, _ = paste(texture(1, SHAPE), source, (145, 235), turn, 1.0, mirror)
    return stored(copied), source | there


@pytest.mark.parametrize(("turn", "mirror"), [(0, False), (0, True), (90, False), (33, False)])
def test_a_plain_copy_is_found_with_its_source(tmp_path, turn, mirror):
    picture, true = forged(turn, mirror)
    assert matched_f1(ask(tmp_path, picture), [encode(true, order="columns")]) > 0.7


def test_the_shipped_decision_finds_a_clear_copy(tmp_path):
    shipped_or_skip()
    picture, true = forged(turn=20)
    assert matched_f1(ask(tmp_path, picture, included()), [encode(true, order="columns")]) > 0.5


@pytest.mark.slow
def test_the_shipped_decision_leaves_honest_pictures_alone(tmp_path):
    shipped_or_skip()
    for picture in (stored(texture(2, SHAPE)), stored(nuclei(1)[0][:200, :200], noise=1)):
        assert ask(tmp_path, picture, included()) == ()


@pytest.mark.slow
def test_on_made_up_figures_it_does_better_than_all_authentic(tmp_path):
    shipped_or_skip()
    write_sample(tmp_path / "data", seed=21, cases=8, size=300, settings=ForgerySettings())
    solved = pipeline.solve(registry.challenge("forgery"), tmp_path / "data", tmp_path / "out")
    assert solved.score.value > solved.empty_score


def test_the_answer_is_numbered_along_columns(tmp_path):
    picture, true = forged()
    (answer,) = ask(tmp_path, picture)
    found = decode(answer, SHAPE, order="columns")
    assert found[true].mean() > 0.7
    assert not found[200:, :100].any()


def test_the_answer_is_written_in_the_form_of_the_contest(tmp_path):
    picture, _ = forged()
    case, form = Case("1", tmp_path / "1.png", SHAPE), codec(ForgerySettings())
    for image, first in ((picture, "["), (np.full((60, 60), 90, np.uint8), "authentic")):
        answer = ask(tmp_path, image)
        (text,) = form.format(answer, case)
        assert text.startswith(first)
        assert len(form.parse((text,), case)) == len(answer)


@pytest.mark.parametrize(
    "picture",
    [np.full((80, 90, 3), 200, np.uint8), np.zeros((1, 1), np.uint8), stored(texture(2, SHAPE))],
    ids=["flat", "one pixel", "texture"],
)
def test_an_honest_picture_is_authentic(tmp_path, picture):
    assert ask(tmp_path, picture) == ()


def test_predictors_travel_between_processes(tmp_path):
    assert registry.challenge("forgery").parallel is True
    picture, _ = forged()
    again = pickle.loads(pickle.dumps(PLAIN_PREDICTOR))
    assert [(run.starts.tolist(), run.lengths.tolist()) for run in ask(tmp_path, picture, again)] == [
        (run.starts.tolist(), run.lengths.tolist()) for run in ask(tmp_path, picture)
    ]


def test_the_seconds_of_the_settings_are_kept_to(tmp_path):
    picture = stored(nuclei()[0][:200, :200])
    loaded = load(Context(ForgerySettings(seconds=2.5), model=written(tmp_path)))
    assert loaded.seconds == 2.5
    assert load(Context(ForgerySettings(), model=written(tmp_path))).seconds == ForgerySettings().seconds
    sensitive = load(Context(ForgerySettings(sensitivity="high"), model=written(tmp_path)))
    assert sensitive.detector.decision == PLAIN.at(0.75)
    hurried, patient = (
        predict(tmp_path, picture, ForgeryPredictor(Detector(decision=PLAIN), seconds)).artefacts[FINDINGS]
        for seconds in (0.0, 1e6)
    )
    assert hurried.cut, "with no time at all some tier is cut short"
    assert patient.cut == ()


def test_the_answer_and_the_findings_say_the_same(tmp_path):
    picture, _ = forged()
    prediction = predict(tmp_path, picture)
    found = prediction.artefacts[FINDINGS]
    assert (found.shape, found.forged, len(found.groups)) == (SHAPE, True, len(prediction.answer))
    result = PLAIN_PREDICTOR(picture)
    assert (result.is_forged, result.probability) == (True, found.probability)
    for mask, answer in zip(result.instances, prediction.answer, strict=True):
        assert np.array_equal(mask, decode(answer, SHAPE, order="columns"))
    assert PLAIN_PREDICTOR(tmp_path / "1.png").probability == found.probability
    assert {len(column) for column in result.table.values()} == {sum(len(group.matches) for group in result.groups)}
    assert result.overlay().shape == (*SHAPE, 3)


def written(folder, decision=PLAIN):
    (folder / FILE).write_text(decision.to_json())
    return folder


def test_a_fitted_decision_is_used(tmp_path):
    picture, _ = forged()
    answers = []
    for decision in (PLAIN, Decision(LogisticVerifier(), worth=0.8)):
        predictor = load(Context(ForgerySettings(), model=written(tmp_path, decision)))
        assert predictor.detector.decision == decision
        answers.append(ask(tmp_path, picture, replace(predictor, detector=replace(predictor.detector, objects=None))))
    assert answers[0] != ()
    assert answers[1] == ()


def test_a_folder_without_a_decision_is_refused(tmp_path):
    with pytest.raises(ModelError, match=FILE):
        load(Context(ForgerySettings(), model=tmp_path))


def test_an_answer_that_time_cut_short_is_marked(tmp_path):
    picture = stored(texture(seed=1, shape=SHAPE))
    whole = predict(tmp_path, picture)
    assert whole.warnings == ()
    cut = predict(tmp_path, picture, replace(PLAIN_PREDICTOR, seconds=0.0))
    assert cut.artefacts[FINDINGS].cut
    assert cut.warnings[0].startswith("the limit of 0 s ended the search early (")


def test_an_answer_that_is_not_marked_is_that_of_any_machine(tmp_path):
    """However little time there is: the answer is that without a limit, or says that it was cut short."""
    picture, _ = forged(turn=20)
    whole = predict(tmp_path, picture, replace(PLAIN_PREDICTOR, seconds=1e6))
    assert (whole.warnings, PLAIN_PREDICTOR(picture).cut) == ((), ())
    runs = [(run.starts.tolist(), run.lengths.tolist()) for run in whole.answer]
    assert runs
    marked = 0
    for seconds in (0.0, 0.01, 0.1, 0.4):
        found = predict(tmp_path, picture, replace(PLAIN_PREDICTOR, seconds=seconds))
        assert bool(found.warnings) == bool(found.artefacts[FINDINGS].cut)
        assert found.warnings or [(run.starts.tolist(), run.lengths.tolist()) for run in found.answer] == runs
        marked += bool(found.warnings)
    assert marked
    hurried = replace(PLAIN_PREDICTOR, seconds=0.0)(picture)
    assert hurried.cut
    assert "cut short by its time limit" in repr(hurried)


def test_a_chart_is_said_to_be_one(tmp_path):
    chart = np.full((300, 400), 255, np.uint8)
    for place in range(8):
        cv2.rectangle(chart, (30 + 45 * place, 280 - 30 * (place % 5)), (55 + 45 * place, 280), 90, -1)
        cv2.putText(chart, f"g{place}", (32 + 45 * place, 297), cv2.FONT_HERSHEY_PLAIN, 0.9, 0)
    cv2.line(chart, (20, 280), (390, 280), 0, 2)
    assert "charts, drawings and letters" in predict(tmp_path, chart).warnings[0]
    beside = np.hstack([chart, stored(texture(seed=1, shape=(300, 400)))])
    assert predict(tmp_path, beside).warnings == ()
