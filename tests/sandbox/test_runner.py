"""The locked process: what a model, or a runtime that was taken over, can and cannot do from inside."""

import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import hostile_models as models
import numpy as np
import pytest

from handlens.errors import HandlensError
from handlens.sandbox import guard, process, runner
from handlens.sandbox.frames import pack_arrays, unpack_arrays
from handlens.sandbox.verdicts import RefusedError
from handlens.types import Limits

LIMITS = Limits(memory_mib=600, answer_seconds=5, load_seconds=20, total_seconds=60)
PERSON = np.array([[40, 1, 5]], np.float32)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")
SECOND_WALL = {"network", "IPC", "process ids", "file tree", "capabilities"}
linux = pytest.mark.skipif(sys.platform != "linux", reason="the filter of system calls is Linux's")


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return models.write(tmp_path_factory.mktemp("models") / "honest.onnx", models.honest())


def ask_of(model, count=1, seed=0):
    images = np.random.default_rng(seed).random((count, 3, 512, 512), np.float32)
    return model.ask(images, np.repeat(PERSON, count, axis=0))


def refusal(path, limits=LIMITS, entry=runner.CHILD, ask=True):
    def run():
        with runner.opened(path, limits, entry=entry) as model:
            return ask_of(model) if ask else None

    with pytest.raises(RefusedError) as caught:
        run()
    return caught.value


def test_an_honest_model_answers_as_onnx_runtime_does(honest):
    import onnxruntime

    session = onnxruntime.InferenceSession(honest, providers=["CPUExecutionProvider"])
    with runner.opened(honest, LIMITS) as model:
        assert [str(slot) for slot in model.takes] == ["tensor(float)[?,3,512,512]", "tensor(float)[?,3]"]
        assert [str(slot) for slot in model.gives] == ["tensor(float)[?,10]"]
        assert model.size == honest.stat().st_size
        answer = ask_of(model, count=2)
    images = np.random.default_rng(0).random((2, 3, 512, 512), np.float32)
    (expected,) = session.run(None, {"image": images, "people": np.repeat(PERSON, 2, axis=0)})
    np.testing.assert_array_equal(answer.outputs[0], expected)
    assert answer.seconds > 0
    assert model.process is None


@linux
def test_all_guards_hold_here(honest):
    with runner.opened(honest, LIMITS) as model:
        held = {g.name for g in model.guards if g.holds}
        assert held >= {"memory", "CPU time", "files", "processes", "sockets", "freed memory"}
        assert model.unguarded == ()
        assert {gap.partition(":")[0] for gap in model.missing} <= {"cgroup"} | SECOND_WALL


@pytest.mark.parametrize("name", ["crash", "hang", "8 GB allocation"])
def test_what_a_model_does_to_its_process(name, tmp_path):
    make, verdict = models.HOSTILE[name]
    error = refusal(models.write(tmp_path / "m.onnx", make()), Limits(memory_mib=600, answer_seconds=1.5))
    assert error.verdict == verdict
    assert verdict != "hang" or error.why == "no answer within 1.5 s"


def test_a_name_that_is_no_text_is_refused(tmp_path):
    content = models.honest().SerializeToString().replace(b"people", b"p\xff\xfeple")
    assert refusal(models.write(tmp_path / "m.onnx", content), ask=False).verdict in ("fails", "not a model")


def test_memory_is_given_up_to_the_limit(tmp_path):
    path = models.write(tmp_path / "m.onnx", models.allocation(gigabytes=1))
    assert refusal(path, Limits(memory_mib=500)).verdict == "out of memory"
    with runner.opened(path, Limits(memory_mib=3000)) as model:
        assert ask_of(model).outputs[0].shape == (1, 10)


@linux
@pytest.mark.parametrize("act", ["fork_bomb", "shell", "network", "signal_the_parent"])
def test_a_process_that_was_taken_over_is_ended_when_it_reaches_out(act, honest):
    error = refusal(honest, entry=f"hostile_child:{act}", ask=False)
    assert (error.verdict, "ended" in error.why) == ("forbidden", True)


@linux
@pytest.mark.parametrize(
    ("act", "found"),
    [
        ("read_a_file", "PermissionError"),
        ("write_a_file", "PermissionError"),
        ("look_around", "0 variables"),
        ("memory", "MemoryError"),
    ],
)
def test_a_process_that_was_taken_over_finds_nothing(act, found, honest):
    with runner.opened(honest, LIMITS, entry=f"hostile_child:{act}") as model:
        assert model.takes[0].name == found


@pytest.mark.parametrize(
    ("act", "verdict"),
    [
        ("long_header", "forbidden"),
        ("deep_header", "forbidden"),
        ("much_to_say", "forbidden"),
        ("unknown_word", "forbidden"),
        ("leave", "crash"),
    ],
)
def test_nonsense_from_the_process_is_not_believed(act, verdict, honest):
    assert refusal(honest, entry=f"hostile_child:{act}", ask=False).verdict == verdict


def test_letters_that_steer_a_terminal_are_not_passed_on(honest):
    assert refusal(honest, entry="hostile_child:escape_codes", ask=False).why == "?[2Jgone"


@pytest.mark.slow
def test_computing_without_end_is_ended_by_the_clock_and_by_the_processor(honest):
    by_clock = refusal(honest, Limits(load_seconds=1), entry="hostile_child:spin", ask=False)
    assert (by_clock.verdict, by_clock.why) == ("hang", "no answer within 1 s")
    by_total = refusal(honest, Limits(total_seconds=1), entry="hostile_child:spin", ask=False)
    assert by_total.verdict == "hang"
    by_processor = refusal(honest, entry="hostile_child:spin_with_little_time", ask=False)
    assert (by_processor.verdict, "of computing" in by_processor.why) == ("hang", True)


def test_time_that_we_take_ourselves_is_not_the_model_s(honest):
    """Reading a large photograph between two questions must not make an honest model hang."""
    image, people = np.zeros((1, 3, 512, 512), np.float32), np.zeros((1, 3), np.float32)
    with runner.opened(honest, Limits(memory_mib=600, total_seconds=20)) as model:
        model.left = 1.0
        time.sleep(1.2)
        assert len(model.ask(image, people).outputs) == 1
        model.left = 0.0
        with pytest.raises(RefusedError, match="not done within 20 s"):
            model.ask(image, people)


@pytest.mark.parametrize("name", ["load_seconds", "answer_seconds", "total_seconds"])
@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0.0])
def test_limits_that_are_none_are_refused(name, seconds, honest):
    with pytest.raises(HandlensError, match=f"{name} is .*; expected a number above 0"):
        runner.opened(honest, Limits(**{name: seconds})).__enter__()


def test_a_file_that_is_cut_while_it_is_read_is_refused_at_once(honest, tmp_path, monkeypatch):
    path = tmp_path / "cut.onnx"
    path.write_bytes(honest.read_bytes())
    start = runner.ModelProcess

    def cut_and_start(*args, **options):
        os.truncate(path, 100)
        return start(*args, **options)

    monkeypatch.setattr(runner, "ModelProcess", cut_and_start)
    found = refusal(path, Limits(load_seconds=30), ask=False)
    assert (found.verdict, found.why) == ("not a model", "the file became shorter while it was read")


def test_a_file_that_is_exchanged_is_judged_as_it_was_when_it_was_opened(honest, tmp_path, monkeypatch):
    path = tmp_path / "exchanged.onnx"
    path.write_bytes(honest.read_bytes())
    start = runner.ModelProcess

    def exchange_and_start(*args, **options):
        (tmp_path / "other").write_bytes(b"no model")
        os.replace(tmp_path / "other", path)
        return start(*args, **options)

    monkeypatch.setattr(runner, "ModelProcess", exchange_and_start)
    with runner.opened(path, LIMITS) as model:
        assert model.size == honest.stat().st_size
        assert len(model.takes) == 2


def test_words_of_the_runtime_are_told_without_its_source(tmp_path):
    model = models.honest()
    model.opset_import[0].version = 999
    found = refusal(models.write(tmp_path / "new.onnx", model), ask=False)
    assert found.verdict == "not a model"
    assert "Opset 999 is under development" in found.why
    assert "onnxruntime_src" not in found.why


def test_a_process_that_cannot_start_is_our_fault_not_the_model_s(honest, monkeypatch):
    with (
        pytest.raises(HandlensError, match="does not start here") as caught,
        runner.opened(honest, LIMITS, entry="hostile_child:no_such_function"),
    ):
        pass
    assert not isinstance(caught.value, RefusedError)
    monkeypatch.setattr(runner, "START_SECONDS", 1)
    with (
        pytest.raises(HandlensError, match="does not start here"),
        runner.opened(honest, LIMITS, entry="hostile_child:silence"),
    ):
        pass


def test_nothing_is_left_behind(honest, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    with runner.opened(honest, LIMITS) as model:
        assert len(list(tmp_path.iterdir())) == 1
        process = model.process.popen.pid
    assert list(tmp_path.iterdir()) == []
    if before:
        assert set(os.listdir("/proc/self/fd")) == before
        assert not Path(f"/proc/{process}").exists()


@linux
def test_the_process_has_one_thread_and_goes_when_the_judge_is_killed(honest):
    """A judge that is killed cannot clean up: the kernel does."""
    code = f"""
import time
from pathlib import Path
from handlens.sandbox import runner
from handlens.types import Limits
with runner.opened(Path({str(honest)!r}), Limits()) as model:
    print(model.process.popen.pid, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as judge:
        try:
            child = Path("/proc") / judge.stdout.readline().strip()
            assert "Threads:\t1\n" in (child / "status").read_text()
            assert int((child / "stat").read_text().split()[5]) == int(child.name)  # the leader of its own session
            family = [child, *descendants(child)]
        finally:
            judge.kill()
    for _ in range(200):
        if not any(is_running(each) for each in family):
            return
        time.sleep(0.05)
    raise AssertionError("still there")


def is_running(process):
    try:
        return "State:\tZ" not in (process / "status").read_text()
    except OSError:
        return False


def descendants(process):
    """Its children and theirs."""
    for name in (process / "task" / process.name / "children").read_text().split():
        yield process.parent / name
        yield from descendants(process.parent / name)


@linux
def test_the_second_wall_stands_by_itself(honest):
    """Without the filter of system calls: no file, no network, no other process, where namespaces are allowed."""
    with runner.opened(honest, LIMITS, entry="hostile_child:behind_the_filter") as model:
        if not {"process ids", "file tree"} <= {guard.name for guard in model.guards if guard.holds}:
            pytest.skip(f"no such namespaces here: {model.missing}")
        assert model.takes[0].name == "process 2, parent 1, 0 files, FileNotFoundError, OSError, OSError"


def test_a_new_process_has_forgotten_and_the_file_must_be_the_same(tmp_path):
    path = models.write(tmp_path / "m.onnx", models.constant_when_not_tested(calls=1))
    with runner.opened(path, LIMITS, entry="hostile_child:without_reader") as model:
        first, second = ask_of(model), ask_of(model)
        assert np.abs(first.outputs[0] - second.outputs[0]).max() > 0.01
        model.restart()
        np.testing.assert_array_equal(ask_of(model).outputs[0], first.outputs[0])
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(RefusedError, match="the file was changed while it was judged|not a model"):
            model.restart()


@linux
def test_nothing_of_an_earlier_question_is_found_in_memory(tmp_path):
    """The model reads what an operator did not fill; in plain ONNX Runtime its second answer is another."""
    import onnxruntime

    path = models.write(tmp_path / "m.onnx", models.counting_in_memory())
    question = {"image": np.zeros((1, 3, 512, 512), np.float32), "people": PERSON}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    plain = [session.run(None, question)[0] for _ in range(4)]
    assert any(not np.array_equal(plain[0], other) for other in plain[1:]), "the model is no threat any more"
    with runner.opened(path, LIMITS) as model:
        answers = [model.ask(*question.values()).outputs[0] for _ in range(4)]
    assert all(np.array_equal(answers[0], other) for other in answers[1:])


@linux
def test_memory_that_is_not_cleared_is_found_and_told():
    found = guard.check_freed_memory()  # nobody has asked for it in this process
    assert (found.holds, found.how) == (False, "is not cleared by this system's C library")


@linux
def test_aligned_memory_that_is_not_cleared_is_found_too(monkeypatch):
    """ONNX Runtime takes the memory of tensors from `posix_memalign`."""
    real = ctypes.CDLL(None)
    real.calloc.restype, real.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]

    class Library:
        free, posix_memalign = real.free, real.posix_memalign

        @staticmethod
        def malloc(size):
            return real.calloc(1, size)

    monkeypatch.setattr(guard.ctypes, "CDLL", lambda _: Library)
    assert not guard.check_freed_memory().holds


@linux
def test_memory_is_cleared_as_the_locked_process_asks_for():
    told = "from handlens.sandbox import guard; print(guard.check_freed_memory())"
    done = subprocess.run([sys.executable, "-c", told], env=process.ENVIRONMENT, capture_output=True, text=True)
    assert "holds=True" in done.stdout, done.stderr


@pytest.mark.parametrize("held", ["waiting", "asking"])
def test_a_forgotten_model_takes_no_lock(held, honest):
    """The garbage collector ends it in any thread, also in one that holds what a lock would be waited for."""
    model = runner.open_for_good(honest, LIMITS)
    popen, process = model.process.popen, Path(f"/proc/{model.process.popen.pid}")
    lock = popen._waitpid_lock if held == "waiting" else threading.Lock()
    cycle = [model]
    cycle.append(cycle)  # so that only the garbage collector finds it
    done = threading.Event()

    def collect():
        with lock:
            gc.collect()
        done.set()

    del model, cycle
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    assert done.wait(60), "a deadlock"
    thread.join(10)
    assert popen.returncode == -signal.SIGKILL
    assert not is_running(process)


def test_control_groups_are_used_where_they_are_handed_on(tmp_path):
    """A folder in place of the kernel's: which files are written, and with what."""
    (tmp_path / "mounts").write_text(f"30 23 0:26 / {tmp_path}/cg rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "own").write_text("1:name=systemd:/\n0::/user/me\n")
    places = {"mounts": tmp_path / "mounts", "own": tmp_path / "own"}
    assert not process.join_cgroup(1, memory_mib=100, **places)[1].holds
    group = tmp_path / "cg" / "user" / "me"
    group.mkdir(parents=True)
    (group / "cgroup.subtree_control").write_text("cpu pids\n")
    found, guard_ = process.join_cgroup(1, memory_mib=100, **places)
    assert (found, guard_.how) == (None, "no memory handed on to groups of ours")
    (group / "cgroup.subtree_control").write_text("memory pids\n")
    found, guard_ = process.join_cgroup(1, memory_mib=100, **places)
    assert (found, guard_.holds) == (None, False)  # the kernel would have put its files into the new folder
    assert [path.name for path in group.iterdir()] == ["cgroup.subtree_control"]


def test_limits_of_a_control_group_are_written(tmp_path, monkeypatch):
    (tmp_path / "mounts").write_text(f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    written = {}
    monkeypatch.setattr(process, "_write", lambda path, number: written.update({path.name: number}))
    found, guard_ = process.join_cgroup(77, memory_mib=100, mounts=tmp_path / "mounts", own=tmp_path / "own")
    assert guard_ == guard.Guard("cgroup", True, "100 MiB and 4 processes")
    assert written["memory.max"] == (100 + process.IDLE_MIB) * 2**20
    assert (written["pids.max"], written["cgroup.procs"]) == (4, 77)
    process._remove_cgroup(found)
    assert not found.exists()


@linux
def test_what_this_machine_cannot_prevent_is_told(honest):
    with runner.opened(honest, LIMITS, entry="hostile_child:without_network_of_its_own") as model:
        assert model.unguarded == ()  # no sockets, so no network
    with runner.opened(honest, LIMITS, entry="hostile_child:without_filter") as model:
        assert [gap.partition(":")[0] for gap in model.unguarded][:3] == ["files", "processes", "sockets"]


@pytest.mark.parametrize("kind", ["folder", "nothing", "pipe", "large"])
def test_what_is_no_file_is_refused(kind, tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b"12")
        monkeypatch.setattr(runner, "MAX_MODEL_MIB", 1e-6)
    assert refusal(path, ask=False).verdict == ("too large" if kind == "large" else "not a model")


def test_arrays_travel():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([], np.int64), np.array(True)]
    for found, sent in zip(unpack_arrays(*pack_arrays(arrays)), arrays, strict=True):
        np.testing.assert_array_equal(found, sent)


@pytest.mark.parametrize(
    "described",
    [
        None,
        {},
        [["<f4"]],
        [["<f4", [3]]],
        [["O", [1]]],
        [["<f4,<f4", [1]]],
        [["<f4", [-1]]],
        [["<f4", [2**40]]],
        [["<f4", [1] * 9]],
        [["<f4", [True]]],
        [["<f4", "1"]],
        [[["<f4"], [1]]],
    ],
)
def test_arrays_that_do_not_fit_are_refused(described):
    with pytest.raises(ValueError, match="numbers|bytes"):
        unpack_arrays(described, b"\0" * 8)


@linux
def test_the_filter_lets_nothing_through_that_it_ends():
    for _, _, allowed, fatal in guard.CALLS.values():
        assert not set(allowed.values()) & set(fatal.values())
        assert len(set(allowed.values())) == len(allowed)
        assert {"clone", "clone3", "execve", "socket"} <= set(fatal)


@linux
@pytest.mark.parametrize(
    ("machine", "header"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_the_numbers_of_calls_are_the_kernel_s(machine, header):
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip("the kernel's headers are not here")
    numbers = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    }
    _, seccomp, allowed, fatal = guard.CALLS[machine]
    assert {"seccomp": seccomp, **allowed, **fatal}.items() <= numbers.items()
