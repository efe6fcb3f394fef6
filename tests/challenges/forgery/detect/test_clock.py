"""The clock: it counts work, refuses after the time, and remembers whom it refused."""

import time

import pytest

from handlens.challenges.forgery.detect.clock import Clock


def started(seconds, used):
    """A clock of which so many seconds are used."""
    return Clock(seconds, start=time.thread_time() - used)


def test_it_allows_before_the_time_and_refuses_after_it():
    assert started(10, used=9).allows("objects")
    assert not started(10, used=11).allows("objects")
    assert not Clock(0).allows("objects")


@pytest.mark.parametrize(("used", "allowed"), [(2, True), (4, False), (20, False)])
def test_a_tier_may_get_a_share_alone(used, allowed):
    assert started(10, used=used).allows("panels", share=0.3) == allowed


def test_it_remembers_each_tier_that_was_refused_once():
    clock = started(10, used=5)
    assert clock.allows("objects")
    assert clock.cut == []
    assert not clock.allows("panels", share=0.3)
    assert not clock.allows("panels", share=0.2)
    assert clock.cut == ["panels"]
    late = started(1, used=2)
    assert not any(late.allows(tier) for tier in ("panels", "key points", "panels"))
    assert late.cut == ["panels", "key points"]


def test_waiting_costs_nothing_and_work_does():
    clock = Clock(10)
    before = clock.left
    time.sleep(0.05)
    assert before - clock.left < 0.04
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    assert before - clock.left >= 0.05


def test_clocks_do_not_share_what_was_cut():
    Clock(0).allows("objects")
    assert Clock(0).cut == []
