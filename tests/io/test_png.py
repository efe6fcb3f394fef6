"""PNG written in bands: Pillow reads what was given, and a file that is not whole is not there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from handlens.io.png import write_bands


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 17), st.sampled_from(["bool", "grey", "rgb"]))
def test_what_is_written_is_read(tmp_path_factory, height, width, rows, kind):
    rng = np.random.default_rng([height, width])
    image = rng.integers(0, 256, (height, width, 3) if kind == "rgb" else (height, width), np.uint8)
    image = image > 127 if kind == "bool" else image
    path = tmp_path_factory.mktemp("png") / "a.png"
    write_bands(path, (height, width), (image[top : top + rows] for top in range(0, height, rows)))
    with Image.open(path) as found:
        found.verify()
    with Image.open(path) as found:
        assert found.mode == {"bool": "1", "grey": "L", "rgb": "RGB"}[kind]
        assert np.array_equal(np.asarray(found), image)


def test_missing_rows_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="3 rows of 4"):
        write_bands(tmp_path / "a.png", (4, 5), [np.zeros((3, 5), np.uint8)])
    assert list(tmp_path.iterdir()) == []
