"""What the tests let other processes do; these import it by name."""

import os
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from handlens.errors import DataError, HandlensError, ModelError, Problem, SubmissionError
from handlens.masks.rle import EMPTY
from handlens.types import ALONE, Effort, Prediction

LONG = 600.0
"""Seconds that a long item takes: nobody may wait for it."""


class OddError(HandlensError):
    """An error that cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class ForeignError(Exception):
    """The same, not the input's fault."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


ERRORS = {
    "data": DataError("not a picture", file=Path("a/b.png")),
    "submission": SubmissionError("mine.csv", [Problem("odd", line=3)]),
    "model": ModelError("cannot answer"),
    "odd": OddError(1, 2),
    "foreign": ZeroDivisionError("division by zero"),
    "odd foreign": ForeignError(1, 2),
}


def count_kept():
    from handlens.inference import cluster_worker

    return len(cluster_worker._KEPT)


def make_square():
    return square


def square(number):
    return number * number


def make_counter():
    """How many calls this process had."""
    calls = []

    def count(item):
        calls.append(item)
        time.sleep(0.01)
        return os.getpid(), len(calls)

    return count


def make_threads():
    return threads


def threads(item):
    import cv2

    return cv2.getNumThreads(), os.environ["OMP_NUM_THREADS"]


def make_deaf():
    return deaf


def deaf(item):
    """Whether Ctrl-C is held back in this process since it started."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def make_trouble():
    return trouble


def trouble(item):
    """Do what the item says: raise an error, or end the process in some way."""
    if item in ERRORS:
        raise ERRORS[item]
    if item == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "exit":
        os._exit(3)
    if item == "lambda":
        return lambda: None
    if item == "long":
        time.sleep(LONG)
    return item


def make_nothing():
    raise ModelError("no model today")


@dataclass(frozen=True)
class Staged:
    """A predictor that answers nothing, slowly, and has trouble with some cases while a file `trouble` is there."""

    folder: Path
    seconds: float = 0.0
    troubles: tuple = ()
    model: None = None

    def load(self, context, /):
        with (self.folder / "loaded").open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        return self

    def decode(self, case, /):
        return nullcontext(case)

    def predict(self, case, work=ALONE, /):
        (self.folder / f"asked-{case.id}-{os.getpid()}").touch()
        time.sleep(self.seconds)
        if (self.folder / "trouble").exists():
            trouble(dict(self.troubles).get(case.id))
        return Prediction(EMPTY)

    def __call__(self, value, /):
        return self.predict(value).answer


def two_efforts(predictor):
    return [Effort("half", 0.5, predictor), Effort("whole", 1.0, predictor)]


# --- for executors: `make` is given a folder ----------------------------------------------------------------------


def make_there(make, folder):
    """A function of the above for an executor."""
    return make()


def make_writer(folder):
    return partial(write_item, folder)


def write_item(folder, item):
    """Leave files for an item, one of them in a folder of its own; the result tells the process."""
    (folder / "deep" / f"{item}").mkdir(parents=True, exist_ok=True)
    (folder / "deep" / f"{item}" / "bytes").write_bytes(bytes(range(item)))
    (folder / f"{item}.txt").write_text(f"item {item}")
    return os.getpid()


def make_unreliable(stage, folder):
    return partial(be_unreliable, stage)


def be_unreliable(stage, item):
    """Die, hang or run out of disk as `item`, a pair of a number and a word, says; each call leaves a mark."""
    number, word = item
    time.sleep(0.01)
    with (stage / f"asked-{number}").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    first = len((stage / f"asked-{number}").read_text().splitlines()) == 1
    if word == "poison" or (word == "die once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "full" and os.environ.get("HANDLENS_TEST_DISK") == "full":
        Path("/dev/full").write_text("no room")
    if os.environ.get("HANDLENS_TEST_SLOW"):
        time.sleep(0.3)
    if word == "wait":
        wait = stage / "go"
        while not wait.exists():
            time.sleep(0.01)
    return number * number


def make_session(session, folder):
    return lambda item: (session.path.name, session.threads)


def open_payload(payload):
    """What a worker makes of a packed session."""
    import pickle

    _, content = pickle.loads(payload)
    return pickle.loads(content)(None)(None)
