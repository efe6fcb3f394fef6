"""The exported file: any size, preparation inside, equal to torch or not there."""

import numpy as np
import pytest
import tiny_training
import torch
import traced_graphs

from handlens.challenges.cells.network import LightUNet
from handlens.challenges.cells.training import graph
from handlens.errors import ModelError
from handlens.inference.session import open_segmenter
from handlens.training import export as exporting
from handlens.training.encoders import make_encoder
from handlens.training.export import export

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The real network with random weights, traced here and exported."""
    torch.manual_seed(0)
    network = LightUNet(make_encoder("lite0", "scratch")).eval()
    path = tmp_path_factory.mktemp("export") / "model.onnx"
    with pytest.MonkeyPatch.context() as patch:
        traced_graphs.untraced(patch)
        return network, path, export(graph(network), path, facts={"challenge": "cells"})


def test_any_number_and_size_in_steps_of_32(exported):
    network, path, difference = exported
    assert difference < 1e-4
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["count", "height", "width", 3]
    assert session.get_outputs()[0].shape == ["count", "height", "width"]
    assert session.get_modelmeta().custom_metadata_map == {"challenge": "cells"}
    for shape in ((1, 32, 32), (3, 96, 32), (1, 160, 256)):
        image = np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8)
        (said,) = session.run(["probability"], {"image": image})
        with torch.inference_mode():
            meant = network(torch.from_numpy(image)).sigmoid().numpy()
        assert said.shape == shape
        assert np.abs(said - meant).max() < 1e-4


def test_it_is_the_file_that_prediction_wants(exported):
    _, path, _ = exported
    said = open_segmenter(path, threads=1)(np.zeros((64, 32, 3), np.uint8))
    assert said.dtype == np.float32
    assert path.stat().st_size < 20e6


def test_it_does_not_say_where_it_was_made(exported):
    content = exported[1].read_bytes()
    assert b"networks.py" not in content
    assert b"forward" not in content


def test_a_file_that_differs_never_takes_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
    (tmp_path / "model.onnx").write_text("old")
    with pytest.raises(ModelError, match="torch and ONNX differ by"):
        export(graph(tiny_training.Tiny(0.0)), tmp_path / "model.onnx", facts={})
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text() == "old"
