"""Progress: a bar in terminals and notebooks, a plain line now and then in a log."""

import sys
from types import SimpleNamespace

import pytest

import handlens
from handlens import progress
from handlens.types import no_progress


class ZMQInteractiveShell:
    """What IPython runs in under Jupyter."""


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_log_has_a_line_now_and_then(capsys, clock):
    with progress.bar("cells") as show:
        for done in range(61):
            show(done, 60)
            clock.now += 1
    assert capsys.readouterr().err.splitlines() == [f"cells: {done} of 60" for done in range(10, 61, 10)]


def test_words_come_with_the_time_that_is_left(capsys, clock):
    with progress.bar("ink") as show:
        show(40, 100, "loss 0.5")  # done by a run before this one
        clock.now += 60
        show(50, 100, "loss 0.4")
        clock.now += 1
        show(51, 100, "loss 0.3")
    assert capsys.readouterr().err == "ink: 50 of 100, 5 min left, loss 0.4\n"


def test_a_short_work_says_nothing(capsys, clock):
    with progress.bar("cells") as show:
        show(0, 2)
        show(2, 2)
    assert capsys.readouterr().err == ""


def test_a_notebook_is_known(notebook):
    assert progress.in_notebook()


@pytest.mark.parametrize("shell", [None, SimpleNamespace(get_ipython=lambda: None)])
def test_other_places_are_no_notebooks(monkeypatch, shell):
    if shell is None:
        monkeypatch.delitem(sys.modules, "IPython", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "IPython", shell)
    assert not progress.in_notebook()


def test_a_bar_is_drawn_in_a_notebook(notebook, capsys):
    with progress.bar("cells") as show:
        show(1, 2, "half way")
        show(2, 2, "done")
    shown = capsys.readouterr()
    assert "cells" in shown.out
    assert "2/2" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize("name", ["a[/b].png", "[red]a.png", "{0}.png", "a\x1b[2J.png", "a\nb.png", "\udcff.png"])
def test_a_name_in_a_bar_is_shown_as_it_is_and_steers_no_terminal(notebook, capsys, name, clock):
    with progress.bar("cells") as show:
        show(1, 2, name)
    assert name.encode("unicode_escape").decode().replace("\\\\", "\\") in capsys.readouterr().out.replace("\n", "")


def test_a_name_in_a_log_steers_no_terminal(capsys, clock):
    with progress.bar("cells") as show:
        clock.now += 60
        show(1, 2, "a\x1b[2J\n.png")
    assert capsys.readouterr().err.endswith("a\\x1b[2J\\n.png\n")


def test_functions_show_a_bar_in_notebooks_alone(notebook, monkeypatch):
    with handlens._progress("cells", None) as shown:
        assert shown is not no_progress
    mine = lambda *_: None  # noqa: E731
    with handlens._progress("cells", mine) as shown:
        assert shown is mine
    monkeypatch.delitem(sys.modules, "IPython")
    with handlens._progress("cells", None) as shown:
        assert shown is no_progress
