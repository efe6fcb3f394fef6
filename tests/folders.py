"""What the tests of data folders have in common."""

from pathlib import Path

from handlens.errors import Problem
from handlens.types import Challenge


def only_problem(challenge: Challenge, folder: Path) -> Problem:
    """The one problem that a folder has."""
    problems = challenge.inspect(folder).problems
    assert len(problems) == 1, problems
    return problems[0]


def cut(path: Path, size: int = 99) -> None:
    """Truncate a file."""
    path.write_bytes(path.read_bytes()[:-size])
