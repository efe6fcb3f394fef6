"""`data --download`: the contest's data through the `kaggle` command line, unpacked. We read and keep no credential."""

from __future__ import annotations

import shutil
import stat
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from handlens.errors import DataError, HandlensError
from handlens.io.files import new_folder
from handlens.types import AnyChallenge

PROGRAM = "kaggle"
NESTED = 2
"""How deep archives may lie in archives."""


def download(
    challenge: AnyChallenge, folder: Path, *, contest: str | None = None, program: Sequence[str] = (PROGRAM,)
) -> None:
    """Fetch and unpack the data of a challenge into a new folder; HandlensError says what to run where that fails."""
    contest = contest or challenge.contest
    if not contest:
        what = f"no contest at Kaggle is known for {challenge.name}"
        raise HandlensError(f"{what}: get its data from the organiser, or name the contest with --contest")
    where = f"https://www.kaggle.com/competitions/{contest}"
    command = [*program, "competitions", "download", "-c", contest, "-p"]
    shown = " ".join([PROGRAM, *command[len(program) :], str(folder)])
    if shutil.which(program[0]) is None:
        remedy = f"pip install kaggle, then {PROGRAM} auth login, accept the rules at {where}/rules, and run this again"
        raise HandlensError(
            f"the program {PROGRAM} is not installed: {remedy}\n  or run by hand: {shown}, and unpack it"
        )
    with new_folder(folder) as place:
        done = subprocess.run(
            [*command, str(place)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise HandlensError(_explain(done.stdout, where, shown))
        archives = sorted(place.rglob("*.zip"))
        if not archives and not any(place.iterdir()):
            raise HandlensError(f"{PROGRAM} fetched nothing: run it by hand to see why: {shown}")
        for archive in archives:
            unpack(archive, depth=NESTED)
        _lift_single_folder(place)


def _explain(output: str, where: str, shown: str) -> str:
    """What to do about a failure; nothing of the output is shown that could hold a credential."""
    if "403" in output or ("accept" in output.lower() and "rules" in output.lower()):
        return f"kaggle refuses (403): accept the rules at {where}/rules with the same account, then run this again"
    if "401" in output or "credential" in output.lower() or "kaggle.json" in output or "authenticate" in output.lower():
        return f"kaggle has no credentials that work: run `{PROGRAM} auth login`, then run this again"
    if "404" in output:
        return f"kaggle does not know this contest any more (404): look at {where}"
    return f"kaggle failed: run it by hand to see why: {shown}"


def unpack(archive: Path, *, depth: int) -> None:
    """Unpack an archive beside itself and remove it; names that lead elsewhere and links are refused."""
    try:
        with zipfile.ZipFile(archive) as opened:
            items = [item for item in opened.infolist() if not item.is_dir()]
            for item in items:
                _refuse_odd(item, archive)
            for item in items:
                target = archive.parent.joinpath(*PurePosixPath(item.filename).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(item) as source, target.open("wb") as stream:
                    shutil.copyfileobj(source, stream, 1 << 20)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(f"not a zip archive that can be read ({error}): fetch it again", file=archive) from None
    inner = [archive.parent.joinpath(*PurePosixPath(item.filename).parts) for item in items]
    archive.unlink()
    for path in inner:
        if path.suffix == ".zip" and depth > 1:
            unpack(path, depth=depth - 1)


def _refuse_odd(item: zipfile.ZipInfo, archive: Path) -> None:
    name = PurePosixPath(item.filename)
    if name.is_absolute() or ".." in name.parts or "\\" in item.filename or stat.S_ISLNK(item.external_attr >> 16):
        raise DataError(f"its entry {item.filename!a} leads out of the folder: not unpacked", file=archive)


def _lift_single_folder(place: Path) -> None:
    """Where all lies in one folder, its content takes its place."""
    inside = list(place.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and inside[0].name not in ("train", "test", "im"):
        aside = inside[0].rename(place / ".lifted")
        for path in list(aside.iterdir()):
            path.rename(place / path.name)
        aside.rmdir()
