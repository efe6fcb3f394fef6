import ast
import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import handlens
from handlens import pipeline, registry
from handlens.errors import HandlensError
from handlens.offline.notebooks import NAMES, render, with_parameters, write_notebooks

CHALLENGES = ("forgery", "ink", "cells", "lesions")


@pytest.mark.parametrize("challenge", CHALLENGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_notebook_is_valid_and_its_code_can_be_parsed(challenge, name):
    nbformat = pytest.importorskip("nbformat")
    page = render(name, registry.challenge(challenge))
    nbformat.validate(nbformat.from_dict(page))
    code = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 4
    for text in code:
        ast.parse(text)
    assert f'NAME = "{challenge}"' in "\n".join(code)
    assert "{{" not in json.dumps(page)


def test_the_same_challenge_gives_the_same_notebook():
    assert render(NAMES[0], registry.challenge("ink")) == render(NAMES[0], registry.challenge("ink"))


def test_parameters_can_be_set_and_others_are_refused():
    page = render("03_infer_submit", registry.challenge("cells"))
    changed = with_parameters(page, {"DATA": "/a/b", "LIMIT": "5m"})
    cell = next(cell for cell in changed["cells"] if "parameters" in cell["metadata"].get("tags", ()))
    text = "".join(cell["source"])
    assert "DATA = '/a/b'\n" in text
    assert "LIMIT = '5m'\n" in text
    assert changed["cells"][-1] == page["cells"][-1]
    with pytest.raises(HandlensError, match="no parameter ODD"):
        with_parameters(page, {"ODD": 1})


def test_the_inference_script_of_lesions_says_what_our_predictor_says(tmp_path):
    challenge = registry.challenge("lesions")
    write_notebooks(challenge, tmp_path / "books")
    pipeline.sample(challenge, tmp_path / "data", seed=5, cases=4, size=80)
    cases = challenge.read_cases(tmp_path / "data", "test")
    sites = ("arm", "feet", "genitalia", "hand", "head", "leg", "torso")
    with (tmp_path / "table.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["image_path", "Class", "Age", "Location", "Gender"])  # the layout of the published example
        for number, case in enumerate(cases):
            facts = case.details
            site = (
                "" if facts["location"] is None else sites[facts["location"] - 1] if number % 2 else facts["location"]
            )
            age = "" if facts["age"] is None else facts["age"]
            table.writerow([case.path, "NV", age, site, facts["gender"] or ""])
    run = [sys.executable, "-I", tmp_path / "books" / "infer.py", tmp_path / "table.csv"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=True)
    rows = list(csv.reader(done.stdout.splitlines()))
    assert rows[0][1:] == ["AK", "BCC", "SK", "SCC", "VASC", "DF", "NV", "NON", "MEL", "ON"]
    predictor = handlens.load("lesions", threads=1, turns=1)  # as the contest runs the file
    for row, case in zip(rows[1:], cases, strict=True):
        with predictor.decode(case) as photograph:
            ours = predictor.predict(photograph).answer
        assert np.abs(np.array(row[1:], float) - ours).max() < 1e-5
        assert abs(sum(map(float, row[1:])) - 1) < 1e-9


def test_the_inference_script_uses_three_packages_alone():
    source = Path(handlens.__file__).parent / "offline" / "templates" / "infer.py.txt"
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime", "PIL"}


def test_the_inference_script_says_what_is_wrong(tmp_path):
    write_notebooks(registry.challenge("lesions"), tmp_path)
    (tmp_path / "table.csv").write_text("image_path,Age\nnowhere.png,4\n")
    run = [sys.executable, "-I", tmp_path / "infer.py", tmp_path / "table.csv"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "nowhere.png" in done.stderr
    assert "Traceback" not in done.stderr
