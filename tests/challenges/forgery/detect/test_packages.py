"""The packages of the detector: each builds only on those before it, and every constant says where its value is from."""

import ast
import re
from pathlib import Path

import pytest

from handlens.challenges.forgery import detect

ROOT = Path(detect.__file__).parent
PACKAGE = detect.__name__
ROOMS = ("findings", "clock", "canvas", "geometry", "verifier", "tiers", "grouping", "extension", "answer", "__init__")
"""From the ground up."""

MODULES = sorted(ROOT.rglob("*.py"))
ORIGINS = re.compile(r"\b(By hand|Rule|Measured)\b")


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_builds_only_on_those_before_it(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            other = node.module.removeprefix(f"{PACKAGE}.").split(".")[0]
            assert ROOMS.index(other) <= ROOMS.index(room(path)), node.module


def is_number(node):
    """Whether there is a number in an expression that could be another; 0, 1, 2 and -1 mostly could not."""
    numbers = [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and type(each.value) in (int, float) and each.value not in (0, 1, 2, -1)
    ]
    return bool(numbers)


def constants(tree):
    """Names that are given a number in a module or a class, with the text below them."""
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for statement, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value and is_number(statement.value):
                below = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                yield ast.unparse(statement), " ".join(str(following.value.value).split()) if below else ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_constant_says_where_its_value_comes_from(path):
    silent = [
        name
        for name, text in constants(ast.parse(path.read_text()))
        if not ORIGINS.search(text) and not name.startswith(("TIERS", "TURNS"))
    ]
    assert silent == []


INLINE = {
    -1: "the last, or the other sign",
    0: "nothing",
    0.5: "half: a median, a pixel's middle",
    1: "one",
    2: "two: both sides, a square",
    3: "a pixel and its neighbours; colours; times a deviation",
    4: "places in an array",
    5: "places in an array",
    6: "places in an array; parameters of an affine transform",
    8: "neighbours of a pixel",
    50: "per cent: a median",
    60: "beyond it exp overflows",
    180: "half a turn",
    255: "the largest of 8 bits",
    256: "levels of 8 bits",
    65535: "the largest of 16 bits",
    1e-3: "keeps a division from zero",
    1e-6: "keeps a division from zero",
    1e-9: "keeps a division from zero",
    1e-12: "keeps a division from zero",
}
"""Numbers that need no name inside a function: they could not be others. All that were chosen have one, and an origin."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_number_that_was_chosen_hides_in_a_function(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    hidden = {
        (number.lineno, number.value)
        for function in functions
        for statement in function.body
        for number in ast.walk(statement)
        if isinstance(number, ast.Constant) and type(number.value) in (int, float) and number.value not in INLINE
    }
    assert hidden == set()
