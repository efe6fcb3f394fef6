"""Coverage-guided fuzzing of the parsers that are written by hand: run-length text, CSV records, the ONNX walker.

python bench/fuzz_coverage.py --seconds 300                       each for so long
python bench/fuzz_coverage.py --seconds 60 --target csv --out DIR the corpus in DIR is gone on with

atheris (extra `bench`) finds inputs that reach new lines of the parser. Each is judged by another reader: one number
after the other for pairs, the same after Python's json for lists, Python's csv module in its strict mode,
protobuf's own reader of ONNX.
An accept that the judge refuses, a refusal of what it knows to be sound, another content, and every exception that is
no refusal of ours end a target, and the input is kept in OUT/TARGET.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import io
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

PIXELS = 600
"""Of the image that run-length texts are about."""

LONGEST = {"pairs": 512, "lists": 512, "csv": 1024, "onnx": 4096}
"""Bytes of an input: several times those of the seeds."""

HANG_SECONDS = 10
MOST_MB = 2048
DICTIONARIES = {
    "pairs": ("600", "601", "999999999999999999", "9999999999999999999", "\\x0b", "\\xc2\\xa0"),
    "lists": ("[", "]", ";", ", ", "];[", "true", "1e2", "1.0", "-1", "01", "NaN", "999999999999999999"),
    "csv": ("\\x22", "\\x22\\x22", "\\x0d\\x0a", "\\x0d", "\\xef\\xbb\\xbf", ","),
    "onnx": ("RandomUniform", "Dropout", "Bernoulli", "ai.onnx", "ai.onnx.ml", "bomb", "location", "If", "then_branch"),
}


class WrongError(Exception):
    """The parser and its judge disagree."""


# --- one input of each target -----------------------------------------------------------------------------------------


def try_pairs(data: bytes) -> bool:
    """Whether the text was accepted; WrongError where that was wrong."""
    from handlens.masks.rle import parse_pairs

    text = data.decode("utf-8", "surrogateescape")
    numbers = [int(word) for word in re.split(r"[ \t\r\n]+", text) if word] if _digits_and_spaces(text) else None
    expected = None if numbers is None else pairs_of(numbers)
    return _compare(lambda: _pairs(parse_pairs(text, pixels=PIXELS)), expected)


def try_lists(data: bytes) -> bool:
    from handlens.masks.rle import parse_lists

    text = data.decode("utf-8", "surrogateescape")
    expected: list[list[tuple[int, int]]] | None = []
    for piece in text.split(";"):
        found = list_of(piece)
        expected = None if found is None or expected is None else [*expected, found]
    return _compare(lambda: [_pairs(runs) for runs in parse_lists(text, pixels=PIXELS)], expected)


def try_csv(data: bytes) -> bool:
    from handlens.io.csv import TableError, split_records

    text = data.decode("latin-1")  # a letter for every byte
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        rows = None
    try:
        found = [[field.decode("latin-1") for field in fields] for _, fields in split_records(data, b",")]
    except TableError:
        found = None
    if found != rows:
        raise WrongError(f"we read {found!r}, Python's csv {rows!r}")
    return found is not None


def try_onnx(data: bytes) -> bool:
    from oracles import onnx_files

    from handlens.sandbox import onnxfile
    from handlens.sandbox.verdicts import RefusedError

    try:
        onnxfile.check(data)
    except RefusedError:
        return False
    if why := onnx_files.danger(data):
        raise WrongError(f"accepted, but protobuf finds {why}")
    return True


TARGETS: dict[str, tuple[Callable[[bytes], bool], tuple[str, ...]]] = {
    "pairs": (try_pairs, ("handlens.masks.rle",)),
    "lists": (try_lists, ("handlens.masks.rle",)),
    "csv": (try_csv, ("handlens.io.csv",)),
    "onnx": (try_onnx, ("handlens.sandbox.onnxfile", "handlens.sandbox.wire")),
}
"""What is tried, and the modules whose lines count."""


def _compare(parse: Callable[[], object], expected: object) -> bool:
    try:
        found = parse()
    except ValueError:
        found = None
    if found != expected:
        raise WrongError(f"we read {found!r}, the plain parser {expected!r}")
    return found is not None


def _digits_and_spaces(text: str) -> bool:
    return not set(text) - set("0123456789 \t\r\n")


def pairs_of(numbers: list[int]) -> list[tuple[int, int]] | None:
    """First pixels from 0 and lengths; None where they are no mask of 600 pixels."""
    if len(numbers) % 2:
        return None
    found, last = [], 0
    for start, length in zip(numbers[0::2], numbers[1::2], strict=True):
        if start <= last or length < 1:
            return None
        last = start + length - 1
        found.append((start - 1, length))
    return found if last <= PIXELS else None


def list_of(piece: str) -> list[tuple[int, int]] | None:
    try:
        numbers = json.loads(piece)
    except (ValueError, RecursionError):
        return None
    if not isinstance(numbers, list) or not numbers or any(type(number) is not int for number in numbers):
        return None
    return pairs_of(numbers)


def _pairs(runs: object) -> list[tuple[int, int]]:
    return list(zip(runs.starts.tolist(), runs.lengths.tolist(), strict=True))  # type: ignore[attr-defined]


def seeds_of(target: str) -> list[bytes]:
    """Sound inputs of a target, and a few odd ones."""
    from fuzz import kinds

    if target == "pairs":
        return [b"5 3 9 2 100 30", b"1 600", b"", b"600 1\n", b"1 1\t3 1", b"0 1", b"7"]
    if target == "lists":
        return [b"[1, 4, 9, 2];[100, 7]", b"[600,1]", b"[1,2];[3,4]", b" [ 1 , 2 ] ", b"[]", b"[1, 2", b"[[1], 2]"]
    if target == "csv":
        odd = [b'a,"b ""c""\r\nd"\r\n\r\n,\n', b'"a"b,c\n', b'a,"b\n', b"a\rb\r\rc"]
        return [*(kinds.csv_seed(name) for name in kinds.RULES), *odd]
    return kinds.onnx_seeds()


# --- running ----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("fuzz_coverage"), help="corpus and failures")
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be given several times; default: all")
    parser.add_argument("--run", choices=TARGETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        raise SystemExit("fuzz_coverage: atheris is not installed: pip install --constraint constraints.txt '.[bench]'")
    if options.run:
        fuzz(options.run, options.out, options.seconds, options.seed)
    targets = options.target or list(TARGETS)
    print(f"{'target':>6}  {'inputs':>11}  {'accepted':>10}  {'refused':>11}  {'lines':>6}  {'worst MB':>8}  wrong")
    wrong = sum([run(target, options) for target in targets])
    sys.exit(wrong > 0)


def run(target: str, options: argparse.Namespace) -> bool:
    """One target in a process of its own, for libFuzzer ends it; True where it found something."""
    folder = options.out.resolve() / target
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds_of(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    counts = folder / "counts.json"
    counts.unlink(missing_ok=True)
    words = ["--run", target, "--out", folder, "--seconds", options.seconds, "--seed", options.seed]
    with (folder / "log.txt").open("wb") as log:
        done = subprocess.run([sys.executable, __file__, *map(str, words)], stdout=log, stderr=log, check=False)
    text = (folder / "log.txt").read_text("utf-8", "replace")
    inputs = max((int(number) for number in re.findall(r"^(?:#|Done )(\d+)", text, re.MULTILINE)), default=0)
    lines = max((int(number) for number in re.findall(r"\bcov: (\d+)", text)), default=0)
    found = json.loads(counts.read_text()) if counts.exists() else {"accepted": 0, "refused": 0, "mb": 0}
    what = "none" if not done.returncode else f"see {folder}"
    numbers = f"{inputs:>11,}  {found['accepted']:>10,}  {found['refused']:>11,}  {lines:>6,}  {found['mb']:>8,.0f}"
    print(f"{target:>6}  {numbers}  {what}", flush=True)
    return done.returncode != 0


def fuzz(target: str, folder: Path, seconds: int, seed: int) -> None:
    """atheris in this process; never comes back."""
    import atheris

    attempt, modules = TARGETS[target]
    with atheris.instrument_imports(include=list(modules)):
        for module in modules:
            importlib.import_module(module)
    counts, told = {"accepted": 0, "refused": 0, "mb": 0.0}, [time.monotonic()]

    def one_input(data: bytes) -> None:
        counts["accepted" if attempt(data) else "refused"] += 1
        if time.monotonic() - told[0] > 1:
            told[0] = time.monotonic()
            counts["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            with contextlib.suppress(OSError):
                (folder / "counts.json").write_text(json.dumps(counts))

    words = folder / "words.txt"
    words.write_text("".join(f'"{word}"\n' for word in DICTIONARIES[target]))
    options = {
        "max_total_time": seconds,
        "timeout": HANG_SECONDS,
        "rss_limit_mb": MOST_MB,
        "max_len": LONGEST[target],
        "seed": seed,
        "dict": words,
        "artifact_prefix": f"{folder}/",
        "print_final_stats": 1,
    }
    atheris.Setup(
        [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(folder / "corpus")], one_input
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
