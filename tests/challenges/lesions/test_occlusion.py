"""Where a classifier looked: covering what it looks at costs its answer, covering anything else does not."""

import numpy as np
import pytest
from PIL import Image

from handlens import load, pipeline, registry
from handlens.challenges.lesions.occlusion import MAP, PLACES, occlusion_map, overlay

LESIONS = registry.challenge("lesions")


def looks_at(rows, columns):
    """A classifier that is the surer of its second class, the darker this part of a photograph is."""

    def answer(images):
        dark = 1 - images[:, :, rows, columns].mean((1, 2, 3))
        return np.stack([1 - dark, dark], 1)

    return answer


def photograph():
    image = np.full((3, 64, 64), 0.9, np.float32)
    image[:, 4:12, 44:56] = 0.1
    return image


def test_the_part_that_decides_is_found():
    losses = occlusion_map(photograph(), looks_at(slice(4, 12), slice(44, 56)), predicted=1)
    assert losses.shape == (PLACES, PLACES)
    row, column = np.unravel_index(int(np.argmax(losses)), losses.shape)
    assert (int(row), int(column)) in {(0, 5), (0, 6)}
    assert losses.max() == pytest.approx(0.8, abs=0.01)
    assert np.abs(losses[3:, :3]).max() == pytest.approx(0, abs=1e-6)


def test_the_loss_is_that_of_the_predicted_class():
    answer = looks_at(slice(4, 12), slice(44, 56))
    assert np.array_equal(
        occlusion_map(photograph(), answer, predicted=0), -occlusion_map(photograph(), answer, predicted=1)
    )


def test_the_overlay_colours_that_part_alone():
    pixels = np.full((60, 80, 3), 200, np.uint8)
    losses = np.zeros((PLACES, PLACES), np.float32)
    losses[0, 6] = 0.5
    drawn = overlay(pixels, losses)
    assert drawn.shape == pixels.shape
    assert np.array_equal(drawn[30:, :40], pixels[30:, :40])
    assert drawn[0, -1, 2] < 100 < drawn[0, -1, 0]
    assert np.array_equal(overlay(pixels, np.zeros_like(losses)), pixels)
    assert np.array_equal(overlay(pixels, np.full_like(losses, -1)), pixels)


def test_the_predictor_looks_only_where_it_is_asked_to(tmp_path):
    pipeline.sample(LESIONS, tmp_path / "data", seed=0, cases=2, size=64)
    predictor = load("lesions")
    result = predictor(
        tmp_path
        / "data"
        / "test"
        / "images"
        / sorted(p.name for p in (tmp_path / "data" / "test" / "images").iterdir())[0]
    )
    assert result.occlusion.shape == (PLACES, PLACES)
    assert result.overlay().shape == result.image.shape
    assert MAP not in predictor.predict(next(iter(decoded(predictor, tmp_path / "data")))).artefacts


def decoded(predictor, folder):
    for case in LESIONS.read_cases(folder, "test"):
        with predictor.decode(case) as photograph:
            yield photograph


def test_solve_writes_where_the_model_looked(tmp_path):
    pipeline.sample(LESIONS, tmp_path / "data", seed=0, cases=1, size=64)
    pipeline.solve(LESIONS, tmp_path / "data", tmp_path / "out", settings=LESIONS.settings(write="occlusion"))
    (written,) = sorted((tmp_path / "out").glob("*.occlusion.png"))
    (case,) = LESIONS.read_cases(tmp_path / "data", "test")
    with Image.open(written) as drawn, Image.open(case.path) as original:
        assert drawn.size == original.size
