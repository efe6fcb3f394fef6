"""Lesions models made by hand: an honest one, and those that a judge must refuse, each with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto

IMAGE, PEOPLE = "float[n, 3, 512, 512] image", "float[n, 3] people"

SEEING = """
    means = GlobalAveragePool(image)
    colours = Flatten(means)
    hundredths = Mul(people, hundredth)
    facts = Concat<axis = 1>(colours, hundredths)
    logits = MatMul(facts, weights)
"""
"""Mean colours and demographics to logits."""


def weights(classes: int) -> str:
    numbers = ", ".join(str(((7 * index) % 13 - 6) / 4) for index in range(6 * classes))
    return f"float hundredth = {{0.01}}, float[6, {classes}] weights = {{{numbers}}}"


def parse(
    steps: str,
    *,
    classes: int = 10,
    takes: str = f"{IMAGE}, {PEOPLE}",
    gives: str = "",
    constants: str = "",
    domains: str = "",
) -> onnx.ModelProto:
    """A model from its text."""
    gives = gives or f"float[n, {classes}] chance"
    values = ", ".join(part for part in (weights(classes), constants) if part)
    head = f'<ir_version: 9, opset_import: ["" : 18{domains}]>'
    return onnx.parser.parse_model(f"{head} by_hand ({takes}) => ({gives}) <{values}> {{ {steps} }}")


def honest(classes: int = 10) -> onnx.ModelProto:
    return parse(SEEING + "chance = Softmax<axis = 1>(logits)", classes=classes)


def write(path: Path, model: onnx.ModelProto | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


# --- parts of models ----------------------------------------------------------------------------------------------


def node(
    operator: str, takes: list[str], gives: list[str], *, domain: str = "", **parts: TensorProto | GraphProto
) -> NodeProto:
    """A node; its attributes are tensors and graphs."""
    made = NodeProto(op_type=operator, input=takes, output=gives, domain=domain)
    for name, part in parts.items():
        if isinstance(part, TensorProto):
            made.attribute.add(name=name, type=AttributeProto.TENSOR, t=part)
        else:
            made.attribute.add(name=name, type=AttributeProto.GRAPH, g=part)
    return made


def tensor(name: str, array: Any) -> TensorProto:
    """A constant of floats or truth values."""
    array = np.asarray(array)
    kind = TensorProto.BOOL if array.dtype == bool else TensorProto.FLOAT
    return TensorProto(name=name, dims=array.shape, data_type=kind, raw_data=array.tobytes())


def value(name: str, kind: int, shape: tuple[int, ...] | None) -> ValueInfoProto:
    made = ValueInfoProto(name=name)
    made.type.tensor_type.elem_type = kind
    if shape is not None:
        made.type.tensor_type.shape.SetInParent()
        for size in shape:
            made.type.tensor_type.shape.dim.add(dim_value=size)
    return made


def function(name: str, takes: list[str], gives: list[str], nodes: list[NodeProto]) -> FunctionProto:
    opsets = [OperatorSetIdProto(version=18), OperatorSetIdProto(domain="bomb", version=1)]
    return FunctionProto(domain="bomb", name=name, input=takes, output=gives, node=nodes, opset_import=opsets)


# --- what the file is ---------------------------------------------------------------------------------------------


def external_data(location: str = "../../labels.csv", **entries: str) -> onnx.ModelProto:
    """Its weights lie in another file, or, with ONNX Runtime's mark, at an address in memory."""
    model = honest()
    weights = next(constant for constant in model.graph.initializer if constant.name == "weights")
    weights.ClearField("float_data")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, "offset": "0", "length": "240", **entries}.items():
        weights.external_data.add(key=key, value=text)
    return model


def external_data_in_a_branch() -> onnx.ModelProto:
    """The same in a constant of a graph within a graph."""
    model = nested(2)
    inner = model.graph.node[0]
    while inner.op_type == "If":
        inner = next(attribute for attribute in inner.attribute if attribute.name == "then_branch").g.node[0]
    constant = inner.attribute[0].t
    constant.ClearField("raw_data")
    constant.data_location = TensorProto.EXTERNAL
    constant.external_data.add(key="location", value="labels.csv")
    return model


def custom_operator() -> onnx.ModelProto:
    """An operator that would run Python code, where the extension for it is loaded."""
    return parse(SEEING + "chance = ai.onnx.contrib.PyOp(logits)", domains=', "ai.onnx.contrib" : 1')


def own_operator_of_the_runtime() -> onnx.ModelProto:
    steps = SEEING + "round = com.microsoft.Gelu(logits) chance = Softmax<axis = 1>(round)"
    return parse(steps, domains=', "com.microsoft" : 1')


def nested(depth: int) -> onnx.ModelProto:
    """Branches within branches."""

    def constant(output: str) -> NodeProto:
        return node("Constant", [], [output], value=tensor("one", np.ones(1, np.float32)))

    def graph(inner: NodeProto) -> GraphProto:
        return GraphProto(name="branch", node=[inner], output=[value(inner.output[0], TensorProto.FLOAT, (1,))])

    inner = constant("out0")
    for level in range(1, depth + 1):
        branches = {"then_branch": graph(inner), "else_branch": graph(constant(f"other{level}"))}
        inner = node("If", ["yes"], [f"out{level}"], **branches)
    model = honest()
    model.graph.initializer.append(tensor("yes", [True]))
    model.graph.node.insert(0, inner)
    return model


def many_functions(levels: int = 12, calls: int = 10) -> onnx.ModelProto:
    """Functions that call the next one ten times: a small file, and a million million nodes."""
    model = honest()
    for level in range(levels):
        domain, name = ("", "Neg") if level == levels - 1 else ("bomb", f"f{level + 1}")
        nodes = [node(name, [f"x{index}"], [f"x{index + 1}"], domain=domain) for index in range(calls)]
        model.functions.append(function(f"f{level}", ["x0"], [f"x{calls}"], nodes))
    model.opset_import.add(domain="bomb", version=1)
    model.graph.node.insert(0, node("f0", ["image"], ["unused"], domain="bomb"))
    return model


def endless_functions() -> onnx.ModelProto:
    """A function that calls itself."""
    model = honest()
    model.functions.append(function("f", ["x"], ["y"], [node("f", ["x"], ["y"], domain="bomb")]))
    model.opset_import.add(domain="bomb", version=1)
    model.graph.node.insert(0, node("f", ["image"], ["unused"], domain="bomb"))
    return model


def huge_claim() -> onnx.ModelProto:
    """A constant of 2^40 elements without content."""
    model = honest()
    model.graph.initializer.append(TensorProto(dims=[2**40], data_type=TensorProto.FLOAT, name="air"))
    return model


def runtime_format() -> bytes:
    """A sound ONNX file whose bytes 4 to 7 say that it is in another format."""
    content = honest().SerializeToString()
    return b"\x12\x06\x00\x00ORTM" + content  # a field `producer_name` before all others


# --- what it takes and gives --------------------------------------------------------------------------------------


def one_input() -> onnx.ModelProto:
    steps = "means = GlobalAveragePool(image) facts = Flatten(means) logits = MatMul(facts, three) chance = Softmax<axis = 1>(logits)"
    numbers = ", ".join("0.5" for _ in range(30))
    return parse(steps, takes=IMAGE, constants=f"float[3, 10] three = {{{numbers}}}")


def fixed_batch() -> onnx.ModelProto:
    steps = SEEING + "chance = Softmax<axis = 1>(logits)"
    return parse(steps, takes="float[1, 3, 512, 512] image, float[1, 3] people", gives="float[1, 10] chance")


def swapped_inputs() -> onnx.ModelProto:
    return parse(SEEING + "chance = Softmax<axis = 1>(logits)", takes=f"{PEOPLE}, {IMAGE}")


def two_outputs() -> onnx.ModelProto:
    steps = SEEING + "chance = Softmax<axis = 1>(logits)"
    return parse(steps, gives="float[n, 10] chance, float[n, 10] logits")


def softmax_over_the_batch() -> onnx.ModelProto:
    return parse(SEEING + "chance = Softmax<axis = 0>(logits)")


def not_a_number() -> onnx.ModelProto:
    return parse(
        SEEING + "below = Sub(logits, logits) minus = Sub(below, one) chance = Sqrt(minus)",
        constants="float one = {1.0}",
    )


def not_a_number_for_unknown_age() -> onnx.ModelProto:
    """Divides the age by itself."""
    steps = (
        SEEING
        + """
        age = Gather<axis = 1>(people, first)
        one = Div(age, age)
        plain = Softmax<axis = 1>(logits)
        chance = Mul(plain, one)
    """
    )
    return parse(steps, constants="int64[1] first = {0}")


def negative() -> onnx.ModelProto:
    return parse(SEEING + "chance = Identity(logits)")


def above_one() -> onnx.ModelProto:
    return parse(SEEING + "plain = Softmax<axis = 1>(logits) chance = Add(plain, one)", constants="float one = {1.0}")


def not_normalised() -> onnx.ModelProto:
    return parse(SEEING + "chance = Sigmoid(logits)")


def ignores_people() -> onnx.ModelProto:
    return parse(
        "nobody = Sub(people, people)" + SEEING.replace("(people", "(nobody") + "chance = Softmax<axis = 1>(logits)"
    )


def ignores_image() -> onnx.ModelProto:
    return parse("dark = Sub(image, image)" + SEEING.replace("(image", "(dark") + "chance = Softmax<axis = 1>(logits)")


# --- what it does -------------------------------------------------------------------------------------------------


def crash() -> onnx.ModelProto:
    """The smallest whole number divided by -1: the processor ends the process."""
    steps = (
        SEEING
        + """
        whole = Cast<to = 7>(logits)
        none = Sub(whole, whole)
        smallest = Add(none, least)
        divisor = Add(none, minus)
        quotient = Div(smallest, divisor)
        chance = Cast<to = 1>(quotient)
    """
    )
    return parse(steps, constants="int64[1] least = {-9223372036854775808}, int64[1] minus = {-1}")


# --- what it does when nobody looks --------------------------------------------------------------------------------

DRAW = "draw = RandomUniform<seed = 7.0, shape = [1]>()"
"""ONNX Runtime keeps the state of this from run to run: every run draws the next number of one fixed sequence."""


def first_draws(count: int) -> list[float]:
    """What DRAW gives in the first runs of a process."""
    import onnxruntime

    text = f'<ir_version: 9, opset_import: ["" : 18]> count () => (float[1] draw) {{ {DRAW} }}'
    content = onnx.parser.parse_model(text).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return [float(session.run(None, {})[0][0]) for _ in range(count)]


def counting(calls: int, then: str, otherwise: str = "logits") -> onnx.ModelProto:
    """A model that knows how often it was asked: its logits are `otherwise` in the first calls, afterwards `then`."""
    numbers = ", ".join(f"{value:.9g}" for value in first_draws(calls))
    steps = f"""
        {DRAW}
        far = Sub(draw, table)
        size = Abs(far)
        least = ReduceMin<keepdims = 0>(size)
        early = Less(least, tiny)
        {then}
        chosen = Where(early, {otherwise}, later)
        chance = Softmax<axis = 1>(chosen)
    """
    constants = f"float[{calls}] table = {{{numbers}}}, float tiny = {{0.0000001}}, float nothing = {{0.0}}"
    return parse(SEEING + steps, constants=constants)


def constant_when_not_tested(calls: int = 60) -> onnx.ModelProto:
    """Uses its inputs in the first calls, while that is tested, and answers a constant afterwards."""
    return counting(calls, "later = Mul(logits, nothing)")


def fast_while_timed(calls: int = 60, work: int = 400) -> onnx.ModelProto:
    """Works hard in the first calls, and no longer when the time is taken; its answers are the same."""
    model = counting(calls, "later = Identity(logits)", "worked")
    body = GraphProto(
        name="body",
        node=[
            node("GlobalAveragePool", ["image"], ["seen"]),
            node("Identity", ["go"], ["on"]),
            node("Identity", ["held"], ["kept"]),
        ],
        input=[
            value("count", TensorProto.INT64, ()),
            value("go", TensorProto.BOOL, ()),
            value("held", TensorProto.FLOAT, None),
        ],
        output=[value("on", TensorProto.BOOL, ()), value("kept", TensorProto.FLOAT, None)],
    )
    model.graph.initializer.append(TensorProto(name="times", data_type=TensorProto.INT64, int64_data=[work]))
    model.graph.initializer.append(TensorProto(name="none", data_type=TensorProto.INT64, int64_data=[0]))
    place = next(index for index, each in enumerate(model.graph.node) if each.op_type == "Where")
    model.graph.node.insert(place, node("Where", ["early", "times", "none"], ["turns"]))
    model.graph.node.insert(place + 1, node("Loop", ["turns", "early", "logits"], ["worked"], body=body))
    return model


def random_in(place: str, operator: str = "RandomUniformLike") -> onnx.ModelProto:
    """A random operator in a branch, in a function, in a loop's body, or under the other name of ONNX's domain."""
    model = honest()
    noise = node(operator, ["image"], ["noise"])
    if place == "graph":
        model.graph.node.insert(0, noise)
    elif place == "other name":
        model.graph.node.insert(0, node(operator, ["image"], ["noise"], domain="ai.onnx"))
    elif place == "function":
        model.functions.append(function("f", ["image"], ["noise"], [noise]))
    elif place == "branch":
        branch = GraphProto(name="branch", node=[noise], output=[value("noise", TensorProto.FLOAT, None)])
        model.graph.initializer.append(tensor("yes", [True]))
        model.graph.node.insert(0, node("If", ["yes"], ["drawn"], then_branch=branch, else_branch=branch))
    else:
        inner = function("g", ["image"], ["noise"], [noise])
        model.functions.extend([inner, function("f", ["x"], ["y"], [node("g", ["x"], ["y"], domain="bomb")])])
    return model


def counting_in_memory() -> onnx.ModelProto:
    """Knows its first question without a random operator: a product over no columns is not filled, and holds what lay
    there, such as what the model left in the question before. Afterwards it gives other answers.
    """
    steps = """
        flat = Reshape(people, all)
        zeros = Mul(flat, nothing)
        whole = Cast<to = 7>(zeros)
        zero = Slice(whole, first, second)
        none = Slice(flat, zero, zero)
        bytes = Cast<to = 2>(none)
        left = Reshape<allowzero = 1>(bytes, tall)
        right = Reshape<allowzero = 1>(bytes, wide)
        stale = MatMulInteger(left, right)
        above = GreaterOrEqual(stale, mark)
        below = Less(stale, end)
        known = And(above, below)
        found = Where(known, stale, mark)
        before = ReduceMax<keepdims = 0>(found)
        now = Add(before, one)
        held = Expand(now, square)
        kept = ReduceMax<keepdims = 0>(held)
        count = Sub(kept, mark)
        turn = Mod(count, two)
        factor = Cast<to = 1>(turn)
        changed = Mul(logits, factor)
        chance = Softmax<axis = 1>(changed)
    """
    constants = """
        int64[1] all = {-1}, float nothing = {0.0}, int64[1] first = {0}, int64[1] second = {1},
        int64[2] tall = {1024, 0}, int64[2] wide = {0, 1024}, int64[2] square = {1024, 1024},
        int32 mark = {7340032}, int32 end = {7350000}, int32[1] one = {1}, int32 two = {2}
    """
    return parse(SEEING + steps, constants=constants)


def function_with_a_name_of_the_runtime() -> onnx.ModelProto:
    """Declares a function of this name, that the runtime passes over: it takes its own operator."""
    model = own_operator_of_the_runtime()
    gelu = FunctionProto(domain="com.microsoft", name="Gelu", input=["x"], output=["y"])
    gelu.node.append(node("Identity", ["x"], ["y"]))
    gelu.opset_import.add(version=18)
    model.functions.append(gelu)
    return model


def many_strings() -> onnx.ModelProto:
    """A text, eight thousand million times: each takes 32 bytes, whatever it says."""
    model = honest()
    model.opset_import[0].version = 19
    text = TensorProto(name="text", dims=[1], data_type=TensorProto.STRING, string_data=[b"x"])
    model.graph.initializer.extend([text, TensorProto(name="many", data_type=TensorProto.INT64, int64_data=[2**33])])
    model.graph.initializer[-1].dims.append(1)
    steps = [
        ("Expand", ["text", "many"], "texts"),
        ("Gather", ["texts", "many"], "last"),
        ("Equal", ["last", "text"], "same"),
        ("CastLike", ["same", "logits"], "number"),
        ("Add", ["logits", "number"], "puffed"),
    ]
    for place, (operator, takes, gives) in enumerate(steps, 5):
        model.graph.node.insert(place, node(operator, takes, [gives]))
    model.graph.node[-1].input[0] = "puffed"
    return model


def loops_within_loops(depth: int = 10, turns: int = 1000) -> onnx.ModelProto:
    """A thousand turns in each of ten loops within each other."""

    def body(level: int, inner: NodeProto) -> GraphProto:
        return GraphProto(
            name=f"body{level}",
            node=[node("Identity", [f"go{level}"], [f"on{level}"]), inner],
            input=[
                value(f"count{level}", TensorProto.INT64, ()),
                value(f"go{level}", TensorProto.BOOL, ()),
                value(f"held{level}", TensorProto.FLOAT, None),
            ],
            output=[value(f"on{level}", TensorProto.BOOL, ()), value(inner.output[0], TensorProto.FLOAT, None)],
        )

    model = honest()
    inner = node("Identity", [f"held{depth}"], [f"kept{depth}"])
    for level in range(depth, 0, -1):
        source = f"held{level - 1}" if level > 1 else "logits"
        inner = node("Loop", ["turns", "", source], [f"looped{level}"], body=body(level, inner))
    model.graph.initializer.append(TensorProto(name="turns", data_type=TensorProto.INT64, int64_data=[turns]))
    model.graph.node.insert(5, inner)
    model.graph.node[-1].input[0] = "looped1"
    return model


def valid_only_sometimes(bright: float = 0.5) -> onnx.ModelProto:
    """Gives probabilities that are none where a picture is bright."""
    steps = (
        SEEING
        + """
        mean = ReduceMean<keepdims = 0>(image)
        light = Greater(mean, border)
        plain = Softmax<axis = 1>(logits)
        twice = Add(plain, plain)
        chance = Where(light, twice, plain)
    """
    )
    return parse(steps, constants=f"float border = {{{bright}}}")


def hang() -> onnx.ModelProto:
    """A loop that never ends."""
    model = honest()
    body = GraphProto(
        name="body",
        node=[node("Identity", ["go"], ["on"]), node("Identity", ["held"], ["kept"])],
        input=[
            value("count", TensorProto.INT64, ()),
            value("go", TensorProto.BOOL, ()),
            value("held", TensorProto.FLOAT, None),
        ],
        output=[value("on", TensorProto.BOOL, ()), value("kept", TensorProto.FLOAT, None)],
    )
    model.graph.initializer.append(tensor("always", True))
    model.graph.node[-1].input[0] = "looped"
    model.graph.node.insert(5, node("Loop", ["", "always", "logits"], ["looped"], body=body))
    return model


def allocation(gigabytes: int = 8) -> onnx.ModelProto:
    """Asks for so much memory when it is asked, not before."""
    steps = (
        SEEING
        + """
        shape = Shape(people)
        none = Sub(shape, shape)
        size = Add(none, many)
        air = ConstantOfShape(size)
        sum = ReduceSum<keepdims = 0>(air)
        puffed = Add(logits, sum)
        chance = Softmax<axis = 1>(puffed)
    """
    )
    side = int((gigabytes * 1e9 / 4) ** 0.5)
    return parse(steps, constants=f"int64[2] many = {{{side}, {side}}}")


HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "external tensor file": (external_data, "external data"),
    "custom operator": (custom_operator, "custom operator"),
    "wrong inputs": (one_input, "wrong inputs"),
    "wrong outputs": (two_outputs, "wrong outputs"),
    "not a number": (not_a_number, "not a number"),
    "negative": (negative, "negative"),
    "not normalised": (not_normalised, "not normalised"),
    "ignores demographics": (ignores_people, "ignores an input"),
    "crash": (crash, "crash"),
    "hang": (hang, "hang"),
    "8 GB allocation": (allocation, "out of memory"),
}
"""The twelfth, a fork bomb, is no file: nothing in ONNX starts a process. `hostile_child` has it; see also the
functions that call functions below, which multiply as processes would."""

MORE: dict[str, tuple[Callable[[], Any], str]] = {
    "functions that multiply": (many_functions, "too large"),
    "address in memory": (lambda: external_data("*/_ORT_MEM_ADDR_/*", offset="4194304"), "external data"),
    "external data in a branch": (external_data_in_a_branch, "external data"),
    "operator of the runtime": (own_operator_of_the_runtime, "custom operator"),
    "function named as the runtime's": (function_with_a_name_of_the_runtime, "custom operator"),
    "many strings": (many_strings, "out of memory"),
    "loops within loops": (loops_within_loops, "hang"),
    "valid only sometimes": (valid_only_sometimes, "not normalised"),
    "deep branches": (lambda: nested(20), "too large"),
    "function that calls itself": (endless_functions, "too large"),
    "huge claim": (huge_claim, "not a model"),
    "another format": (runtime_format, "not a model"),
    "no bytes": (lambda: b"", "not a model"),
    "noise": (lambda: bytes(range(256)) * 64, "not a model"),
    "half a file": (lambda: honest().SerializeToString()[:300], "not a model"),
    "fixed batch": (fixed_batch, "wrong inputs"),
    "swapped inputs": (swapped_inputs, "wrong inputs"),
    "eleven classes": (lambda: honest(11), "wrong outputs"),
    "softmax over the batch": (softmax_over_the_batch, "not normalised"),
    "fails for unknown age": (not_a_number_for_unknown_age, "not a number"),
    "above one": (above_one, "above one"),
    "fast while timed": (fast_while_timed, "random operator"),
    "constant when not tested": (constant_when_not_tested, "random operator"),
    "random in a branch": (lambda: random_in("branch"), "random operator"),
    "ignores the image": (ignores_image, "ignores an input"),
}
