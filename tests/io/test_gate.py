"""Files from outside: regular ones alone, refused at once, in every place; and no place that goes around the gate."""

import ast
import os
import signal
import socket
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import handlens
from handlens.errors import DataError, HandlensError
from handlens.io import csv, documents, gate, images, npy, tiff, volumes

SOURCE = Path(handlens.__file__).parent

KINDS = {"pipe": "a named pipe", "socket": "a socket", "device": "a device", "link": "a named pipe"}


def make(kind: str, path: Path) -> Path:
    """A pipe, a socket, a device or a link to a pipe in the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "socket":
        at = os.getcwd()
        os.chdir(path.parent)  # the name of a socket has a hundred letters at most
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        finally:
            os.chdir(at)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        os.mkfifo(path.with_name("pipe-behind-a-link"))
        path.symlink_to("pipe-behind-a-link")
    else:
        os.mkfifo(path)
    return path


@contextmanager
def in_time(seconds: int = 120):
    """A test that would wait for ever fails instead."""

    def stop(*_: Any) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def tables(path: Path) -> None:
    try:
        list(csv.read_rows(path))
    except csv.TableError as error:
        raise DataError(error.problem.what, file=path) from None


READERS: dict[str, Callable[[Path], Any]] = {
    "open_file": gate.open_file,
    "file_size": gate.file_size,
    "read_header": images.read_header,
    "read_image": images.read_image,
    "read_mask": images.read_mask,
    "read_npy": npy.read_npy,
    "read_rows": tables,
    "count_pages": documents.count_pages,
    "is_pdf": documents.is_pdf,
    "tiff": lambda path: tiff.opened(path).__enter__(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, reader: str, kind: str) -> None:
    path = make(kind, tmp_path / "a.png")
    with in_time(), pytest.raises(DataError, match=rf"a\.png: {KINDS[kind]}, not a regular file"):
        READERS[reader](path)


def test_links_to_regular_files_and_folders_are_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    Image.new("L", (5, 4)).save(tmp_path / "there" / "a.png")
    (tmp_path / "folder").symlink_to("there")
    (tmp_path / "file.png").symlink_to("there/a.png")
    assert (
        images.read_image(tmp_path / "file.png").shape == images.read_image(tmp_path / "folder/a.png").shape == (4, 5)
    )


def test_a_file_that_becomes_a_pipe_while_it_is_opened_is_refused(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    found = os.stat(path)
    make("pipe", path)
    monkeypatch.setattr(gate.os, "stat", lambda _: found)
    with in_time(), pytest.raises(DataError, match="a named pipe, not a regular file"):
        gate.open_file(path)


def test_a_name_with_a_zero_byte_is_refused() -> None:
    for read in (gate.open_file, gate.file_size):
        with pytest.raises(DataError, match="cannot be read"):
            read(Path("a\0b"))


def test_a_large_text_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="100 bytes; at most 99 are read"):
        gate.read_text(tmp_path / "a.json", most=99)


def test_no_message_shows_the_stream_behind_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a\.png: not a readable image \(cannot identify image file\): copy it again"):
        images.read_image(tmp_path / "a.png")


# --- where whole folders are read ---------------------------------------------------------------------------------


def test_a_pipe_among_slices_is_named(tmp_path: Path) -> None:
    for number in range(3):
        Image.fromarray(np.zeros((5, 6), np.uint16)).save(tmp_path / f"{number:02}.tif")
    make("pipe", tmp_path / "01.tif")
    with in_time():
        assert [str(problem) for problem in volumes.problems(tmp_path)] == [
            "01.tif: a named pipe, not a regular file: write it to a file first"
        ]


@pytest.mark.parametrize("name", ["zarr.json", ".zarray"])
def test_a_pipe_that_describes_an_array_is_named(tmp_path: Path, name: str) -> None:
    make("pipe", tmp_path / name)
    with in_time(), pytest.raises(DataError, match="a named pipe, not a regular file"):
        volumes.open_stack(tmp_path)


@pytest.mark.parametrize("challenge", ["forgery", "cells", "lesions"])
def test_a_pipe_as_the_only_picture_is_named(tmp_path: Path, challenge: str) -> None:
    path = make("pipe", tmp_path / "a.png")
    with in_time(), pytest.raises(HandlensError, match="a named pipe, not a regular file"):
        handlens.solve(challenge, path, out=tmp_path / "out")


@pytest.mark.parametrize("challenge", ["cells", "forgery", "lesions", "ink"])
def test_a_pipe_as_solution_file_is_named(tmp_path: Path, challenge: str) -> None:
    (tmp_path / "submission.csv").write_text("img,pixels\n0,\n")
    path = make("pipe", tmp_path / "a.csv")
    with in_time(), pytest.raises(HandlensError, match="a named pipe, not a regular file"):
        handlens.score(challenge, tmp_path / "submission.csv", truth=path)


def test_a_pipe_as_mask_of_a_fragment_does_not_count_as_absent(tmp_path: Path) -> None:
    from handlens.challenges.ink import data

    volume = tmp_path / "f" / "surface_volume"
    volume.mkdir(parents=True)
    Image.fromarray(np.zeros((5, 6), np.uint16)).save(volume / "00.tif")
    make("pipe", tmp_path / "f" / "mask.png")
    with in_time():
        (case,) = data.read_cases(tmp_path, "test")
    assert "a named pipe, not a regular file" in case.fault


def test_a_pipe_as_mask_to_encode_is_named(tmp_path: Path) -> None:
    from handlens import registry
    from handlens.pipeline.masks import encode_masks

    (tmp_path / "data").mkdir()
    (tmp_path / "masks").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "data" / "0.png")
    make("pipe", tmp_path / "masks" / "0.png")
    challenge = registry.challenge("cells")
    with in_time(), pytest.raises(HandlensError, match="a named pipe, not a regular file"):
        encode_masks(challenge, tmp_path / "masks", tmp_path / "data", tmp_path / "out.csv", challenge.settings())


@pytest.mark.parametrize("name", ["plan.json", "model.onnx"])
def test_a_pipe_in_a_model_folder_is_named(tmp_path: Path, name: str) -> None:
    included = SOURCE / "challenges" / "cells" / "model"
    for file in ("plan.json", "model.onnx"):
        (tmp_path / file).symlink_to(included / file)
    make("pipe", tmp_path / name)
    with in_time(), pytest.raises(HandlensError, match="a named pipe, not a regular file"):
        handlens.load("cells", model=tmp_path)


def test_a_pipe_as_run_or_as_page_is_named(tmp_path: Path) -> None:
    from handlens.challenges.forgery import inspection
    from handlens.runstore.store import read_manifest

    make("pipe", tmp_path / "run.json")
    with in_time(), pytest.raises(DataError, match="a named pipe, not a regular file"):
        read_manifest(tmp_path)
    make("pipe", tmp_path / "index.html")
    (tmp_path / "figures").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "figures" / "a.png")
    with in_time(), pytest.raises(DataError, match="a named pipe, not a regular file"):
        inspection.inspect_figures([tmp_path / "figures" / "a.png"], tmp_path)


def test_inspect_refuses_what_is_no_file_and_looks_at_the_rest(tmp_path: Path) -> None:
    from handlens.challenges.forgery import inspection

    for kind in KINDS:
        make(kind, tmp_path / f"{kind}.png")
    make("pipe", tmp_path / "a.pdf")
    Image.new("RGB", (40, 40)).save(tmp_path / "fine.png")
    with in_time(240):
        records = inspection.inspect_figures([tmp_path])
    errors = {record["figure"]: record.get("error", "") for record in records}
    assert errors.pop("fine.png") == ""
    assert errors.pop("a.pdf").startswith("a named pipe, not a regular file")
    assert {name: text.split(",")[0] for name, text in errors.items()} == {
        f"{kind}.png": words for kind, words in KINDS.items()
    }


# --- no place goes around the gate --------------------------------------------------------------------------------

READS = {
    *("open", "read_bytes", "read_text", "fromfile", "memmap", "open_memmap", "imread", "imreadmulti", "TiffFile"),
    *("ParquetFile", "read_table", "InferenceSession", "PdfDocument", "genfromtxt", "loadtxt", "is_file"),
}
"""Names of functions that open a file, or, the last, that take a pipe for nothing."""

LIBRARIES = ("np", "numpy", "torch", "onnx", "joblib")
"""Whose `load` opens a file."""

OWN = {
    "cli/uploads.py": "the folder in which an output is worked on before it is uploaded",
    "artefacts.py": "files that this run wrote",
    "challenges/cells/files.py": "parts of its own table",
    "challenges/forgery/inspection/__init__.py": "pages that this run wrote",
    "challenges/ink/dataset.py": "its own cache",
    "challenges/ink/sample.py": "slices that it just wrote",
    "challenges/lesions/training.py": "its own cache",
    "cli/solve.py": "what the kernel says of this process",
    "cli/surroundings.py": "nothing, in place of a closed stream",
    **dict.fromkeys(
        (
            *(f"challenges/{name}/report.py" for name in ("cells", "forgery", "ink", "lesions")),
            *("cli/report.py", "pipeline/run_report.py", "pipeline/score_report.py", "pipeline/solve_report.py"),
        ),
        "what a run wrote, and files that it has read before",
    ),
    **dict.fromkeys(
        (f"offline/{name}.py" for name in ("bundle", "contest", "entries", "notebooks", "wheels")),
        "bundles and wheels of its own, files that is_file looked at first, what the kernel says",
    ),
    "cli/app.py": "a page in a browser",
    "pipeline/download.py": "a member of an archive that it downloaded",
    "sandbox/container_child.py": "places that are bound into a container, not read",
    "sandbox/pdf.py": "what the kernel says of its child",
    "sandbox/packing.py": "opens without waiting, and refuses in the words of the judge",
    **dict.fromkeys(("web/jobs.py", "web/kinds.py", "web/server.py"), "uploads that the server stored itself"),
    "inference/cluster_worker.py": "files that its own task has just written",
    "inference/model.py": "names in a folder, of which the first is opened through the gate",
    "io/files.py": "what it wrote",
    "io/formats.py": "a name that is only mentioned",
    "io/gate.py": "the gate",
    "io/volumes/cache.py": "its own cache",
    "report/__init__.py": "pictures that this run wrote",
    "runstore/store.py": "journals, locks and checkpoints of its own",
    "sandbox/child.py": "nothing: the model comes through a pipe",
    "sandbox/frames.py": "a child's own descriptors; what it reads comes through a pipe",
    "sandbox/guard.py": "what the kernel says of this process",
    "sandbox/process.py": "control groups of the kernel",
    "sandbox/runner.py": "opens without waiting, and refuses in the words of the judge",
    "testing.py": "what the challenge under test wrote",
    "training/checkpoint.py": "its own checkpoints",
    "training/engine.py": "its own files",
    "training/export.py": "the model that was just exported",
    "training/loop.py": "its own log",
    "training/quantize.py": "the model that was just exported",
}
"""Modules that open files of their own making by these names, and which those are."""

THROUGH = {
    "inference/session.py": "onnxruntime.InferenceSession",  # after the gate looked at the file
    "io/csv.py": "pq.ParquetFile",
    "io/pdf.py": "pypdfium2.PdfDocument",
    "io/images.py": "Image.open",
    "io/npy.py": "np.memmap",
    "io/tiff.py": "tifffile.TiffFile",
    "training/encoders.py": "torch.load",
}
"""Libraries that are handed what the gate opened."""


def opens(source: str) -> list[tuple[int, str]]:
    """Line and name of every call that opens a file by its name, for reading."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if method else getattr(node.func, "id", "")
        owner = getattr(node.func.value, "id", "...") if method else ""
        if (name == "load" and owner not in LIBRARIES) or name not in (*READS, "load") or owner == "gate":
            continue
        if not method and name in ("read_bytes", "read_text"):
            continue  # the gate's own
        modes = [text.value for text in node.args if isinstance(text, ast.Constant) and isinstance(text.value, str)]
        if name in ("open", "open_memmap") and any(mode[:1] in ("w", "a", "x") for mode in modes):
            continue  # written, in a place of our own
        found.append((node.lineno, f"{owner}.{name}" if owner else name))
    return found


def test_the_walk_finds_what_it_should() -> None:
    assert opens("path.open('rb')\nnp.load(f)\nf.read_text()\ntifffile.TiffFile(p)") == [
        (1, "path.open"),
        (2, "np.load"),
        (3, "f.read_text"),
        (4, "tifffile.TiffFile"),
    ]
    assert opens("gate.read_bytes(p)\nopen_file(p)\np.open('w')\njson.load(s)") == []


def test_every_file_from_outside_is_opened_through_the_gate() -> None:
    around = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        for line, call in opens(path.read_text(encoding="utf-8")):
            if module not in OWN and THROUGH.get(module) != call:
                around.append(f"{module}:{line} {call}")
    assert around == []


def test_no_module_is_excused_that_opens_nothing() -> None:
    for module in {**OWN, **THROUGH}:
        if module != "io/gate.py":
            assert opens((SOURCE / module).read_text(encoding="utf-8")), module
