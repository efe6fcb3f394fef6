"""The flattened window: which voxels it takes, exactly, and that bands do not matter."""

from dataclasses import replace

import numpy as np
import pytest
import tifffile

from handlens.challenges.ink.dataset import few_layers
from handlens.challenges.ink.layout import open_fragment
from handlens.challenges.ink.sheet import Depths
from handlens.challenges.ink.window import Surface, Window, find_surface
from handlens.errors import DataError, HandlensError
from handlens.io import volumes
from handlens.io.images import write_png
from handlens.io.volumes.memory import open_array

WINDOW = Window(below=3, above=2)


def write_stack(folder, stack, mask=None, **how):
    (folder / "surface_volume").mkdir(parents=True)
    for number, plane in enumerate(stack):
        tifffile.imwrite(folder / "surface_volume" / f"{number:02d}.tif", plane, **how)
    if mask is not None:
        write_png(folder / "mask.png", mask)
    return folder


def flat(values):
    values = np.asarray(values, np.float32)
    return Depths(64, values, np.ones_like(values))


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """65 slices of noise and a surface that slopes over nearly all of them, and past the ends."""
    random = np.random.default_rng(0)
    stack = random.integers(0, 65536, (65, 90, 70)).astype(np.uint16)
    mask = random.random((90, 70)) > 0.2
    folder = write_stack(tmp_path_factory.mktemp("noise") / "a", stack, mask)
    opened, read = open_fragment(folder)
    return stack, Surface(opened, read, flat([[-3.0, 20.0], [40.0, 70.0]]), Window(11, 8))


def test_layers_of_a_stack_of_24_are_its_slices(tmp_path):
    stack = (np.arange(24)[:, None, None] * 2560 + np.zeros((24, 5, 6))).astype(np.uint16)
    opened, mask = open_fragment(write_stack(tmp_path / "a", stack))
    assert mask.all()  # no mask.png: everywhere
    surface = Surface(opened, mask, flat([[12.5]]), WINDOW)  # between slices 12 and 13
    assert surface.read(0, 5)[:, 2, 3].tolist() == [100, 110, 120, 130, 140]
    halfway = replace(surface, depths=flat([[13.0]]))
    assert halfway.read(0, 5)[:, 2, 3].tolist() == [105, 115, 125, 135, 145]
    over = replace(surface, depths=flat([[23.4]]))
    assert over.read(0, 5)[:, 0, 0].tolist() == [208, 218, 228, 230, 230]  # the last slice goes on
    turned = replace(surface, window=replace(WINDOW, side="first"), depths=flat([[12.5]]))
    assert turned.read(0, 5)[:, 2, 3].tolist() == [150, 140, 130, 120, 110]


def test_thicker_stacks_are_averaged(noise):
    stack, surface = noise
    window = surface.read(0, 90)
    thick = round(16 * 65 / 24)
    lowest = np.rint((surface.depths.at(0, 90, 0, 70) + 0.5) * 16).astype(int) - 11 * thick
    for row, column in ((0, 0), (45, 30), (89, 69), (20, 60), (70, 10)):
        if not surface.mask[row, column]:
            assert not window[:, row, column].any()
            continue
        steps = lowest[row, column] + np.arange(19 * thick)
        voxels = stack[np.clip(steps // 16, 0, 64), row, column].astype(np.int64).reshape(19, thick)
        assert (voxels.sum(axis=1) // (thick * 256) == window[:, row, column]).all()


def test_bands_do_not_matter(noise):
    _, surface = noise
    whole = surface.read(0, 90)
    for step in (1, 7, 64):
        parts = [surface.read(top, min(top + step, 90)) for top in range(0, 90, step)]
        assert np.array_equal(np.concatenate(parts, axis=1), whole)


def test_only_the_slices_that_are_needed_are_read(noise, monkeypatch):
    _, surface = noise
    surface = replace(surface, depths=flat([[30.0]]), window=WINDOW)
    asked = []
    read = volumes.Stack.read_band

    def counted(self, top, bottom, first, last, **rest):
        asked.append((first, last))
        return read(self, top, bottom, first, last, **rest)

    monkeypatch.setattr(volumes.Stack, "read_band", counted)
    surface.read(0, 10)
    assert asked == [(22, 36)]  # 30.5 less 3 and plus 2 layers of 43 sixteenths
    replace(surface, mask=np.zeros_like(surface.mask)).read(0, 10)
    assert len(asked) == 1


def test_eight_bits_are_taken_as_they_are(tmp_path):
    stack = (np.arange(24)[:, None, None] * 10 + np.zeros((24, 5, 6))).astype(np.uint8)
    opened, mask = open_fragment(write_stack(tmp_path / "a", stack))
    assert Surface(opened, mask, flat([[12.5]]), WINDOW).read(0, 5)[:, 2, 3].tolist() == [100, 110, 120, 130, 140]


def test_the_surface_is_found(tmp_path):
    random = np.random.default_rng(1)
    height = 8 + 8 * np.arange(200)[None, :] / 200 + np.zeros((150, 1))
    stack = np.where(np.arange(24)[:, None, None] < height, 42000, 22000) + random.normal(0, 2000, (24, 150, 200))
    opened, mask = open_fragment(write_stack(tmp_path / "a", stack.astype(np.uint16)))
    window = find_surface(opened, mask, WINDOW).read(0, 150)
    means = window[:, :, 10:-10].mean(axis=(1, 2))
    assert means[0] > 155
    assert means[-1] < 95


def test_tall_strips_are_copied_first(tmp_path, monkeypatch):
    from handlens.challenges.ink import window

    monkeypatch.setattr(window, "TALL", 4)
    stack = np.random.default_rng(0).integers(0, 65536, (6, 20, 30)).astype(np.uint16)
    folder = write_stack(tmp_path / "a", stack, compression="zlib", rowsperstrip=20)
    opened, _ = open_fragment(folder)
    copied = window.copy_tall(opened, tmp_path / "cache")
    assert (opened.grain, copied.grain) == (20, 1)
    assert np.array_equal(copied.read_band(0, 20, 0, 6), stack)
    assert window.copy_tall(opened, None) is opened
    assert window.copy_tall(copied, tmp_path / "cache") is copied


def test_what_is_refused(tmp_path):
    with pytest.raises(HandlensError, match="side is 'left'; expected first or last"):
        Window(side="left")
    with pytest.raises(HandlensError, match="below is 0; expected 1 to 64"):
        Window(below=0)
    assert Window.of({"below": 3, "above": 2, "side": "last"}) == WINDOW
    for fields in (None, [], {}, {"below": "x", "above": 2, "side": "last"}, {"below": 3, "above": 0, "side": "last"}):
        assert Window.of(fields) is None
    folder = write_stack(tmp_path / "a", np.zeros((2, 5, 6), np.uint16), np.ones((6, 5), bool))
    with pytest.raises(DataError, match=r"6x5, but the slices are 5x6: they must be equal"):
        open_fragment(folder)


@pytest.mark.parametrize(("slices", "seen"), [(1, [9, 9, 9, 9, 9]), (2, [9, 9, 9, 19, 19]), (5, [9, 9, 19, 29, 39])])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_few_slices_are_as_many_layers_about_the_surface(slices, seen, dtype):
    """The first and the last go on where there are no more; no sheet is looked for."""
    scale = 1 if dtype is np.uint8 else 256
    stack = ((np.arange(slices)[:, None, None] * 10 + 9 + np.zeros((slices, 70, 80))) * scale).astype(dtype)
    surface = find_surface(open_array(stack), np.ones((70, 80), bool), WINDOW)
    assert surface.read(0, 70)[:, 65, 70].tolist() == seen
    backwards = find_surface(open_array(stack), np.ones((70, 80), bool), replace(WINDOW, side="first"))
    assert backwards.read(0, 70)[:, 65, 70].min() == 9
    assert backwards.read(0, 70)[0, 0, 0] == stack[-1, 0, 0] // scale  # inside the sheet first


def test_training_shows_few_slices_as_the_window_has_them():
    """Which layers of a whole stack a crop of few slices gets is what the window of such a stack would have."""
    stack = (np.arange(24)[:, None, None] * 10 + np.zeros((24, 8, 8))).astype(np.uint8)
    whole = Surface(open_array(stack), np.ones((8, 8), bool), flat([[12.5]]), replace(WINDOW, spare=1))
    layers = whole.read(0, 8)[:, 0, 0]
    for slices in (1, 2, 3, 5):
        first = 13 - slices // 2
        few = find_surface(open_array(stack[first : first + slices]), np.ones((8, 8), bool), WINDOW)
        assert layers[few_layers(whole.window, slices)].tolist() == few.read(0, 8)[:, 0, 0].tolist()
