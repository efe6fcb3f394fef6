"""What an ONNX file would make its reader do, found without doing it: files it names, operators, sizes, depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from handlens.sandbox.verdicts import RefusedError, harmless
from handlens.sandbox.wire import BYTES, Reader, WireField

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Operators that ONNX itself defines. All others, those of one runtime too, are custom."""

RUNTIME = ("ai.onnx", "com.microsoft", "com.ms", "org.pytorch")
"""Domains, with all below them, in which ONNX Runtime may have operators of its own: where a file defines a function of
such a name, the runtime takes its own operator instead."""

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""Operators that draw at random. ONNX Runtime keeps their state from one run to the next, seeded or not: a model could
count with them how often it was asked. These are all of opset 1 to 28; `Dropout` draws in training only: `_trains`."""

MAX_DEPTH = 16
"""Graphs within graphs, and functions within functions."""

MAX_NODES = 200_000
"""Nodes, counted as if functions were written out: a network of a thousand layers has a tenth."""

MAX_TENSOR_BYTES = 2**31
ELEMENTS_PER_BYTE = 4
"""Elements that a byte can hold at most, in types of two bits: a tensor that claims more has no content for them."""

MAX_AXES = 64

_STANDARD = ("", "ai.onnx")
_ORT_MARK = b"ORTM"  # at byte 4: another format, which ONNX Runtime would take without asking

Key = tuple[str, str]
"""Domain and operator."""


@dataclass(slots=True)
class _Findings:
    """What was met so far; `calls` of the graph itself stand under None.

    A function of the file may be called as a random operator is: it is refused as if it were one.
    """

    reader: Reader
    graphs: int = 0
    functions: set[Key] = field(default_factory=set)
    calls: dict[Key | None, dict[Key, int]] = field(default_factory=dict)


def check(content: bytes | memoryview) -> None:
    """RefusedError where the file is none, names other files, has operators of its own or random ones, or blows up."""
    if bytes(content[4:8]) == _ORT_MARK:
        raise RefusedError("not a model", "a file in ONNX Runtime's own format; expected ONNX")
    found = _Findings(Reader(content))
    for part in found.reader.fields():
        if part.kind != BYTES:
            continue
        if part.number == 7:
            _graph(found, part, None, depth=1)
            found.graphs += 1
        elif part.number == 20:
            raise RefusedError("not a model", "it has a part for training; export it for inference")
        elif part.number == 25:
            _function(found, part)
    if not found.graphs:
        raise RefusedError("not a model", "not a readable ONNX file: there is no graph in it")
    _check_operators(found)
    _count_nodes(found.calls)


def _graph(found: _Findings, graph: WireField, owner: Key | None, *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RefusedError("too large", f"graphs within graphs, more than {MAX_DEPTH} deep")
    for part in found.reader.fields(graph.start, graph.end):
        if part.kind == BYTES:
            if part.number == 1:
                _node(found, part, owner, depth=depth)
            elif part.number == 5:
                _tensor(found, part)
            elif part.number == 15:
                _sparse(found, part)


def _function(found: _Findings, function: WireField) -> None:
    """A function's own nodes count where it is called; its name may come last, so that is looked up first."""
    reader = found.reader
    parts = [part for part in reader.fields(function.start, function.end) if part.kind == BYTES]
    texts = {part.number: reader.text(part) for part in parts if part.number in (1, 10)}  # the last one counts
    key = (texts.get(10, ""), texts.get(1, ""))
    if key[0] not in DOMAINS and any(key[0] == domain or key[0].startswith(f"{domain}.") for domain in RUNTIME):
        what = (
            f"a function {harmless(key[1])!r} of {harmless(key[0])!r}, for which the runtime may take its own operator"
        )
        raise RefusedError("custom operator", f"{what}; export with standard operators")
    found.functions.add(key)
    found.calls.setdefault(key, {})
    for part in parts:
        if part.number == 7:
            _node(found, part, key, depth=1)
        elif part.number == 11:
            _attribute(found, part, key, depth=1)


def _node(found: _Findings, node: WireField, owner: Key | None, *, depth: int) -> None:
    reader = found.reader
    operator = domain = ""
    inputs: list[str] = []
    for part in reader.fields(node.start, node.end):
        if part.kind == BYTES:
            if part.number == 1:
                inputs.append(reader.text(part))
            elif part.number == 4:
                operator = reader.text(part)
            elif part.number == 7:
                domain = reader.text(part)
            elif part.number == 5:
                _attribute(found, part, owner, depth=depth)
    if domain in _STANDARD and (operator in RANDOM or _trains(operator, inputs)):
        what = f"operator {harmless(operator)!r} draws at random and counts its calls"
        raise RefusedError("random operator", f"{what}; export the model for inference, without it")
    calls = found.calls.setdefault(owner, {})
    calls[domain, operator] = calls.get((domain, operator), 0) + 1


def _trains(operator: str, inputs: Sequence[str]) -> bool:
    """Whether a `Dropout` may draw at random: its third input is the switch for training."""
    return operator == "Dropout" and any(inputs[2:])


def _attribute(found: _Findings, attribute: WireField, owner: Key | None, *, depth: int) -> None:
    for part in found.reader.fields(attribute.start, attribute.end):
        if part.kind == BYTES:
            if part.number in (5, 10):
                _tensor(found, part)
            elif part.number in (6, 11):
                _graph(found, part, owner, depth=depth + 1)
            elif part.number in (22, 23):
                _sparse(found, part)


def _sparse(found: _Findings, sparse: WireField) -> None:
    """A tensor with its zeros left out: it is filled up when it is read, whatever size it claims."""
    dims: list[int] = []
    for part in found.reader.fields(sparse.start, sparse.end):
        if part.kind == BYTES and part.number in (1, 2):
            _tensor(found, part)
        elif part.number == 3:
            dims += found.reader.numbers(part)
    if _elements(dims, "a sparse tensor") > MAX_TENSOR_BYTES // 4:
        raise RefusedError("too large", f"a sparse tensor of {_shown(dims)} elements")


def _tensor(found: _Findings, tensor: WireField) -> None:
    """A constant: all of it must be in the file."""
    reader = found.reader
    dims: list[int] = []
    name, size = "a tensor without name", 0
    for part in reader.fields(tensor.start, tensor.end):
        if part.number == 1:
            dims += reader.numbers(part)
        elif part.number == 8 and part.kind == BYTES:
            name = f"tensor {harmless(reader.text(part))!r}"
        elif part.number == 13 or (part.number == 14 and part.value != 0):
            what = f"{name} lies in another file; the model must be one file"
            raise RefusedError("external data", f"{what}: handlens pack MODEL.onnx -o ONE.onnx makes one")
        else:
            size += part.end - part.start + 1  # an empty text is an element too
    if (elements := _elements(dims, name)) > ELEMENTS_PER_BYTE * size:
        raise RefusedError("not a model", f"{name} claims {_shown(dims)} elements and holds {size:,} bytes")
    if elements > MAX_TENSOR_BYTES:
        raise RefusedError("too large", f"{name} has {_shown(dims)} elements")


def _elements(dims: list[int], name: str) -> int:
    if len(dims) > MAX_AXES or any(dim >= 2**63 for dim in dims):  # that is below zero, as protobuf writes it
        raise RefusedError("not a model", f"{name} has a negative size, or more than {MAX_AXES} axes")
    return prod(dims)


def _shown(dims: list[int]) -> str:
    rest = " x ..." if len(dims) > 8 else ""
    return " x ".join(f"{dim:,}" for dim in dims[:8]) + rest


def _check_operators(found: _Findings) -> None:
    for calls in found.calls.values():
        for domain, operator in calls:
            if domain not in DOMAINS and (domain, operator) not in found.functions:
                what = f"operator {harmless(operator)!r} of {harmless(domain)!r}"
                raise RefusedError("custom operator", f"{what} is not part of ONNX; export with standard operators")


def _count_nodes(calls: Mapping[Key | None, Mapping[Key, int]]) -> None:
    """RefusedError where the nodes, with every function written out, are too many.

    Ten functions that each call the next one ten times are ten thousand million.
    """
    total = _nodes_of(None, calls, {}, depth=0)
    if total > MAX_NODES:
        raise RefusedError("too large", f"more than {MAX_NODES:,} nodes, its functions written out")


def _nodes_of(
    key: Key | None, calls: Mapping[Key | None, Mapping[Key, int]], known: dict[Key | None, int], *, depth: int
) -> int:
    if depth > MAX_DEPTH:
        raise RefusedError("too large", f"functions within functions, more than {MAX_DEPTH} deep, or without end")
    if key not in known:
        known[key] = sum(
            count * (_nodes_of(callee, calls, known, depth=depth + 1) if callee in calls else 1)
            for callee, count in calls.get(key, {}).items()
        )
    return known[key]
