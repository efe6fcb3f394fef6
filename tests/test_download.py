"""`data --download`: the kaggle program is called, what arrives is unpacked and checked; here by a stand-in for it."""

import os
import stat
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from handlens import pipeline, registry
from handlens.cli import cli
from handlens.errors import DataError, HandlensError


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """Puts a program of this name on the path that does what the shell script says, and writes its arguments down."""

    def install(script):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "kaggle"
        program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "called"

    return install


@pytest.fixture
def archive(tmp_path):
    """The data of a contest as it arrives: one zip."""
    data = tmp_path / "made"
    pipeline.sample(registry.challenge("forgery"), data, seed=1, cases=2, size=96)
    path = tmp_path / "contest.zip"
    with zipfile.ZipFile(path, "w") as opened:
        for file in sorted(data.rglob("*")):
            if file.is_file() and "truth" not in file.parts:
                opened.write(file, file.relative_to(data))
    return path


def test_data_is_fetched_unpacked_and_checked(kaggle, archive, tmp_path):
    called = kaggle(f'cp {archive} "$6"/')
    result = CliRunner().invoke(cli, ["data", "forgery", str(tmp_path / "data"), "--download"])
    assert result.exit_code == 0, result.output
    assert "no problems found" in result.output
    words = called.read_text().split()
    assert words[:4] == ["competitions", "download", "-c", "recodai-luc-scientific-image-forgery-detection"]
    assert (tmp_path / "data" / "test_images").is_dir()
    assert not list((tmp_path / "data").glob("*.zip"))


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("403 - Forbidden - you must accept the rules", "accept the rules at https://www.kaggle.com/competitions/"),
        ("401 - Unauthorized", "no credentials that work"),
        ("Could not find kaggle.json. Make sure it is located in /secret/place", "no credentials that work"),
        ("404 - Not Found", "does not know this contest"),
        ("something else token=SECRET", "run it by hand to see why"),
    ],
)
def test_a_refusal_says_what_to_do_and_shows_nothing_of_a_credential(kaggle, tmp_path, says, expected):
    kaggle(f"echo '{says}' >&2; exit 1")
    with pytest.raises(HandlensError, match=expected) as error:
        pipeline.download(registry.challenge("forgery"), tmp_path / "data")
    assert "SECRET" not in str(error.value)
    assert "/secret/place" not in str(error.value)
    assert not (tmp_path / "data").exists()


def test_without_the_program_it_says_what_to_install(tmp_path):
    with pytest.raises(HandlensError, match="pip install kaggle") as error:
        pipeline.download(registry.challenge("ink"), tmp_path / "data", program=("no-such-kaggle",))
    assert "vesuvius-challenge-ink-detection/rules" in str(error.value)
    assert "kaggle competitions download" in str(error.value)


def test_a_challenge_without_a_contest_needs_a_name(kaggle, archive, tmp_path):
    with pytest.raises(HandlensError, match="--contest"):
        pipeline.download(registry.challenge("cells"), tmp_path / "data")
    called = kaggle(f'cp {archive} "$6"/')
    pipeline.download(registry.challenge("cells"), tmp_path / "data", contest="mine")
    assert "-c mine" in called.read_text()


def test_a_program_that_fetches_nothing_leaves_nothing(kaggle, tmp_path):
    kaggle("exit 0")
    with pytest.raises(HandlensError, match="fetched nothing"):
        pipeline.download(registry.challenge("ink"), tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["../out.txt", "/abs.txt", "a\\..\\b.txt", "link"])
def test_archives_that_lead_elsewhere_are_refused(kaggle, tmp_path, name):
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w") as opened:
        item = zipfile.ZipInfo(name)
        item.filename = name
        item.external_attr = (stat.S_IFLNK | 0o777) << 16 if name == "link" else 0o644 << 16
        opened.writestr(item, "x")
    kaggle(f'cp {path} "$6"/')
    with pytest.raises(DataError, match="leads out of the folder"):
        pipeline.download(registry.challenge("ink"), tmp_path / "data")
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "out.txt").exists()


def test_a_damaged_archive_is_refused(kaggle, tmp_path):
    Path(tmp_path / "odd.zip").write_bytes(b"PK\x03\x04 no")
    kaggle(f'cp {tmp_path}/odd.zip "$6"/')
    with pytest.raises(DataError, match="not a zip archive"):
        pipeline.download(registry.challenge("ink"), tmp_path / "data")


def test_archives_in_archives_and_a_single_folder_around_all(kaggle, tmp_path):
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as opened:
        opened.writestr("a/b.txt", "b")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as opened:
        opened.write(tmp_path / "inner.zip", "contest/inner.zip")
    kaggle(f'cp {tmp_path}/outer.zip "$6"/')
    pipeline.download(registry.challenge("ink"), tmp_path / "data")
    found = [path.relative_to(tmp_path / "data").as_posix() for path in (tmp_path / "data").rglob("*.txt")]
    assert found in (["a/b.txt"], ["b.txt"])
