"""Tiles: they cover everything, blend without seams, and the answer does not depend on how rows are read."""

import re
import tracemalloc
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens.inference.tiling import Tiling, cut, predict
from handlens.inference.tta import orient
from handlens.io.row_reader import RowReader, in_memory
from handlens.types import NoCheckpoints, Work

SMALL = Tiling(largest=64, overlap=24, multiple=8)


def noise(*shape):
    return np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)


def first_channel(tile):
    """A network without surroundings."""
    return tile[:, :, 0].astype(np.float32) / 255


def blur(tile):
    """A network that looks 5 pixels far, in the same way in all directions."""
    return cv2.blur(first_channel(tile), (11, 11), borderType=cv2.BORDER_CONSTANT)


def fickle(tile):
    """A network whose answer depends on the whole tile and on how it lies."""
    ramp = np.linspace(0, 1, tile.shape[1], dtype=np.float32)
    return (first_channel(tile) * 0.5 + ramp * 0.2 + float(tile.mean()) / 1000).astype(np.float32)


def whole(picture, network, *, tiling=SMALL, turns=1, band_rows=7):
    bands = list(predict(in_memory(picture), network, tiling=tiling, turns=turns, band_rows=band_rows))
    assert [top for top, _ in bands] == list(np.cumsum([0, *(len(rows) for _, rows in bands)])[:-1])
    assert all(len(rows) <= band_rows for _, rows in bands)
    return np.concatenate([rows for _, rows in bands])


@given(st.integers(1, 30_000), st.sampled_from([SMALL, Tiling(), Tiling(256, 128), Tiling(512, 32)]))
def test_tiles_cover_a_side_and_share_enough(length, tiling):
    cuts = cut(length, tiling)
    ends = [start + cuts.size for start in cuts.starts]
    assert cuts.starts[0] == 0
    assert ends[-1] >= length
    assert cuts.size <= tiling.largest
    assert cuts.size % tiling.multiple == 0
    assert all(end - start >= tiling.overlap for start, end in zip(cuts.starts[1:], ends[:-1], strict=True))
    assert ends[-1] < length + tiling.multiple
    assert all(start % tiling.multiple == 0 for start in cuts.starts)
    assert cuts.total.min() > 0
    middle = np.abs(np.arange(cuts.size) + 0.5 - cuts.size / 2) < 1
    assert np.all(cuts.weights[middle] == cuts.weights.max())


def test_tiles_that_share_too_much_are_refused():
    with pytest.raises(ValueError, match="tiles of 64 that share 64"):
        Tiling(64, 64)
    for sides in ((100, 32), (128, 10), (128, 0)):
        with pytest.raises(ValueError, match="expected multiples of 32"):
            Tiling(*sides)


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (200, 1), (31, 33), (64, 64), (65, 300), (210, 97)])
def test_a_network_without_surroundings_gives_the_picture_back(shape):
    picture = noise(*shape, 3)
    assert np.abs(whole(picture, first_channel) - first_channel(picture)).max() < 1e-6


def test_there_are_no_seams():
    picture = noise(300, 260, 3)
    answer, expected = whole(picture, blur), blur(picture)
    assert np.abs(answer - expected)[5:-5, 5:-5].max() < 0.02  # a tile's own edge counts a little
    plain = whole(picture, blur, tiling=Tiling(64, 1, 1))
    assert np.abs(plain - expected)[5:-5, 5:-5].max() > 0.1  # the test can fail


def blocks(tile):
    """A network that works in blocks of 8, as one that halves its picture three times does."""
    small = cv2.resize(first_channel(tile), None, fx=1 / 8, fy=1 / 8, interpolation=cv2.INTER_AREA)
    return cv2.resize(small, None, fx=8, fy=8, interpolation=cv2.INTER_NEAREST)


def test_tiles_lie_where_the_network_sees_them_as_in_the_whole_picture():
    picture = noise(304, 256, 3)
    assert np.abs(whole(picture, blocks) - blocks(picture)).max() < 1e-6
    assert np.abs(whole(picture, blocks, tiling=Tiling(64, 25, 1)) - blocks(picture)).max() > 0.1


@pytest.mark.parametrize("turns", [1, 8])
def test_the_answer_is_the_same_whatever_is_read_at_a_time(turns):
    picture = noise(201, 150, 3)
    answers = [whole(picture, fickle, turns=turns, band_rows=rows).tobytes() for rows in (1, 7, 64, 1000)]
    assert len(set(answers)) == 1


def test_with_all_turns_the_answer_turns_with_the_picture():
    picture = noise(96, 96, 3)
    straight = whole(picture, fickle, turns=8)
    for turn in range(8):
        assert np.allclose(whole(orient(picture, turn), fickle, turns=8), orient(straight, turn), atol=1e-6)
    assert not np.allclose(whole(orient(picture, 1), fickle), orient(whole(picture, fickle), 1), atol=1e-3)


class Kept(NoCheckpoints):
    """Checkpoints in memory."""

    folder = Path("kept")

    def __init__(self):
        self.arrays = {}

    def load(self, name, /):
        return self.arrays.get(name)

    def save(self, name, array, /):
        self.arrays[name] = array.copy()


def test_tiles_are_kept_told_and_not_computed_again():
    picture, kept, told, calls = noise(150, 90, 3), Kept(), [], []

    def counting(tile):
        calls.append(tile.shape)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return fickle(tile)

    def run(network):
        work = Work(progress=lambda done, total, words="": told.append((done, total)), checkpoints=kept)
        bands = predict(in_memory(picture), network, tiling=SMALL, turns=1, work=work)
        return np.concatenate([rows for _, rows in bands])

    with pytest.raises(KeyboardInterrupt):
        run(counting)
    total = told[0][1]
    assert (len(kept.arrays), told) == (3, [(number, total) for number in (1, 2, 3)])
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in kept.arrays)
    answer = run(counting)
    assert len(calls) == 4 + total - 3
    assert told[3:] == [(number, total) for number in range(1, total + 1)]
    assert np.array_equal(answer, whole(picture, fickle))
    kept.arrays["tile-0-0"] = np.zeros((3, 3), np.float32)  # of another size, so not of this tile
    assert np.array_equal(run(fickle), answer)


def test_a_picture_of_one_tile_keeps_nothing():
    kept, told = Kept(), []
    work = Work(progress=lambda *now: told.append(now), checkpoints=kept)
    list(predict(in_memory(noise(64, 64, 3)), fickle, tiling=SMALL, turns=8, work=work))
    assert (kept.arrays, told) == ({}, [])


def test_every_row_is_read_once_and_in_order():
    asked = []

    def read(top, bottom):
        asked.append((top, bottom))
        return np.zeros((bottom - top, 100, 3), np.uint8)

    list(predict(RowReader((500, 100), read), first_channel, tiling=SMALL, turns=1, band_rows=10))
    assert asked[0][0] == 0
    assert asked[-1][1] == 500
    assert all(end == start for (_, end), (start, _) in pairwise(asked))


def test_memory_does_not_grow_with_the_height():
    def peak(height):
        source = RowReader((height, 2000), lambda top, bottom: np.zeros((bottom - top, 2000, 3), np.uint8))
        tracemalloc.start()
        for _ in predict(source, lambda tile: np.zeros(tile.shape[:2], np.float32), tiling=Tiling(256, 64), turns=1):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(8000) < 1.1 * peak(1000) < 20_000_000


@pytest.mark.parametrize("turns", [1, 8])
@pytest.mark.parametrize("keeps", [True, False])
def test_tiles_that_others_compute_give_the_same_bits(turns, keeps):
    picture = noise(200, 150, 3)
    reports = []

    def share(make, items, /):
        """Three at a time, the last of them first; every second one is asked for twice, as if its worker had died."""
        answer = make(None)
        for start in range(0, len(items), 3):
            given = [(index, items[index]) for index in range(start, min(start + 3, len(items)))]
            for index, tile in reversed(given):
                if index % 2:
                    assert np.array_equal(items[index], tile)
                yield index, answer(items[index])
            assert len(items.held) <= 3  # memory does not grow with the picture

    kept = Kept() if keeps else NoCheckpoints()
    work = Work(progress=lambda done, total, _words="": reports.append((done, total)), checkpoints=kept, share=share)
    found = list(predict(in_memory(picture), fickle, tiling=SMALL, turns=turns, work=work, band_rows=7))
    assert np.array_equal(np.concatenate([rows for _, rows in found]), whole(picture, fickle, turns=turns))
    assert not keeps or len(kept.arrays) == reports[-1][1]
    total = reports[-1][1]
    assert reports == [(done, total) for done in range(total + 1)]
    assert total > 9


def test_a_resumed_picture_gives_away_only_what_is_left():
    picture, kept = noise(200, 150, 3), Kept()
    alone = Work(checkpoints=kept)
    expected = np.concatenate(
        [rows for _, rows in predict(in_memory(picture), blur, tiling=SMALL, turns=1, work=alone)]
    )
    lost = [name for number, name in enumerate(sorted(kept.arrays)) if number % 3 == 1]
    for name in lost:
        del kept.arrays[name]
    given = []

    def share(make, items, /):
        given.extend(items.places)
        yield from enumerate(map(make(None), items))

    work = Work(checkpoints=kept, share=share)
    found = np.concatenate([rows for _, rows in predict(in_memory(picture), blur, tiling=SMALL, turns=1, work=work)])
    assert sorted("tile-{}-{}".format(*place) for place in given) == sorted(lost)
    assert np.array_equal(found, expected)
