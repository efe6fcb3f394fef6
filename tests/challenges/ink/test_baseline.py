"""The baseline of ink: better than all ink, independent of the band height, calm on odd stacks."""

from dataclasses import fields, replace

import numpy as np
import pytest
import tifffile

from handlens import pipeline, registry
from handlens.challenges.ink import data
from handlens.challenges.ink.baseline import DepthStatistics, DepthStatisticsPredictor
from handlens.challenges.ink.options import InkSettings
from handlens.challenges.ink.sample import write_sample
from handlens.io.images import write_png
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import decode, encode
from handlens.types import Case, Context

STATISTICS = DepthStatistics()


def answer_of(statistics, case, truth=None):
    predictor = statistics.fit(truth)
    with predictor.decode(case) as decoded:
        return predictor.predict(decoded).answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ink")
    write_sample(folder, seed=41, cases=2, size=192, settings=InkSettings())
    return folder


def test_it_does_better_than_all_ink(folder, tmp_path):
    solved = pipeline.solve(registry.challenge("ink"), folder, tmp_path, solver="baseline")
    truth = pipeline.open_truth(registry.challenge("ink"), folder, InkSettings())
    everything = np.mean(
        [
            fbeta(compare(encode(np.ones(case.shape, bool), order="rows"), truth.read(case)), beta=0.5, empty=0)
            for case in truth.cases
        ]
    )
    assert solved.score.value > everything + 0.15


def test_the_answer_does_not_depend_on_the_band_height(folder):
    (name,) = [field.name for field in fields(STATISTICS) if "band" in field.name]
    case = data.read_cases(folder, "test")[0]
    answers = [answer_of(replace(STATISTICS, **{name: height}), case) for height in (16, 64, 512)]
    for answer in answers[1:]:
        assert (answer.starts == answers[0].starts).all()
        assert (answer.lengths == answers[0].lengths).all()


def test_a_training_fragment_is_not_answered_from_its_own_label(folder):
    truth = data.open_truth(folder, InkSettings())
    case = truth.cases[0]

    def lying(other):
        label = truth.read(other)
        return encode(np.zeros(other.shape, bool), order="rows") if other.id == case.id else label

    honest = answer_of(STATISTICS, case, truth)
    misled = answer_of(STATISTICS, case, replace(truth, read=lying))
    assert (honest.starts == misled.starts).all()
    assert (honest.lengths == misled.lengths).all()


def test_it_learns_where_the_folder_has_labels(folder):
    """And answers a notebook's folder as `solve` does."""
    ink = registry.challenge("ink")
    case = data.read_cases(folder, "test")[0]
    truth = data.open_truth(folder, InkSettings())
    learned = ink.baseline(Context(InkSettings(), training=lambda: truth))
    alone = ink.baseline(Context(InkSettings()))
    assert isinstance(learned, DepthStatisticsPredictor)
    assert set(learned.without) == {case.group or case.id for case in truth.cases}
    assert alone.without == {}
    expected = answer_of(STATISTICS, case, truth)
    assert np.array_equal(learned(case.path), decode(expected, case.shape, order="rows"))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (12, 40, 33)])
@pytest.mark.parametrize("flat", [True, False])
def test_odd_stacks_get_an_answer_that_is_not_empty(tmp_path, dtype, shape, flat):
    random = np.random.default_rng(0)
    stack = np.zeros(shape, dtype) if flat else random.integers(0, np.iinfo(dtype).max, shape).astype(dtype)
    (tmp_path / "surface_volume").mkdir()
    for number, layer in enumerate(stack):
        tifffile.imwrite(tmp_path / "surface_volume" / f"{number:02d}.tif", layer)
    write_png(tmp_path / "mask.png", np.ones(shape[1:], bool))
    answer = answer_of(STATISTICS, Case("a", tmp_path, shape[1:]))
    assert answer.area >= 1
    assert answer.ends[-1] <= shape[1] * shape[2]
