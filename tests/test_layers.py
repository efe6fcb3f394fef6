"""The layers of the house: a module imports only what lies below it, and challenges do not know each other."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "handlens"
LAYERS = [
    {"errors"},
    {"settings"},
    {"views", "judgements", "licences", "work", "cases"},
    {"types"},
    {"progress"},
    {"masks"},
    {"io"},
    {"splits", "lazy"},
    {"runstore"},
    {"sandbox"},
    {"inference"},
    {"results", "artefacts", "report"},
    {"training"},
    {"challenges"},
    {"pipeline"},
    {"testing"},
    {"registry"},
    {"offline"},
    {"web"},
    {"cli"},
    {"__main__"},
]
WITHIN = {
    "masks",
    "io",
    "inference",
    "runstore",
    "sandbox",
    "report",
    "training",
    "pipeline",
    "web",
    "offline",
    "cli",
}  # packages whose modules build on each other
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" or path.parent != SOURCE)


def layer(name):
    return next(number for number, names in enumerate(LAYERS) if name in names)


def imports(tree):
    """Dotted names that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "handlens":
                yield from (f"handlens.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports(ast.parse(path.read_text())):
        if name.startswith("handlens."):
            other = name.split(".")[1]
            if own == other == "challenges":
                ours, theirs = path.relative_to(SOURCE).parts[1], name.split(".")[2]
                assert ours == theirs, f"{path.name} of {ours} imports {name}"
            else:
                assert layer(other) < layer(own) or (own in WITHIN and layer(other) == layer(own)), (
                    f"{own} imports {name}"
                )


def test_training_knows_no_challenge():
    for path in (SOURCE / "training").rglob("*.py"):
        assert not [name for name in imports(ast.parse(path.read_text())) if name.startswith("handlens.challenges")]


def test_the_layers_are_all_there_is():
    names = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert names == set().union(*LAYERS)


def test_every_challenge_folder_has_the_same_files():
    same = {"__init__.py", "rules.md", "data.py", "score.py", "sample.py", "options.py", "predictor.py", "result.py"}
    for folder in (SOURCE / "challenges").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert {path.name for path in folder.iterdir()} >= same, folder


def test_no_module_grows_out_of_its_room():
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 400, path


def test_every_class_has_a_name_of_its_own():
    places = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
