"""What a process loads: start one, import or call something, and look at `sys.modules`."""

import os
import subprocess
import sys

import pytest

from handlens import pipeline, registry

PICTURES = {"cv2", "PIL", "tifffile", "imagecodecs", "pypdfium2", "skimage", "zarr"}
TRAINING = {"torch", "lightning_fabric", "onnx", "onnxscript", "lightgbm", "timm", "torchvision"}
HEAVY = {"scipy", "pyarrow", "rich", "onnxruntime", *PICTURES, *TRAINING}
SIZES = {"forgery": (2, 96), "ink": (1, 96), "cells": (1, 96), "lesions": (1, 64)}


def modules_after(code, *args, check=True):
    """Names of the top modules that are loaded after this code."""
    script = f"import sys\n{code}\nprint('\\nloaded', *sorted(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("\nloaded ")[2].split())


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for name, (cases, size) in SIZES.items():
        pipeline.sample(registry.challenge(name), folder / name, seed=1, cases=cases, size=size)
    return folder


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import handlens", {"numpy", "click", "msgspec", *HEAVY}),
        ("import handlens\nhandlens.__version__\ndir(handlens)", {"numpy", "click", *HEAVY}),
        ("import handlens.cli", {"numpy", *HEAVY}),
        ("import handlens\nfor name in handlens.challenges(): repr(handlens.challenge(name))", HEAVY),
        ("from handlens.runstore import store\nfrom handlens.inference import model", {"numpy", *HEAVY}),
        ("import handlens.pipeline", HEAVY),
    ],
)
def test_heavy_libraries_wait_until_they_are_used(code, absent):
    assert not modules_after(code) & absent


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["--version"],
        *([command, "--help"] for command in ("list", "demo", "inspect", "predict")),
    ],
    ids=" ".join,
)
def test_help_needs_no_numbers(args):
    code = (
        "sys.argv = ['handlens', *sys.argv[1:]]\nfrom handlens.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code"
    )
    assert not modules_after(code, *args) & {"numpy", *HEAVY}


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_help_of_a_challenge_needs_no_pictures(name):
    code = (
        "sys.argv = ['handlens', *sys.argv[1:]]\nfrom handlens.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code"
    )
    for command in ("solve", "train", "score"):
        assert not modules_after(code, command, name, "--help") & HEAVY


SCORED = {
    "forgery": ('case_id,annotation,shape\n1,"[1, 2]","[9, 9]"\n2,authentic,authentic\n', 'case_id,annotation\n1,"[1, 3]"\n2,authentic\n'),
    "ink": ("Id,Predicted,height,width\na,1 4,9,9\n", "Id,Predicted\na,1 4\n"),
    "cells": ("img,pixels\n0,1 4\n", "img,pixels\n0,1 4\n"),
    "lesions": ("filename,label\na.jpg,MEL\n", "filename,AK,BCC,SK,SCC,VASC,DF,NV,NON,MEL,ON\na.jpg,0,0,0,0,0,0,0,0,1,0\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCORED)
def test_scoring_a_small_file_needs_numpy_alone(name, tmp_path):
    for file, text in zip(("truth.csv", "mine.csv"), SCORED[name], strict=True):
        (tmp_path / file).write_text(text)
    code = "import handlens\nhandlens.score(sys.argv[1], sys.argv[2], truth=sys.argv[3])"
    loaded = modules_after(code, name, tmp_path / "mine.csv", tmp_path / "truth.csv")
    assert "numpy" in loaded
    assert not loaded & {"click", *HEAVY}


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_predicting_needs_nothing_of_training(name, samples, tmp_path):
    code = "import handlens\nhandlens.solve(sys.argv[1], sys.argv[2], out=sys.argv[3])"
    loaded = modules_after(code, name, samples / name, tmp_path / "out")
    assert not loaded & {"pyarrow", "rich", "click", *TRAINING}
    assert ("onnxruntime" in loaded) == (name != "forgery")


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_a_predictor_in_a_notebook_needs_nothing_of_training(name, samples):
    (case, *_) = pipeline.read_cases(registry.challenge(name), samples / name)
    code = "import handlens\nresult = handlens.load(sys.argv[1])(sys.argv[2])\nrepr(result)\nresult._repr_html_()"
    assert not modules_after(code, name, case.path) & TRAINING


@pytest.mark.slow
def test_a_network_needs_torch_and_a_training_says_so_before_it_begins():
    """One process for all networks: loading torch takes seconds."""
    names = ("cells", "ink", "lesions")
    modules = ", ".join(f"handlens.challenges.{name}.training" for name in names)
    assert "torch" not in modules_after(f"import {modules}")
    networks = "\n".join(f"from handlens.challenges.{name} import network\nnetwork.torch" for name in names)
    assert "torch" in modules_after(networks)


BLOCKED = (
    "import importlib.abc, sys\n"
    "class Absent(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name.partition('.')[0] in {names!r}:\n"
    "            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
    "sys.meta_path.insert(0, Absent())\n"
)


@pytest.fixture
def without(tmp_path):
    """Run the program in an environment in which some packages are not installed."""

    def run(names, *args, cwd=None):
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / "sitecustomize.py").write_text(BLOCKED.format(names=tuple(names)))
        path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "handlens", *map(str, args)]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": path}, timeout=300
        )

    return run


@pytest.mark.parametrize(
    ("name", "absent"),
    [(name, absent) for name in ("cells", "ink", "lesions") for absent in ("torch", "lightning_fabric")]
    + [("forgery", "lightgbm")],
)
def test_training_without_its_extra_says_what_to_install_and_leaves_nothing(name, absent, without, samples, tmp_path):
    (tmp_path / "work").mkdir()
    done = without([absent], "train", name, samples / name, "-o", "run", cwd=tmp_path / "work")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"handlens: training needs {absent}, which is not installed: pip install 'handlens[train]'\n"
    )
    assert os.listdir(tmp_path / "work") == []


@pytest.mark.slow
def test_everything_else_works_without_the_extra(without, samples, tmp_path):
    for args in (
        ["list"],
        ["train", "cells", "--help"],
        ["solve", "cells", samples / "cells", "-o", tmp_path / "out"],
        ["solve", "cells", samples / "cells", "-o", tmp_path / "baseline", "--solver", "baseline"],
    ):
        done = without(TRAINING, *args)
        assert done.returncode == 0, done.stderr
