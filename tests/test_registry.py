"""Built-in challenges and plug-ins, found as an installed package would be."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from handlens import registry
from handlens.cli import cli
from handlens.errors import HandlensError
from handlens.testing import check_challenge

PLUG_IN = Path(__file__).parent / "example_plugin"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An environment in which the example plug-in is installed, and a broken one beside it."""
    metadata = tmp_path / "brightness-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: brightness\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[handlens.challenges]\nbrightness = brightness:CHALLENGE\nbroken = no_such_module:X\nodd = brightness:parse\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(PLUG_IN))


def test_the_built_in_challenges():
    assert registry.names()[:4] == ["forgery", "ink", "cells", "lesions"]
    for name in registry.BUILT_IN:
        assert registry.challenge(name).name == name


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(HandlensError, match="'nope' is not a challenge; there are forgery, ink, cells, lesions"):
        registry.challenge("nope")


def test_a_plug_in_is_found_and_keeps_the_contract(installed, tmp_path):
    assert "brightness" in registry.names()
    check_challenge(registry.challenge("brightness"), tmp_path / "world")


def test_a_plug_in_has_all_commands(installed, tmp_path):
    def run(*args):
        return CliRunner().invoke(cli, list(map(str, args)))

    assert run("sample", "brightness", tmp_path / "data").exit_code == 0
    solved = run("solve", "brightness", tmp_path / "data", "-o", tmp_path / "out")
    assert "score 1.0" in solved.output
    scored = run("score", "brightness", tmp_path / "out" / "submission.csv", "--truth", tmp_path / "data")
    assert scored.output.startswith("brightness 1.0")


def test_a_broken_plug_in_is_named(installed):
    with pytest.raises(HandlensError, match="plug-in for broken cannot be loaded: ModuleNotFoundError"):
        registry.challenge("broken")
    with pytest.raises(HandlensError, match="plug-in for odd is no Challenge"):
        registry.challenge("odd")


def test_a_broken_plug_in_does_not_hide_the_others(installed):
    for args in (["list"], ["score", "--help"]):
        done = CliRunner().invoke(cli, args)
        assert done.exit_code == 0
        assert "lesions" in done.output
        assert "plug-in for broken cannot be loaded" in done.output
    done = CliRunner().invoke(cli, ["score", "broken", "x.csv", "--truth", "y"])
    assert "cannot be loaded" in str(done.exception)
