"""The documents are true: pages are complete, links lead somewhere, commands in them do what they show."""

import ast
import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

import click
import pytest

from handlens import registry
from handlens.cli import cli
from handlens.types import Case, Challenge, Codec, Truth

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
TEXTS = ("*.md", "*.py", "*.toml", "*.txt", "*.csv", "*.json", "scripts/*", ".ci/*", "LICENSE", ".gitignore")
SKIPPED = {".git", ".venv", ".hypothesis", "build", "dist", "demo-out", "__pycache__"}

ROUGHLY = 0.05
"""How far, as a share, a number in a `console roughly` block may be off: image libraries differ between machines."""


# --- reading documents --------------------------------------------------------------------------------------------


def fenced(text):
    """Kind (the words after the fence) and content of every fenced block, in order."""
    return re.findall(r"^```([^\n`]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command, what it prints, and whether its numbers may differ a little; `shown` is None where nothing is said."""

    command: str
    shown: list[str] | None
    roughly: bool


def steps_of(text):
    """The commands of a page in order: `$ ` lines of console blocks, and whole Python blocks."""
    steps = []
    for kind, content in fenced(text):
        if kind == "python":
            steps.append(Step(f"$PYTHON -c {shlex.quote(content)}", None, False))
        elif kind.split()[:1] == ["console"]:
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, *shown = part.split("\n")[:-1]
                steps.append(Step(command, shown, "roughly" in kind.split()))
    return steps


def run_steps(steps, folder):
    """Output and exit status of each command, all in one shell; `$?` is that of the command before."""
    handlens = 'handlens() { "$PYTHON" -c "from handlens.cli import main; main()" "$@"; }'
    end = "handlens-docs-end"
    body = [f"eval {shlex.quote(s.command)} 2>&1; s=$?; printf '{end} %d\\n' $s; (exit $s)" for s in steps]
    script = "\n".join(["set -o pipefail", handlens, *body])
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    pieces = re.findall(rf"(.*?){end} (\d+)\n", done.stdout, re.DOTALL)
    assert len(pieces) == len(steps), done.stderr
    return [(output.splitlines(), int(status)) for output, status in pieces]


def find_lies(steps, results):
    """What a page shows that is not so."""
    lies = []
    for number, (step, (output, status)) in enumerate(zip(steps, results, strict=True)):
        asked = number + 1 < len(steps) and steps[number + 1].command == "echo $?"
        if status and not asked:
            lies.append(f"$ {step.command}\nexit status {status}: {output}")
        if step.shown is not None and not same_lines(step.shown, output, step.roughly):
            lies.append(f"$ {step.command}\nshown:   {step.shown}\nprinted: {output}")
    return lies


def same_lines(shown, printed, roughly):
    printed = [line for line in printed if not re.fullmatch(r"\w+: \d+ of \d+", line)]  # progress, on a slow machine
    return len(shown) == len(printed) and all(map(functools.partial(same_line, roughly=roughly), shown, printed))


def same_line(shown, printed, roughly):
    shown, printed = (re.sub(r"\b\d+\.\d s\b", "N s", line) for line in (shown, printed))
    if not roughly:
        return shown == printed
    number = r"(\d+(?:\.\d+)?)"
    ours, theirs = re.split(number, shown), re.split(number, printed)
    return ours[0::2] == theirs[0::2] and all(
        abs(float(a) - float(b)) <= ROUGHLY * abs(float(a)) for a, b in zip(ours[1::2], theirs[1::2], strict=True)
    )


RUN = [page for page in PAGES if any(kind.startswith("console") for kind, _ in fenced(page.read_text("utf-8")))]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_shows(page, tmp_path):
    steps = steps_of(page.read_text("utf-8"))
    lies = find_lies(steps, run_steps(steps, tmp_path))
    assert not lies, "\n\n".join(lies)


def test_the_pages_that_must_have_commands_have_them():
    expected = {"README.md", "tutorial.md", *(f"{name}.md" for name in registry.BUILT_IN)}
    assert expected <= {page.name for page in RUN}
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "python" in {kind for kind, _ in fenced(readme)}
    commands = " ".join(step.command for step in steps_of(readme))
    assert all(f"handlens {name} " in commands for name in ("sample", "solve", "check", "score"))


@pytest.mark.parametrize(
    ("page", "lie"),
    [
        ("```console\n$ echo 1\n2\n```\n", "shown:   ['2']"),
        ("```console\n$ echo 1\n```\n", "shown:   []"),
        ("```console\n$ echo 100\n101\n```\n", "shown:   ['101']"),
        ("```console roughly\n$ echo 100\n120\n```\n", "shown:   ['120']"),
        ("```console roughly\n$ echo 100 cats\n100 dogs\n```\n", "100 dogs"),
        ("```console\n$ false\n```\n", "exit status 1"),
        ("```console\n$ false\n$ echo $?\n0\n```\n", "shown:   ['0']"),
        ("```console\n$ handlens score cells none --truth none\nfine\n```\n", "exit status 1"),
        ("```python\nassert 1 == 2\n```\n", "exit status 1"),
    ],
)
def test_a_lie_is_found(page, lie, tmp_path):
    steps = steps_of(page)
    assert lie in "\n".join(find_lies(steps, run_steps(steps, tmp_path)))


def test_what_is_true_is_let_through(tmp_path):
    page = (
        "```console\n$ echo 1\n1\n$ false\n$ echo $?\n1\n$ echo took 1.5 s\ntook 9.9 s\n```\n"
        "```console roughly\n$ echo 100 of 7\n102 of 7\n```\n```text\n$ false\n```\n```python\nassert True\n```\n"
    )
    steps = steps_of(page)
    assert len(steps) == 6
    assert not find_lies(steps, run_steps(steps, tmp_path))


# --- the command line ---------------------------------------------------------------------------------------------


@functools.cache
def make_cli():
    spec = importlib.util.spec_from_file_location("make_cli", DOCS / "make_cli.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def forms():
    """Every command with its words: `score cells` too."""
    for name, command in cli.commands.items():
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for challenge in command.list_commands(context):
                if challenge in registry.BUILT_IN:
                    yield f"{name} {challenge}", command.get_command(context, challenge)


def undocumented(page):
    """Commands without a section, and options that their section does not name."""
    sections = dict(re.findall(r"^#+ handlens ([^\n]+)\n+```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for name, command in forms():
        if name not in sections:
            yield name
            continue
        for option in (param for param in command.params if isinstance(param, click.Option) and not param.hidden):
            for flag in option.opts:
                if not re.search(rf"(?<![\w-]){flag}(?![\w-])", sections[name]):
                    yield f"{name} {flag}"


def test_the_page_of_the_command_line_is_up_to_date():
    assert (DOCS / "cli.md").read_text("utf-8") == make_cli().render(), "run python docs/make_cli.py"


def test_every_command_and_option_is_documented():
    page = (DOCS / "cli.md").read_text("utf-8")
    trained = [name for name in registry.BUILT_IN if registry.challenge(name).train]
    judged = [name for name in registry.BUILT_IN if registry.challenge(name).judge]
    assert len(list(forms())) == 12 + 6 * len(registry.BUILT_IN) + len(trained) + len(judged)
    assert not list(undocumented(page))
    assert list(undocumented(page.replace("--average", "--mean"))) == ["score ink --average"]
    assert "solve ink" in list(undocumented(page.replace("# handlens solve ink", "# handlens read ink")))


def test_the_page_does_not_depend_on_terminal_or_plug_ins(monkeypatch):
    page = make_cli().render()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(registry, "names", lambda: [*registry.BUILT_IN, "stranger"])
    assert make_cli().render() == page


def test_every_command_is_in_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [name for name in cli.commands if f"`handlens {name}" not in readme] == []


# --- pages and links ----------------------------------------------------------------------------------------------


def broken_links(page, text):
    """Relative links, pictures too, that lead nowhere; code is passed over."""
    prose = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [
        target
        for target in targets
        if not re.match(r"[a-z]+:|#", target) and not (page.parent / target.partition("#")[0]).exists()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert broken_links(page, page.read_text("utf-8")) == []


def test_a_broken_link_is_found():
    text = "[a](docs/none.md) [b](README.md#top) [c](https://example.org) ![d](none.jpg) `[e](no.md)`"
    assert broken_links(ROOT / "README.md", text) == ["docs/none.md", "none.jpg"]


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_challenge_has_a_page_and_the_readme_links_to_it(name):
    page = (DOCS / f"{name}.md").read_text("utf-8")
    assert page.startswith(f"# {name}: ")
    assert f"(docs/{name}.md)" in (ROOT / "README.md").read_text("utf-8")
    for option in registry.challenge(name).options:
        assert f"--{option.name.replace('_', '-')}" in page
    codec = registry.challenge(name).codec(registry.challenge(name).settings())
    assert f"{codec.id_column},{codec.columns[0]}" in page


# --- rules, change log, plug-ins ----------------------------------------------------------------------------------


def readings_of(rules):
    """The numbers of the Readings in a rules file."""
    return [int(number) for number in re.findall(r"^(\d+)\. \*\*", rules.partition("## Readings")[2], re.MULTILINE)]


def reading_tests_of(source):
    """The numbers of the tests of Readings; a Reading may have several."""
    names = [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {int(found[1]) for name in names if (found := re.match(r"test_reading_(\d\d)_", name))}


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_reading_has_a_test_and_every_such_test_a_reading(name):
    numbers = readings_of(registry.challenge(name).rules.read_text("utf-8"))
    tested = reading_tests_of((ROOT / "tests" / "challenges" / name / "test_readings.py").read_text("utf-8"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers
    assert tested == set(numbers)


def test_readings_are_counted():
    assert readings_of("1. **no**\n## Readings\n1. **a**\n   2. b\n3. **c** 4. **d**\n") == [1, 3]
    assert reading_tests_of("def test_reading_01_a(): ...\ndef test_reading_12_b(): ...\ndef test_other(): ...") == {
        1,
        12,
    }


def test_the_change_log_has_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_page_about_plug_ins_shows_the_example():
    page = (DOCS / "add-a-challenge.md").read_text("utf-8")
    example = (ROOT / "tests" / "example_plugin" / "brightness.py").read_text("utf-8")
    blocks = [content for kind, content in fenced(page) if kind == "python"]
    assert len(blocks) >= 6
    assert [block for block in blocks if block not in example and "check_challenge" not in block] == []
    (table,) = (tomllib.loads(content) for kind, content in fenced(page) if kind == "toml")
    assert table["project"]["entry-points"][registry.GROUP] == {"brightness": "brightness:CHALLENGE"}


@pytest.mark.parametrize("kind", [Challenge, Codec, Truth, Case])
def test_the_page_about_plug_ins_names_every_field(kind):
    page = (DOCS / "add-a-challenge.md").read_text("utf-8")
    table = page.partition(f"| field of `{kind.__name__}` |")[2].partition("\n\n")[0]
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in table.replace("\n", " ")] == []


# --- words --------------------------------------------------------------------------------------------------------

UNWANTED = ("/" + "work/", "help" + "er")  # put together, so that this file does not hold them
ALLOWED = tuple(name + UNWANTED[1] for name in ("onnx.", "numpy_"))  # modules of a library


def project_texts():
    found = {path for pattern in TEXTS for path in ROOT.rglob(pattern) if path.is_file()}
    return sorted(
        path
        for path in found
        if not any(part in SKIPPED or part.endswith("cache") for part in path.relative_to(ROOT).parts)
    )


def unwanted_words(text):
    text = functools.reduce(lambda left, name: left.replace(name, ""), ALLOWED, text.lower())
    return [word for word in UNWANTED if word in text]


def test_no_text_speaks_of_the_place_where_it_was_written():
    texts = project_texts()
    assert {"README.md", "cli.py", "rules.md", "pyproject.toml", "test_docs.py"} <= {path.name for path in texts}
    assert {
        str(path.relative_to(ROOT)): words for path in texts if (words := unwanted_words(path.read_text("utf-8")))
    } == {}
    assert unwanted_words(f"a {UNWANTED[1]} of mine in {UNWANTED[0]}x") == list(UNWANTED)
