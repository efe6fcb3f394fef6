"""Graphs of traced networks, shared by all processes of one run of the tests.

Tracing costs up to 18 seconds of processor, and every worker and every training in a process of its own would trace the
same networks again. `export` compares each file with torch, so a graph that does not fit is traced anew, as it is between
two trainings of one process. Tests of tracing itself take `untraced`.
"""

import os
from collections.abc import MutableMapping
from hashlib import sha256
from pathlib import Path

from handlens.io.files import replacing
from handlens.training import export

FOLDER = "HANDLENS_TRACED_GRAPHS"
"""The variable of the environment that names the folder; `conftest.py` makes one for each run of the tests."""


class SharedGraphs(MutableMapping):
    """A graph a file, by what the network is made of; forgets none."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def _file(self, make):
        return self.folder / sha256(make.encode()).hexdigest()

    def __getitem__(self, make):
        try:
            return self._file(make).read_bytes()
        except FileNotFoundError:
            raise KeyError(make) from None

    def __setitem__(self, make, graph):
        with replacing(self._file(make)) as temporary:
            temporary.write_bytes(graph)

    def __delitem__(self, make):
        self._file(make).unlink()

    def __iter__(self):
        raise NotImplementedError("names of files do not say what they were made of")

    def __len__(self):
        return len(os.listdir(self.folder))


def share():
    """Let `export` use the graphs of all processes; nothing where no tests run."""
    if FOLDER in os.environ:
        export._TRACED = SharedGraphs(os.environ[FOLDER])
        export.MOST_TRACED = 1000


def untraced(monkeypatch):
    """Let `export` know no graph at all."""
    monkeypatch.setattr(export, "_TRACED", {})
