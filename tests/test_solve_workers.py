"""Solve with several processes: the same bytes, stopped or killed, with cases that cannot be read."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest
import tasks

from handlens import pipeline, registry
from handlens.errors import DataError, HandlensError, ModelError
from handlens.inference.executors import Executor, Processes
from handlens.masks.rle import EMPTY
from handlens.runstore.store import UNFINISHED
from handlens.types import Prediction

SIZES = {"forgery": (3, 96), "ink": (3, 96), "cells": (5, 96), "lesions": (6, 64)}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=6, size=96)
    return folder


@pytest.fixture
def staged(tmp_path):
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "trouble").touch()
    return tasks.Staged(tmp_path / "stage")


def journal_of(out):
    return out / UNFINISHED / "answers.jsonl"


def journal_ids(out):
    return [line.split('"')[1] for line in journal_of(out).read_text().splitlines()]


def asked(predictor):
    """Ids of the cases in the order of their number, and the processes that answered."""
    names = [path.name.split("-") for path in predictor.folder.glob("asked-*")]
    return sorted(id for _, id, _ in names), {int(process) for _, _, process in names}


class Elsewhere(Executor):
    """Works here, but as if elsewhere; keeps what it was asked for by name."""

    def __init__(self):
        self.names = []

    @property
    def is_here(self):
        return False

    def run(self, job):
        self.names.append([job.name(item) for item in job.items])
        yield from Processes(1).run(job)


@pytest.mark.parametrize("solver", ["baseline", "model"])
def test_a_large_case_is_shared_by_its_parts_where_the_predictor_can_do_that(solver, tmp_path):
    challenge, elsewhere = registry.challenge("ink"), Elsewhere()
    settings = challenge.settings(turns=1, slices=8)
    pipeline.sample(challenge, tmp_path / "data", seed=4, cases=1, size=352, settings=settings)
    (case,) = pipeline.read_cases(challenge, tmp_path / "data")
    pipeline.solve(challenge, tmp_path / "data", tmp_path / "out", settings=settings, executor=elsewhere, solver=solver)
    assert elsewhere.names == [[case.id] * (2 if solver == "model" else 1)]  # what a death is told with


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_the_submission_is_the_same_for_any_number_of_workers(name, tmp_path):
    challenge, (cases, size) = registry.challenge(name), SIZES[name]
    pipeline.sample(challenge, tmp_path / "data", seed=4, cases=cases, size=size)
    files = [
        pipeline.solve(challenge, tmp_path / "data", tmp_path / f"out{workers}", workers=workers).submission
        for workers in (1, 3)
    ]
    assert len({file.read_bytes() for file in files}) == 1


@pytest.mark.slow
def test_the_predictor_is_loaded_once_and_cases_are_answered_elsewhere(cells, tmp_path, staged):
    told = []
    challenge = replace(registry.challenge("cells"), load=staged.load)
    pipeline.solve(challenge, cells, tmp_path / "out", workers=2, progress=lambda *now: told.append(now))
    assert (staged.folder / "loaded").read_text() == f"{os.getpid()}\n"
    ids, processes = asked(staged)
    assert ids == list("012345")
    assert os.getpid() not in processes
    assert told == [(number, 6) for number in range(7)]


@pytest.mark.parametrize(
    ("parallel", "cores", "waiting", "workers"),
    [(True, 4, 100, 4), (True, 4, 4, 2), (True, 4, 3, 1), (True, 1, 100, 1), (False, 4, 100, 1)],
)
def test_how_many_workers_there_are_by_default(monkeypatch, parallel, cores, waiting, workers):
    monkeypatch.setattr("handlens.pipeline.each_case.usable_cores", lambda: cores)
    challenge = replace(registry.challenge("cells"), parallel=parallel)
    assert max(1, pipeline.count_workers(challenge, None, waiting)) == workers
    assert pipeline.count_workers(challenge, 3, waiting) == 3
    assert pipeline.count_workers(challenge, 200, waiting) == waiting


def test_forgery_alone_shares_its_cases_by_itself():
    assert [name for name in registry.BUILT_IN if registry.challenge(name).parallel] == ["forgery"]


def test_a_predictor_that_cannot_be_shared_says_so(cells, tmp_path):
    class Local:
        model = None

        def decode(self, case, /):
            return nullcontext(case)

        def predict(self, case, work, /):
            return Prediction(EMPTY)

    with pytest.raises(HandlensError, match="cannot be pickled .*: use one worker"):
        pipeline.solve(registry.challenge("cells"), cells, tmp_path / "out", predictor=Local(), workers=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_broken_cases_end_the_run_or_get_the_empty_answer(cells, tmp_path, staged, workers):
    challenge = registry.challenge("cells")
    predictor = replace(staged, troubles=(("4", "data"), ("1", "model")))
    with pytest.raises((DataError, ModelError)):
        pipeline.solve(challenge, cells, tmp_path / "out", predictor=predictor, workers=workers)
    solved = pipeline.solve(challenge, cells, tmp_path / "out", predictor=predictor, workers=workers, keep_going=True)
    assert solved.notes == (
        "1: empty answer, because cannot answer",
        "4: empty answer, because a/b.png: not a picture",
    )


@pytest.mark.slow
@pytest.mark.parametrize("others", [1, 3])
def test_after_the_death_of_a_worker_it_goes_on_with_other_numbers(cells, tmp_path, staged, others):
    challenge, out = registry.challenge("cells"), tmp_path / "out"
    predictor = replace(staged, seconds=0.05, troubles=(("4", "kill"),))
    with pytest.raises(HandlensError, match="^4: the process working on it was killed"):
        pipeline.solve(challenge, cells, out, predictor=predictor, workers=2)
    done = journal_ids(out)
    assert 2 <= len(done) <= 5
    assert "4" not in done
    for path in predictor.folder.iterdir():
        path.unlink()
    solved = pipeline.solve(challenge, cells, out, predictor=predictor, workers=others)
    assert asked(predictor)[0] == sorted(set("012345") - set(done))
    whole = pipeline.solve(challenge, cells, tmp_path / "whole", predictor=predictor)
    assert solved.submission.read_bytes() == whole.submission.read_bytes()
    assert sorted(os.listdir(out)) == ["run.json", "score.json", "submission.csv"]


def start(cells, out, stage):
    """A solve in a process group of its own, as a shell would start it."""
    code = (
        "import sys\nfrom dataclasses import replace\nfrom pathlib import Path\nimport tasks\n"
        "from handlens import cli, registry\n"
        "staged = tasks.Staged(Path(sys.argv.pop()), seconds=0.2)\n"
        "cells = replace(registry.challenge('cells'), load=staged.load)\n"
        "registry.challenge = lambda name: cells\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", code, "solve", "cells", str(cells), "-o", str(out), "--workers", "2"]
    command += ["--no-report", str(stage)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def nobody_in(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def without_progress(talk):
    """On a slow machine a line of progress is printed."""
    return re.sub(r"^cells: \d+ of \d+\n", "", talk, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at the start", "in the middle"])
def test_ctrl_c_stops_all_processes_quietly_and_keeps_answers(cells, tmp_path, staged, when):
    out, journal = tmp_path / "out", journal_of(tmp_path / "out")
    process = start(cells, out, staged.folder)
    if when == "in the middle":
        wait_for(lambda: journal.is_file() and journal.read_bytes().count(b"\n") >= 2)
    else:
        wait_for((staged.folder / "loaded").exists)  # the processes are just being started
    os.killpg(process.pid, signal.SIGINT)
    _, talk = process.communicate(timeout=240)
    assert (process.returncode, without_progress(talk)) == (130, "\nstopped; the same command resumes from here\n")
    wait_for(lambda: nobody_in(process.pid))
    done = journal_ids(out) if when == "in the middle" else []
    assert len(done) < 6
    for path in staged.folder.glob("asked-*"):
        path.unlink()
    again = start(cells, out, staged.folder)
    assert (without_progress(again.communicate(timeout=240)[1]), again.returncode) == ("", 0)
    assert asked(staged)[0] == sorted(set("012345") - set(done))
    assert sorted(os.listdir(out)) == ["run.json", "score.json", "submission.csv"]
