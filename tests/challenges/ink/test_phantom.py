"""The synthetic scroll: the same from any window, bounded in memory, and ink that is shape rather than brightness."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlens.challenges.ink.options import InkSettings
from handlens.challenges.ink.phantom import letters
from handlens.challenges.ink.phantom.fields import Plane, PlaneWindow
from handlens.challenges.ink.phantom.fragment import TILE, Fragment
from handlens.challenges.ink.phantom.outline import draw_outline
from handlens.challenges.ink.sample import make_fragment, write_sample, write_volume
from handlens.errors import DataError
from handlens.io import volumes
from handlens.io.images import read_mask, write_png


def compute(fragment: Fragment) -> tuple[Any, Any]:
    """The whole stack and label."""
    bands = list(fragment.bands())
    volume = np.concatenate([np.concatenate([tile.grey for tile in band], axis=2) for band in bands], axis=1)
    label = np.concatenate([np.concatenate([tile.label for tile in band], axis=1) for band in bands], axis=0)
    return volume, label


def written_half(shape: tuple[int, int] = (192, 192), **changes: Any) -> Fragment:
    """A fragment whose left half is all ink."""
    written = np.zeros(shape, bool)
    written[:, : shape[1] // 2] = True
    facts = {"slices": 24, "pen": 30.0, "difficulty": 1.0, "seed": (5,)} | changes
    return Fragment(mask=np.ones(shape, bool), written=written, **facts)


@pytest.mark.parametrize(("down", "across"), [(0.7, 0.7), (1.1, 14), (9, 9), (300, 40)])
def test_noise_is_the_same_through_any_window(down: float, across: float) -> None:
    plane = Plane((3,))
    whole = plane.smooth("x", PlaneWindow(-40, -30, 200, 300), down=down, across=across)
    part = plane.smooth("x", PlaneWindow(10, 33, 70, 90), down=down, across=across)
    np.testing.assert_allclose(part, whole[50:120, 63:153], atol=1e-5)
    assert not np.allclose(part, plane.smooth("y", PlaneWindow(10, 33, 70, 90), down=down, across=across), atol=0.1)


@pytest.mark.parametrize("deviation", [0.8, 2.0, 6.0])
def test_noise_has_deviation_1(deviation: float) -> None:
    field = Plane((1,)).smooth("x", PlaneWindow(0, 0, 600, 600), down=deviation, across=deviation)
    assert abs(field.std() - 1) < 0.08
    assert abs(field.mean()) < 0.1


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_sample(tmp_path / name, seed=seed, cases=1, size=48, settings=InkSettings())
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) == 2 * 24 + 8
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)
    assert (tmp_path / "a/test/a/surface_volume/12.tif").read_bytes() != (
        tmp_path / "c/test/a/surface_volume/12.tif"
    ).read_bytes()


def test_tiles_fit_together() -> None:
    fragment = written_half((TILE[0] + 64, 96))
    volume, _ = compute(fragment)
    steps = np.abs(np.diff(volume.astype(np.float64), axis=1)).mean(axis=(0, 2))
    assert steps[TILE[0] - 1] < 1.25 * np.median(steps)


def test_memory_does_not_grow_with_the_stack(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("handlens.challenges.ink.phantom.fragment.TILE", (32, 64))
    peaks = []
    for rows in (64, 320):
        fragment = written_half((rows, 64), slices=33)
        tracemalloc.start()
        write_volume(tmp_path / str(rows), fragment)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.2 * (320 - 64) * 64 * 33 * 2


@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (9, 300), (300, 9)])
@pytest.mark.parametrize("slices", [1, 5])
def test_any_size_is_made(tmp_path: Path, shape: tuple[int, int], slices: int) -> None:
    fragment = make_fragment((1,), shape, slices=slices, difficulty=1.0, maps=[])
    label, _ = write_volume(tmp_path, fragment)
    stack = volumes.open_stack(tmp_path / "surface_volume")
    assert (stack.depth, stack.shape) == (slices, shape)
    assert label.any()


def test_outside_the_mask_there_is_nothing() -> None:
    fragment = make_fragment((4,), (128, 160), slices=24, difficulty=1.0, maps=[])
    volume, label = compute(fragment)
    assert not volume[:, ~fragment.mask].any()
    assert (volume[:, fragment.mask] > 0).mean() > 0.999
    assert not (label & ~fragment.mask).any()


def test_the_surface_drifts_by_more_than_ink_is_thick() -> None:
    level = make_fragment((2,), (512, 640), slices=24, difficulty=1.0, maps=[]).level(0, 512)
    assert np.ptp(level) > 4
    assert 6 < level.mean() < 20


def test_ink_is_no_denser_than_papyrus() -> None:
    volume, label = compute(written_half())
    level = written_half().level(0, 192)
    deep = np.arange(24)[:, None, None] < level - 5  # well inside the sheet nothing tells
    inked, bare = (volume[deep & where].mean() for where in (label, ~label))
    assert abs(inked / bare - 1) < 0.04
    dense = volume > 0.55 * 65535
    inked, bare = (volume[dense & where].mean() for where in (label, ~label))
    assert abs(inked / bare - 1) < 0.04


def test_ink_stands_above_the_surface() -> None:
    with_ink, label = compute(written_half())
    bare = Fragment((5,), np.ones((192, 192), bool), np.zeros((192, 192), bool), 24, 30.0, 1.0)
    without, nothing = compute(bare)
    assert not nothing.any()
    more = (with_ink.astype(np.float64) - without).sum(axis=0) / (0.32 * 65535)  # slices of papyrus
    assert 0.3 < more[label].mean() < 2.5
    assert abs(more[~label & (np.arange(192) > 110)].mean()) < 0.02


def test_more_difficulty_is_less_ink() -> None:
    heights = []
    for difficulty in (0.5, 1.0, 4.0):
        inked, label = compute(written_half(difficulty=difficulty))
        plain = Fragment((5,), np.ones((192, 192), bool), np.zeros((192, 192), bool), 24, 30.0, difficulty)
        heights.append((inked.astype(np.float64) - compute(plain)[0])[:, label].mean())
    assert heights[0] > 1.2 * heights[1] > 1.2 * heights[2]


def test_the_outline_is_jagged_and_most_of_the_picture() -> None:
    for seed in range(3):
        mask = draw_outline(np.random.default_rng(seed), (300, 400))
        assert 0.4 < mask.mean() < 0.97
        edges = np.abs(np.diff(mask.astype(int), axis=1)).sum() + np.abs(np.diff(mask.astype(int), axis=0)).sum()
        assert edges > 1000


# --- letters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pen", [12.0, 40.0])
def test_letters_of_a_map_are_scaled_to_the_pen(tmp_path: Path, pen: float) -> None:
    picture = np.zeros((400, 600), bool)
    picture[50:350, 100:130] = picture[50:80, 100:260] = True  # a gamma with strokes of 30
    picture[50:350, 400:430] = True
    picture[380:384, 500:504] = True  # a speck
    write_png(tmp_path / "a_inklabels.png", picture)
    glyphs = letters.read_glyphs(tmp_path / "a_inklabels.png", pen)
    assert len(glyphs) == 2
    heights = sorted(glyph.shape[0] for glyph in glyphs)
    assert abs(heights[0] / (300 * pen / 30) - 1) < 0.25
    thin = min(glyphs, key=lambda glyph: glyph.shape[1])
    assert abs(thin.sum(axis=1)[thin.shape[0] // 2] / pen - 1) < 0.3


def test_maps_are_used_where_a_folder_is_given(tmp_path: Path) -> None:
    bars = np.zeros((300, 300), bool)
    bars[:, 100:120] = True
    write_png(tmp_path / "maps" / "x" / "inklabels.png", bars)
    write_png(tmp_path / "maps" / "x" / "mask.png", ~bars)
    write_sample(tmp_path / "data", seed=1, cases=1, size=128, settings=InkSettings(letters=tmp_path / "maps"))
    label = read_mask(tmp_path / "data/truth/a/inklabels.png")
    assert 0.02 < label.mean() < 0.5


def test_a_folder_without_letters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        letters.find_maps(tmp_path / "none")
    with pytest.raises(DataError, match="no PNG files"):
        letters.find_maps(tmp_path)
    write_png(tmp_path / "inklabels.png", np.zeros((50, 50), bool))
    with pytest.raises(DataError, match="no letters in these maps"):
        write_sample(tmp_path / "data", seed=1, cases=1, size=64, settings=InkSettings(letters=tmp_path))


# --- the real crop -------------------------------------------------------------------------------


def test_grey_levels_are_those_of_the_real_crop(real_data: Path) -> None:
    folder = real_data / "ink" / "real_crop" / "surface_volume"
    if not folder.is_dir():
        pytest.skip("no real crop here")
    stack = volumes.open_stack(folder)
    real = stack.read_band(0, 512, 0, 12)
    volume = compute(written_half((384, 384), pen=95.0))[0] >> 8
    means = volume.mean(axis=(1, 2))
    first = int(np.argmin([np.abs(means[start : start + 12] - real.mean(axis=(1, 2))).sum() for start in range(12)]))
    ours, theirs = (np.percentile(part, (5, 25, 50, 75, 95)) for part in (volume[first : first + 12], real))
    assert np.abs(ours - theirs).max() < 20, (ours, theirs)
