"""The predictor: with a model folder and with the included one; large pictures are resumed tile by tile."""

from __future__ import annotations

import csv
import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest
import tifffile
from onnx_models import write_dark_is_cell, write_plan

from handlens import pipeline, registry
from handlens.artefacts import REPORT_DATA, file_of
from handlens.challenges.cells.decision import CellsDecision
from handlens.challenges.cells.options import INCLUDED_MODEL, OTHER_SLIDES, CellsSettings
from handlens.challenges.cells.predictor import PROBABILITY, CellsPredictor, efforts, load, load_baseline
from handlens.challenges.cells.report import adjusted
from handlens.errors import DataError, HandlensError, ModelError
from handlens.inference.model import TRAINED_ON, digest, is_model
from handlens.inference.tiling import BAND_ROWS, Tiling, cut
from handlens.io import images
from handlens.masks import rle
from handlens.masks.metrics import compare, dice
from handlens.runstore.store import ArrayFolder
from handlens.types import Case, Context, NoCheckpoints, Predictor, Work

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


def open_predictor(
    model: Path, *, turns: Literal[1, 2, 4, 8] | None = None, tiling: Tiling | None = None
) -> CellsPredictor:
    predictor = load(Context(CellsSettings(turns=turns), model=model))
    return replace(predictor, tiling=tiling) if tiling else predictor


def ask(predictor: Predictor[Any, rle.Rle], case: Case, work: Work | None = None) -> rle.Rle:
    with predictor.decode(case) as image:
        return predictor.predict(image, work or Work()).answer


def answer(
    model: Path, path: Path, *, turns: Literal[1, 2, 4, 8] | None = None, tiling: Tiling | None = None
) -> rle.Rle:
    return ask(open_predictor(model, turns=turns, tiling=tiling), Case("0", path))


def test_a_model_finds_what_it_was_made_for(model: Path, data: Path, tmp_path: Path) -> None:
    solved = pipeline.solve(CELLS, data, tmp_path / "out", model=model)
    assert solved.score is not None
    assert solved.score.value > 0.5
    assert solved.notes == ()
    assert json.loads((tmp_path / "out" / "score.json").read_text())["model"] == str(model)
    assert not (tmp_path / "out" / "instances").exists()


def test_a_score_on_what_the_model_was_trained_on_comes_with_a_note(model: Path, data: Path, tmp_path: Path) -> None:
    cases = CELLS.read_cases(data, "train")
    shutil.copytree(model, tmp_path / "model")
    assert pipeline.solve(CELLS, data, tmp_path / "unknown", part="train", model=tmp_path / "model").notes == ()
    (tmp_path / "model" / TRAINED_ON).write_text(f"{digest(cases[0])}\n00000000\n")
    (note,) = pipeline.solve(CELLS, data, tmp_path / "train", part="train", model=tmp_path / "model").notes
    assert note == f"the model was trained on 1 of these {len(cases)} cases: this score says little about others"
    assert pipeline.solve(CELLS, data, tmp_path / "test", model=tmp_path / "model").notes == ()
    loose = tmp_path / "loose"  # without truth there is no score to doubt
    shutil.copytree(data / "train" / "im", loose)
    assert pipeline.solve(CELLS, loose, tmp_path / "out", model=tmp_path / "model").notes == ()


@pytest.mark.slow
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
    path = tmp_path / "im" / "0.png"
    images.write_png(path, picture)
    masks = {}
    for down, right in ((0, 0), (1, 2), (-1, 0), (0.5, 0.5)):
        folder = write_dark_is_cell(tmp_path / f"{down},{right}", down=down, right=right)
        masks[down, right] = rle.decode(answer(folder, path), picture.shape[:2], order="rows")
    assert np.array_equal(masks[1, 2][1:, 2:], masks[0, 0][:-1, :-2])
    assert np.array_equal(masks[-1, 0][:-1], masks[0, 0][1:])
    assert not np.array_equal(masks[0.5, 0.5], masks[0, 0])
    inside = write_dark_is_cell(tmp_path / "inside", margin=25)
    said = rle.decode(answer(inside, path), picture.shape[:2], order="rows")
    assert np.array_equal(said[25:-25, 25:-25], masks[0, 0][25:-25, 25:-25])
    assert not said[:12].any()
    assert not (said & ~masks[0, 0]).any()
    assert said.sum() < masks[0, 0].sum()
    for own in (tmp_path / "0.png", tmp_path / "im" / "mine.png"):  # not the contest's: where the nuclei are
        images.write_png(own, picture)
        assert np.array_equal(rle.decode(answer(inside, own), picture.shape[:2], order="rows"), masks[0, 0])
    with pytest.raises(ModelError, match=r"decision: down is 40; expected a number from -4 to 4: train again"):
        answer(write_dark_is_cell(tmp_path / "far", down=40), path)


def test_other_slides_may_have_a_network_of_their_own(tmp_path: Path) -> None:
    picture = disks()
    contest, named = tmp_path / "im" / "00.png", tmp_path / "im" / "slide.png"
    for path in (contest, named):
        images.write_png(path, picture)
    pair = write_dark_is_cell(tmp_path / "pair", threshold=0.9)
    second = write_dark_is_cell(pair / OTHER_SLIDES, threshold=0.2, smallest=30, largest_hole=50)
    first = tmp_path / "first"
    shutil.copytree(pair, first, ignore=shutil.ignore_patterns(OTHER_SLIDES))
    areas = {path: answer(pair, path).area for path in (contest, named)}
    assert areas[contest] == answer(first, contest).area < areas[named] == answer(second, named).area
    settings = CellsSettings(mpp=0.125)  # said of the contest's image, it is one's own
    pairs = [load(Context(settings, model=each)) for each in (pair, second)]
    assert ask(pairs[0], Case("0", contest)).area == ask(pairs[1], Case("0", contest)).area
    lowest = efforts(load(Context(CellsSettings(turns=2), model=pair)))[0].predictor
    assert isinstance(lowest, CellsPredictor)
    assert lowest.others is not None
    assert (lowest.turns, lowest.others.turns) == (1, 1)
    assert lowest.others.tiling == lowest.tiling != Tiling()
    for path in (contest, named):
        case = Case("0", path, (120, 160))
        kept = file_of(tmp_path / REPORT_DATA, case, "probability.png")
        images.write_png(kept, np.where(picture[:, :, 0] < 100, 255, 0).astype(np.uint8))
        said = rle.encode(picture[:, :, 0] < 100, order="rows")
        mask = rle.decode(adjusted(tmp_path, case, said, 0.5, pair, CellsSettings()), (120, 160), order="rows")
        assert mask[52, 92] == (path == contest)  # the speck


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


def test_the_baseline_answers_where_it_is_asked_for(data: Path, tmp_path: Path) -> None:
    settings = CellsSettings(instances=True)
    solved = pipeline.solve(CELLS, data, tmp_path / "out", solver="baseline", settings=settings)
    case = CELLS.read_cases(data, "test")[0]
    expected = CELLS.codec(settings).format(ask(load_baseline(Context(settings)), case), case)
    assert solved.submission.read_text().splitlines()[1] == f"0,{expected[0]}"
    assert (tmp_path / "out" / "instances" / "00.tif").is_file()
    assert json.loads((tmp_path / "out" / "score.json").read_text())["solver"] == "baseline"
    with pytest.raises(HandlensError, match="a baseline takes no model: leave --model out, or --solver baseline"):
        pipeline.solve(CELLS, data, tmp_path / "both", solver="baseline", model=tmp_path)


def test_without_a_model_nothing_is_answered(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No silent fallback to the baseline."""
    monkeypatch.setattr("handlens.challenges.cells.predictor.INCLUDED_MODEL", tmp_path / "none")
    with pytest.raises(ModelError, match=r"no plan\.json in it"):
        pipeline.solve(CELLS, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_predictor_travels(model: Path, data: Path) -> None:
    predictor = open_predictor(model)
    case = CELLS.read_cases(data, "test")[0]
    copy = pickle.loads(pickle.dumps(predictor))
    assert isinstance(copy, CellsPredictor)
    assert copy.decision == CellsDecision(threshold=0.5, smallest=30, largest_hole=50)
    assert np.array_equal(ask(copy, case).starts, ask(predictor, case).starts)


def test_turns_are_those_of_the_decision_unless_told(tmp_path: Path) -> None:
    folder = write_dark_is_cell(tmp_path / "model", turns=1)
    assert (open_predictor(folder).turns, open_predictor(folder, turns=8).turns) == (1, 8)
    assert open_predictor(write_dark_is_cell(tmp_path / "eight")).turns == 8


def test_the_probability_is_kept_where_it_is_wanted(model: Path, tmp_path: Path) -> None:
    picture = disks(size=600)
    images.write_png(tmp_path / "im" / "0.png", picture)
    predictor = replace(open_predictor(model, turns=1), decision=CellsDecision(threshold=0.5, down=1, margin=3))
    with predictor.decode(Case("0", tmp_path / "im" / "0.png")) as image:
        alone, kept = predictor.predict(image), predictor.predict(image, Work(keep=frozenset({PROBABILITY})))
        bands = list(predictor.decision.place(predictor.infer(image), image.shape))
    assert alone.artefacts == {}
    found = kept.artefacts[PROBABILITY]
    assert (found.dtype, found.shape) == (np.uint8, picture.shape[:2])
    assert np.array_equal(found, np.rint(np.concatenate([rows for _, rows in bands]) * 255))
    assert np.array_equal(kept.answer.starts, alone.answer.starts)
    mask = rle.decode(kept.answer, image.shape, order="rows")
    assert (found[mask] >= 127).all()
    assert (found[~mask] <= 128).all()


def test_a_model_that_cannot_be_used_is_refused(model: Path, data: Path, tmp_path: Path) -> None:
    def solve(folder: Path) -> None:
        pipeline.solve(CELLS, data, tmp_path / "out", model=folder)

    shutil.copytree(model, tmp_path / "ink")
    shutil.copytree(model, tmp_path / "undecided")
    with pytest.raises(HandlensError, match="this model was trained for ink, not cells"):
        solve(write_plan(tmp_path / "ink", challenge="ink", threshold=0.5))
    with pytest.raises(ModelError, match=r"plan\.json: decision: .*threshold.*: train again"):
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
    settings = CELLS.settings(instances=True, turns=1)
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

    def stop(done: int, total: int, words: str = "") -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(CELLS, picture, out, model=model, progress=stop)
    assert len((out / "unfinished" / "answers.jsonl").read_text().splitlines()) == 1
    tifffile.imwrite(picture, disks(size=70)[::-1], photometric="rgb")
    with pytest.raises(DataError, match="was begun by another run .other data"):
        pipeline.solve(CELLS, picture, out, model=model)
    again = pipeline.solve(CELLS, picture, out, model=model, overwrite=True).submission.read_text()
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
    with pytest.raises(DataError, match=r"notes\.txt: not an image"):
        pipeline.solve(CELLS, own / "notes.txt", tmp_path / "out", model=model)
    with pytest.raises(DataError, match="no such file or folder"):
        pipeline.solve(CELLS, own / "absent.png", tmp_path / "out", model=model)


def test_a_slide_given_to_ink_is_answered_with_a_warning(own: Path, tmp_path: Path) -> None:
    """Ink takes single pictures too; that this one is no papyrus is said."""
    solved = pipeline.solve(registry.challenge("ink"), own / "first slide.png", tmp_path / "out")
    assert any("papyrus" in note for note in solved.notes)


# --- large pictures -------------------------------------------------------------------------------------------------

TILES = Tiling(64, 32)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    images.write_png(folder / "slide.png", cv2.resize(disks(), (200, 150)))
    images.write_png(folder / "small.png", disks()[:60, :60])
    return folder


class Counting:
    """A segmenter that counts its calls, and is killed at one of them."""

    def __init__(self, segmenter: Callable[[np.ndarray], np.ndarray], killed_at: int | None = None) -> None:
        self.segmenter, self.killed_at, self.calls = segmenter, killed_at, 0

    def __call__(self, tile: np.ndarray) -> np.ndarray:
        if self.calls == self.killed_at:
            raise KeyboardInterrupt
        self.calls += 1
        return self.segmenter(tile)


def counting(model: Path, killed_at: int | None = None) -> tuple[Counting, CellsPredictor]:
    predictor = open_predictor(model, turns=8, tiling=TILES)
    counter = Counting(predictor.segmenter, killed_at)
    return counter, replace(predictor, segmenter=counter)  # type: ignore[arg-type]


def count_tiles(shape: tuple[int, int]) -> int:
    return len(cut(shape[0], TILES).starts) * len(cut(shape[1], TILES).starts)


def test_a_killed_run_computes_only_the_tiles_that_are_left(model: Path, large: Path, tmp_path: Path) -> None:
    tiles = count_tiles((150, 200))
    assert tiles > 12
    whole, predictor = counting(model)
    expected = pipeline.solve(CELLS, large, tmp_path / "whole", predictor=predictor).submission.read_bytes()
    assert whole.calls == 8 * tiles + 8
    _, predictor = counting(model, killed_at=8 * 5 + 3)
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(CELLS, large, tmp_path / "out", predictor=predictor)
    kept = list((tmp_path / "out" / "unfinished").rglob("tile-*.npy"))
    assert len(kept) == 5
    kept[0].write_bytes(kept[0].read_bytes()[:-9])  # one was damaged: it is computed again
    told: list[tuple[int, int, str]] = []
    again, predictor = counting(model)
    solved = pipeline.solve(
        CELLS, large, tmp_path / "out", predictor=predictor, progress=lambda *now: told.append((*now, "")[:3])
    )
    assert again.calls == 8 * (tiles - 4) + 8
    assert solved.submission.read_bytes() == expected
    assert not (tmp_path / "out" / "unfinished").exists()
    done = [now for now, _, _ in told]
    assert done == sorted(done)
    assert told[0][:2] == (0, 2)
    assert [now for now in told if now[2] == "slide"] == [
        (100 * tile // tiles, 200, "slide") for tile in range(1, tiles + 1)
    ]
    assert told[-1][:2] == (200, 200)


def test_a_run_is_not_resumed_with_the_predictor_of_another_model(model: Path, large: Path, tmp_path: Path) -> None:
    _, killed = counting(model, killed_at=8 * 5)
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(CELLS, large, tmp_path / "out", predictor=killed)
    _, other = counting(write_dark_is_cell(tmp_path / "other", middle=100.0))
    with pytest.raises(DataError, match="was begun by another run"):
        pipeline.solve(CELLS, large, tmp_path / "out", predictor=other)
    expected = pipeline.solve(CELLS, large, tmp_path / "whole", predictor=other).submission.read_bytes()
    again = pipeline.solve(CELLS, large, tmp_path / "out", predictor=other, overwrite=True)
    assert again.submission.read_bytes() == expected


def test_a_small_picture_keeps_nothing_and_reports_no_parts(model: Path, large: Path, tmp_path: Path) -> None:
    told: list[tuple[int, ...]] = []
    _, predictor = counting(model)

    def note(done: int, total: int, _words: str = "") -> None:
        told.append((done, total))

    class Refusing(NoCheckpoints):
        def save(self, name: str, array: np.ndarray, /) -> None:
            raise AssertionError(name)

    ask(predictor, Case("small", large / "small.png"), Work(progress=note, checkpoints=Refusing()))
    assert told == []


def test_tiles_of_another_cut_are_not_taken(model: Path, large: Path, tmp_path: Path) -> None:
    """Checkpoints whose size does not fit are computed again."""
    case, kept = Case("slide", large / "slide.png"), ArrayFolder(tmp_path / "kept")
    _, predictor = counting(model)
    expected = ask(predictor, case, Work(checkpoints=kept))
    other = replace(predictor, tiling=Tiling(96, 32))
    assert np.array_equal(ask(other, case, Work(checkpoints=kept)).starts, ask(other, case).starts)
    again = ask(predictor, case, Work(checkpoints=kept))
    assert np.array_equal(again.starts, expected.starts)


# --- the included model --------------------------------------------------------------------------------------------

included = pytest.mark.skipif(not is_model(INCLUDED_MODEL), reason="no model in the package yet")


@included
def test_the_shipped_model_is_small_and_about_cells() -> None:
    for folder in (INCLUDED_MODEL, *filter(is_model, INCLUDED_MODEL.iterdir())):
        assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) <= 20_000_000
        plan = json.loads((folder / "plan.json").read_text())
        assert plan["challenge"] == "cells"
        assert (folder / "card.md").is_file()


@included
def test_the_shipped_model_beats_the_threshold_on_real_slides(real_data: Path) -> None:
    """The slides were learned from: this shows that reading, tiles and decision fit together, not how good it is."""
    truth = CELLS.open_truth(real_data / "cells" / "train", CellsSettings())
    context = Context(CellsSettings(turns=1))
    for case in truth.cases[::18]:
        said = [ask(predictor, case) for predictor in (load(context), load_baseline(context))]
        values = [dice(compare(each, truth.read(case)), empty=1.0) for each in said]
        assert values[0] > max(0.8, values[1])
