"""Prediction in lines of tiles: blending, turns, what is skipped, and that neither bands nor threads matter."""

import numpy as np
import pytest

from handlens.challenges.ink.tiles import STRIDE, InMemory, Resources, predict
from handlens.errors import DataError
from handlens.types import Work

SHAPE = (700, 1130)


def squares(plane):
    """Means of 4x4 pixels, which may be filled up with zeros."""
    down, across = (-side % STRIDE for side in plane.shape)
    framed = np.pad(plane.astype(np.float32), ((0, down), (0, across)))
    return framed.reshape(framed.shape[0] // 4, 4, -1, 4).mean(axis=(1, 3))


def brightness(window):
    """A network whose answer does not depend on the tile around."""
    return squares(window[1]) / np.float32(255)


def contrast(window):
    """One whose answer does, and that has a direction."""
    answer = brightness(window)
    answer = answer / (answer.mean() + 1) + np.linspace(0, 0.2, answer.shape[1], dtype=np.float32)
    return np.clip(answer, 0, 1).astype(np.float32)


@pytest.fixture(scope="module")
def source():
    random = np.random.default_rng(0)
    mask = np.zeros(SHAPE, bool)
    mask[40:690, 30:500] = True
    mask[300:316, :1000] = True
    return InMemory(random.integers(0, 256, (3, *SHAPE), dtype=np.uint8) * mask, mask)


def test_tiles_come_back_together(source):
    answer = predict(source, brightness, Resources(turns=1))
    assert answer.shape == (175, 283)
    assert np.allclose(answer, squares(source.window[1]) / 255, atol=1e-6)


def test_turns_are_averaged(source):
    one, four = (predict(source, contrast, Resources(turns=turns)) for turns in (1, 4))
    assert not np.allclose(one, four, atol=1e-3)
    straight = predict(source, brightness, Resources(turns=4))
    assert np.allclose(straight, squares(source.window[1]) / 255, atol=1e-6)


@pytest.mark.parametrize(
    "resources", [{"rows": 1}, {"rows": 37}, {"threads": 3}, {"threads": 0}, {"threads": 2, "rows": 64}]
)
def test_bands_and_threads_do_not_matter(source, resources):
    expected = predict(source, contrast, Resources(turns=4))
    assert np.array_equal(predict(source, contrast, Resources(turns=4, **resources)), expected)


def test_tiles_outside_the_mask_are_not_asked(source):
    asked = []

    def network(window):
        asked.append(window.any())
        return brightness(window)

    answer = predict(source, network, Resources(turns=1))
    everything = InMemory(source.window, np.ones(SHAPE, bool))
    skipped = len(asked)
    predict(everything, network, Resources(turns=1))
    assert skipped < len(asked) - skipped
    assert all(asked[:skipped])
    assert not answer[:, 260:].any()


def test_every_row_is_read_once(source):
    asked = []

    class Counting(InMemory):
        def read(self, top, bottom):
            asked.extend(range(top, bottom))
            return super().read(top, bottom)

    predict(Counting(source.window, source.mask), brightness, Resources(turns=1, rows=50))
    assert asked == list(range(SHAPE[0]))


class Memory(dict):
    folder = None
    load = dict.get
    save = dict.__setitem__


def test_a_killed_run_goes_on(source):
    """A line is kept when it is done, and never computed again; the answer has the same bits."""
    calls, told = [], []

    def dying(window):
        calls.append(1)
        if len(calls) == dies:
            raise MemoryError
        return contrast(window)

    dies, lines, kept = 0, Memory(), Memory()
    expected = predict(source, dying, Resources(turns=1), Work(checkpoints=lines))
    all_calls, dies = len(calls), len(calls) - 1  # in the last line
    calls.clear()
    with pytest.raises(MemoryError):
        predict(source, dying, Resources(turns=1, threads=1), Work(checkpoints=kept))
    assert 0 < len(kept) < len(lines)
    done, dies = len(kept), 0
    calls.clear()
    work = Work(progress=lambda *now: told.append(now), checkpoints=kept)
    assert np.array_equal(predict(source, dying, Resources(turns=1), work), expected)
    assert 0 < len(calls) < all_calls
    assert told == [(count, len(lines)) for count in range(done, len(lines) + 1)]
    assert all(np.array_equal(kept[line], lines[line]) for line in lines)


def test_what_cannot_be_read_is_said(source):
    class Broken(InMemory):
        def read(self, top, bottom):
            if top > 300:
                raise DataError("slice 03.tif is truncated")
            return super().read(top, bottom)

    with pytest.raises(DataError, match="slice 03.tif is truncated"):
        predict(Broken(source.window, source.mask), brightness, Resources(turns=1, rows=64))


@pytest.mark.parametrize("shape", [(1, 1), (5, 700), (33, 40), (512, 3)])
def test_odd_sizes(shape):
    random = np.random.default_rng(0)
    small = InMemory(random.integers(1, 256, (3, *shape), dtype=np.uint8), np.ones(shape, bool))
    answer = predict(small, brightness, Resources(turns=4))
    assert np.allclose(answer, squares(small.window[1]) / 255, atol=1e-6)
