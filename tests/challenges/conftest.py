"""A sound data folder to break, for the tests of every challenge."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy of the module's sound folder."""
    return shutil.copytree(sound, tmp_path / "data")
