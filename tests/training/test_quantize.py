"""A smaller file answers nearly the same, and stays one file of plain operators."""

import numpy as np
import pytest
import torch
from torch import nn

from handlens.inference.session import Session
from handlens.training import quantize
from handlens.training.export import export
from handlens.training.quantize import as_half, as_int8
from handlens.training.task import Graph


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.last = nn.Linear(16, 5)

    def forward(self, image):
        return torch.softmax(self.last(torch.relu(self.first(image)).mean((2, 3))), 1)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(quantize, "LEAST", 64)  # this network is small
    torch.manual_seed(0)
    image = np.random.default_rng(0).random((2, 3, 16, 16), np.float32)
    graph = Graph(Small(), {"image": image}, "probability", {"image": {0: ("count", 1)}})
    export(graph, tmp_path / "model.onnx", facts={"challenge": "lesions"})
    return tmp_path / "model.onnx", image


def facts_of(path):
    import onnx

    return {each.key: each.value for each in onnx.load(path).metadata_props}


def test_halves(file):
    path, image = file
    size, (before,) = path.stat().st_size, Session(path, threads=1)(image=image)
    change = as_half(path, iter([{"image": image}]))
    (after,) = Session(path, threads=1)(image=image)
    assert after.dtype == np.float32
    assert 0 < change == np.abs(after - before).max() < 1e-3
    assert path.stat().st_size < size
    assert facts_of(path) == {"challenge": "lesions"}


def test_halves_that_change_an_answer_are_not_stored(file, monkeypatch):
    path, image = file
    content = path.read_bytes()
    monkeypatch.setattr(quantize, "MOST_CHANGE", 0.0)
    assert as_half(path, iter([{"image": image}])) > 0
    assert path.read_bytes() == content


def test_integers(file):
    path, image = file
    (before,) = Session(path, threads=1)(image=image)
    as_int8(path, iter([{"image": image}, {"image": 1 - image}]))
    (after,) = Session(path, threads=1)(image=np.concatenate([image, image]))
    assert after.shape == (4, 5)
    assert 0 < np.abs(after[:2] - before).max() < 0.02
    assert facts_of(path) == {"challenge": "lesions"}
    import onnx

    model = onnx.load(path)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in model.graph.node}
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
