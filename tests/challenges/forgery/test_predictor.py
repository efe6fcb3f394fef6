"""The recipe: a figure in, the contest's answer out, with the shipped decision or a fitted one."""

import pickle
import time

import cv2
import numpy as np
import pytest
from detector_pictures import PLAIN, nuclei, paste, shipped_or_skip, stored, texture

from handlens import pipeline, registry
from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.verifier.curves import LogisticVerifier
from handlens.challenges.forgery.detect.verifier.decision import FILE, Decision
from handlens.challenges.forgery.predictor import RECIPE, Matching
from handlens.challenges.forgery.sample import write_sample
from handlens.challenges.forgery.score import codec
from handlens.errors import ModelError
from handlens.io.images import write_png
from handlens.masks.metrics import matched_f1
from handlens.masks.rle import decode, encode
from handlens.types import Case, Context

SHAPE = (240, 320)
PLAIN_RECIPE = Matching(Detector(decision=PLAIN, objects=None))
"""Without the tier that takes longest: what is copied here is large."""


def ask(folder, picture, recipe=PLAIN_RECIPE, context=None):
    write_png(folder / "1.png", picture)
    return recipe.prepare(context or Context())(Case("1", folder / "1.png", picture.shape[:2]))


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
    assert matched_f1(ask(tmp_path, picture, RECIPE), [encode(true, order="columns")]) > 0.5


def test_the_shipped_decision_leaves_honest_pictures_alone(tmp_path):
    shipped_or_skip()
    for picture in (stored(texture(2, SHAPE)), stored(nuclei(1)[0][:200, :200], noise=1)):
        assert ask(tmp_path, picture, RECIPE) == ()


def test_on_made_up_figures_it_does_better_than_all_authentic(tmp_path):
    shipped_or_skip()
    write_sample(tmp_path / "data", seed=21, cases=8, size=300)
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
    case, form = Case("1", tmp_path / "1.png", SHAPE), codec({})
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


def test_models_travel_between_processes(tmp_path):
    assert RECIPE.parallel is True
    picture, _ = forged()
    write_png(tmp_path / "1.png", picture)
    case = Case("1", tmp_path / "1.png", SHAPE)
    model = PLAIN_RECIPE.prepare(Context())
    again = pickle.loads(pickle.dumps(model))
    assert [(run.starts.tolist(), run.lengths.tolist()) for run in again(case)] == [
        (run.starts.tolist(), run.lengths.tolist()) for run in model(case)
    ]


def test_the_seconds_of_the_settings_are_kept_to(tmp_path):
    picture = stored(nuclei()[0][:200, :200])
    assert Matching().prepare(Context(settings={"seconds": 2.5}, model=written(tmp_path))).seconds == 2.5
    assert PLAIN_RECIPE.prepare(Context()).seconds == PLAIN_RECIPE.seconds
    start = time.thread_time()
    ask(tmp_path, picture, Matching(Detector(decision=PLAIN)), Context(settings={"seconds": 0}))
    assert time.thread_time() - start < 10


def written(folder, decision=PLAIN):
    (folder / FILE).write_text(decision.to_json())
    return folder


def test_a_fitted_decision_is_used(tmp_path):
    picture, _ = forged()
    recipe, deaf = Matching(Detector(objects=None)), Decision(LogisticVerifier(), worth=0.8)
    assert ask(tmp_path, picture, recipe, Context(model=written(tmp_path))) != ()
    assert ask(tmp_path, picture, recipe, Context(model=written(tmp_path, deaf))) == ()


def test_a_folder_without_a_decision_is_refused(tmp_path):
    with pytest.raises(ModelError, match=FILE):
        Matching().prepare(Context(model=tmp_path))
