"""The learned recipe: with a model folder, with the shipped one where it is there, and without any."""

from __future__ import annotations

import csv
import json
import pickle
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from onnx_models import write_dark_is_cell, write_plan

from handlens import pipeline, registry
from handlens.challenges.cells import predictor as module
from handlens.challenges.cells.baseline import OtsuRecipe
from handlens.challenges.cells.predictor import SHIPPED, Decision, LearnedRecipe, Looking, Network
from handlens.errors import DataError, HandlensError, ModelError
from handlens.inference.session import is_model
from handlens.inference.tiling import BAND_ROWS, Tiling
from handlens.io import images
from handlens.masks import rle
from handlens.masks.metrics import compare, dice
from handlens.types import Case, Context

CELLS = registry.challenge("cells")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dark_is_cell(tmp_path_factory.mktemp("model"), smallest=30, largest_hole=50)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(CELLS, folder, seed=1, cases=3, size=160)
    return folder


def disks(*, size: int = 120) -> np.ndarray:
    """Two dark disks that touch, one alone, a speck, and a disk with a small hole; on a light ground."""
    picture = np.full((size, size + 40, 3), 230, np.uint8)
    for centre in ((30, 30), (52, 30), (110, 80), (40, 90)):
        cv2.circle(picture, centre, 12, (70, 50, 130), -1)
    picture[50:54, 90:94] = 0  # the speck
    picture[87:93, 37:43] = 230  # the hole
    return picture


def answer(model: Path, path: Path, **fields: object) -> rle.Rle:
    return LearnedRecipe(**fields).prepare(Context(model=model))(Case("0", path))  # type: ignore[arg-type]


def test_a_model_finds_what_it_was_made_for(model: Path, data: Path, tmp_path: Path) -> None:
    solved = pipeline.solve(CELLS, data, tmp_path / "out", model=model)
    assert solved.score is not None
    assert solved.score.value > 0.5
    assert solved.notes == ()
    assert json.loads((tmp_path / "out" / "score.json").read_text())["model"] == str(model)
    assert not (tmp_path / "out" / "instances").exists()


def test_the_score_of_a_training_part_comes_with_a_note(model: Path, data: Path, tmp_path: Path) -> None:
    (note,) = pipeline.solve(CELLS, data, tmp_path / "out", part="train", model=model).notes
    assert "may have learned from these very cases" in note


def test_workers_give_the_same_answers(model: Path, data: Path, tmp_path: Path) -> None:
    one, two = (pipeline.solve(CELLS, data, tmp_path / f"out{count}", model=model, workers=count) for count in (1, 2))
    assert one.submission.read_bytes() == two.submission.read_bytes()


def test_specks_go_and_holes_are_filled(model: Path, tmp_path: Path) -> None:
    picture = disks()
    images.write_png(tmp_path / "0.png", picture)
    mask = rle.decode(answer(model, tmp_path / "0.png"), picture.shape[:2], order="rows")
    raw = write_dark_is_cell(tmp_path / "raw")
    rough = rle.decode(answer(raw, tmp_path / "0.png"), picture.shape[:2], order="rows")
    assert cv2.connectedComponents(mask.astype(np.uint8))[0] == 4  # the ground, a pair, two disks
    assert not mask[52, 92]
    assert rough[52, 92]
    assert cv2.connectedComponents(rough.astype(np.uint8))[0] == 5
    assert mask[30, 30]
    assert mask[90, 40]
    assert not rough[90, 40]


def test_the_threshold_is_that_of_the_plan(tmp_path: Path) -> None:
    images.write_png(tmp_path / "0.png", disks())
    areas = []
    for threshold in (0.2, 0.5, 0.9):
        folder = write_dark_is_cell(tmp_path / f"{threshold}", threshold=threshold)
        areas.append(answer(folder, tmp_path / "0.png").area)
    assert areas[0] > areas[1] > areas[2] > 0


def test_the_answer_lies_where_the_labels_did(tmp_path: Path) -> None:
    """Whole pixels move every pixel, halves the crossing of the threshold; the picture has more rows than a band."""
    picture = np.concatenate([disks(), disks(), disks()])
    assert len(picture) > BAND_ROWS
    images.write_png(tmp_path / "0.png", picture)
    masks = {}
    for down, right in ((0, 0), (1, 2), (-1, 0), (0.5, 0.5)):
        folder = write_dark_is_cell(tmp_path / f"{down},{right}", down=down, right=right)
        masks[down, right] = rle.decode(answer(folder, tmp_path / "0.png"), picture.shape[:2], order="rows")
    assert np.array_equal(masks[1, 2][1:, 2:], masks[0, 0][:-1, :-2])
    assert np.array_equal(masks[-1, 0][:-1], masks[0, 0][1:])
    assert not np.array_equal(masks[0.5, 0.5], masks[0, 0])
    inside = write_dark_is_cell(tmp_path / "inside", margin=25)
    said = rle.decode(answer(inside, tmp_path / "0.png"), picture.shape[:2], order="rows")
    assert np.array_equal(said[25:-25, 25:-25], masks[0, 0][25:-25, 25:-25])
    assert not said[:12].any()
    assert not (said & ~masks[0, 0]).any()
    assert said.sum() < masks[0, 0].sum()
    with pytest.raises(ModelError, match=r"decision\.down is 40; expected a number from -4 to 4"):
        answer(write_dark_is_cell(tmp_path / "far", down=40), tmp_path / "0.png")


def test_tiles_do_not_show(model: Path, tmp_path: Path) -> None:
    """A model that looks two pixels far is not changed by tiles that share 16."""
    picture = cv2.resize(disks(), (500, 400))
    images.write_png(tmp_path / "0.png", picture)
    whole = answer(model, tmp_path / "0.png", turns=1)
    tiled = answer(model, tmp_path / "0.png", turns=1, tiling=Tiling(64, 32))
    assert np.array_equal(whole.starts, tiled.starts)
    assert np.array_equal(whole.lengths, tiled.lengths)


def test_a_tiff_is_answered_as_the_png(model: Path, tmp_path: Path) -> None:
    images.write_png(tmp_path / "0.png", disks())
    tifffile.imwrite(tmp_path / "0.tif", disks(), tile=(32, 32), compression="zlib", photometric="rgb")
    first, second = (answer(model, tmp_path / name) for name in ("0.png", "0.tif"))
    assert np.array_equal(first.starts, second.starts)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (33, 31), (40, 30, 4), (600, 8, 3)])
def test_odd_pictures_get_an_answer_within_them(model: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    images.write_png(tmp_path / "0.png", np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    found = answer(model, tmp_path / "0.png")
    assert rle.decode(found, (shape[0], shape[1]), order="rows").shape == shape[:2]


def test_without_any_model_the_threshold_answers(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "SHIPPED", tmp_path / "none")
    recipe = LearnedRecipe()
    assert not recipe.learned
    case = CELLS.read_cases(data, "test")[0]
    plain = OtsuRecipe().prepare(Context())(case)
    assert np.array_equal(recipe.prepare(Context())(case).starts, plain.starts)
    recipe.prepare(Context(settings={"instances": True}, out=tmp_path))(case)
    assert (tmp_path / "instances" / "00.tif").is_file()


def test_a_prepared_model_travels(model: Path, data: Path) -> None:
    prepared = LearnedRecipe().prepare(Context(model=model))
    case = CELLS.read_cases(data, "test")[0]
    copy = pickle.loads(pickle.dumps(prepared))
    assert isinstance(copy, Looking)
    assert isinstance(copy.finder, Network)
    assert copy.finder.decision == Decision(0.5, 30, 50)
    assert np.array_equal(copy(case).starts, prepared(case).starts)


def test_a_model_that_cannot_be_used_is_refused(model: Path, data: Path, tmp_path: Path) -> None:
    def solve(folder: Path) -> None:
        pipeline.solve(CELLS, data, tmp_path / "out", model=folder)

    shutil.copytree(model, tmp_path / "ink")
    shutil.copytree(model, tmp_path / "undecided")
    with pytest.raises(HandlensError, match="this run is about ink, not cells"):
        solve(write_plan(tmp_path / "ink", challenge="ink", threshold=0.5))
    with pytest.raises(ModelError, match=r"decision\.threshold is missing"):
        solve(write_plan(tmp_path / "undecided"))
    with pytest.raises(DataError, match=r"no run\.json in it"):
        solve(write_plan(tmp_path / "planned", threshold=0.5))
    assert not (tmp_path / "out").exists()


# --- one's own pictures -------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    images.write_png(folder / "first slide.png", disks())
    images.write_jpeg(folder / "second.JPG", disks(size=90), quality=95)
    tifffile.imwrite(folder / "third.tiff", disks(size=70), photometric="rgb", compression="zlib")
    (folder / "notes.txt").write_text("not a picture")
    return folder


def test_a_folder_of_any_pictures_is_solved_with_instances(model: Path, own: Path, tmp_path: Path) -> None:
    settings = CELLS.settings(instances=True, turns="1")
    solved = pipeline.solve(CELLS, own, tmp_path / "out", model=model, settings=settings)
    lines = solved.submission.read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["img", "first slide", "second", "third"]
    found = tmp_path / "out" / "instances"
    assert sorted(path.name for path in found.iterdir()) == [
        f"{stem}.{end}" for stem in ("first slide", "second", "third") for end in ("csv", "tif")
    ]
    labels = tifffile.imread(found / "first slide.tif")
    assert (labels.dtype, labels.shape, int(labels.max())) == (np.uint16, (120, 160), 4)
    assert len({labels[30, 30], labels[30, 52], labels[80, 110], labels[90, 40]} - {0}) == 4  # touching ones parted
    with (found / "first slide.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["object"] for row in rows] == ["1", "2", "3", "4"]
    assert sum(int(row["area"]) for row in rows) == int((labels > 0).sum())


def test_a_single_picture_is_solved(model: Path, own: Path, tmp_path: Path) -> None:
    solved = pipeline.solve(CELLS, own / "third.tiff", tmp_path / "out", model=model)
    assert solved.cases == 1
    assert solved.score is None
    assert solved.submission.read_text().splitlines()[1].startswith("third,")


def test_a_picture_that_changed_is_answered_anew(model: Path, own: Path, tmp_path: Path) -> None:
    """A run that was stopped after its last answer, and called again with another picture under the same name."""
    picture, out = own / "third.tiff", tmp_path / "out"

    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(CELLS, picture, out, model=model, progress=stop)
    assert len((out / "answers.jsonl").read_text().splitlines()) == 2
    tifffile.imwrite(picture, disks(size=70)[::-1], photometric="rgb")
    again = pipeline.solve(CELLS, picture, out, model=model).submission.read_text()
    assert again == pipeline.solve(CELLS, picture, tmp_path / "anew", model=model).submission.read_text()


def test_a_folder_with_the_contest_folders_is_not_taken_for_loose_pictures(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    images.write_png(tmp_path / "data" / "overview.png", disks())
    assert [case.id for case in CELLS.read_cases(tmp_path / "data", "test")] == ["0", "1", "2"]
    shutil.rmtree(tmp_path / "data" / "test")
    assert CELLS.read_cases(tmp_path / "data", "test") == []


def test_loose_pictures_are_described_and_checked(own: Path, tmp_path: Path) -> None:
    inventory = CELLS.survey(own)
    assert inventory.facts == {"test images": "3 (1 of 120x160, 1 of 90x130, 1 of 70x110)"}
    assert inventory.problems == ()
    images.write_png(own / "second.png", disks())
    assert "a second image with id second" in str(CELLS.survey(own).problems[0])
    (tmp_path / "empty").mkdir()
    assert "no pictures" in str(CELLS.survey(tmp_path / "empty").problems[0])


def test_what_is_no_picture_is_refused(own: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"notes\.txt: not a readable picture"):
        pipeline.solve(CELLS, own / "notes.txt", tmp_path / "out", model=model)
    with pytest.raises(DataError, match="no such folder"):
        pipeline.solve(CELLS, own / "absent.png", tmp_path / "out", model=model)


@pytest.mark.parametrize("name", ["forgery", "ink"])
def test_other_challenges_say_that_a_picture_is_no_data(name: str, own: Path, tmp_path: Path) -> None:
    with pytest.raises(HandlensError):
        pipeline.solve(registry.challenge(name), own / "first slide.png", tmp_path / "out")


# --- the shipped model --------------------------------------------------------------------------------------------

shipped = pytest.mark.skipif(not is_model(SHIPPED), reason="no model in the package yet")


@shipped
def test_the_shipped_model_is_small_and_about_cells() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 20_000_000
    plan = json.loads((SHIPPED / "plan.json").read_text())
    assert plan["challenge"] == "cells"
    assert (SHIPPED / "card.md").is_file()


@shipped
def test_the_shipped_model_beats_the_threshold_on_real_slides(real_data: Path) -> None:
    """The slides were learned from: this shows that reading, tiles and decision fit together, not how good it is."""
    truth = CELLS.open_truth(real_data / "cells" / "train", {"order": "rows"})
    learned, plain = LearnedRecipe(turns=1).prepare(Context()), OtsuRecipe().prepare(Context())
    for case in truth.cases[::18]:
        values = [dice(compare(model(case), truth.read(case)), empty=1.0) for model in (learned, plain)]
        assert values[0] > max(0.8, values[1])
