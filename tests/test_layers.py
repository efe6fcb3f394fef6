"""The layers of the house: a module imports only what lies below it, and challenges do not know each other."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "handlens"
LAYERS = [
    {"errors"},
    {"types"},
    {"progress"},
    {"masks"},
    {"io"},
    {"inference", "splits", "lazy"},
    {"runstore", "sandbox"},
    {"training"},
    {"challenges"},
    {"asking"},
    {"pipeline"},
    {"testing"},
    {"registry"},
    {"demo"},
    {"cli"},
]
WITHIN = {
    "masks",
    "io",
    "inference",
    "runstore",
    "sandbox",
    "training",
    "cli",
}  # rooms whose modules build on each other
TRAINING = {"torch", "lightning_fabric", "onnx", "timm"}  # what the extra `train` brings
HEAVY = {"cv2", "scipy", "tifffile", "PIL", "pyarrow", "rich", "torch", "imagecodecs", "pypdfium2", "onnxruntime"}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" or path.parent != SOURCE)


def layer(name):
    return next(number for number, names in enumerate(LAYERS) if name in names)


def imports(tree, top_only):
    """Dotted names that a module imports; with `top_only` those that run when it is imported."""
    nodes = ast.walk(tree)
    if top_only:
        nodes = [
            node
            for statement in tree.body
            if isinstance(statement, ast.Import | ast.ImportFrom)
            for node in [statement]
        ]
    for node in nodes:
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
    for name in imports(ast.parse(path.read_text()), top_only=False):
        if name.startswith("handlens."):
            other = name.split(".")[1]
            if own == other == "challenges":
                ours, theirs = path.relative_to(SOURCE).parts[1], name.split(".")[2]
                assert ours == theirs, f"{path.name} of {ours} imports {name}"
            else:
                assert layer(other) < layer(own) or (own in WITHIN and layer(other) == layer(own)), (
                    f"{own} imports {name}"
                )


def test_every_challenge_folder_has_the_same_six_files():
    for folder in (SOURCE / "challenges").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            names = {path.name for path in folder.iterdir()}
            assert names >= {"__init__.py", "rules.md", "data.py", "score.py", "sample.py", "predictor.py"}, folder


def test_no_module_grows_out_of_its_room():
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 400, path
