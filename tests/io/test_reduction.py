"""Pictures reduced in bands: the same as of the whole at once, and thin lines stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens.io.reduction import OVERLAY_PIXELS, overlay_factor, reduce_bands, reduced_shape


def bands_of(image, rows):
    return (image[top : top + rows] for top in range(0, len(image), rows))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 17), st.integers(1, 7), st.sampled_from(["L", "RGB"]))
def test_bands_do_not_show(height, width, rows, factor, kind):
    rng = np.random.default_rng([height, width])
    image = rng.integers(0, 256, (height, width, 3) if kind == "RGB" else (height, width), np.uint8)
    found = np.concatenate(list(reduce_bands(bands_of(image, rows), factor)))
    assert found.shape[:2] == reduced_shape((height, width), factor)
    assert np.array_equal(found, np.concatenate(list(reduce_bands([image], factor))))
    square = image[:factor, :factor].reshape(-1, *image.shape[2:])
    if len(square) == factor**2:
        assert np.abs(found[0, 0] - square.mean(axis=0)).max() <= 0.5


@pytest.mark.parametrize("factor", [2, 3, 5])
def test_a_thin_line_stays(factor):
    line = np.zeros((50, 60), bool)
    line[np.arange(50), np.arange(50)] = True
    found = np.concatenate(list(reduce_bands(bands_of(line, 7), factor)))
    assert found[np.arange(50) // factor, np.arange(50) // factor].all()
    assert found.sum() == -(-50 // factor)


@pytest.mark.parametrize("shape", [(1, 1), (3000, 3000), (3163, 3163), (8181, 6330), (20_000, 20_000), (1, 30_000_000)])
def test_an_overlay_has_its_most_pixels_and_no_fewer_than_needed(shape):
    factor = overlay_factor(shape)
    assert np.prod(reduced_shape(shape, factor)) <= OVERLAY_PIXELS
    assert factor == 1 or np.prod(reduced_shape(shape, factor - 1)) > OVERLAY_PIXELS
