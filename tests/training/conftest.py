"""Synthetic slides for trainings that take seconds."""

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

from handlens import pipeline, registry


@pytest.fixture(scope="session")
def slides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=4, size=96)
    return folder


@pytest.fixture(autouse=True)
def one_thread():
    """As the workers of the tests have."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
