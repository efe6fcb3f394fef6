"""Settings for every test, and where the real data lies."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("handlens", deadline=None)  # the first call imports libraries; the machine is shared
settings.load_profile("handlens")

# a shell starts what runs in the background with Ctrl-C ignored, and children would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)

# programs that tests start elsewhere must find the same sources
if "PYTHONPATH" in os.environ:
    os.environ["PYTHONPATH"] = os.pathsep.join(
        os.path.abspath(path) for path in os.environ["PYTHONPATH"].split(os.pathsep)
    )

REAL_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def real_data():
    """The folder of real images, which is not part of the project."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data is not here ({REAL_DATA})")
    return REAL_DATA
