"""The targets of `bench/fuzz_coverage.py`: parser and judge agree on the seeds, and a parser that errs is caught."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "fuzz_coverage.py"
spec = importlib.util.spec_from_file_location("fuzz_coverage", BENCH)
fuzz_coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz_coverage)


@pytest.mark.parametrize("target", fuzz_coverage.TARGETS)
def test_judge_and_parser_agree_on_the_seeds(target):
    attempt, _ = fuzz_coverage.TARGETS[target]
    accepted = [attempt(seed) for seed in fuzz_coverage.seeds_of(target)]
    assert True in accepted
    assert False in accepted


@pytest.mark.parametrize(
    ("target", "name", "data"),
    [
        ("pairs", "handlens.masks.rle.parse_pairs", b"7"),
        ("lists", "handlens.masks.rle.parse_lists", b"[]"),
        ("csv", "handlens.io.csv.split_records", b"a,b\n"),
        ("onnx", "handlens.sandbox.onnxfile.check", None),
    ],
)
def test_a_parser_that_errs_is_caught(target, name, data, monkeypatch):
    from handlens.masks.rle import EMPTY

    wrong = {"pairs": EMPTY, "lists": (EMPTY,), "csv": [(1, [b"a"])], "onnx": None}
    monkeypatch.setattr(name, lambda *_, **__: wrong[target])
    data = fuzz_coverage.seeds_of("onnx")[-1] if data is None else data  # with external data
    with pytest.raises(fuzz_coverage.WrongError):
        fuzz_coverage.TARGETS[target][0](data)


def test_without_atheris_it_says_what_to_install(tmp_path):
    """`-S` hides installed packages."""
    done = subprocess.run([sys.executable, "-S", BENCH], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "atheris is not installed: pip install" in done.stderr
    assert not list(tmp_path.iterdir())
