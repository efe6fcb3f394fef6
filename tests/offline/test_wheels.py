import base64
import hashlib
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

import handlens
from handlens.errors import DataError, HandlensError
from handlens.offline.wheels import (
    Target,
    Wheel,
    _refuse_stale,
    build_own_wheel,
    missing_from,
    read_provided,
    read_wheel,
    undeclared_imports,
)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return build_own_wheel(tmp_path_factory.mktemp("wheel"))


def test_our_wheel_has_all_files_with_their_hashes(own):
    with zipfile.ZipFile(own) as archive:
        names = set(archive.namelist())
        info = next(name for name in names if name.endswith("/RECORD"))
        for line in archive.read(info).decode().splitlines():
            name, digest, size = line.rsplit(",", 2)
            if digest:
                content = archive.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                assert (digest, int(size)) == (f"sha256={found}", len(content))
    assert {"handlens/__init__.py", "handlens/challenges/cells/model/model.onnx"} <= names
    assert {"handlens/offline/templates/setup.percent", "handlens/py.typed"} <= names
    assert not [name for name in names if "__pycache__" in name]


def test_the_same_files_make_the_same_wheel(own, tmp_path):
    assert build_own_wheel(tmp_path).read_bytes() == own.read_bytes()


def test_what_our_wheel_says_of_itself(own):
    wheel = read_wheel(own)
    assert wheel.name == "handlens"
    assert "Apache-2.0" in wheel.licence
    assert any(text.startswith("numpy") for text in wheel.requires)


def test_a_file_that_is_no_wheel_is_refused(tmp_path):
    path = tmp_path / "odd-1.0-py3-none-any.whl"
    path.write_bytes(b"PK")
    with pytest.raises(DataError, match="no wheel"):
        read_wheel(path)


def test_a_platform_takes_wheels_of_older_ones():
    names = Target("3.12", "manylinux_2_28_x86_64").platforms
    assert names[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"} <= set(names)
    assert "manylinux_2_29_x86_64" not in names


@pytest.mark.parametrize(
    ("file", "python", "platform", "fits"),
    [
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "3.12", "manylinux_2_28_x86_64", True),
        ("a-1-cp312-cp312-manylinux_2_34_x86_64.whl", "3.12", "manylinux_2_28_x86_64", False),
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.whl", "3.12", "manylinux_2_28_x86_64", False),
        ("a-1-cp39-abi3-manylinux_2_17_x86_64.whl", "3.12", "manylinux_2_28_x86_64", True),
        ("a-1-cp312-cp312-manylinux_2_17_aarch64.whl", "3.12", "manylinux_2_28_x86_64", False),
        ("a-1-py3-none-any.whl", "3.12", "manylinux_2_28_aarch64", True),
    ],
)
def test_which_wheels_fit_a_target(tmp_path, file, python, platform, fits):
    problems = missing_from([made(tmp_path, file.replace("a-1", "handlens-1"))], Target(python, platform), (), ())
    assert (problems == []) is fits


def made(folder, file, *requires):
    from packaging.utils import parse_wheel_filename

    name, version, _, tags = parse_wheel_filename(file)
    return Wheel(folder / file, name, str(version), "MIT", requires, tags)


def test_a_checkout_that_changed_since_it_was_installed_is_refused(tmp_path):
    project = tmp_path / "pyproject.toml"
    found = metadata.distribution("handlens")
    text = (Path(handlens.__file__).parents[2] / "pyproject.toml").read_text()
    project.write_text(text)
    _refuse_stale(found, project)
    project.write_text(text.replace('"Pillow>=10.3"', '"Pillow>=10.3", "brotli>=1"'))
    with pytest.raises(HandlensError, match="brotli>=1.*install it again"):
        _refuse_stale(found, project)
    project.write_text(text.replace('version = "', 'version = "9', 1))
    with pytest.raises(HandlensError, match="installed"):
        _refuse_stale(found, project)
    _refuse_stale(found, tmp_path / "none.toml")


def test_an_import_that_no_requirement_names_is_found(own):
    wheel = read_wheel(own)
    assert undeclared_imports(wheel, [wheel], ()) == []
    stale = replace(wheel, requires=tuple(text for text in wheel.requires if not text.startswith("simplejpeg")))
    (problem,) = undeclared_imports(stale, [stale], ())
    assert "imports simplejpeg, which the wheel's requirements do not name" in problem
    assert undeclared_imports(stale, [stale], ["simplejpeg"]) == []


def test_what_an_extra_of_a_requirement_needs_must_be_there(tmp_path):
    wheels = [
        made(tmp_path, "handlens-1-py3-none-any.whl", "a[fast]"),
        made(tmp_path, "a-1-py3-none-any.whl", "b; extra == 'fast'", "c; extra == 'slow'"),
    ]
    assert missing_from(wheels, Target(), (), ()) == ['a needs b; extra == "fast", which is not there']
    assert missing_from(wheels[1:], Target(), (), ()) == ["no wheel of handlens is there"]


def test_every_requirement_must_be_met(tmp_path):
    wheels = [
        made(tmp_path, "handlens-1-py3-none-any.whl"),
        made(tmp_path, "a-1-py3-none-any.whl", "b>=2", "c", "d; python_version < '3.5'", "e; extra == 'more'", "f"),
        made(tmp_path, "b-1-py3-none-any.whl"),
    ]
    problems = missing_from(wheels, Target(), ["f"], ())
    assert sorted(problems) == ["a needs b>=2, there is 1", "a needs c, which is not there"]


@pytest.mark.parametrize(("python", "platform"), [("3", None), ("2.7", None), ("3.11.2", None), (None, "my platform")])
def test_odd_targets_are_refused(python, platform):
    with pytest.raises(HandlensError, match="expected"):
        Target(python, platform)


def test_what_is_provided_is_a_list_or_a_file(tmp_path):
    assert read_provided("numpy,SciPy==1.11") == {"numpy": "", "scipy": "1.11"}
    (tmp_path / "freeze.txt").write_text("# of the image\nnumpy==2.1\nodd_name @ file:///x\n-e git+x\n\n")
    assert read_provided(str(tmp_path / "freeze.txt")) == {"numpy": "2.1", "odd-name": ""}
    assert read_provided(None) == {}
    with pytest.raises(HandlensError, match="entry 2"):
        read_provided("numpy,not a name")
