"""What a long prediction leaves while it is at work: lines of tiles as files, so that a killed run goes on."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.sheet import Depths
from handlens.challenges.ink.window import REGION
from handlens.io.files import replacing, write_text

FOLDER = "unfinished"
"""Beside the submission, a folder for each fragment at work; gone when its answer is there."""

KEY = "key.txt"
SHEET = "sheet.npz"


@dataclass(frozen=True, slots=True)
class Bands:
    """A folder of finished lines. What was made with another key is removed."""

    folder: Path
    key: str

    def open(self) -> Bands:
        """Ready to be used: the folder is there, with what an earlier run of the same key left."""
        try:
            same = (self.folder / KEY).read_text(encoding="utf-8") == self.key
        except (OSError, ValueError):
            same = False
        if not same:
            shutil.rmtree(self.folder, ignore_errors=True)
            write_text(self.folder / KEY, self.key)
        return self

    def load(self, line: int) -> npt.NDArray[np.float32] | None:
        """A finished line; None where it is not there, or cannot be read."""
        try:
            answer = np.load(self.folder / f"line{line:04d}.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return np.asarray(answer, np.float32)

    def save(self, line: int, answer: npt.NDArray[np.float32]) -> None:
        with replacing(self.folder / f"line{line:04d}.npy") as temporary:
            np.save(temporary, answer)

    def load_sheet(self) -> Depths | None:
        """The surface that an earlier run found."""
        try:
            with np.load(self.folder / SHEET, allow_pickle=False) as content:
                return Depths(REGION, content["values"], content["clear"])
        except (OSError, ValueError, EOFError, KeyError):
            return None

    def save_sheet(self, depths: Depths) -> None:
        with replacing(self.folder / SHEET) as temporary:
            np.savez(temporary, values=depths.values, clear=depths.clear)

    def remove(self) -> None:
        """Forget all, and the folder around it where it is empty."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:
            return
