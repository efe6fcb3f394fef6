"""Cached slices: the same voxels as the stack's, made once, never stale, and safe to delete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from handlens.io import volumes
from handlens.io.volumes import cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stack").mkdir()
    for number, plane in enumerate(np.random.default_rng(0).integers(0, 65535, (6, 40, 33)).astype(np.uint16)):
        tifffile.imwrite(tmp_path / "stack" / f"{number:02d}.tif", plane, tile=(16, 16), compression="zlib")
    return tmp_path / "stack"


def test_columns_of_a_band_are_a_part_of_it(folder: Path) -> None:
    stack = volumes.open_stack(folder)
    whole = stack.read_band(0, 40, 0, 6)
    np.testing.assert_array_equal(stack.read_band(5, 29, 1, 4, left=15, right=17), whole[1:4, 5:29, 15:17])
    assert stack.grain == 16
    with pytest.raises(ValueError, match="columns 3 to 34; the stack has 33"):
        stack.read_band(0, 1, 0, 1, left=3, right=34)


@pytest.mark.parametrize(("bits", "dtype"), [(8, np.uint8), (16, np.uint16)])
def test_what_is_kept_is_what_was_there(folder: Path, tmp_path: Path, bits: int, dtype: Any) -> None:
    stack = volumes.open_stack(folder)
    kept = volumes.keep(stack, tmp_path / "cache", 1, 5, bits=bits)
    whole = stack.read_band(0, 40, 1, 5)
    expected = (whole >> 8).astype(np.uint8) if bits == 8 else whole
    assert (kept.depth, kept.shape, kept.dtype) == (4, (40, 33), dtype)
    np.testing.assert_array_equal(kept.read_band(0, 40, 0, 4), expected)
    np.testing.assert_array_equal(kept.read_band(7, 31, 1, 3, left=4, right=30), expected[1:3, 7:31, 4:30])


def test_a_small_step_copies_the_same(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(cache, "STEP", 1)
    kept = volumes.keep(volumes.open_stack(folder), tmp_path / "cache", 0, 6, bits=16)
    np.testing.assert_array_equal(kept.read_band(0, 40, 0, 6), volumes.open_stack(folder).read_band(0, 40, 0, 6))


def test_it_may_be_deleted_at_any_time(folder: Path, tmp_path: Path) -> None:
    stack = volumes.open_stack(folder)
    kept = volumes.keep(stack, tmp_path / "cache", 1, 5, bits=8)
    before = kept.read_band(3, 30, 1, 3, left=2, right=20)
    (file,) = (tmp_path / "cache").iterdir()
    file.unlink()
    np.testing.assert_array_equal(kept.read_band(3, 30, 1, 3, left=2, right=20), before)
    file.write_bytes(b"cut off")
    np.testing.assert_array_equal(kept.read_band(3, 30, 1, 3, left=2, right=20), before)
    volumes.keep(stack, tmp_path / "cache", 1, 5, bits=8)
    assert file.stat().st_size == 4 * 40 * 33


def test_it_is_made_once_and_anew_when_a_slice_changes(folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        volumes.keep(volumes.open_stack(folder), tmp_path / "cache", 0, 6, bits=8)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    path, size = folder / "03.tif", (folder / "03.tif").stat().st_size
    tifffile.imwrite(path, np.zeros((40, 33), np.uint16), tile=(16, 16), compression="zlib")
    path.write_bytes(path.read_bytes().ljust(size, b"\0"))  # as large as before: the time alone has changed
    os.utime(path, (1, 1))
    kept = volumes.keep(volumes.open_stack(folder), tmp_path / "cache", 0, 6, bits=8)
    assert not kept.read_band(0, 40, 3, 4).any()
