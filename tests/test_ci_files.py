"""The workflow and the Dockerfile: read here, and their steps run, without an engine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOW, DOCKERFILE = ROOT / ".github" / "workflows" / "test.yml", ROOT / "Dockerfile"


def workflow_steps():
    yaml = pytest.importorskip("yaml")
    page = yaml.safe_load(WORKFLOW.read_text())
    assert page[True] == ["push", "pull_request"]  # YAML reads `on` as true
    assert page["permissions"] == {"contents": "read"}
    (job,) = page["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step], [
        step["uses"] for step in job["steps"] if "uses" in step
    ]


def docker_instructions():
    lines = re.sub(r"\\\n", " ", DOCKERFILE.read_text()).splitlines()
    return [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]


def test_the_workflow_does_the_two_commands_of_the_readme():
    runs, uses = workflow_steps()
    assert [run.split()[0] for run in runs] == ["scripts/demo", "scripts/test"]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in uses)
    readme = (ROOT / "README.md").read_text()
    assert "scripts/demo " in readme
    assert "scripts/test " in readme


def test_the_dockerfile_does_them_too_and_copies_all_they_need():
    words = docker_instructions()
    assert [name for name, _ in words if name not in ("FROM", "RUN", "COPY", "WORKDIR", "ENTRYPOINT", "CMD")] == []
    stages = [text.split(" AS ")[1] for name, text in words if name == "FROM"]
    assert stages == ["run", "demo", "test"]
    assert [text.split()[0] for name, text in words if name == "RUN"] == [
        "scripts/setup",
        "scripts/demo",
        "scripts/test",
    ]
    ignored = (ROOT / ".dockerignore").read_text().split()
    for needed in ("scripts", "src", "tests", "pyproject.toml", "constraints.txt", "docs", "README.md", "LICENSES"):
        assert needed not in ignored
        assert (ROOT / needed).exists()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy as a checkout is, with an environment that is set up already; its programs only write down calls."""
    folder = tmp_path_factory.mktemp("checkout") / "handlens"
    leave = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build", ".coverage*")
    shutil.copytree(ROOT, folder, ignore=leave)
    tools = folder / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("ruff", "mypy", "pytest", "pip", "handlens"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $@" >> {folder}/calls.txt\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    wanted = subprocess.run(
        "cat pyproject.toml constraints.txt | cksum | tr ' ' '-'",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for mark in (f"installed-{wanted}", f"installed-{wanted}-dev"):
        (folder / ".venv" / mark).touch()
    return folder


def run(step, folder):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "COVERAGE_"))}
    done = subprocess.run(
        ["bash", "-e", "-c", step], cwd=folder, env=clean, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_steps_of_both_files_run_here(checkout, tmp_path):
    steps = [*workflow_steps()[0], *(text for name, text in docker_instructions() if name == "RUN")]
    ran = set()
    for step in steps:
        step = step.replace("-o /demo", f"-o {tmp_path}/demo").replace("-o demo", f"-o {tmp_path}/demo")
        if step in ran:
            continue
        ran.add(step)
        run(step, checkout)
    calls = (checkout / "calls.txt").read_text()
    assert f"handlens demo -o {tmp_path}/demo" in calls  # what that does, test_cli.py shows
    assert "ruff check ." in calls
    assert "mypy" in calls
    assert "pytest -n 2" in calls
