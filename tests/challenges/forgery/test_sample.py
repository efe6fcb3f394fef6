"""The synthetic figures: their layout, how many forgeries of what size, and that a seed is all that decides."""

import csv
from pathlib import Path

import numpy as np
import pytest

from handlens.challenges.forgery import CHALLENGE, data, sample
from handlens.challenges.forgery.forger.made import FORGERIES, SHARES, FigureRequest, make_figure
from handlens.challenges.forgery.options import ForgerySettings
from handlens.challenges.forgery.sample import write_sample
from handlens.errors import DataError, HandlensError
from handlens.io.images import read_grey
from handlens.masks.rle import decode
from handlens.settings import fields_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forgery")
    write_sample(folder, seed=11, cases=20, size=320, settings=ForgerySettings())
    return folder


@pytest.fixture(scope="module")
def made():
    return [make_figure(5, number, FigureRequest(size=256)) for number in range(120)]


# --- files ------------------------------------------------------------------------------------------------


def test_the_layout_is_the_contests(folder):
    assert {path.name for path in folder.iterdir()} == {
        "train_images",
        "train_masks",
        "test_images",
        "sample_submission.csv",
        "truth",
    }
    forged = {path.stem for path in (folder / "train_images" / "forged").iterdir()}
    authentic = {path.stem for path in (folder / "train_images" / "authentic").iterdir()}
    assert forged == {path.stem for path in (folder / "train_masks").iterdir()}
    assert len(authentic & forged) < len(forged)  # some are forged only
    assert len(authentic - forged) == len(forged)  # look-alikes have no twin
    with (folder / "sample_submission.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    tests = {path.stem for path in (folder / "test_images").iterdir()}
    assert {row["case_id"] for row in rows} == tests
    assert not tests & (authentic | forged)
    assert data.survey(folder).problems == ()


def test_a_third_to_half_is_authentic(folder):
    truth = data.open_truth(folder / "truth", {})
    share = np.mean([not truth.read(case) for case in truth.cases])
    assert 0.3 <= share <= 0.5


def test_masks_have_the_size_of_their_image(folder):
    truth = data.open_truth(folder / "truth", {})
    for case in truth.cases:
        for instance in truth.read(case):
            mask = decode(instance, case.shape, order="columns")
            assert mask.any()
            assert case.shape == read_grey(folder / "test_images" / f"{case.id}.png").shape


def test_twins_differ_within_the_mask_more_than_outside(folder):
    checked = 0
    for path in sorted((folder / "train_masks").iterdir()):
        twin = folder / "train_images" / "authentic" / f"{path.stem}.png"
        if twin.exists():
            after = read_grey(folder / "train_images" / "forged" / twin.name).astype(int)
            change = np.abs(read_grey(twin).astype(int) - after)
            mask = np.load(path).any(axis=0)
            assert change[mask].mean() > 2 * change[~mask].mean()
            checked += 1
    assert checked >= 5


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    def content(seed, name):
        write_sample(tmp_path / name, seed=seed, cases=5, size=128, settings=ForgerySettings())
        paths = [path for path in sorted((tmp_path / name).rglob("*")) if path.is_file()]
        return [(path.relative_to(tmp_path / name), path.read_bytes()) for path in paths]

    assert content(4, "one") == content(4, "two")
    assert content(4, "one") != content(5, "three")


@pytest.mark.parametrize("size", [64, 100, 700])
def test_any_size(tmp_path: Path, size: int) -> None:
    write_sample(tmp_path, seed=1, cases=2, size=size, settings=ForgerySettings())
    assert len(data.read_cases(tmp_path, "test")) == 2
    assert data.survey(tmp_path).problems == ()


def test_a_source_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        write_sample(
            tmp_path / "out", seed=1, cases=2, size=64, settings=CHALLENGE.settings(sources=tmp_path / "nowhere")
        )


# --- what is made -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_figure_is_decided_by_seed_and_number(made):
    again = make_figure(5, 7, FigureRequest(size=256))
    assert again.kind == made[7].kind
    assert np.array_equal(again.forged, made[7].forged)
    assert np.array_equal(again.masks, made[7].masks)
    other = make_figure(6, 7, FigureRequest(size=256))
    assert other.forged.shape != again.forged.shape or not np.array_equal(other.forged, again.forged)


def test_figures_are_as_large_as_asked(made):
    sides = [max(figure.forged.shape[:2]) for figure in made]
    assert max(sides) == 256
    assert np.mean(np.array(sides) == 256) > 0.4
    for figure in made:
        assert figure.honest.shape == figure.forged.shape
        assert figure.honest.dtype == figure.forged.dtype == np.uint8
        assert all(mask.shape == figure.forged.shape[:2] and mask.dtype == bool for mask in figure.masks)


def test_every_kind_is_made_and_clones_most_of_all(made):
    kinds = [figure.kind for figure in made]
    assert set(kinds) == set(SHARES)
    assert kinds.count("object clone") > 0.4 * len(kinds)


def test_instances_are_as_many_as_in_the_contest(made):
    """There 68 percent have one, 25 two, 6 three; the bounds are three deviations of 120 draws."""
    counts = np.array([len(figure.masks) for figure in made])
    assert 0.55 < np.mean(counts == 1) < 0.81
    assert 0.13 < np.mean(counts == 2) < 0.37
    assert counts.min() == 1
    assert counts.max() <= 5


def test_areas_are_as_in_the_contest(made):
    """There 5, 25, 50, 75, 95 percent lie below 0.17, 0.5, 2.1, 7.3 and 17 percent of the image."""
    shares = [100 * np.any(figure.masks, axis=0).mean() for figure in made]
    low, first, middle, third, high = np.percentile(shares, [5, 25, 50, 75, 95])
    assert 0.05 < low < 1
    assert 0.3 < first < 2.5
    assert 1 < middle < 5
    assert 4 < third < 14
    assert 9 < high < 45


def test_one_picture_or_several_can_be_asked_for():
    assert all(
        make_figure(1, number, FigureRequest(size=160, compound=False)).kind != "panel reuse" for number in range(40)
    )
    with pytest.raises(ValueError, match="several panels"):
        make_figure(1, 1, FigureRequest(size=160, compound=False, plan="panel reuse"))
    with pytest.raises(ValueError, match="object clone"):
        make_figure(1, 1, FigureRequest(size=160, plan="magic"))


def test_one_kind_of_forgery_can_be_asked_for(tmp_path):
    write_sample(tmp_path, seed=3, cases=4, size=320, settings=CHALLENGE.settings(kind="panel reuse"))
    for path in (tmp_path / "train_masks").iterdir():
        assert np.load(path).sum() > 0.02 * np.load(path)[0].size, "a panel is no small thing"


def test_figures_of_one_panel_or_several_can_be_asked_for(tmp_path, monkeypatch):
    asked = []

    def remember(make):
        def remembering(seed, number, wanted):
            asked.append(wanted)
            return make(seed, number, wanted)

        return remembering

    for name in ("make_figure", "make_lookalike"):
        monkeypatch.setattr(sample, name, remember(getattr(sample, name)))
    for panels, compound in ((None, None), ("one", False), ("several", True)):
        write_sample(tmp_path / str(panels), seed=3, cases=3, size=160, settings=CHALLENGE.settings(panels=panels))
        assert {wanted.compound for wanted in asked} == {compound}
        asked.clear()
    with pytest.raises(HandlensError, match="panel reuse in figures of one panel"):
        write_sample(tmp_path, seed=3, cases=3, size=160, settings=CHALLENGE.settings(panels="one", kind="panel reuse"))


def test_the_kinds_that_can_be_asked_for_are_those_that_are_made():
    (kind,) = (field for field in fields_of(ForgerySettings) if field.path == "kind")
    assert kind.choices == tuple(FORGERIES)
