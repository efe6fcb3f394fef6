"""Values made by another thread: in order, not too many, with their errors, and the thread ends when nobody asks."""

import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from handlens.inference.prefetch import WaitTime, prefetch

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_values_come_in_order_and_come_to_an_end():
    values = [None, (), ValueError("a value, not an error"), *range(50)]
    assert list(prefetch(lambda _ended: values, room=2)) == values
    assert list(prefetch(lambda _ended: (), room=1)) == []


def test_they_are_made_by_another_thread():
    (maker,) = prefetch(lambda _ended: (threading.current_thread() for _ in range(1)), room=1)
    assert maker is not threading.current_thread()


def test_no_more_are_made_than_there_is_room_for():
    made = []
    full = threading.Event()

    def make(_ended):
        for number in range(100):
            made.append(number)
            if number == 4:
                full.set()
            yield number

    with closing(prefetch(make, room=3)) as ahead:
        assert next(ahead) == 0
        assert full.wait(PATIENCE)
        time.sleep(0.02)
        assert made == [0, 1, 2, 3, 4]  # one was taken, three lie ready, one waits for room


def test_what_the_maker_raises_is_raised_after_what_it_made():
    def make(_ended):
        yield from (1, 2)
        raise ZeroDivisionError("in the thread")

    ahead = prefetch(make, room=1)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        next(ahead)


def test_what_is_raised_before_the_first_value_arrives_too():
    def make(_ended):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(prefetch(make, room=1))


@pytest.mark.parametrize("taken", [1, 3])
def test_closing_early_ends_the_thread_that_waits_for_room(taken):
    made = []
    ahead = prefetch(lambda _ended: (made.append(number) or number for number in range(1000)), room=2)
    assert [next(ahead) for _ in range(taken)] == list(range(taken))
    ahead.close()
    assert len(made) <= taken + 3


def test_a_slow_maker_is_told_that_no_more_is_wanted():
    heard = []

    def make(ended):
        yield 1
        heard.append(ended.wait(PATIENCE))

    ahead = prefetch(make, room=1)
    assert next(ahead) == 1
    ahead.close()
    assert heard == [True]


class Clock:
    """Moves on by one second each time somebody looks at it."""

    now = 0.0

    def perf_counter(self):
        self.now += 1
        return self.now


def test_only_waiting_is_measured(monkeypatch):
    clock, waiting = Clock(), WaitTime()
    monkeypatch.setattr("handlens.inference.prefetch.time", clock)
    for _value in prefetch(lambda _ended: range(3), room=3, waiting=waiting):
        clock.now += 1000  # the value is being used
    assert waiting.seconds == 4  # three values and the end, a second each
    assert clock.now > 3000


def test_torch_is_not_needed():
    code = "import sys, handlens.inference.prefetch; assert not {'torch', 'numpy'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
