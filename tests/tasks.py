"""What the tests let other processes do; these import it by name."""

import os
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass
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
