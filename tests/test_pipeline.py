"""Solve: stopped, killed, out of disk, with broken images; and what it leaves."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from handlens import pipeline, registry
from handlens.challenges.lesions.baseline import PlainRecipe
from handlens.errors import DataError, ModelError
from handlens.io import files
from handlens.masks.rle import EMPTY
from handlens.runstore.store import JOURNAL, Journal


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=5, size=96)
    return folder


class Counting:
    """A recipe that counts its answers and may stop in the middle."""

    def __init__(self, stop_after=99, error=KeyboardInterrupt):
        self.asked, self.stop_after, self.error = [], stop_after, error

    def __repr__(self):
        return "Counting"

    def prepare(self, train, /):
        def model(case):
            if len(self.asked) >= self.stop_after:
                raise self.error("stop")
            self.asked.append(case.id)
            return EMPTY

        return model


def test_solve_leaves_a_submission_and_a_score(cells, tmp_path):
    solved = pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out")
    page = json.loads((tmp_path / "out" / "score.json").read_text())
    assert sorted(os.listdir(tmp_path / "out")) == ["score.json", "submission.csv"]
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
    solved = pipeline.solve(registry.challenge("cells"), tmp_path / "data", tmp_path / "out", recipe=Counting())
    assert solved.score is None
    assert solved.notes == ("the truth is about other cases, so there is no score",)


def test_stopped_in_the_middle_it_goes_on(cells, tmp_path):
    challenge, out = registry.challenge("cells"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, out, recipe=Counting(stop_after=3))
    assert os.listdir(out) == [JOURNAL]
    second = Counting()
    pipeline.solve(challenge, cells, out, recipe=second)
    assert second.asked == ["3", "4"]
    assert sorted(os.listdir(out)) == ["score.json", "submission.csv"]


def test_another_recipe_starts_anew(cells, tmp_path):
    challenge, out = registry.challenge("cells"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, out, recipe=Counting(stop_after=3))

    class Other(Counting):
        def __repr__(self):
            return "Other"

    other = Other()
    pipeline.solve(challenge, cells, out, recipe=other)
    assert len(other.asked) == 5


def test_a_full_disk_loses_no_answer(cells, tmp_path, monkeypatch):
    challenge, out = registry.challenge("cells"), tmp_path / "out"

    def full(path, *args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_cells", full)
        with pytest.raises(OSError, match="No space left"):
            pipeline.solve(challenge, cells, out, recipe=Counting())
    second = Counting()
    pipeline.solve(challenge, cells, out, recipe=second)
    assert second.asked == []


def test_killed_with_9_it_goes_on(cells, tmp_path):
    out = tmp_path / "out"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom handlens import pipeline, registry\nfrom handlens.masks.rle import EMPTY\n"
        "class Slow:\n"
        "    def __repr__(self): return 'Counting'\n"
        "    def prepare(self, train):\n"
        "        return lambda case: time.sleep(0.15) or EMPTY\n"
        "pipeline.solve(registry.challenge('cells'), Path(sys.argv[1]), Path(sys.argv[2]), recipe=Slow())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(cells), str(out)])
    journal = out / JOURNAL
    deadline = time.monotonic() + 60
    while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n") - 1
    with journal.open("ab") as stream:
        stream.write(b'["4", "1 ')  # as if cut off in the middle of a line
    second = Counting()
    pipeline.solve(registry.challenge("cells"), cells, out, recipe=second)
    assert 2 <= done < 5
    assert second.asked == [str(number) for number in range(done, 5)]


def test_a_damaged_journal_is_used_up_to_the_damage(tmp_path):
    journal = Journal(tmp_path, "key")
    for id in "abc":
        journal.add(id, ["1 1"])
    journal.close()
    lines = journal.path.read_text().splitlines()
    for garbage in ("garbage", "5", "[]", '["b", 7]', "{}"):
        journal.path.write_text("\n".join([*lines[:2], garbage, *lines[3:]]) + "\n")
        assert list(Journal(tmp_path, "key").done) == ["a"]
        assert list(Journal(tmp_path, "other key").done) == []


def test_a_broken_case_stops_or_gets_the_empty_answer(cells, tmp_path):
    challenge = registry.challenge("cells")
    recipe = Counting(stop_after=0, error=ModelError)
    with pytest.raises(ModelError):
        pipeline.solve(challenge, cells, tmp_path / "out", recipe=recipe)
    solved = pipeline.solve(challenge, cells, tmp_path / "out", recipe=recipe, keep_going=True)
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
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", recipe=Counting())


def test_a_damaged_training_file_does_not_stop_a_solver_that_learns_nothing(cells, tmp_path):
    shutil.copytree(cells, tmp_path / "data")
    (tmp_path / "data" / "train" / "im" / "00.png").write_bytes(b"nothing")
    assert pipeline.solve(registry.challenge("cells"), tmp_path / "data", tmp_path / "out").score.value > 0.5


def test_an_empty_answer_for_want_of_a_better_one_is_asked_again(cells, tmp_path):
    challenge, out = registry.challenge("cells"), tmp_path / "out"

    class Ill(Counting):
        def prepare(self, train, /):
            def model(case):
                if case.id == "1":
                    raise ModelError("ill")
                if case.id == "3":
                    raise KeyboardInterrupt
                return EMPTY

            return model

    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, cells, out, recipe=Ill(), keep_going=True)
    second = Counting()
    pipeline.solve(challenge, cells, out, recipe=second)
    assert second.asked == ["1", "3", "4"]


def test_changed_labels_start_anew(tmp_path):
    challenge = registry.challenge("cells")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=3, size=96)
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", recipe=Counting(stop_after=2))
    shutil.copy(tmp_path / "data" / "train" / "mask" / "01.png", tmp_path / "data" / "train" / "mask" / "00.png")
    second = Counting()
    pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", recipe=second)
    assert second.asked == ["0", "1", "2"]


def test_the_run_may_lie_in_the_data_folder(tmp_path):
    challenge = registry.challenge("cells")
    data = tmp_path / "data"
    pipeline.sample(challenge, data, seed=1, cases=3, size=96)
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, data, data / "out", recipe=Counting(stop_after=2))
    second = Counting()
    pipeline.solve(challenge, data, data / "out", recipe=second)
    assert second.asked == ["2"]


def test_a_submission_of_another_format_does_not_stay_behind(cells, tmp_path):
    pipeline.solve(registry.challenge("cells"), cells, tmp_path, recipe=Counting())
    pipeline.solve(registry.challenge("cells"), cells, tmp_path, recipe=Counting(), form="parquet")
    assert sorted(os.listdir(tmp_path)) == ["score.json", "submission.parquet"]


def test_a_failed_preparation_leaves_nothing(tmp_path):
    challenge = registry.challenge("lesions")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=2, size=64)
    with pytest.raises(ModelError, match="no labelled photographs"):
        pipeline.solve(challenge, tmp_path / "data" / "test", tmp_path / "out", recipe=PlainRecipe())
    assert not (tmp_path / "out").exists()


def test_the_score_says_how_it_was_made(cells, tmp_path):
    pipeline.solve(registry.challenge("cells"), cells, tmp_path)
    page = json.loads((tmp_path / "score.json").read_text())
    assert page["recipe"].startswith("LearnedRecipe(")
    assert (page["part"], page["settings"]["order"], page["settings"]["instances"]) == ("test", "rows", False)


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
    solved = pipeline.solve(
        challenge, tmp_path / "data", tmp_path / "out", settings=challenge.settings(taxonomy="eleven")
    )
    assert solved.submission.read_text().startswith("filename,AKIEC,BCC,BEN_OTH")


def test_truth_is_chosen_by_part(cells, tmp_path):
    challenge, settings = registry.challenge("cells"), {"order": "rows"}
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
    (problem,) = pipeline.check(
        registry.challenge("cells"), tmp_path / "mine.csv", tmp_path / "data", {"order": "rows"}
    )
    assert str(problem).startswith("img 0: cannot be checked: ")
    assert "00.png: not a readable picture" in str(problem)


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


def test_changes_behind_a_link_start_anew(tmp_path):
    challenge = registry.challenge("cells")
    pipeline.sample(challenge, tmp_path / "data", seed=1, cases=3, size=96)
    (tmp_path / "data" / "test").rename(tmp_path / "elsewhere")
    (tmp_path / "data" / "test").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    with pytest.raises(KeyboardInterrupt):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", recipe=Counting(stop_after=2))
    shutil.copy(tmp_path / "elsewhere" / "im" / "01.png", tmp_path / "elsewhere" / "im" / "00.png")
    second = Counting()
    pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", recipe=second)
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
    assert solved.notes[-1].startswith("no score, because ")


def test_the_test_part_is_never_scored_by_training_labels(tmp_path):
    challenge = registry.challenge("lesions")
    pipeline.sample(challenge, tmp_path / "data", seed=2, cases=2, size=64)
    shutil.rmtree(tmp_path / "data" / "truth")
    with pytest.raises(DataError, match="no truth/ for its test part"):
        pipeline.open_truth(challenge, tmp_path / "data", challenge.settings(), "test")


def test_progress_is_told(cells, tmp_path):
    told = []
    pipeline.solve(
        registry.challenge("cells"), cells, tmp_path, recipe=Counting(), progress=lambda *now: told.append(now)
    )
    assert told == [(number, 5) for number in range(6)]


def test_two_cases_with_one_id_are_refused(cells):
    challenge = registry.challenge("cells")
    twice = replace(challenge, read_cases=lambda folder, part: challenge.read_cases(folder, "test")[:1] * 2)
    with pytest.raises(DataError, match="two cases are called 0"):
        pipeline.read_cases(twice, cells)


def test_a_folder_without_cases_is_refused(tmp_path):
    with pytest.raises(DataError, match="no test or train cases of cells"):
        pipeline.read_cases(registry.challenge("cells"), tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        pipeline.read_cases(registry.challenge("cells"), tmp_path / "none")


def test_a_failed_sample_leaves_nothing(tmp_path):
    def write_sample(folder, **settings):
        files.write_text(folder / "half", "half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        pipeline.sample(
            replace(registry.challenge("cells"), write_sample=write_sample), tmp_path / "x", seed=0, cases=1, size=96
        )
    assert os.listdir(tmp_path) == []
