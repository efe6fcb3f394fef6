"""Test-time augmentation: eight orientations, each undone, and the mean of the answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens.inference.tta import average, orient, orient_back

sides = st.integers(1, 9)


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_the_eight_orientations_are_different_and_can_be_undone():
    picture = noise(5, 7, 3)
    turned = [orient(picture, turn) for turn in range(8)]
    assert len({(array.shape, array.tobytes()) for array in turned}) == 8
    assert all(np.array_equal(orient_back(array[:, :, 0], turn), picture[:, :, 0]) for turn, array in enumerate(turned))
    assert np.array_equal(turned[0], picture)


@given(sides, sides, st.integers(0, 7), st.sampled_from([(0, 1), (1, 2), (2, 3)]))
def test_undoing_works_whichever_axes_are_rows_and_columns(height, width, turn, axes):
    shape = [2, 3, 4, 5]
    shape[axes[0]], shape[axes[1]] = height, width
    picture = noise(*shape)
    turned = orient(picture, turn, axes)
    assert np.array_equal(orient_back(turned, turn, axes), picture)
    assert turned.shape[axes[0]] == (width if turn % 2 else height)
    assert np.shares_memory(turned, picture)


def ramp(picture):
    """A network whose answer depends on how its picture lies."""
    return picture[..., 0].astype(np.float32) + np.arange(picture.shape[1], dtype=np.float32)


def test_one_orientation_is_the_answer_itself():
    picture = noise(4, 6, 3)
    assert np.array_equal(average(ramp, picture, orientations=1), ramp(picture))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_mean_is_over_the_first_orientations(count):
    picture = noise(5, 7, 3)
    answers = [orient_back(ramp(orient(picture, turn)), turn) for turn in range(count)]
    answer = average(ramp, picture, orientations=count)
    assert answer.dtype == np.float32
    assert np.allclose(answer, np.mean(answers, axis=0), atol=1e-3)
    assert not np.allclose(answer, ramp(picture), atol=1e-3)


def test_a_network_gets_contiguous_arrays_and_its_answer_is_left_alone():
    kept = np.full((6, 4), 2, np.float32)
    given = []

    def network(picture):
        given.append(picture.flags.c_contiguous)
        return kept if picture.shape[:2] == kept.shape else kept.T

    average(network, noise(6, 4, 3), orientations=8)
    assert all(given)
    assert (kept == 2).all()


def test_volumes_are_turned_about_their_last_two_axes():
    volume = noise(3, 6, 4)
    answer = average(lambda stack: stack[1].astype(np.float32), volume, orientations=4, axes=(1, 2))
    assert np.array_equal(answer, volume[1])


def test_no_orientation_is_refused():
    with pytest.raises(ValueError, match="0 orientations"):
        average(ramp, noise(4, 4, 3), orientations=0)
