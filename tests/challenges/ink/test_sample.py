"""The synthetic fragments: their layout, and that ink is hard to see without looking along the depth."""

import csv

import numpy as np
import pytest

from handlens.challenges.ink import data
from handlens.challenges.ink.options import InkSettings
from handlens.challenges.ink.sample import write_sample
from handlens.io import volumes
from handlens.io.images import read_mask
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import encode, parse_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ink")
    write_sample(folder, seed=31, cases=2, size=160, settings=InkSettings())
    return folder


def test_the_layout_is_the_contests(folder):
    for fragment in (folder / "train").iterdir():
        assert {path.name for path in fragment.iterdir()} == {
            "surface_volume",
            "mask.png",
            "inklabels.png",
            "inklabels_rle.csv",
            "ir.png",
        }
        stack = volumes.open_stack(fragment / "surface_volume")
        assert stack.dtype == np.uint16
        assert stack.shape == read_mask(fragment / "mask.png").shape
    for fragment in (folder / "test").iterdir():
        assert {path.name for path in fragment.iterdir()} == {"surface_volume", "mask.png"}


def test_the_run_lengths_say_what_the_picture_says(folder):
    for fragment in (folder / "train").iterdir():
        label = encode(read_mask(fragment / "inklabels.png"), order="rows")
        with (fragment / "inklabels_rle.csv").open(newline="") as stream:
            (row,) = csv.DictReader(stream)
        written = parse_pairs(row["Predicted"], pixels=None)
        assert row["Id"] == fragment.name
        assert (written.starts == label.starts).all()
        assert (written.lengths == label.lengths).all()


def test_ink_lies_inside_an_outline_that_is_not_the_whole(folder):
    for fragment in (folder / "truth").iterdir():
        mask = read_mask(folder / "test" / fragment.name / "mask.png")
        ink = read_mask(fragment / "inklabels.png")
        assert not (ink & ~mask).any()
        assert 0.03 < ink[mask].mean() < 0.4
        assert 0.3 < mask.mean() < 0.98


def test_mean_intensity_alone_is_near_the_all_ink_score(folder):
    for case in data.read_cases(folder, "test"):
        stack = volumes.open_stack(case.path / "surface_volume")
        mean = stack.read_band(0, stack.shape[0], 0, stack.depth).mean(axis=0)
        mask, ink = read_mask(case.path / "mask.png"), read_mask(folder / "truth" / case.id / "inklabels.png")

        def score(said, truth=ink):
            return fbeta(compare(encode(said, order="rows"), encode(truth, order="rows")), beta=0.5, empty=0)

        everything = score(mask)
        levels = np.quantile(mean[mask], np.arange(0.1, 1, 0.1))
        best = max(score(mask & (mean > level)) for level in levels)
        assert best < everything + 0.25
