"""Work shared among processes: order, errors, deaths, and that nobody is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import tasks

from handlens.errors import DataError, HandlensError, ModelError, SubmissionError
from handlens.inference.executors import THREADS, held_interrupt, map_in_processes, usable_cores


def run(make, items, workers):
    return list(map_in_processes(make, items, workers=workers))


@pytest.fixture(autouse=True)
def nobody_is_left():
    yield
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_every_item_is_done_once(workers):
    results = run(tasks.make_square, range(5), workers)
    assert sorted(results) == [(number, number**2) for number in range(5)]
    assert run(tasks.make_square, [], workers) == []


def test_one_worker_works_here_in_order_and_when_asked():
    calls = []
    results = map_in_processes(lambda: calls.append, "abc", workers=1)
    next(results)
    assert calls == ["a"]
    assert [index for index, _ in results] == [1, 2]


def test_results_come_when_they_are_there():
    results = map_in_processes(tasks.make_trouble, ["long", "a", "b"], workers=2)
    assert [next(results), next(results)] == [(1, "a"), (2, "b")]
    results.close()


def test_the_function_is_made_once_in_each_process():
    results = [value for _, value in run(tasks.make_counter, range(12), 2)]
    processes = {process for process, _ in results}
    assert os.getpid() not in processes
    for process in processes:
        counts = [count for place, count in results if place == process]
        assert counts == list(range(1, len(counts) + 1))


def test_each_process_keeps_to_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENCV_FOR_THREADS_NUM", raising=False)
    before = {name: os.environ.get(name) for name in THREADS}
    assert {value for _, value in run(tasks.make_threads, range(2), 2)} == {(1, "1")}
    assert {name: os.environ.get(name) for name in THREADS} == before


def test_ctrl_c_is_for_the_parent_alone():
    assert {value for _, value in run(tasks.make_deaf, range(2), 2)} == {True}
    assert not tasks.deaf(None)


def test_ctrl_c_waits_until_the_processes_are_started():
    other = threading.Thread(target=time.sleep, args=(0.2,))  # the signal may go to any thread that does not block it
    other.start()
    reached = []

    def start():
        with held_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        start()
    other.join()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not tasks.deaf(None)


@pytest.mark.parametrize("workers", [1, 2])
def test_our_errors_arrive_whole(workers):
    with pytest.raises(DataError, match=r"^a/b\.png: not a picture$") as data:
        run(tasks.make_trouble, ["data", "data"], workers)
    assert (data.value.what, str(data.value.file)) == ("not a picture", "a/b.png")
    with pytest.raises(SubmissionError, match="line 3: odd") as submission:
        run(tasks.make_trouble, ["submission", "submission"], workers)
    assert (submission.value.file, submission.value.problems[0].line) == ("mine.csv", 3)
    with pytest.raises(ModelError, match="^cannot answer$"):
        run(tasks.make_trouble, ["model", "model"], workers)
    with pytest.raises(ModelError, match="no model today"):
        run(tasks.make_nothing, "ab", workers)


def test_other_errors_bring_their_traceback():
    with pytest.raises(ZeroDivisionError) as error:
        run(tasks.make_trouble, ["foreign", "foreign"], 2)
    assert "in trouble" in error.value.__notes__[0]


def test_an_error_that_cannot_travel_is_told():
    with pytest.raises(HandlensError, match="^1 and 2$"):
        run(tasks.make_trouble, ["odd", "odd"], 2)
    with pytest.raises(RuntimeError, match=r"in trouble[\s\S]*ForeignError: 1 and 2"):
        run(tasks.make_trouble, ["odd foreign", "odd foreign"], 2)
    with pytest.raises(Exception, match="lambda"):
        run(tasks.make_trouble, ["lambda", "lambda"], 2)


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(HandlensError, match="cannot be pickled .*: use one worker"):
        run(lambda: abs, [1, 2], 2)
    with pytest.raises(HandlensError, match="cannot be pickled"):
        run(tasks.make_trouble, [lambda: 0, lambda: 1], 2)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("kill", "^kill: the process working on it was killed, most likely because memory ran out: use fewer workers$"),
        ("exit", "^exit: the process working on it ended with exit status 3: use one worker to see why$"),
    ],
)
def test_a_process_that_dies_is_told_with_its_item(item, message):
    started = time.monotonic()
    with pytest.raises(HandlensError, match=message):
        run(tasks.make_trouble, ["long", "a", "b", item, "c"], 2)
    assert time.monotonic() - started < tasks.LONG / 4
    assert not multiprocessing.active_children()


def test_closing_stops_at_once():
    started = time.monotonic()
    results = map_in_processes(tasks.make_trouble, ["long", "a", "long", "long"], workers=2)
    assert next(results) == (1, "a")
    results.close()
    assert time.monotonic() - started < tasks.LONG / 4
    assert not multiprocessing.active_children()


def gone(group, seconds=20):
    """Whether a process group has no members left, soon."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_leave_with_their_parent(number):
    code = (
        "import tasks\nfrom handlens.inference.executors import map_in_processes\n"
        "for _, item in map_in_processes(tasks.make_trouble, ['long', 'a', 'long'], workers=2): print(item, flush=True)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout.readline() == "a\n"
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert gone(process.pid)


def test_cores():
    assert 1 <= usable_cores() <= os.cpu_count()
