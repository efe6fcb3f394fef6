"""The documentation is true: commands print what pages show, links lead somewhere, the site builds."""

import ast
import functools
import html
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath

import click
import pytest

from handlens import registry
from handlens.cli import cli
from handlens.runstore.plan import read_plan
from handlens.settings import fields_of
from handlens.training.card import write_card
from handlens.training.options import Schedule
from handlens.types import Case, Challenge, Codec, Truth

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEXTS = (
    "*.md",
    "*.py",
    "*.toml",
    "*.txt",
    "*.csv",
    "*.json",
    "*.yml",
    "*.js",
    "scripts/*",
    ".ci/*",
    "LICENSE",
    ".gitignore",
)
SKIPPED = {".git", ".venv", ".hypothesis", "build", "dist", "demo-out", "__pycache__"}


@functools.cache
def load(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


examples = load("examples")
PAGES = examples.PAGES
RUN = [page for page in PAGES if examples.has_examples(page)]


def page_id(page):
    return str(page.relative_to(ROOT))


# --- examples -----------------------------------------------------------------------------------------------------


def mismatches_of(text, folder):
    steps = examples.steps_of(text)
    return examples.find_mismatches(steps, examples.run_steps(steps, folder))


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=page_id)
def test_the_commands_of_a_page_print_what_it_shows(page, tmp_path):
    mismatches = mismatches_of(page.read_text("utf-8"), tmp_path)
    assert not mismatches, "\n\n".join(mismatches)


def test_the_pages_that_must_have_commands_have_them():
    expected = {"README.md", "docs/start/tutorial.md", *(f"docs/challenges/{name}.md" for name in registry.BUILT_IN)}
    assert expected <= {page_id(page) for page in RUN}
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "python" in {kind for kind, _ in examples.fenced(readme)}
    commands = " ".join(step.command for step in examples.steps_of(readme))
    assert all(f"handlens {name} " in commands for name in ("sample", "solve", "check", "score"))


@pytest.mark.parametrize("page", RUN, ids=page_id)
def test_a_page_shows_one_score_for_one_file(page):
    assert examples.conflicting_scores(page.read_text("utf-8")) == []


def test_two_scores_for_one_file_are_found():
    solve = "```console approx\n$ handlens solve cells d -o out\nscore 0.83 (Dice)\n```\n"
    score = "```console approx\n$ handlens score cells out/submission.csv --truth d\ncells {}\n```\n"
    assert examples.conflicting_scores(solve + score.format("0.84")) == ["out: 0.83, 0.84"]
    assert examples.conflicting_scores(solve + score.format("0.83")) == []
    assert examples.conflicting_scores(solve + score.format("0.84").replace("out/submission", "mine")) == []


@pytest.mark.parametrize(
    ("page", "mismatch"),
    [
        ("```console\n$ echo 1\n2\n```\n", "shown:   ['2']"),
        ("```console\n$ echo 1\n```\n", "shown:   []"),
        ("```console\n$ echo 100\n101\n```\n", "shown:   ['101']"),
        ("```console approx\n$ echo 100\n120\n```\n", "shown:   ['120']"),
        ("```console approx\n$ echo 100 cats\n100 dogs\n```\n", "100 dogs"),
        ("```console\n$ false\n```\n", "exit status 1"),
        ("```console\n$ false\n$ echo $?\n0\n```\n", "shown:   ['0']"),
        ("```console\n$ handlens score cells none --truth none\nfine\n```\n", "exit status 1"),
        ("```python\nassert 1 == 2\n```\n", "exit status 1"),
    ],
)
def test_a_mismatch_is_found(page, mismatch, tmp_path):
    assert mismatch in "\n".join(mismatches_of(page, tmp_path))


def test_what_is_true_passes(tmp_path):
    page = (
        "```console\n$ echo 1\n1\n$ false\n$ echo $?\n1\n$ echo took 1.5 s\ntook 9.9 s\n```\n"
        "```console approx\n$ echo 100 of 7\n102 of 7\n```\n```text\n$ false\n```\n```python\nassert True\n```\n"
        "```python no-run\nassert False\n```\n"
    )
    assert len(examples.steps_of(page)) == 6
    assert not mismatches_of(page, tmp_path)


def test_examples_run_the_code_of_this_checkout(tmp_path):
    page = f"```python\nimport handlens\nassert handlens.__file__.startswith({str(ROOT)!r}), handlens.__file__\n```\n"
    assert not mismatches_of(page, tmp_path)


def test_output_is_refreshed_and_durations_are_left_alone(tmp_path):
    page = "a\n```python\n1\n```\n```console approx\n$ echo 2\n1\n3\n$ echo 1.5 s\n9.9 s\n```\nb\n```text\n$ c\n```\n"
    results = examples.run_steps(examples.steps_of(page), tmp_path)
    assert examples.updated(page, results) == page.replace("$ echo 2\n1\n3\n", "$ echo 2\n2\n")


# --- the command line ---------------------------------------------------------------------------------------------


def make_cli():
    return load("make_cli")


def commands():
    """Every command with its path: `score cells` too."""
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
    for name, command in commands():
        if name not in sections:
            yield name
            continue
        for option in (param for param in command.params if isinstance(param, click.Option) and not param.hidden):
            for flag in option.opts:
                if not re.search(rf"(?<![\w-]){flag}(?![\w-])", sections[name]):
                    yield f"{name} {flag}"


def test_the_page_of_the_command_line_is_up_to_date():
    assert make_cli().PAGE.read_text("utf-8") == make_cli().render(), "run python docs/make_cli.py"


def test_every_command_and_option_is_documented():
    page = make_cli().PAGE.read_text("utf-8")
    trained = [name for name in registry.BUILT_IN if registry.challenge(name).train]
    judged = [name for name in registry.BUILT_IN if registry.challenge(name).judge]
    masks = [name for name in registry.BUILT_IN if registry.challenge(name).masks]
    assert len(list(commands())) == 19 + 7 * len(registry.BUILT_IN) + len(trained) + len(judged) + 2 * len(masks)
    assert not list(undocumented(page))
    assert list(undocumented(page.replace("--average", "--mean"))) == ["score ink --average"]
    assert "solve ink" in list(undocumented(page.replace("# handlens solve ink", "# handlens read ink")))


def test_the_page_does_not_depend_on_terminal_or_plug_ins(monkeypatch):
    page = make_cli().render()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(registry, "names", lambda: [*registry.BUILT_IN, "stranger"])
    assert make_cli().render() == page


@pytest.mark.parametrize("page", ["README.md", "docs/guides/research-integrity.md"])
def test_pages_agree_on_whom_inspection_accused_and_when(page):
    told = " ".join((ROOT / page).read_text().split()).lower()
    assert "before its last fit it accused 17 of 106" in told
    assert "14 of 56 gels; since then 3 of 60 rendered charts and tables, about 17 before" in told


def test_every_command_is_in_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [name for name in cli.commands if f"`handlens {name}" not in readme] == []


# --- pages and links ----------------------------------------------------------------------------------------------


def prose_of(text):
    """The text without code and comments."""
    for pattern in (r"^```.*?^```$", r"<!--.*?-->", r"`[^`\n]*`"):
        text = re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def anchors_of(text):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page, text):
    """Relative links, images too, that lead nowhere, or to a heading that is not there."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(text)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        place = page.parent / path if path else page
        content = (
            text if place == page else place.read_text("utf-8") if place.suffix == ".md" and place.is_file() else ""
        )
        if not (place == page or place.exists()) or (anchor and anchor not in anchors_of(content)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page):
    assert broken_links(page, page.read_text("utf-8")) == []


def test_a_broken_link_is_found():
    text = "# A: b\n[a](docs/none.md) [b](README.md#two-commands) [c](https://example.org) ![d](none.jpg) `[e](no.md)` [f](#a-b) [g](README.md#none)"
    assert broken_links(ROOT / "TEXT.md", text) == ["docs/none.md", "none.jpg", "README.md#none"]
    assert broken_links(ROOT / "README.md", "# A: b\n[f](#a-b) [g](#c)") == ["#c"]


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_challenge_has_a_page_and_the_readme_links_to_it(name):
    page = (DOCS / "challenges" / f"{name}.md").read_text("utf-8")
    assert page.startswith(f"# {name}: ")
    assert f"(docs/challenges/{name}.md)" in (ROOT / "README.md").read_text("utf-8")
    for field in fields_of(registry.challenge(name).settings_type):
        assert not field.commands or f"--{field.path.replace('_', '-')}" in page
    codec = registry.challenge(name).codec(registry.challenge(name).settings())
    assert f"{codec.id_column},{codec.columns[0]}" in page or f"`{codec.id_column}` and one" in page


# --- the site -----------------------------------------------------------------------------------------------------

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?([^"'\s>]+)|<link\b[^>]*?\bhref=["']?([^"'\s>]+)"""
)


def loaded_from_the_network(page):
    """What a page would fetch from elsewhere when it is opened; links that a person clicks are not meant."""
    found = ["".join(pair) for pair in LOADED.findall(page)]
    return [url for url in found if re.match(r"(?:https?:)?//", url)]


def test_what_a_page_loads_is_found():
    page = '<script src="https://a/b.js"></script><link rel=stylesheet href="//c/d.css"><img alt="" src=http://e>'
    assert loaded_from_the_network(page) == ["https://a/b.js", "//c/d.css", "http://e"]
    assert loaded_from_the_network('<a href="https://a">a</a><img src="b.jpg"><script src="../c.js"></script>') == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_the_network(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert {page.name: urls for page in pages if (urls := loaded_from_the_network(page.read_text("utf-8")))} == {}
    styles = [
        path for path in site.rglob("*.css") if re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text())
    ]
    assert styles == []


def test_the_site_has_every_page_the_api_and_the_cards(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).is_file(), page
    for name in ("index", "project/contributing", "project/changelog", "models/cells", "models/ink", "models/lesions"):
        assert (site / f"{name}.html").is_file()
    api = html.unescape((site / "reference" / "python.html").read_text("utf-8"))
    assert all(f'id="handlens.{name}"' in api for name in ("solve", "score", "train", "challenge"))
    assert "&gt;&gt;&gt;" not in re.sub(
        r"<pre>.*?</pre>", "", (site / "reference" / "python.html").read_text(), flags=re.DOTALL
    )


def test_blocks_of_the_site_are_highlighted(site):
    for page in site.rglob("*.html"):
        assert not re.search(r"<code>(console|python|sh|text)( [a-z-]+)?\n", page.read_text("utf-8")), page


def test_search_works_from_disk(site):
    text = (site / "search" / "search_index.js").read_text("utf-8")
    index = json.loads(text.removeprefix("var __index = "))
    found = {PurePosixPath(entry["location"].partition("#")[0]).name for entry in index["docs"]}
    assert {"tutorial.html", "python.html", "detector.html"} <= found


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
    page = (DOCS / "how-it-works" / "extend" / "challenge.md").read_text("utf-8")
    example = (ROOT / "tests" / "example_plugin" / "brightness.py").read_text("utf-8")
    blocks = [content for kind, content in examples.fenced(page) if kind == "python"]
    assert len(blocks) >= 6
    assert [block for block in blocks if block not in example and "check_challenge" not in block] == []
    tables = [tomllib.loads(content) for kind, content in examples.fenced(page) if kind == "toml"]
    (table,) = (table for table in tables if "project" in table)
    assert table["project"]["entry-points"][registry.GROUP] == {"brightness": "brightness:CHALLENGE"}


@pytest.mark.parametrize("kind", [Challenge, Codec, Truth, Case])
def test_the_page_about_plug_ins_names_every_field(kind):
    page = (DOCS / "how-it-works" / "extend" / "challenge.md").read_text("utf-8")
    table = page.partition(f"| field of `{kind.__name__}` |")[2].partition("\n\n")[0]
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in table.replace("\n", " ")] == []


# --- licences -----------------------------------------------------------------------------------------------------


def licence_of(path):
    """The SPDX identifier that REUSE.toml gives a file: the last match counts."""
    found = None
    for entry in tomllib.loads((ROOT / "REUSE.toml").read_text("utf-8"))["annotations"]:
        patterns = [entry["path"]] if isinstance(entry["path"], str) else entry["path"]
        if any(re.fullmatch(re.escape(pattern).replace(r"\*\*", ".*"), path) for pattern in patterns):
            found = entry["SPDX-License-Identifier"]
    return found


def test_every_licence_in_use_has_its_text_and_every_text_a_use():
    annotations = tomllib.loads((ROOT / "REUSE.toml").read_text("utf-8"))["annotations"]
    used = {entry["SPDX-License-Identifier"] for entry in annotations}
    assert used == {path.stem for path in (ROOT / "LICENSES").iterdir()}
    assert (ROOT / "LICENSES" / "Apache-2.0.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize(
    "card", sorted(ROOT.glob("src/handlens/challenges/*/model/card.md")), ids=lambda p: p.parts[-3]
)
def test_every_model_card_names_its_licence(card):
    section = card.read_text("utf-8").partition("\n## Licence\n")[2].partition("\n## ")[0]
    licence = licence_of(card.relative_to(ROOT).as_posix())
    assert section.strip().startswith(f"{licence}: ")
    assert ("non-commercial use only" in section) == ("-NC-" in licence)
    assert licence_of(card.with_name("model.onnx").relative_to(ROOT).as_posix()) == licence
    for page in (ROOT / "README.md", DOCS / "reference" / "licences.md"):
        assert re.search(
            rf"^\| `[^|]*{card.parts[-3]}[^|]*\|.*{re.escape(licence)}", page.read_text("utf-8"), re.MULTILINE
        ), page


@pytest.mark.parametrize(
    "card", sorted(ROOT.glob("src/handlens/challenges/*/model/card.md")), ids=lambda p: p.parts[-3]
)
def test_a_generated_card_has_the_sections_of_the_included_ones(card):
    plan = read_plan(card.parent)
    if not plan.ids:  # left out of the included plan: there are thousands
        plan = replace(
            plan, ids=("a", "b", "c"), fold_of=(0, 1, 2), results={**plan.results, "scores": {"a": 1, "b": 0, "c": 0}}
        )
    schedule = Schedule(licence=plan.results["licence"], note="Training data: slides of ours.")
    made = write_card(plan, schedule, plan.results, ["Predicts."])
    heading = re.compile(r"^(?:#+ .+|\| (?:setting|fold) \|.*)$", re.MULTILINE)
    assert heading.findall(made) == heading.findall(card.read_text("utf-8"))
    section = made.partition("\n## Licence\n")[2].partition("\n## ")[0]
    assert section.strip().startswith(licence_of(card.relative_to(ROOT).as_posix()))
    assert ("non-commercial use only" in section) == ("-NC-" in schedule.licence)
    assert "Training data: slides of ours." in section
    assert "Not recorded" in write_card(plan, Schedule(), plan.results, ["Predicts."])


def test_code_is_under_the_licence_of_the_project():
    assert licence_of("src/handlens/cli/__init__.py") == "Apache-2.0"


# --- words --------------------------------------------------------------------------------------------------------

DIALECT = (
    *(
        "asked of a network",
        "told to solve",
        "by lot",
        "without a find",
        "the plain solver",
        "plain solvers",
        "made-up",
    ),
    *("answered by", "answered out of fold", "learned from", "goes on from", "begins anew", "key point", "the law is"),
    *("worth a point", "no split may part", "parted", "a form for each challenge", "as it was ordered"),
)
"""Home-grown phrases with a term of the field in their place; see the glossary of CONTRIBUTING."""


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_pages_use_the_terms_of_the_field(page):
    if page.name != "cli.md":  # generated from the help texts
        prose = " ".join(prose_of(page.read_text("utf-8")).lower().split())
        assert [phrase for phrase in DIALECT if phrase in prose] == []


WORDS = ("learned from", "answered by", "parted", "key point")
"""Of these phrases, those that are ordinary English elsewhere: there they may stand in code."""


def test_docstrings_and_messages_use_the_terms_of_the_field():
    texts = {
        f"{path.relative_to(ROOT)}:{node.lineno}": " ".join(node.value.lower().split())
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    phrases = [phrase for phrase in DIALECT if phrase not in WORDS]
    assert {place: text for place, text in texts.items() if any(phrase in text for phrase in phrases)} == {}


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


@pytest.mark.slow
def test_no_text_speaks_of_the_place_where_it_was_written():
    texts = project_texts()
    assert {"README.md", "groups.py", "rules.md", "pyproject.toml", "test_docs.py", "mkdocs.yml"} <= {
        path.name for path in texts
    }
    assert {
        str(path.relative_to(ROOT)): words for path in texts if (words := unwanted_words(path.read_text("utf-8")))
    } == {}
    assert unwanted_words(f"a {UNWANTED[1]} of mine in {UNWANTED[0]}x") == list(UNWANTED)
