"""`handlens bundle`: one folder with everything to solve a challenge without a network, and what checks it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handlens.errors import DataError, Problem, counted
from handlens.inference.model import is_model, open_model
from handlens.io.files import new_folder
from handlens.io.gate import is_there, read_text
from handlens.offline.notebooks import write_notebooks
from handlens.offline.wheels import (
    NAME,
    Target,
    Wheel,
    build_own_wheel,
    download_wheels,
    missing_from,
    read_provided,
    read_wheel,
    undeclared_imports,
)
from handlens.pipeline import challenge_of_model
from handlens.runstore.store import LOCK, UNFINISHED
from handlens.types import AnyChallenge

MANIFEST, METADATA = "manifest.json", "dataset-metadata.json"
KIND = "handlens bundle"
WHEELS, MODEL, NOTEBOOKS = "wheels", "model", "notebooks"
OWNER = "OWNER"
"""Stands in the metadata for the user's name at the contest's site, where none was given."""


@dataclass(frozen=True, slots=True)
class Request:
    """What goes into a bundle."""

    challenge: AnyChallenge
    model: Path | None = None
    target: Target = field(default_factory=Target)
    provided: str | None = None
    extras: tuple[str, ...] = ()
    owner: str = OWNER


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of a bundle."""

    path: str
    bytes: int
    sha256: str
    kind: str
    licence: str = ""
    version: str = ""


def make_bundle(request: Request, out: Path) -> dict[str, Any]:
    """Write the bundle, which appears whole or not at all; gives its manifest."""
    provided = read_provided(request.provided)
    if request.model is not None:
        _refuse_other_model(request)
    with new_folder(out) as folder:
        wheels = folder / WHEELS
        wheels.mkdir()
        own = build_own_wheel(wheels)
        download_wheels(own, wheels, request.target, provided, request.extras)
        if request.model is not None:
            _copy_model(request.model, folder / MODEL)
        write_notebooks(request.challenge, folder / NOTEBOOKS, model=request.model)
        version = read_wheel(own).version
        (folder / "README.md").write_text(_readme(request, version), encoding="utf-8")
        page = {
            "kind": KIND,
            "challenge": request.challenge.name,
            "handlens": version,
            "python": request.target.version,
            "platform": request.target.platform or "",
            "provided": provided,
            "extras": list(request.extras),
            "model": MODEL if request.model is not None else "",
            "files": [_entry_json(each) for each in _entries(folder, request)],
        }
        (folder / METADATA).write_text(json.dumps(_metadata(request), indent=1) + "\n", encoding="utf-8")
        (folder / MANIFEST).write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")
        if problems := verify_bundle(folder):
            first = "; ".join(str(problem) for problem in problems[:3])
            raise DataError(f"the bundle would not work: {first}", file=out)
    return page


def read_bundle(folder: Path) -> dict[str, Any]:
    """The manifest; DataError where the folder is no bundle."""
    if not is_there(folder / MANIFEST):
        raise DataError(f"no {MANIFEST} in it: name a folder that `handlens bundle` wrote", file=folder)
    try:
        page = json.loads(read_text(folder / MANIFEST))
    except ValueError:
        raise DataError("damaged: make the bundle again", file=folder / MANIFEST) from None
    wanted: dict[str, type] = {"kind": str, "challenge": str, "handlens": str, "python": str, "platform": str}
    wanted |= {"provided": dict, "extras": list, "model": str, "files": list}
    if not isinstance(page, dict) or any(not isinstance(page.get(name), kind) for name, kind in wanted.items()):
        raise DataError("not the manifest of a bundle, or of another version", file=folder / MANIFEST)
    return page


def verify_bundle(folder: Path) -> list[Problem]:
    """Every problem of a bundle: files that changed, lack or are too many; wheels that do not fit or need others."""
    page = read_bundle(folder)
    listed = {str(each.get("path")): each for each in page["files"] if isinstance(each, dict)}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST, METADATA}
    problems = [Problem("is missing", file=name) for name in sorted(listed.keys() - there)]
    problems += [Problem("is not in the manifest", file=name) for name in sorted(there - listed.keys())]
    for name in sorted(there & listed.keys()):
        if _sha256(folder / name) != listed[name].get("sha256"):
            problems.append(Problem("has changed since the bundle was made", file=name))
    wheels: list[Wheel] = []
    for path in sorted((folder / WHEELS).glob("*.whl")):
        try:
            wheels.append(read_wheel(path))
        except DataError as error:
            problems.append(error.problem(folder))
    target = Target(page["python"] or None, page["platform"] or None) if page["platform"] else Target(page["python"])
    problems += [Problem(text) for text in missing_from(wheels, target, page["provided"], page["extras"])]
    for own in (wheel for wheel in wheels if wheel.name == NAME):
        problems += [Problem(text) for text in undeclared_imports(own, wheels, page["provided"])]
    return problems


def sizes(page: dict[str, Any]) -> dict[str, int]:
    """Bytes by kind of file, and of all."""
    found: dict[str, int] = {}
    for each in page["files"]:
        found[each["kind"]] = found.get(each["kind"], 0) + each["bytes"]
    return {**found, "all": sum(found.values())}


def _refuse_other_model(request: Request) -> None:
    assert request.model is not None
    trained = challenge_of_model(request.model)
    if trained != request.challenge.name:
        raise DataError(f"this model was trained for {trained}, not {request.challenge.name}", file=request.model)


def _copy_model(model: Path, target: Path) -> None:
    """What `--model` needs of a run; not what it kept to resume."""
    leave = shutil.ignore_patterns(UNFINISHED, LOCK, "checkpoints", "*.ckpt", "*.pt")
    shutil.copytree(model, target, ignore=leave)


def _entries(folder: Path, request: Request) -> list[BundleFile]:
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        kind, licence, version = name.split("/")[0] if "/" in name else "text", "Apache-2.0", ""
        if kind == WHEELS:
            wheel = read_wheel(path)
            licence, version = wheel.licence, wheel.version
        elif kind == MODEL:
            licence = _model_licence(request)
        found.append(BundleFile(name, path.stat().st_size, _sha256(path), kind, licence, version))
    return found


def _model_licence(request: Request) -> str:
    if request.model is None or not is_model(request.model):
        return "Apache-2.0"
    return open_model(request.model, challenge=request.challenge.name).licence or "as its training data"


def _entry_json(entry: BundleFile) -> dict[str, Any]:
    page: dict[str, Any] = {"path": entry.path, "bytes": entry.bytes, "sha256": entry.sha256, "kind": entry.kind}
    return page | {"licence": entry.licence} | ({"version": entry.version} if entry.version else {})


def _metadata(request: Request) -> dict[str, Any]:
    """As `kaggle datasets create` wants it: title of 6 to 50 letters, owner/slug, one licence."""
    slug = f"handlens-{request.challenge.name}-offline"
    return {
        "title": f"handlens {request.challenge.name} offline",
        "id": f"{request.owner}/{slug}",
        "licenses": [{"name": "other"}],
    }


def _readme(request: Request, version: str) -> str:
    name = request.challenge.name
    return (
        f"# handlens {version} for {name}, without a network\n\n"
        f"Wheels for Python {request.target.version}, the model, and notebooks. Licences are in `{MANIFEST}`.\n\n"
        f"1. Put your name at the contest's site in place of `{OWNER}` in `{METADATA}`, then upload this folder:\n"
        "   `kaggle datasets create -p . --dir-mode zip`.\n"
        "2. Attach it and the contest's data to a notebook of `notebooks/`, switch the network off, and run it.\n\n"
        "On any machine: `pip install --no-index --find-links wheels handlens`.\n"
        "`handlens bundle --verify FOLDER` checks that nothing changed and nothing lacks.\n"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe_sizes(page: dict[str, Any]) -> list[str]:
    """Lines for a person: how large the parts are."""
    found = sizes(page)
    counts = {kind: sum(each["kind"] == kind for each in page["files"]) for kind in found if kind != "all"}
    lines = [f"{kind:<10} {found[kind] / 1e6:8.1f} MB  {counted(counts[kind], 'file')}" for kind in counts]
    return [*lines, f"{'all':<10} {found['all'] / 1e6:8.1f} MB"]


def names_of(page: dict[str, Any]) -> Sequence[str]:
    """The notebooks of a bundle, in order."""
    return [each["path"] for each in page["files"] if each["path"].endswith(".ipynb")]
