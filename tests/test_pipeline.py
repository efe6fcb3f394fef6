"""Solve: stopped, killed, out of disk, with broken images; and what it leaves."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import handlens
from handlens import pipeline, registry
from handlens.errors import DataError, HandlensError, ModelError
from handlens.inference.model import digest
from handlens.io import files
from handlens.masks.rle import EMPTY
from handlens.runstore.store import MANIFEST, UNFINISHED, read_manifest
from handlens.types import Prediction


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=5, size=96)
    return folder


class Counting:
    """A predictor that counts its answers and may stop in the middle."""

    model = None

    def __init__(self, stop_after=99, error=KeyboardInterrupt):
        self.asked, self.stop_after, self.error = [], stop_after, error

    def decode(self, case, /):
        return nullcontext(case)

    def predict(self, case, work, /):
        if len(self.asked) >= self.stop_after:
            raise self.error("stop")
        self.asked.append(case.id)
        return Prediction(EMPTY)


class Doubting(Counting):
    """Finds every second case odd."""

    def predict(self, case, work, /):
        warnings = ("no tissue in it",) if len(self.asked) % 2 else ()
        return replace(super().predict(case, work), warnings=warnings)


def test_warnings_of_a_predictor_are_told_and_survive_a_stop(cells, tmp_path):
    challenge = registry.challenge("cells")
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, tmp_path / "out", predictor=Doubting(stop_after=3))
    solved = pipeline.solve(challenge, cells, tmp_path / "out", predictor=Doubting())
    assert solved.warnings == {"1": ("no tissue in it",), "4": ("no tissue in it",)}
    assert "1, 4: no tissue in it" in solved.notes
    assert json.loads((tmp_path / "out" / "score.json").read_text())["warnings"] == {
        "1": ["no tissue in it"],
        "4": ["no tissue in it"],
    }


def journal_of(out):
    return out / UNFINISHED / "answers.jsonl"


def test_solve_leaves_a_submission_and_a_score(cells, tmp_path):
    solved = pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out")
    page = json.loads((tmp_path / "out" / "score.json").read_text())
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"run.json", "score.json", "submission.csv", "00.mask.png", "objects.csv"} <= files
    assert not (tmp_path / "out" / UNFINISHED).exists()
    assert read_manifest(tmp_path / "out")["finished"] is True
    assert page["score"] == solved.score.value > page["empty_score"]
    assert page["valid"] is True
    assert page["count"] == len(page["cases"]) == 5


def test_solve_writes_parquet(cells, tmp_path):
    solved = pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out", form="parquet")
    assert solved.submission.name == "submission.parquet"
    assert solved.submission.read_bytes()[:4] == b"PAR1"


def test_without_truth_there_is_no_score(cells, tmp_path):
    solved = pipeline.solve(registry.challenge("cells"), cells / "test", tmp_path / "out")
    assert solved.score is None
    assert json.loads((tmp_path / "out" / "score.json").read_text())["score"] is None


def test_a_labelled_folder_is_scored_by_its_own_labels(cells, tmp_path):
    solved = pipeline.solve(registry.challenge("cells"), cells / "train", tmp_path / "out")
    assert solved.score.value > 0.5


def test_each_part_is_scored_by_its_own_truth(cells, tmp_path):
    challenge = registry.challenge("cells")
    train = pipeline.solve(challenge, cells, tmp_path / "train", part="train")
    alone = pipeline.solve(challenge, cells / "train", tmp_path / "alone")
    assert train.score.value == alone.score.value > 0.5
    shutil.copytree(cells, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "truth")  # the ids of train and test are the same
    assert pipeline.solve(challenge, tmp_path / "data", tmp_path / "test").score is None


def test_a_truth_about_other_cases_gives_a_note_and_no_score(cells, tmp_path):
    shutil.copytree(cells, tmp_path / "data")
    (tmp_path / "data" / "truth" / "mask" / "00.png").unlink()
    solved = pipeline.solve(registry.challenge("cells"), tmp_path / "data", tmp_path / "out", predictor=Counting())
    assert solved.score is None
    assert solved.notes == ("the truth is about other cases, so there is no score",)


def test_stopped_in_the_middle_it_goes_on(cells, tmp_path):
    challenge, out = registry.challenge("cells"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, out, predictor=Counting(stop_after=3))
    assert sorted(os.listdir(out)) == [MANIFEST, UNFINISHED]
    assert os.listdir(out / UNFINISHED) == ["answers.jsonl"]
    second = Counting()
    pipeline.solve(challenge, cells, out, predictor=second)
    assert second.asked == ["3", "4"]
    assert sorted(os.listdir(out)) == ["run.json", "score.json", "submission.csv"]


def test_stopped_before_the_first_answer_it_can_be_started_again(cells, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out", predictor=Counting(stop_after=0))
    second = Counting()
    pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out", predictor=second)
    assert len(second.asked) == 5


class Other(Counting):
    """Another predictor."""


@pytest.mark.parametrize("stop_after", [3, 99])
def test_the_folder_of_another_run_is_refused_or_overwritten(cells, tmp_path, stop_after):
    challenge, out = registry.challenge("cells"), tmp_path / "out"
    try:
        pipeline.solve(challenge, cells, out, predictor=Counting(stop_after=stop_after))
        state = "holds the results of another run"
    except KeyboardInterrupt:
        state = "was begun by another run"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    other = Other()
    with pytest.raises(DataError, match=f"out: {state} .*: name a new folder, or pass --overwrite"):
        pipeline.solve(challenge, cells, out, predictor=other)
    with pytest.raises(DataError, match=state):
        pipeline.solve(challenge, cells / "train", out, predictor=Counting())
    with pytest.raises(DataError, match=state):
        pipeline.solve(challenge, cells, out, predictor=Counting(), settings=challenge.settings(instances=True))
    assert other.asked == []
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    pipeline.solve(challenge, cells, out, predictor=other, overwrite=True)
    assert len(other.asked) == 5
    assert sorted(os.listdir(out)) == ["run.json", "score.json", "submission.csv"]


def test_settings_of_training_alone_do_not_make_another_run(cells, tmp_path):
    challenge = registry.challenge("cells")
    pipeline.solve(challenge, cells, tmp_path, predictor=Counting())
    pipeline.solve(challenge, cells, tmp_path, predictor=Counting(), settings=challenge.settings(minutes=3.0))


@pytest.mark.parametrize("name", ["submission.csv", "submission.parquet"])
def test_a_submission_of_somebody_else_is_not_replaced_unasked(cells, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=f"{name}: already there: name a new folder, or pass --overwrite"):
        pipeline.solve(registry.challenge("cells"), cells, tmp_path, predictor=Counting())
    assert ((tmp_path / name).read_text(), os.listdir(tmp_path)) == ("mine", [name])
    pipeline.solve(registry.challenge("cells"), cells, tmp_path, predictor=Counting(), overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["run.json", "score.json", "submission.csv"]


@pytest.mark.parametrize("given", ["a.png", "."])
def test_results_are_not_written_among_the_images(tmp_path, given):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "a.mask.png").write_bytes(mine := b"drawn by hand")
    if given == ".":
        (tmp_path / "a.mask.png").rename(tmp_path / "a.mask.txt")
    challenge, names = registry.challenge("cells"), sorted(os.listdir(tmp_path))
    for overwrite in (False, True):
        with pytest.raises(DataError, match="is read and lies here: results would stand among your files"):
            pipeline.solve(challenge, tmp_path / given, tmp_path, predictor=Counting(), overwrite=overwrite)
    assert sorted(os.listdir(tmp_path)) == names
    assert next(tmp_path.glob("a.mask.*")).read_bytes() == mine


def test_a_full_disk_loses_no_answer(cells, tmp_path, monkeypatch):
    challenge, out = registry.challenge("cells"), tmp_path / "out"

    def full(path, *args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("handlens.pipeline.solving.write_cells", full)
        with pytest.raises(OSError, match="No space left"):
            pipeline.solve(challenge, cells, out, predictor=Counting())
    second = Counting()
    pipeline.solve(challenge, cells, out, predictor=second)
    assert second.asked == []


@pytest.mark.slow
def test_killed_with_9_it_goes_on(cells, tmp_path):
    out = tmp_path / "out"
    code = (
        "import sys, time\nfrom contextlib import nullcontext\nfrom pathlib import Path\n"
        "from handlens import pipeline, registry\nfrom handlens.masks.rle import EMPTY\n"
        "from handlens.types import Prediction\n"
        "class Counting:\n"
        "    model = None\n"
        "    def decode(self, case): return nullcontext(case)\n"
        "    def predict(self, case, work): return time.sleep(0.15) or Prediction(EMPTY)\n"
        "pipeline.solve(registry.challenge('cells'), Path(sys.argv[1]), Path(sys.argv[2]), predictor=Counting())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(cells), str(out)])
    journal = journal_of(out)
    deadline = time.monotonic() + 60
    while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 2) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n")
    with journal.open("ab") as stream:
        stream.write(b'["4", "1 ')  # as if cut off in the middle of a line
    second = Counting()
    pipeline.solve(registry.challenge("cells"), cells, out, predictor=second)
    assert 2 <= done < 5
    assert second.asked == [str(number) for number in range(done, 5)]


def test_a_broken_case_stops_or_gets_the_empty_answer(cells, tmp_path):
    challenge = registry.challenge("cells")
    predictor = Counting(stop_after=0, error=ModelError)
    with pytest.raises(ModelError):
        pipeline.solve(challenge, cells, tmp_path / "out", predictor=predictor)
    solved = pipeline.solve(challenge, cells, tmp_path / "out", predictor=predictor, keep_going=True)
    assert solved.notes[0] == "0: empty answer, because stop"
    assert json.loads((tmp_path / "out" / "score.json").read_text())["notes"] == list(solved.notes)


@pytest.mark.parametrize("name", ["forgery", "ink", "cells", "lesions"])
def test_a_truncated_file_ends_the_run_or_gets_the_empty_answer(name, tmp_path):
    challenge = registry.challenge(name)
    pipeline.sample(challenge, tmp_path / "data", seed=2, cases=2, size=96)
    first = pipeline.read_cases(challenge, tmp_path / "data")[0].path
    file = first / "surface_volume" / "05.tif" if first.is_dir() else first
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(DataError, match="truncated|damaged"):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out")
    solved = pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", keep_going=True)
    assert [note.split(", because")[0].split(": ")[1] for note in solved.notes if "because" in note] == ["empty answer"]
    assert file.name in solved.notes[0]


def test_a_broken_truth_is_not_passed_over(tmp_path):
    challenge = registry.challenge("cells")
    pipeline.sample(challenge, tmp_path / "data", seed=2, cases=2, size=96)
    (tmp_path / "data" / "truth" / "mask" / "00.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"truth/mask/00\.png"):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=Counting())


def test_a_damaged_training_file_does_not_stop_a_solver_that_learns_nothing(cells, tmp_path):
    shutil.copytree(cells, tmp_path / "data")
    (tmp_path / "data" / "train" / "im" / "00.png").write_bytes(b"nothing")
    assert pipeline.solve(registry.challenge("cells"), tmp_path / "data", tmp_path / "out").score.value > 0.5


def test_an_empty_answer_for_want_of_a_better_one_is_asked_again(cells, tmp_path):
    challenge, out = registry.challenge("cells"), tmp_path / "out"

    ill = Counting()
    ill.predict = lambda case, work: faint(case)

    def faint(case):
        if case.id == "1":
            raise ModelError("ill")
        if case.id == "3":
            raise KeyboardInterrupt
        return Prediction(EMPTY)

    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, out, predictor=ill, keep_going=True)
    second = Counting()
    pipeline.solve(challenge, cells, out, predictor=second)
    assert second.asked == ["1", "3", "4"]


def test_changed_labels_are_other_data(tmp_path):
    challenge = registry.challenge("cells")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=3, size=96)
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=Counting(stop_after=2))
    shutil.copy(tmp_path / "data" / "train" / "mask" / "01.png", tmp_path / "data" / "train" / "mask" / "00.png")
    second = Counting()
    with pytest.raises(DataError, match="was begun by another run"):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=second)
    pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=second, overwrite=True)
    assert second.asked == ["0", "1", "2"]


def test_the_run_may_lie_in_the_data_folder(tmp_path):
    challenge = registry.challenge("cells")
    data = tmp_path / "data"
    pipeline.sample(challenge, data, seed=1, cases=3, size=96)
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, data, data / "out", predictor=Counting(stop_after=2))
    second = Counting()
    pipeline.solve(challenge, data, data / "out", predictor=second)
    assert second.asked == ["2"]


def test_a_submission_of_another_format_does_not_stay_behind(cells, tmp_path):
    pipeline.solve(registry.challenge("cells"), cells, tmp_path, predictor=Counting())
    pipeline.solve(registry.challenge("cells"), cells, tmp_path, predictor=Counting(), form="parquet")
    assert sorted(os.listdir(tmp_path)) == ["run.json", "score.json", "submission.parquet"]


def test_a_failed_preparation_leaves_nothing(tmp_path):
    challenge = registry.challenge("lesions")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=2, size=64)
    with pytest.raises(ModelError, match="no labelled photographs"):
        pipeline.solve(challenge, tmp_path / "data" / "test", tmp_path / "out", solver="baseline")
    assert not (tmp_path / "out").exists()


def test_the_score_says_how_it_was_made(cells, tmp_path):
    pipeline.solve(registry.challenge("cells"), cells, tmp_path)
    page = json.loads((tmp_path / "score.json").read_text())
    assert (page["command"], page["solver"], page["model"]) == ("solve", "model", None)
    assert (page["part"], page["settings"]["order"], page["settings"]["instances"]) == ("test", "rows", False)
    assert "minutes" not in page["settings"], "for training alone"
    assert page["handlens"] == handlens.__version__


def test_lesions_of_the_later_edition_are_solved(tmp_path):
    challenge = registry.challenge("lesions")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=2, size=64)
    for labels in tmp_path.glob("data/t*/labels.csv"):
        labels.write_text(
            labels.read_text()
            .replace(",AK,", ",AKIEC,")
            .replace(",SK,", ",BKL,")
            .replace(",SCC,", ",SCCKA,")
            .replace(",NON,", ",INF,")
            .replace(",ON,", ",BEN_OTH,")
        )
    shutil.rmtree(tmp_path / "data" / "truth")
    eleven = challenge.settings(taxonomy="eleven")
    with pytest.raises(ModelError, match="the included model knows the ten classes: .* or say --solver baseline"):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", settings=eleven)
    assert not (tmp_path / "out").exists()
    solved = pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", settings=eleven, solver="baseline")
    assert solved.submission.read_text().startswith("filename,AKIEC,BCC,BEN_OTH")


def test_truth_is_chosen_by_part(cells, tmp_path):
    challenge = registry.challenge("cells")
    settings = challenge.settings()
    train = pipeline.solve(challenge, cells, tmp_path / "out", part="train")
    assert pipeline.score(challenge, train.submission, cells, settings, "train").value == train.score.value
    assert pipeline.score(challenge, train.submission, cells, settings).value != train.score.value
    shutil.copytree(cells, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "truth")
    with pytest.raises(DataError, match="no truth/ for its test part; .* say --part train"):
        pipeline.score(challenge, train.submission, tmp_path / "data", settings)
    (tmp_path / "data" / "test" / "im" / "00.png").unlink()  # now the ids tell
    assert pipeline.score(challenge, train.submission, tmp_path / "data", settings).value == train.score.value


def test_a_case_that_cannot_be_read_cannot_be_checked(cells, tmp_path):
    shutil.copytree(cells, tmp_path / "data")
    (tmp_path / "data" / "test" / "im" / "00.png").write_bytes(b"nothing")
    (tmp_path / "mine.csv").write_text("img,pixels\n0,1 9999999999\n1,\n2,\n3,\n4,\n")
    challenge = registry.challenge("cells")
    (problem,) = pipeline.check(challenge, tmp_path / "mine.csv", tmp_path / "data", challenge.settings())
    assert str(problem).startswith("img 0: cannot be checked: ")
    assert "00.png: not a readable image" in str(problem)


def test_images_that_are_not_read_are_named(cells, tmp_path):
    folder, challenge = tmp_path / "mixed", registry.challenge("cells")
    folder.mkdir()
    (folder / "b.bmp").write_bytes(b"BM" + bytes(50))
    (folder / "c.gif").write_bytes(b"GIF89a" + bytes(50))
    with pytest.raises(
        DataError, match=r"no test or train cases of cells in it: b\.bmp: BMP is not read here.*1 more file"
    ):
        pipeline.solve(challenge, folder, tmp_path / "out")
    shutil.copy(cells / "test" / "im" / "00.png", folder / "a.png")
    solved = pipeline.solve(challenge, folder, tmp_path / "out", solver="baseline")
    assert [note for note in solved.notes if note.startswith("b.bmp: BMP is not read here")]
    alone = pipeline.solve(challenge, folder / "a.png", tmp_path / "one", solver="baseline")
    assert not [note for note in alone.notes if "not read" in note]


def test_a_name_that_is_no_text_is_refused(tmp_path):
    from handlens.io.images import write_png

    write_png(tmp_path / "ok.png", np.zeros((9, 9), np.uint8))
    os.rename(tmp_path / "ok.png", os.fsencode(tmp_path) + b"/\xff.png")
    with pytest.raises(DataError, match="is not UTF-8: rename it"):
        pipeline.read_cases(registry.challenge("forgery"), tmp_path)


def test_the_submission_folder_may_not_be_a_file(cells, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="this is a file: name a folder"):
        pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out")


def test_changes_behind_a_link_are_seen(tmp_path):
    challenge = registry.challenge("cells")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=3, size=96)
    (tmp_path / "data" / "test").rename(tmp_path / "elsewhere")
    (tmp_path / "data" / "test").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=Counting(stop_after=2))
    shutil.copy(tmp_path / "elsewhere" / "im" / "01.png", tmp_path / "elsewhere" / "im" / "00.png")
    second = Counting()
    with pytest.raises(DataError, match="was begun by another run"):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=second)
    pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", predictor=second, overwrite=True)
    assert second.asked == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["forgery", "cells"])
def test_keep_going_helps_on_the_training_part_too(name, tmp_path):
    challenge = registry.challenge(name)
    pipeline.sample(challenge, tmp_path / "data", seed=2, cases=2, size=96)
    path = challenge.read_cases(tmp_path / "data", "train")[0].path
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", part="train")
    solved = pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", part="train", keep_going=True)
    assert solved.score is None
    assert [note for note in solved.notes if note.startswith("no score, because ")]


def test_the_test_part_is_never_scored_by_training_labels(tmp_path):
    challenge = registry.challenge("lesions")
    pipeline.sample(challenge, tmp_path / "data", seed=2, cases=2, size=64)
    shutil.rmtree(tmp_path / "data" / "truth")
    with pytest.raises(DataError, match="no truth/ for its test part"):
        pipeline.open_truth(challenge, tmp_path / "data", challenge.settings(), "test")


def test_progress_is_told(cells, tmp_path):
    told = []
    pipeline.solve(
        registry.challenge("cells"), cells, tmp_path, predictor=Counting(), progress=lambda *now: told.append(now)
    )
    assert told == [(number, 5) for number in range(6)]


class InParts(Counting):
    """A predictor that works on a case in four parts, keeps each, and may stop in the middle of one."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.stop_at = stop_at

    def predict(self, case, work, /):
        for part in range(4):
            if work.checkpoints.load(f"part-{part}") is None:
                if (case.id, part) == self.stop_at:
                    raise KeyboardInterrupt
                self.asked.append((case.id, part))
                work.checkpoints.save(f"part-{part}", np.arange(part))
            work.progress(part + 1, 4)
        return Prediction(EMPTY)


def test_a_large_case_shows_progress_and_resumes_inside(cells, tmp_path):
    told, challenge = [], registry.challenge("cells")
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, tmp_path, predictor=InParts(stop_at=("1", 2)))
    second = InParts()
    pipeline.solve(challenge, cells, tmp_path, predictor=second, progress=lambda *now: told.append(now[:2]))
    assert second.asked == [("1", 2), ("1", 3), *((id, part) for id in "234" for part in range(4))]
    assert told[0] == (1, 5)
    assert told[1:6] == [(125, 500), (150, 500), (175, 500), (200, 500), (200, 500)]
    assert told[-1] == (500, 500)
    assert sorted(os.listdir(tmp_path)) == ["run.json", "score.json", "submission.csv"]


def test_a_large_picture_is_said_to_be_read(cells, tmp_path, monkeypatch):
    """Nothing can be counted until it is there."""
    told = []
    monkeypatch.setattr(pipeline.each_case, "LARGE_PIXELS", 1)
    how = {"predictor": Counting(), "progress": lambda *now: told.append(now)}
    pipeline.solve(registry.challenge("cells"), cells, tmp_path, **how)
    assert told[:4] == [(0, 5), (0, 500, "reading 0"), (0, 500, "0"), (100, 500)]


def test_the_baseline_is_another_solver(cells, tmp_path):
    challenge = registry.challenge("cells")
    learned = pipeline.solve(challenge, cells, tmp_path / "model")
    baseline = pipeline.solve(challenge, cells, tmp_path / "baseline", solver="baseline")
    assert baseline.submission.read_bytes() != learned.submission.read_bytes()
    assert baseline.score.value > baseline.empty_score
    assert json.loads((tmp_path / "baseline" / "score.json").read_text())["solver"] == "baseline"
    with pytest.raises(DataError, match="holds the results of another run"):
        pipeline.solve(challenge, cells, tmp_path / "model", solver="baseline")
    with pytest.raises(HandlensError, match="forgery has no baseline"):
        pipeline.load(registry.challenge("forgery"), solver="baseline")
    with pytest.raises(HandlensError, match="a baseline takes no model: leave --model out, or --solver baseline"):
        pipeline.load(challenge, solver="baseline", model=tmp_path)


# --- what is said about a model ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """What is known of a model."""

    folder: Path
    licence: str = ""
    trained_on: frozenset[str] = frozenset()


def notes_with(model, cells, out):
    predictor = Counting()
    predictor.model = model
    return pipeline.solve(registry.challenge("cells"), cells, out, predictor=predictor).notes


def test_a_score_on_cases_that_were_trained_on_says_so(cells, tmp_path):
    cases = pipeline.read_cases(registry.challenge("cells"), cells)
    other = pipeline.read_cases(registry.challenge("cells"), cells, "train")
    known = frozenset(digest(case) for case in cases[:2])
    assert notes_with(Folder(tmp_path, trained_on=known), cells, tmp_path / "a") == (
        "the model was trained on 2 of these 5 cases: this score says little about others",
    )
    strangers = frozenset(digest(case) for case in other)
    assert notes_with(Folder(tmp_path, trained_on=strangers), cells, tmp_path / "b") == ()
    assert notes_with(Folder(tmp_path), cells, tmp_path / "c") == ()
    assert notes_with(Folder(tmp_path, trained_on=known), cells / "test", tmp_path / "d") == (), "there is no score"


@pytest.mark.parametrize(
    ("licence", "said"),
    [("CC-BY-NC-SA-4.0", True), ("CC-BY-NC-4.0", True), ("Apache-2.0", False), ("CC-BY-4.0", False), ("", False)],
)
def test_a_non_commercial_model_says_so_once(cells, tmp_path, licence, said):
    notes = notes_with(Folder(tmp_path, licence), cells, tmp_path / "out")
    what = f"model trained on non-commercial data ({licence}): handlens list --models"
    assert notes == ((what,) if said else ())


def test_two_cases_with_one_id_are_refused(cells):
    challenge = registry.challenge("cells")
    twice = replace(challenge, read_cases=lambda folder, part: challenge.read_cases(folder, "test")[:1] * 2)
    with pytest.raises(DataError, match="two cases are called 0"):
        pipeline.read_cases(twice, cells)


def test_a_folder_without_cases_is_refused(tmp_path):
    with pytest.raises(DataError, match="no test or train cases of cells"):
        pipeline.read_cases(registry.challenge("cells"), tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        pipeline.read_cases(registry.challenge("cells"), tmp_path / "none")


def test_a_failed_sample_leaves_nothing(tmp_path):
    def write_sample(folder, **settings):
        files.write_text(folder / "half", "half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        HandlensError, match=r"the disk is full: there was room for [\d,]+ bytes of it, and it needs more"
    ):
        pipeline.sample(
            replace(registry.challenge("cells"), write_sample=write_sample), tmp_path / "x", seed=0, cases=1, size=96
        )
    assert os.listdir(tmp_path) == []
