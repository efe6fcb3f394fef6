"""An exported file made smaller: fp16 weights, or int8 quantisation."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handlens.io.files import replacing
from handlens.training.export import suppress_warnings
from handlens.training.task import Array

LEAST = 2**17
"""Numbers of a tensor below which little is saved: first and last layers, where rounding shows most, stay exact."""

MOST_CHANGE = 1e-3
"""Largest change of an answer that 16-bit weights may make: that of rounding, for probabilities."""


def as_half(path: Path, samples: Iterator[Mapping[str, Array]], *, least: int | None = None) -> float:
    """Store weights as 16-bit floats; gives the largest change of an answer to the samples.

    They are 32-bit floats again when the file is opened, so time stays. A file whose answers would change by more than
    MOST_CHANGE is left as it is. Tensors of fewer than `least` numbers (LEAST) stay exact.
    """
    asked = list(samples)
    before = _answers(path, asked)
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / path.name
        shutil.copyfile(path, small)
        _store_halves(small, LEAST if least is None else least)
        pairs = zip(before, _answers(small, asked), strict=True)
        change = max((float(np.abs(one - other).max()) for one, other in pairs), default=0.0)
        if change <= MOST_CHANGE:
            with replacing(path) as temporary:
                shutil.copyfile(small, temporary)
    return change


def store_half(path: Path, samples: Iterator[Mapping[str, Array]], *, least: int | None = None) -> dict[str, str]:
    """Store weights as 16-bit floats where that changes little; what is stored, and why, for `plan.json`."""
    change = as_half(path, samples, least=least)
    stored = "fp16" if change <= MOST_CHANGE else "fp32"
    return {"stored": stored, "stored_because": f"16-bit floats change probabilities by at most {change:.1e}."}


def describe_stored(found: Mapping[str, str]) -> str:
    """The same as a sentence of the card."""
    return f"Numbers in the file: {found['stored']}. {found.get('stored_because', '')}".strip()


def _answers(path: Path, samples: Sequence[Mapping[str, Array]]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [session.run(None, dict(sample))[0] for sample in samples]


def _store_halves(path: Path, least: int) -> None:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    graph = model.graph
    large = [each for each in graph.initializer if each.data_type == onnx.TensorProto.FLOAT and _size(each) >= least]
    casts = []
    for tensor in large:
        half = np.clip(numpy_helper.to_array(tensor), -65504, 65504).astype(np.float16)
        name = f"{tensor.name}_half"
        casts.append(onnx.helper.make_node("Cast", [name], [tensor.name], to=onnx.TensorProto.FLOAT))
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(half, name))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    _write(model, path)


def as_int8(path: Path, samples: Iterator[Mapping[str, Array]]) -> None:
    """Convolutions and products in 8-bit integers, each channel with its own scale; `samples` show usual values."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Any:
            return next(samples, None)

    facts = {each.key: each.value for each in onnx.load(path).metadata_props}
    with tempfile.TemporaryDirectory() as folder, suppress_warnings():
        prepared, small = Path(folder) / "prepared.onnx", Path(folder) / "small.onnx"
        quant_pre_process(path, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            small,
            Reader(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv", "MatMul", "Gemm", "Add"],
            per_channel=True,
            reduce_range=True,  # sums of products must not overflow 16 bits on older processors
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        model = onnx.load(small)
    del model.metadata_props[:]
    for name, fact in facts.items():
        model.metadata_props.add(key=name, value=fact)
    _write(model, path)


def _size(tensor: Any) -> int:
    return int(np.prod(tensor.dims))


def _write(model: Any, path: Path) -> None:
    import onnx

    onnx.checker.check_model(model)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
