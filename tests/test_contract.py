"""The contract over every challenge of the registry, and that it can fail."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from handlens import registry, testing
from handlens.errors import Problem
from handlens.io.submissions import Submission
from handlens.masks.rle import Rle
from handlens.types import CaseScore, Inventory, Prediction, Truth


@pytest.fixture(scope="module", params=registry.names())
def world(request, tmp_path_factory):
    return testing.make_world(registry.challenge(request.param), tmp_path_factory.mktemp("world") / request.param)


@pytest.mark.slow
@pytest.mark.parametrize("promise", testing.PROMISES, ids=lambda promise: promise.__name__)
def test_every_challenge_keeps_its_promises(world, promise, tmp_path):
    promise(replace(world, scratch=tmp_path))


@pytest.mark.slow
def test_a_challenge_is_checked_by_one_call(tmp_path):
    testing.check_challenge(registry.challenge("cells"), tmp_path / "world")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return testing.make_world(registry.challenge("cells"), tmp_path_factory.mktemp("world") / "cells")


def _generous(challenge):
    def score(answers, truth, settings):
        result = challenge.score(answers, truth, settings)
        cases = tuple(CaseScore(case.id, 1.0) for case in result.cases)
        return replace(result, value=1.0, cases=cases)

    return replace(challenge, score=score)


def _mean(challenge):
    def score(answers, truth, settings):
        result = challenge.score(answers, truth, settings)
        return replace(result, cases=tuple(replace(case, value=0.5) for case in result.cases))

    return replace(challenge, score=score)


def _careless_about_order(challenge):
    def score(answers, truth, settings):
        shuffled = dict(zip([case.id for case in truth.cases], answers.values(), strict=True))
        return challenge.score(shuffled, truth, settings)

    return replace(challenge, score=score)


def _forgetful(challenge):
    def open_truth(path, settings):
        truth = challenge.open_truth(path, settings)
        return Truth(truth.cases[1:], truth.read)

    return replace(challenge, open_truth=open_truth)


def _restless(challenge):
    def write_sample(folder, **settings):
        challenge.write_sample(folder, **settings)
        (folder / "noise").write_text(str(np.random.default_rng().random()))

    return replace(challenge, write_sample=write_sample)


def _lenient(challenge):
    def codec(settings):
        strict = challenge.codec(settings)

        def parse(cells, case):
            try:
                return strict.parse(cells, case)
            except ValueError:
                return challenge.empty(case, settings)

        return replace(strict, parse=parse)

    return replace(challenge, codec=codec)


def _refusing(challenge):
    def codec(settings):
        strict = challenge.codec(settings)

        def parse(cells, case):
            if not cells[0]:
                raise ValueError("empty")
            return strict.parse(cells, case)

        return replace(strict, parse=parse)

    return replace(challenge, codec=codec)


def _complaining(challenge):
    return replace(challenge, survey=lambda folder: Inventory({}, (Problem("something"),)))


def _numeric(challenge):
    """Parquet of this one holds numbers, which its parser does not know."""
    return replace(challenge, codec=lambda settings: replace(challenge.codec(settings), numeric=True))


class _Moody:
    calls = 0
    model = None

    def __init__(self, context):
        _Moody.calls += 1
        self.size = _Moody.calls

    def decode(self, case):
        return nullcontext()

    def predict(self, decoded, work):
        return Prediction(Rle(np.array([0]), np.array([self.size])))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("promise", "breakage"),
    [
        ("the_truth_scores_best", _generous),
        ("the_truth_scores_best", _mean),
        ("the_truth_is_about_the_test_cases", _forgetful),
        ("the_same_seed_gives_the_same_bytes", _restless),
        ("the_sample_has_no_problems", _complaining),
        ("row_order_does_not_matter", _careless_about_order),
        ("broken_cells_are_refused_with_their_line", _lenient),
        ("the_empty_answer_is_valid", _refusing),
        ("swapped_answers_score_worse", _generous),
        ("parquet_equals_csv", _numeric),
        ("solving_gives_a_valid_submission", lambda challenge: replace(challenge, load=_Moody)),
    ],
)
def test_the_contract_can_fail(cells, tmp_path, promise, breakage):
    getattr(testing, promise)(replace(cells, scratch=tmp_path))
    (tmp_path / "broken").mkdir()
    broken = replace(cells, challenge=breakage(cells.challenge), scratch=tmp_path / "broken")
    with pytest.raises(testing.ContractError if breakage is not _numeric else ValueError):
        getattr(testing, promise)(broken)


def test_the_contract_sees_broken_files_that_are_accepted(cells, tmp_path, monkeypatch):
    monkeypatch.setattr(testing, "read_submission", lambda *args: Submission({}, []))
    with pytest.raises(testing.ContractError, match="a missing row is accepted"):
        testing.broken_files_are_refused(replace(cells, scratch=tmp_path))
