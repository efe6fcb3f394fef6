"""Images that are no H&E: told apart, answered without the network, and said so."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx_models import write_dark_is_cell

from handlens import pipeline, registry
from handlens.challenges.cells.domain import COLOURS_WARNING, FLUORESCENCE_WARNING, GREY_WARNING, SINGLE_WARNING, look
from handlens.challenges.cells.fluorescence import FLUORESCENCE, GREY, BrightNuclei
from handlens.challenges.cells.instances import paint_labels, split_cells
from handlens.challenges.cells.options import CellsSettings
from handlens.challenges.cells.predictor import CellsPredictor, load
from handlens.challenges.cells.sample import make_slide
from handlens.challenges.cells.slide import slide_of
from handlens.io import images
from handlens.io.row_reader import RowReader, in_memory
from handlens.masks.rle import decode
from handlens.types import Context

CELLS = registry.challenge("cells")
Bytes = np.ndarray


def shining(size: int = 200, *, dim: float = 0.25) -> tuple[Bytes, Bytes]:
    """Disks on a dark, noisy ground, every second one dim; two of them touch. The image, and the number of each."""
    rng = np.random.default_rng(3)
    light, numbers = np.full((size, size), 8.0), np.zeros((size, size), np.int32)
    places = [(x, y) for y in range(30, size - 20, 50) for x in range(30, size - 20, 50)]
    for number, (x, y) in enumerate([*places, (places[0][0] + 19, places[0][1])], 1):
        disk = np.hypot(*np.mgrid[-y : size - y, -x : size - x]) <= 10
        light[disk & (numbers == 0)] = 150 * (dim if number % 2 == 0 and number <= len(places) else 1.0)
        numbers[disk & (numbers == 0)] = number
    light = cv2.GaussianBlur(light, (0, 0), 1.0) + rng.normal(0, 1.5, light.shape)
    return np.repeat(np.clip(light, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2), numbers


def dice(said: Bytes, true: Bytes) -> float:
    return float(2 * (said & true).sum() / (said.sum() + true.sum()))


def mask_of(method: BrightNuclei, image: RowReader) -> Bytes:
    return decode(method.segment(image)[0], image.shape, order="rows")


def test_kinds_are_told_apart() -> None:
    slide, _ = make_slide(np.random.default_rng(0), 200)
    bright = np.full((60, 60, 3), 225, np.uint8)
    brown = bright.copy()
    brown[10:50, 10:50] = (140, 95, 60)
    few = np.full((200, 200, 3), 225, np.uint8)
    few[20:45, 20:45] = (90, 60, 140)  # bare glass but for one nucleus
    assert [look(in_memory(each)).kind for each in (slide, shining()[0], bright, 255 - shining()[0], brown, few)] == [
        "stained",
        "fluorescence",
        "grey",
        "grey",
        "stained",
        "stained",
    ]
    warned = [look(in_memory(each)).warnings for each in (slide, shining()[0], bright, brown, few)]
    assert warned == [(), (FLUORESCENCE_WARNING,), (GREY_WARNING,), (COLOURS_WARNING,), ()]


def in_one_dye(size: int = 200) -> tuple[Bytes, Bytes]:
    """The disks in a dye that absorbs red nearly as much as green, on a ground tinted by a little of it."""
    image, numbers = shining(size)
    amount = 0.3 + image[:, :, :1] / 150.0
    return np.clip(255 * np.exp(-amount * np.array([0.8, 1.0, 0.4])), 0, 255).astype(np.uint8), numbers


def test_a_single_dye_is_outlined_by_darkness_and_said_so() -> None:
    image, numbers = in_one_dye()
    domain = look(in_memory(image))
    assert (domain.kind, domain.warnings) == ("single stain", (SINGLE_WARNING,))
    result = load(Context(CellsSettings(turns=1), threads=1))(image)
    assert dice(result.mask, numbers > 0) > 0.9
    assert result.labels.max() == numbers.max()
    assert result.warnings == (SINGLE_WARNING,)
    eosin = np.array([0.2, 1.0, 0.5])  # the same with eosin between the nuclei is H&E
    pink = np.where(numbers[:, :, None] > 0, image, (255 * np.exp(-0.3 * eosin)).astype(np.uint8))
    assert look(in_memory(pink)).kind == "stained"


def test_a_slide_of_the_contest_is_always_for_the_network() -> None:
    """The contest's slides are H&E: one that hardly shows its eosin must not be outlined by darkness."""
    image, _ = in_one_dye()
    predictor = load(Context(CellsSettings(turns=1), threads=1))
    own, contest = (predictor.predict(slide_of(in_memory(image), contest=contest)) for contest in (False, True))
    assert (own.warnings, contest.warnings) == ((SINGLE_WARNING,), ())
    assert not np.array_equal(own.answer.starts, contest.answer.starts)


def test_the_network_helps_to_split_a_single_dye(monkeypatch: pytest.MonkeyPatch) -> None:
    image, _ = in_one_dye()
    predictor = load(Context(CellsSettings(turns=1), threads=1))
    before = predictor(image)
    monkeypatch.setattr(CellsPredictor, "_add_network", lambda *_: None)
    without = predictor(image)
    assert np.array_equal(before.mask, without.mask)
    assert not np.array_equal(before.probability, without.probability)


def test_real_pictures_of_a_single_dye_are_no_h_and_e(real_data: Path) -> None:
    folder = real_data / "forgery" / "sources" / "microscopy"
    names = ("0bf33d3d", "7f556782", "cbca32da", "57bd029b")
    kinds = [look(in_memory(images.read_rgb(next(folder.glob(f"{name}*"))))).kind for name in names]
    assert kinds == ["single stain"] * 3 + ["stained"]


def test_real_slides_are_h_and_e(real_data: Path) -> None:
    others = images.list_images(real_data / "cells_more" / "cpm17" / "im")
    for path in [*images.list_images(real_data / "cells" / "train" / "im")[1::6], *others[::6]]:
        domain = look(in_memory(images.read_rgb(path)))
        assert (domain.kind, domain.warnings) == ("stained", ())


def test_dim_nuclei_beside_bright_ones_are_found_whole() -> None:
    image, numbers = shining()
    kept = np.empty(image.shape[:2], np.uint8)
    cells, watershed = FLUORESCENCE.segment(in_memory(image), kept)
    mask = decode(cells, image.shape[:2], order="rows")
    assert dice(mask, numbers > 0) > 0.9
    otsu = cv2.threshold(image[:, :, 0], 0, 255, cv2.THRESH_OTSU)[1] > 0
    assert dice(otsu, numbers > 0) < 0.8  # finds no dim ones
    labels = paint_labels(split_cells(cells, kept, watershed))
    assert labels.max() == numbers.max()  # the touching pair too


def test_dark_nuclei_in_grey_cytoplasm_are_found() -> None:
    ground = np.full((160, 160), 235, np.uint8)
    cv2.circle(ground, (80, 80), 60, 170, -1)
    true = np.zeros_like(ground)
    for centre in ((60, 70), (95, 95), (110, 60)):
        cv2.circle(true, centre, 7, 1, -1)
    ground[true > 0] = 70
    picture = np.repeat(cv2.GaussianBlur(ground, (0, 0), 0.8)[:, :, None], 3, axis=2)
    assert dice(mask_of(GREY, in_memory(picture)), true > 0) > 0.9


def test_a_channel_may_be_named() -> None:
    image, numbers = shining(dim=1.0)
    image[:, :, 0] = 0
    image[:, :, 2] = np.roll(image[:, :, 1], 25, axis=1)
    found = [mask_of(BrightNuclei(channel=channel), in_memory(image)) for channel in (0, 1, 2)]
    assert not found[0].any()
    assert dice(found[1], numbers > 0) > 0.9 > dice(found[2], numbers > 0)


def test_bands_of_a_large_picture_join(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.tile(shining()[0], (3, 1, 1))
    whole = mask_of(FLUORESCENCE, in_memory(image))
    reads: list[int] = []

    def read(top: int, bottom: int) -> Bytes:
        reads.append(bottom - top)
        return image[top:bottom]

    monkeypatch.setattr("handlens.challenges.cells.fluorescence.BAND_ROWS", 64)
    cut = mask_of(FLUORESCENCE, RowReader((600, 200), read))
    assert np.array_equal(whole, cut)
    assert max(reads[1:]) < 300  # the first reads the sample


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 40, 3), (50, 1, 3), (20, 20, 3)])
def test_pictures_without_contrast_hold_nothing(shape: tuple[int, ...]) -> None:
    kept = np.full(shape[:2], 7, np.uint8)
    for method in (FLUORESCENCE, GREY):
        assert method.segment(in_memory(np.zeros(shape, np.uint8)), kept)[0].area == 0
        assert not kept.any()


def test_solve_says_what_it_was_not_made_for(tmp_path: Path) -> None:
    model = write_dark_is_cell(tmp_path / "model")
    image, numbers = shining()
    images.write_png(tmp_path / "own" / "shining.png", image)
    solved = pipeline.solve(CELLS, tmp_path / "own", tmp_path / "out", model=model)
    page = json.loads((tmp_path / "out" / "score.json").read_text())
    assert "fluorescence" in json.dumps(page["warnings"])
    assert any("fluorescence" in note for note in solved.notes)
    result = load(Context(CellsSettings(), model=model))(image)
    assert result.warnings == (FLUORESCENCE_WARNING,)
    assert dice(result.mask, numbers > 0) > 0.9
    named = load(Context(CellsSettings(channel=1), model=model))(image)
    assert named.warnings == ()
    assert np.array_equal(named.mask, result.mask)
