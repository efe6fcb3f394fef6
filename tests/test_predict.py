"""`handlens predict`: the run knows its challenge, everything else is `solve`."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from onnx_models import write_dark_is_cell

from handlens import pipeline, registry
from handlens.cli import cli
from handlens.errors import DataError, HandlensError, ModelError
from handlens.runstore.store import write_manifest


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "data"
    pipeline.sample(registry.challenge("cells"), folder, seed=1, cases=2, size=96)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_dark_is_cell(tmp_path_factory.mktemp("model") / "run")


def run(*args):
    return CliRunner().invoke(cli, list(map(str, args)))


def test_predict_is_solve_with_the_model(data, model, tmp_path):
    predicted = run("predict", model, data, "-o", tmp_path / "one", "--turns", 1, "--instances")
    assert predicted.exit_code == 0, predicted.exception
    solved = run("solve", "cells", data, "-o", tmp_path / "two", "--model", model, "--turns", 1)
    assert solved.exit_code == 0, solved.exception
    assert "2 cases, valid" in predicted.stdout
    assert (tmp_path / "one/submission.csv").read_bytes() == (tmp_path / "two/submission.csv").read_bytes()
    assert (tmp_path / "one" / "instances" / "00.csv").is_file()
    assert json.loads((tmp_path / "one" / "score.json").read_text())["model"] == str(model)


def test_a_run_of_any_challenge_is_used(data, tmp_path, monkeypatch):
    asked = {}

    def solve(challenge, folder, out, **rest):
        asked.update(rest, challenge=challenge.name)
        return pipeline.Solved(out, 0, None, None, 0.0)

    monkeypatch.setattr(pipeline, "solve", solve)
    write_manifest(tmp_path, {"command": "train", "challenge": "forgery"}, "key", finished=True)
    assert run("predict", tmp_path, data, "-o", tmp_path / "out", "--seconds", 7, "--no-report").exit_code == 0
    assert (asked["challenge"], asked["model"], asked["settings"].seconds) == ("forgery", tmp_path, 7)


def test_the_challenge_of_a_run(model, tmp_path):
    challenge_of = pipeline.challenge_of_model
    assert challenge_of(model) == "cells"  # stopped early: a model and its plan, no manifest
    with pytest.raises(DataError, match=r"no run\.json in it: name a folder that handlens wrote"):
        challenge_of(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(DataError, match=r"no run\.json in it"):
        challenge_of(tmp_path)
    for command, finished in (("train", False), ("solve", True)):
        write_manifest(tmp_path, {"command": command, "challenge": "cells"}, "key", finished=finished)
        with pytest.raises(DataError, match="no finished training in it: name a folder that `handlens train` wrote"):
            challenge_of(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(ModelError, match=r"plan\.json: damaged"):
        challenge_of(tmp_path)


def test_usage_errors_are_those_of_solve(data, model, tmp_path):
    done = run("predict", model, data)
    assert done.exit_code == 2
    assert "Missing option '-o'" in done.output
    assert "No such option '--nonsense'" in run("predict", model, data, "-o", tmp_path / "out", "--nonsense").output
    assert run("predict", model).exit_code == 2
    write_manifest(tmp_path, {"command": "train", "challenge": "nothing"}, "key", finished=True)
    assert "nothing" in str(run("predict", tmp_path, data, "-o", tmp_path / "out").exception)


def test_predicting_does_not_load_torch(data, model, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom handlens import pipeline, registry\n"
        "a, b, c = map(Path, sys.argv[1:])\npipeline.solve(registry.challenge('cells'), a, b, model=c)\n"
        "print(sorted({'torch', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, data, tmp_path / "out", model], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['onnxruntime']"


def test_a_flag_is_an_option_without_a_value(data, model, tmp_path):
    challenge = registry.challenge("cells")
    assert challenge.settings().instances is False
    assert challenge.settings(instances=True).instances is True
    with pytest.raises(HandlensError, match="^cells: instances is 'yes'; expected true or false$"):
        challenge.settings(instances="yes")
    assert run("predict", model, data, "-o", tmp_path / "out", "--instances", "yes").exit_code == 2
