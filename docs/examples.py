"""Run the examples in the documentation, and refresh the output that a page shows.

    python docs/examples.py                      # check every page
    python docs/examples.py --update README.md   # run the examples of a page and rewrite what they print

In a `console` block, a line that starts with `$ ` is run, and the lines after it are its expected output. In a
`console approx` block numbers may differ by five percent, because image libraries differ a little between machines.
`python` blocks are run too, on pages that have a `console` block; `python no-run` blocks are only shown. All blocks of
a page run in order in one empty folder. The folder that the package is in is shown as `...`. The test suite runs every
page.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

TOLERANCE = 0.05
"""Relative difference allowed between numbers in a `console approx` block."""

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRESS = re.compile(r"\w+: \d+ of \d+.*")
SECONDS = re.compile(r"\b\d+\.\d s\b")
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Step:
    """A command with the output the page shows for it; `shown` is None for Python blocks, which show none."""

    command: str
    shown: list[str] | None
    approx: bool


def fenced(text: str) -> list[tuple[str, str]]:
    """Info string and content of every fenced block, in order."""
    return FENCE.findall(text)


def steps_of(text: str) -> list[Step]:
    """The commands of a page in order: `$ ` lines of console blocks, and whole Python blocks."""
    steps = []
    for kind, content in fenced(text):
        if kind == "python":
            steps.append(Step(f"$PYTHON -c {shlex.quote(content)}", None, False))
        elif kind.split()[:1] == ["console"]:
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, *shown = part.split("\n")[:-1]
                steps.append(Step(command, shown, "approx" in kind.split()))
    return steps


def run_steps(steps: Sequence[Step], folder: Path) -> list[tuple[list[str], int]]:
    """Output lines and exit status of each command, all in one shell; `$?` is that of the command before."""
    handlens = 'handlens() { "$PYTHON" -c "from handlens.cli import main; main()" "$@"; }'
    end = "handlens-docs-end"
    body = [f"eval {shlex.quote(step.command)} 2>&1; s=$?; printf '{end} %d\\n' $s; (exit $s)" for step in steps]
    script = "\n".join(["set -o pipefail", handlens, *body])
    sources = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": sources}
    environment |= {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    pieces = re.findall(rf"(.*?){end} (\d+)\n", done.stdout, re.DOTALL)
    if len(pieces) != len(steps):
        last = steps[len(pieces)].command if len(pieces) < len(steps) else ""
        raise RuntimeError(
            f"the shell ended with status {done.returncode} after {len(pieces)} of {len(steps)} commands, in: {last}\n"
            f"{done.stdout[-500:]}{done.stderr[-500:]}"
        )
    return [(without_progress(portable(output).splitlines()), int(status)) for output, status in pieces]


def portable(output: str) -> str:
    """The output with `...` for the folder that the package is in, which differs between machines."""
    return output.replace(str(ROOT / "src"), "...")


def without_progress(lines: Sequence[str]) -> list[str]:
    """The lines without progress reports, which appear only on a slow machine."""
    return [line for line in lines if not PROGRESS.fullmatch(line)]


def find_mismatches(steps: Sequence[Step], results: Sequence[tuple[list[str], int]]) -> list[str]:
    """Every command that fails, or prints something other than the page shows."""
    mismatches = []
    for number, (step, (output, status)) in enumerate(zip(steps, results, strict=True)):
        status_expected = number + 1 < len(steps) and steps[number + 1].command == "echo $?"
        if status and not status_expected:
            mismatches.append(f"$ {step.command}\nexit status {status}: {output}")
        if step.shown is not None and not same_lines(step.shown, output, step.approx):
            mismatches.append(f"$ {step.command}\nshown:   {step.shown}\nprinted: {output}")
    return mismatches


def same_lines(shown: Sequence[str], printed: Sequence[str], approx: bool) -> bool:
    return len(shown) == len(printed) and all(map(functools.partial(same_line, approx=approx), shown, printed))


def same_line(shown: str, printed: str, approx: bool) -> bool:
    """Whether two lines agree; durations such as `0.3 s` are not compared."""
    shown, printed = (SECONDS.sub("N s", line) for line in (shown, printed))
    if not approx:
        return shown == printed
    ours, theirs = NUMBER.split(shown), NUMBER.split(printed)
    return ours[0::2] == theirs[0::2] and all(
        abs(float(a) - float(b)) <= TOLERANCE * abs(float(a)) for a, b in zip(ours[1::2], theirs[1::2], strict=True)
    )


def conflicting_scores(text: str) -> list[str]:
    """Submissions for which a page shows two scores, as `solve` or `score` print them under the same options."""
    shown: dict[str, set[str]] = {}
    for step in steps_of(text):
        program, command, name, file, *options = [*shlex.split(step.command.partition("|")[0]), "", "", ""]
        lines = "\n".join(step.shown or ())
        if (program, command) == ("handlens", "solve") and "-o" in options:
            key, pattern = options[options.index("-o") + 1], r"^score (\S+)"
        elif (program, command) == ("handlens", "score"):
            special = [
                word for word in options if word.startswith("--") and word not in ("--truth", "--cases", "--json")
            ]
            path = Path(file)
            key = " ".join([str(path.parent if path.stem == "submission" else path), *special])
            pattern = rf"^{name} (\S+)"
        else:
            continue
        if found := re.search(pattern, lines, re.MULTILINE):
            shown.setdefault(key, set()).add(found[1])
    return [f"{file}: {', '.join(sorted(scores))}" for file, scores in shown.items() if len(scores) > 1]


def updated(text: str, results: Sequence[tuple[list[str], int]]) -> str:
    """The page with the output of its console commands replaced by what they printed."""
    remaining = iter(results)

    def refresh(block: re.Match[str]) -> str:
        kind, content = block[1], block[2]
        if kind == "python":
            next(remaining)
        if kind.split()[:1] != ["console"]:
            return block[0]
        lines = []
        for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
            command, *shown = part.split("\n")[:-1]
            printed, _ = next(remaining)
            same = same_lines(shown, printed, approx=False)  # but for durations: no reason to touch the page
            lines += [f"$ {command}", *(shown if same else printed)]
        return "\n".join([f"```{kind}", *lines, "```"])

    return FENCE.sub(refresh, text)


def has_examples(page: Path) -> bool:
    return any(kind.startswith("console") for kind, _ in fenced(page.read_text("utf-8")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="pages to run; all of them by default")
    parser.add_argument("--update", action="store_true", help="rewrite the output that the pages show")
    arguments = parser.parse_args()
    failed = False
    for page in arguments.pages or [page for page in PAGES if has_examples(page)]:
        text = page.read_text("utf-8")
        steps = steps_of(text)
        with tempfile.TemporaryDirectory() as folder:
            results = run_steps(steps, Path(folder))
        mismatches = find_mismatches(steps, results)
        errors = [mismatch for mismatch in mismatches if not arguments.update or "exit status" in mismatch]
        changed = arguments.update and not errors and updated(text, results) != text
        if changed:
            page.write_text(updated(text, results), encoding="utf-8")
        failed = failed or bool(errors)
        print(f"{page}: {len(steps)} examples, {len(mismatches)} differ{', updated' if changed else ''}")
        print(*errors, sep="\n\n", end="\n" * bool(errors))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
