"""Outputs in a bucket: worked on in a folder of this machine, and uploaded when they are finished.

A bucket has neither locks nor renames, so a run cannot be told from half a run there. `run.json` is uploaded last.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from handlens.cli.output import message
from handlens.errors import DataError, counted
from handlens.io.files import write_text
from handlens.io.gate import RemotePath, is_there, read_bytes, read_text
from handlens.runstore.store import LOCK, MANIFEST, UNFINISHED, fingerprint_of

DONE = ".finished"
"""In the folder: nothing is left to do but to upload it. Holds the fingerprint of what it was made of."""


@contextmanager
def output_folder(out: Path, reads: Iterable[Path | None]) -> Iterator[Path]:
    """The folder to write into: `out` itself, or one of this machine whose files are uploaded at the end.

    What is stopped or fails is kept there, and the same command goes on with it. If files changed meanwhile that the
    command `reads`, what is finished is not uploaded: it is another run's folder then, as on a disk.
    """
    if not isinstance(out, RemotePath):
        yield out
        return
    if out.scheme in ("http", "https"):
        raise out.closed()
    folder = _own_folder(out)
    made_of = "\n".join([version("handlens"), *(fingerprint_of([], path, without=folder) for path in reads if path)])
    if is_there(folder / DONE) and read_text(folder / DONE) == made_of:
        _upload(folder, out)
        message(f"{out}: uploaded what the same command had finished before")
        sys.exit(0)
    (folder / DONE).unlink(missing_ok=True)
    manifest = out / MANIFEST
    if not any(folder.iterdir()) and is_there(manifest):  # of another run, perhaps: then it is refused as on a disk
        (folder / MANIFEST).write_bytes(read_bytes(manifest, most=1 << 24))
    try:
        yield folder
    except BaseException:
        if not any(path.name not in (MANIFEST, LOCK) for path in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    write_text(folder / DONE, made_of)
    _upload(folder, out)


def _own_folder(out: RemotePath) -> Path:
    """A folder that the same command finds again, and that nobody else can have made or look into."""
    words = [str(out), os.getcwd(), *sys.argv[1:]]
    key = hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"handlens-upload-{key}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise DataError("this is not a folder of yours: remove it, or set TMPDIR to a folder of yours", file=folder)
    folder.chmod(0o700)
    return folder


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
