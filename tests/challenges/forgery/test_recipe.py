"""The plain forgery solver: better than saying nothing, quiet on honest pictures, calm on odd ones."""

import numpy as np
import pytest

from handlens import pipeline, registry
from handlens.challenges.forgery.recipe import RECIPE
from handlens.challenges.forgery.sample import write_sample
from handlens.images import write_png
from handlens.metrics import matched_f1
from handlens.runs import encode
from handlens.types import Case, Context


def test_it_does_better_than_all_authentic(tmp_path):
    write_sample(tmp_path / "data", seed=21, cases=12, size=400)
    solved = pipeline.solve(registry.challenge("forgery"), tmp_path / "data", tmp_path / "out")
    assert solved.score.value > solved.empty_score + 0.05
    assert solved.score.parts["mean over authentic"] >= 0.75


def texture(seed, shape=(300, 400)):
    import cv2

    noise = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    fine = cv2.GaussianBlur(noise, (0, 0), 2)
    return np.clip(128 + 300 * fine, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "turn", [lambda patch: patch, np.fliplr, lambda patch: np.rot90(patch, 1)], ids=["moved", "mirrored", "turned"]
)
def test_a_plain_copy_is_found_with_its_source(tmp_path, turn):
    picture = texture(1)
    picture[180:270, 280:370] = turn(picture[30:120, 40:130].copy())
    write_png(tmp_path / "1.png", picture)
    true = np.zeros(picture.shape, bool)
    true[30:120, 40:130] = true[180:270, 280:370] = True
    answer = RECIPE.prepare(Context())(Case("1", tmp_path / "1.png", picture.shape))
    assert matched_f1(answer, [encode(true, order="columns")]) > 0.7


def test_a_picture_without_a_copy_is_authentic(tmp_path):
    write_png(tmp_path / "1.png", texture(2))
    assert RECIPE.prepare(Context())(Case("1", tmp_path / "1.png")) == ()


ODD = {
    "one pixel": np.zeros((1, 1), np.uint8),
    "one row": np.arange(200, dtype=np.uint8)[None],
    "flat": np.full((80, 90, 3), 200, np.uint8),
    "16 bits": (np.random.default_rng(0).random((90, 80)) * 65535).astype(np.uint16),
    "with alpha": np.random.default_rng(0).integers(0, 255, (90, 80, 4), dtype=np.uint8),
    "checkerboard": (np.indices((200, 200)).sum(axis=0) // 10 % 2 * 255).astype(np.uint8),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_pictures_are_authentic(tmp_path, kind):
    write_png(tmp_path / "1.png", ODD[kind])
    assert RECIPE.prepare(Context())(Case("1", tmp_path / "1.png")) == ()
