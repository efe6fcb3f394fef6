"""The surface of the sheet: found on synthetic fragments whose depth is known, followed where nothing is to be seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlens.challenges.ink.sample import make_fragment, write_volume
from handlens.challenges.ink.sheet import find_sheet
from handlens.io import volumes
from handlens.io.volumes import Stack


@dataclass(frozen=True)
class Held:
    """A stack in memory."""

    volume: Any
    grain: int = 1
    paths: tuple[Path, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.volume.shape[1:]

    @property
    def depth(self) -> int:
        return len(self.volume)

    @property
    def dtype(self) -> Any:
        return self.volume.dtype

    def fill(self, band: Any, first: int, top: int, left: int) -> None:
        count, rows, columns = band.shape
        band[:] = self.volume[first : first + count, top : top + rows, left : left + columns]


def slope(shape: tuple[int, int], low: float, high: float) -> Any:
    return np.broadcast_to(np.linspace(low, high, shape[1]), shape)


def lay(surface: Any, depth: int, noise: float = 2000, seed: int = 0) -> Any:
    """A sheet without bottom under this surface."""
    numbers = np.arange(depth)[:, None, None]
    filled = np.clip(surface - numbers + 0.5, 0, 1)
    grey = 20000 + 20000 * filled + np.random.default_rng(seed).normal(0, noise, filled.shape)
    return np.clip(grey, 0, 65535).astype(np.uint16)


@pytest.mark.parametrize("depth", [24, 65])
@pytest.mark.parametrize("side", ["first", "last"])
def test_a_slope_is_followed_to_a_fraction_of_a_slice(depth: int, side: Any) -> None:
    surface = slope((128, 300), 0.3 * depth, 0.8 * depth)
    volume = lay(surface, depth)
    expected = surface if side == "last" else depth - 1 - surface
    stack = Stack(Held(volume if side == "last" else volume[::-1]))
    found = find_sheet(stack, side=side, region=16)
    assert np.abs(found.at(0, 128, 8, 292) - expected[:, 8:292]).max() < 1.0
    assert found.values.shape == (8, 19)


def test_where_nothing_can_be_seen_the_neighbours_decide() -> None:
    surface = slope((256, 256), 8, 16)
    volume = lay(surface, 24)
    volume[:, 96:160, 96:160] = 30000  # no step at all
    volume[20:, 32:64, 32:64] = 40000  # something dense at the end of the stack
    found = find_sheet(Stack(Held(volume)), side="last", region=16)
    assert np.abs(found.at(0, 256, 0, 256) - surface).max() < 2
    assert found.clear[7, 7] < 0.3 < found.clear[1, 8]


def test_outside_the_mask_nothing_counts() -> None:
    surface = slope((128, 256), 8, 16)
    volume, mask = lay(surface, 24), np.ones((128, 256), bool)
    mask[:, 200:] = False
    volume[:, ~mask] = 0
    found = find_sheet(Stack(Held(volume)), side="last", region=16, mask=mask)
    assert np.abs(found.at(0, 128, 0, 190) - surface[:, :190]).max() < 1


def test_rows_outside_the_mask_are_not_read() -> None:
    surface, read = slope((256, 256), 8, 16), set()

    class Noted(Held):
        def fill(self, band: Any, first: int, top: int, left: int) -> None:
            read.update(range(top, top + band.shape[1]))
            super().fill(band, first, top, left)

    volume, mask = lay(surface, 24), np.zeros((256, 256), bool)
    mask[70:130] = True
    found = find_sheet(Stack(Noted(volume)), side="last", region=16, mask=mask)
    assert read == set(range(64, 144))
    assert np.abs(found.at(70, 130, 0, 250) - surface[70:130, :250]).max() < 1


def test_the_depth_of_a_made_up_fragment_is_found(tmp_path: Path) -> None:
    for seed in (1, 2):
        fragment = make_fragment((seed,), (384, 512), slices=24, difficulty=1.0, maps=[])
        write_volume(tmp_path / str(seed), fragment)
        stack = volumes.open_stack(tmp_path / str(seed) / "surface_volume")
        found = find_sheet(stack, side="last", region=32, mask=fragment.mask)
        level = fragment.level(0, 384)
        wrong = np.abs(found.at(0, 384, 0, 512) - level)[fragment.mask]
        constant = np.abs(np.median(level) - level)[fragment.mask]
        assert np.median(wrong) < 1.3, np.median(wrong)
        assert np.quantile(wrong, 0.95) < 4, np.quantile(wrong, 0.95)
        assert np.mean(wrong) < np.mean(constant)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (3, 70, 1)])
def test_small_stacks_have_a_surface_too(shape: Any) -> None:
    found = find_sheet(Stack(Held(np.zeros(shape, np.uint8))), side="last")
    assert np.isfinite(found.values).all()
    assert (found.values >= -0.5).all()
    assert (found.values <= shape[0]).all()


def test_a_few_rows_stand_for_a_region() -> None:
    surface = slope((200, 300), 8, 16)
    asked = []

    class Counted(Held):
        def fill(self, band: Any, first: int, top: int, left: int) -> None:
            asked.append(band.shape[1])
            super().fill(band, first, top, left)

    volume = lay(surface, 24)
    found = find_sheet(Stack(Counted(volume)), side="last", region=32, rows=8)
    assert asked == [8] * 7  # the last region has 8 rows
    assert np.abs(found.at(0, 200, 8, 292) - surface[:, 8:292]).max() < 1.2
    asked.clear()
    find_sheet(Stack(Counted(volume, grain=64)), side="last", region=32, rows=8)
    assert sum(asked) == 200  # rows that are decoded together are all used
