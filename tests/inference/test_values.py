"""What a notebook passes to a predictor: arrays, PIL images and paths come to one form, or are refused in words."""

import numpy as np
import pytest
from PIL import Image

from handlens.errors import DataError
from handlens.inference.values import as_picture, as_rgb
from handlens.io.images import read_rgb, write_png

COLOUR = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
GREY = COLOUR[:, :, 0]


def test_an_rgb_array_stays_as_it_is():
    assert np.array_equal(as_rgb(COLOUR), COLOUR)
    turned = as_rgb(COLOUR.transpose(1, 0, 2))
    assert turned.flags.c_contiguous
    assert turned.shape == (9, 6, 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (GREY, np.stack([GREY] * 3, axis=2)),
        (GREY[:, :, None], np.stack([GREY] * 3, axis=2)),
        (np.dstack([COLOUR, GREY]), COLOUR),
        (COLOUR.astype(np.uint16) * 256 + 200, COLOUR),
        (COLOUR / 255, COLOUR),
        ((COLOUR / 255).astype(np.float32), COLOUR),
        (GREY > 99, np.stack([(GREY > 99) * np.uint8(255)] * 3, axis=2)),
        (COLOUR.tolist(), None),
    ],
    ids=["grey", "one channel", "alpha", "16 bits", "double", "single", "mask", "list"],
)
def test_other_arrays_become_rgb(given, expected):
    if expected is None:
        with pytest.raises(DataError, match="an array of int64: pass uint8, uint16, or floats from 0 to 1"):
            as_rgb(given)
        return
    found = as_rgb(given)
    assert (found.dtype, found.flags.c_contiguous) == (np.uint8, True)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "1", "P", "CMYK", "LA", "I;16"])
def test_every_mode_of_a_pil_image_becomes_rgb(mode):
    source = Image.fromarray(GREY) if mode == "I;16" else Image.fromarray(COLOUR)
    picture = source.convert(mode) if mode != "I;16" else Image.fromarray(GREY.astype(np.uint16) * 257)
    found = as_rgb(picture)
    assert (found.shape, found.dtype) == ((6, 9, 3), np.uint8)
    if mode in ("RGB", "RGBA"):
        assert np.array_equal(found, COLOUR)
    if mode == "I;16":
        assert np.array_equal(found[:, :, 0], GREY)


def test_a_path_is_read_as_solve_reads_it(tmp_path):
    write_png(tmp_path / "a.png", COLOUR)
    for path in (tmp_path / "a.png", str(tmp_path / "a.png")):
        assert np.array_equal(as_rgb(path), read_rgb(tmp_path / "a.png"))
        assert np.array_equal(as_picture(path), COLOUR)
    with pytest.raises(DataError, match=r"none\.png"):
        as_rgb(tmp_path / "none.png")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(5, np.uint8), r"an array of uint8 with shape \(5,\) is no image"),
        (np.zeros((0, 5), np.uint8), r"with shape \(0, 5\) is no image"),
        (np.array([["a", "b"]]), "is no image: expected"),
        (None, "an array of object with shape"),
        (3, r"with shape \(\) is no image"),
        (np.zeros((4, 5, 2), np.uint8), r"shape \(4, 5, 2\) is no image"),
        (np.zeros((2, 4, 5, 3), np.uint8), r"shape \(2, 4, 5, 3\) is no image"),
        (np.zeros((4, 5), np.int32), "an array of int32: pass uint8"),
        (np.full((4, 5), 1.5), "floats outside of 0 to 1: scale it, or pass uint8"),
        (np.full((4, 5), -0.1), "floats outside of 0 to 1"),
        (np.full((4, 5), np.nan), "floats outside of 0 to 1"),
        (np.zeros((4, 5), complex), "an array of complex128"),
    ],
)
def test_what_is_no_image_is_refused(value, message):
    with pytest.raises(DataError, match=message):
        as_rgb(value)


def test_a_picture_keeps_its_bits_and_channels():
    for array in (GREY, COLOUR, np.dstack([COLOUR, GREY]), GREY.astype(np.uint16) * 257):
        assert np.array_equal(as_picture(array), array)
        assert np.array_equal(as_picture(Image.fromarray(array)), array)
    assert np.array_equal(as_picture(GREY[:, :, None]), GREY)
    assert np.array_equal(as_picture(COLOUR / 255), COLOUR)
    assert as_picture(GREY > 99).shape == (6, 9, 3)
    for value in (np.zeros((4, 5, 2), np.uint8), np.zeros((4, 5), np.int32), np.zeros((2, 4, 5, 3), np.uint8), None):
        with pytest.raises(DataError):
            as_picture(value)


def test_rows_of_unequal_lengths_are_refused():
    with pytest.raises(DataError, match="rows of unequal lengths are no image"):
        as_rgb([[1, 2], [3]])
