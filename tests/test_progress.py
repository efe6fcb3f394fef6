"""Progress: a bar in terminals and notebooks, a plain line now and then in a log."""

import sys
import time
from html import escape
from types import SimpleNamespace

import pytest

import handlens
from handlens import progress
from handlens.errors import printable
from handlens.types import no_progress


class ZMQInteractiveShell:
    """What IPython runs in under Jupyter."""


@pytest.fixture
def notebook(monkeypatch):
    """Jupyter's place for what a cell shows: what was drawn there, one after the other."""
    drawn = []

    def display(shown, *, display_id):
        assert display_id
        drawn.append(shown._repr_html_())
        return SimpleNamespace(update=lambda shown: drawn.append(shown._repr_html_()))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return drawn


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


def test_a_log_has_lines_while_nothing_is_told(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    with progress.bar("cells") as show:
        show(0, 1, "reading slide")
        time.sleep(1)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 6  # after 0.05 s, 0.1 s more, 0.2 s more ...
    assert all(line.startswith("cells: 0 of 1, reading slide, ") for line in lines)
    assert all(line.endswith(" s so far") for line in lines)


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


def test_a_bar_is_drawn_in_a_notebook(notebook, capsys, clock):
    with progress.bar("cells") as show:
        for done in range(1, 5):
            show(done, 8, "<half way>")
            clock.now += 5
        show(8, 8, "done")
    assert 'value="0"' in notebook[0]
    assert 'value="4" max="8"' in notebook[-3]
    assert "cells 4/8, 0:15 elapsed, 0:20 left, &lt;half way&gt;" in notebook[-3]
    assert "cells 8/8, 0:20 elapsed, done" in notebook[-1]
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_a_bar_is_not_drawn_at_every_call(notebook, clock):
    with progress.bar("cells") as show:
        for done in range(1000):
            show(done, 1000)
            clock.now += 0.001
    assert len(notebook) < 10


def test_where_jupyter_is_built_upon_there_is_a_bar_too(monkeypatch):
    class Shell(ZMQInteractiveShell):
        """As Colab has."""

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    assert progress.in_notebook()


@pytest.mark.slow
def test_a_real_notebook_shows_a_bar_and_no_warning():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    code = "from handlens.progress import bar\nwith bar('cells') as show:\n    show(1, 2)\n    show(2, 2)"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (output,) = book.cells[0].outputs
    assert '<progress value="2" max="2"' in output.data["text/html"]
    assert output.data["text/plain"].startswith("cells 2/2")


@pytest.mark.parametrize("name", ["a[/b].png", "[red]a.png", "{0}.png", "a\x1b[2J.png", "a\nb.png", "\udcff.png"])
def test_a_name_in_a_bar_is_shown_as_it_is_and_steers_no_terminal(notebook, capsys, name, clock):
    with progress.bar("cells") as show:
        show(1, 2, name)
    assert escape(printable(name)) in notebook[-1]
    assert "\x1b" not in notebook[-1]
    assert capsys.readouterr().out == ""


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
