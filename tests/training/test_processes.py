"""Two processes that share every batch learn what one learns."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_training
import torch

import handlens
from handlens.errors import HandlensError
from handlens.training.options import TrainSettings

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
import tiny_training
from handlens.training.options import TrainSettings
if __name__ == "__main__":
    print(tiny_training.train(Path(sys.argv[1]), Path(sys.argv[2]), settings=TrainSettings(folds=2, devices=2), dropout=0.0))
"""


def test_two_gloo_processes_give_the_result_of_one(slides, tmp_path):
    one = tmp_path / "one"
    tiny_training.train(slides, one, dropout=0.0)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, tmp_path / "program.py", slides, tmp_path / "two"]
    places = [Path(tiny_training.__file__).parent, Path(handlens.__file__).parents[1]]  # the code that is tested here
    env = {"PYTHONPATH": os.pathsep.join(map(str, places)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=env)
    assert done.returncode == 0, done.stderr
    ours, theirs = (torch.load(run / "weights.pt") for run in (one, tmp_path / "two"))
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=1e-3, atol=1e-4), name
    begun = tiny_training.make_tiny_task(slides, 0.0)
    torch.manual_seed(2)  # what the final stage began with
    first = begun.make_network().state_dict()
    assert not torch.allclose(
        first["last.weight"], ours["last.weight"], rtol=1e-3, atol=1e-4
    )  # there was something to learn
    pages = [json.loads((run / "plan.json").read_text()) for run in (one, tmp_path / "two")]
    assert [page["devices"] for page in pages] == [1, 2]
    assert pages[0]["score"] == pytest.approx(pages[1]["score"], abs=0.01)


def test_a_batch_must_be_shared_evenly(slides, tmp_path):
    with pytest.raises(HandlensError, match="a batch of 4 cannot be shared evenly by 3 processes"):
        tiny_training.train(slides, tmp_path / "run", settings=TrainSettings(folds=2, devices=3))
