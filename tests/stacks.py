"""What the tests of slice stacks have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlens.errors import DataError
from handlens.io import volumes


def make_volume(depth: int = 7, height: int = 50, width: int = 61, dtype: Any = np.uint16) -> Any:
    """Noise of all values that there are."""
    top = np.iinfo(dtype).max
    return np.random.default_rng(0).integers(0, top, (depth, height, width), dtype, endpoint=True)


def refusal(folder: Path) -> str:
    """What is said of a stack that cannot be opened; looking for its problems finds the same."""
    found = volumes.problems(folder)
    assert found
    with pytest.raises(DataError) as caught:
        volumes.open_stack(folder)
    assert str(found[0]) in str(caught.value)
    return str(caught.value)
