"""What the tests of data folders have in common."""

from pathlib import Path

import pytest

from handlens.errors import DataError, Problem
from handlens.types import Challenge


def only_problem(challenge: Challenge, folder: Path) -> Problem:
    """The one problem that a folder has."""
    problems = challenge.survey(folder).problems
    assert len(problems) == 1, problems
    return problems[0]


def refused_solution(challenge: Challenge, file: Path, text: str, *, opened: Path) -> str:
    """What is said of a solution with this text when the truth of `opened`, the file or its folder, is asked for."""
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        challenge.open_truth(opened, challenge.settings())
    assert caught.value.file == file
    return str(caught.value)


def cut(path: Path, size: int = 99) -> None:
    """Truncate a file."""
    path.write_bytes(path.read_bytes()[:-size])
