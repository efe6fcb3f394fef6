"""Is a submission valid? The rules again, one character and one number at a time."""

import csv
import io
import json
import re
from decimal import Decimal, InvalidOperation


def is_valid(data, header, shapes, cell_is_valid):
    """`shapes`: id to (height, width); `cell_is_valid(cells, shape)` is one of those below."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        return False
    if not rows or rows[0] != list(header):
        return False
    seen = set()
    for row in rows[1:]:
        if len(row) != len(header) or row[0] not in shapes or row[0] in seen:
            return False
        seen.add(row[0])
        if not cell_is_valid(row[1:], shapes[row[0]]):
            return False
    return seen == set(shapes)


def numbers_are_valid(numbers, shape):
    if len(numbers) % 2:
        return False
    last = 0
    for start, length in zip(numbers[0::2], numbers[1::2], strict=True):
        if start <= last or length < 1:
            return False
        last = start + length - 1
    return last <= shape[0] * shape[1]


def pairs_are_valid(cells, shape):
    if not re.fullmatch(r"[0-9 \t\r\n]*", cells[0]):
        return False
    return numbers_are_valid([int(token) for token in cells[0].split()], shape)


def filled_pairs_are_valid(cells, shape):
    return bool(cells[0].strip()) and pairs_are_valid(cells, shape)


def lists_are_valid(cells, shape):
    if cells[0] == "authentic":
        return True
    for piece in cells[0].split(";"):
        try:
            numbers = json.loads(piece)
        except ValueError:
            return False
        if not isinstance(numbers, list) or not numbers or not all(type(number) is int for number in numbers):
            return False
        if not numbers_are_valid(numbers, shape):
            return False
    return True


def probabilities_are_valid(cells, shape):
    values = []
    for cell in cells:
        text = cell.strip(" ")
        if not text or set(text) - set("0123456789.eE+-") or text.startswith("+"):
            return False
        try:
            values.append(Decimal(text))
        except InvalidOperation:
            if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
                return False
            values.append(Decimal(float(text)))  # an exponent that Decimal does not take
    return all(0 <= value <= 1 for value in values) and abs(sum(values) - 1) <= Decimal("0.001")
