"""A trained network as one ONNX file with its preprocessing, compared with torch before it is used."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from handlens.errors import ModelError
from handlens.io.files import replacing
from handlens.training.task import Array, Graph

OPSET = 18
"""Version of the operators: old enough for engines of the last years."""

TOLERANCE = 1e-3
"""Largest difference between torch and ONNX Runtime that rounding explains, for probabilities."""


def export(graph: Graph, path: Path, *, facts: Mapping[str, str]) -> float:
    """Write the file, with `facts` as its metadata; gives the largest difference from torch, at two sizes.

    A file that differs by more than rounding never takes its place. Tracing a network takes ten times as long as the
    rest, so its graph is kept, and the next network of the same make only has its weights put in.
    """
    network = graph.module.cpu().eval()
    with replacing(path) as temporary:
        for traced in (True, False) if _make_of(network, graph) in _TRACED else (False,):
            with suppress_warnings():
                _write(network, graph, temporary, facts, traced=traced)
            worst = max(_difference(network, inputs, graph.output, temporary) for inputs in _two_sizes(graph))
            if worst <= TOLERANCE:
                break
        else:
            raise ModelError(f"{path}: torch and ONNX differ by {worst:.2g}: please report this, with the versions")
    return worst


_TRACED: dict[str, bytes] = {}
"""Graphs as they were traced, before any optimisation, by what the network is made of; the last few."""

MOST_TRACED = 4


def _make_of(network: nn.Module, graph: Graph) -> str:
    """What two networks have in common whose graphs differ in weights alone; what it misses, the comparison finds."""
    shapes = {name: (tuple(value.shape), str(value.dtype)) for name, value in network.state_dict().items()}
    inputs = {name: (values.shape, str(values.dtype)) for name, values in graph.inputs.items()}
    return f"{network}\n{shapes}\n{inputs}\n{graph.output}"


def _write(network: nn.Module, graph: Graph, path: Path, facts: Mapping[str, str], *, traced: bool) -> None:
    import onnx
    from onnxscript import ir, optimizer

    make = _make_of(network, graph)
    if not traced:
        while len(_TRACED) >= MOST_TRACED:
            _TRACED.pop(next(iter(_TRACED)))
        _TRACED[make] = _trace(network, graph)
    model = onnx.load_from_string(_TRACED[make])
    _put_weights(model, network)
    optimised = ir.from_proto(model)
    optimizer.optimize_ir(optimised)
    model = ir.to_proto(optimised)
    strip_source_locations(model)
    _name_axes(model, graph)
    for name, fact in facts.items():
        model.metadata_props.add(key=name, value=fact)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def _put_weights(model: Any, network: nn.Module) -> None:
    """Replace every weight and statistic of a traced graph by the network's own."""
    from onnx import numpy_helper

    weights = network.state_dict()
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name].detach().numpy(), tensor.name))


def _trace(network: nn.Module, graph: Graph) -> bytes:
    """The network's graph, without optimisation, so that weights have the names they have in torch."""
    sizes = {name: torch.export.Dim(f"{name}_parts") for axes in graph.dynamic.values() for name, _ in axes.values()}
    shapes = tuple(
        {axis: sizes[name] * multiple if multiple > 1 else sizes[name] for axis, (name, multiple) in axes.items()}
        for axes in graph.dynamic.values()
    )
    program = torch.onnx.export(
        network,
        tuple(torch.from_numpy(values) for values in graph.inputs.values()),
        dynamo=True,
        dynamic_shapes=shapes,
        input_names=list(graph.inputs),
        output_names=[graph.output],
        opset_version=OPSET,
        optimize=False,
        verbose=False,
    )
    if program is None:
        raise ModelError("torch did not export the network")
    content: bytes = program.model_proto.SerializeToString()
    return content


def strip_source_locations(model: Any) -> None:
    """Remove what torch notes about every operator: the lines of code, and so the folders, that it came from."""
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""


def _name_axes(model: Any, graph: Graph) -> None:
    """Plain names instead of torch's formulas, such as `32*height_parts`, for inputs and output."""
    plain = {
        f"{multiple}*{name}_parts" if multiple > 1 else f"{name}_parts": name
        for axes in graph.dynamic.values()
        for name, multiple in axes.values()
    }
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = plain.get(size.dim_param, size.dim_param)


def _difference(network: nn.Module, inputs: Mapping[str, Array], output: str, path: Path) -> float:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (said,) = session.run([output], dict(inputs))
    with torch.inference_mode():
        meant = network(*(torch.from_numpy(values) for values in inputs.values())).numpy()
    return float(np.abs(said - meant).max()) if said.shape == meant.shape else float("inf")


def _two_sizes(graph: Graph) -> Iterator[dict[str, Array]]:
    """The example inputs, and others that are larger along every axis of any size."""
    yield dict(graph.inputs)
    larger = {}
    for name, values in graph.inputs.items():
        more = [(0, graph.dynamic[name][axis][1] if axis in graph.dynamic[name] else 0) for axis in range(values.ndim)]
        larger[name] = np.pad(values, more, mode="wrap")
    yield larger


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Exporters log and warn about their own inside."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
