"""Files for papyrologists: ink dark on the flattened sheet, outlines that give back the ink."""

import json

import cv2
import numpy as np
import pytest

from handlens import pipeline, registry
from handlens.challenges.ink.files import overlay_bands, trace_ink
from handlens.challenges.ink.sheet import Depths
from handlens.challenges.ink.window import Surface, Window
from handlens.io import reduction
from handlens.io.images import read_image
from handlens.io.volumes.memory import open_array
from handlens.masks.rle import encode

INK = registry.challenge("ink")


def make_surface(dtype=np.uint8):
    """A sheet that rises from slice 4 to slice 18; papyrus 180, air 60, and one bright column of voxels in the sheet."""
    height = np.linspace(4, 18, 320)[None, :] + np.zeros((256, 1))
    stack = np.where(np.arange(24)[:, None, None] < height, 180, 60).astype(dtype)
    mask = np.ones((256, 320), bool)
    mask[:, :20] = False
    regions = np.linspace(4, 18, 320)[32::64] - 0.5
    depths = Depths(64, np.repeat(regions[None], 4, 0).astype(np.float32), np.ones((4, 5), np.float32))
    return Surface(open_array(stack), mask, depths, Window())


def test_ink_is_dark_on_a_flat_sheet():
    surface = make_surface()
    coarse = np.zeros((64, 80), np.float32)
    plain = np.concatenate(list(overlay_bands(surface, coarse, 0.5)))
    assert not plain[:, :20].any()
    left, right = plain[:, 40:150].mean(), plain[:, 170:280].mean()
    assert abs(left - right) < 20  # one slice would be papyrus here and air there
    coarse[20:40, 30:50] = 1
    inked = np.concatenate(list(overlay_bands(surface, coarse, 0.5)))
    letter = np.s_[90:150, 130:190]
    assert inked[letter].mean() < 0.3 * plain[letter].mean()
    assert np.array_equal(inked[:60], plain[:60])
    half = np.concatenate(list(overlay_bands(surface, coarse * 0.5, 0.5)))
    assert inked[letter].mean() < half[letter].mean() < plain[letter].mean()  # at the threshold, half dark


def test_contours_filled_again_are_the_ink():
    ink = np.zeros((60, 80), bool)
    ink[5:30, 10:40] = True
    ink[12:20, 18:30] = False
    ink[14:17, 21:26] = True
    ink[40:55, 50:70] = True
    pieces = trace_ink(encode(ink, order="rows"), ink.shape)
    assert sorted(len(rings) for rings in pieces) == [1, 1, 2]
    assert all(ring[0] == ring[-1] for rings in pieces for ring in rings)
    canvas = np.zeros(ink.shape, np.uint8)
    for rings in sorted(pieces, key=len, reverse=True):
        cv2.fillPoly(canvas, [np.array(rings[0])], 1)
        for hole in rings[1:]:
            inner = cv2.fillPoly(np.zeros_like(canvas), [np.array(hole)], 1)
            edge = cv2.polylines(np.zeros_like(canvas), [np.array(hole)], True, 1)
            canvas[(inner > 0) & (edge == 0)] = 0  # a hole's ring runs through the ink around it
    assert np.array_equal(canvas > 0, ink)
    assert trace_ink(encode(np.zeros_like(ink), order="rows"), ink.shape) == []


@pytest.mark.parametrize("write", ["contours", "mask,overlay", "none"])
def test_solve_writes_what_is_asked_for(tmp_path, write):
    rng = np.random.default_rng(0)
    folder = tmp_path / "seg" / "layers"
    folder.mkdir(parents=True)
    cv2.imwrite(str(folder / "7.png"), rng.integers(1, 255, (70, 90), np.uint8))
    out = tmp_path / "out"
    settings = INK.settings(write=write, turns=1)
    solved = pipeline.solve(INK, tmp_path / "seg", out, settings=settings)
    assert solved.cases == 1
    assert list(solved.warnings) == ["seg"]  # noise is no papyrus
    names = sorted(path.name for path in out.glob("seg.*"))
    expected = {"contours": ["seg.contours.geojson"], "mask,overlay": ["seg.mask.png", "seg.overlay.png"], "none": []}
    assert names == expected[write]
    if write == "contours":
        page = json.loads((out / "seg.contours.geojson").read_text())
        assert page["type"] == "FeatureCollection"
    elif names:
        assert read_image(out / "seg.overlay.png").shape == (70, 90)


def test_the_overlay_of_a_large_fragment_is_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(reduction, "OVERLAY_PIXELS", 2_000)
    folder = tmp_path / "seg" / "layers"
    folder.mkdir(parents=True)
    cv2.imwrite(str(folder / "7.png"), np.random.default_rng(0).integers(1, 255, (70, 90), np.uint8))
    pipeline.solve(INK, tmp_path / "seg", tmp_path / "out", settings=INK.settings(write="mask,overlay", turns=1))
    assert read_image(tmp_path / "out" / "seg.overlay.png").shape == (35, 45)
    assert read_image(tmp_path / "out" / "seg.mask.png").shape == (70, 90)
