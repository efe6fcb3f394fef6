"""Outputs in a bucket: worked on in a folder of this machine, and uploaded when they are finished.

A bucket has neither locks nor renames, so a run cannot be told from half a run there. `run.json` is uploaded last.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handlens.cli.output import message
from handlens.errors import counted
from handlens.io.gate import RemotePath, is_there, read_bytes
from handlens.runstore.store import LOCK, MANIFEST, UNFINISHED

DONE = ".finished"
"""In the folder: nothing is left to do but to upload it."""


@contextmanager
def output_folder(out: Path) -> Iterator[Path]:
    """The folder to write into: `out` itself, or one of this machine whose files are uploaded at the end.

    What is stopped or fails is kept there, and the same command goes on with it.
    """
    if not isinstance(out, RemotePath):
        yield out
        return
    if out.scheme in ("http", "https"):
        raise out.closed()
    key = hashlib.sha256("\0".join([str(out), *sys.argv[1:]]).encode(errors="replace")).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"handlens-upload-{key}"
    folder.mkdir(exist_ok=True)
    if (folder / DONE).exists():
        _upload(folder, out)
        message(f"{out}: uploaded what the same command had finished before")
        sys.exit(0)
    manifest = out / MANIFEST
    if not any(folder.iterdir()) and is_there(manifest):  # of another run, perhaps: then it is refused as on a disk
        (folder / MANIFEST).write_bytes(read_bytes(manifest, most=1 << 24))
    try:
        yield folder
    except BaseException:
        if not any(path.name not in (MANIFEST, LOCK) for path in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / DONE).touch()
    _upload(folder, out)


def _upload(folder: Path, out: RemotePath) -> None:
    from handlens.io.remote.reading import askers, write

    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in (LOCK, DONE)]
    files = [path for path in files if UNFINISHED not in path.parts and path != folder / MANIFEST]
    targets = [out / path.relative_to(folder).as_posix() for path in files]
    for _ in askers().map(write, targets, files):
        pass
    if (folder / MANIFEST).exists():
        write(out / MANIFEST, folder / MANIFEST)
    shutil.rmtree(folder, ignore_errors=True)
    message(f"{out}: {counted(len(files) + 1, 'file')} uploaded")
