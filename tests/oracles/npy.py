"""NumPy array files, read plainly: magic, length, a dictionary of three keys, numbers that fill the rest exactly."""

import ast
import re

import numpy as np
from oracles.strict import demand


def decode(data):
    demand(data[:6] == b"\x93NUMPY" and data[6:8] in (b"\1\0", b"\2\0", b"\3\0"), "magic")
    width = 2 if data[6] == 1 else 4
    length = int.from_bytes(data[8 : 8 + width], "little")
    header = data[8 + width : 8 + width + length]
    demand(len(header) == length, "header")
    try:
        page = ast.literal_eval(header.decode("latin1" if data[6] < 3 else "utf8").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        demand(False, "header")
    demand(isinstance(page, dict) and set(page) == {"descr", "fortran_order", "shape"}, "keys")
    shape, kind = page["shape"], page["descr"]
    demand(isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape), "shape")
    demand(type(page["fortran_order"]) is bool, "order")
    demand(isinstance(kind, str) and re.fullmatch(r"[<>|=]?[a-zA-Z?][0-9]*(\[[a-z0-9]+\])?", kind), "type")
    try:
        dtype = np.dtype(kind)
    except (TypeError, ValueError):
        demand(False, "type")
    demand(not dtype.hasobject, "objects")
    count = 1
    for side in shape:
        count *= side
    content = data[8 + width + length :]
    demand(count * dtype.itemsize == len(content), "size")
    if not count:
        return np.zeros(shape, dtype)
    return np.frombuffer(content, dtype).reshape(shape, order="F" if page["fortran_order"] else "C")
