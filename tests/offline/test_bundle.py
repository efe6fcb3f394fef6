import json
import os
import shutil

import pytest
from click.testing import CliRunner

from handlens import registry
from handlens.cli import cli
from handlens.errors import DataError
from handlens.offline.bundle import MANIFEST, METADATA, Request, make_bundle, read_bundle, verify_bundle


def test_a_bundle_has_wheel_notebooks_and_a_manifest_with_hashes_and_licences(make):
    folder = make("cells")
    page = read_bundle(folder)
    kinds = {each["kind"] for each in page["files"]}
    assert kinds == {"wheels", "notebooks", "text"}
    assert all(len(each["sha256"]) == 64 and each["licence"] for each in page["files"])
    assert page["provided"]["numpy"]
    assert verify_bundle(folder) == []


def test_the_metadata_are_as_the_site_wants_them(make):
    page = json.loads((make("cells") / METADATA).read_text())
    assert set(page) == {"title", "id", "licenses"}
    owner, _, slug = page["id"].partition("/")
    assert owner
    assert 3 <= len(slug) <= 50
    assert 6 <= len(page["title"]) <= 50
    assert len(page["licenses"]) == 1


def test_every_change_of_a_bundle_is_found(make, tmp_path):
    folder = shutil.copytree(make("cells"), tmp_path / "bundle")
    (folder / "notebooks" / "01_setup_offline.ipynb").unlink()
    (folder / "README.md").write_text("other")
    (folder / "new.txt").write_text("new")
    page = read_bundle(folder)
    del page["provided"]["numpy"]
    (folder / MANIFEST).write_text(json.dumps(page))
    found = "\n".join(str(problem) for problem in verify_bundle(folder))
    assert "notebooks/01_setup_offline.ipynb: is missing" in found
    assert "new.txt: is not in the manifest" in found
    assert "README.md: has changed" in found
    assert "handlens needs numpy" in found
    result = CliRunner().invoke(cli, ["bundle", "--verify", str(folder)])
    assert result.exit_code == 1
    assert "would not work (" in result.output


def test_verify_on_the_command_line(make):
    result = CliRunner().invoke(cli, ["bundle", "--verify", str(make("cells"))])
    assert result.exit_code == 0
    assert "the bundle is whole" in result.output
    assert "MB" in result.output


def test_what_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(DataError, match="no manifest.json"):
        read_bundle(tmp_path)
    (tmp_path / MANIFEST).write_text("[]")
    with pytest.raises(DataError, match="not the manifest of a bundle"):
        read_bundle(tmp_path)
    (tmp_path / MANIFEST).unlink()
    os.mkfifo(tmp_path / MANIFEST)  # reading it would wait for ever
    with pytest.raises(DataError, match="a named pipe, not a regular file"):
        read_bundle(tmp_path)


def test_a_model_of_another_challenge_is_refused_and_nothing_is_left(tmp_path):
    model = registry.challenge("ink").rules.with_name("model")
    with pytest.raises(DataError, match="trained for ink"):
        make_bundle(Request(registry.challenge("cells"), model=model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_touched(tmp_path, make):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        make_bundle(Request(registry.challenge("cells"), provided="numpy"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
