"""The made-up figures: their layout, their masks, and that nothing outside a mask was touched."""

import csv
from pathlib import Path

import numpy as np
import pytest

from handlens.challenges.forgery import data
from handlens.challenges.forgery.sample import write_sample
from handlens.images import read_grey
from handlens.runs import decode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forgery")
    write_sample(folder, seed=11, cases=20, size=320)
    return folder


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
    assert authentic < forged  # every authentic image has a forged twin, some are forged only
    with (folder / "sample_submission.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["case_id"] for row in rows} == {path.stem for path in (folder / "test_images").iterdir()}


def test_a_third_to_half_is_authentic(folder):
    truth = data.open_truth(folder / "truth", {})
    share = np.mean([not truth.read(case) for case in truth.cases])
    assert 0.3 <= share <= 0.5


def test_masks_lie_in_the_image_and_copies_do_not_cover_it(folder):
    truth = data.open_truth(folder / "truth", {})
    shares = []
    for case in truth.cases:
        for instance in truth.read(case):
            mask = decode(instance, case.shape, order="columns")
            shares.append(mask.mean())
            assert case.shape == read_grey(folder / "test_images" / f"{case.id}.png").shape
    assert 0.001 < np.median(shares) < 0.1
    assert max(shares) < 0.25


def test_an_instance_has_a_source_and_a_copy(folder):
    from scipy.ndimage import label

    layers = [layer for path in sorted((folder / "train_masks").iterdir()) for layer in np.load(path)]
    parts = [label(layer, structure=np.ones((3, 3)))[1] for layer in layers]
    assert np.mean(np.array(parts) >= 2) > 0.9  # a copy may touch its source, rarely


def test_twins_differ_within_the_mask_more_than_outside(folder):
    checked = 0
    for path in sorted((folder / "train_images" / "authentic").iterdir()):
        before = read_grey(path).astype(int)
        after = read_grey(folder / "train_images" / "forged" / path.name).astype(int)
        mask = np.load(folder / "train_masks" / f"{path.stem}.npy").any(axis=0)
        change = np.abs(before - after)
        assert change[mask].mean() > 2 * change[~mask].mean()
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("size", [64, 100, 700])
def test_any_size(tmp_path: Path, size: int) -> None:
    write_sample(tmp_path, seed=1, cases=2, size=size)
    assert len(data.read_cases(tmp_path, "test")) == 2
    assert data.inspect(tmp_path).problems == ()
