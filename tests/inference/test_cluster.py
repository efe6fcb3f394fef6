"""The contract of executors, for each of them; and what becomes of work whose worker, scheduler or client is killed."""

import gc
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tasks
from clusters import Cluster, kill, wait_for

from handlens.errors import DataError, HandlensError, ModelError, SubmissionError
from handlens.inference.executors import Processes
from handlens.io import gate

pytest.importorskip("distributed")

from handlens.inference.cluster_spec import open_cluster, read_cluster_file
from handlens.inference.cluster_worker import packed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(  # connections to processes that were killed: Dask leaves them to the collector
        r"ignore:unclosed <socket\.socket:ResourceWarning",
        r"ignore:unclosed event loop:ResourceWarning",
        r"ignore:unclosed transport:ResourceWarning",
        r"ignore:unclosed cluster with a broken __repr__:ResourceWarning",  # its constructor refused what a test gave
        r"ignore:Exception ignored in. <(socket|function _SelectorTransport|asyncio):pytest.PytestUnraisableExceptionWarning",
    ),
]


@pytest.fixture(autouse=True)
def _nothing_is_left_for_others():
    """Sockets of connections that were cut end here, and not as the warning of another file's test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start_worker()
        cluster.start_worker()
        yield cluster
    finally:
        cluster.close()
        gc.collect()


@pytest.fixture(scope="module")
def dask(cluster):
    with open_cluster(cluster.address) as executor:
        executor.client.wait_for_workers(2, timeout=60)
        yield executor


@pytest.fixture(params=["here", "processes", "dask"])
def executor(request):
    if request.param == "dask":
        return request.getfixturevalue("dask")
    return Processes(1 if request.param == "here" else 2)


def run(executor, make, items, **how):
    return list(executor.map(partial(tasks.make_there, make), items, **how))


def test_every_item_is_done_once(executor):
    assert sorted(run(executor, tasks.make_square, range(40))) == [(number, number**2) for number in range(40)]
    assert run(executor, tasks.make_square, []) == []


def test_files_are_there_before_their_result(executor, tmp_path):
    done = 0
    for index, _ in executor.map(tasks.make_writer, [3, 0, 200], out=tmp_path):
        item = [3, 0, 200][index]
        assert (tmp_path / f"{item}.txt").read_text() == f"item {item}"
        assert (tmp_path / "deep" / f"{item}" / "bytes").read_bytes() == bytes(range(item))
        done += 1
    assert done == 3
    assert len(list(tmp_path.iterdir())) == 4


def test_the_function_is_made_once_in_each_process(executor):
    results = [value for _, value in run(executor, tasks.make_counter, range(12))]
    for process in {process for process, _ in results}:
        counts = [count for place, count in results if place == process]
        assert sorted(counts) == list(range(1, len(counts) + 1))


def test_our_errors_arrive_whole(executor):
    with pytest.raises(DataError, match=r"^a/b\.png: not a picture$") as data:
        run(executor, tasks.make_trouble, ["data", "data"])
    assert (data.value.what, str(data.value.file)) == ("not a picture", "a/b.png")
    with pytest.raises(SubmissionError, match="line 3: odd"):
        run(executor, tasks.make_trouble, ["submission", "submission"])
    with pytest.raises(ModelError, match="no model today"):
        run(executor, tasks.make_nothing, "ab")
    with pytest.raises(ZeroDivisionError):
        run(executor, tasks.make_trouble, ["foreign", "foreign"])
    assert sorted(run(executor, tasks.make_square, [1, 2])) == [(0, 1), (1, 4)]  # it works on after them


def test_closing_stops_at_once(executor):
    if executor.is_here:
        pytest.skip("one process does nothing meanwhile")
    results = executor.map(partial(tasks.make_there, tasks.make_counter), range(1000))
    next(results)
    results.close()
    assert len(run(executor, tasks.make_square, range(3))) == 3


def test_what_cannot_be_sent_is_refused(dask):
    with pytest.raises(HandlensError, match=r"cannot be pickled .*: leave --cluster out"):
        run(dask, lambda: abs, [1, 2])
    with pytest.raises(HandlensError, match="cannot be pickled"):
        run(dask, tasks.make_square, [lambda: 0])


@pytest.fixture
def killed(executor):
    """An executor whose processes may be killed."""
    if executor.is_here:
        pytest.skip("that would be this process")
    return executor


def test_poison_is_set_aside_and_the_rest_goes_on(killed, tmp_path):
    items = [(number, "poison" if number == 3 else "") for number in range(12)]
    results = dict(
        killed.map(
            partial(tasks.make_unreliable, tmp_path),
            items,
            name=lambda item: f"case {item[0]}",
            survive=lambda item, error: f"{item[0]}: {error}",
        )
    )
    assert results.pop(3).startswith("3: case 3: ")
    assert results == {number: number**2 for number in range(12) if number != 3}
    if not isinstance(killed, Processes):
        assert len((tmp_path / "asked-3").read_text().splitlines()) == 3


def test_poison_without_anybody_to_survive_it_is_told(killed, tmp_path):
    with pytest.raises(HandlensError, match=r"^case 0: .*(was killed|3 workers died)"):
        list(
            killed.map(
                partial(tasks.make_unreliable, tmp_path), [(0, "poison"), (1, "")], name=lambda item: f"case {item[0]}"
            )
        )


# --- Dask alone ---------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_costs_nothing(dask, tmp_path):
    items = [(number, "die once" if number in (2, 5) else "") for number in range(30)]
    results = list(dask.map(partial(tasks.make_unreliable, tmp_path), items))
    assert sorted(results) == [(number, number**2) for number in range(30)]


def test_slow_workers_and_full_disks_are_worked_around(dask, cluster, tmp_path):
    slow = cluster.start_worker(HANDLENS_TEST_SLOW="1")
    full = cluster.start_worker(HANDLENS_TEST_DISK="full")
    try:
        dask.client.wait_for_workers(4, timeout=60)
        results = list(dask.map(partial(tasks.make_unreliable, tmp_path), [(number, "full") for number in range(60)]))
    finally:
        kill(slow)
        kill(full)
    assert sorted(results) == [(number, number**2) for number in range(60)]
    assert max(len(path.read_text().splitlines()) for path in tmp_path.glob("asked-*")) > 1  # one had no room


def test_full_disks_everywhere_are_told(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        cluster.start_worker(HANDLENS_TEST_DISK="full")
        with (
            open_cluster(cluster.address) as executor,
            pytest.raises(HandlensError, match="no worker has room on its disk"),
        ):
            list(executor.map(partial(tasks.make_unreliable, tmp_path), [(1, "full")]))
    finally:
        cluster.close()


SOLVE = """
import sys
from handlens import pipeline, registry
from handlens.inference.cluster_spec import open_cluster
data, out, where = sys.argv[1:]
import logging
logging.disable()
from pathlib import Path
def told(done, total, words=""):
    print("done", done, flush=True)
    if done:
        sys.stdin.readline()  # until the test has killed what it kills; nothing at the end of the input
with open_cluster(where) as executor:
    pipeline.solve(registry.challenge("cells"), Path(data), Path(out), solver="baseline", executor=executor, progress=told)
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    from handlens import pipeline, registry

    folder = tmp_path_factory.mktemp("cells")
    pipeline.sample(registry.challenge("cells"), folder / "data", seed=1, cases=12, size=96)
    solved = pipeline.solve(registry.challenge("cells"), folder / "data", folder / "here", solver="baseline")
    return folder / "data", solved.submission.read_bytes()


def start_solving(data, out, where):
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SOLVE, str(data), str(out), where],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: process.stdout.readline().split()[1:] > ["0"])
    return process


def test_a_killed_client_resumes_to_the_same_bytes(cluster, cells, tmp_path):
    from handlens import pipeline, registry

    data, expected = cells
    first = start_solving(data, tmp_path / "out", cluster.address)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = (tmp_path / "out" / "unfinished" / "answers.jsonl").read_text().splitlines()
    assert len(kept) >= 1
    with open_cluster(cluster.address) as executor:
        again = pipeline.solve(
            registry.challenge("cells"), data, tmp_path / "out", solver="baseline", executor=executor
        )
    assert again.submission.read_bytes() == expected


def test_a_killed_scheduler_is_told_and_the_run_resumes(cells, tmp_path):
    from handlens import pipeline, registry

    data, expected = cells
    cluster = Cluster(tmp_path)
    try:
        cluster.start_worker()
        client = start_solving(data, tmp_path / "out", cluster.address)
        kill(cluster.scheduler)
        _, said = client.communicate("\n", timeout=60)
        assert client.returncode == 1
        assert f"the scheduler {cluster.address} is gone" in said
    finally:
        cluster.close()
    again = pipeline.solve(registry.challenge("cells"), data, tmp_path / "out", solver="baseline", workers=1)
    assert again.submission.read_bytes() == expected


def test_the_network_travels_with_the_predictor(dask, tmp_path):
    """Workers have none of the client's files: here the model's folder is gone when they are asked."""
    import shutil

    from handlens import pipeline, registry
    from handlens.inference.session import Session

    challenge = registry.challenge("cells")
    included = pipeline.load(challenge)
    session = Session(next(Path(included.model.folder).rglob("*.onnx")))
    copy = tmp_path / "model" / "network.onnx"
    copy.parent.mkdir()
    shutil.copy(session.path, copy)
    payload = packed(partial(tasks.make_session, Session(copy)))
    shutil.rmtree(copy.parent)
    (future,) = dask.client.scatter([payload])
    assert dask.client.submit(tasks.open_payload, future, pure=False).result(timeout=60) == ("network.onnx", 1)


SIZES = {"forgery": (3, 96), "ink": (2, 96), "cells": (3, 96), "lesions": (4, 64)}


def files_of(folder):
    """Every file but those that tell times and places, with its bytes."""
    timed = ("run.json", "score.json", "index.html", "index.json", "findings.json", ".lock")
    return {
        path.relative_to(folder).as_posix(): None if path.name in timed else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", SIZES)
def test_a_cluster_leaves_the_same_files(name, dask, tmp_path):
    from handlens import pipeline, registry

    challenge, (cases, size) = registry.challenge(name), SIZES[name]
    pipeline.sample(challenge, tmp_path / "data", seed=4, cases=cases, size=size)
    for place, executor in (("here", Processes(1)), ("there", dask)):
        pipeline.solve(challenge, tmp_path / "data", tmp_path / place, executor=executor, for_report=True)
    here, there = files_of(tmp_path / "here"), files_of(tmp_path / "there")
    assert here == there
    assert "submission.csv" in here


def test_inspecting_on_a_cluster_leaves_the_same_files(dask, tmp_path):
    from handlens import pipeline, registry
    from handlens.challenges.forgery.inspection import inspect_figures

    pipeline.sample(registry.challenge("forgery"), tmp_path / "data", seed=4, cases=3, size=96)
    found = []
    for place, executor in (("here", Processes(1)), ("there", dask)):
        records = inspect_figures([tmp_path / "data"], tmp_path / place, executor=executor)
        found.append([{**record, "seconds": 0} for record in records])
    assert found[0] == found[1]
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")
    assert len(files_of(tmp_path / "here")) > 6


def test_the_tiles_of_one_fragment_are_shared(dask, tmp_path):
    """Also with the stack on a web server, which the workers read themselves."""
    from range_server import serving

    from handlens import pipeline, registry

    ink = registry.challenge("ink")
    settings = ink.settings(turns=1, slices=8)
    pipeline.sample(ink, tmp_path / "data", seed=4, cases=1, size=352, settings=settings)
    pipeline.solve(ink, tmp_path / "data", tmp_path / "here", settings=settings)
    with serving(tmp_path) as server:
        asked = []
        dask.map, before = (
            (lambda make, items, **how: asked.append(list(items)) or before(make, items, **how)),
            dask.map,
        )
        try:
            for place, folder in (("there", tmp_path / "data"), ("far", gate.place(f"{server.address}/data"))):
                pipeline.solve(ink, folder, tmp_path / place, settings=settings, executor=dask)
        finally:
            del dask.map
    assert asked == [[0, 1], [0, 1]]
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there") == files_of(tmp_path / "far")


def test_the_tiles_of_one_slide_are_shared(dask, tmp_path):
    from handlens import pipeline, registry
    from handlens.io.images import read_rgb, write_png

    cells = registry.challenge("cells")
    settings = cells.settings(turns=1, write="mask")
    pipeline.sample(cells, tmp_path / "sample", seed=4, cases=1, size=256)
    (slide,) = (tmp_path / "sample" / "test" / "im").iterdir()
    slide = np.tile(read_rgb(slide), (5, 2, 1))  # 1280 x 512: two tiles, below each other
    (tmp_path / "data").mkdir()
    write_png(tmp_path / "data" / "slide.png", slide)
    given = []
    dask.map, before = (lambda make, items, **how: given.append(len(items)) or before(make, items, **how)), dask.map
    try:
        for place, executor in (("here", None), ("there", dask)):
            pipeline.solve(cells, tmp_path / "data", tmp_path / place, settings=settings, executor=executor)
    finally:
        del dask.map
    assert given == [2]
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


@pytest.mark.parametrize(("name", "cases", "size"), [("cells", 2, 64), ("lesions", 2, 32), ("forgery", 2, 96)])
def test_synthetic_data_is_the_same(name, cases, size, dask, tmp_path):
    from handlens import pipeline, registry

    for place, executor in (("here", None), ("there", dask)):
        pipeline.sample(registry.challenge(name), tmp_path / place, seed=4, cases=cases, size=size, executor=executor)
    here, there = (
        {path.relative_to(tmp_path / place): path.read_bytes() for path in (tmp_path / place).rglob("*.*")}
        for place in ("here", "there")
    )
    assert here == there
    assert len(here) > 6


def test_a_plug_in_that_knows_nothing_of_sharing_is_told(dask, tmp_path):
    from dataclasses import replace

    from handlens import pipeline, registry

    def write_sample(folder, /, *, seed, cases, size, settings):
        raise AssertionError

    challenge = replace(registry.challenge("cells"), write_sample=write_sample)
    with pytest.raises(HandlensError, match="cells makes its cases in one process: leave --cluster out"):
        pipeline.sample(challenge, tmp_path / "x", seed=0, cases=1, size=64, executor=dask)


def test_models_are_judged_by_workers(dask, tmp_path):
    """Their files and the photographs travel or lie in one place; labels never leave the client."""
    import hostile_models

    from handlens import pipeline, registry

    lesions = registry.challenge("lesions")
    pipeline.sample(lesions, tmp_path / "data", seed=1, cases=6, size=32)
    good = hostile_models.write(tmp_path / "good.onnx", hostile_models.honest())
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    paths = [good, tmp_path / "bad.onnx", tmp_path / "absent.onnx"]
    here, there = (
        pipeline.judge(lesions, paths, tmp_path / "data", lesions.settings(), executor=executor)
        for executor in (None, dask)
    )
    assert [(each.model, each.rank, each.verdict) for each in here.models] == [
        (each.model, each.rank, each.verdict) for each in there.models
    ]
    assert here.models[0].parts["Prediction Score"] == there.models[0].parts["Prediction Score"]
    assert here.unguarded == there.unguarded


def test_predictors_leave_with_their_run(dask):
    run(dask, tasks.make_square, range(8))
    wait_for(lambda: not any(dask.client.run(tasks.count_kept).values()))


def test_it_is_said_when_all_workers_leave_and_goes_on_when_some_join(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("handlens.inference.cluster.LEFT_SECONDS", 0.2)
    monkeypatch.setattr("handlens.inference.cluster.LOOK_AGAIN", 0.1)
    cluster = Cluster(tmp_path)

    def join_when_it_was_said():
        try:
            wait_for(lambda: "all workers have left the cluster" in caplog.text)
        finally:
            cluster.start_worker()

    try:
        first = cluster.start_worker()
        with open_cluster(cluster.address) as executor:
            results = executor.map(partial(tasks.make_there, tasks.make_counter), range(400))
            next(results)
            kill(first)
            threading.Thread(target=join_when_it_was_said).start()
            assert sum(1 for _ in results) == 399
    finally:
        cluster.close()
    assert f"start some with `dask worker {cluster.address} --nthreads 1`" in caplog.text


def test_a_command_says_that_it_waits_for_workers(tmp_path):
    cluster = Cluster(tmp_path)
    command = [sys.executable, "-m", "handlens", "sample", "cells", tmp_path / "new", "--cases", "2", "--size", "64"]
    command = [str(word) for word in (*command, "--cluster", cluster.address)]
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert "has no workers yet: waiting for some, 60 s at the most" in process.stderr.readline()
            cluster.start_worker()
            assert "2 synthetic test cases" in process.stderr.read()
        assert process.returncode == 0
    finally:
        cluster.close()


def test_a_deadline_is_for_this_machine(dask, cells, tmp_path):
    from handlens import pipeline, registry

    with pytest.raises(HandlensError, match="leave --cluster out, or --deadline"):
        pipeline.solve(registry.challenge("cells"), cells[0], tmp_path, executor=dask, deadline=pipeline.Deadline(60))


def test_the_commands_take_a_cluster(cluster, cells, tmp_path):
    data, expected = cells
    command = [sys.executable, "-m", "handlens", "solve", "cells", data, "-o", tmp_path / "out", "--solver", "baseline"]
    done = subprocess.run([*command, "-q", "--no-report", "--cluster", cluster.address], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "submission.csv").read_bytes() == expected


def test_without_the_library_it_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(HandlensError, match=r"^--cluster needs distributed: pip install 'handlens\[cluster\]'$"),
        open_cluster("local"),
    ):
        pass


def test_another_version_on_a_worker_is_refused(dask, monkeypatch):
    monkeypatch.setattr("handlens.inference.cluster_worker.version", lambda _name: "9.9.9")
    with pytest.raises(
        HandlensError, match=r"the worker tcp://127.0.0.1:\d+ has handlens .*, the client 9\.9\.9: install"
    ):
        run(dask, tasks.make_square, [1])


def test_nobody_to_connect_to_is_told(monkeypatch):
    monkeypatch.setattr("handlens.inference.cluster_spec.CONNECT_SECONDS", 1)
    with (
        pytest.raises(HandlensError, match="no Dask scheduler answers at tcp://127.0.0.1:9 .*dask scheduler"),
        open_cluster("tcp://127.0.0.1:9"),
    ):
        pass


def test_a_running_scheduler_has_its_own_workers(cluster):
    with pytest.raises(HandlensError, match="leave --workers out"), open_cluster(cluster.address, workers=3):
        pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class: distributed.LocalCluster\nargs: {}", "unknown field `args`"),
        ("arguments: {}", "missing required field `class`"),
        ("class: [1", "expected"),
        ("- 1", "Expected `object`, got `array`"),
        ("class: distributed.LocalCluster\nworkers: many", "Expected `int | null`, got `str`"),
        ("class: distributed.LocalCluster\nworkers: 0", "workers: 0; expected 1 or more"),
        ("class: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("class: no_such_library.Cluster", "no_such_library.Cluster is not installed here"),
        ("class: distributed.NoSuchCluster", "no NoSuchCluster in distributed"),
        ("class: subprocess.Popen\narguments: {args: 'true'}", "subprocess.Popen is no Dask cluster"),
        ("class: LocalCluster", "LocalCluster is no Dask cluster"),
        (
            "class: distributed.LocalCluster\narguments: {n_workers: 0, dashboard_address: '127.0.0.1:0', security: red}",
            "refuses them",
        ),
    ],
)
def test_a_file_that_describes_no_cluster_is_refused(text, message, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as error, open_cluster(str(path)):
        pass
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


def test_other_words_are_refused(tmp_path):
    with (
        pytest.raises(HandlensError, match=r"expected tcp://HOST:PORT, local, or a file ending with \.yaml"),
        open_cluster("lokal"),
    ):
        pass
    with pytest.raises(DataError, match="no such file"):
        read_cluster_file(tmp_path / "absent.yaml")


@pytest.mark.parametrize("how", ["local", "file"])
def test_a_cluster_that_is_started_here_ends_with_the_block(how, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "class: distributed.LocalCluster\narguments: {n_workers: 0, threads_per_worker: 1, dashboard_address: '127.0.0.1:0'}\nworkers: 1"
    )
    with open_cluster("local" if how == "local" else str(path), workers=1) as executor:
        (_, process), *_ = executor.map(tasks.make_writer, [1], out=tmp_path)
        assert process != os.getpid()
    wait_for(lambda: not Path(f"/proc/{process}").exists() or "Z" in Path(f"/proc/{process}/stat").read_text())
