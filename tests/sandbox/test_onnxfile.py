"""What an ONNX file would do is found without doing it; what ONNX's own reader finds, ours has found too."""

import hostile_models as models
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from handlens.sandbox import onnxfile
from handlens.sandbox.verdicts import RefusedError

HONEST = models.honest().SerializeToString()
EXTERNAL = models.external_data().SerializeToString()
NESTED = models.external_data_in_a_branch().SerializeToString()


def verdict_of(model):
    content = model if isinstance(model, bytes) else model.SerializeToString()
    try:
        onnxfile.check(content)
    except RefusedError as error:
        return error.verdict
    return None


@pytest.mark.parametrize("classes", [10, 11])
def test_honest_files_pass(classes):
    assert verdict_of(models.honest(classes)) is None


def test_branches_of_a_sane_depth_pass():
    assert verdict_of(models.nested(3)) is None


def test_a_function_that_is_in_the_file_is_no_custom_operator():
    assert verdict_of(models.many_functions(levels=3, calls=4)) is None


FILES = {"external tensor file", "custom operator"} | set(models.MORE) - {
    "fixed batch",
    "swapped inputs",
    "eleven classes",
    "softmax over the batch",
    "fails for unknown age",
    "above one",
    "ignores the image",
    "many strings",
    "loops within loops",
    "valid only sometimes",
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_a_file_is_shows_without_running_it(name):
    make, verdict = {**models.HOSTILE, **models.MORE}[name]
    assert verdict_of(make()) == verdict


def test_no_function_has_the_name_of_an_operator_that_the_runtime_has_of_its_own():
    """In every domain of the runtime but ONNX's: those come from what it says of itself."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    domains = {schema.domain for schema in get_all_operator_schema()} - set(onnxfile.DOMAINS)
    assert "com.microsoft" in domains
    for domain in domains:
        model = models.many_functions(levels=1, calls=1)
        assert verdict_of(model) is None
        model.functions[0].domain = domain
        assert verdict_of(model) == "custom operator", domain
    model.functions[0].domain = "com.microsoftware"  # somebody else's
    model.graph.node[0].domain = "com.microsoftware"
    assert verdict_of(model) is None


@pytest.mark.parametrize("place", ["graph", "other name", "function", "branch", "function of a function"])
def test_random_operators_are_found_wherever_they_are(place):
    assert verdict_of(models.random_in(place)) == "random operator"


CALLS_OTHERS = {"If", "Loop", "Scan", "SequenceMap", "AffineGrid", "Dropout"}
"""ONNX calls these undetermined because of the graphs within them, which are looked at; Dropout has a test below."""


def test_every_operator_that_onnx_calls_undetermined_is_refused():
    schemas = onnx.defs.get_all_schemas_with_history()
    names = {each.name for each in schemas if each.domain in ("", "ai.onnx.ml") and "Non" in str(each.node_determinism)}
    assert names - CALLS_OTHERS == set(onnxfile.RANDOM)
    for name in onnxfile.RANDOM:
        assert verdict_of(models.random_in("graph", name)) == "random operator"


def test_dropout_passes_unless_it_can_be_told_to_train():
    for inputs, verdict in ((["image"], None), (["image", "", ""], None), (["image", "", "yes"], "random operator")):
        model = models.honest()
        model.graph.node.insert(0, models.node("Dropout", inputs, ["dropped"]))
        assert verdict_of(model) == verdict


def test_a_location_alone_is_enough():
    model = models.honest()
    model.graph.initializer[0].external_data.add(key="location", value="x")
    assert verdict_of(model) == "external data"


@pytest.mark.parametrize("kind", ["sparse", "attribute", "list", "function"])
def test_external_data_is_found_wherever_it_is(kind):
    tensor = TensorProto(dims=[1], data_type=TensorProto.FLOAT, name="t", data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="x")
    model = models.honest()
    if kind == "sparse":
        model.graph.sparse_initializer.add(dims=[4]).values.CopyFrom(tensor)
    elif kind == "attribute":
        model.graph.node.append(models.node("Constant", [], ["c"], value=tensor))
    elif kind == "list":
        node = models.node("Constant", [], ["c"])
        node.attribute.add(name="v", type=onnx.AttributeProto.TENSORS).tensors.append(tensor)
        model.graph.node.append(node)
    else:
        nodes = [models.node("Constant", [], ["c"], value=tensor)]
        model.functions.append(models.function("f", [], ["c"], nodes))
    assert verdict_of(model) == "external data"


def test_a_second_graph_is_looked_at_too():
    """Protobuf merges a field that comes twice."""
    extra = onnx.ModelProto()
    extra.graph.node.append(models.node("Evil", [], ["x"], domain="mine"))
    assert verdict_of(HONEST + extra.SerializeToString()) == "custom operator"


def test_sizes_that_are_none_are_refused():
    for dims, verdict in (([-1], "not a model"), ([2**62, 2**62], "not a model"), ([1] * 65, "not a model")):
        model = models.honest()
        model.graph.initializer.append(
            TensorProto(dims=dims, data_type=TensorProto.FLOAT, raw_data=b"\0" * 4, name="t")
        )
        assert verdict_of(model) == verdict
    model = models.honest()
    model.graph.sparse_initializer.add(dims=[2**20, 2**20])
    assert verdict_of(model) == "too large"


def test_texts_and_empty_tensors_pass():
    model = models.honest()
    model.graph.initializer.append(
        TensorProto(name="words", dims=[3], data_type=TensorProto.STRING, string_data=[b""] * 3)
    )
    model.graph.initializer.append(TensorProto(dims=[0], data_type=TensorProto.FLOAT, name="nothing"))
    assert verdict_of(model) is None


def test_a_part_for_training_is_refused():
    model = models.honest()
    model.training_info.add()
    assert verdict_of(model) == "not a model"


def tensors_of(graph):
    for node in graph.node:
        for attribute in node.attribute:
            yield from [attribute.t, *attribute.tensors]
            for inner in [attribute.g, *attribute.graphs] if attribute.HasField("g") or attribute.graphs else []:
                yield from tensors_of(inner)
    yield from graph.initializer


@given(
    st.sampled_from([HONEST, EXTERNAL, NESTED]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    st.integers(0, 400),
)
def test_damaged_files_are_refused_or_as_harmless_as_onnx_finds_them(content, changes, cut):
    """Bytes are changed: whatever ONNX's own reader still makes of them, nothing passes that names another file."""
    damaged = bytearray(content[: len(content) - cut] if cut % 3 == 0 else content)
    for place, value in changes:
        damaged[place % len(damaged)] = value
    verdict = verdict_of(bytes(damaged))
    try:
        model = onnx.ModelProto.FromString(bytes(damaged))
    except DecodeError:
        return
    if verdict is None:
        for tensor in tensors_of(model.graph):
            assert not tensor.external_data
            assert tensor.data_location != TensorProto.EXTERNAL
        assert all(node.domain in onnxfile.DOMAINS for node in model.graph.node)
