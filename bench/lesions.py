"""How the judge of lesions models deals with hostile ones: twelve kinds, more of them, and an honest one.

python bench/lesions.py              every model, in about a minute; on made-up photographs

It needs what `pip install .[dev]` installs: the models are made by `tests/hostile_models.py`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from handlens import pipeline, registry, standings
from handlens.judging import runner
from handlens.judging.verdicts import RefusedError
from handlens.types import Limits

TESTS = Path(__file__).resolve().parents[1] / "tests"
LIMITS = Limits(memory_mib=2048, answer_seconds=5)


@dataclass(frozen=True, slots=True)
class Row:
    """One model: the verdict that is right, the one that was given, its words, and the time that took."""

    what: str
    expected: str
    found: str
    why: str
    seconds: float


def judge_models(folder: Path, cases: int) -> Iterator[Row]:
    """The twelve of the list, those beyond it, and the honest one, all judged by one call each."""
    sys.path.insert(0, str(TESTS))
    import hostile_models

    challenge = registry.challenge("lesions")
    data = folder / "data"
    pipeline.sample(challenge, data, seed=0, cases=cases, size=128)
    models = {
        "honest": (hostile_models.honest, "scored"),
        **hostile_models.HOSTILE,
        "fork bomb": (hostile_models.honest, "forbidden"),
        **hostile_models.MORE,
    }
    for name, (make, expected) in models.items():
        path = hostile_models.write(folder / f"{name}.onnx", make())
        begun = time.perf_counter()
        if name == "fork bomb":  # no file can do it: this is what a runtime that was taken over would do
            found, why = _taken_over(path, "fork_bomb")
        else:
            (entry,) = standings.judge(challenge, [path], data, challenge.settings(), limits=LIMITS).models
            found, why = entry.verdict, entry.why
        yield Row(name, expected, found, why, time.perf_counter() - begun)


def _taken_over(path: Path, act: str) -> tuple[str, str]:
    try:
        with runner.opened(path, LIMITS, entry=f"hostile_child:{act}"):
            return "scored", ""
    except RefusedError as error:
        return error.verdict, error.why


def print_judge(rows: list[Row]) -> None:
    print(f"{'model':28}{'verdict':18}{'right':7}{'s':>5}  why")
    for row in rows:
        right = "yes" if row.found == row.expected else f"NO: {row.expected}"
        print(f"{row.what:28}{row.found:18}{right:7}{row.seconds:5.1f}  {row.why}".rstrip())
    wrong = sum(row.found != row.expected for row in rows)
    middle = statistics.median(row.seconds for row in rows)
    print(f"{len(rows)} models, {wrong} wrong verdicts; {middle:.1f} s for a model in the middle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20, help="made-up photographs to judge by")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print_judge(list(judge_models(Path(folder), given.cases)))


if __name__ == "__main__":
    main()
