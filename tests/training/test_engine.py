"""A whole training: what of it can be changed, what is refused, and what a run that was begun remembers."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import tiny_training

from handlens import pipeline, registry
from handlens.challenges.cells.options import CellsTraining
from handlens.errors import DataError, HandlensError, ModelError
from handlens.runstore.plan import read_plan
from handlens.runstore.store import read_manifest
from handlens.training.card import CARD
from handlens.training.engine import split_fields
from handlens.training.options import Schedule, TrainSettings
from handlens.training.stages import NEVER

CELLS = registry.challenge("cells")
TINY = replace(CELLS, train=tiny_training.train_challenge)


def test_fields_are_changed_by_name():
    given = {
        "crop": "64",
        "learning_rate": "0.1",
        "encoder": "lite1",
        "augmentation.stain_jitter": "0.3",
        "elastic_share": "1",
        "note": "A",
    }
    fields, schedule = split_fields(CellsTraining(), Schedule(), given)
    assert (fields.crop, fields.encoder, schedule.learning_rate, schedule.note) == (64, "lite1", 0.1, "A")
    assert (fields.augmentation.stain_jitter, fields.augmentation.elastic_share) == (0.3, 1.0)
    assert fields.replace(crop=256, encoder="lite0", augmentation=CellsTraining().augmentation) == CellsTraining()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"crop": "x"}, "crop is 'x'; expected a multiple of 32"),
        ({"crop": "60"}, "crop is '60'; expected a multiple of 32"),
        ({"learning_rate": "fast"}, "rate is 'fast'; expected a number from 1e-09 to 10"),
        ({"learning_rate": "nan"}, "rate is 'nan'; expected a number"),
        ({"weight_decay": "inf"}, "weight_decay is 'inf'; expected a number"),
        ({"memory_format": "rows"}, "memory_format is 'rows'; expected one of auto, channels_last, contiguous"),
        ({"batch": "0"}, "batch is '0'; expected a whole number from 1 to"),
        ({"turns": "3"}, "turns is '3'; expected one of 1, 2, 4, 8"),
        ({"augmentation.stain_jitter": "9"}, r"augmentation\.stain_jitter is '9'; expected a number from 0 to 5"),
        ({"min_scale": "2.5"}, "min_scale 2.5, max_scale 2.0; expected min_scale to be the smaller one"),
        (
            {"nonsense": "1"},
            "there is no field nonsense; there are accelerator, aligned, augmentation.artefact_share, ",
        ),
    ],
)
def test_a_field_that_cannot_be_is_named(given, message):
    with pytest.raises(HandlensError, match=message):
        split_fields(CellsTraining(), Schedule(), given)


@pytest.mark.parametrize(("value", "passes"), [("0", False), ("1", True), ("1000000", True), ("1000001", False)])
def test_both_ends_of_a_range_belong_to_it(value, passes):
    with nullcontext() if passes else pytest.raises(HandlensError, match="expected a whole number from 1 to 1e"):
        assert split_fields(CellsTraining(), Schedule(), {"batch": value})[1].batch == int(value)


def test_folds_that_cannot_be_filled_are_refused(slides, tmp_path):
    with pytest.raises(HandlensError, match="4 groups cannot fill 9 folds"):
        tiny_training.train(slides, tmp_path / "many", settings=TrainSettings(folds=9))
    with pytest.raises(HandlensError, match="4 groups cannot fill 9 folds"):
        pipeline.train(TINY, slides, tmp_path / "many", settings=CELLS.settings(folds=9))
    assert not (tmp_path / "many").exists()  # so that it can be called again with fewer


def test_a_single_network_is_evaluated_on_what_it_never_saw(slides, tmp_path):
    run = tmp_path / "one"
    numbers = tiny_training.train(slides, run, settings=TrainSettings(folds=1))
    plan = read_plan(run)
    assert sorted(plan.fold_of) == [NEVER, NEVER, 0, 1]  # two slides to learn from, one in each half
    held_out = {name for name, part in zip(plan.ids, plan.fold_of, strict=True) if part != NEVER}
    assert {*plan.results["scores"]} == held_out
    assert numbers["Dice, out of fold"] == pytest.approx(np.mean(list(plan.results["scores"].values())))
    assert (plan.steps, plan.final_steps) == (0, 6)
    card = (run / CARD).read_text()
    assert "it was trained on 2 others" in card
    assert "6 for the final model" in card
    assert "per fold" not in card


@pytest.mark.slow
def test_other_settings_are_refused_in_a_run_that_was_begun(slides, tmp_path):
    run, two = tmp_path / "run", CELLS.settings(folds=2)

    def stop(done, total, words=""):
        if words.startswith("fold"):  # not while slides are read
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pipeline.train(TINY, slides, run, settings=two, progress=stop)
    assert pipeline.read_training(run) == ("cells", slides.resolve(), {**two.plain(), "more": []})
    for other in (CELLS.settings(folds=2, set={"learning_rate": "0.5"}), CELLS.settings(folds=3)):
        with pytest.raises(DataError, match="was begun by another run"):
            pipeline.train(TINY, slides, run, settings=other)
    with pytest.raises(DataError, match="no finished training in it"):
        pipeline.challenge_of_model(run)
    numbers = pipeline.train(TINY, slides, run, settings=two)
    page = read_manifest(run)
    assert (page["finished"], page["numbers"], page["challenge"]) == (True, numbers, "cells")
    assert pipeline.challenge_of_model(run) == "cells"
    with pytest.raises(DataError, match="this run is finished"):
        pipeline.train(TINY, slides, run, settings=two)
    with pytest.raises(ModelError, match="this model was trained for cells, not ink"):
        pipeline.load(registry.challenge("ink"), model=run)
