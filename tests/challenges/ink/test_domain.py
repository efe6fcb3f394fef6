"""What is not papyrus is warned about; what is, is not."""

import numpy as np
import pytest

from handlens import pipeline, registry
from handlens.challenges.ink.domain import check, measure
from handlens.challenges.ink.layout import open_fragment
from handlens.challenges.ink.predictor import as_fragment
from handlens.challenges.ink.window import Window, find_surface
from handlens.io.images import write_png
from handlens.io.volumes import is_coloured

INK = registry.challenge("ink")


@pytest.fixture(scope="module")
def fragment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ink") / "data"
    pipeline.sample(INK, folder, seed=3, cases=1, size=128, settings=INK.settings())
    return folder / "test" / "a"


def warnings_of(value, side="last"):
    scan = as_fragment(value)
    return check(find_surface(scan.stack, scan.mask, Window(side=side)), coloured=is_coloured(scan.stack))


def test_papyrus_is_not_warned_about(fragment):
    assert warnings_of(fragment) == ()
    stack, _ = open_fragment(fragment)
    middle = stack.read_band(0, stack.shape[0], 11, 14)
    assert warnings_of(middle) == ()
    assert warnings_of((middle[1] >> 8).astype(np.uint8)) == ()


def test_a_sheet_seen_from_behind(fragment):
    (sentence,) = warnings_of(fragment, side="first")
    assert sentence.endswith("say --reverse")


def test_noise_has_no_fibres():
    noise = np.random.default_rng(0).integers(1, 255, (200, 200), np.uint8)
    (sentence,) = warnings_of(noise)
    assert sentence.startswith("no fibres of papyrus")


def test_hardly_any_contrast():
    flat = np.random.default_rng(0).integers(120, 124, (200, 200), np.uint8)
    (sentence,) = warnings_of(flat)
    assert sentence.startswith("hardly any contrast")


def test_colours(tmp_path, fragment):
    stack, _ = open_fragment(fragment)
    grey = (stack.read_band(0, stack.shape[0], 12, 13)[0] >> 8).astype(np.uint8)
    write_png(tmp_path / "grey.png", np.repeat(grey[:, :, None], 3, axis=2))
    assert warnings_of(tmp_path / "grey.png") == ()
    pink = np.stack([grey, grey // 2, grey], axis=2)
    write_png(tmp_path / "pink.png", pink)
    assert warnings_of(tmp_path / "pink.png")[0].startswith("a picture in colours")


def test_a_tiny_picture_cannot_be_told():
    assert warnings_of(np.random.default_rng(0).integers(1, 255, (30, 30), np.uint8)) == ()
    scan = as_fragment(np.zeros((30, 30), np.uint8))
    assert measure(find_surface(scan.stack, scan.mask, Window())).fibres == 0


def test_turned_papyrus_is_papyrus():
    """Fibres are found in any direction."""
    y, x = np.mgrid[:300, :300].astype(np.float32)
    for angle in (0.0, 0.4, 0.8):
        along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        grid = 120 + 40 * np.sin(along / 3) + 40 * np.sin(across / 4)
        scan = as_fragment(grid.astype(np.uint8))
        assert measure(find_surface(scan.stack, scan.mask, Window())).fibres > 0.2
