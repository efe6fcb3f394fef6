"""Settings for every test, and where the real data lies."""

import os
import shutil
import signal
import tempfile
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

GRAPHS = "HANDLENS_TRACED_GRAPHS"  # for `traced_graphs`, which loads torch and so is not imported here


def pytest_configure(config):
    if GRAPHS not in os.environ:  # not in a worker
        os.environ[GRAPHS] = config.handlens_graphs = tempfile.mkdtemp(prefix="handlens-graphs-")


def pytest_unconfigure(config):
    if hasattr(config, "handlens_graphs"):
        shutil.rmtree(os.environ.pop(GRAPHS), ignore_errors=True)


REAL_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def real_data():
    """The folder of real images, which is not part of the project."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data is not here ({REAL_DATA})")
    return REAL_DATA
