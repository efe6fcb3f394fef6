"""What a notebook gets for a fragment: folders and arrays in, map and mask out, equal to what `solve` writes."""

import numpy as np
import pytest
import tifffile

from handlens import pipeline, registry
from handlens.challenges.ink import data
from handlens.challenges.ink.layout import open_fragment
from handlens.challenges.ink.options import InkSettings
from handlens.challenges.ink.predictor import load
from handlens.challenges.ink.result import InkResult
from handlens.errors import DataError
from handlens.types import Context

INK = registry.challenge("ink")
SETTINGS = InkSettings(turns=1)


@pytest.fixture(scope="module")
def predictor():
    return load(Context(SETTINGS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ink") / "data"
    pipeline.sample(INK, folder, seed=5, cases=1, size=150, settings=InkSettings(slices=24, width=170))
    return folder


@pytest.fixture(scope="module")
def case(folder):
    return data.read_cases(folder, "test")[0]


@pytest.fixture(scope="module")
def result(predictor, case):
    return predictor(case.path)


def test_it_is_what_solve_writes(result, folder, case, tmp_path):
    solved = pipeline.solve(INK, folder, tmp_path / "out", settings=SETTINGS.replace(probability="tiff"))
    (written,) = INK.codec(SETTINGS).format(result.rle, case)
    assert solved.submission.read_text().splitlines()[1] == f"{case.id},{written}"
    levels = tifffile.imread(tmp_path / "out" / "probability" / f"{case.id}.tif")
    assert np.array_equal(np.rint(result.probability_map * np.float32(65535)), levels)


def test_its_parts_agree(result, case):
    stack, inside = open_fragment(case.path)
    assert isinstance(result, InkResult)
    assert (result.mask.shape, result.mask.dtype) == (stack.shape, np.bool_)
    assert (result.probability_map.shape, result.probability_map.dtype) == (stack.shape, np.float32)
    assert 0 <= result.probability_map.min() <= result.probability_map.max() <= 1
    assert not result.probability_map[~inside].any()
    assert not result.mask[~inside].any()
    assert result.mask.sum() == result.rle.area
    assert not inside.all()


def test_an_array_is_answered_as_its_files(predictor, result, case):
    stack, inside = open_fragment(case.path)
    volume = stack.read_band(0, stack.shape[0], 0, stack.depth)
    assert volume.shape == (24, *stack.shape)
    again = predictor(volume, mask=inside)
    assert np.array_equal(again.probability_map, result.probability_map)
    assert np.array_equal(again.mask, result.mask)
    assert np.array_equal(predictor(str(case.path)).mask, result.mask)
    slices = predictor(case.path / "surface_volume", mask=inside.astype(np.uint8) * 255)
    assert np.array_equal(slices.mask, result.mask)
    without = predictor(volume)
    assert np.array_equal(without.inside, (volume[[0, 12, 23]] > 0).any(axis=0))  # where the scan is not 0
    assert np.array_equal(without.mask, result.mask)


def test_it_is_drawn(result):
    drawn = result.overlay()
    assert (drawn.shape, drawn.dtype) == ((*result.mask.shape, 3), np.uint8)
    assert drawn.std() > 5
    page = result._repr_html_()
    assert page.startswith("<figure")
    assert "% of the sheet" in page
    assert repr(result) == f"<InkResult 150x170: {result.mask.sum() / result.inside.sum():.1%} ink>"


def test_what_is_no_papyrus_is_said(predictor, result):
    assert result.warnings == ()
    noise = predictor(np.random.default_rng(0).integers(1, 255, (90, 90), np.uint8))
    assert noise.probability_map.shape == (90, 90)
    assert noise.warnings[0].startswith("no fibres")
    assert "no fibres" in noise._repr_html_()


@pytest.mark.parametrize(
    ("value", "mask", "message"),
    [
        (np.zeros(8, np.uint8), None, r"an array of uint8 with shape \(8,\) is no volume: expected \(slices, H"),
        (np.zeros((4, 8, 8), np.float32), None, "an array of float32 .* expected .* uint8 or uint16"),
        (np.zeros((4, 8, 8), np.int64), None, "an array of int64"),
        (np.zeros((4, 8, 8, 3), np.uint8), None, "is no volume"),
        (np.zeros((0, 8, 8), np.uint8), None, "is no volume"),
        (np.zeros((4, 0, 8), np.uint8), None, "is no volume"),
        (None, None, "is no volume"),
        (np.zeros((4, 8, 9), np.uint8), np.ones((9, 8)), r"the mask has shape \(9, 8\), the slices \(8, 9\)"),
        ("absent", None, "absent"),
    ],
)
def test_what_is_no_volume_is_refused(predictor, value, mask, message):
    with pytest.raises(DataError, match=message):
        predictor(value, mask=mask)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (24, 40, 33)])
def test_odd_volumes_get_a_result(predictor, kind, shape):
    found = predictor(np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape).astype(kind))
    assert found.mask.shape == shape[1:]
    assert found.overlay().shape == (*shape[1:], 3)
    nothing = predictor(np.zeros(shape, kind), mask=np.zeros(shape[1:], bool))
    assert not nothing.mask.any()
    assert not nothing.probability_map.any()
    assert nothing._repr_html_()
