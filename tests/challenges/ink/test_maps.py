"""Maps at full size: enlarged in bands as in one piece, nothing outside the mask, files that others read."""

import cv2
import numpy as np
import pytest
import tifffile
import zarr

from handlens.challenges.ink.maps import enlarge, write_map
from handlens.io import volumes

SHAPE = (601, 517)


@pytest.fixture(scope="module")
def coarse():
    return cv2.GaussianBlur(np.random.default_rng(0).random((151, 130)).astype(np.float32), (0, 0), 2)


@pytest.fixture(scope="module")
def mask():
    mask = np.zeros(SHAPE, bool)
    mask[10:590, 20:510] = True
    return mask


def whole(coarse):
    return cv2.resize(coarse, (520, 604), interpolation=cv2.INTER_LINEAR)[: SHAPE[0], : SHAPE[1]]


def test_bands_make_the_whole(coarse):
    bands = list(enlarge(coarse, SHAPE))
    assert [top for top, _ in bands] == [0, 256, 512]
    assert np.array_equal(np.concatenate([rows for _, rows in bands]), whole(coarse))


@pytest.mark.parametrize("form", ["tiff", "zarr"])
def test_maps_are_read_by_others(coarse, mask, tmp_path, form):
    for _ in range(2):  # the second takes the place of the first
        path = write_map(tmp_path, "a", form, coarse, mask)
    expected = (np.rint(whole(coarse) * np.float32(65535)) * mask).astype(np.uint16)
    if form == "tiff":
        assert path == tmp_path / "probability" / "a.tif"
        assert np.array_equal(tifffile.imread(path), expected)
    else:
        assert np.array_equal(zarr.open_array(path, mode="r")[0], expected)
        assert len(list(path.glob("0.*"))) == 9  # empty ones too: an array without chunks is not complete
        stack = volumes.open_stack(path)
        assert (stack.depth, stack.shape, stack.dtype) == (1, SHAPE, np.uint16)
        assert np.array_equal(stack.read_band(0, SHAPE[0], 0, 1)[0], expected)
    assert [each.name for each in (tmp_path / "probability").iterdir()] == [path.name]
