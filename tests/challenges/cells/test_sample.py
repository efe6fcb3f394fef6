"""The synthetic slides: the true layout, the same bytes for the same seed, and nuclei that are hard enough to find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handlens.challenges.cells.nuclei import Nucleus, locate
from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.sample import make_slide, write_sample
from handlens.io import images

SIZE = 160


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cells")
    write_sample(place, seed=0, cases=3, size=SIZE, settings=CellsSettings())
    return place


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_the_layout_is_the_contests(folder: Path) -> None:
    names = [f"{index:02d}.png" for index in range(3)]
    kinds = ["test/im", "train/im", "train/mask", "truth/mask"]
    assert list(contents(folder)) == [f"{kind}/{name}" for kind in kinds for name in names]


def test_one_case_still_has_two_to_train_on(tmp_path: Path) -> None:
    write_sample(tmp_path, seed=0, cases=1, size=32, settings=CellsSettings())
    assert len(images.list_images(tmp_path / "train" / "im")) == 2
    assert len(images.list_images(tmp_path / "test" / "im")) == 1


def test_pictures_are_rgb_and_masks_grey_of_the_same_size(folder: Path) -> None:
    for path in images.list_images(folder / "train" / "im"):
        assert images.read_image(path).shape == (SIZE, SIZE, 3)
        mask = images.read_image(folder / "train" / "mask" / path.name)
        assert mask.shape == (SIZE, SIZE)
        assert set(np.unique(mask)) == {0, 255}


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_sample(tmp_path, seed=0, cases=3, size=SIZE, settings=CellsSettings())
    assert contents(tmp_path) == contents(folder)


def test_another_seed_gives_other_slides(folder: Path, tmp_path: Path) -> None:
    write_sample(tmp_path, seed=1, cases=3, size=SIZE, settings=CellsSettings())
    ours, others = contents(folder), contents(tmp_path)
    assert list(ours) == list(others)
    assert all(ours[name] != others[name] for name in ours)


def test_no_two_slides_are_the_same(folder: Path) -> None:
    pictures = [data for name, data in contents(folder).items() if "/im/" in name]
    assert len(set(pictures)) == len(pictures)


@pytest.mark.parametrize("seed", range(8))
def test_the_share_of_nuclei_is_that_of_real_slides(seed: int) -> None:
    _, mask = make_slide(np.random.default_rng(seed), 256)
    assert 0.10 <= mask.mean() <= 0.45


def test_nuclei_are_darker_in_the_red_than_what_surrounds_them() -> None:
    picture, mask = make_slide(np.random.default_rng(3), 256)
    assert picture[mask, 0].mean() < picture[~mask, 0].mean() - 20


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_tiny_slides_can_be_made(size: int) -> None:
    picture, mask = make_slide(np.random.default_rng(0), size)
    assert picture.shape == (size, size, 3)
    assert mask.shape == (size, size)


def test_a_pixel_belongs_to_a_nucleus_if_its_centre_lies_in_or_on_the_outline() -> None:
    none = np.zeros((2, 0))
    disk = Nucleus(5, 5, 3, 3, 0.0, 0.0, none, 1.0, 0.0, 0.0, 0.0, 1.0, np.zeros((0, 3)))
    inside = locate(disk, (slice(0, 11), slice(0, 11)))[2] <= 1
    rows, columns = np.mgrid[0:11, 0:11] - 5
    assert np.array_equal(inside, rows**2 + columns**2 <= 9)
